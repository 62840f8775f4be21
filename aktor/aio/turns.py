"""Calls of several tasks: one at a time is inside a consumer, the others wait in a queue.

A call that waits for the cluster lets others in meanwhile, so that a commit never waits for a
fetch. A call that a rebalance listener makes is *nested* in the call that runs the listener.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from typing import Any, Final

from aktor.consumer.core.guard import Guard
from aktor.errors import ConcurrentAccessError

__all__ = ["INSIDE", "TaskGuard", "Turn"]


class Turn:
    """A call, from its beginning to its end."""

    __slots__ = ("goes_on_alone", "name", "task")

    def __init__(self, name: str, task: asyncio.Task[Any] | None) -> None:
        self.name = name
        #: The task that has called; None: no task, but a callback of the event loop.
        self.task = task
        #: The caller was cancelled, and the call has yet to come to a line where it can end.
        self.goes_on_alone = False

    def go_on_alone(self) -> None:
        """The caller was cancelled in the middle of a step."""
        self.goes_on_alone = True

    @property
    def where(self) -> str:
        """The task, for an error."""
        return f"task {self.task.get_name()!r}" if self.task is not None else "a callback"


#: The call in whose listener the present code runs; tasks that a listener starts have it, too.
INSIDE: Final[ContextVar[Turn | None]] = ContextVar("aktor_inside", default=None)


class TaskGuard(Guard[Turn]):
    """The guard of calls that await. It is used on the event loop's thread only."""

    __slots__ = ("_queue", "away")

    def __init__(self) -> None:
        super().__init__()
        #: Calls that have let others in while they wait for the cluster.
        self.away: set[Turn] = set()
        self._queue: deque[tuple[Turn, asyncio.Future[None]]] = deque()

    def refusal(self, holder: Turn | None) -> ConcurrentAccessError:
        """The error of a call that cannot wait for its turn."""
        here = asyncio.current_task()
        return ConcurrentAccessError(
            owner=holder.where if holder is not None else "another task",
            other=here.get_name() if here is not None else "a callback",
        )

    @property
    def in_callback_of(self) -> Turn | None:
        """The call that is inside, if the present code is a callback of it, or of a task that such
        a callback has started."""
        holder = self.holder.get(None)
        if holder is None:
            return None
        if INSIDE.get() is holder:
            return holder
        return holder if holder.task is asyncio.current_task() else None

    # -- entering and leaving

    def enter(self, turn: Turn) -> bool:
        """Enter at once; False if there are others."""
        if self._queue or self.holder:
            return False
        self.holder[None] = turn
        return True

    async def wait_for_turn(self, turn: Turn) -> None:
        """Enter when it is this call's turn."""
        if self.enter(turn):
            return
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((turn, entered))
        try:
            await entered
        except BaseException:
            if self.holder.get(None) is turn:
                self.leave(turn)
            else:
                self._queue.remove((turn, entered))
            raise

    def leave(self, turn: Turn) -> None:
        """The call is over, or lets others in: the next one of the queue enters."""
        if self.holder.get(None) is not turn:
            return
        self.begun = False
        del self.holder[None]
        while self._queue:
            following, entered = self._queue.popleft()
            if not entered.done():
                self.holder[None] = following
                entered.set_result(None)
                return

    def let_others_in(self, turn: Turn) -> None:
        """This call waits for the cluster, and nothing of it is half done."""
        self.away.add(turn)
        self.leave(turn)

    async def come_back(self, turn: Turn) -> None:
        """The call goes on, when it is its turn."""
        try:
            await self.wait_for_turn(turn)
        finally:
            self.away.discard(turn)
