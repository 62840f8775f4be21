"""Python's `time`, virtual for the code of members only.

While a simulation lives, `sleep`, `monotonic`, `perf_counter` and `time` (and their `_ns`) are
replaced, in `time` itself and where they were imported by name. The replacements ask whose turn it
is in this thread: a member has its clock, anybody else the real one. So other threads, other
simulations and the test around it notice nothing. `replace_too` is for modules that have more.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, Protocol

__all__ = ["Clock", "give_back", "in_hand", "replace_too", "take"]

#: Modules that keep what they imported by name, and look at a clock without being overtaken: they
#: may hold a lock then. Python's own, kafka-python's, and aktor's, which is given a clock; and the
#: tools of tests: Hypothesis looks at the clock in each garbage collection, wherever in a member's
#: code (amid an import, say) that may be.
_NOT_THEIRS: Final = {
    *{*sys.stdlib_module_names, "aktor", "kafka"} - {"__main__"},
    *("_pytest", "coverage", "hypothesis", "pytest"),
}

_here: Final = threading.local()


class Clock(Protocol):
    """What a member's code takes for `time`."""

    def monotonic(self) -> float:
        """Seconds that do not go back."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def look(self) -> None:
        """Code of the member looked at a clock."""

    def sleep(self, seconds: float) -> None:
        """Others have their turns."""


class in_hand:
    """While the block runs, this thread runs code that goes by this clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: Clock | None = None

    def __enter__(self) -> None:
        self._before = getattr(_here, "clock", None)
        _here.clock = self._clock

    def __exit__(self, *_: object) -> None:
        _here.clock = self._before


def _virtual(name: str, read: Callable[[Clock], Any]) -> Callable[[], Any]:
    real = getattr(time, name)

    def now() -> Any:
        clock = getattr(_here, "clock", None)
        if clock is None:
            return real()
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] not in _NOT_THEIRS:
            clock.look()
        return read(clock)

    now.__name__ = now.__qualname__ = name
    return now


_sleep_really: Final = time.sleep


def _sleep(seconds: float) -> None:
    clock = getattr(_here, "clock", None)
    if clock is None:
        _sleep_really(seconds)
    elif seconds < 0:
        raise ValueError("sleep length must be non-negative")
    else:
        clock.sleep(seconds)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1000  # of a float no more is true


#: What is replaced by what, by the id of the real one.
_REPLACED: Final[dict[int, tuple[Any, Any]]] = {
    id(getattr(time, name)): (getattr(time, name), virtual)
    for name, virtual in {
        "sleep": _sleep,
        "time": _virtual("time", lambda clock: clock.wall()),
        "time_ns": _virtual("time_ns", lambda clock: _nanoseconds(clock.wall())),
        "monotonic": _virtual("monotonic", lambda clock: clock.monotonic()),
        "monotonic_ns": _virtual("monotonic_ns", lambda clock: _nanoseconds(clock.monotonic())),
        "perf_counter": _virtual("perf_counter", lambda clock: clock.monotonic()),
        "perf_counter_ns": _virtual(
            "perf_counter_ns", lambda clock: _nanoseconds(clock.monotonic())
        ),
    }.items()
}


#: What else is replaced: an attribute of a class or module, and by what.
_MORE: Final[list[tuple[Any, str, Any]]] = []


def replace_too(owner: Any, name: str, replacement: Any) -> None:
    """While a simulation lives, `owner.name` is this: it has to ask itself whose turn it is."""
    _MORE.append((owner, name, replacement))


class _Patches:
    """Owns what was replaced, as long as at least one simulation wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] = []
        #: Of `_MORE`: whose attribute, and what it was; None if it was inherited.
        self._more: list[tuple[Any, str, Any]] = []

    def take(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                for module in (time, *list(sys.modules.values())):
                    self._replace(module)
                for owner, name, replacement in _MORE:
                    self._more.append((owner, name, vars(owner).get(name)))
                    setattr(owner, name, replacement)

    def _replace(self, module: ModuleType) -> None:
        try:
            names = vars(module)
            package = module.__name__.partition(".")[0]
        except (AttributeError, TypeError):
            return  # what sits in sys.modules need not be a module
        if package in _NOT_THEIRS and module is not time:
            return
        for name, value in list(names.items()):
            real, virtual = _REPLACED.get(id(value), (None, None))
            if real is not None and value is real:
                names[name] = virtual
                self._replaced.append((names, name, real, virtual))

    def give_back(self) -> None:
        with self._lock:
            self._wanted -= 1
            if self._wanted:
                return
            for names, name, real, virtual in self._replaced:
                if names.get(name) is virtual:
                    names[name] = real
            self._replaced.clear()
            for owner, name, real in self._more:
                if real is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, real)
            self._more.clear()


_PATCHES: Final = _Patches()

#: From now on, until it is given back as often, members have their own time.
take: Final = _PATCHES.take
give_back: Final = _PATCHES.give_back
