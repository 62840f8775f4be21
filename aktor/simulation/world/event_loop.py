"""asyncio in virtual time: the event loop of one member's code.

Coroutines run unchanged: `asyncio.sleep`, `timeout` and the like take virtual time. A loop that
waits lets others have their turns. Members take turns on one thread, where asyncio knows one
running loop: whoever has the turn puts its own there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aktor.actors.runtime.dispatcher import Bell
from aktor.simulation.world.scheduler import Task

__all__ = ["VirtualLoop", "run"]

T = TypeVar("T")

#: What is due within so many seconds is due: less is lost in the sums of a clock that starts high.
RESOLUTION: Final = 1e-6


class VirtualLoop(asyncio.BaseEventLoop):
    """Its clock is the task's, and its selector waits for a bell."""

    def __init__(self, task: Task, bell: Bell) -> None:
        super().__init__()
        self._task = task
        self._bell = bell
        self._selector = self
        self._clock_resolution = RESOLUTION
        self._ready_to_go_on: Any = None

    # -- what asyncio asks of its loop, and of its selector

    def time(self) -> float:
        """Seconds of the member's monotonic clock."""
        return self._task.monotonic()

    def select(self, timeout: float | None = None) -> list[Any]:
        """Nothing is ever ready; others have their turns meanwhile."""
        self._bell.wait(float("inf") if timeout is None else timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._bell.ring()

    def run_in_executor(  # type: ignore[override]  # as a pool that does each task at once
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do it at once, on this thread."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    # -- whose turn it is

    def rests(self) -> None:
        """Others have their turns: this is not the running loop of the thread."""
        asyncio._set_running_loop(None)
        if (swap := getattr(asyncio.tasks, "_swap_current_task", None)) is not None:
            self._ready_to_go_on = swap(self, None)

    def goes_on(self) -> None:
        """It is this loop's turn again."""
        asyncio._set_running_loop(self)
        if (swap := getattr(asyncio.tasks, "_swap_current_task", None)) is not None:
            swap(self, self._ready_to_go_on)


def run(work: Coroutine[Any, Any, T], task: Task, bell: Bell) -> T:
    """Run the coroutine to its end, as the code of this task."""
    loop = VirtualLoop(task, bell)
    task.loop = loop
    try:
        return loop.run_until_complete(work)
    finally:
        task.loop = None
        for left in asyncio.all_tasks(loop):  # the process is gone: no `finally` runs in earnest
            left._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                left.get_coro().close()
        with contextlib.suppress(RuntimeError):  # it stands in the middle of a turn
            loop.close()
