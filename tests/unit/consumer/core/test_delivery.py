"""What is given out, in which order, and what becomes of the rest.."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.delivery import Delivery
from aktor.errors import CorruptBatchError, RecordDeserializationError
from aktor.events.fetching import Chunk
from aktor.events.positions import Assigned, Position, PositionsFailed, PositionsResolved, Reset
from aktor.records import Columns
from aktor.trace import open_trace, recording, silent
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
from tests.unit.consumer.core.builders_delivery import a_delivery, interrupted_at, resolve
from tests.unit.records.building import TRANSACTIONAL, a_batch, a_marker, values


def error_of(delivery: Delivery, *, again: bool = True) -> Exception | None:
    """The error that a poll would raise now."""
    due = delivery.next_error(again=again)
    return None if due is None else due[1]


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
    assert delivery.taken.bytes == chunk.size - OVERHEAD
    assert delivery.taken.records == 3


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

    assert delivery.taken.records == 3


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
    delivery.seek(A, None)

    delivery.apply(_found(A, epoch=1, offset=4))
    delivery.apply(_found(B, epoch=1, offset=4))

    assert delivery.consumed() == {}


def test_an_error_for_an_older_epoch_is_dropped_and_one_for_this_epoch_is_kept() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A, B])
    delivery.seek(A, None)

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


def test_a_seek_to_a_position_to_be_looked_up_forgets_the_old_one() -> None:
    delivery = a_delivery(at=7)

    delivery.seek(A, None)

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


# -- errors


def test_a_refusal_takes_its_turn_after_the_records_before_it() -> None:
    delivery = a_delivery()
    refused = TopicAuthorizationFailedError("orders")
    delivery.put(a_chunk())
    delivery.put(a_refusal(refused, offset=3))

    assert error_of(delivery) is None
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}
    assert error_of(delivery) is refused


def test_a_refusal_is_due_before_anything_is_taken_and_the_position_stays() -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(refused := OffsetOutOfRangeError({A: 0})))

    assert error_of(delivery) is refused
    assert delivery.take(10) == {}
    assert delivery.consumed()[A].offset == 0


def test_a_refusal_that_may_pass_gives_way_to_what_was_fetched_since() -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(TopicAuthorizationFailedError()))
    delivery.put(a_chunk())

    assert delivery.take(10) == {}
    delivery.forget_error(delivery.partitions[A])

    assert error_of(delivery) is None
    assert offsets(delivery.take(10)) == {A: [0, 1, 2]}


def test_a_second_refusal_is_not_lost_while_the_first_one_is_not_raised_yet() -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(first := TopicAuthorizationFailedError()))
    delivery.put(a_refusal(second := TopicAuthorizationFailedError()))

    assert error_of(delivery) is first
    delivery.forget_error(delivery.partitions[A])
    assert error_of(delivery) is second


def test_a_refusal_that_came_before_its_position_is_not_lost_with_it() -> None:
    delivery = Delivery(read, silent())
    delivery.assign([A])
    delivery.put(a_refusal(refused := TopicAuthorizationFailedError(), offset=4))
    assert error_of(delivery) is None

    resolve(delivery, at=4)

    assert error_of(delivery) is refused


def test_a_corrupt_batch_that_a_broker_tells_of_stays_until_a_seek() -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(refused := CorruptRecordError()))

    for _ in range(2):
        assert error_of(delivery) is refused
        assert delivery.take(10) == {}

    delivery.seek(A, Position(offset=1))
    assert error_of(delivery) is None


def test_a_corrupt_batch_is_an_error_after_the_records_before_it_until_a_seek() -> None:
    delivery = a_delivery()
    sound = a_batch(values(b"0", b"1"))
    corrupt = a_batch(values(b"2"), base_offset=2, crc=1)
    delivery.put(a_chunk_of(sound + corrupt))

    assert offsets(delivery.take(10)) == {A: [0, 1]}
    for _ in range(2):
        assert delivery.take(10) == {}
        error = error_of(delivery)
        assert isinstance(error, CorruptBatchError)
        assert error.offset == 2
    assert delivery.consumed()[A].offset == 2
    assert not delivery.partitions[A].ready, "each poll would decode the corrupt batch again"

    delivery.seek(A, Position(offset=3))
    assert (error_of(delivery), delivery.take(10)) == (None, {})


def test_a_record_that_cannot_be_deserialized_keeps_the_position_before_it() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(A, 0, b"fine", b"bad", b"fine"))

    assert offsets(delivery.take(10)) == {A: [0]}
    for _ in range(2):
        assert delivery.take(10) == {}
        error = error_of(delivery)
        assert isinstance(error, RecordDeserializationError)
        assert error.offset == 1
    assert delivery.consumed()[A].offset == 1


def test_an_error_waits_for_the_records_before_it_that_an_iteration_put_back() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(A, 0, b"fine", b"bad"))
    taken = delivery.take(10, advance=False)
    delivery.take(10)
    delivery.put_back(delivery.partitions[A], taken[A])

    assert error_of(delivery) is None
    assert offsets(delivery.take(10)) == {A: [0]}
    assert isinstance(error_of(delivery), RecordDeserializationError)


def test_the_error_of_one_partition_does_not_keep_others_back() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_refusal(TopicAuthorizationFailedError(), partition=A))
    delivery.put(a_chunk(B, epoch=2))

    assert offsets(delivery.take(2)) == {B: [0, 1]}
    assert offsets(delivery.take(2)) == {B: [2]}


def test_a_paused_partition_has_no_error_to_be_raised() -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(refused := CorruptRecordError()))

    delivery.pause([A], paused=True)
    assert error_of(delivery) is None
    delivery.pause([A], paused=False)
    assert error_of(delivery) is refused


def test_errors_of_several_partitions_are_raised_in_turn() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_refusal(of_a := CorruptRecordError(), partition=A))
    delivery.put(a_refusal(of_b := CorruptRecordError(), partition=B, epoch=2))

    assert [error_of(delivery) for _ in range(4)] == [of_a, of_b, of_a, of_b]


def test_an_error_that_was_raised_is_told_from_one_that_was_not() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_refusal(of_a := CorruptRecordError(), partition=A))
    assert error_of(delivery, again=False) is of_a
    assert error_of(delivery, again=False) is None

    delivery.put(a_refusal(of_b := CorruptRecordError(), partition=B, epoch=2))
    assert error_of(delivery, again=False) is of_b
    assert error_of(delivery, again=False) is None


@pytest.mark.parametrize("leave", ["seek", "remove"])
def test_the_error_of_a_partition_that_was_sought_or_given_up_is_over(leave: str) -> None:
    delivery = a_delivery()
    delivery.put(a_refusal(CorruptRecordError()))

    if leave == "seek":
        delivery.seek(A, Position(offset=0))
    else:
        delivery.remove([A])

    assert error_of(delivery) is None
    assert not delivery.has_errors


def test_an_interrupt_moves_no_position() -> None:
    delivery = a_delivery(A, B, C)
    delivery.put(a_chunk(A, epoch=1))
    delivery.put(a_chunk(B, 0, b"0", b"interrupt", epoch=2))
    delivery.put(a_chunk(C, epoch=3))

    with pytest.raises(KeyboardInterrupt):
        delivery.take(10)

    assert delivery.consumed() == dict.fromkeys((A, B, C), OffsetAndMetadata(0, "", -1))


def test_what_was_given_out_and_did_not_arrive_is_taken_back() -> None:
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A, epoch=1))
    delivery.put(a_chunk(B, 0, epoch=2))
    delivery.take(10)
    assert delivery.consumed() == dict.fromkeys((A, B), OffsetAndMetadata(3, "", 5))

    delivery.seek(B, Position(offset=40))
    delivery.take_back()

    assert delivery.consumed() == {
        A: OffsetAndMetadata(0, "", -1),
        B: OffsetAndMetadata(40, "", -1),
    }


def test_what_has_arrived_is_not_taken_back() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk())
    delivery.take(2)

    delivery.accept()
    delivery.take_back()

    assert delivery.consumed() == {A: OffsetAndMetadata(2, "", 5)}


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


# -- the trace


def told(events: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    """Of each event its name and these values."""
    return [(one["event"], *(one[key] for key in keys)) for one in events]


def test_the_trace_tells_who_owns_what_and_where_a_partition_was_when_it_went() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace, "read_committed")

    delivery.assign([A, B], by_group=True)
    delivery.seek(A, Position(offset=7))
    delivery.assign([A, C])
    delivery.remove([A])

    assert told(events, "partitions") == [
        ("partitions.assigned", {"orders-0": 1, "orders-1": 2}),
        ("partitions.released", {"orders-1": None}),
        ("partitions.assigned", {"orders-2": 4}),
        ("partitions.released", {"orders-0": 7}),
    ]
    assert (events[0]["by_group"], events[2]["by_group"]) == (True, False)
    assert events[0]["isolation"] == "read_committed"


def test_a_partition_that_is_assigned_again_with_an_offset_begins_there_in_a_new_epoch() -> None:
    delivery = a_delivery()
    delivery.assign([A])
    before = delivery.partitions[A].epoch

    delivery.assign([A], {A: 7})

    assert delivery.partitions[A].offset == 7
    assert delivery.partitions[A].epoch > before


def test_an_assignment_that_changes_nothing_is_not_told() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A])

    delivery.assign([A])
    delivery.remove([B])

    assert told(events) == [("partitions.assigned",)]


def test_what_is_owned_is_told_at_whatever_line_an_interrupt_comes() -> None:
    """The assignment is made again then, and finds nothing new (storm 2030 of migration)."""
    lines = 0
    while True:
        trace, events = recording()
        delivery = Delivery(read, trace)
        lines += 1
        with interrupted_at(lines, Delivery.assign) as happened:
            delivery.assign([A])
        delivery.assign([A])

        assert set(told(events)) == {("partitions.assigned",)}
        if not happened:
            return


def test_an_assignment_of_many_partitions_is_told_in_full() -> None:
    trace, events = recording()
    many = [TopicPartition("orders", number) for number in range(200)]

    Delivery(read, trace).assign(many)

    assert len(events[0]["partitions"]) == 200


class Polls:
    """Polls of one record each, of a consumer whose trace has a hook and no listener."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[dict[str, Any]] = []
        self.trace = open_trace()
        self.trace._outlet.listeners = ()  # the one that compares all events with the schema
        self.trace.subscribe(self.events.append, level="debug")
        self.delivery = Delivery(read, self.trace, clock=lambda: self.now)
        self.delivery.assign([A, B])
        resolve(self.delivery)
        for partition in (A, B):
            epoch = self.delivery.partitions[partition].epoch
            self.delivery.put(a_chunk(partition, count=50, epoch=epoch))
        self.events.clear()

    def poll(self, *, every: float = 0.01, of: TopicPartition = A, limit: int = 1) -> None:
        self.now += every
        self.delivery.take(limit, only={of})

    def told(self) -> list[tuple[Any, ...]]:
        keys = ("partition", "offsets", "first_ago", "last_ago")
        return [tuple(one.get(key) for key in keys) for one in self.events]


