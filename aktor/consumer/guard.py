"""Which call is inside a consumer: one at a time, in the process that made it, until it is closed.

A public call is *outermost*, or *nested*: made by a callback of the user's, or by a signal handler
that ran in the middle of our own code. The frame of the outermost call holds the guard. An
interrupt (Ctrl-C, or an exception of a signal handler) may come between any two lines, so that a
call can end without releasing the guard. Then its frame does not run any more: the next call sees
that, takes the guard over, and repairs what was left half done (`broken`).

How a call ends: it releases the guard, looks whether a nested `close` waits for its end, and
returns. Between these lines CPython runs no signal handlers; an exception that a debugger puts
there makes the call a broken one, too. Records count as delivered when the method has returned.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar, cast

from aktor.errors import ConcurrentAccessError, ConsumerClosedError, ConsumerForkedError

__all__ = ["Guard", "exclusive", "looking"]

F = TypeVar("F", bound=Callable[..., Any])

#: In place of the result of a call that has none yet.
_NOTHING = object()

#: Counts the forks that led to this process; it is read faster than `getpid`.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_count_fork)


class Guard:
    """Owns the right to be inside the consumer."""

    __slots__ = ("_forks", "_pid", "_rare", "begun", "broken", "closed", "holder")

    def __init__(self) -> None:
        self.closed = False
        #: The call that is inside has begun: so the result of the call before has reached the user.
        self.begun = False
        #: The last call was interrupted: the next one begins with a repair.
        self.broken = False
        #: At most one entry, for None: the frame of the outermost call. A dict's `setdefault` is
        #: atomic, and `del` is no call, after which Python would run signal handlers.
        self.holder: dict[None, FrameType] = {}
        self._rare = threading.RLock()
        self._pid = os.getpid()
        self._forks = _forks

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the consumer."""
        return self._forks != _forks or os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise in a forked child."""
        if self.forked:
            raise ConsumerForkedError(made_in=self._pid, used_in=os.getpid())

    def check_usable(self) -> None:
        """Raise in a forked child, or if the consumer was closed."""
        if self._forks != _forks or os.getpid() != self._pid:  # `forked`, without two calls more
            self.check_process()
        if self.closed:
            raise ConsumerClosedError

    def enter(self, frame: FrameType) -> bool:
        """Enter with the call of this frame; False if the call is nested in another of this thread.

        Raises ConcurrentAccessError if another thread is inside.
        """
        if self._forks != _forks:
            self.check_process()
        return self.holder.setdefault(None, frame) is frame or self._take_over(frame)

    def _take_over(self, frame: FrameType) -> bool:
        if not self._rare.acquire(blocking=False):
            raise self._refusal(None)
        try:
            while (holder := self.holder.setdefault(None, frame)) is not frame:
                if _is_below(holder, frame):
                    return False
                if _is_running(holder):
                    raise self._refusal(holder)
                if self.holder.get(None) is holder:  # otherwise it was released just now
                    self.broken = self.broken or self.begun
                    self.begun = False
                    self.holder[None] = frame
            return True
        finally:
            self._rare.release()

    def _refusal(self, holder: FrameType | None) -> ConcurrentAccessError:
        owner = next(
            (
                thread.name
                for thread in threading.enumerate()
                if _is_below(holder, sys._current_frames().get(thread.ident or 0))
            ),
            "unknown",
        )
        return ConcurrentAccessError(owner=owner, other=threading.current_thread().name)

    def begin(self) -> None:
        """The call that is inside begins. An interrupted call before it was repaired."""
        self.begun = True

    def mend(self) -> None:
        """The interrupted call was repaired."""
        self.broken = False

    def break_off(self) -> None:
        """The call that is inside was interrupted: the next one begins with a repair."""
        self.broken = True

    def close(self) -> None:
        """The consumer is closed: no call may enter any more."""
        self.closed = True

    def leave(self, frame: FrameType) -> None:
        """Release the guard, if this frame still holds it."""
        self.begun = False
        if self.holder.get(None) is frame:
            del self.holder[None]


def _is_below(holder: FrameType | None, frame: FrameType | None) -> bool:
    """Whether `frame` is `holder`, or was called by it, directly or not."""
    while frame is not None and frame is not holder:
        frame = frame.f_back
    return frame is not None


def _is_running(frame: FrameType) -> bool:
    """Whether the frame is on the stack of any thread, or of a greenlet that waits."""
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def exclusive(method: F) -> F:
    """A method of a consumer that only one thread at a time may be in (see above)."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard: Guard = self._guard
        guard.check_usable()
        # (The frame is kept in no variable of its own: that would be a cycle for each call.)
        if not guard.enter(sys._getframe()):
            return self._call_nested(method, args, kwargs)
        result: Any = _NOTHING
        try:
            self._begin_call()
            result = method(self, *args, **kwargs)
            guard.begun = False
            del guard.holder[None]
            if self._close_asked is None:
                return result
            # Before an interrupt may come, mark this call: `close` then takes its records back.
            guard.break_off()
        except BaseException as error:
            self._end_call_by(error, sys._getframe(), begun=result is not _NOTHING)
            raise
        return self._close_as_asked(method.__name__, result)

    return cast("F", guarded)


def looking(method: F) -> F:
    """A method that only reads: any thread may be in it, also while another is in the consumer.

    It may iterate only over collections that are replaced as a whole: if a collection changes
    during an iteration, Python raises. Single attributes may change in place: Python stores and
    reads each at once.
    """

    @functools.wraps(method)
    def unguarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._guard.check_usable()
        return method(self, *args, **kwargs)

    return cast("F", unguarded)
