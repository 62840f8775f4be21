"""Handlers in processes of their own, and what is done when a record kills one.

If a worker process dies (the kernel kills it for its memory, the handler calls `os._exit`), Python
gives up the whole pool: all running jobs end with `BrokenProcessPool`, and nobody knows which one
has killed it. So a new pool is made, and these jobs run one by one. The one that kills its process
again has failed; the others have just begun a second time (at-least-once).

Before they are tried, the new pool must load the handler. If it dies of that, it is no record's
fault (the program has no `if __name__ == "__main__"`, memory is short for any process): then all
jobs in hand end with `NoWorkerError`.

The locks. When a pool has died, Python 3.12.1 and later fail its futures, and so call `_ended`,
with the pool's own lock held. `ProcessPoolExecutor.submit`, `shutdown` and the end of the last
reference to the pool take that lock, too. Three rules follow. Without them `process()` hangs:

- Nothing of a pool, and no `done` of a job (`begun` takes no lock), is called with our lock held.
- A callback of a pool calls nothing of that pool: `_pool_died` makes a new one, or gives up.
- A callback does not drop the last reference to its pool: `_dead` keeps it until the next `submit`.
"""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Final

from aktor.errors import WorkerDiedError
from aktor.processing.workers import Cancel, Job, NoWorkerError, call_plainly

__all__ = ["Processes"]

#: Pools that have died. Their threads may not have ended yet, also when the `Processes` are gone.
_dead: Final[list[ProcessPoolExecutor]] = []


