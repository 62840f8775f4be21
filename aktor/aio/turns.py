"""Calls of several tasks: one at a time is inside a consumer, the others wait in a queue.

A call that waits for the cluster lets others in meanwhile, so that a commit never waits for a
fetch. While a rebalance listener runs, calls that only look, commit or seek are *nested* in the
call that runs it: those of the listener, and those of other tasks, for which it may wait. Calls
that read wait for its end. If it waits for the task of such a call, both would wait for ever; that
call is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final
from weakref import ref

from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from aktor.aio.tasks import current_task
from aktor.aio.waits import frames_awaiting, waits_for
from aktor.consumer.core.caller import CallerRef, frames_of, thread_of
from aktor.consumer.core.guard import Guard
from aktor.consumer.core.waiting import Patience
from aktor.errors import ConsumerStoppedError

__all__ = ["INSIDE", "TaskGuard", "Turn"]

#: How often a call that waits for its turn looks whether it waits in vain, in seconds.
LOOK_EVERY: Final = 0.25


class Turn:
    """A call, from its beginning to its end."""

    __slots__ = ("_task", "goes_on_alone", "name", "patience", "ran_out", "until")

    def __init__(
        self,
        name: str,
        task: asyncio.Task[Any] | None,
        *,
        patience: float = math.inf,
        until: float = math.inf,
    ) -> None:
        self.name = name
        #: It waits for its turn for so many seconds at most; and until then, by the loop's clock.
        self.patience = patience
        self.until = until
        # The background thread looks at the guard, and so at its turns. It must not keep a task
        # alive whose loop was closed in the middle of the call.
        self._task = None if task is None else ref(task)
        #: The caller was cancelled, and the call has yet to come to a line where it can end.
        self.goes_on_alone = False
        #: It has waited for its turn until `until`, in vain.
        self.ran_out = False

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that has called; None: no task, but a callback of the event loop."""
        return None if self._task is None else self._task()

    def go_on_alone(self) -> None:
        """The caller was cancelled in the middle of a step."""
        self.goes_on_alone = True

    @property
    def where(self) -> str:
        """The task, for an error."""
        task = self.task
        return f"task {task.get_name()!r}" if task is not None else "a callback"


#: The call in whose listener the present code runs; tasks that a listener starts have it, too.
INSIDE: Final[ContextVar[Turn | None]] = ContextVar("aktor_inside", default=None)


class _Place:
    """A call that waits for its turn. It looks now and then whether that is in vain."""

    __slots__ = ("_guard", "_loop", "_patience", "entered", "timer", "turn")

    def __init__(self, guard: TaskGuard, turn: Turn) -> None:
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._patience = Patience(min(turn.until, now + turn.patience), now)
        self.turn = turn
        #: It is done when it is this call's turn.
        self.entered: asyncio.Future[None] = self._loop.create_future()
        self.timer = self._look_later()

    def _look_later(self) -> asyncio.TimerHandle:
        now = self._loop.time()
        return self._loop.call_at(self._patience.until(now, now + LOOK_EVERY), self._look)

    def _look(self) -> None:
        if self.entered.done():
            return
        is_over = self._patience.is_over(self._loop.time())
        vain = self._guard.vain(self.turn, is_over=is_over)
        if vain is None:
            self.timer = self._look_later()
        else:
            self.entered.set_exception(vain)


