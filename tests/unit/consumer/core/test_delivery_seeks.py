"""A seek forward in what is buffered keeps it, and asks no broker."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import OffsetOutOfRangeError

from aktor.errors import RecordDeserializationError
from aktor.events.positions import Assigned, Position
from tests.unit.consumer.core.builders_chunks import (
    A,
    a_chunk,
    a_refusal,
    offsets,
)
from tests.unit.consumer.core.builders_delivery import (
    a_delivery,
)


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
    epochs = [-1]  # by offset: the leader epoch of the record before it
    while at < len(contents):
        some = contents[at : at + sizes[len(chunks) % len(sizes)]]
        chunks.append(a_chunk(A, at, *some, leader_epoch=len(chunks) + 1))
        epochs += [len(chunks)] * len(some)
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
            assert not given or state.leader_epoch == epochs[position]
            due = delivery.next_error(again=True)
            if due is not None and position == state.next_to_give:
                error = due[1]
                assert isinstance(error, RecordDeserializationError)
                assert contents[position] == b"bad"
                assert delivery.pass_to(A, position + 1)
                position += 1
        assert state.offset == position
        assert state.leader_epoch <= epochs[position]

    assert position == len(contents)
    assert delivery.buffered_bytes == 0
    assert delivery.credit.given_back == came
