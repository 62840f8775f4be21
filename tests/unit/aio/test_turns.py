"""Who waits for whom: turns, the listeners for which calls wait, and calls that wait in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kafka.errors import IllegalStateError, KafkaTimeoutError

from aktor.aio.turns import TaskGuard, Turn
from aktor.aio.waits import waits_for

Task = asyncio.Task[Any]


async def by_group(task: Task) -> None:
    async def join() -> None:
        await task

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        group.create_task(join())


async def by_first(task: Task) -> None:
    forever = asyncio.get_running_loop().create_future()
    await asyncio.wait([task, forever], return_when=asyncio.FIRST_COMPLETED)


async def by_event(task: Task) -> None:
    over = asyncio.Event()
    task.add_done_callback(lambda _task: over.set())
    await over.wait()


async def by_another(task: Task) -> None:
    await asyncio.create_task(by_group(task))


WAITS: dict[str, tuple[Callable[[Task], Awaitable[object]], bool]] = {
    "await": (lambda task: task, True),
    "gather": (lambda task: asyncio.gather(task, asyncio.sleep(0)), True),
    "wait": (lambda task: asyncio.wait([task]), True),
    "wait_for": (lambda task: asyncio.wait_for(task, 60), True),
    "shield": (lambda task: asyncio.shield(task), True),
    "group": (by_group, True),
    "another": (by_another, True),
    "first": (by_first, False),
    "event": (by_event, False),
}


@pytest.mark.parametrize("how", WAITS)
def test_a_task_that_waits_for_another_is_known_however_it_waits(how: str) -> None:
    async def main() -> None:
        goes_on = asyncio.Event()
        other = asyncio.create_task(goes_on.wait())
        wait, is_known = WAITS[how]

        async def waits() -> None:
            await wait(other)

        waiter, unrelated = asyncio.create_task(waits()), asyncio.create_task(goes_on.wait())
        for _ in range(5):
            await asyncio.sleep(0)
        assert waits_for(waiter, other) is is_known
        assert not waits_for(waiter, unrelated)
        assert not waits_for(other, waiter)
        goes_on.set()
        await asyncio.gather(waiter, other, unrelated)
        assert not waits_for(waiter, other)

    asyncio.run(main())


async def a_reader_with_a_listener(guard: TaskGuard, listens: Awaitable[object]) -> Task:
    """A task whose call is inside, and runs a listener that does this."""

    async def read() -> None:
        turn = Turn("getmany", asyncio.current_task())
        await guard.wait_for_turn(turn)
        guard.runs(asyncio.ensure_future(listens))
        await asyncio.wait([guard.callback])
        guard.leave(turn)

    reader = asyncio.create_task(read(), name="reader")
    while guard.callback is None:
        await asyncio.sleep(0)
    return reader


async def enter(guard: TaskGuard, name: str, **limits: float) -> None:
    turn = Turn(name, asyncio.current_task(), **limits)
    await guard.wait_for_turn(turn)
    guard.leave(turn)


@pytest.mark.parametrize("first", ["the call", "the listener"])
def test_a_call_for_whose_task_the_listener_waits_ends_by_an_error_that_names_both(
    first: str,
) -> None:
    async def main() -> None:
        guard, goes_on = TaskGuard(), asyncio.Event()

        async def work() -> None:
            if first == "the listener":
                await goes_on.wait()
            while not guard.holder:
                await asyncio.sleep(0)
            await enter(guard, "getone")

        worker = asyncio.create_task(work(), name="worker")

        async def listen() -> None:
            if first == "the call":
                await goes_on.wait()
            await asyncio.wait([worker])

        reader = await a_reader_with_a_listener(guard, listen())
        await asyncio.sleep(0)
        goes_on.set()
        await reader
        with pytest.raises(IllegalStateError, match=r"getone.*'worker'.*getmany.*'reader'"):
            worker.result()
        assert not guard.holder

    asyncio.run(main())


def test_a_call_waits_for_its_turn_no_longer_than_it_has_patience() -> None:
    async def main() -> None:
        guard, goes_on = TaskGuard(), asyncio.Event()
        reader = await a_reader_with_a_listener(guard, goes_on.wait())
        with pytest.raises(KafkaTimeoutError, match=r"in vain.*getmany.*'reader'.*listener"):
            await enter(guard, "getone", patience=0.01)
        goes_on.set()
        await reader
        await enter(guard, "getone", patience=0.01)

    asyncio.run(main())


def test_a_call_whose_process_was_stopped_has_its_turn_if_the_others_end_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        loop, stopped = asyncio.get_running_loop(), 0.0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + stopped)
        guard, goes_on = TaskGuard(), asyncio.Event()
        reader = await a_reader_with_a_listener(guard, goes_on.wait())
        call = asyncio.create_task(enter(guard, "getone", patience=5.0))
        await asyncio.sleep(0.01)
        stopped = 14.0
        loop.call_later(0.05, goes_on.set)
        await asyncio.wait([reader, call])
        assert call.exception() is None

    asyncio.run(main())


def test_a_call_that_gives_up_its_wait_does_not_take_the_turn_of_the_next_one() -> None:
    async def main() -> None:
        guard, goes_on = TaskGuard(), asyncio.Event()
        reader = await a_reader_with_a_listener(guard, goes_on.wait())
        calls = [
            asyncio.create_task(enter(guard, "getone", patience=0.01)),
            asyncio.create_task(enter(guard, "getone")),
            asyncio.create_task(enter(guard, "getone")),
        ]
        await asyncio.wait([calls[0]])
        calls[1].cancel()
        goes_on.set()
        await asyncio.wait([reader, *calls])
        assert [call.cancelled() for call in calls] == [False, True, False]
        assert calls[2].exception() is None
        assert not guard.holder

    asyncio.run(main())
