"""Whatever kafka-python's producer can write is read as kafka-python's consumer reads it."""

from __future__ import annotations

import struct
from typing import Any

import kafka.codec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.unit.records.building import (
    CODECS,
    a_batch,
    a_reader,
    a_record,
    kafka_python_takes,
    take_all,
)

#: The codecs that kafka-python can use here; it has extras of its own.
READY = [
    number for name, number in CODECS.items() if getattr(kafka.codec, f"has_{name}", lambda: True)()
]

contents = st.none() | st.binary(max_size=200)
timestamps = st.integers(0, 2**41)
headers = st.lists(st.tuples(st.text(max_size=20), contents), max_size=4)
appended = st.tuples(timestamps, contents, contents, headers)
batches = st.lists(
    st.tuples(
        st.sampled_from(READY),
        st.lists(st.tuples(appended, st.integers(0, 100)), min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(batches, st.integers(0, 100), st.integers(1, 50))
def test_v2_batches_are_read_as_kafka_python_reads_them(
    shape: list[Any], fetch_offset: int, limit: int
) -> None:
    data = b""
    base = 0
    for codec, records in shape:
        builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
        delta = 0
        for (timestamp, key, value, pairs), gap in records:
            builder.append(delta, timestamp, key, value, pairs)
            delta += 1 + gap
        data += struct.pack(">q", base) + bytes(builder.build())[8:]
        base += delta
    reader = a_reader(data, fetch_offset=fetch_offset)

    taken = take_all(reader, limit)

    expected = kafka_python_takes(data, fetch_offset=fetch_offset)
    assert taken == expected
    assert [list(map(type, record)) for record in taken] == [
        list(map(type, record)) for record in expected
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([0, 1]),
    st.sampled_from([codec for codec in READY if codec != CODECS["zstd"]]),
    st.lists(st.tuples(timestamps, contents, contents), min_size=1, max_size=10),
    st.integers(1, 12),
)
def test_legacy_messages_are_read_as_kafka_python_reads_them(
    magic: int, codec: int, records: list[Any], limit: int
) -> None:
    if codec == CODECS["lz4"] and magic == 0:
        assume(kafka.codec.xxhash is not None)
    builder = MemoryRecordsBuilder(magic, codec, 1 << 30)
    for timestamp, key, value in records:
        builder.append(timestamp, key, value)
    builder.close()
    data = bytes(builder.buffer())
    if codec:  # a broker gives the wrapper the offset of its last message
        data = struct.pack(">q", len(records) - 1) + data[8:]

    assert take_all(a_reader(data), limit) == kafka_python_takes(data)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(CODECS)),
    st.lists(st.tuples(st.integers(-(2**40), 2**40), contents, contents, headers), max_size=12),
)
def test_codecs_do_not_change_what_is_read(codec: str, records: list[Any]) -> None:
    encoded = [
        a_record(delta, value, key=key, headers=pairs, timestamp_delta=moment)
        for delta, (moment, key, value, pairs) in enumerate(records)
    ]
    plain = a_batch(encoded, last_offset_delta=20)

    taken = take_all(a_reader(a_batch(encoded, last_offset_delta=20, codec=codec)))

    assert taken == kafka_python_takes(plain)
