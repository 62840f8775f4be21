"""The reader's promises: positions, laziness, errors that stay, transactions."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.consumer.fetcher import ConsumerRecord as KafkaPythonRecord
from kafka.errors import KafkaError

from aktor.errors import CorruptBatchError, RecordDeserializationError
from aktor.records import ConsumerRecord
from tests.unit.records.building import (
    CODECS,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    a_batch,
    a_marker,
    a_reader,
    a_record,
    kafka_python_takes,
    take_all,
    values,
)


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_the_record_class_is_kafka_pythons_own() -> None:
    assert ConsumerRecord is KafkaPythonRecord
    assert type(a_reader(a_batch()).take(1)[0]) is KafkaPythonRecord


def test_records_are_taken_in_order_across_batches() -> None:
    data = a_batch(values(b"a", b"b", b"c")) + a_batch(values(b"d"), base_offset=3)
    reader = a_reader(data)

    assert [record.value for record in reader.take(2)] == [b"a", b"b"]
    assert (reader.next_offset, reader.exhausted) == (2, False)

    assert [record.value for record in reader.take(2)] == [b"c", b"d"]
    assert (reader.next_offset, reader.exhausted) == (4, True)
    assert reader.take(2) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_timestamp_of_the_next_record_is_known_before_it_is_taken(
    codec: str, limit: int
) -> None:
    ages = [0, 5_000, -70, 300]
    records = [a_record(delta, timestamp_delta=age) for delta, age in enumerate(ages)]
    data = a_batch(records, codec=codec) + a_batch(records, base_offset=4, codec=codec)
    told, taken = [], []
    reader = a_reader(data)
    while not reader.exhausted:
        told.append(reader.next_timestamp)
        taken.append(reader.take(limit)[0].timestamp)

    assert told == taken
    assert reader.next_timestamp == -1


def test_of_a_batch_with_log_append_time_it_is_that_time() -> None:
    records = [a_record(delta, timestamp_delta=delta) for delta in range(3)]
    reader = a_reader(a_batch(records, flags=LOG_APPEND_TIME, max_timestamp=77))

    assert reader.next_timestamp == 77
    reader.take(1)
    assert reader.next_timestamp == 77


def test_of_a_record_amid_a_batch_that_is_not_decoded_the_newest_timestamp_stands_for_it() -> None:
    reader = a_reader(a_batch(values(b"a", b"b"), max_timestamp=77), fetch_offset=1)

    assert reader.next_timestamp == 77


def test_where_the_next_record_cannot_be_read_the_newest_timestamp_stands_for_it() -> None:
    reader = a_reader(a_batch([a_record(0, bytes(20))], count=2, max_timestamp=77))
    reader.take(1)

    assert reader.next_timestamp == 77


def test_no_bytes_are_no_records() -> None:
    reader = a_reader(b"", fetch_offset=12)

    assert reader.exhausted
    assert reader.take(1) == []
    assert (reader.next_offset, reader.leader_epoch) == (12, -1)


def test_the_leader_epoch_is_that_of_the_batch_being_read() -> None:
    reader = a_reader(a_batch(leader_epoch=5) + a_batch(base_offset=1, leader_epoch=6))

    seen = [(record.leader_epoch, reader.leader_epoch) for record in reader.take(1)]
    seen += [(record.leader_epoch, reader.leader_epoch) for record in reader.take(1)]

    assert seen == [(5, 5), (6, 6)]


def refuse(_topic: str, _headers: object, value: bytes | None) -> bytes | None:
    if value == b"bad":
        raise ValueError("cannot read this")
    return value


@pytest.mark.parametrize(
    "unreadable",
    [
        a_batch(values(b"bad"), base_offset=1, leader_epoch=6),
        a_batch([b"\xff" * 9], base_offset=1, leader_epoch=6),
        a_batch(values(b"b" * 500), base_offset=1, leader_epoch=6, codec="gzip"),
    ],
    ids=["refused", "corrupt", "too large"],
)
def test_of_a_batch_that_cannot_be_read_the_leader_epoch_is_not_that_of_the_position(
    unreadable: bytes,
) -> None:
    data = a_batch(values(b"a"), leader_epoch=5) + unreadable
    made = a_reader(data, deserialize_value=refuse, max_batch_bytes=100)

    assert [record.value for record in made.take(9)] == [b"a"]

    assert (made.next_offset, made.leader_epoch) == (1, 5)
    with pytest.raises(KafkaError):
        made.take(9)
    assert (made.next_offset, made.leader_epoch) == (1, 5)


def test_the_leader_epoch_follows_what_is_passed_over() -> None:
    """A marker, and a refused record that is skipped."""
    data = a_batch(flags=CONTROL, leader_epoch=5)
    data += a_batch(values(b"bad", b"b"), base_offset=1, leader_epoch=6)
    made = a_reader(data, deserialize_value=refuse)

    with pytest.raises(RecordDeserializationError):
        made.take(9)
    assert (made.next_offset, made.leader_epoch) == (1, 5)
    assert made.skip_to(2)
    assert (made.next_offset, made.leader_epoch) == (2, 6)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("limit", [1, 100])
def test_records_before_the_fetch_offset_are_skipped(codec: str, limit: int) -> None:
    batch = a_batch(
        [a_record(delta, key=b"k", timestamp_delta=delta * 99) for delta in range(200)],
        base_offset=1000,
        codec=codec,
    )
    reader = a_reader(batch, fetch_offset=1100)

    taken = take_all(reader, limit)

    assert offsets(taken) == list(range(1100, 1200))


def test_compacted_batches_move_the_position_to_their_end() -> None:
    compacted = a_batch([a_record(2), a_record(5)], base_offset=10, last_offset_delta=9)
    emptied = a_batch([], base_offset=20, last_offset_delta=9)
    reader = a_reader(compacted + emptied, fetch_offset=10)

    assert offsets(reader.take(1)) == [12]
    assert reader.next_offset == 13

    assert offsets(reader.take(5)) == [15]
    assert reader.next_offset == 30


def test_a_fetch_offset_in_the_compacted_end_of_a_batch_moves_past_it() -> None:
    compacted = a_batch([a_record(0)], base_offset=10, last_offset_delta=9)
    reader = a_reader(compacted + a_batch(base_offset=20), fetch_offset=15)

    assert offsets(reader.take(1)) == [20]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_checked_and_decompressed_once_and_decoded_as_needed(codec: str) -> None:
    # The last record is broken, under a checksum that is right: reading on would find it.
    records = [*values(*[b"value %d" % number for number in range(1000)]), b"\xff" * 7]
    data = bytearray(a_batch(records, codec=codec))
    reader = a_reader(memoryview(data))
    taken = reader.take(10)
    # Were the batch checked or decompressed again, zeros would be found. Records that are not
    # compressed are read where they are, or from a copy.
    overwritten = len(data) if codec != "none" else 61
    data[:overwritten] = bytes(overwritten)

    taken += reader.take(900)

    assert [record.value for record in taken] == [b"value %d" % number for number in range(910)]


def test_what_was_read_before_a_corrupt_batch_is_returned_first() -> None:
    bad = a_batch(base_offset=5, crc=1)
    reader = a_reader(a_batch(values(b"a", b"b")) + bad + a_batch(base_offset=6))

    assert offsets(reader.take(10)) == [0, 1]

    errors = []
    for _ in range(3):
        with pytest.raises(CorruptBatchError) as caught:
            reader.take(10)
        errors.append(caught.value)
    assert errors[0] is errors[1] is errors[2]
    assert (errors[0].offset, reader.next_offset, reader.exhausted) == (5, 5, False)


def test_a_corrupt_batch_around_the_fetch_offset_is_reported_there() -> None:
    reader = a_reader(a_batch(values(b"a", b"b", b"c"), crc=1), fetch_offset=1)

    with pytest.raises(CorruptBatchError) as caught:
        reader.take(1)

    assert (caught.value.offset, reader.next_offset) == (1, 1)


def test_what_was_read_before_a_corrupt_record_is_returned_first() -> None:
    batch = a_batch([*values(b"a", b"b"), b"\xff" * 7, a_record(3)], base_offset=10)
    reader = a_reader(batch, fetch_offset=10)

    assert offsets(reader.take(10)) == [10, 11]

    with pytest.raises(CorruptBatchError) as caught:
        reader.take(10)
    assert (caught.value.offset, reader.next_offset) == (12, 12)


def test_an_error_does_not_grow_each_time_it_is_raised() -> None:
    reader = a_reader(a_batch(crc=1))

    lengths = []
    for _ in range(5):
        with pytest.raises(CorruptBatchError) as caught:
            reader.take(1)
        lengths.append(len(caught.traceback))

    assert lengths == lengths[:1] * 5


def test_deserializers_get_topic_headers_and_raw_bytes() -> None:
    seen: list[Any] = []

    def deserialize(topic: str, headers: Any, raw: bytes | None) -> Any:
        seen.append((topic, headers, raw))
        return ("read", raw)

    batch = a_batch([a_record(key=None, value=b"v", headers=[("h", None)])])
    (record,) = a_reader(batch, deserialize_key=deserialize, deserialize_value=deserialize).take(1)

    assert (record.key, record.value) == (("read", None), ("read", b"v"))
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, 1)
    assert (record.headers, record.serialized_header_size) == ([("h", None)], 1)
    assert seen == [("orders", [("h", None)], None), ("orders", [("h", None)], b"v")]


@pytest.mark.parametrize("which", ["deserialize_key", "deserialize_value"])
@pytest.mark.parametrize("cause", [ValueError("no"), StopIteration(), TypeError(), KeyError(1)])
def test_a_record_that_cannot_be_deserialized_stays_the_next(which: str, cause: Exception) -> None:
    def deserialize(topic: str, headers: Any, raw: bytes | None) -> Any:
        if raw == b"2":
            raise cause
        return raw

    records = [
        a_record(delta, b"%d" % delta, key=b"%d" % delta, headers=[("h", b"")])
        for delta in range(5)
    ]
    reader = a_reader(a_batch(records, base_offset=10), **{which: deserialize})

    assert offsets(reader.take(10)) == [10, 11]
    assert reader.next_offset == 12

    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as caught:
            reader.take(10)
        assert caught.value.__cause__ is cause
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (
            "orders",
            3,
            12,
        )
        assert (caught.value.key, caught.value.value) == (b"2", b"2")
        assert caught.value.headers == [("h", b"")]
        assert reader.next_offset == 12


def test_the_position_moves_over_a_gap_to_the_record_that_cannot_be_deserialized() -> None:
    def refuse_the_second(topic: str, headers: Any, raw: bytes | None) -> Any:
        return {b"first": 1}[raw or b""]

    batch = a_batch([a_record(0, b"first"), a_record(5, b"second")], last_offset_delta=5)
    reader = a_reader(batch, deserialize_value=refuse_the_second)

    assert offsets(reader.take(10)) == [0]

    assert reader.next_offset == 5


def test_the_earlier_of_two_errors_counts() -> None:
    def refuse(topic: str, headers: Any, raw: bytes | None) -> Any:
        raise ValueError

    reader = a_reader(a_batch([a_record(), b"\xff" * 7]), deserialize_value=refuse)

    with pytest.raises(RecordDeserializationError):
        reader.take(10)


def test_an_interrupt_in_a_deserializer_loses_nothing_and_repeats_nothing() -> None:
    interrupts = iter([False, False, False, True])

    def deserialize(topic: str, headers: Any, raw: bytes | None) -> Any:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return raw

    data = a_batch(values(b"a", b"b")) + a_batch(values(b"c", b"d"), base_offset=2)
    reader = a_reader(data, deserialize_value=deserialize)
    with pytest.raises(KeyboardInterrupt):
        reader.take(10)
    assert reader.next_offset == 0

    taken = reader.take(1)

    assert (offsets(taken), reader.next_offset) == ([0], 1)
    assert offsets(take_all(reader)) == [1, 2, 3]


def a_transaction(first: int, *, producer_id: int, commit: bool) -> bytes:
    """Two records and their marker, from offset `first` on."""
    records = a_batch(
        values(b"1", b"2"), base_offset=first, flags=TRANSACTIONAL, producer_id=producer_id
    )
    return records + a_marker(commit=commit, offset=first + 2, producer_id=producer_id)


HISTORY = b"".join(
    (
        a_transaction(0, producer_id=7, commit=False),
        a_transaction(3, producer_id=7, commit=True),
        a_batch(values(b"plain", b"plain"), base_offset=6),
        a_transaction(8, producer_id=8, commit=False),
        a_batch(values(b"idempotent"), base_offset=11, producer_id=8),
        a_transaction(12, producer_id=7, commit=False),
        a_batch(values(b"open"), base_offset=15, producer_id=8, flags=TRANSACTIONAL),
    )
)
ABORTED = [(7, 12), (8, 8), (7, 0)]


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_aborted_records_are_skipped_if_read_committed(limit: int) -> None:
    reader = a_reader(HISTORY, read_committed=True, aborted=ABORTED)

    taken = take_all(reader, limit)

    assert offsets(taken) == [3, 4, 6, 7, 11, 15]
    assert taken == kafka_python_takes(HISTORY, read_committed=True, aborted=ABORTED)
    assert reader.next_offset == 16


def test_aborted_records_are_read_otherwise_but_never_markers() -> None:
    reader = a_reader(HISTORY, aborted=ABORTED)

    taken = take_all(reader)

    assert offsets(taken) == [0, 1, 3, 4, 6, 7, 8, 9, 11, 12, 13, 15]
    assert taken == kafka_python_takes(HISTORY, aborted=ABORTED)


@pytest.mark.parametrize("read_committed", [True, False])
def test_a_response_of_markers_alone_moves_the_position(read_committed: bool) -> None:
    markers = b"".join(a_marker(commit=True, offset=at, producer_id=at) for at in (4, 5))
    reader = a_reader(markers, fetch_offset=4, read_committed=read_committed)

    assert not reader.exhausted
    assert reader.take(1) == []
    assert (reader.next_offset, reader.exhausted) == (6, True)


def test_a_producers_two_interleaved_aborted_transactions_end_one_by_one() -> None:
    data = b"".join(
        (
            a_batch(base_offset=0, flags=TRANSACTIONAL, producer_id=1),
            a_batch(base_offset=1, flags=TRANSACTIONAL, producer_id=2),
            a_marker(commit=False, offset=2, producer_id=1),
            a_batch(base_offset=3, flags=TRANSACTIONAL, producer_id=1),
            a_batch(base_offset=4, flags=TRANSACTIONAL, producer_id=2),
            a_marker(commit=False, offset=5, producer_id=2),
            a_marker(commit=True, offset=6, producer_id=1),
        )
    )
    reader = a_reader(data, read_committed=True, aborted=[(1, 0), (2, 1)])

    assert offsets(take_all(reader)) == [3]


def test_a_producers_records_outside_its_transactions_are_never_aborted() -> None:
    data = a_batch(base_offset=0, producer_id=1)  # idempotent, not transactional
    reader = a_reader(data, read_committed=True, aborted=[(1, 0)])

    assert offsets(take_all(reader)) == [0]


def test_an_abort_marker_of_a_producer_without_records_here_does_no_harm() -> None:
    marker = a_marker(commit=False, offset=0, producer_id=1)
    reader = a_reader(marker + marker[:7] + b"\1" + marker[8:], read_committed=True)

    assert take_all(reader) == []
    assert reader.next_offset == 2


def test_a_corrupt_batch_is_found_among_aborted_ones_too() -> None:
    bad = a_batch(base_offset=0, flags=TRANSACTIONAL, producer_id=1, crc=1)
    reader = a_reader(bad, read_committed=True, aborted=[(1, 0)])

    with pytest.raises(CorruptBatchError):
        reader.take(1)


def test_a_marker_without_a_type_is_corrupt_if_transactions_were_aborted() -> None:
    marker = a_batch([a_record(key=b"\0\0")], flags=CONTROL | TRANSACTIONAL, producer_id=1)

    with pytest.raises(CorruptBatchError, match="without a type"):
        a_reader(marker, read_committed=True, aborted=[(1, 0)]).take(1)
    assert take_all(a_reader(marker)) == []
