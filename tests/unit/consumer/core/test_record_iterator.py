"""The compiled iterator: it hands out records alone until there is anything else to look at."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from aktor.consumer.core import batch
from aktor.consumer.core.iteration import LOOK_EVERY
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import a_chunk

pytestmark = pytest.mark.skipif(batch.iterator is None, reason="nothing is compiled here")


class Loop:
    """An iteration over a consumer, and how often the iterator has called `__next__`."""

    def __init__(self, *chunks: Any) -> None:
        self.harness: EngineHarness = a_consumer()
        self.harness.fetched(*chunks)
        self.iteration = self.harness.engine.iteration
        self.looked = 0
        self.error: BaseException | None = None
        assert batch.iterator is not None
        self.records: Iterator[Any] = batch.iterator(
            self.next_record,
            self.iteration,
            self.harness.engine.call.attention,
            self.harness.engine.core.port.events,
            self.harness.clock,
        )

    def next_record(self) -> Any:
        self.looked += 1
        if self.error is not None:
            raise self.error
        record = self.iteration.next()
        if record is None:
            record = self.harness.run(self.harness.engine.next_record(self.harness.clock.now, 500))
        if record is None:
            raise StopIteration
        return record

    def take(self, count: int = 1) -> list[int]:
        return [next(self.records).offset for _ in range(count)]

    def position(self) -> int:
        self.iteration.settle()  # as a call in the loop's body does
        return next(iter(self.harness.engine.delivery.consumed().values())).offset


def test_it_looks_once_for_the_records_of_a_partition_and_hands_them_out_in_order() -> None:
    loop = Loop(a_chunk(count=3), a_chunk(offset=3, count=2))

    assert loop.take(5) == [0, 1, 2, 3, 4]
    assert loop.looked == 1
    assert next(loop.records, None) is None, "there are no more"


def test_the_position_is_that_of_the_next_record_whenever_somebody_asks() -> None:
    loop = Loop(a_chunk(count=4))

    assert [(loop.take(), loop.position()) for _ in range(4)] == [
        ([0], 1),
        ([1], 2),
        ([2], 3),
        ([3], 4),
    ]


def test_both_ways_to_iterate_go_on_where_the_other_one_is() -> None:
    loop = Loop(a_chunk(count=4))

    assert [*loop.take(), loop.iteration.next().offset, *loop.take(2)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "what", ["another call", "wakeup", "close", "an event", "time", "a poll goes on"]
)
def test_it_looks_before_the_next_record_if_something_else(what: str) -> None:
    loop = Loop(a_chunk(count=5))
    loop.take(2)
    call, events = loop.harness.engine.call, loop.harness.engine.core.port.events

    match what:
        case "another call":
            call.attention.call()
        case "a poll goes on":  # of another thread: it has waited, and let this one in
            call.come_back(call.let_others_in())
        case "wakeup":
            call.wakeup()
        case "close":
            call.end_waits()
        case "an event":
            events.append(object())  # type: ignore[arg-type]
        case "time":
            loop.harness.clock.now += LOOK_EVERY + 0.001
    loop.error = InterruptedError()
    with pytest.raises(InterruptedError):
        loop.take()
    loop.error = None
    events.clear()
    call.woken = False
    loop.harness.clock.now -= LOOK_EVERY if what == "time" else 0

    assert loop.take(3) == [2, 3, 4]
    assert loop.looked == 3


def test_what_was_put_back_is_not_handed_out_by_it() -> None:
    loop = Loop(a_chunk(count=3))
    loop.take()

    loop.harness.engine.call.attention.call()
    loop.iteration.stow()

    assert list(loop.harness.poll().values()) == [[1, 2]]


def test_every_iterator_looks_before_its_next_record_if_something_else_was_called() -> None:
    """The look of one of them must not hide the call from the other."""
    loop = Loop(a_chunk(count=5))
    assert batch.iterator is not None
    call, events = loop.harness.engine.call, loop.harness.engine.core.port.events
    second = batch.iterator(
        loop.next_record, loop.iteration, call.attention, events, loop.harness.clock
    )
    assert [*loop.take(), next(second).offset] == [0, 1]

    call.attention.call()
    loop.iteration.stow()

    assert [*loop.take(), next(second).offset, *loop.take()] == [2, 3, 4]


def test_after_an_error_it_looks_again() -> None:
    loop = Loop(a_chunk(count=3))
    loop.take()
    loop.harness.engine.call.attention.call()
    loop.error = KeyboardInterrupt()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            loop.take()

    assert loop.looked == 3


def test_another_thread_looks() -> None:
    loop = Loop(a_chunk(count=3))
    loop.take()
    thread = threading.Thread(target=loop.take)
    thread.start()
    thread.join()

    assert loop.looked == 2


def test_a_forked_child_looks() -> None:
    loop = Loop(a_chunk(count=3))
    loop.take()
    child = os.fork()
    if not child:
        try:
            loop.take()
        finally:
            os._exit(loop.looked)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert (loop.take(), loop.looked) == ([1], 1)


def test_it_notes_when_the_records_that_are_to_be_traced_were_handed_out() -> None:
    loop = Loop(a_chunk(count=5))
    loop.take()
    loop.harness.clock.now += 0.25
    loop.take()
    loop.harness.clock.now += 0.5
    loop.iteration.settle()
    loop.take(2)
    loop.harness.clock.now += 0.125
    loop.iteration.settle()

    assert [
        (one["offsets"], one["first_ago"], one["last_ago"])
        for one in loop.harness.told("records.delivered")
    ] == [([[0, 1]], 0.75, 0.5), ([[2, 3]], 0.125, 0.125)]
