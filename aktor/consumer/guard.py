"""Who may use a consumer: one thread at a time, in the process that made it, until it is closed."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from aktor.errors import ConcurrentAccessError, ConsumerClosedError, ConsumerForkedError

__all__ = ["Guard", "exclusive", "looking"]

F = TypeVar("F", bound=Callable[..., Any])


class Guard:
    """Owns the right to be inside the consumer. Re-entrant, for calls made in callbacks."""

    __slots__ = ("_depth", "_lock", "_owner", "_owner_name", "_pid", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._owner = 0
        self._owner_name = ""
        self._depth = 0

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the consumer."""
        return os.getpid() != self._pid

    def __enter__(self) -> None:
        self.check_usable()
        self.enter()

    def check_process(self) -> None:
        """Raise in a forked child."""
        if self.forked:
            raise ConsumerForkedError(made_in=self._pid, used_in=os.getpid())

    def check_usable(self) -> None:
        """Raise in a forked child, or if the consumer was closed."""
        self.check_process()
        if self.closed:
            raise ConsumerClosedError

    def enter_at_once(self) -> bool:
        """Enter for a moment in which nothing is called that could enter again; False if busy.

        Cheaper than `with guard`; for what is done per record.
        """
        return os.getpid() == self._pid and self._lock.acquire(blocking=False)

    def leave_at_once(self) -> None:
        """The moment is over."""
        self._lock.release()

    def enter(self) -> None:
        """Enter even if closed (for `close` itself)."""
        me = threading.get_ident()
        if self._owner != me:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentAccessError(
                    owner=self._owner_name, other=threading.current_thread().name
                )
            self._owner = me
            self._owner_name = threading.current_thread().name
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
            self._lock.release()


def exclusive(method: F) -> F:
    """A method of an object with a `_guard` that only one thread may be in."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard:
            return method(self, *args, **kwargs)

    return cast("F", guarded)


def looking(method: F) -> F:
    """A method that only reads: any thread may be in it, also while another is in the consumer.

    It walks only over what is replaced as a whole: what changes meanwhile raises.
    """

    @functools.wraps(method)
    def unguarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._guard.check_usable()
        return method(self, *args, **kwargs)

    return cast("F", unguarded)
