"""How the application's half waits without a thread, a bell or an event loop of its own.

A method that may wait is a generator. It does what it can, and yields the time until which it has
nothing more to do. It is resumed at that time, or sooner if the background or another thread has
rung the bell. It may also yield an awaitable of the user's (of a listener whose methods are
coroutines): it is resumed when that is over, with its error thrown in. The generator's result is
the result of the call, and its error is the call's error.

    def position(self, partition: TopicPartition, deadline: float) -> Waiting[int]:
        while (offset := self.known_offset(partition)) is None:
            yield deadline
        return offset

The driver decides how to wait: a thread with its bell (`Blocking`; the simulation's bell waits in
virtual time), an asyncio consumer with its event loop. A driver contains no rule of Kafka.

A time may be `Open`: while this is waited for, calls of other threads may be let in.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

from aktor.actors.runtime.dispatcher import STOOD_STILL, Bell
from aktor.consumer.core.caller import CallerRef, this_caller

__all__ = [
    "CATCH_UP",
    "Bells",
    "Blocking",
    "LateBell",
    "Open",
    "Patience",
    "Waiting",
    "done_within",
]

T = TypeVar("T")

#: Yields the time until which it waits (by the clock of the consumer), or an awaitable; returns a
#: result.
Waiting: TypeAlias = Generator[float | Awaitable[Any], None, T]


#: If the process stood still past the end of a wait, the background is given so many seconds to
#: read what has come meanwhile, and to tell it.
CATCH_UP: Final = 0.25


class Open(float):
    """A time until which a call waits. Nothing is half done, and it looks at everything again: so
    other calls may begin and end meanwhile."""

    __slots__ = ()


class Patience:
    """Whether a call has waited for long enough.

    A process that was stopped (SIGSTOP) or had no turn, and goes on after the end of a wait, may
    have its answer in a socket: the background has had no time to read it. So the wait goes on for
    `CATCH_UP` then, once. Java's classic consumer reads its sockets before it looks at the time.

    An application thread asks `is_over` before it gives up, and `until` before it waits.
    """

    __slots__ = ("_due", "_until")

    def __init__(self, until: float, now: float) -> None:
        self._until = until
        #: When it is to look again at the latest. (The process may have stood still before this.)
        self._due = min(until, now)

    def is_over(self, now: float) -> bool:
        """Whether the time has passed, and what came until then was heard."""
        if now < self._until:
            return False
        if now > self._due + STOOD_STILL:
            self._until, self._due = now + CATCH_UP, math.inf
            return False
        return True

    def until(self, now: float, look_at: float = math.inf) -> float:
        """Until when to wait, if it is to look again at this time."""
        until = min(self._until, look_at)
        if self._due != math.inf:
            self._due = max(now, until)
        return until

    def goes_on(self, now: float) -> None:
        """The thread was busy until now, and the background was not."""
        self._due = max(self._due, now)


def done_within(timeout: float, wait: Callable[[float], bool]) -> bool:
    """Wait for so many seconds for something that other threads do outside of the consumer; returns
    whether it is done. `wait` waits for the seconds that it is given, and returns the same."""
    clock = time.monotonic
    began = clock()
    patience = Patience(began + timeout, began)
    while not wait(max(0.0, patience.until(now := clock()) - now)):
        if patience.is_over(clock()):
            return False
    return True


class Bells(Bell):
    """The bell of a consumer. Each thread that waits has a bell of its own; all ring together.

    A ring that comes while a thread does not wait is kept for its next wait, as with one bell.
    """

    __slots__ = ("_adding", "_all", "_make", "_of", "_unused")

    def __init__(self, make: Callable[[], Bell]) -> None:
        super().__init__()
        self._make = make
        #: The bell of the thread that is the first to wait.
        self._unused = [make()]
        self._all = tuple(self._unused)
        self._of: dict[CallerRef, Bell] = {}
        self._adding = threading.RLock()

    def ring(self) -> None:
        """Ring all, and those that no thread waits for keep it. From any thread."""
        for bell in self._all:
            bell.ring()

    def wait(self, timeout: float) -> bool:
        """Sleep until rung or `timeout` seconds have passed; False if it was not rung."""
        return self.of_this_thread().wait(timeout)

    def of_this_thread(self) -> Bell:
        """The bell of the calling thread. A new one rings: what came before was not heard."""
        return self._of.get(this_caller()) or self._hand_out()

    def _hand_out(self) -> Bell:
        with self._adding:
            if self._unused:
                bell = self._unused.pop()
            else:
                self._forget_ended_threads()
                bell = self._make()
                bell.ring()
                self._all = (*self._all, bell)
            self._of[this_caller()] = bell
            return bell

    def _forget_ended_threads(self) -> None:
        self._of = {caller: bell for caller, bell in self._of.items() if caller() is not None}
        self._all = tuple(self._of.values())


class LateBell(Bell):
    """The bell of a call after the interpreter has taken the background thread away: who waits for
    it turns the actors meanwhile."""

    __slots__ = ("_bell", "_turn_until_rung")

    def __init__(self, bell: Bell, turn_until_rung: Callable[[Bell, float], bool]) -> None:
        super().__init__()
        self._bell = bell
        self._turn_until_rung = turn_until_rung

    def ring(self) -> None:
        """Ring the consumer's bell."""
        self._bell.ring()

    def wait(self, timeout: float) -> bool:
        """Turn until it was rung or `timeout` seconds have passed; False if it was not rung."""
        return self._turn_until_rung(self._bell, timeout)


