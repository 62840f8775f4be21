"""What the trace is told of what is assigned and given out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.structs import TopicPartition

from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.runs import HOLD
from aktor.events.positions import Position
from aktor.trace import open_trace, recording
from tests.unit.consumer.core.builders_chunks import (
    A,
    B,
    C,
    a_chunk,
    a_chunk_of,
    read,
)
from tests.unit.consumer.core.builders_delivery import (
    a_delivery,
    interrupted_at,
    resolve,
)
from tests.unit.records.building import a_batch, values


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

    def __init__(self, *, filled: bool = True) -> None:
        self.now = 0.0
        self.events: list[dict[str, Any]] = []
        self.trace = open_trace()
        self.trace._outlet.listeners = ()  # the one that compares all events with the schema
        self.unsubscribe = self.trace.subscribe(self.events.append, level="debug")
        self.delivery = Delivery(read, self.trace, clock=lambda: self.now)
        self.delivery.assign([A, B])
        resolve(self.delivery)
        for partition in (A, B) if filled else ():
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
        polls.poll(every=HOLD / 4 + 1e-6)
    assert polls.told() == [
        ("orders-0", [[0, 0]], None, None),
        ("orders-0", [[1, 4]], round(3 / 4 * HOLD, 3), 0.0),
        ("orders-0", [[5, 8]], round(3 / 4 * HOLD, 3), 0.0),
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


def test_nothing_is_held_for_a_hook_that_is_gone() -> None:
    polls = Polls(filled=False)

    def poll_both(offset: int) -> None:
        for partition in (A, B):
            epoch = polls.delivery.partitions[partition].epoch
            polls.delivery.put(a_chunk(partition, offset, count=1, epoch=epoch))
        polls.now += 0.01
        assert len(polls.delivery.take(10)) == 2

    poll_both(0)
    poll_both(1)
    polls.unsubscribe()
    for offset in range(2, 11):
        poll_both(offset)

    polls.trace.subscribe(polls.events.append, level="debug")
    poll_both(11)

    assert [offsets for _, offsets, *_ in polls.told()[2:]] == [[[11, 11]], [[11, 11]]]


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


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 0, 2]), st.sampled_from([0, 0, 0, 1])),
        min_size=1,
        max_size=8,
    ),
    limits=st.lists(st.integers(1, 4), min_size=1, max_size=8),
)
def test_what_is_traced_is_what_was_given_out_whatever_lies_between(
    batches: list[tuple[int, int, int]], limits: list[int]
) -> None:
    # Records of a compacted topic: each batch with the offsets that are missing behind it, and
    # whether another leader has written it.
    polls, data, offset, epoch = Polls(filled=False), b"", 0, 5
    for count, missing, elected in batches:
        epoch += elected
        data += a_batch(
            values(*(b"%d" % number for number in range(count))),
            base_offset=offset,
            last_offset_delta=count - 1 + missing,
            leader_epoch=epoch,
        )
        offset += count + missing
    polls.delivery.put(a_chunk_of(data, end=offset, epoch=polls.delivery.partitions[A].epoch))
    out: dict[int, int] = {}
    while polls.delivery.anything_ready:
        polls.now += 0.002
        taken = polls.delivery.take(limits[len(out) % len(limits)])
        out |= {record.offset: record.leader_epoch for record in taken.get(A, [])}
    polls.delivery.take(1)

    runs = [run for one in polls.events for run in one["offsets"]]

    assert [number for first, last in runs for number in range(first, last + 1)] == list(out)
    assert all(out[first] == out[last] for first, last in runs), "one leader epoch each"


def test_a_poll_from_further_back_is_not_added_to_what_is_not_traced_yet() -> None:
    # One record, and the position is where it would be after one more: it has gone back by two,
    # and two offsets behind the record are missing.
    polls = Polls()
    polls.poll()
    polls.poll()
    state = polls.delivery.seek(A, Position(offset=0))
    data = a_batch(values(b"again"), base_offset=0, last_offset_delta=2)
    polls.delivery.put(a_chunk_of(data, end=3, epoch=state.epoch))

    polls.poll()

    assert [one["offsets"] for one in polls.events] == [[[0, 0]], [[1, 1]], [[0, 0]]]


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