def test_polls_that_follow_each_other_closely_are_traced_together() -> None:
    polls = Polls()
    for _ in range(9):
        polls.poll()
    assert polls.told() == [
        ("orders-0", [[0, 0]], None, None),
        ("orders-0", [[1, 4]], 0.03, 0.0),
        ("orders-0", [[5, 8]], 0.03, 0.0),
    ]

    polls.poll(every=1.0)
    polls.poll(every=1.0, limit=2)
    assert polls.told()[3:] == [
        ("orders-0", [[9, 9]], 0.0, 0.0),
        ("orders-0", [[10, 11]], 0.0, 0.0),
    ], "each at once, after a time without polls"


def test_what_is_not_traced_yet_comes_before_the_next_event_of_the_application() -> None:
    polls = Polls()
    for of in (A, B, A, B, A):
        polls.poll(every=0.002, of=of)
    polls.now += 0.01

    polls.trace.debug("position.sought", partitions={})

    names = [one["event"] for one in polls.events[2:]]
    assert names == ["records.delivered", "records.delivered", "position.sought"]
    assert sorted(polls.told()[2:4]) == [
        ("orders-0", [[1, 2]], 0.014, 0.01),
        ("orders-1", [[1, 1]], 0.012, 0.012),
    ]


@pytest.mark.parametrize("then", ["finds nothing", "is taken back"])
def test_what_is_not_traced_yet_is_when_a_poll_finds_nothing_or_is_taken_back(then: str) -> None:
    polls = Polls()
    polls.poll()
    polls.poll()
    if then == "finds nothing":
        polls.delivery.take(1, only=set())
    else:
        polls.delivery.take_back()

    assert polls.told()[1] == ("orders-0", [[1, 1]], 0.0, 0.0)


