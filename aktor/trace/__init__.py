"""The trace: one event for each thing that happened, silent unless there is a listener.

Events are named `noun.verb` ("commit.sent", "membership.moved"), their values are keys;
`schema` lists them. They go to the application's log (`logs`: structlog if it is configured, else
the standard logger `aktor`), to the file named by the environment variable `AKTOR_TRACE` (JSON
lines), and to listeners (`Trace.listen`).

A `Trace` is a logger with bound keys, as structlog's are. structlog itself is not imported here:
that takes half as long as kafka-python, since it imports asyncio and, where it is installed, rich.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import count
from time import monotonic, time  # by name: so that they are real in simulations, too
from typing import TYPE_CHECKING, Any, Final

from aktor.trace.hooks import Hook, Hooks
from aktor.trace.logs import Log, level_of
from aktor.trace.plain import plain_event

if TYPE_CHECKING:
    from aktor.trace.file import TraceFile

__all__ = ["Strand", "Trace", "listening_to_all", "open_trace", "recording", "silent"]

#: One event as a listener gets it: "event", "level", "t" (wall clock, seconds), "mono" (a clock
#: that never jumps), "seq" (its number in this trace), and its values.
Event = dict[str, Any]
Listener = Callable[[Event], None]

_MODULES: Final = sys.modules
_LOGGER: Final = logging.getLogger("aktor")

#: Who listens to every trace that is opened from now on.
_LISTENING_TO_ALL: tuple[Listener, ...] = ()


#: What a call of the application carries to the actors in place of an event's number: a chain
#: begins. It takes the place of what they were told before, and no event has it as its `cause`.
CALL: Final = -1


class Strand:
    """Owns what led to that which one side of a consumer does now: its application, or its actors.

    A message carries `last` to whoever hears it, and there it is the `cause`. So an event can be
    walked back from actor to actor. Numbers of events; 0: nothing that was told has led to it;
    `CALL`: a call of the application.
    """

    __slots__ = ("_first", "cause", "last")

    def __init__(self) -> None:
        #: What the first message of a call carries: `CALL`, once somebody listens.
        self._first = 0
        #: The `cause` of the next event.
        self.cause = 0
        #: The last event that was told because of it, or `cause` if there is none yet.
        self.last = 0

    def follow(self, cause: int) -> None:
        """What is done from now on was led to by this event."""
        self.cause = self.last = cause

    def take(self) -> int:
        """What a message of the application carries. Unless it acts on something, the next message
        carries only what is told after this one."""
        last = self.last
        self.forget()
        return last

    def is_heard(self) -> None:
        """An event was told: what the messages carry matters from now on."""
        if not self._first:
            self._first = CALL
            self.last = self.last or CALL

    def begin(self) -> None:
        """A call of the application begins, and with it a chain of events of its own."""
        self.cause, self.last = 0, self._first

    def forget(self) -> None:
        """What comes now begins by itself, unless something is acted on."""
        if not self.cause:
            self.last = self._first

    def beat(self) -> None:
        """The next message only says that the application is alive. It takes the place of nothing
        that the actors were told before."""
        if not self.cause:
            self.last = 0

    def keep(self) -> tuple[int, int]:
        """What `go_on` needs to go on with it, after something else."""
        return self.cause, self.last

    def go_on(self, kept: tuple[int, int]) -> None:
        """What was kept counts again."""
        self.cause, self.last = kept


class _Outlet:
    """Where events go in the end."""

    def __init__(self, *, to_logging: bool, path: str | None) -> None:
        self._log = Log() if to_logging else None
        self._file = _file_of(path)
        self.has_file = self._file is not None
        self._lines = 0
        #: What a line of the file has besides the event. Files of many hosts are read together:
        #: client ids are not unique there, and the shipping of logs loses or repeats lines.
        self._origin = {} if self._file is None else _origin()
        self.listeners: tuple[Listener, ...] = _LISTENING_TO_ALL
        self.hooks = Hooks()
        #: The next number of an event. (It counts in C: no other thread is given the same.)
        self.numbers = count(1)
        self.names = count(1)
        #: What tells the events that the application's side has not told yet.
        self.held: Callable[[], None] | None = None
        self.application: Strand = Strand()
        self.background: Strand = Strand()

    def wants(self, level: int) -> bool:
        if self.listeners or self._file is not None or self.hooks.least <= level:
            return True
        if self._log is None:
            return False
        if "structlog" in _MODULES:
            return self._log.wants(level)
        return _LOGGER.isEnabledFor(level)  # as `wants` says, too

    def emit(self, event: Event) -> None:
        """Give this event, of plain values, to whoever wants it."""
        if self._log is not None:
            self._log.tell(event)
        if self._file is not None:
            self._write(event, self._file)
        if not self.hooks.is_empty:
            self.hooks.tell(event)
        for listener in self.listeners:
            listener(event)

    def _write(self, event: Event, file: TraceFile) -> None:
        with file.adding:
            self._lines += 1
            if not file.add({**event, **self._origin, "line": self._lines}):
                self._file = None
        if event["event"] == "dispatcher.failed":  # it may be the last one for a long time
            file.flush()

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()


class Trace:
    """A logger with bound keys; a call costs about 100 ns while nobody listens."""

    __slots__ = ("_bound", "_leads", "_outlet", "strand")

    def __init__(
        self, outlet: _Outlet, bound: Mapping[str, Any], strand: Strand, *, leads: bool = True
    ) -> None:
        self._outlet = outlet
        self._bound = bound
        #: Whether its events lead to what is done after them (see `aside`).
        self._leads = leads
        #: That of the side which tells: the application's, unless it is an actor's.
        self.strand = strand

    def debug(self, event: str, **values: Any) -> None:
        """Requests, answers, drops: what one reads to learn how it happened."""
        if self._outlet.wants(logging.DEBUG):
            self._tell("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """State changes: what one reads to learn what happened. The standard logger has most of
        them at DEBUG."""
        outlet = self._outlet
        hooks = outlet.hooks
        if hooks.least <= logging.INFO or event in hooks.named or outlet.wants(level_of(event)):
            self._tell("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Something failed and is being dealt with."""
        if self._outlet.wants(logging.WARNING) or event in self._outlet.hooks.named:
            self._tell("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Something failed for good, or a bug in us showed."""
        if self._outlet.wants(logging.ERROR):
            self._tell("error", event, values)

    def _tell(self, level: str, event: str, values: dict[str, Any]) -> None:
        outlet, strand = self._outlet, self.strand
        if outlet.held is not None and strand is outlet.application:
            held, outlet.held = outlet.held, None
            held()
        seq = next(outlet.numbers)
        cause = values.pop("cause", strand.cause)
        if cause > 0:
            values["cause"] = cause
        if self._leads:
            strand.last = seq
        outlet.application.is_heard()
        # What is bound was made plain when it was bound. In the file the last keys stand in this
        # order at the end of a line, where they are found quickly.
        outlet.emit(
            {
                **self._bound,
                **plain_event(values),
                "seq": seq,
                "mono": monotonic(),
                "level": level,
                "event": event,
                "t": time(),
            }
        )

    def flush(self) -> None:
        """Wait until the lines of the trace file are written, but not for long: it may hang."""
        self._outlet.flush()

    # (Not a property: that takes twice as long, and each poll asks.)
    def hears_debug(self) -> bool:
        """Whether a debug event goes anywhere: to be asked before its values are worked out."""
        outlet = self._outlet
        return outlet.has_file or outlet.wants(logging.DEBUG)

    @property
    def has_file(self) -> bool:
        """Whether events go to the file that AKTOR_TRACE names."""
        return self._outlet.has_file

    @property
    def may_hold(self) -> bool:
        """Whether frequent events may be told together, a little later. A listener of all events
        (a test, a simulation) gets each at its time."""
        return not self._outlet.listeners

    def hold(self, tell: Callable[[], None]) -> None:
        """Call `tell` before the next event of the application's side, which comes later."""
        self._outlet.held = tell

    def number(self) -> int:
        """Another number, to name something by it in several events. It is drawn once in all that
        a consumer traces, also while nobody listens."""
        return next(self._outlet.names)

    def bind(self, **values: Any) -> Trace:
        """The same trace with these keys on every event."""
        bound = {**self._bound, **plain_event(values)}
        return Trace(self._outlet, bound, self.strand, leads=self._leads)

    def aside(self) -> Trace:
        """The same trace, for what is only seen or is only an effect: records were given out, a
        partition waits. Nothing is done because of it, so no message and no later event has it as
        its cause."""
        return Trace(self._outlet, self._bound, self.strand, leads=False)

    def of_actor(self, **values: Any) -> Trace:
        """The trace of an actor: with these keys on every event, and its causes are those of the
        messages that the dispatcher delivers."""
        bound = {**self._bound, **plain_event(values)}
        return Trace(self._outlet, bound, self._outlet.background)

    @property
    def background(self) -> Strand:
        """That of the actors, for what the application hears of them."""
        return self._outlet.background

    def subscribe(
        self, hook: Hook, *, level: str = "info", only: Set[str] | None = None
    ) -> Callable[[], None]:
        """Call `hook(event)` for each event of this level or a higher one ("debug", "info",
        "warning", "error"), on the thread that tells it, until the returned function is called.

        `only`: for the events so named, which are of "info" or above; so what is told of others
        costs nothing. What the hook raises is printed on stderr. Raises ValueError for another
        level.
        """
        return self._outlet.hooks.add(hook, level, only)

    @contextmanager
    def listen(self, listener: Listener) -> Iterator[None]:
        """Call `listener(event)` for each event while the block runs (on the emitting thread)."""
        outlet = self._outlet
        outlet.listeners = (*outlet.listeners, listener)
        try:
            yield
        finally:
            outlet.listeners = tuple(other for other in outlet.listeners if other is not listener)


def open_trace(**bound: Any) -> Trace:
    """A consumer's trace: the logger `aktor`, and the file `AKTOR_TRACE` names."""
    outlet = _Outlet(to_logging=True, path=os.environ.get("AKTOR_TRACE") or None)
    return Trace(outlet, plain_event(bound), outlet.application)


def silent() -> Trace:
    """A trace that goes nowhere: the default of actors made by hand."""
    return _SILENT


def recording() -> tuple[Trace, list[Event]]:
    """A trace and the list its events are appended to, for tests."""
    events: list[Event] = []
    outlet = _Outlet(to_logging=False, path=None)
    outlet.listeners = (*outlet.listeners, events.append)
    return Trace(outlet, {}, outlet.application), events


@contextmanager
def listening_to_all(listener: Listener) -> Iterator[None]:
    """Call `listener(event)` for each event of the traces that are opened while the block runs."""
    global _LISTENING_TO_ALL
    before = _LISTENING_TO_ALL
    _LISTENING_TO_ALL = (*before, listener)
    try:
        yield
    finally:
        _LISTENING_TO_ALL = before


def _file_of(path: str | None) -> TraceFile | None:
    if path is None:
        return None
    from aktor.trace.file import trace_file

    file = trace_file(path)
    return None if file.is_given_up else file


def _origin() -> dict[str, Any]:
    return {"host": _host(), "pid": os.getpid(), "trace": os.urandom(4).hex()}


@functools.cache
def _host() -> str:
    return socket.gethostname()


_NOWHERE: Final = _Outlet(to_logging=False, path=None)
_SILENT: Final = Trace(_NOWHERE, {}, _NOWHERE.application)
