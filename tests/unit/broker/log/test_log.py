"""Reading a log, and cutting it at both ends."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import PartitionLog
from aktor.records.batch import BatchHeader
from tests.unit.broker.log.building import (
    NOW,
    NOW_MS,
    a_batch,
    a_log,
    offsets,
    values,
    write,
    write_each,
)


def bases(data: bytes | bytearray | memoryview) -> list[int]:
    """The base offsets of the batches, which must all be whole."""
    found, at = [], 0
    while at < len(data):
        header = BatchHeader.read(data, at)
        found.append(header.base_offset)
        at += header.size
    assert at == len(data)
    return found


def refused(log: PartitionLog, offset: int) -> bool:
    try:
        log.read(offset, 1000, upto=log.end_offset)
    except Refused as refusal:
        return refusal.code == Code.OFFSET_OUT_OF_RANGE
    return False


def test_offsets_are_given_one_after_the_other() -> None:
    log = a_log()

    first = write(log, a_batch(b"a", b"b"))
    second = write(log, a_batch(b"c"))

    assert (first.base_offset, first.last_offset, first.log_start_offset) == (0, 1, 0)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert values(log) == [b"a", b"b", b"c"]


def test_a_read_begins_with_the_batch_that_has_the_offset() -> None:
    log = a_log()
    for _ in range(3):
        write(log, a_batch(b"a", b"b", b"c"))

    assert bases(log.read(4, 10_000, upto=9)) == [3, 6]
    assert bases(log.read(5, 10_000, upto=9)) == [3, 6]
    assert bases(log.read(6, 10_000, upto=9)) == [6]


def test_a_read_ends_before_the_offset_it_may_not_see() -> None:
    log = a_log()
    write_each(log, b"a", b"b", b"c")

    assert bases(log.read(0, 10_000, upto=2)) == [0, 1]
    assert bases(log.read(2, 10_000, upto=2)) == []
    assert bases(log.read(3, 10_000, upto=2)) == []


def test_a_read_is_cut_off_at_its_limit_if_the_first_batch_is_whole() -> None:
    log = a_log()
    write_each(log, b"a", b"b", b"c")
    size = log.size_bytes // 3
    whole = bytes(log.read(0, 2 * size, upto=3))

    assert bases(whole) == [0, 1]
    assert log.read(0, 2 * size - 1, upto=3) == whole[:-1]
    assert bases(log.read(1, size, upto=3, min_one=False)) == [1]


def test_a_read_ends_where_a_segment_ends() -> None:
    log = a_log(segment_bytes=140)
    write_each(log, b"a", b"b", b"c")

    assert bases(log.read(0, 10_000, upto=3)) == [0, 1]
    assert bases(log.read(1, 10_000, upto=3)) == [1]
    assert bases(log.read(2, 10_000, upto=3)) == [2]


def test_one_batch_is_read_however_large_if_one_must_be() -> None:
    log = a_log()
    write_each(log, b"a", b"b")

    assert bases(log.read(1, 1, upto=2, min_one=True)) == [1]
    assert bases(log.read(1, 0, upto=2, min_one=True)) == [1]
    assert bases(log.read(1, 1, upto=2, min_one=False)) == []


def test_a_read_outside_the_log_is_refused_and_at_its_end_empty() -> None:
    log = a_log()
    write_each(log, b"a", b"b", b"c")
    log.delete_before(1)

    assert [refused(log, offset) for offset in (-1, 0, 1, 3, 4)] == [True, True, False, False, True]
    assert log.read(3, 1000, upto=3) == b""


def test_an_empty_log_has_nothing_to_read() -> None:
    log = a_log()

    assert log.read(0, 1000, upto=0) == b""
    assert log.max_timestamp() is None
    assert log.offset_for_time(0) is None
    assert log.delete_before(0) == 0


def test_what_was_read_stays_whatever_happens_to_the_log() -> None:
    log = a_log()
    write_each(log, b"a", b"b")
    data = log.read(0, 1000, upto=2)
    before = bytes(data)

    log.truncate(1)
    write_each(log, b"x", b"y")
    log.delete_before(3)

    assert data == before


@pytest.mark.parametrize("size", [10, 3_000, 5_000, 40_000])
def test_every_offset_is_found_whatever_the_size_of_the_batches(size: int) -> None:
    log = a_log()
    for count in (1, 3, 2) * 10:
        write(log, a_batch(*[b"x" * size] * count))

    for offset in range(60):
        (base,) = bases(log.read(offset, 1, upto=60))
        assert base <= offset < base + 3


def test_the_high_watermark_only_rises_and_not_beyond_the_end() -> None:
    log = a_log()
    for _ in range(3):
        log.append(a_batch(), leader_epoch=0, now=NOW)

    seen = []
    for offset in (2, 1, 9):
        log.advance(offset)
        seen.append(log.high_watermark)

    assert seen == [2, 2, 3]


# -- cutting


def test_a_truncation_forgets_what_comes_after() -> None:
    log = a_log()
    write_each(log, b"a", b"b", b"c")

    log.truncate(1)

    assert (log.end_offset, log.high_watermark) == (1, 1)
    assert values(log) == [b"a"]
    write_each(log, b"d")
    assert (values(log), offsets(log)) == ([b"a", b"d"], [0, 1])


def test_a_truncation_below_the_start_leaves_an_empty_log_there() -> None:
    log = a_log()
    write_each(log, b"a", b"b", b"c")
    log.delete_before(2)

    log.truncate(1)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (1, 1, 0)
    write_each(log, b"d")
    assert (values(log), offsets(log)) == ([b"d"], [1])


def test_records_are_deleted_inside_a_batch_too() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b", b"c"))
    write(log, a_batch(b"d"))

    assert log.delete_before(1) == 1

    assert log.start_offset == 1
    assert values(log) == [b"b", b"c", b"d"]
    assert write(log, a_batch()).log_start_offset == 1


def test_deleting_less_than_is_deleted_changes_nothing() -> None:
    log = a_log()
    write_each(log, b"a", b"b")
    log.delete_before(2)

    assert log.delete_before(1) == 2
    assert (log.size_bytes, values(log)) == (0, [])


def test_only_replicated_records_are_deleted() -> None:
    log = a_log()
    write(log, a_batch())
    log.append(a_batch(), leader_epoch=0, now=NOW)

    with pytest.raises(Refused) as caught:
        log.delete_before(2)

    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


# -- leader epochs


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b"), epoch=2)
    write(log, a_batch(), epoch=2)
    write(log, a_batch(), epoch=5)

    assert log.end_offset_for_epoch(5) == (5, 4)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(4) == (2, 3)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)
    assert [log.epoch_at(offset) for offset in range(4)] == [2, 2, 2, 5]


def test_a_leader_that_wrote_nothing_has_an_epoch_too() -> None:
    log = a_log()
    write(log, a_batch(), epoch=0)

    log.begin_epoch(1)

    assert (log.latest_epoch, log.epoch_at(0)) == (1, 0)
    assert log.end_offset_for_epoch(0) == (0, 1)
    assert log.end_offset_for_epoch(1) == (1, 1)
    log.begin_epoch(2)
    assert log.end_offset_for_epoch(1) == (0, 1)


def test_epochs_of_what_is_cut_off_are_forgotten() -> None:
    log = a_log()
    for epoch in range(4):
        write(log, a_batch(), epoch=epoch)

    log.truncate(3)
    log.delete_before(1)

    assert log.latest_epoch == 2
    assert log.end_offset_for_epoch(0) == (0, 1)
    assert log.end_offset_for_epoch(1) == (1, 2)


# -- times


def test_the_first_record_of_a_time_or_later_is_found() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b", timestamps=[100, 300]), epoch=1)
    write(log, a_batch(b"c", b"d", timestamps=[200, 400]), epoch=2)

    assert log.offset_for_time(0) == (0, 100, 1)
    assert log.offset_for_time(101) == (1, 300, 1)
    assert log.offset_for_time(301) == (3, 400, 2)
    assert log.offset_for_time(401) is None


def test_deleted_records_are_not_found_by_time() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b", b"c", timestamps=[300, 100, 200]))
    write(log, a_batch(b"d", timestamp=300))
    log.delete_before(1)

    assert log.offset_for_time(201) == (3, 300, 0)
    assert log.offset_for_time(150) == (2, 200, 0)


def test_the_first_record_of_the_largest_time_is_found() -> None:
    log = a_log()
    write(log, a_batch(b"a", b"b", b"c", timestamps=[1, 9, 9]), epoch=3)
    write(log, a_batch(b"d", timestamp=9))

    assert log.max_timestamp() == (1, 9, 3)
    log.truncate(0)
    assert log.max_timestamp() is None


def test_records_of_log_append_time_have_that_of_their_batch() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")
    write(log, a_batch(b"a", b"b", timestamp=1), now=NOW)
    write(log, a_batch(b"c", b"d", timestamp=1), now=NOW + 1)

    assert log.offset_for_time(2) == (0, NOW_MS, 0)
    assert log.offset_for_time(NOW_MS + 1) == (2, NOW_MS + 1000, 0)
    assert log.max_timestamp() == (2, NOW_MS + 1000, 0)


def test_times_are_found_among_many_batches() -> None:
    log = a_log()
    for time in range(500):
        write(log, a_batch(b"x" * (time % 90), timestamp=time * 10))

    for time in range(0, 5000, 7):
        found = log.offset_for_time(time)
        expected = -(-time // 10)
        assert found == ((expected, expected * 10, 0) if expected < 500 else None)
