"""Which batches a client may write, and what the broker fills in."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from aktor.broker.codes import Code, Refused
from aktor.broker.log.batches import is_sound
from aktor.broker.log.log import peek_batch
from aktor.broker.log.records import build_marker
from aktor.records.batch import CONTROL, BatchHeader
from tests.unit.broker.log.building import (
    HOUR_MS,
    NOW,
    NOW_MS,
    a_batch,
    a_log,
    consumed,
    in_transaction,
    values,
    write,
)
from tests.unit.records.building import a_message


def changed(batch: bytes, at: int, form: str, value: int) -> bytes:
    """The batch with another value in a field, and the right checksum."""
    data = bytearray(batch)
    struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def refusal(batch: bytes | None, *, api_version: int = 9, **settings: object) -> Code:
    log = a_log(**settings)
    with pytest.raises(Refused) as caught:
        log.append(batch, leader_epoch=0, now=NOW, api_version=api_version)
    assert log.end_offset == 0
    assert log.size_bytes == 0
    return caught.value.code


GOOD = a_batch(b"one", b"two", b"three")


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (None, Code.INVALID_RECORD),
        (b"", Code.INVALID_RECORD),
        (GOOD[:-1], Code.INVALID_RECORD),
        (GOOD + GOOD, Code.INVALID_RECORD),
        (a_message(magic=1), Code.INVALID_RECORD),
        (changed(GOOD, 16, ">b", 3), Code.CORRUPT_MESSAGE),
        (changed(GOOD, 8, ">i", 13), Code.CORRUPT_MESSAGE),
        (GOOD[:8] + struct.pack(">i", 40) + GOOD[12:52], Code.CORRUPT_MESSAGE),
        (GOOD[:-1] + b"\x01", Code.CORRUPT_MESSAGE),
        (changed(GOOD, 0, ">q", 1), Code.INVALID_RECORD),
        (changed(GOOD, 23, ">i", 3), Code.INVALID_RECORD),
        (changed(GOOD, 23, ">i", -1), Code.INVALID_RECORD),
        (changed(GOOD, 57, ">i", 0), Code.INVALID_RECORD),
        (changed(GOOD, 21, ">h", CONTROL), Code.INVALID_RECORD),
        (changed(GOOD, 21, ">h", 5), Code.UNKNOWN_SERVER_ERROR),
        (changed(GOOD, 43, ">q", 7), Code.INVALID_RECORD),
    ],
)
def test_what_is_not_one_sound_batch_is_refused(batch: bytes | None, code: Code) -> None:
    assert refusal(batch) == code


def test_a_cut_off_second_batch_is_not_written() -> None:
    log = a_log()

    write(log, GOOD + GOOD[:40])

    assert log.size_bytes == len(GOOD)


def test_zstd_needs_produce_7() -> None:
    batch = a_batch(b"value", codec=4)

    assert refusal(batch, api_version=6) == Code.UNSUPPORTED_COMPRESSION_TYPE
    assert peek_batch(batch, api_version=7).codec == 4


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_is_stored_as_it_was_sent(codec: int) -> None:
    log = a_log()

    batch = a_batch(b"value" * 100, codec=codec)
    write(log, batch)

    assert bytes(log.read(0, 1000, upto=1))[21:] == batch[21:]
    assert values(log) == [b"value" * 100]


def test_a_batch_may_be_as_large_as_the_limit_and_not_larger() -> None:
    assert refusal(GOOD, max_message_bytes=len(GOOD) - 1) == Code.MESSAGE_TOO_LARGE

    log = a_log(max_message_bytes=len(GOOD))
    assert write(log, GOOD).last_offset == 2


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    assert refusal(GOOD, segment_bytes=len(GOOD) - 1) == Code.RECORD_LIST_TOO_LARGE


def test_offset_and_leader_epoch_are_filled_in_and_the_checksum_stays() -> None:
    log = a_log()
    write(log, GOOD, epoch=4)
    write(log, GOOD, epoch=7)

    batch = log.read(3, 1000, upto=6)

    header = BatchHeader.read(batch)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert header.crc == BatchHeader.read(GOOD).crc
    assert is_sound(header, batch)


def test_the_sent_bytes_are_not_changed() -> None:
    log, sent = a_log(), bytearray(GOOD)
    write(log, a_batch())

    write(log, memoryview(sent))  # type: ignore[arg-type]

    assert sent == GOOD


def test_log_append_time_replaces_the_producers_time() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")

    appended = write(log, a_batch(b"a", b"b", timestamp=5), now=NOW + 1)

    assert appended.log_append_time == NOW_MS + 1000
    assert {(one.timestamp, one.timestamp_type) for one in consumed(log)} == {(NOW_MS + 1000, 1)}


def test_create_time_is_not_answered() -> None:
    assert write(a_log(), GOOD).log_append_time == -1


def test_a_producer_may_not_claim_log_append_time() -> None:
    claim = changed(GOOD, 21, ">h", 0x08)

    assert refusal(claim, message_timestamp_type="LogAppendTime") == Code.INVALID_TIMESTAMP
    log = a_log()
    write(log, claim)
    assert {one.timestamp_type for one in consumed(log)} == {0}


def test_a_record_may_be_an_hour_ahead_and_not_more() -> None:
    assert refusal(a_batch(timestamp=NOW_MS + HOUR_MS + 1)) == Code.INVALID_TIMESTAMP

    assert not write(a_log(), a_batch(timestamp=NOW_MS + HOUR_MS)).duplicate


def test_a_record_may_be_of_any_age_unless_there_is_a_limit() -> None:
    mixed = a_batch(b"new", b"old", b"new", timestamps=[NOW_MS, NOW_MS - 11, NOW_MS])

    write(a_log(), mixed)
    write(a_log(message_timestamp_before_max_ms=11), mixed)
    assert refusal(mixed, message_timestamp_before_max_ms=10) == Code.INVALID_TIMESTAMP


def test_records_without_time_are_of_no_age() -> None:
    log = a_log(message_timestamp_before_max_ms=10)

    write(log, a_batch(timestamp=-1))

    assert log.end_offset == 1


def test_a_compacted_topic_takes_no_record_without_key() -> None:
    batch = a_batch(b"a", b"b", keys=[b"key", None])

    assert refusal(batch, cleanup_policy=frozenset({"compact"})) == Code.INVALID_RECORD


def test_a_compacted_topic_takes_nothing_that_cannot_be_read() -> None:
    garbage = changed(GOOD, 61, ">b", 99)

    assert refusal(garbage, cleanup_policy=frozenset({"compact"})) == Code.INVALID_RECORD


def test_a_peek_tells_whose_transaction_it_is() -> None:
    header = peek_batch(in_transaction(7, 3, b"a", b"b", epoch=2))

    assert header.transactional
    assert (header.producer_id, header.producer_epoch) == (7, 2)
    assert (header.base_sequence, header.last_sequence) == (3, 4)


def test_a_marker_is_what_kafka_python_takes_for_one() -> None:
    marker = build_marker(7, 2, commit=False, coordinator_epoch=3, timestamp=NOW_MS)

    header = BatchHeader.read(marker)
    assert header.control
    assert header.transactional
    assert is_sound(header, marker)
    assert len(marker) == 78  # as Kafka's
