"""How a call begins and ends, and what interrupts demand: see `docs/interrupts.md`.

A public call is *outermost*, or *nested*: made by a callback of the user's, or by a signal handler
that ran in the middle of our own code. An outermost call enters (`guard`), perhaps after those of
other threads, repairs what an interrupted call has left half done, runs the method, and leaves.

How a call ends (`_guarded`): it looks whether a nested `close` waits for its end, releases the
guard, and returns; at the exit of the program it lets the background thread rest before. Between
these lines CPython runs no signal handlers; an exception that a debugger puts there makes the call
a broken one, too. Records count as delivered when the method has returned.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from kafka.errors import IllegalStateError, KafkaTimeoutError

from aktor.actors.runtime.dispatcher import TAKEN_AWAY, Bell, Dispatcher
from aktor.consumer.core.guard import ASSIGNING, LOOK_EVERY, ThreadGuard
from aktor.consumer.core.waiting import Bells
from aktor.errors import BackgroundThreadError, ConsumerClosedError

if TYPE_CHECKING:
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["Close", "Guarded", "closing", "exclusive", "handing_out", "looking"]

F = TypeVar("F", bound=Callable[..., Any])

#: In place of the result of a call that has none yet.
_NOTHING = object()

#: How soon `close` looks whether the calls of other threads have ended, in seconds; then it waits
#: twice as long for the next look, and so on.
CLOSE_LOOKS: Final = 0.001

#: What a callback may not call, and how an error names it.
_NEVER_NESTED: Final = {
    **{name: name for name in ("poll", "poll_arrow", *ASSIGNING)},
    "poll_once": "poll",
    "next": "iteration",
}


def exclusive(method: F) -> F:
    """A method of a consumer that only one thread at a time may be in (see above)."""
    return _guarded(method, admit=ThreadGuard.check_usable)


def handing_out(method: F) -> F:
    """As `exclusive`, for `next()`. Most of its calls return a buffered record without beginning a
    call. One that must poll calls `_begin_call`."""
    return _guarded(method, admit=ThreadGuard.check_iterable, begins=False)


def closing(method: F) -> F:
    """As `exclusive`, for `close`, which may be called again after an interrupt, and begins with
    `_begin_close`. A nested one is put off to the end of the outermost call."""
    return _guarded(method, admit=ThreadGuard.check_process, begins=False, nested="_put_off")


def _guarded(
    method: F,
    *,
    admit: Callable[[ThreadGuard], None],
    begins: bool = True,
    nested: str = "_call_nested",
) -> F:
    """The one place where a call that blocks its thread begins and ends."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard: ThreadGuard = self._guard
        if guard.ending:
            admit(guard)
        # (The frame is kept in no variable of its own: that would be a cycle for each call.)
        if not guard.enter(sys._getframe()):
            if guard.is_nested(sys._getframe()):
                return getattr(self, nested)(method, args, kwargs)
            turn = self._wait_for_turn(sys._getframe(), method, args, kwargs)
            if turn is None:
                return self._miss_turn(method, args)
            args, kwargs = turn
        result: Any = _NOTHING
        try:
            if begins:
                self._begin_call()
            # A call in this form costs least.
            if kwargs:
                result = method(self, *args, **kwargs)
            else:
                result = method(self, *args) if args else method(self)
            if guard.places:
                guard.call_next()
            if guard.away:
                self._wake_for_records()
            if self._close_asked is None:
                guard.begun = False
                del guard.holder[None]
                if guard.late:
                    self._rest()
                return result
            # Before an interrupt may come, mark this call: `close` then takes its records back.
            guard.withdraw(self._engine, result)
            guard.leave(sys._getframe())
        except BaseException as error:
            self._end_call_by(error, sys._getframe(), result)
            raise
        return self._close_as_asked(method.__name__, result)

    return cast("F", guarded)


def _with_time_left(bound: inspect.BoundArguments, late: float) -> inspect.BoundArguments:
    """The arguments of a call that has waited for its turn for so many seconds."""
    given: dict[str, Any] = dict(bound.arguments)
    if "timeout" in given:
        given["timeout"] = max(0.0, given["timeout"] - late)
    elif given.get("timeout_ms") is not None:
        given["timeout_ms"] = max(0.0, given["timeout_ms"] - late * 1000)
    return inspect.BoundArguments(bound.signature, OrderedDict(given))


def looking(method: F) -> F:
    """A method that only reads: any thread may be in it, also while another is in the consumer.

    It may iterate only over collections that are replaced as a whole: if a collection changes
    during an iteration, Python raises. Single attributes may change in place: Python stores and
    reads each at once.
    """

    @functools.wraps(method)
    def unguarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._guard.check_open()
        return method(self, *args, **kwargs)

    return cast("F", unguarded)


