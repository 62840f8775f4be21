"""What the cleaner keeps: the last record of each key, and what consumers and producers need."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.log.batches import is_sound
from aktor.broker.log.log import PartitionLog
from aktor.records.batch import BatchHeader
from tests.unit.broker.log.building import (
    NOW,
    NOW_MS,
    a_batch,
    a_log,
    consumed,
    end_transaction,
    offsets,
    values,
    write,
    write_each,
)

DAY = 24 * 3600.0


def a_compacted_log(**settings: Any) -> PartitionLog:
    return a_log(cleanup_policy=frozenset({"compact"}), **settings)


def put(log: PartitionLog, pairs: str, **fields: Any) -> None:
    """One batch: "a1 b2 c-" writes 1 to a, 2 to b and a tombstone to c."""
    keys = [pair[0].encode() for pair in pairs.split()]
    contents = [None if pair[1:] == "-" else pair[1:].encode() for pair in pairs.split()]
    write(log, a_batch(*contents, keys=keys, **fields))


def state(log: PartitionLog) -> str:
    """As in `put`, with the offsets."""
    return " ".join(
        f"{one.offset}:{one.key.decode()}{'-' if one.value is None else one.value.decode()}"
        for one in consumed(log)
    )


def all_headers(log: PartitionLog) -> list[BatchHeader]:
    """Of all batches, which must be sound."""
    data = log.read(log.start_offset, 10**9, upto=log.end_offset)
    found, at = [], 0
    while at < len(data):
        header = BatchHeader.read(data, at)
        assert is_sound(header, memoryview(data)[at : at + header.size])
        found.append(header)
        at += header.size
    return found


@pytest.mark.parametrize("codec", range(5))
def test_the_last_record_of_each_key_is_kept_at_its_offset(codec: int) -> None:
    log = a_compacted_log()
    put(log, "a1 b1 c1", codec=codec)
    put(log, "a2", codec=codec)
    put(log, "b2 a3", codec=codec)

    assert log.compact(NOW, force=True)

    assert state(log) == "2:c1 4:b2 5:a3"
    assert log.end_offset == 6
    first, last = all_headers(log)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert (last.base_offset, last.last_offset, last.record_count) == (4, 5, 2)
    assert {first.codec, last.codec} == {codec}


def test_reads_go_over_the_gaps() -> None:
    log = a_compacted_log()
    for number in range(50):
        put(log, f"a{number} b{number}")
    put(log, "c1")

    log.compact(NOW, force=True)

    assert state(log) == "98:a49 99:b49 100:c1"
    for offset in range(101):
        data = log.read(offset, 1, upto=101)
        assert BatchHeader.read(data).last_offset >= offset
    assert log.read(5, 1000, upto=60) == b""
    put(log, "a50")
    assert offsets(log) == [98, 99, 100, 101]


def test_the_active_segment_is_left_alone() -> None:
    size = len(a_batch(b"1", keys=[b"a"]))
    log = a_compacted_log(segment_bytes=2 * size)
    for pair in ("a1", "a2", "a3", "a4"):
        put(log, pair)

    assert log.compact(NOW)

    assert state(log) == "1:a2 2:a3 3:a4"


def test_the_cleaner_waits_until_half_is_new() -> None:
    size = len(a_batch(b"1", keys=[b"a"]))
    log = a_compacted_log(segment_bytes=4 * size)
    for pair in ("a1", "b2", "c3", "d4", "a5", "b6", "c7", "d8"):
        put(log, pair)
    assert log.compact(NOW)
    assert not log.compact(NOW)

    for pair in ("a9", "b9", "c9", "d9"):
        put(log, pair)
    assert not log.compact(NOW)  # 4 cleaned, 4 new
    for pair in ("e9", "f9", "g9", "h9"):
        put(log, pair)
    assert log.compact(NOW)
    assert state(log) == "8:a9 9:b9 10:c9 11:d9 12:e9 13:f9 14:g9 15:h9"


def test_young_segments_are_left_alone() -> None:
    size = len(a_batch(b"1", keys=[b"a"]))
    log = a_compacted_log(segment_bytes=size, min_compaction_lag_ms=1000)
    for pair in ("a1", "a2", "a3"):
        put(log, pair)

    assert not log.compact(NOW + 0.5)
    assert log.compact(NOW + 1.5)


def test_a_tombstone_is_kept_for_a_day_and_then_goes() -> None:
    log = a_compacted_log()
    put(log, "a1 b1")
    put(log, "a-")
    put(log, "c1")

    log.compact(NOW, force=True)
    assert state(log) == "1:b1 2:a- 3:c1"
    assert [one.timestamp for one in consumed(log)] == [NOW_MS] * 3
    log.compact(NOW + DAY - 1, force=True)
    assert state(log) == "1:b1 2:a- 3:c1"
    log.compact(NOW + DAY, force=True)
    assert state(log) == "1:b1 3:c1"


def test_the_last_batch_is_kept_empty_so_that_the_end_is_known() -> None:
    log = a_compacted_log(delete_retention_ms=0)
    put(log, "a1")
    put(log, "a-")

    log.compact(NOW, force=True)
    log.compact(NOW, force=True)

    assert consumed(log) == []
    (last,) = all_headers(log)
    assert (last.base_offset, last.last_offset, last.record_count) == (1, 1, 0)


def test_the_last_batch_of_a_producer_is_kept_for_its_sequence() -> None:
    log = a_compacted_log()
    put(log, "a1 b1", producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, "a2 b2")

    log.compact(NOW, force=True)

    assert state(log) == "2:a2 3:b2"
    kept = all_headers(log)[0]
    assert (kept.producer_id, kept.record_count, kept.last_sequence) == (7, 0, 1)


def test_aborted_records_go_first_and_their_marker_a_day_after() -> None:
    log = a_compacted_log()
    put(log, "a1")
    put(log, "a2", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, "a3", transactional=True, producer_id=7, producer_epoch=0, base_sequence=1)
    end_transaction(log, 7, commit=False)
    put(log, "b1", transactional=True, producer_id=7, producer_epoch=0, base_sequence=2)
    end_transaction(log, 7, commit=True)
    put(log, "c1")

    for now in (NOW, NOW, NOW + DAY, NOW + DAY):
        log.compact(now, force=True)
        assert values(log, read_committed=True) == [b"1", b"1", b"1"]

    assert state(log) == "0:a1 4:b1 6:c1"
    assert log.aborted(0, 100) == []
    assert [one.base_offset for one in all_headers(log)] == [0, 4, 5, 6]


def test_a_transaction_that_is_open_is_not_cleaned() -> None:
    log = a_compacted_log()
    put(log, "a1")
    put(log, "b1", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, "a2 b2")

    log.compact(NOW, force=True)

    assert state(log) == "0:a1 1:b1 2:a2 3:b2"


def test_producers_epochs_and_the_start_outlive_the_cleaner() -> None:
    log = a_compacted_log()
    put(log, "a1", producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, "a2")
    put(log, "a3")
    log.delete_before(1)

    log.compact(NOW, force=True)

    assert (log.start_offset, log.end_offset, log.high_watermark) == (1, 3, 3)
    assert log.latest_epoch == 0
    assert [one.producer_id for one in log.active_producers()] == [7]
    log.truncate(2)
    assert (log.end_offset, log.size_bytes) == (2, 0)


def test_times_are_found_after_cleaning() -> None:
    log = a_compacted_log()
    write(log, a_batch(b"1", b"1", keys=[b"a", b"b"], timestamps=[500, 100]))
    write(log, a_batch(b"2", keys=[b"a"], timestamp=300))

    log.compact(NOW, force=True)

    assert log.offset_for_time(50) == (1, 100, 0)
    assert log.offset_for_time(101) == (2, 300, 0)
    assert log.max_timestamp() == (2, 300, 0)


def test_offsets_are_punched_out_for_tests() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b", b"c"))
    write_each(log, b"d", b"e")

    log.punch({1, 3, 4})

    assert (offsets(log), values(log)) == ([0, 2], [b"a", b"c"])
    assert log.end_offset == 5
    assert [one.base_offset for one in all_headers(log)] == [0, 4]
