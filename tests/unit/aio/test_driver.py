"""How an event loop drives the core: rings, turns, and calls whose callers were cancelled."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aktor.aio.driver import LoopBell
from aktor.aio.turns import INSIDE, Turn
from aktor.consumer.core.waiting import Open, Waiting
from aktor.errors import ConsumerStoppedError
from aktor.events.fetching import RecordsFetched
from tests.unit.aio.builders import LONG, Loop, a_moment, run
from tests.unit.consumer.core.builders_chunks import A, a_chunk, offsets

# -- the bell


def test_a_ring_is_heard_that_comes_after_the_look_and_before_the_wait() -> None:
    async def program(loop: Loop) -> None:
        seen = loop.bell.rings
        loop.bell.ring()
        await loop.bell.wait_for_ring(seen, LONG)

    run(program)


def test_a_ring_of_another_thread_wakes_all_that_wait() -> None:
    async def program(loop: Loop) -> None:
        seen = loop.bell.rings
        waiting = [asyncio.create_task(loop.bell.wait_for_ring(seen, LONG)) for _ in range(3)]
        await a_moment()
        await asyncio.to_thread(loop.bell.ring)
        await asyncio.gather(*waiting)

    run(program)


def test_a_wait_that_is_over_leaves_nothing_behind() -> None:
    async def program(loop: Loop) -> None:
        await loop.bell.wait_for_ring(loop.bell.rings, 0.001)
        waiting = asyncio.create_task(loop.bell.wait_for_ring(loop.bell.rings, LONG))
        await a_moment()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not loop.bell._waiting

    run(program)


def test_a_ring_after_the_end_of_the_loop_does_no_harm() -> None:
    bells: list[LoopBell] = []

    async def program(loop: Loop) -> None:
        bells.append(loop.bell)
        bells[0]._waiting[asyncio.get_running_loop().create_future()] = None

    run(program)
    bells[0].ring()


# -- turns


def test_a_call_that_may_be_disturbed_lets_others_in_while_it_waits() -> None:
    async def program(loop: Loop) -> None:
        told: list[str] = []

        def reads() -> Waiting[str]:
            yield Open(time.monotonic() + LONG)
            told.append("read")
            return "records"

        def commits() -> Waiting[str]:
            told.append("committed")
            return "done"
            yield

        reading = loop.begin(reads())
        await a_moment()
        assert await loop.begin(commits()) == "done"
        assert not reading.done()
        loop.bell.ring()
        assert await reading == "records"
        assert told == ["committed", "read"]

    run(program)


def test_calls_that_wait_for_their_turns_get_them_in_order_also_if_one_gives_up() -> None:
    async def program(loop: Loop) -> None:
        order: list[int] = []

        def first() -> Waiting[None]:
            yield time.monotonic() + LONG

        def note(number: int) -> Waiting[None]:
            order.append(number)
            return
            yield

        inside = loop.begin(first())
        await a_moment()
        waiting = [loop.begin(note(number)) for number in range(4)]
        await a_moment()
        assert order == []
        waiting[1].cancel()
        inside.cancel()
        await asyncio.wait([inside])
        loop.bell.ring()  # it goes on alone, and ends
        await asyncio.wait(waiting)
        assert order == [0, 2, 3]
        assert not loop.guard.holder

    run(program)


# -- a caller that is cancelled


def test_a_call_that_is_cancelled_where_it_lets_others_in_ends_there() -> None:
    async def program(loop: Loop) -> None:
        ended: list[bool] = []

        def reads() -> Waiting[None]:
            try:
                yield Open(time.monotonic() + LONG)
            finally:
                ended.append(True)

        reading = loop.begin(reads())
        await a_moment()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert ended == [True]
        assert not loop.guard.broken
        assert not loop.guard.holder
        assert not loop.guard.away

    run(program)


@pytest.mark.parametrize("ends", ["open", "result", "error"])
def test_a_call_that_is_cancelled_in_a_step_goes_on_alone_to_the_end_of_the_step(
    ends: str,
) -> None:
    """A result that nobody gets is taken back, by the repair with which the next call begins."""

    async def program(loop: Loop) -> None:
        told: list[str] = []
        goes_on = asyncio.Event()

        async def callback() -> None:
            assert INSIDE.get() is loop.guard.holder[None]
            await goes_on.wait()
            told.append("the callback is over")

        def call() -> Waiting[str]:
            yield callback()
            told.append("the step is over")
            if ends == "open":
                yield Open(time.monotonic() + LONG)
                told.append("never")
            if ends == "error":
                raise ZeroDivisionError
            return "a result"

        calling = loop.begin(call())
        await a_moment()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        following = asyncio.create_task(loop.guard.wait_for_turn(Turn("the next", None)))
        await a_moment()
        assert not following.done(), "it is not its turn yet"
        goes_on.set()
        await following
        assert told == ["the callback is over", "the step is over"]
        assert loop.guard.broken == (ends != "open")

    run(program)


def test_a_callback_begins_when_the_guard_knows_of_it_also_where_tasks_are_eager() -> None:
    """Else its calls are taken for those of other tasks, and refused. (Python 3.12 has them.)"""
    eager: Any = getattr(asyncio, "eager_task_factory", None)

    async def program(loop: Loop) -> None:
        known: list[bool] = []

        async def callback() -> None:
            known.append(loop.guard.runs_callback)

        def waits() -> Waiting[Any]:
            yield callback()

        asyncio.get_running_loop().set_task_factory(eager)
        await loop.begin(waits())
        assert known == [True]

    run(program)


def test_a_call_that_an_interrupt_ends_is_repaired_by_the_next() -> None:
    async def program(loop: Loop) -> None:
        def interrupted() -> Waiting[None]:
            raise ZeroDivisionError("by a signal handler")
            yield

        def nothing() -> Waiting[None]:
            return
            yield

        with pytest.raises(ZeroDivisionError):
            await loop.begin(interrupted())
        assert loop.guard.broken

        await loop.begin(nothing())
        assert not loop.guard.broken

    run(program)


def test_records_of_a_poll_whose_caller_was_cancelled_in_a_step_are_given_out_by_the_next() -> None:
    async def program(loop: Loop) -> None:
        engine = loop.harness.engine
        loop.harness.assign([A])
        loop.harness.found(A)

        def poll() -> Waiting[Any]:
            yield time.monotonic() + LONG  # a step in which no others are let in
            return (yield from engine.poll(time.monotonic() + LONG, 500))

        polling = loop.begin(poll())
        await a_moment()
        polling.cancel()
        await asyncio.wait([polling])
        loop.harness.hear(RecordsFetched(chunks=(a_chunk(count=3),)))
        await a_moment()
        assert loop.guard.broken
        assert engine.consumed()[A].offset == 3, "they were taken"
        loop.guard.mend(engine.repair)
        assert engine.consumed()[A].offset == 0
        loop.harness.hear(RecordsFetched(chunks=(a_chunk(count=3, epoch=loop_epoch(engine)),)))
        assert offsets(await loop.begin(engine.poll(0.0, 500))) == {A: [0, 1, 2]}

    run(program)


def test_a_record_that_was_handed_out_to_a_cancelled_caller_is_handed_out_again() -> None:
    async def program(loop: Loop) -> None:
        engine = loop.harness.engine
        loop.harness.assign([A])
        loop.harness.found(A)

        def next_record() -> Waiting[Any]:
            yield time.monotonic() + LONG  # a step in which no others are let in
            return (yield from engine.next_record(time.monotonic() + LONG, 500))

        asking = loop.begin(next_record())
        await a_moment()
        asking.cancel()
        await asyncio.wait([asking])
        loop.harness.hear(RecordsFetched(chunks=(a_chunk(count=3),)))
        await a_moment()
        assert not loop.guard.broken, "what was fetched stays"
        assert engine.iteration.batch.handed == 0
        assert offsets(await loop.begin(engine.poll(0.0, 500))) == {A: [0, 1, 2]}

    run(program)


def loop_epoch(engine: Any) -> int:
    epoch: int = engine.delivery.partitions[A].epoch
    return epoch


def test_a_call_whose_turn_comes_as_the_consumer_is_stopped_hears_that_it_was_stopped() -> None:
    async def program(loop: Loop) -> None:
        turn = Turn("getmany", asyncio.current_task())
        await loop.guard.wait_for_turn(turn)
        loop.guard.end()

        with pytest.raises(ConsumerStoppedError):
            loop.driver.begin()
        loop.guard.leave(turn)

    run(program)