def test_polls_between_which_offsets_are_missing_are_traced_one_by_one() -> None:
    polls = Polls()
    polls.poll()
    polls.delivery.seek(A, Position(offset=9))
    polls.delivery.put(a_chunk(A, 9, count=3, epoch=polls.delivery.partitions[A].epoch))
    polls.events.clear()

    polls.poll()

    assert polls.told() == [("orders-0", [[9, 9]], None, None)]


def test_a_listener_gets_each_poll_at_once() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A])
    resolve(delivery)
    delivery.put(a_chunk(count=3))
    events.clear()

    for _ in range(3):
        delivery.take(1)

    assert [one["offsets"] for one in events] == [[[0, 0]], [[1, 1]], [[2, 2]]]


def test_the_trace_tells_by_runs_what_is_given_out_and_what_is_taken_back() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    delivery.assign([A])
    resolve(delivery)
    delivery.put(a_chunk(offset=0, count=3))
    delivery.accept()
    events.clear()

    delivery.take(2)
    delivery.take_back()

    assert told(events, "partition") == [
        ("records.delivered", "orders-0"),
        ("records.taken_back", "orders-0"),
    ]
    assert (events[0]["offsets"], events[1]["offset"]) == ([[0, 1]], 0)


def test_nobody_counts_the_runs_of_what_is_given_out_while_nobody_listens() -> None:
    class Refusing(list[Any]):
        def __getitem__(self, _: Any) -> Any:
            raise AssertionError("it was looked at")

    delivery = a_delivery()
    delivery.put(a_chunk())
    delivery.take(1)

    delivery.give({A: Refusing()})


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


