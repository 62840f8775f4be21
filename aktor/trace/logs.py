"""Events on their way into the application's log: through structlog if it is configured, else
through the standard logger `aktor`. An event never goes both ways.

structlog is not imported here: a consumer that nobody listens to need not pay for it. An
application that uses structlog has imported it.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from aktor.trace.plain import copied
from aktor.trace.repeats import Repeats

__all__ = ["LEVELS", "Log", "level_of"]

Event = dict[str, Any]

_LOGGER: Final = logging.getLogger("aktor")
_LOGGER.addHandler(logging.NullHandler())

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

#: What the logger has at INFO: a start, an end, a line for each rebalance, and that a broker which
#: could not be reached can be. Other events of the level "info" are DEBUG there: a program that
#: logs at INFO is not to have dozens of lines for each consumer.
_FOR_PEOPLE: Final = frozenset(
    {
        "broker.returned",
        "brokers.reached",
        "consumer.closed",
        "consumer.started",
        "rebalance.completed",
    }
)

#: By the names of structlog's methods.
_METHODS: Final = {number: name for name, number in LEVELS.items()}


@functools.cache
def level_of(event: str) -> int:
    """At which level the log has this event, a change of state."""
    return logging.INFO if event in _FOR_PEOPLE else logging.DEBUG


class Log:
    """The way of one consumer's events into the application's log.

    It is made on the thread that makes the consumer, and keeps the context variables of that
    thread: processors of structlog, and filters and formatters of the standard logger, find these
    at each event, also at those of other threads.
    """

    __slots__ = ("_context", "_repeats")

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._repeats = Repeats()

    @staticmethod
    def wants(level: int) -> bool:
        """Whether the application's log may have an event of this level."""
        if "structlog" in _MODULES and _structlog() is not None:
            return level >= _lowest()
        return _LOGGER.isEnabledFor(level)

    def tell(self, event: Event) -> None:
        """Give the event, of plain values, to structlog or to the standard logger.

        What the processors, filters and handlers of the application raise stays here: it would
        crash the actor that has told the event, and at its next event the dispatcher. It is
        printed, as `logging.Handler.handleError` does it, unless `logging.raiseExceptions` is off.
        On the main thread an interrupt may come meanwhile: that one is raised.
        """
        name, level = event["event"], event["level"]
        number = level_of(name) if level == "info" else LEVELS[level]
        if not self.wants(number):
            return
        left_out = self._repeats.heed(event)
        if left_out and not self.wants(logging.DEBUG):
            event = {**event, "repeated": left_out}
        elif left_out is None and not self.wants(logging.DEBUG):
            return
        event = copied(event)  # a handler or a processor may change it
        try:
            structlog = _structlog()
            if structlog is None:
                extra = {**_keys_of(event), "aktor": event}
                tell = functools.partial(_LOGGER.log, number, "%s", _Text(event), extra=extra)
            else:
                logger = structlog.get_logger("aktor").bind(logger="aktor")
                tell = functools.partial(getattr(logger, _METHODS[number]), name, **_keys_of(event))
            # A copy, since a context can be entered by one thread at a time.
            self._context.copy().run(tell)
        except Exception:
            _print_logging_error()
        except BaseException:
            if threading.current_thread() is threading.main_thread():
                raise
            _print_logging_error()


_MODULES: Final = sys.modules


def _structlog() -> Any:
    """structlog, if the application has imported and configured it."""
    module = _MODULES.get("structlog")
    # (It may be under way of being imported, by another thread.)
    is_configured: Callable[[], bool] | None = getattr(module, "is_configured", None)
    return module if is_configured is not None and is_configured() else None


def _lowest() -> int:
    """The lowest level that structlog is given: that of the logger `aktor` if it was set, else
    INFO, or that of the root logger if it is lower. structlog may drop more."""
    return _LOGGER.level or min(logging.INFO, logging.root.level)


def _keys_of(event: Event) -> Event:
    """The keys besides those that a log has of its own."""
    return {key: value for key, value in event.items() if key not in ("event", "level")}


def _print_logging_error() -> None:
    if logging.raiseExceptions and sys.stderr is not None:
        with contextlib.suppress(Exception):  # stderr may be closed
            sys.stderr.write("--- Logging error in aktor's trace ---\n" + traceback.format_exc())


#: The keys that are left out where an event is one line for people, or stand elsewhere in it.
_FOR_PROGRAMS: Final = frozenset({"event", "level", "t", "mono", "seq", "cause"})


class _Text:
    """An event as one line, rendered only if a handler writes it."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __str__(self) -> str:
        rest = (f"{key}={value}" for key, value in self._event.items() if key not in _FOR_PROGRAMS)
        # repr'd control characters: a topic name must not be able to forge a log line
        return " ".join((self._event["event"], *rest)).replace("\n", "\\n").replace("\r", "\\r")
