"""Who may be inside a consumer: one call at a time, in its process, until it is closed.

A thread's call is known by its frame. A call enters, and leaves when it ends. A call that only
waits for the cluster (a `poll` for records, a `commit` for its answer) leaves meanwhile, and enters
again before it goes on: so calls of other threads do not wait for it. A call that finds another one
inside stands in the queue; the first of the queue enters next, also if the one that leaves comes
back at once.

An interrupt (Ctrl-C, or an exception of a signal handler) may end a call on any line, so that it
neither leaves nor gives up its place. Its frame does not run any more then. Those that wait look
for that again and again, and take over. Nothing here holds a lock while it waits, so a signal
handler, a finalizer or a callback may call the consumer at any time: a call of the thread that is
inside, or waits, is *nested*, and never waits.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from aktor.actors.runtime.dispatcher import Bell
from aktor.consumer.core.caller import CallerRef, frames_of, thread_of
from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.consumer.core.waiting import Patience
from aktor.errors import ConsumerClosedError, ConsumerForkedError

if TYPE_CHECKING:
    from aktor.consumer.core.call import Call, Kept
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["ASSIGNING", "LOOK_EVERY", "Guard", "ThreadGuard"]

#: By what a call is known.
H = TypeVar("H")

#: Calls that begin or end an assignment: a rebalance listener may make none of them.
ASSIGNING: Final = ("assign", "subscribe", "unsubscribe")

#: How often a call that waits looks whether the one before it was interrupted, in seconds.
LOOK_EVERY: Final = 0.05

#: How often the first of the queue looks, in seconds, and how many times, once the call that is
#: inside has said that it leaves. It says so before it leaves: afterwards it only returns.
LEAVES_NOW: Final = 0.0005
LOOKS_SOON: Final = 20


#: Counts the forks that led to this process. Python's own `fork` counts, and so does each server
#: that forks in C and lets Python live on in the child (`PyOS_AfterFork_Child`). To ask for the
#: process id is a call of the system: in each call of the consumer it would take a thirtieth of a
#: poll that finds nothing.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_count_fork)


class Guard(Generic[H]):
    """Owns whether a call is inside, and whether the consumer is closed.

    By what a call is known, its *holder*, is the driver's: a thread's by its frame (`ThreadGuard`),
    that of the consumer for asyncio by an object of its own.
    """

    __slots__ = (
        "_forks",
        "_pid",
        "begun",
        "broken",
        "closed",
        "ending",
        "holder",
        "late",
        "started",
    )

    #: How a call is refused when the consumer is closed.
    CLOSED: ClassVar[type[ConsumerClosedError]] = ConsumerClosedError

    def __init__(self) -> None:
        #: Calls may begin: of an asynchronous consumer, since its `start`.
        self.started = True
        self.closed = False
        #: Another thread waits to close the consumer, or it is closed: no call begins any more.
        self.ending = False
        #: The call that is inside has begun: so the result of the call before has reached the user.
        self.begun = False
        #: The last call was interrupted: the next one begins with a repair.
        self.broken = False
        #: The program exits: after each call the background thread rests.
        self.late = False
        #: At most one entry, for None: the holder of the outermost call. A dict's `setdefault` is
        #: atomic, and `del` is no call, after which Python would run signal handlers.
        self.holder: dict[None, H] = {}
        self._pid = os.getpid()
        self._forks = _forks

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the consumer."""
        return self._forks != _forks

    def frames(self, caller: CallerRef, *, in_callback: bool) -> Iterable[FrameType]:
        """Where the code is that is to poll next, or, `in_callback`, the rebalance listener's: its
        frames, the innermost first, as far as they are known. `caller`: who has polled last, or
        runs the listener. From any thread."""
        return frames_of(thread_of(caller))

    def check_process(self) -> None:
        """Raise in a forked child."""
        if self.forked:
            raise ConsumerForkedError(made_in=self._pid, used_in=os.getpid())

    def check_open(self) -> None:
        """Raise in a forked child, or if the consumer was closed."""
        if self._forks != _forks:  # `forked`, without two calls more
            self.check_process()
        if self.closed:
            raise self.CLOSED

    # -- how an outermost call begins, whatever drives it

    def begin_call(
        self,
        half: ApplicationHalf,
        look_after_background: Callable[[], object] | None = None,
        *,
        closing: bool = False,
    ) -> None:
        """The call has entered: repair what the last one left half done, and begin.
        `look_after_background` fails if the thread is gone; None: it runs."""
        half.call.attention.call()
        if self.ending and not closing:  # since this call was admitted
            raise half.call.own(self.CLOSED())
        if self.broken:
            self.mend(half.repair)
        if look_after_background is not None:
            look_after_background()
        if closing:
            half.spare_unfinished()
        half.begin_call()
        self.begun = True
        if half.wiring.port.failure is not None and not closing:
            half.call.check_alive()

    def begin_close(
        self, half: ApplicationHalf, look_after_background: Callable[[], object] | None = None
    ) -> None:
        """As `begin_call`, of the call that closes the consumer. An interrupt on any line from here
        on is repaired by the next `close`."""
        self.begin_call(half, look_after_background, closing=True)
        if not self.closed:  # otherwise an interrupted `close` has left already
            half.call.touch()
        half.call.begin_close()
        self.end()

    def end_calls(self, half: ApplicationHalf, timeout: float) -> float:
        """The consumer is to be closed within so many seconds: calls of others end. Returns until
        when to wait for them."""
        now = half.wiring.clock()
        self.end()
        half.call.end_waits_within(timeout, now)
        return now + timeout + ANSWER_GRACE

    # -- what becomes of a call

    def begin(self) -> None:
        """The call that is inside goes on. An interrupted call before it was repaired."""
        self.begun = True

    def note_exit(self) -> None:
        """The program exits."""
        self.late = True

    def mend(self, repair: Callable[[], None]) -> None:
        """Repair what the interrupted call left half done; if that is interrupted, the next call
        does it again."""
        repair()
        self.broken = False

    def break_off(self) -> None:
        """The call that is inside was interrupted: the next one begins with a repair."""
        self.broken = True

    def resume(self, half: ApplicationHalf, kept: Kept) -> None:
        """The call that let others in is inside again, and goes on; `kept` is what its
        `Call.let_others_in` returned. If one of the others was interrupted, it is repaired."""
        if self.broken:
            self.mend(half.repair)
        half.call.come_back(kept)
        self.begin()

    def withdraw(self, half: ApplicationHalf, result: Any) -> None:
        """The result of the call does not reach the user. If it cannot be taken back, the next call
        begins with a repair."""
        if not half.iteration.take_back(result):
            self.break_off()

    def note_error(self, call: Call, error: BaseException, *, begun: bool) -> None:
        """The call ends by this error: an interrupt, unless it is one of our own. `begun`: it has
        done more than enter."""
        if begun and call.is_broken_by(error):
            self.break_off()
        else:
            call.forget_errors()

    def end(self) -> None:
        """The consumer is to be closed: calls that are inside end, and no other begins."""
        self.ending = True

    def go_on(self) -> None:
        """The consumer is not to be closed: `close` was interrupted before it began."""
        self.ending = False

    def close(self) -> None:
        """The consumer is closed: no call may enter any more."""
        self.ending = self.closed = True


