"""Where a task waits, and which task waits for which, as far as asyncio knows it.

A task that awaits a task, `gather`, `wait`, `wait_for`, `shield` or the end of a `TaskGroup` is
found. What waits for a lock, a queue or an event is not: nobody knows who will set it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any, Final

__all__ = ["frames_awaiting", "waits_for"]

#: Of a coroutine and of a generator: its frame, whether it runs, and what it awaits.
_OF_KIND: Final = (
    ("cr_frame", "cr_running", "cr_await"),
    ("gi_frame", "gi_running", "gi_yieldfrom"),
)


def frames_awaiting(task: asyncio.Task[Any]) -> list[FrameType]:
    """The frames in which this task is suspended, the innermost first; none if it runs now, or has
    ended. From any thread."""
    frames: list[FrameType] = []
    at: Any = task.get_coro()
    while at is not None:
        kind = next((names for names in _OF_KIND if hasattr(at, names[0])), None)
        if kind is None:
            break
        frame, runs, awaited = (getattr(at, name) for name in kind)
        if runs:
            return []
        if frame is not None:
            frames.append(frame)
        at = awaited
    return frames[::-1]


def waits_for(waiter: asyncio.Task[Any], other: asyncio.Task[Any]) -> bool:
    """Whether `waiter` goes on only once `other` has ended."""
    seen: set[asyncio.Future[Any]] = set()
    ahead: list[asyncio.Future[Any] | None] = [waiter]
    while ahead:
        future = ahead.pop()
        if future is other:
            return True
        if future is not None and future not in seen:
            seen.add(future)
            ahead += _awaited(future)
    return False


def _awaited(future: asyncio.Future[Any]) -> Iterable[asyncio.Future[Any] | None]:
    """What must be done before this is."""
    if isinstance(future, asyncio.Task):
        return (getattr(future, "_fut_waiter", None),)
    children: Iterable[asyncio.Future[Any]] | None = getattr(future, "_children", None)
    if children is not None:  # of `gather`
        return children
    return [
        task
        for task in asyncio.all_tasks()
        if any(_ends(call, future) for call, _ in getattr(task, "_callbacks", None) or ())
    ]


def _ends(callback: Callable[..., Any], future: asyncio.Future[Any]) -> bool:
    """Whether this callback of a task sets the future: of `wait_for`, a `TaskGroup`, `shield` or
    `wait` (but if this waits for the first of several tasks, none of them is the one)."""
    if isinstance(callback, partial):
        return any(argument is future for argument in callback.args)
    if getattr(getattr(callback, "__self__", None), "_on_completed_fut", None) is future:
        return True
    cells = [cell.cell_contents for cell in getattr(callback, "__closure__", None) or ()]
    first = asyncio.FIRST_COMPLETED in [value for value in cells if isinstance(value, str)]
    return not first and any(value is future for value in cells)