class TaskGuard(Guard[Turn]):
    """The guard of calls that await. It is used on the event loop's thread only; what it shows of
    its calls is read from any thread."""

    __slots__ = ("_callback", "_nested", "_nested_over", "_queue", "_reader", "away")

    CLOSED = ConsumerStoppedError

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        #: Calls that have let others in while they wait for the cluster.
        self.away: set[Turn] = set()
        self._callback: ref[asyncio.Task[Any]] | None = None
        #: The last call that reads.
        self._reader: Turn | None = None
        self._queue: deque[_Place] = deque()
        #: How many nested calls are under way; and what is set when the last of them is over.
        self._nested = 0
        self._nested_over: asyncio.Future[None] | None = None

    def start(self) -> None:
        """The consumer is started."""
        self.started = True

    def reads(self, turn: Turn) -> None:
        """This call is to read."""
        self._reader = turn

    def frames(self, caller: CallerRef, *, in_callback: bool) -> Iterable[FrameType]:
        """Those of the task of the listener, or of the last call that reads: what it awaits now.
        If it awaits nothing, or has ended, those of the event loop's thread; but what looks there
        itself is not what keeps the consumer waiting."""
        reader = self._reader
        task = self.callback if in_callback else None if reader is None else reader.task
        if task is not None and (frames := frames_awaiting(task)):
            return frames
        thread = thread_of(caller)
        if thread == threading.get_ident() and current_task() is not task:
            return ()
        return frames_of(thread)

    @property
    def waiting_calls(self) -> tuple[str, ...]:
        """The names of the calls that wait for the cluster."""
        return tuple(turn.name for turn in self.away.copy())

    @property
    def call_inside(self) -> str:
        """The name of the call that is inside; "": none is."""
        turn = self.holder.get(None)
        return "" if turn is None else turn.name

    # -- listeners

    @property
    def callback(self) -> asyncio.Task[Any] | None:
        """The task of the listener that the call inside runs. As a `Turn`, it keeps none alive."""
        return None if self._callback is None else self._callback()

    def runs(self, callback: asyncio.Task[Any] | None) -> None:
        """The call inside runs this listener from now on."""
        self._callback = None if callback is None else ref(callback)

    @property
    def runs_callback(self) -> bool:
        """Whether a listener runs now, so that calls are nested."""
        callback = self.callback
        return callback is not None and not callback.done()

    @property
    def in_callback_of(self) -> Turn | None:
        """The call that is inside, if the present code is a callback of it, or of a task that such
        a callback has started, or one for which it waits."""
        holder = self.holder.get(None)
        if holder is None:
            return None
        here = asyncio.current_task()
        if INSIDE.get() is holder or holder.task is here:
            return holder
        return holder if here is not None and self._is_awaited(here) else None

    def _is_awaited(self, task: asyncio.Task[Any]) -> bool:
        """Whether the listener that runs waits for this task."""
        callback = self.callback
        return callback is not None and not callback.done() and waits_for(callback, task)

    def refusal(self, name: str) -> KafkaError:
        """The error of a call that may not wait for the end of the call that is inside."""
        holder, here = self.holder.get(None), asyncio.current_task()
        if holder is not None and here is not None and INSIDE.get() is not holder:
            vain = self.vain(Turn(name, here))
            if vain is not None:
                return vain
        return IllegalStateError(f"{name} may not be called from a rebalance listener")

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """A nested call, from its beginning to its end."""
        self._nested += 1
        try:
            yield
        finally:
            self._nested -= 1
            over = self._nested_over
            if not self._nested and over is not None and not over.done():
                over.set_result(None)

    async def wait_for_nested(self) -> None:
        """The listener has ended: wait until the calls have that it, or others, began meanwhile.
        What the call inside does now would be in the middle of theirs."""
        while self._nested:
            self._nested_over = asyncio.get_running_loop().create_future()
            await self._nested_over

    # -- entering and leaving

    def enter(self, turn: Turn) -> bool:
        """Enter at once; False if there are others."""
        if self._queue or self.holder:
            return False
        self.holder[None] = turn
        return True

    async def wait_for_turn(self, turn: Turn) -> None:
        """Enter when it is this call's turn.

        Raises IllegalStateError if the listener that runs waits for this call's task, and
        KafkaTimeoutError when its time is over.
        """
        if self.enter(turn):
            return
        place = _Place(self, turn)
        self._queue.append(place)
        try:
            await place.entered
        except BaseException:
            if self.holder.get(None) is turn:
                self.leave(turn)
            else:
                with contextlib.suppress(ValueError):
                    self._queue.remove(place)
            raise
        finally:
            place.timer.cancel()

    def vain(self, turn: Turn, *, is_over: bool = False) -> KafkaError | None:
        """Why this call waits for its turn in vain, if it does; `is_over`: it has waited long."""
        holder = self.holder.get(None)
        if holder is None:
            return None
        task = turn.task
        if task is not None and self._is_awaited(task):
            return IllegalStateError(
                f"{turn.name}() of {turn.where} would wait for ever: the rebalance listener that"
                f" runs in {holder.name}() of {holder.where} waits for that task"
            )
        if not is_over:
            return None
        turn.ran_out = asyncio.get_running_loop().time() >= turn.until
        where = ", in a rebalance listener" if self.runs_callback else ""
        return KafkaTimeoutError(
            f"{turn.name}() of {turn.where} has waited in vain for its turn: {holder.name}() of"
            f" {holder.where} is inside the consumer{where}. Let a listener wait for nothing that"
            f" {turn.where} does"
        )

    def leave(self, turn: Turn) -> None:
        """The call is over, or lets others in: the next one of the queue enters."""
        if self.holder.get(None) is not turn:
            return
        self.begun = False
        del self.holder[None]
        while self._queue:
            following = self._queue.popleft()
            if not following.entered.done():
                self.holder[None] = following.turn
                following.entered.set_result(None)
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