class Close(NamedTuple):
    """The arguments of `close`."""

    autocommit: bool
    timeout: float
    operation: str


class Guarded:
    """Begins and ends the calls of a consumer. Owns the `close` that was put off, if any."""

    def __init__(self, guard: ThreadGuard) -> None:
        self._guard = guard
        #: The arguments of a nested `close`: the outermost call closes as it ends.
        self._close_asked: Close | None = None
        #: Why the background thread is gone, if this call has found that.
        self._gone: Exception | None = None

    # -- what a consumer has

    _engine: ApplicationHalf
    _dispatcher: Dispatcher
    #: The `process` under way, which knows its thread; None: there is none.
    _processor: Any
    #: What the background rings.
    _bell: Bells
    #: Makes the bells on which calls wait for their turn.
    _make_bell: Callable[[], Bell]

    def _close_now(self, asked: Close) -> None:
        """Close."""
        raise NotImplementedError

    def _patience(self, method: str, given: Mapping[str, Any]) -> float:
        """For how many seconds a call with these arguments may wait for its turn."""
        raise NotImplementedError

    # -- how a call waits for its turn

    def _wait_for_turn(
        self, frame: FrameType, method: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[Any, Any] | None:
        """Another thread has a call here: enter when it lets this one in, at the latest when it
        ends. Returns the arguments, with the time that is left; None if it was not in time."""
        self._check_thread()
        if method.__name__ == "_close":
            turn = self._wait_to_close(frame, *args)
            return None if turn is None else ((turn,), {})
        guard, clock = self._guard, self._engine.wiring.clock
        if guard.enter_beside(frame):
            return args, kwargs
        bound = inspect.signature(method).bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        began, patience = clock(), self._patience(method.__name__, given)
        entered = guard.wait(
            frame,
            began + patience,
            bell=self._make_bell(),
            clock=clock,
            may_enter=lambda: not guard.ending,
        )
        if not entered:
            return None
        left = _with_time_left(bound, clock() - began)
        return left.args[1:], left.kwargs

    def _miss_turn(self, method: Callable[..., Any], args: Any) -> Any:
        """The time of a call was over before its turn came, or the consumer is to be closed."""
        name = method.__name__
        if name == "_poll_once":
            return {}
        if name == "_next":
            raise StopIteration
        if name == "_poll_arrow":
            _timeout, columns, make = args[:3]
            if (made := make(columns)) is None:
                raise StopIteration
            return made
        if self._guard.ending and name != "_close":
            raise ConsumerClosedError
        callback = self._engine.rebalancing.user_code.name
        raise KafkaTimeoutError(
            f"{name.strip('_')}() has waited in vain for the end of another call: thread"
            f" {self._guard.owner!r} is inside the consumer"
            + (f", in {callback}" if callback else "")
            + (
                ". The consumer closes when that call ends"
                if name == "_close"
                else ". Call again, and do not let that thread wait for this one"
            )
        )

    def _wait_to_close(self, frame: FrameType, asked: Close) -> Close | None:
        """End the calls of other threads, and enter when all have ended; returns how to close, in
        the time that is left. None: they do not end in time, and the one that is inside closes as
        it ends."""
        guard, clock, bell = self._guard, self._engine.wiring.clock, self._make_bell()
        ends = clock() + asked.timeout
        until = guard.end_calls(self._engine, asked.timeout)
        guard.call_all()
        try:
            pause = CLOSE_LOOKS
            while guard.has_others(frame) and clock() < until:
                bell.wait(pause)
                pause = min(2 * pause, LOOK_EVERY)
            entered = guard.wait(frame, until, bell=bell, clock=clock)
        except BaseException:
            self._close_asked = asked  # as far as another call is inside, its end closes
            raise
        if not entered:
            self._close_asked = asked
            if not guard.wait(frame, until, bell=bell, clock=clock):
                return None
            self._close_asked = None  # it has left just now
        return asked._replace(timeout=max(0.0, ends - clock()))

    def _wait_open(self, until: float) -> None:
        """Wait for the bell until then, and let calls of other threads in meanwhile."""
        guard, engine, clock = self._guard, self._engine, self._engine.wiring.clock
        bell = self._bell.of_this_thread()
        kept = engine.call.let_others_in()
        frame = guard.let_others_in()
        bell.wait(until - clock())
        guard.come_back(frame, make_bell=self._make_bell, clock=clock)
        guard.resume(engine, kept)

    # -- how a call begins

    def _begin_call(self) -> None:
        """Begin an outermost call (`Guard.begin_call`), if this thread may make one."""
        look = None
        if self._processor is not None:
            self._processor.check_thread()
        if not self._dispatcher.runs_elsewhere:
            self._check_thread()
            if self._dispatcher.is_taken_away:
                raise BackgroundThreadError(reason=TAKEN_AWAY)
            look = self._look_after_background
        self._guard.begin_call(self._engine, look)
        if self._close_asked is not None:
            raise self._engine.call.own(ConsumerClosedError())  # the end of this call closes it

    def _begin_close(self) -> None:
        """Begin to close, also when the interpreter has taken the background thread away."""
        self._check_thread()
        runs = self._dispatcher.runs_elsewhere
        self._guard.begin_close(self._engine, None if runs else self._look_after_background)

    def _look_after_background(self) -> None:
        dispatcher = self._dispatcher
        self._gone = None if dispatcher.is_taken_away else dispatcher.fail_if_gone()
        if dispatcher.exits:
            self._guard.note_exit()

    def _check_thread(self) -> None:
        """Raise on a thread that may not call the consumer at all."""
        if self._processor is not None:
            self._processor.check_thread()
        if self._dispatcher.turns_here:
            raise IllegalStateError(
                "the consumer was called on its own background thread, by a callback of a Future"
                " or a hook of on_event(). Give commit_async() a `callback`: it runs on the"
                " application thread"
            )

    def _wake_for_records(self) -> None:
        """Another call waits, perhaps for records, and this one leaves some that nothing else will
        tell of: they were buffered while their partition was paused, or are the rest of a poll."""
        if self._engine.delivery.anything_ready:
            self._bell.ring()

    # -- how it ends

    def _end_call_by(self, error: BaseException, frame: FrameType, result: Any) -> None:
        """An outermost call ends by this error: an interrupt, unless it is one of our own."""
        call, guard = self._engine.call, self._guard
        if guard.is_away(frame):
            # Nothing of it is half done, and what the consumer does now is another call's.
            guard.leave(frame)
            self._close_in_spite()
            return
        begun = guard.begun
        if result is not _NOTHING and not self._engine.iteration.take_back(result):
            begun = True
        guard.note_error(call, error, begun=begun)
        if call.closing:
            self._close_asked = None  # the user may call `close` again
            if not guard.closed:
                guard.go_on()
                call.go_on()
        guard.leave(frame)
        self._close_in_spite()

    def _close_in_spite(self) -> None:
        """A call that ends by an error was asked to close: do that, and let the error through."""
        if self._close_asked is not None:
            try:
                self._close_as_asked("", None)
            except Exception as failure:
                self._engine.wiring.trace.warning("close.failed", because=failure)
        if self._guard.late:
            self._rest()

    def _rest(self) -> None:
        """The program exits, and a call is over: the background thread rests until the next one."""
        if not self._guard.in_use:
            self._dispatcher.rest()
            if self._guard.in_use:  # a call of another thread has begun just now
                self._dispatcher.fail_if_gone()

    def _close_as_asked(self, method: str, result: Any) -> Any:
        """Close, as a signal handler or a listener has asked for during a call that is over.

        Returns what the call gives in place of its result: these records are not given out.
        """
        asked = self._close_asked
        if asked is not None:
            self._close_now(asked)
        if method == "_next":
            raise StopIteration("KafkaConsumer closed")
        if method == "_poll_arrow":
            return result[:0]
        return {} if method == "_poll_once" else result

    # -- nested calls

    def _call_nested(self, method: Any, args: Any, kwargs: Any) -> Any:
        """A call in the middle of another call of this thread: only the user's callbacks may make
        one."""
        call, user_code = self._engine.call, self._engine.rebalancing.user_code
        inside = self._guard.is_inside(sys._getframe())  # else another one may be in a callback
        callback, name = user_code.name if inside else "", method.__name__.strip("_")
        if not callback or name in _NEVER_NESTED:
            raise self._refusal(_NEVER_NESTED.get(name, name), callback)
        touched = call.begin_nested()
        try:
            user_code.enter("")
            return method(self, *args, **kwargs)
        except BaseException as error:
            # As in an outermost call: a call that is refused for its arguments has changed nothing.
            if call.is_broken_by(error):
                self._guard.break_off()
            raise
        finally:
            call.end_nested(touched=touched)
            user_code.enter(callback)

    def _put_off(self, _method: Any, args: tuple[Close], _kwargs: Any) -> None:
        """A nested `close`: the outermost call stops waiting, and closes as it ends."""
        (self._close_asked,) = args
        self._engine.call.end_waits()

    def _refusal(self, method: str, callback: str) -> IllegalStateError:
        if callback:
            return IllegalStateError(f"{method} may not be called from {callback}")
        return IllegalStateError(
            f"{method} was called while this thread was in the middle of another call, by a signal"
            " handler, a deserializer or a hook of on_event(). Only close(), wakeup() and what only"
            " looks (status(), assignment(), ...) may be called there: call one of them, or set a"
            " flag to be looked at between calls"
        )
