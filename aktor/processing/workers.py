"""Where handlers run: threads, processes or coroutines. Each says what became of a job.

A job's `done` is called once, on whatever thread, with what it raised, or None. `submit` returns a
function that takes the job back. If that returns True, the job had not begun: it is never run, and
`done` is never called.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, Protocol

from aktor.actors.runtime.dispatcher import Bell

__all__ = ["Coroutines", "Job", "Processes", "Threads", "Workers"]

Cancel = Callable[[], bool]


class Job(NamedTuple):
    """`call(argument)` is to be called, and then `done`, with what it raised."""

    call: Callable[[Any], Any]
    argument: Any
    done: Callable[[BaseException | None], None]


class Workers(Protocol):
    """Runs jobs, a certain number at a time."""

    #: So many jobs are given to it at a time: those that run, and the next ones.
    capacity: int

    def submit(self, job: Job) -> Cancel:
        """Run it as soon as a worker is free."""

    def close(self) -> None:
        """No job follows, and those that wait are not begun. What runs is not waited for."""


class _Claim:
    """Decides who gets a job: a worker, which runs it, or the caller, who takes it back."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = [None]

    def take(self) -> bool:
        """Whether it was free. From any thread: `list.pop` is atomic."""
        try:
            self._free.pop()
        except IndexError:
            return False
        return True


class Threads:
    """Daemon threads, each started when it is first needed. A thread that never ends does not keep
    the process from ending.

    They wait on bells of the consumer's host, so that a simulation can run them in virtual time.
    """

    def __init__(
        self,
        count: int,
        *,
        start: Callable[[Callable[[], None], str], None],
        make_bell: Callable[[], Bell],
        name: str,
    ) -> None:
        self.capacity = 2 * count  # who has ended finds the next one waiting
        self._count = count
        self._start = start
        self._make_bell = make_bell
        self._name = name
        self._inbox: deque[tuple[_Claim, Job]] = deque()
        self._idle: deque[Bell] = deque()
        self._started = 0
        self._closed = False

    def submit(self, job: Job) -> Cancel:
        """Run it as soon as a thread is free."""
        claim = _Claim()
        self._inbox.append((claim, job))
        if not self._ring_one() and self._started < self._count:
            self._started += 1
            try:
                self._start(self._work, f"{self._name}-{self._started}")
            except RuntimeError as error:  # no more threads are to be had
                self._started -= 1
                if not self._started and claim.take():
                    job.done(error)
        return claim.take

    def close(self) -> None:
        """The threads end once they have nothing in hand."""
        self._closed = True
        self._inbox.clear()
        while self._ring_one():
            pass

    def _ring_one(self) -> bool:
        try:
            bell = self._idle.pop()
        except IndexError:
            return False
        bell.ring()
        return True

    def _work(self) -> None:
        bell = self._make_bell()
        while True:
            try:
                claim, job = self._inbox.popleft()
            except IndexError:
                if self._closed:
                    return
                self._idle.append(bell)
                # Look again: a job may have come before this bell was in `_idle`.
                if not self._inbox and not self._closed:
                    bell.wait(threading.TIMEOUT_MAX)
                # If nobody rang the bell, it is still in `_idle`. Take it out: otherwise the next
                # `submit` could ring this thread while it works and idle ones sleep.
                with contextlib.suppress(ValueError):
                    self._idle.remove(bell)
                continue
            if claim.take():
                _run(job)


def _run(job: Job) -> None:
    try:
        _call(job.call, job.argument)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        job.done(error)
    except BaseException as error:  # its thread ends, too
        job.done(error)
        raise
    else:
        job.done(None)


def _call(call: Callable[[Any], Any], argument: Any) -> None:
    """Call it. A coroutine that it returns would never run, and its record count as handled."""
    result = call(argument)
    if inspect.iscoroutine(result):
        result.close()
        name = getattr(call, "__qualname__", repr(call))
        raise TypeError(
            f"{name} returned a coroutine, which is not awaited here: a handler that is to run as a"
            " coroutine must be an `async def` itself, and on_error must be an ordinary function"
        )


class Coroutines:
    """Tasks of an event loop that runs on a thread of its own."""

    def __init__(self, count: int, *, name: str) -> None:
        self.capacity = 2 * count  # when one ends, the next one begins at once
        self._count = count
        self._inbox: deque[tuple[_Claim, Job]] = deque()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def submit(self, job: Job) -> Cancel:
        """Run it in the loop."""
        claim = _Claim()
        self._inbox.append((claim, job))
        self._loop.call_soon_threadsafe(self._begin)
        return claim.take

    def _begin(self) -> None:
        while self._inbox and len(self._tasks) < self._count and not self._closed:
            claim, job = self._inbox.popleft()
            if claim.take():
                task = self._loop.create_task(self._run(job))
                self._tasks.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin()

    async def _run(self, job: Job) -> None:
        try:
            await job.call(job.argument)
        except BaseException as error:
            # Also CancelledError: it was not finished. KeyboardInterrupt and SystemExit would end
            # the loop, and with it the coroutines of other records.
            job.done(error)
        else:
            job.done(None)

    def close(self) -> None:
        """What still runs is cancelled, and the loop ends."""
        self._closed = True
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)  # once they have ended


class Processes:
    """Processes of their own, begun afresh ("spawn"): what a fork would copy is of no use there.

    The handler, records and exceptions are pickled. TypeError: the handler cannot be.
    """

    def __init__(self, count: int, *, handler: Callable[[Any], Any]) -> None:
        self.capacity = count + 1
        try:
            pickle.dumps(handler)
        except Exception as error:
            raise TypeError(
                f"a handler for processes must be pickled, and this one cannot be ({error}): give"
                " a function of a module"
            ) from error
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, context, initializer=_ignore_interrupts)

    def submit(self, job: Job) -> Cancel:
        """Run it in a process."""
        try:
            future = self._pool.submit(_call_in_process, job.call, job.argument)
        except BrokenProcessPool as error:
            job.done(error)
            return lambda: False

        def ended(future: Future[None]) -> None:
            if not future.cancelled():
                job.done(future.exception())

        future.add_done_callback(ended)
        return future.cancel

    def close(self) -> None:
        """The processes end once they have nothing in hand."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _ignore_interrupts() -> None:
    """A terminal sends Ctrl-C to all processes: the one that polls waits for what runs in these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call_in_process(call: Callable[[Any], Any], argument: Any) -> None:
    """Call it. What it returns is dropped: it would have to be pickled.

    An exception that can be pickled but not unpickled would break the whole pool.
    """
    try:
        _call(call, argument)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
            raise RuntimeError(f"{text} (it cannot be pickled)") from error
        raise
