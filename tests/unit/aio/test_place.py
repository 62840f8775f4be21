"""Where the application of an asyncio consumer is, while nobody reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from aktor.aio.turns import TaskGuard, Turn
from aktor.consumer.core.caller import this_caller
from aktor.consumer.present.stack import line_of, stack_of


async def handles() -> None:
    await asyncio.sleep(0)
    await waits_for_an_answer()


async def waits_for_an_answer() -> None:
    await asyncio.get_running_loop().create_future()


class AnObject:
    """A coroutine as `types.coroutine` and C code make them."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from asyncio.get_running_loop().create_future()


async def awaits_an_object() -> None:
    await AnObject()


async def awaits_a_task() -> None:
    await asyncio.ensure_future(handles())


def blocks(meanwhile: Callable[[], object]) -> None:
    """The event loop stands still until another thread has done this."""
    other = threading.Thread(target=meanwhile)
    other.start()
    other.join()


class Place:
    """A guard of which a task has read last, and which this thread's event loop drives."""

    def __init__(self, reader: asyncio.Task[Any] | None) -> None:
        self.guard = TaskGuard()
        self.guard.reads(Turn("getmany", reader))
        self.caller = this_caller()

    def line(self, *, in_callback: bool = False) -> str:
        """The name of the function, without its file and line."""
        return line_of(self.guard.frames(self.caller, in_callback=in_callback)).rpartition(" ")[2]


async def suspended(work: Callable[[], Awaitable[None]]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(work())
    for _ in range(5):
        await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task)
    return task


@pytest.mark.parametrize(
    ("work", "line"),
    [
        (handles, "waits_for_an_answer"),
        (awaits_an_object, "__await__"),
        (awaits_a_task, "awaits_a_task"),
    ],
)
def test_it_is_the_line_at_which_the_task_that_read_last_awaits_something(
    work: Callable[[], Awaitable[None]], line: str
) -> None:
    async def main() -> None:
        reader = await suspended(work)
        place = Place(reader)

        assert place.line() == line, "seen by a task of the loop"
        assert await asyncio.to_thread(place.line) == line, "seen by a thread, as by a probe"
        reader.cancel()

    asyncio.run(main())


def test_the_stack_of_a_task_begins_with_what_it_awaits() -> None:
    async def main() -> None:
        place = Place(await suspended(handles))

        stack = stack_of(place.guard.frames(place.caller, in_callback=False))

        assert [one.rpartition(" ")[2] for one in stack] == ["waits_for_an_answer", "handles"]

    asyncio.run(main())


def test_a_reader_that_blocks_the_loop_is_seen_from_another_thread() -> None:
    seen: list[str] = []

    async def reads() -> None:
        place = Place(asyncio.current_task())
        blocks(lambda: seen.append(place.line()))

    asyncio.run(reads())
    assert seen == ["blocks"]


def test_the_listener_that_runs_is_where_its_task_is() -> None:
    async def main() -> None:
        place = Place(await suspended(awaits_a_task))
        place.guard.runs(await suspended(handles))

        assert place.line(in_callback=True) == "waits_for_an_answer"
        assert place.line() == "awaits_a_task"

    asyncio.run(main())


def test_whoever_looks_is_not_what_keeps_a_consumer_waiting_whose_reader_has_ended() -> None:
    async def reads() -> None:
        """Each read is a task of its own, as with `asyncio.wait_for` before Python 3.12."""

    async def main() -> None:
        reader = asyncio.ensure_future(reads())
        await reader

        assert Place(reader).line() == ""
        assert Place(None).line() == ""

    asyncio.run(main())


def test_a_reader_that_looks_itself_is_at_its_own_line() -> None:
    async def main() -> None:
        assert Place(asyncio.current_task()).line() == "line"

    asyncio.run(main())


def test_without_a_loop_that_runs_the_thread_is_where_it_looks() -> None:
    async def reads() -> Place:
        return Place(asyncio.current_task())

    assert asyncio.run(reads()).line() == "line"
