"""Which thread calls a consumer, and whether that thread has ended.

A greenlet that stands for a thread (gevent, eventlet) is a caller of its own. The interpreter does
not list these, as it does threads (`sys._current_frames`): hence the weak reference here.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeAlias

__all__ = [
    "Caller",
    "CallerRef",
    "frames_of",
    "is_another",
    "is_this",
    "nobody",
    "this_caller",
    "thread_of",
]


class Caller:
    """Lives as long as its thread, or greenlet; whoever keeps one keeps a reference to it."""

    __slots__ = ("__weakref__", "ident")

    def __init__(self) -> None:
        self.ident = threading.get_ident()


#: Returns the caller; None: its thread has ended.
CallerRef: TypeAlias = Callable[[], Caller | None]


@functools.cache
def _of_each_thread() -> Any:
    """Made when it is first used: a program may patch `threading` after it has imported aktor."""

    class Own(threading.local):
        def __init__(self) -> None:
            self.caller = Caller()

    return Own()


def this_caller() -> weakref.ref[Caller]:
    """A reference to the calling thread. It is the same object each time."""
    return weakref.ref(_of_each_thread().caller)


def nobody() -> Caller | None:
    """A reference to no thread."""
    return None


def is_this(caller: CallerRef) -> bool:
    """Whether it is the calling thread. Costs less than to compare with `this_caller`."""
    other = caller()
    return other is not None and other.ident == threading.get_ident()


def is_another(caller: CallerRef) -> bool:
    """Whether it is not the calling thread, and has not ended."""
    return thread_of(caller) not in (None, threading.get_ident())


def thread_of(caller: CallerRef) -> int | None:
    """The id of this thread; None: it has ended, so that the id may be that of another by now."""
    one = caller()
    if one is None:
        return None
    # The main thread has a frame to the end: once its code is done, it waits for other threads.
    main = threading.main_thread()
    return one.ident if one.ident != main.ident or main.is_alive() else None


def frames_of(thread: int | None) -> Iterator[FrameType]:
    """The frames of this thread, the innermost first; none if it has ended."""
    frame = None if thread is None else sys._current_frames().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back
