"""The call that the application is in: how it ends, and what ends its waits.

A call that ends in an error of our own leaves nothing half done. Any other error is an interrupt
(Ctrl-C, an exception of a signal handler), and may have come between any two lines: the next call
then begins with a repair (see `docs/interrupts.md`).
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from typing import Final, Never, TypeAlias

from aktor.consumer.core.batch import Attention
from aktor.consumer.core.port import Port
from aktor.consumer.core.waiting import Open
from aktor.errors import ConsumerClosedError, WakeupError

__all__ = ["Call", "Kept", "copy_of_told"]

#: What of a call is its own while it lets others in: whether it follows the policy, its questions,
#: and what it was led to by.
Kept: TypeAlias = tuple[bool, list[int], tuple[int, int]]

#: The part of its time for which `close` lets a commit of another call go on.
COMMIT_SHARE: Final = 0.25


class Call:
    """Owns the error in which the call under way ends, and the tickets of its questions."""

    __slots__ = (
        "_depth",
        "_is_steady",
        "_owed",
        "_port",
        "_strand",
        "asked",
        "attention",
        "close_asked",
        "closing",
        "commits_until",
        "ended_in",
        "follows_policy",
        "poll_ends",
        "touched",
        "unraised",
        "woken",
    )

    def __init__(self, port: Port) -> None:
        self._port = port
        self._strand = port.log.strand
        #: Tells the compiled iterator that there is other work.
        self.attention = Attention()
        #: Whether the call has begun to change anything.
        self.touched = False
        #: The call is `close`.
        self.closing = False
        #: `close`, a nested one or one of another thread, waits for the outermost call to end.
        self.close_asked = False
        #: Until then a commit may be waited for, though `close_asked`.
        self.commits_until = -math.inf
        #: How many nested calls are under way.
        self._depth = 0
        #: `wakeup`, errors of the connections and a nested `close` are kept for a later wait.
        self._is_steady = False
        #: Another thread, or a signal handler, has called `wakeup`.
        self.woken = False
        #: The error of our own that the call ends in.
        self.ended_in: BaseException | None = None
        #: An offset out of range is reset by `auto_offset_reset`. In a bounded range it is raised.
        self.follows_policy = True
        #: A poll without records ends before its deadline if this returns True.
        self.poll_ends: Callable[[], bool] | None = None
        #: The tickets of its questions.
        self.asked: list[int] = []
        #: The error that is raised now. If an interrupt takes its place, `repair` moves it to
        #: `unraised`.
        self._owed: BaseException | None = None
        #: An error that an interrupt took the place of: the next poll raises it.
        self.unraised: BaseException | None = None

    # -- how it begins and ends

    def begin(self) -> None:
        """An outermost call begins. The last one left nothing half done."""
        self._strand.begin()
        self.touched = False
        self.follows_policy = True
        self.ended_in = self._owed = None
        self.asked = []
        self._depth = 0

    def follow_no_policy(self) -> None:
        """The call reads a bounded range: an offset out of range is raised."""
        self.follows_policy = False

    def touch(self) -> None:
        """The call begins to change something. Code that drives a generator of the core calls this
        before its first line; code that runs at once, before it changes something."""
        self.touched = True

    def does_not_wait_for(self, ticket: int) -> None:
        """This question goes on if the call is interrupted."""
        self.asked.remove(ticket)

    def begin_nested(self) -> bool:
        """A nested call begins. Returns whether the outer call has changed anything."""
        touched, self.touched = self.touched, False
        self._strand.forget()
        self._depth += 1
        return touched

    def end_nested(self, *, touched: bool) -> None:
        """The nested call is over; `touched` is what `begin_nested` returned."""
        self.touched |= touched
        self._depth -= 1

    # -- calls of other threads

    def until(self, deadline: float) -> float:
        """What a wait until then yields: calls of other threads are let in, unless a callback is
        under way, or the call must not be disturbed."""
        if self._depth or self.closing or self._is_steady:
            return deadline
        return Open(deadline)

    def let_others_in(self) -> Kept:
        """The call waits, and others may begin and end meanwhile. Returns what is its own."""
        return self.follows_policy, self.asked, self._strand.keep()

    def come_back(self, kept: Kept) -> None:
        """The call goes on; `kept` is what `let_others_in` returned. A compiled iterator of another
        thread must look again before its next record: this call may take its batch."""
        self.attention.call()
        self.begin()
        self.touched = True
        self.follows_policy, self.asked, strand = kept
        self._strand.go_on(strand)

    def begin_close(self) -> None:
        """The call closes the consumer: `wakeup` and a nested `close` do not end its waits."""
        self.closing = True

    def repair(self) -> None:
        """The last call was interrupted: give its questions up. An error that it could not raise is
        raised by the next poll."""
        self.closing = self._is_steady = False
        self.unraised = self._owed or self.unraised
        for ticket in self.asked:
            self._port.forget(ticket)

    # -- errors

    def own(self, error: BaseException, *, owed: bool = False) -> BaseException:
        """The caller raises this error now. It is one of our own, so nothing is left half done.

        If it is `owed`, and an interrupt is raised in its place, a later poll raises it.
        """
        self._owed = error if owed else None
        self.ended_in = error
        return error

    def own_told(self, told: BaseException, *, owed: bool = False) -> BaseException:
        """As `own`, for an error that the background has told and keeps: a copy of it is raised."""
        return self.own(copy_of_told(told), owed=owed)

    def raise_once(self, error: BaseException, done: Callable[[], None]) -> Never:
        """Raise this error of our own; `done` forgets what it came of. If an interrupt is raised in
        its place, the next poll raises it."""
        self.own(error, owed=True)
        done()
        raise error

    def is_own(self, error: BaseException) -> bool:
        """Whether this is the error of our own that the call ends in. Else it is an interrupt."""
        return error is self.ended_in

    def is_broken_by(self, error: BaseException) -> bool:
        """Whether the call, which ends by this error, leaves something half done: it has begun to
        change something, and the error is none of our own."""
        return self.touched and not self.is_own(error)

    def forget_errors(self) -> None:
        """The error was raised; forget it. Its traceback would keep a dropped consumer alive."""
        self.ended_in = self._owed = None

    def raise_later(self, error: BaseException) -> None:
        """Nobody waits for the call that ends in this error: the next poll raises it."""
        self.unraised = error

    def raise_owed(self) -> None:
        """Raise the error that an interrupt kept from being raised."""
        owed = self.unraised
        assert owed is not None, "there is none"
        self.own(owed, owed=True)
        self.unraised = None
        raise owed

    # -- what ends its waits

    def wakeup(self) -> None:
        """End the blocked call, or the next one. From any thread."""
        self.woken = True
        self.attention.call()
        self._port.bell.ring()

    def end_waits(self, commits_until: float = -math.inf) -> None:
        """End the waits of the outermost call, because `close` waits for that call; those of a
        commit at this time. From any thread."""
        self.commits_until = commits_until
        self.close_asked = True
        self.attention.call()
        self._port.bell.ring()

    def end_waits_within(self, timeout: float, now: float) -> None:
        """As `end_waits`, for a `close` that has so many seconds: a commit goes on for a part of
        them."""
        self.end_waits(now + timeout * COMMIT_SHARE)

    def go_on(self) -> None:
        """`close` was interrupted before it has closed anything."""
        self.close_asked = False

    def end_for_close(self) -> None:
        """Raise if `close` waits for this call, unless it is `close` itself."""
        if self.close_asked and not self.closing and not self._is_steady:
            raise self.own(ConsumerClosedError())

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Meanwhile only a failure of the background ends a wait; `wakeup`, errors of the
        connections and a nested `close` are kept for a later one."""
        self._is_steady = True
        try:
            yield
        finally:
            self._is_steady = False

    def raise_wakeup(self) -> None:
        """Raise if `wakeup` was called and no call has ended by it."""
        if self.woken:
            self.woken = False
            raise self.own(WakeupError())

    def check_alive(self) -> None:
        """Raise if the background was given up."""
        if self._port.failure is not None:
            raise self.own_told(self._port.failure)

    def raise_interruptions(self) -> None:
        """Raise what ends a wait: a failure, `wakeup`, an error of the connections."""
        if self._port.failure is not None:
            self.check_alive()
        if self._is_steady:
            return
        if self.woken and not self.closing:
            self.raise_wakeup()
        error = self._port.connections.take_error()
        if error is not None:
            raise self.own_told(error)


def copy_of_told(told: BaseException) -> BaseException:
    """A copy of an error that the background has told and keeps. If that one itself were raised,
    its traceback would keep a dropped consumer alive, whose thread would never end."""
    error = copy.copy(told)
    error.__cause__ = told.__cause__
    return error