# -- seeks forward in what is buffered


def test_a_seek_forward_in_the_buffer_begins_a_new_epoch_and_keeps_what_is_fetched() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=3))
    delivery.put(a_chunk(offset=3, count=3))

    assert delivery.pass_to(A, 4)

    state = delivery.partitions[A]
    assert state.epoch == 2
    assert state.assigned == Assigned(epoch=1, position=Position(offset=4))
    delivery.put(a_chunk(offset=6, count=2))  # it was on its way
    assert offsets(delivery.take(9)) == {A: [4, 5, 6, 7]}
    assert delivery.buffered_bytes == 0
    assert delivery.take_moved()[A].offset == 8


def test_a_seek_to_the_end_of_the_buffer_goes_on_with_what_is_on_its_way() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=3))

    assert delivery.pass_to(A, 3)

    assert delivery.buffered_bytes == 0
    assert not delivery.anything_ready
    delivery.put(a_chunk(offset=3, count=2))
    assert offsets(delivery.take(9)) == {A: [3, 4]}


def test_records_that_are_held_are_passed_too() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=6))
    records = delivery.take(4, advance=False)[A]
    delivery.put_back(delivery.partitions[A], records)

    assert delivery.pass_to(A, 2)

    assert offsets(delivery.take(9)) == {A: [2, 3]}
    assert offsets(delivery.take(9)) == {A: [4, 5]}


def test_the_leader_epoch_of_held_records_is_remembered_if_some_are_passed() -> None:
    """A leader that does not have this epoch does not have these records (KIP-320)."""
    delivery = a_delivery()
    delivery.put(a_chunk(count=6))
    state = delivery.partitions[A]
    delivery.put_back(state, delivery.take(6, advance=False)[A])
    assert delivery.pass_to(A, 2)

    delivery.take(9)

    assert state.position == Position(offset=6, leader_epoch=5)
    assert state.common_with(Position(offset=9, leader_epoch=4)) == Position(
        offset=2, leader_epoch=4
    )


def test_what_is_taken_back_after_a_seek_forward_leaves_the_epochs_of_what_was_read() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=6))
    state = delivery.partitions[A]
    delivery.take(1)
    delivery.accept()
    assert delivery.pass_to(A, 3)

    delivery.take(1)
    delivery.take_back()

    assert state.position == Position(offset=3)
    assert state.common_with(Position(offset=9, leader_epoch=4)) == Position(
        offset=0, leader_epoch=4
    )


def test_a_new_epoch_at_the_same_position_leaves_the_epochs_of_what_was_read() -> None:
    """After an interrupt or a restart of actors."""
    delivery = a_delivery()
    delivery.put(a_chunk(count=3))
    state = delivery.partitions[A]
    delivery.take(3)

    delivery.renew(state)

    assert (state.epoch, state.position) == (2, Position(offset=3, leader_epoch=5))
    assert state.common_with(Position(offset=9, leader_epoch=4)) == Position(
        offset=0, leader_epoch=4
    )


