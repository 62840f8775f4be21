"""Handlers in processes of their own, and what is done when a record kills one.

If a worker process dies (the kernel kills it for its memory, the handler calls `os._exit`), Python
gives up the whole pool: all running jobs end with `BrokenProcessPool`, and nobody knows which one
has killed it. So a new pool is made, and these jobs run one by one. The one that kills its process
again has failed; the others have just begun a second time (at-least-once).

Before they are tried, the new pool must load the handler. If it dies of that, it is no record's
fault (the program has no `if __name__ == "__main__"`, memory is short for any process): then all
jobs in hand end with `NoWorkerError`.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from aktor.errors import WorkerDiedError
from aktor.processing.workers import Cancel, Job, NoWorkerError, call_plainly

__all__ = ["Processes"]


class _Entry:
    """A job on its way; `future` once a pool has it. `tried`: nothing else runs beside it."""

    __slots__ = ("future", "job", "tried")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[None] | None = None
        self.tried = False


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
        self._lock = threading.RLock()
        self._pool = self._make_pool()
        self._waiting: deque[_Entry] = deque()
        #: To be run one by one.
        self._suspects: deque[_Entry] = deque()
        self._running: dict[Future[None], _Entry] = {}
        #: The look whether a new pool can load the handler.
        self._proof: Future[None] | None = None
        self._closed = False

    def _make_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, context, initializer=_ignore_interrupts)

    def submit(self, job: Job) -> Cancel:
        """Run it in a process."""
        entry = _Entry(job)
        with self._lock:
            (self._suspects if job.alone else self._waiting).append(entry)
            self._begin()
        return lambda: self._cancel(entry)

    def _cancel(self, entry: _Entry) -> bool:
        with self._lock:
            if entry.future is not None:
                return entry.future.cancel()
            for queue in (self._waiting, self._suspects):
                if entry in queue:
                    queue.remove(entry)
                    return True
        return False

    def close(self) -> None:
        """The processes end once they have nothing in hand."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._suspects.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- jobs begin and end (with the lock)

    def _begin(self) -> None:
        while not self._closed and self._proof is None:
            one_by_one = bool(self._suspects) or any(one.tried for one in self._running.values())
            if one_by_one and self._running:
                return
            queue = self._suspects if one_by_one else self._waiting
            if not queue:
                return
            entry = queue.popleft()
            entry.tried = one_by_one
            self._start(entry)

    def _start(self, entry: _Entry) -> None:
        job = entry.job
        try:
            try:
                future = self._pool.submit(_call_in_process, job.call, job.argument)
            except BrokenProcessPool:  # a process died although it had nothing to do
                self._pool = self._make_pool()
                future = self._pool.submit(_call_in_process, job.call, job.argument)
        except Exception as error:  # neither threads nor processes are to be had
            no_worker = NoWorkerError("no process could be started")
            no_worker.__cause__ = error
            job.done(no_worker)
            return
        entry.future = future
        self._running[future] = entry
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        """On the pool's thread, or on the one that has cancelled it."""
        with self._lock:
            entry = self._running.get(future)
            if entry is None:
                return  # its pool has died: it begins again
            if not future.cancelled():
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    self._pool_died(entry)
                    return
                entry.job.done(error)
            del self._running[future]
            self._begin()

    # -- a pool has died (with the lock)

    def _pool_died(self, first: _Entry) -> None:
        in_hand = list(self._running.values())
        self._running.clear()
        if first.tried:
            first.job.done(WorkerDiedError())
            in_hand.remove(first)
        for entry in in_hand:
            entry.future = None
        self._suspects.extendleft(reversed(in_hand))
        if self._closed:
            return
        self._pool = self._make_pool()
        if self._suspects or self._waiting:
            self._prove()

    def _prove(self) -> None:
        """See whether the new pool can load the handler, before a record is held responsible."""
        try:
            self._proof = self._pool.submit(_load, self._handler)
        except Exception as error:
            self._give_up(error)
        else:
            self._proof.add_done_callback(self._proved)

    def _proved(self, proof: Future[None]) -> None:
        with self._lock:
            self._proof = None
            error = None if proof.cancelled() else proof.exception()
            if error is None:
                self._begin()
            else:
                self._pool = self._make_pool()
                self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        for queue in (self._suspects, self._waiting):
            while queue:
                no_worker = NoWorkerError(
                    "the worker processes die as they begin (does the program have `if __name__ =="
                    ' "__main__"`, and the machine enough memory?)'
                )
                no_worker.__cause__ = error
                queue.popleft().job.done(no_worker)


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