class Blocking:
    """Runs such generators on the calling thread, and waits for the bell in between."""

    __slots__ = ("_bell", "_clock")

    def __init__(self, bell: Bell, clock: Callable[[], float]) -> None:
        self._bell = bell
        self._clock = clock

    def run(self, waiting: Waiting[T], wait_open: Callable[[float], None] | None = None) -> T:
        """Run the generator to its end; returns its result. Until an open time `wait_open` waits.

        An interrupt that comes during the wait closes the generator. The wait for the bell is
        outside of the `try` that catches StopIteration, because a signal handler may raise one.
        """
        error: BaseException | None = None
        try:
            while True:
                try:
                    asked = next(waiting) if error is None else waiting.throw(error)
                except StopIteration as over:
                    result: T = over.value
                    return result
                if isinstance(asked, float | int):
                    error = None
                    if wait_open is not None and type(asked) is Open:
                        wait_open(asked)
                    else:
                        self._bell.wait(asked - self._clock())
                else:
                    error = _finish(asked)
        except BaseException:
            waiting.close()
            raise
        finally:
            error = None  # its traceback may have this frame


def _finish(awaitable: Awaitable[Any]) -> BaseException | None:
    """Run the awaitable to its end on this thread, in its own event loop; returns its error.

    The error may be an interrupt: it counts as raised by the user's code.
    """
    try:
        _run_in_a_loop(awaitable)
    except BaseException as error:
        return error
    return None


def _run_in_a_loop(awaitable: Awaitable[Any]) -> None:
    """Run the awaitable in an event loop of its own.

    A loop that runs on this thread already (Jupyter; an application that polls in a coroutine)
    stands still, as it does for all of `poll`. It is hidden meanwhile, since asyncio lets no other
    loop run on the same thread. So the callback may call the consumer, as one without `async` may.
    """
    import asyncio  # imported already: see Rebalancing.tell

    outer = asyncio._get_running_loop()
    if outer is None:
        asyncio.run(_await(awaitable))
        return
    # From Python 3.14 on the task that runs is the thread's, not the loop's.
    swap = getattr(asyncio.tasks, "_swap_current_task", None)
    task = swap(outer, None) if swap is not None else None
    asyncio._set_running_loop(None)
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(_await(awaitable))
    finally:
        asyncio._set_running_loop(outer)
        if swap is not None:
            swap(outer, task)


async def _await(awaitable: Awaitable[Any]) -> None:
    await awaitable
