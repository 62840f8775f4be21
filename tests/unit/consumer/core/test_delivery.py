"""What is given out, in which order, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import OffsetOutOfRangeError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.delivery import Delivery
from aktor.events.fetching import Chunk
from aktor.events.positions import Assigned, Position, PositionsFailed, PositionsResolved, Reset
from aktor.records import Columns
from aktor.trace import recording, silent
from tests.unit.consumer.core.builders_chunks import (
    OVERHEAD,
    A,
    B,
    C,
    a_chunk,
    a_chunk_of,
    a_refusal,
    offsets,
    read,
)
from tests.unit.consumer.core.builders_delivery import (
    a_delivery,
    resolve,
)
from tests.unit.records.building import TRANSACTIONAL, a_batch, a_marker, values

# -- what is dropped, what is kept


def test_a_chunk_of_an_older_epoch_is_dropped_and_its_bytes_are_freed() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A])
    delivery.seek(A, Position(offset=0))

    delivery.put(old := a_chunk(epoch=1))

    assert delivery.take(10) == {}
    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, old.size)
    (dropped,) = [one for one in events if one["event"] == "chunk.dropped"]
    assert dropped["partition"] == "orders-0"


def test_a_chunk_that_comes_late_was_dropped_because_of_what_its_partition_has_moved_on_by() -> (
    None
):
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A, B])
    delivery.seek(A, Position(offset=7))
    delivery.tell_sought({A: 7})
    trace.strand.last = 30  # something that was told since
    delivery.put(a_chunk(epoch=1))
    trace.strand.follow(40)  # what the group has said
    delivery.hold_back([B])
    trace.strand.follow(0)
    delivery.put(a_chunk(B, epoch=1))

    (sought,) = [one for one in events if one["event"] == "position.sought"]
    dropped = [one for one in events if one["event"] == "chunk.dropped"]
    assert [one["cause"] for one in dropped] == [sought["seq"], 40]


def test_a_chunk_of_a_partition_that_is_not_owned_is_dropped_and_its_bytes_are_freed() -> None:
    delivery = a_delivery(A)

    delivery.put(foreign := a_chunk(B))

    assert delivery.take(10) == {}
    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, foreign.size)


def test_freed_bytes_are_told_once() -> None:
    delivery = a_delivery()
    delivery.put(chunk := a_chunk())
    delivery.take(10)

    assert delivery.credit.unreported == chunk.size
    delivery.credit.report(1, delivery.credit.given_back)
    assert delivery.credit.unreported == 0


def test_a_chunk_is_freed_when_its_last_record_is_taken_and_not_before() -> None:
    delivery = a_delivery()
    delivery.put(chunk := a_chunk(count=3))

    delivery.take(2)
    assert (delivery.credit.unreported, delivery.buffered_bytes) == (0, chunk.size)

    delivery.take(1)
    assert (delivery.credit.unreported, delivery.buffered_bytes) == (chunk.size, 0)
    assert delivery.consumption.bytes == chunk.size - OVERHEAD
    assert delivery.consumption.records == 3


def test_what_is_buffered_for_a_partition_about_to_be_revoked_is_dropped() -> None:
    delivery = a_delivery()
    delivery.put(chunk := a_chunk())

    delivery.hold_back([A, B])

    assert delivery.take(10) == {}
    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, chunk.size)


def test_what_arrives_for_a_partition_about_to_be_revoked_is_dropped() -> None:
    delivery = a_delivery()
    delivery.hold_back([A])

    delivery.put(chunk := a_chunk())

    assert delivery.take(10) == {}
    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, chunk.size)


def test_a_partition_about_to_be_revoked_keeps_its_position_for_the_last_commit() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk())
    delivery.take(2)

    delivery.hold_back([A])

    assert delivery.consumed() == {A: OffsetAndMetadata(2, "", 5)}


def test_a_new_partition_gives_nothing_until_its_callback_returned_and_then_what_was_kept() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A], by_group=True)
    resolve(delivery)
    delivery.put(chunk := a_chunk())

    assert delivery.take(10) == {}
    assert delivery.buffered_bytes == chunk.size

    delivery.deliver([A])
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}


def test_nothing_is_given_before_the_position_is_known() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A])
    delivery.put(a_chunk())

    assert delivery.take(10) == {}

    resolve(delivery)
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}


def test_a_paused_partition_keeps_what_it_has_and_gives_it_when_resumed() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk())
    delivery.pause([A], paused=True)

    assert delivery.take(10) == {}
    assert delivery.fetchable([A]) == frozenset()

    delivery.pause([A], paused=False)
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}
    assert delivery.fetchable([A]) == {A}


def test_nothing_is_to_be_fetched_for_a_partition_about_to_be_revoked() -> None:
    delivery = a_delivery(A, B)

    delivery.hold_back([B])

    assert delivery.fetchable([A, B]) == {A}


# -- assignment


def test_partitions_that_stay_keep_position_epoch_buffer_and_pause() -> None:
    delivery = a_delivery(A, at=7)
    delivery.put(a_chunk(offset=7))
    delivery.pause([A], paused=True)

    delivery.assign([B, A, A])

    assert delivery.as_assigned() == {
        A: Assigned(epoch=1, position=Position(offset=7)),
        B: Assigned(epoch=2),
    }
    assert delivery.partitions[A].paused
    assert delivery.partitions[A].chunks


def test_a_partition_that_goes_frees_its_buffer_and_is_new_when_it_comes_back() -> None:
    delivery = a_delivery()
    delivery.put(chunk := a_chunk())

    delivery.assign([])
    delivery.assign([A])

    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, chunk.size)
    assert delivery.as_assigned() == {A: Assigned(epoch=2)}


def test_a_partition_that_goes_has_no_position_to_tell() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A))
    delivery.take(10)

    delivery.remove([A])
    delivery.remove([A])

    assert delivery.take_moved() == {}
    assert delivery.consumed([A, B]) == {B: OffsetAndMetadata(0, "", -1)}


# -- order and limit


def test_partitions_give_in_turns() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A, epoch=1))
    delivery.put(a_chunk(B, epoch=2))

    turns = [offsets(delivery.take(2)) for _ in range(4)]

    assert turns == [{A: [0, 1]}, {B: [0, 1]}, {A: [2], B: [2]}, {}]


def test_what_one_partition_leaves_of_the_limit_is_for_the_next() -> None:
    delivery = a_delivery(A, B, C)
    for epoch, one in enumerate([A, B, C], start=1):
        delivery.put(a_chunk(one, epoch=epoch))

    assert offsets(delivery.take(5)) == {A: [0, 1, 2], B: [0, 1]}
    assert offsets(delivery.take(5)) == {C: [0, 1, 2], B: [2]}


def test_a_partition_with_nothing_to_give_takes_no_turn() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(B, epoch=2))

    assert offsets(delivery.take(1)) == {B: [0]}
    assert offsets(delivery.take(1)) == {B: [1]}


def test_what_was_passed_over_has_its_turn_when_it_is_resumed() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A))
    delivery.put(a_chunk(B, epoch=2))
    delivery.pause([A], paused=True)

    assert delivery.anything_ready
    assert offsets(delivery.take(10)) == {B: [0, 1, 2]}
    assert not delivery.anything_ready

    delivery.pause([A], paused=False)
    assert delivery.anything_ready
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}


def test_the_turn_of_a_partition_that_an_interrupt_lost_is_counted_anew() -> None:
    delivery = a_delivery(A, B)
    for epoch, one in enumerate([A, B], start=1):
        delivery.put(a_chunk(one, epoch=epoch))
    delivery._queue.clear()

    delivery.recount()

    assert offsets(delivery.take(10)) == {A: [0, 1, 2], B: [0, 1, 2]}


def test_chunks_are_given_one_after_the_other_within_one_take() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(offset=0, count=3))
    delivery.put(a_chunk(offset=3, count=3))

    assert offsets(delivery.take(5)) == {A: [0, 1, 2, 3, 4]}
    assert offsets(delivery.take(5)) == {A: [5]}


def test_held_records_come_first_and_within_the_limit() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=4))
    delivery.put_back(delivery.partitions[A], delivery.take(3, advance=False)[A])

    assert offsets(delivery.take(2)) == {A: [0, 1]}
    assert delivery.consumed()[A].offset == 2
    assert offsets(delivery.take(2)) == {A: [2]}
    assert offsets(delivery.take(2)) == {A: [3]}


@pytest.mark.parametrize("by_columns", [False, True])
def test_the_leader_epoch_of_a_position_is_that_of_the_record_before_it(by_columns: bool) -> None:
    """Not of a later record that is decoded and held. If an unclean election cut that one off, the
    position would count as truncated (KIP-320)."""
    delivery = a_delivery()
    delivery.put(a_chunk(offset=0, count=3, leader_epoch=3))
    delivery.put(a_chunk(offset=3, count=3, leader_epoch=5))
    state = delivery.partitions[A]
    delivery.put_back(state, delivery.take(6, advance=False)[A])

    found = []
    for _ in range(3):
        if by_columns:
            delivery.take_columns(Columns(2))
        else:
            delivery.take(2)
        (position,) = delivery.take_moved().values()
        found.append((position.offset, position.leader_epoch))

    assert found == [(2, 3), (4, 5), (6, 5)]


@pytest.mark.parametrize("by_columns", [False, True])
def test_records_that_are_given_out_after_they_were_held_are_counted_once(by_columns: bool) -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=4))
    delivery.put_back(delivery.partitions[A], delivery.take(3, advance=False)[A])

    if by_columns:
        columns = Columns(3)
        delivery.take_columns(columns)
        assert columns.rows == 3
    else:
        assert offsets(delivery.take(3)) == {A: [0, 1, 2]}

    assert delivery.consumption.records == 3


# -- positions


def test_positions_move_past_what_was_given_and_no_further() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=5))

    delivery.take(2)

    assert delivery.consumed() == {A: OffsetAndMetadata(2, "", 5)}
    assert delivery.take_moved() == {A: OffsetAndMetadata(2, "", 5)}


def test_positions_stay_when_the_caller_advances_by_itself() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=5))

    delivery.take(2, advance=False)

    assert delivery.consumed()[A].offset == 0
    assert delivery.take_moved() == {}


def test_a_moved_position_is_told_once() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A))
    delivery.take(10)

    assert delivery.take_moved().keys() == {A}
    assert delivery.take_moved() == {}


def test_a_partition_that_is_gone_cannot_be_marked_as_moved() -> None:
    delivery = a_delivery(A)
    gone = delivery.partitions[A]
    delivery.assign([])

    delivery.mark_moved(gone)
    delivery.assign([A])
    resolve(delivery, at=3)

    assert delivery.take_moved() == {A: OffsetAndMetadata(3, "", -1)}


def test_control_records_move_the_position_without_a_record() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk_of(a_marker(commit=True, offset=0, producer_id=1)))

    assert delivery.take(10) == {}

    assert delivery.consumed()[A].offset == 1
    assert delivery.take_moved()[A].offset == 1


def test_control_records_move_the_position_also_of_one_who_iterates() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk_of(a_marker(commit=True, offset=0, producer_id=1)))

    assert delivery.take(10, advance=False) == {}

    assert delivery.consumed()[A].offset == 1


def test_records_behind_control_records_come_in_the_same_take() -> None:
    delivery = a_delivery()
    batch = a_batch(values(b"x"), flags=TRANSACTIONAL, producer_id=1)
    delivery.put(a_chunk_of(batch + a_marker(commit=True, offset=1, producer_id=1)))
    delivery.put(a_chunk(offset=2, count=1))

    assert offsets(delivery.take(10)) == {A: [0, 2]}
    assert delivery.consumed()[A].offset == 3


def test_a_position_found_is_applied_once_and_told() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A])

    delivery.apply(_found(A, epoch=1, offset=4))
    delivery.apply(_found(A, epoch=1, offset=9))

    assert delivery.consumed() == {A: OffsetAndMetadata(4, "", 2)}
    assert delivery.take_moved() == {A: OffsetAndMetadata(4, "", 2)}


def test_a_position_found_for_an_older_epoch_or_another_partition_is_dropped() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A])
    delivery.reset(A)

    delivery.apply(_found(A, epoch=1, offset=4))
    delivery.apply(_found(B, epoch=1, offset=4))

    assert delivery.consumed() == {}


def test_an_error_for_an_older_epoch_is_dropped_and_one_for_this_epoch_is_kept() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A, B])
    delivery.reset(A)

    error = TopicAuthorizationFailedError()
    delivery.apply(PositionsFailed(epochs={A: 1, B: 2, C: 3}, error=error))

    assert delivery.partitions[A].error is None
    assert delivery.partitions[B].error is error


def _found(partition: TopicPartition, *, epoch: int, offset: int) -> PositionsResolved:
    position = Position(offset=offset, leader_epoch=2)
    return PositionsResolved(partitions={partition: Assigned(epoch=epoch, position=position)})


# -- seek


def test_a_seek_drops_what_is_buffered_and_held_and_begins_a_new_epoch() -> None:
    delivery = a_delivery()
    delivery.put(chunk := a_chunk())
    delivery.put_back(delivery.partitions[A], delivery.take(1, advance=False)[A])

    delivery.seek(A, Position(offset=40))
    assert delivery.credit.unreported == chunk.size

    delivery.put(a_chunk(offset=40, epoch=2))
    assert offsets(delivery.take(10)) == {A: [40, 41, 42]}
    assert delivery.consumed() == {A: OffsetAndMetadata(43, "", 5)}


def test_a_seek_is_told_as_a_moved_position() -> None:
    delivery = a_delivery()

    delivery.seek(A, Position(offset=40, leader_epoch=1))

    assert delivery.take_moved() == {A: OffsetAndMetadata(40, "", 1)}


def test_a_reset_forgets_the_old_position() -> None:
    delivery = a_delivery(at=7)

    delivery.reset(A)

    assert delivery.as_assigned() == {A: Assigned(epoch=2)}
    assert delivery.consumed() == {}
    assert delivery.take_moved() == {}


def test_a_seek_forgets_an_error_and_an_unanswered_reset() -> None:
    delivery = a_delivery()
    delivery.partitions[A].error = TopicAuthorizationFailedError()
    delivery.partitions[A].reset = Reset(epoch=1)

    delivery.seek(A, Position(offset=0))

    assert delivery.partitions[A].error is None
    assert delivery.partitions[A].reset is None


# -- gaps


def test_a_chunk_that_does_not_continue_marks_the_partition_astray_and_is_dropped() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A])
    resolve(delivery)
    delivery.put(chunk := a_chunk(offset=5))

    assert delivery.take(10) == {}

    assert delivery.offset_gaps == {A}
    assert delivery.consumed()[A].offset == 0
    assert (delivery.buffered_bytes, delivery.credit.unreported) == (0, chunk.size)
    (dropped,) = [one for one in events if one["event"] == "chunk.dropped"]
    assert (dropped["level"], dropped["offset"], dropped["expected"]) == ("error", 5, 0)


def test_a_gap_behind_records_does_not_take_their_position_back() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(offset=0, count=3))
    delivery.put(a_chunk(offset=5, count=3))

    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}
    assert delivery.consumed()[A].offset == 3

    assert delivery.take(10) == {}
    assert delivery.offset_gaps == {A}
    assert delivery.consumed()[A].offset == 3


# -- watermarks


def test_a_chunk_without_data_brings_news_of_the_end_and_is_not_kept() -> None:
    delivery = a_delivery()

    delivery.put(Chunk(partition=A, epoch=1, offset=0, high_watermark=9, last_stable_offset=8))

    assert delivery.partitions[A].high_watermark == 9
    assert delivery.partitions[A].last_stable_offset == 8
    assert not delivery.partitions[A].ready


def test_a_chunk_that_does_not_know_the_end_leaves_it_as_it_was() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(high_watermark=9))

    delivery.put(a_refusal(OffsetOutOfRangeError({A: 3}), offset=3))

    assert delivery.partitions[A].high_watermark == 9


# -- the sum

PARTITIONS = [A, B]
partitions = st.sampled_from(PARTITIONS)


operations = st.one_of(
    st.tuples(st.just("put"), partitions, st.integers(1, 4)),
    st.tuples(st.just("put old"), partitions, st.integers(1, 4)),
    st.tuples(st.just("put refusal"), partitions, st.just(0)),
    st.tuples(st.just("put gap"), partitions, st.integers(1, 4)),
    st.tuples(st.just("take"), partitions, st.integers(1, 7)),
    st.tuples(st.just("hold"), partitions, st.integers(1, 7)),
    st.tuples(st.just("seek"), partitions, st.integers(0, 20)),
    st.tuples(st.just("pause"), partitions, st.just(0)),
    st.tuples(st.just("hold back"), partitions, st.just(0)),
    st.tuples(st.just("assign"), partitions, st.integers(0, 3)),
)


@settings(deadline=None)
@given(st.lists(operations, max_size=30))
def test_every_byte_that_was_put_is_either_buffered_or_freed(steps: list[Any]) -> None:
    delivery = a_delivery(*PARTITIONS)
    fetcher = _Fetcher(delivery)

    for step, partition, number in steps:
        _do(delivery, fetcher, step, partition, number)

        assert delivery.buffered_bytes + delivery.credit.unreported == fetcher.put_bytes
        buffered = (one for state in delivery.partitions.values() for one in state.chunks)
        assert delivery.buffered_bytes == sum(chunk.size for chunk in buffered)
        delivery.offset_gaps.clear()


@settings(deadline=None)
@given(st.lists(operations, max_size=30))
def test_records_of_an_epoch_come_once_each_and_in_order(steps: list[Any]) -> None:
    delivery = a_delivery(*PARTITIONS)
    fetcher = _Fetcher(delivery)
    given_out: dict[tuple[TopicPartition, int], list[int]] = {}

    for step, partition, number in steps:
        for one, records in _do(delivery, fetcher, step, partition, number).items():
            epoch = delivery.partitions[one].epoch
            given_out.setdefault((one, epoch), []).extend(record.offset for record in records)
            assert delivery.consumed()[one].offset == records[-1].offset + 1

    for seen in given_out.values():
        assert seen == list(range(seen[0], seen[0] + len(seen)))


class _Fetcher:
    """Fetches for each epoch from its position on, without a gap."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.put_bytes = 0
        self.next: dict[tuple[TopicPartition, int], int] = {}

    def put(self, partition: TopicPartition, count: int, *, age: int = 0, gap: int = 0) -> None:
        state = self.delivery.partitions.get(partition)
        epoch = state.epoch - age if state is not None else 0
        start = state.offset if state is not None and state.offset is not None else 0
        offset = self.next.get((partition, epoch), start)
        chunk = a_chunk(partition, offset + gap, count=count, epoch=epoch)
        self.next[partition, epoch] = offset + gap + count
        self.put_bytes += chunk.size
        self.delivery.put(chunk)

    def refuse(self, partition: TopicPartition) -> None:
        epoch = self.delivery.partitions[partition].epoch
        error = OffsetOutOfRangeError({partition: 0})
        self.delivery.put(a_refusal(error, partition=partition, epoch=epoch))


def _do(
    delivery: Delivery, fetcher: _Fetcher, step: str, partition: TopicPartition, number: int
) -> dict[TopicPartition, list[Any]]:
    """One step of what may happen; returns what it gave out."""
    owned = partition in delivery.partitions
    match step:
        case "put":
            fetcher.put(partition, number)
        case "put old":
            fetcher.put(partition, number, age=1)
        case "put gap":
            fetcher.put(partition, number, gap=1)
        case "put refusal" if owned:
            fetcher.refuse(partition)
        case "take":
            try:
                return delivery.take(number)
            except OffsetOutOfRangeError:
                return {}
        case "hold":
            try:
                for one, records in delivery.take(number, advance=False).items():
                    delivery.put_back(delivery.partitions[one], records)
            except OffsetOutOfRangeError:
                return {}
        case "seek" if owned:
            delivery.seek(partition, Position(offset=number))
        case "pause" if owned:
            delivery.pause([partition], paused=not delivery.partitions[partition].paused)
        case "hold back":
            delivery.hold_back([partition])
        case "assign":
            delivery.assign(one for bit, one in enumerate(PARTITIONS) if number & 1 << bit)
            resolve(delivery)
    return {}
