"""Where handlers run: threads or coroutines, and (`processes`) processes. Each says what became of
a job.

A job's `done` is called once, on whatever thread, with what it raised, or None. `submit` returns a
function that takes the job back. If that returns True, the job had not begun: it is never run, and
`done` is never called.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from aktor.actors.runtime.dispatcher import Bell

__all__ = [
    "Cancel",
    "Coroutines",
    "Job",
    "NoWorkerError",
    "Threads",
    "Workers",
    "call_plainly",
    "runs_handlers",
]

Cancel = Callable[[], bool]

_this_thread = threading.local()


def runs_handlers() -> bool:
    """Whether handlers run on the calling thread."""
    return getattr(_this_thread, "is_worker", False)


#: In a task that a handler has started, SystemExit ends the event loop's run. For so many seconds
#: after that the handler that awaits the task may still end by it, and be told as the one.
GRACE: Final = 0.1


class Job(NamedTuple):
    """`call(argument)` is to be called, and then `done`, with what it raised.

    `alone`: nothing else is to run in a process meanwhile, for it has killed one. `begun` is called
    when a worker begins with it, on whatever thread.
    """

    call: Callable[[Any], Any]
    argument: Any
    done: Callable[[BaseException | None], None]
    alone: bool = False
    begun: Callable[[], None] = lambda: None


class NoWorkerError(RuntimeError):
    """There is no worker for a job any more, or none is to be had. It is not the job's fault."""


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
                    job.done(_caused(NoWorkerError("no thread could be started"), error))
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
        _this_thread.is_worker = True
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
                job.begun()
                _run(job)


def _run(job: Job) -> None:
    try:
        call_plainly(job.call, job.argument)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        job.done(error)
    except BaseException as error:  # its thread ends, too
        job.done(error)
        raise
    else:
        job.done(None)


def call_plainly(call: Callable[[Any], Any], argument: Any) -> None:
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
        #: It was closed, and what ran has ended: the loop may stop.
        self._may_stop = False
        self._loop = asyncio.new_event_loop()
        #: What runs. `done` of a job is called by whoever takes its claim.
        self._tasks: dict[asyncio.Task[None], tuple[_Claim, Job]] = {}
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:  # no more threads are to be had
            self._loop.close()
            raise

    def _serve(self) -> None:
        _this_thread.is_worker = True
        error: BaseException | None = None
        try:
            while not self._may_stop:  # a handler may have stopped the loop
                try:
                    self._loop.run_forever()
                except (KeyboardInterrupt, SystemExit) as caught:
                    self._loop.call_later(GRACE, self._fail_all, caught)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._loop.close()
            self._fail_all(error)

    def submit(self, job: Job) -> Cancel:
        """Run it in the loop."""
        claim = _Claim()
        self._inbox.append((claim, job))
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError as error:  # it is closed
            self._fail_all(error)
        return claim.take

    def _begin(self) -> None:
        while self._inbox and len(self._tasks) < self._count and not self._closed:
            claim, job = self._inbox.popleft()
            if claim.take():
                end = _Claim()
                task = self._loop.create_task(self._run(job, end))
                self._tasks[task] = end, job
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._begin()

    async def _run(self, job: Job, end: _Claim) -> None:
        failure: BaseException | None = None
        job.begun()
        try:
            await job.call(job.argument)
        except BaseException as error:
            # Also CancelledError: it was not finished. KeyboardInterrupt and SystemExit would end
            # the loop, and with it the coroutines of other records.
            failure = error
        if end.take():
            job.done(failure)

    def _fail_all(self, error: BaseException | None) -> None:
        """The run of the loop has ended, by this error of a task or callback of a handler's.

        Whose it was is not known, unless a handler awaits it. So all jobs in hand end.
        """
        text = "the event loop of the handlers has ended"
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            kind = type(error).__name__
            text = (
                f"a task or a callback that a handler had started raised {kind} in their event loop"
            )
        while self._inbox:
            claim, job = self._inbox.popleft()
            if claim.take():
                job.done(_caused(NoWorkerError(text), error))
        for task, (end, job) in list(self._tasks.items()):
            if end.take():
                job.done(_caused(NoWorkerError(text), error))
            if not self._loop.is_closed():
                task.cancel()

    def close(self) -> None:
        """What still runs is cancelled, and the loop ends."""
        self._closed = True
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._loop.call_soon(self._loop.call_soon, self._stop)  # once they have ended

    def _stop(self) -> None:
        self._may_stop = True
        self._loop.stop()


def _caused(error: NoWorkerError, cause: BaseException | None) -> NoWorkerError:
    error.__cause__ = cause
    return error
