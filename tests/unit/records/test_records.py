"""Single records: every shape is read, every broken one is refused."""

from __future__ import annotations

import pytest

from aktor.errors import CorruptBatchError
from tests.unit.records.building import (
    LOG_APPEND_TIME,
    a_batch,
    a_reader,
    a_record,
    kafka_python_takes,
    sized,
    unsigned_varint,
    varint,
)


def a_raw_record(body: bytes) -> bytes:
    return varint(len(body)) + body


@pytest.mark.parametrize("flags", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize(
    "record",
    [
        a_record(),
        a_record(value=None),
        a_record(value=b""),
        a_record(key=b""),
        a_record(key=b"k" * 64, value=b"v" * 64),
        a_record(key=b"k" * 8192, value=b"v" * 8192),
        a_record(value=b"v" * 1_100_000),
        a_record(headers=[("trace", b"1"), ("trace", None), ("", b""), ("ключ", b"x" * 200)]),
        a_record(headers=[("", None)]),
        *[a_record(timestamp_delta=delta) for delta in (63, 64, 8191, 8192, 2**40, -1, -(2**40))],
        *[a_record(delta) for delta in (63, 64, 8191, 8192, 2**31 - 1)],
    ],
)
def test_every_shape_of_record_is_as_kafka_python_gives_it(record: bytes, flags: int) -> None:
    batch = a_batch([record], flags=flags, last_offset_delta=2**31 - 1)

    (taken,) = a_reader(batch).take(5)

    (expected,) = kafka_python_takes(batch)
    assert taken == expected
    assert type(taken) is type(expected)
    assert [type(field) for field in taken] == [type(field) for field in expected]


NULL = varint(-1)
START = b"\0" + varint(0) + varint(0)  # attributes, timestamp and offset delta


@pytest.mark.few_cases
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(varint(-8) + a_record()[1:], id="a negative length"),
        pytest.param(varint(3) + a_record()[1:], id="longer than it says"),
        pytest.param(varint(60) + a_record()[1:], id="shorter than it says"),
        pytest.param(b"\x80" * 10 + b"\1", id="a length of too many bytes"),
        pytest.param(b"\xfe\xff\xff\xff\x1f" + bytes(9), id="a length of more than 32 bits"),
        pytest.param(a_raw_record(b"\0" + b"\x80" * 10 + b"\0" * 5), id="a timestamp too long"),
        pytest.param(
            a_raw_record(b"\0" + b"\xff" * 9 + b"\2" + varint(0) + NULL + NULL + varint(0)),
            id="a timestamp of more than 64 bits",
        ),
        pytest.param(a_record(-1), id="a negative offset delta"),
        pytest.param(a_record(1), id="an offset beyond the batch"),
        pytest.param(a_raw_record(START + varint(-2) + NULL + varint(0)), id="a key of -2"),
        pytest.param(a_raw_record(START + NULL + varint(-2) + varint(0)), id="a value of -2"),
        pytest.param(a_raw_record(START + varint(99) + NULL + varint(0)), id="a key beyond"),
        pytest.param(a_raw_record(START + NULL + varint(99) + varint(0)), id="a value beyond"),
        pytest.param(a_raw_record(START + NULL + varint(2**31 - 1)), id="a value far beyond"),
        pytest.param(a_raw_record(START + NULL + NULL + varint(-1)), id="headers of -1"),
        pytest.param(a_raw_record(START + NULL + NULL + varint(9)), id="headers not there"),
        pytest.param(a_raw_record(START + NULL + NULL + varint(2**31 - 1)), id="absurd headers"),
        pytest.param(
            a_raw_record(START + NULL + NULL + varint(1) + NULL + NULL), id="a header without key"
        ),
        pytest.param(
            a_raw_record(START + NULL + NULL + varint(1) + sized(b"h") + varint(-2)),
            id="a header value of -2",
        ),
        pytest.param(
            a_raw_record(START + NULL + NULL + varint(1) + sized(b"h") + varint(50)),
            id="a header value beyond",
        ),
        pytest.param(a_raw_record(START + NULL + NULL + varint(0) + b"!"), id="garbage inside"),
    ],
)
def test_a_broken_record_is_a_corrupt_batch(record: bytes, check_crcs: bool) -> None:
    reader = a_reader(a_batch([record]), check_crcs=check_crcs)

    with pytest.raises(CorruptBatchError):
        reader.take(1)


def test_the_name_of_a_header_that_is_not_utf_8_is_replaced_where_it_is_not_as_in_java() -> None:
    headers = (
        varint(2) + sized(b"id-\xff\xfe") + sized(b"1") + sized("größe".encode("latin-1")) + NULL
    )

    (record,) = a_reader(a_batch([a_raw_record(START + NULL + NULL + headers)])).take(1)

    assert record.headers == [("id-\ufffd\ufffd", b"1"), ("gr\ufffd\ufffde", None)]
    assert record.serialized_header_size == 11


def test_a_header_that_is_cut_off_by_the_end_of_the_batch_is_refused() -> None:
    whole = a_record(headers=[("h", b"0123456789")])
    reader = a_reader(a_batch([whole[:-4]]))

    with pytest.raises(CorruptBatchError, match="a header runs beyond"):
        reader.take(1)


def test_a_record_that_runs_into_the_next_batch_is_refused() -> None:
    long = a_raw_record(START + NULL + varint(70) + b"v" * 8)
    reader = a_reader(a_batch([long]) + a_batch(base_offset=1))

    with pytest.raises(CorruptBatchError, match="runs beyond"):
        reader.take(1)


@pytest.mark.parametrize("deltas", [(1, 1), (1, 0)])
def test_offsets_that_do_not_rise_are_refused(deltas: tuple[int, int]) -> None:
    reader = a_reader(a_batch([a_record(delta) for delta in deltas]))

    assert [record.offset for record in reader.take(5)] == [1]

    with pytest.raises(CorruptBatchError, match="offset delta"):
        reader.take(5)


def test_varints_with_superfluous_zeros_are_read() -> None:
    """Not what Kafka writes, but what its rule for varints allows."""
    body = b"\0" + b"\x80\0" + b"\x80\x80\0" + NULL + NULL + b"\x80\0"
    reader = a_reader(a_batch([unsigned_varint(2 * len(body) | 1 << 14) + body]))

    with pytest.raises(CorruptBatchError):
        reader.take(1)

    (record,) = a_reader(a_batch([a_raw_record(body)])).take(1)
    assert (record.offset, record.headers, record.serialized_header_size) == (0, [], -1)


def test_records_do_not_share_their_list_of_headers() -> None:
    first, second = a_reader(a_batch([a_record(0), a_record(1)])).take(2)

    first.headers.append(("mine", b""))

    assert second.headers == []


def test_a_batch_too_big_to_copy_is_read_all_the_same() -> None:
    big = bytes(9 * 1024 * 1024)
    records = [
        a_record(0, big, key=b"k", headers=[("h", b"v")]),
        a_record(1, big),
        a_record(2, None),
    ]

    for codec in ("none", "gzip", "zstd"):
        taken = a_reader(a_batch(records, codec=codec)).take(5)

        assert taken == kafka_python_takes(a_batch(records))
        assert [type(record.value) for record in taken] == [bytes, bytes, type(None)]
        assert type(taken[0].key) is type(taken[0].headers[0][1]) is bytes
