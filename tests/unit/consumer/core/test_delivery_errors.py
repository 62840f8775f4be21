"""Errors that belong to an offset take their turn among the records."""

from __future__ import annotations

import pytest
from kafka.errors import CorruptRecordError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from aktor.consumer.core.delivery import Delivery
from aktor.errors import CorruptBatchError, RecordDeserializationError
from aktor.events.positions import Position
from aktor.trace import silent
from tests.unit.consumer.core.builders_chunks import (
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
from tests.unit.records.building import a_batch, values


def error_of(delivery: Delivery, *, again: bool = True) -> Exception | None:
    """The error that a poll would raise now."""
    due = delivery.next_error(again=again)
    return None if due is None else due[1]


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