class _Entry:
    """A job on its way; `future` once a pool has it. `tried`: nothing else runs beside it. `begun`:
    a process has begun with it."""

    __slots__ = ("begun", "future", "job", "tried")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[None] | None = None
        self.tried = False
        self.begun = False


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
        self._count = count
        self._handler = handler
        #: Guards all that follows: futures end on the pool's thread, also while we submit.
        self._lock = threading.Lock()
        self._pool = self._make_pool()
        #: The number of this pool. (A callback that knew the pool itself would keep it.)
        self._number = 0
        self._waiting: deque[_Entry] = deque()
        #: To be run one by one.
        self._suspects: deque[_Entry] = deque()
        #: What the pool has, or is about to get, and the pool's number.
        self._running: dict[_Entry, int] = {}
        #: It is not known yet whether the new pool can load the handler.
        self._proving = False
        self._closed = False

    def _make_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, context, initializer=_ignore_interrupts)

    def submit(self, job: Job) -> Cancel:
        """Run it in a process."""
        entry = _Entry(job)
        with self._lock:
            (self._suspects if job.alone else self._waiting).append(entry)
        with suppress(IndexError):
            while True:
                _dead.pop()
        self._begin()
        return lambda: self._cancel(entry)

    def _cancel(self, entry: _Entry) -> bool:
        with self._lock:
            for queue in (self._waiting, self._suspects):
                if entry in queue:
                    queue.remove(entry)
                    return True
            # It calls `_ended`, which does nothing then.
            if entry.future is None or not entry.future.cancel():
                return False
            self._running.pop(entry, None)
            self._tell_begun()
        self._begin()
        return True

    def close(self) -> None:
        """The processes end once they have nothing in hand."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            self._suspects.clear()
            pool = self._pool
        pool.shutdown(wait=False, cancel_futures=True)

    # -- jobs begin and end

    def _begin(self) -> None:
        while (begun := self._next()) is not None:
            self._start(*begun)

    def _next(self) -> tuple[_Entry, ProcessPoolExecutor, int] | None:
        with self._lock:
            if self._closed or self._proving:
                return None
            one_by_one = bool(self._suspects) or any(one.tried for one in self._running)
            if one_by_one and self._running:
                return None
            queue = self._suspects if one_by_one else self._waiting
            if not queue:
                return None
            entry = queue.popleft()
            entry.tried = one_by_one
            self._running[entry] = self._number
            self._tell_begun()
            return entry, self._pool, self._number

    def _tell_begun(self) -> None:
        """The pool begins with jobs in their order; those beyond its processes wait in it."""
        for entry in itertools.islice(self._running, self._count):
            if not entry.begun:
                entry.begun = True
                entry.job.begun()

    def _start(self, entry: _Entry, pool: ProcessPoolExecutor, number: int) -> None:
        job = entry.job
        try:
            future = pool.submit(_call_in_process, job.call, job.argument)
        except BrokenProcessPool:  # its futures have not failed yet, or it had none
            self._pool_died(number, entry, begun=False)
            return
        except Exception as error:  # neither threads nor processes are to be had
            with self._lock:
                self._running.pop(entry, None)
                closed = self._closed
            if not closed:
                no_worker = NoWorkerError("no process could be started")
                no_worker.__cause__ = error
                job.done(no_worker)
            return
        with self._lock:
            if self._running.get(entry) == number:
                entry.future = future
        future.add_done_callback(lambda future: self._ended(future, entry, number))

    def _ended(self, future: Future[None], entry: _Entry, number: int) -> None:
        """On the pool's thread, or on the one that has cancelled it."""
        if future.cancelled():
            return  # by `_cancel`, which holds the lock, or by `close`
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            self._pool_died(number, entry, begun=True)
            return
        with self._lock:
            if self._running.get(entry) != number:
                return
            del self._running[entry]
            self._tell_begun()
        entry.job.done(error)
        self._begin()

    # -- a pool has died

    def _pool_died(self, number: int, first: _Entry, *, begun: bool) -> None:
        """Told by `first`: by its future, or (not begun) because the pool has refused it.

        All that the pool had is taken from it now. What its other futures tell later is old.
        """
        killer: _Entry | None = None
        failure: Exception | None = None
        to_prove: ProcessPoolExecutor | None = None
        with self._lock:
            if self._running.get(first) != number:
                return
            in_hand = list(self._running)
            self._running.clear()
            if not begun:
                in_hand.remove(first)
                (self._suspects if first.tried else self._waiting).appendleft(first)
            elif first.tried:
                in_hand.remove(first)
                killer = first
            for entry in in_hand:
                entry.future = None
            self._suspects.extendleft(reversed(in_hand))
            if self._closed:
                _dead.append(self._pool)
                del self._pool
            else:
                try:
                    pool = self._make_pool()
                except Exception as error:  # no memory, or no descriptors
                    failure = error
                else:
                    _dead.append(self._pool)
                    self._pool = pool
                    self._number += 1
                    self._proving = bool(self._suspects or self._waiting)
                    to_prove = pool if self._proving else None
        if killer is not None:
            killer.job.done(WorkerDiedError())
        if failure is not None:
            self._give_up(failure)
        elif to_prove is not None:
            self._prove(to_prove)

    def _prove(self, pool: ProcessPoolExecutor) -> None:
        """See whether the new pool can load the handler, before a record is held responsible."""
        try:
            proof = pool.submit(_load, self._handler)
        except Exception as error:
            self._give_up(error)
        else:
            proof.add_done_callback(self._proved)

    def _proved(self, proof: Future[None]) -> None:
        error = None if proof.cancelled() else proof.exception()
        if error is not None:
            self._give_up(error)  # the next job is refused by this pool, and finds a new one
            return
        with self._lock:
            self._proving = False
        self._begin()

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            self._proving = False
            given_up = [*self._suspects, *self._waiting]
            self._suspects.clear()
            self._waiting.clear()
        for entry in given_up:
            no_worker = NoWorkerError(
                "the worker processes die as they begin (does the program have `if __name__ =="
                ' "__main__"`, and the machine enough memory?)'
            )
            no_worker.__cause__ = error
            entry.job.done(no_worker)


def _load(_handler: Callable[[Any], Any]) -> None:
    """The handler was unpickled: this is all."""


def _ignore_interrupts() -> None:
    """A terminal sends Ctrl-C to all processes: the one that polls waits for what runs in these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call_in_process(call: Callable[[Any], Any], argument: Any) -> None:
    """Call it. What it returns is dropped: it would have to be pickled.

    An exception that can be pickled but not unpickled would break the whole pool; a
    BrokenProcessPool of a pool that the handler has would be taken for our own.
    """
    try:
        call_plainly(call, argument)
    except BrokenProcessPool as error:
        raise RuntimeError(f"BrokenProcessPool: {error}") from error
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
            raise RuntimeError(f"{text} (it cannot be pickled)") from error
        raise
