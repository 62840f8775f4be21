"""How a call of the asyncio consumer begins and ends: what `consumer.core.guarded` is for threads.

A call is *outermost*, and enters when its turn has come (`turns`), or *nested*: made while a
rebalance listener runs. An outermost call repairs what an interrupted call has left half done, is
driven to its end, and leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import ref

from kafka.errors import IllegalStateError

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.aio import tasks
from aktor.aio.attendance import Attendance
from aktor.aio.driver import Driver, LoopBell
from aktor.aio.turns import INSIDE, TaskGuard, Turn
from aktor.consumer.core.guard import ASSIGNING
from aktor.consumer.core.waiting import Waiting
from aktor.errors import ConsumerClosedError, ConsumerStoppedError

if TYPE_CHECKING:
    from aktor.aio.processor import Processor
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["Guarded", "running_loop"]

T = TypeVar("T")

#: What reads records, and takes part in rebalances.
READS: Final = frozenset(
    {"getmany", "getone", "iteration", "poll_arrow", "process", "process (poll)"}
)

#: What a rebalance listener may not call.
NEVER_NESTED: Final = READS | {*ASSIGNING}

#: What would disturb a `process` that runs, if it did not come from a listener.
NOT_BESIDE_PROCESS: Final = frozenset(
    {"getmany", "getone", "iteration", "poll_arrow", "process", *ASSIGNING}
    | {"seek", "seek_to_beginning", "seek_to_committed", "seek_to_end"}
    | {"pause", "resume", "commit"}
)


class Guarded:
    """Begins and ends the calls of a consumer."""

    # -- what a consumer has

    _attendance: Attendance
    #: What the background rings.
    _bell: LoopBell
    _dispatcher: Dispatcher
    _driver: Driver
    _engine: ApplicationHalf
    _guard: TaskGuard
    #: The event loop to which it belongs; None: it was not started.
    _loop: asyncio.AbstractEventLoop | None
    #: For so long a call waits for its turn, in seconds, unless it has a time of its own.
    _patience: float
    #: The `process` under way.
    _processor: Processor | None
    #: The error by which the last call that reads ended that was cancelled, if it is alive.
    _cancelled_reading: Callable[[], BaseException | None] = staticmethod(lambda: None)

    # -- what may not begin

    def _check_loop(self) -> asyncio.AbstractEventLoop:
        """The consumer's event loop; raise outside of it."""
        loop = self._loop
        if loop is None:
            raise IllegalStateError("the consumer was not started: await start() first")
        if running_loop() is not loop:
            closed = ", which is closed" if loop.is_closed() else ""
            raise IllegalStateError(
                f"the consumer belongs to another event loop{closed}: make one in each loop, and"
                " call it there"
            )
        return loop

    def _check_usable(self) -> None:
        self._guard.check_process()
        if self._guard.ending and self._guard.in_callback_of is None:
            raise ConsumerStoppedError

    def _check_beside_process(self, name: str) -> None:
        """Raise if `process` runs, and this call would disturb it. A listener may call."""
        processor = self._processor
        if processor is None or name not in NOT_BESIDE_PROCESS:
            return
        holder = self._guard.holder.get(None)
        if holder is None or INSIDE.get() is not holder:
            owner = processor.task.get_name() if processor.task is not None else ""
            raise IllegalStateError(
                f"{name}() was called while process() of task {owner!r} runs. Handlers and other"
                " tasks may only stop() and wakeup() the consumer and look (position, committed,"
                " status, ...) meanwhile"
            )

    # -- how a call begins and ends

    def _turn(self, name: str, patience: float | None = None, timeout: float = math.inf) -> Turn:
        """A call that waits for its turn for `patience` seconds at most (default: as long as a
        member need not poll), and not for longer than `timeout`."""
        self._check_usable()
        loop = self._check_loop()  # Python 3.11 asks the system when it is asked for the loop
        if self._processor is not None:
            self._check_beside_process(name)
        return Turn(
            name,
            asyncio.current_task(loop),
            patience=self._patience if patience is None else patience,
            until=loop.time() + timeout,
        )

    async def _enter(self, turn: Turn) -> None:
        """Begin an outermost call when its turn has come."""
        guard = self._guard
        if turn.name in READS:
            self._attendance.end()
            guard.reads(turn)
        if not guard.enter(turn):
            if guard.in_callback_of is not None:
                raise guard.refusal(turn.name)
            await guard.wait_for_turn(turn)

    async def _call(
        self, name: str, make: Callable[[], Waiting[T]], patience: float | None = None
    ) -> T:
        """Run a call to its end: an outermost one, or a nested one (see `turns`)."""
        guard = self._guard
        if name not in NEVER_NESTED and guard.runs_callback:
            self._check_usable()
            self._check_loop()
            self._check_beside_process(name)
            with self._nested():
                return await self._driver.run_nested(make())
        turn = self._turn(name, patience)
        try:
            await self._enter(turn)
            self._driver.begin()
            return await self._driver.run(turn, make())
        except BaseException as error:
            raise self._error_of(error, turn) from error.__cause__
        finally:
            self._driver.leave(turn)

    def _start(self, name: str, make: Callable[[], Waiting[T]]) -> asyncio.Task[T]:
        """Begin a call whose end nobody need wait for."""
        self._check_usable()
        self._check_loop()
        if self._guard.in_callback_of is not None:
            raise self._guard.refusal(name)
        return tasks.begin(self._call(name, make))

    @contextlib.contextmanager
    def _at_once(self, name: str) -> Generator[None]:
        """A call that need not wait. If another call is inside, it is nested in that one, or
        refused."""
        guard = self._guard
        self._check_usable()
        if self._loop is not None:
            self._check_loop()
        self._check_beside_process(name)
        turn = Turn(name, tasks.current_task())
        holder = guard.holder.setdefault(None, turn)
        if holder is not turn:
            if name not in NEVER_NESTED:
                with self._nested():
                    yield
                return
            if guard.in_callback_of is not None:
                raise guard.refusal(name)
            raise IllegalStateError(
                f"{name}() was called while {holder.name}() of {holder.where} is in a step of a"
                " rebalance, and cannot wait for its end. Call it in the task that reads"
            )
        try:
            self._driver.begin()
            yield
        except BaseException as error:
            raise self._error_of(error, turn) from error.__cause__
        finally:
            self._driver.leave(turn)

    @contextlib.contextmanager
    def _nested(self) -> Generator[None]:
        call = self._engine.call
        touched = call.begin_nested()
        try:
            with self._guard.nested():
                yield
        finally:
            call.end_nested(touched=touched)

    def _error_of(self, error: BaseException, turn: Turn) -> BaseException:
        """An outermost call ends by this error; returns what the caller is told."""
        if isinstance(error, asyncio.CancelledError) and turn.name in READS:
            self._cancelled_reading = ref(error)  # its traceback has this consumer
        was_inside = self._driver.note_error(error, turn)
        if was_inside and type(error) is ConsumerClosedError:
            return ConsumerStoppedError()
        return error


def running_loop() -> asyncio.AbstractEventLoop:
    """Raises IllegalStateError outside of one, and says which one is wanted."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            raise IllegalStateError(
                "aktor.aio runs in asyncio's event loop (also under anyio), and not in trio's. In"
                " a program of trio, use aktor.KafkaConsumer in a thread (trio.to_thread)"
            ) from None
        raise IllegalStateError(
            "no event loop runs in this thread: call the consumer in a coroutine; from another"
            " thread, by asyncio.run_coroutine_threadsafe or loop.call_soon_threadsafe"
        ) from None
