"""Modules that are loaded when they are first needed, also by a signal handler.

A signal handler may run in the middle of an import of its own thread. A module that it imports then
may be there in part only (AttributeError, ImportError). If it waited for the rest, it would wait
for the thread that it interrupts. So another thread imports, in which no signal handler runs, and
the caller waits for that thread.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

__all__ = ["Loaded"]

T = TypeVar("T")

#: For so many seconds the thread that imports is waited for. (A handler may have come in the middle
#: of an import by which the program has these modules from us.)
LOADED_WITHIN: Final = 5.0


class Loaded(Generic[T]):
    """Owns what `load` returns, which imports something: it is called once, when it is first
    needed. Kept here it can be had when the interpreter ends, too: nothing can be imported then."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._value: T | None = None

    def __call__(self) -> T:
        """From any thread, also in a signal handler that interrupts this very call."""
        if self._value is None:
            self._load_elsewhere()
        if self._value is None:  # no thread could be started, or there is an error to raise
            self._value = self._load()
        return self._value

    def _load_elsewhere(self) -> None:
        if sys.is_finalizing():
            return  # no other thread runs any more
        # Each call has a lock and a thread of its own: a handler that waited for a lock, or an
        # `Event`, of the call that it interrupts could wait for ever. The second thread finds all
        # loaded by the first.
        ended = _thread.allocate_lock()
        ended.acquire()
        try:
            # (Not by a `Thread`: a simulation refuses these to the code of its members.)
            _thread.start_new_thread(self._run, (ended,))
        except RuntimeError:  # no more threads are to be had, or the interpreter ends
            return
        ended.acquire(timeout=LOADED_WITHIN)

    def _run(self, ended: Any) -> None:
        with _imports:
            try:
                if self._value is None:
                    self._value = self._load()
            except Exception:  # the caller meets the same error, and raises it
                pass
            finally:
                ended.release()


#: Held by a thread that imports. A fork waits for it: in the child, nobody would end an import of
#: such a thread.
_imports = _thread.allocate_lock()


class _Forks(threading.local):
    """Owns whether this thread, which forks, holds the lock."""

    _holds = False

    def before(self) -> None:
        self._holds = _imports.acquire(timeout=LOADED_WITHIN)

    def after(self) -> None:
        if self._holds:
            _imports.release()


def _after_fork_in_child() -> None:
    global _imports
    _imports = _thread.allocate_lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    _forks = _Forks()
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after, after_in_child=_after_fork_in_child
    )