def test_a_corrupt_batch_that_is_fetched_anew_leaves_the_epochs_of_what_was_read() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=3))
    state = delivery.partitions[A]
    delivery.take(3)

    state.fetch_anew(delivery.next_epoch())

    assert state.common_with(Position(offset=9, leader_epoch=4)) == Position(
        offset=0, leader_epoch=4
    )


def test_a_refused_record_is_passed_without_fetching_again() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(A, 0, b"a", b"bad", b"c", b"bad", b"bad", b"f"))

    given, refused = [], []
    while delivery.buffered_bytes:
        given += offsets(delivery.take(9)).get(A, [])
        due = delivery.next_error(again=True)
        if due is not None:
            assert isinstance(due[1], RecordDeserializationError)
            refused.append(due[1].offset)
            assert delivery.pass_to(A, due[1].offset + 1)

    assert given == [0, 2, 5]
    assert refused == [1, 3, 4]


@pytest.mark.parametrize(
    ("to", "why"),
    [
        (0, "it is before the position"),
        (9, "it is beyond what is buffered"),
        (1, "the refused record itself is to be deserialized again"),
    ],
)
def test_any_other_seek_fetches_again(to: int, why: str) -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(A, 0, b"a", b"bad", b"c"))
    delivery.take(9)
    delivery.take(9)

    assert not delivery.pass_to(A, to), why


def test_behind_an_error_of_the_broker_or_a_gap_it_is_fetched_again() -> None:
    for between in (a_refusal(OffsetOutOfRangeError(), offset=3), a_chunk(offset=5, count=1)):
        delivery = a_delivery()
        delivery.put(a_chunk(count=3))
        delivery.put(between)
        delivery.put(a_chunk(offset=6, count=3))

        assert not delivery.pass_to(A, 7)
        assert delivery.pass_to(A, 2)
        assert offsets(delivery.take(9)) == {A: [2]}


def test_after_a_refusal_of_the_broker_a_seek_tells_the_background() -> None:
    """It does not fetch the partition until it is sought."""
    delivery = a_delivery()
    delivery.put(a_refusal(OffsetOutOfRangeError(), offset=0))

    assert not delivery.pass_to(A, 0)


def test_a_seek_to_the_end_of_the_buffer_meets_the_error_that_is_there() -> None:
    delivery = a_delivery()
    delivery.put(a_chunk(count=3))
    error = OffsetOutOfRangeError()
    delivery.put(a_refusal(error, offset=3))

    assert delivery.pass_to(A, 3)

    assert delivery.next_error(again=False) == (delivery.partitions[A], error)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"v", b"w", b"bad"]), min_size=1, max_size=30),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.lists(
        st.tuples(st.sampled_from(["put", "take", "hold", "skip"]), st.integers(1, 9)), max_size=40
    ),
)
def test_whatever_is_passed_the_rest_comes_in_order_once_and_all_credit_comes_back(
    contents: list[bytes], sizes: list[int], steps: list[tuple[str, int]]
) -> None:
    delivery = a_delivery()
    state = delivery.partitions[A]
    chunks, at = [], 0
    while at < len(contents):
        some = contents[at : at + sizes[len(chunks) % len(sizes)]]
        chunks.append(a_chunk(A, at, *some))
        at += len(some)
    came = sum(chunk.size for chunk in chunks)
    position = 0
    for what, number in [*steps, *[("put", 1), ("take", 9)] * 70]:
        if what == "put" and chunks:
            delivery.put(chunks.pop(0))
        elif what == "skip":
            if delivery.pass_to(A, position + number):
                position += number
        elif what != "put":
            records = delivery.take(number, advance=what == "take").get(A, [])
            if what == "hold" and records:
                delivery.put_back(state, records)
                continue
            given = [record.offset for record in records]
            assert given == list(range(position, position + len(given)))
            assert not [offset for offset in given if contents[offset] == b"bad"]
            position += len(given)
            due = delivery.next_error(again=True)
            if due is not None and position == state.given_up_to:
                error = due[1]
                assert isinstance(error, RecordDeserializationError)
                assert contents[position] == b"bad"
                assert delivery.pass_to(A, position + 1)
                position += 1
        assert state.offset == position

    assert position == len(contents)
    assert delivery.buffered_bytes == 0
    assert delivery.credit.given_back == came