class _Place:
    """A call that stands in the queue."""

    __slots__ = ("bell", "frame")

    def __init__(self, frame: FrameType, bell: Bell) -> None:
        self.frame = frame
        self.bell = bell


class ThreadGuard(Guard[FrameType]):
    """The guard of calls that block their threads. Owns which calls have let others in while they
    wait, and which ones stand in the queue. Each is known by the frame of the outermost call of its
    thread."""

    __slots__ = ("_taking_over", "away", "places")

    def __init__(self) -> None:
        super().__init__()
        #: Calls that have let others in while they wait for the cluster, each with whether it has
        #: begun while the program exits.
        self.away: dict[FrameType, bool] = {}
        #: Calls that stand in the queue.
        self.places: deque[_Place] = deque()
        self._taking_over = threading.RLock()

    @property
    def waiting_calls(self) -> tuple[str, ...]:
        """The names of the methods that wait for the cluster, as the application has called them.
        (A guarded call has its method in a variable.)"""
        return tuple(_method_of(frame) for frame in self.away.copy())

    @property
    def call_inside(self) -> str:
        """The name of the method that is inside, as the application has called it; "": none is."""
        frame = self.holder.get(None)
        return "" if frame is None else _method_of(frame)

    def check_iterable(self) -> None:
        """End an iteration over a consumer that was closed, or is to be closed."""
        if self.ending and (self.closed or not self.is_inside(sys._getframe())):
            raise StopIteration("KafkaConsumer closed")

    def check_usable(self) -> None:
        """Raise in a forked child, or if the consumer was closed, or is to be closed.

        A callback of the call for whose end `close` waits may still call the consumer.
        """
        if self._forks != _forks:
            self.check_process()
        if self.ending and (self.closed or not self.is_inside(sys._getframe())):
            raise ConsumerClosedError

    # -- who is here

    def is_nested(self, frame: FrameType) -> bool:
        """Whether this thread is in a call already, which is inside, or waits."""
        frames = {*self.holder.values(), *list(self.away), *(one.frame for one in [*self.places])}
        outer: FrameType | None = frame
        while outer is not None and outer not in frames:
            outer = outer.f_back
        return outer is not None

    def is_inside(self, frame: FrameType) -> bool:
        """Whether this thread's call is inside."""
        holder = self.holder.get(None)
        return holder is not None and _is_below(holder, frame)

    @property
    def owner(self) -> str:
        """The name of the thread that is inside, for an error."""
        holder = self.holder.get(None)
        for thread in threading.enumerate():
            if _is_below(holder, sys._current_frames().get(thread.ident or 0)):
                return thread.name
        return "unknown"

    # -- entering and leaving

    def enter(self, frame: FrameType) -> bool:
        """Enter with this call; False if its thread is in a call already, or if there are calls of
        other threads."""
        if self._forks != _forks:
            self.check_process()
        if self.places or self.away:
            return False
        return self.holder.setdefault(None, frame) is frame

    def enter_beside(self, frame: FrameType) -> bool:
        """Enter though other calls have let others in; False if one is inside or in the queue."""
        return not self.places and self.holder.setdefault(None, frame) is frame

    def wait(
        self,
        frame: FrameType,
        until: float,
        *,
        bell: Bell,
        clock: Callable[[], float],
        may_enter: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Stand in the queue until it is this call's turn, and enter; False: not by `until`.

        It also ends, with False, as soon as `may_enter` returns False.
        """
        place, soon = _Place(frame, bell), 0
        patience = Patience(until, clock())
        try:
            self.places.append(place)
            while not self._take_turn(place):
                now = clock()
                if patience.is_over(now) or not may_enter():
                    self._give_up(place)
                    return False
                look_at = now + (LEAVES_NOW if soon else LOOK_EVERY)
                rung = bell.wait(patience.until(now, look_at) - now)
                soon = LOOKS_SOON if rung else max(0, soon - 1)
        except BaseException:
            self._give_up(place)
            raise
        return True

    def _take_turn(self, place: _Place) -> bool:
        """Enter, if this call is the first in the queue, and no other is inside."""
        while (first := self.places[0]) is not place:
            if _runs(first.frame):
                return False
            self._remove(first)  # it was interrupted, and could not give up its place
        frame = place.frame
        if (holder := self.holder.setdefault(None, frame)) is not frame:
            if _runs(holder) or not self._taking_over.acquire(blocking=False):
                return False
            try:
                if self.holder.get(None) is not holder:
                    return False  # it was released just now
                # The call that was inside was interrupted.
                self.broken = self.broken or self.begun
                self.begun = False
                self.holder[None] = frame
            finally:
                self._taking_over.release()
        self._remove(place)
        self._forget_the_interrupted()
        return True

    def _give_up(self, place: _Place) -> None:
        """An interrupt has ended the wait, perhaps after this call had entered. A call that was
        away stays away: its clean-up must not change the next call's work."""
        self._remove(place)
        self._release_holder(place.frame)

    def _remove(self, place: _Place) -> None:
        with contextlib.suppress(ValueError):
            self.places.remove(place)

    def leave(self, frame: FrameType) -> None:
        """This call is not inside any more, and is not away."""
        if self.holder.get(None) is frame or not self.holder:
            self.begun = False
        self.away.pop(frame, None)
        self._release_holder(frame)

    def _release_holder(self, frame: FrameType) -> None:
        self.call_next()
        if self.holder.get(None) is frame:
            del self.holder[None]

    def call_next(self) -> None:
        """The call that is inside is about to leave: wake the first in the queue."""
        for place in [*self.places][:1]:  # another thread may take it out meanwhile
            place.bell.ring()

    def call_all(self) -> None:
        """Wake all in the queue: they may have to give up."""
        for place in [*self.places]:
            place.bell.ring()

    # -- calls that let others in

    @property
    def in_use(self) -> bool:
        """Whether a call is inside, or one that began at the exit waits for the cluster."""
        return bool(self.holder) or any([*self.away.values()])

    def let_others_in(self) -> FrameType:
        """The call that is inside waits for the cluster, and nothing is half done. Returns its
        frame, for `come_back`."""
        self.begun = False
        frame = self.holder[None]
        self.away[frame] = self.late
        self.call_next()
        del self.holder[None]
        return frame

    def come_back(
        self, frame: FrameType, *, make_bell: Callable[[], Bell], clock: Callable[[], float]
    ) -> None:
        """Enter again, when it is this call's turn."""
        if self.places or self.holder.setdefault(None, frame) is not frame:
            self.wait(frame, math.inf, bell=make_bell(), clock=clock)
        self.away.pop(frame, None)

    def is_away(self, frame: FrameType) -> bool:
        """Whether this call has let others in, and has not entered again."""
        return frame in self.away and self.holder.get(None) is not frame

    def _forget_the_interrupted(self) -> None:
        """Forget calls that were interrupted while they had let others in."""
        for frame in list(self.away):
            if not _runs(frame):
                self.away.pop(frame, None)

    def has_others(self, frame: FrameType) -> bool:
        """Whether another call is inside, has let others in, or stands in the queue."""
        self._forget_the_interrupted()
        others = [one.frame for one in [*self.places] if _runs(one.frame)]
        holder = self.holder.get(None)
        if holder is not None and _runs(holder):
            others.append(holder)
        return bool(self.away) or any(one is not frame for one in others)


def _method_of(frame: FrameType) -> str:
    """The method that is called by this frame; if another one of the consumer calls it, that."""
    method = frame.f_locals.get("method")
    name: str = getattr(method, "__name__", "")
    code, outer = getattr(method, "__code__", None), frame.f_back
    while code is not None and outer is not None:
        if outer.f_code.co_filename != code.co_filename:
            break
        name, outer = outer.f_code.co_name, outer.f_back
    return name


def _is_below(holder: FrameType | None, frame: FrameType | None) -> bool:
    """Whether `frame` is `holder`, or was called by it, directly or not."""
    while frame is not None and frame is not holder:
        frame = frame.f_back
    return frame is not None


def _runs(frame: FrameType) -> bool:
    """Whether the frame is on the stack of any thread, or of a greenlet that waits.

    When the interpreter has shut down, no other thread runs any more.
    """
    if sys.is_finalizing():
        return False
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False
