"""Begins the calls of the asyncio consumer, runs the core's generators in an event loop, and ends
them.

A call that is cancelled leaves nothing half done. Where it lets others in (at an `Open` time) it
ends at once. Anywhere else, in a step of a rebalance, say, it goes on without its caller to the
next such line, or to its end. What it would have given out then is taken back, so that the next
call gives it out; and a listener's coroutine runs to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from aktor.actors.runtime.dispatcher import Bell
from aktor.aio import tasks
from aktor.aio.turns import INSIDE, TaskGuard, Turn
from aktor.consumer.core.half import ApplicationHalf
from aktor.consumer.core.waiting import Open, Waiting

__all__ = ["Driver", "LoopBell"]

T = TypeVar("T")

#: An event loop takes no infinite time, in seconds.
LONGEST: Final = 1e9


class LoopBell(Bell):
    """A bell for coroutines of one event loop. All that wait hear each ring.

    `rings` is another number after each ring: who notes it, and looks, and then waits, hears what
    came after the look.
    """

    __slots__ = ("_count", "_loop", "_waiting", "_wakes", "rings")

    def __init__(self) -> None:
        super().__init__()
        self.rings = 0
        self._count = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: In the order in which they came. A loop that is open holds them by their timers. If it is
        #: closed in the middle of a call, they must not live on by the thread that rings: it ends
        #: when the consumer is dropped.
        self._waiting: WeakKeyDictionary[asyncio.Future[None], None] = WeakKeyDictionary()
        #: The loop was asked to wake those that wait, and has not done so yet.
        self._wakes = False

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those that wait run in this loop."""
        self._loop = loop

    def ring(self) -> None:
        """Wake all that wait. From any thread."""
        self.rings = next(self._count)
        # Who begins to wait just now looks at `rings` once it is in the set.
        if self._waiting and not self._wakes and self._loop is not None:
            self._wakes = True
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._wakes = False
        for one in [*self._waiting]:
            _set(one)

    async def wait_for_ring(self, seen: int, timeout: float) -> None:
        """Until the bell has rung since `rings` was `seen`, or for so many seconds."""
        loop = asyncio.get_running_loop()
        rung, timer = loop.create_future(), None
        self._waiting[rung] = None
        try:
            if self.rings != seen or timeout <= 0:
                await asyncio.sleep(0)  # other tasks of the loop are to have their turns, too
                return
            timer = loop.call_later(min(timeout, LONGEST), _set, rung)
            await rung
        finally:
            self._waiting.pop(rung, None)
            if timer is not None:
                timer.cancel()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Driver:
    """Begins, drives and ends the calls of one consumer. Owns those that go on without their
    callers.

    `check_background` fails if the background thread is gone.
    """

    def __init__(
        self,
        bell: LoopBell,
        guard: TaskGuard,
        half: ApplicationHalf,
        check_background: Callable[[], object],
    ) -> None:
        self._bell = bell
        self._clock = half.wiring.clock
        self._guard = guard
        self._half = half
        self._check_background = check_background
        self._alone: set[asyncio.Task[Any]] = set()

    # -- how an outermost call begins and ends

    def begin(self, *, closing: bool = False) -> None:
        """The call has entered, and begins."""
        begin = self._guard.begin_close if closing else self._guard.begin_call
        begin(self._half, self._check_background)

    def note_error(self, error: BaseException, turn: Turn) -> bool:
        """The call ends by this error: an interrupt, unless it is one of our own. Returns whether
        it was inside. If not, what the consumer does now is another call's."""
        if turn.goes_on_alone or self._guard.holder.get(None) is not turn:
            return False
        self._guard.note_error(self._half.call, error, begun=self._guard.begun)
        return True

    def leave(self, turn: Turn) -> None:
        """The call is over, unless it goes on alone. It may have made records ready (`resume`, a
        seek in what is buffered, a batch that it did not take whole) for which a call of another
        task waits."""
        if turn.goes_on_alone:
            return
        self._guard.leave(turn)
        if self._guard.away and self._half.delivery.anything_ready:
            self._bell.ring()

    # -- how it is driven

    async def run(self, turn: Turn, waiting: Waiting[T]) -> T:
        """Run an outermost call to its end; returns its result."""
        self._half.call.touch()
        section = None
        try:
            seen = self._bell.rings
            over, asked = _advance(waiting)
            while not over:
                if type(asked) is Open:
                    await self._wait_open(turn, seen, asked)
                    seen = self._bell.rings
                    over, asked = _advance(waiting)
                else:
                    closed = self._closed(waiting, seen, asked)
                    section = tasks.begin(closed, context=_context_of(turn))
                    over, asked, seen = await asyncio.shield(section)
                    section = None
            return cast("T", asked)
        except BaseException:
            if section is None:
                waiting.close()
            elif not section.done() or section.cancelled() or section.exception() is None:
                self._go_on_alone(turn, waiting, section)
            raise

    async def run_nested(self, waiting: Waiting[T]) -> T:
        """Run a call that a callback of the present one makes. It lets no others in."""
        self._half.call.touch()
        try:
            over, asked, seen = False, -math.inf, self._bell.rings
            while not over:
                over, asked, seen = await self._closed(waiting, seen, asked, nested=True)
            return cast("T", asked)
        except BaseException:
            waiting.close()
            raise

    def run_at_once(self, waiting: Waiting[T]) -> T:
        """Run a call to its end that need not wait."""
        self._half.call.touch()
        over, asked = _advance(waiting)
        if not over:
            waiting.close()
            raise self._guard.refusal("this call")
        return cast("T", asked)

    async def _wait_open(self, turn: Turn, seen: int, until: float) -> None:
        """Wait for the bell until then, and let other calls in meanwhile."""
        guard, half = self._guard, self._half
        kept = half.call.let_others_in()
        guard.let_others_in(turn)
        try:
            await self._bell.wait_for_ring(seen, until - self._clock())
        except BaseException:
            guard.away.discard(turn)
            raise
        await guard.come_back(turn)
        guard.resume(half, kept)

    async def _closed(
        self, waiting: Waiting[Any], seen: int, asked: Any, *, nested: bool = False
    ) -> tuple[bool, Any, int]:
        """Go on to the next line where others may be let in, or to the end. Returns whether it is
        over, the result or the time, and the rings before that."""
        error: BaseException | None = None
        while True:
            if not isinstance(asked, float | int):
                error = await self._error_of(asked)
            elif asked > -math.inf:
                await self._bell.wait_for_ring(seen, asked - self._clock())
            seen = self._bell.rings
            over, asked = _advance(waiting, error)
            error = None
            if over or (type(asked) is Open and not nested):
                return over, asked, seen

    async def _error_of(self, awaitable: Awaitable[Any]) -> BaseException | None:
        """Run the user's awaitable to its end, as a task of its own; returns its error."""
        guard = self._guard
        task = tasks.begin(_await(awaitable))
        outer = guard.callback
        guard.runs(task)
        try:
            await asyncio.wait([task])
            if outer is None:
                await guard.wait_for_nested()
        except GeneratorExit:  # the event loop was closed
            raise
        except BaseException:  # it ends
            task.cancel()
            raise
        finally:
            guard.runs(outer)
        return asyncio.CancelledError() if task.cancelled() else task.exception()

    def _go_on_alone(
        self, turn: Turn, waiting: Waiting[Any], section: asyncio.Task[tuple[bool, Any, int]]
    ) -> None:
        """The caller was cancelled, and is not told how this ends."""
        turn.go_on_alone()
        self._alone.add(section)

        def end(ended: asyncio.Task[tuple[bool, Any, int]]) -> None:
            self._alone.discard(ended)
            waiting.close()
            if ended.cancelled() or ended.exception() is not None:
                self._guard.break_off()
            else:
                over, result, _ = ended.result()
                if over:
                    self._guard.withdraw(self._half, result)
            self._half.call.forget_errors()
            self._guard.leave(turn)

        section.add_done_callback(end)


def _advance(waiting: Waiting[Any], error: BaseException | None = None) -> tuple[bool, Any]:
    """Let the generator go on. Returns whether it is over; and its result, or what it waits for."""
    try:
        return False, next(waiting) if error is None else waiting.throw(error)
    except StopIteration as over:
        return True, over.value
    finally:
        error = None  # its traceback may have this frame


def _context_of(turn: Turn) -> Context:
    """The context of the callbacks that run in this call."""
    context = copy_context()
    context.run(INSIDE.set, turn)
    return context


async def _await(awaitable: Awaitable[Any]) -> None:
    await awaitable
