"""Hooks on events: whom to call from which level on, or for which events; and what they raise."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Set
from types import FrameType
from typing import Any, Final

from aktor.trace.logs import LEVELS
from aktor.trace.plain import copied

__all__ = ["NEVER", "Hook", "Hooks", "runs_hook"]

Hook = Callable[[dict[str, Any]], object]
_Wanted = tuple[int, Hook, Set[str] | None]

#: A level above all.
NEVER: Final = 100


class Hooks:
    """Owns the hooks of one trace. `least` is the lowest level of which one of them wants all
    events; besides them, some want the events that are `named`."""

    __slots__ = ("_given", "_hooks", "least", "named")

    def __init__(self) -> None:
        self.least = NEVER
        self.named: Set[str] = frozenset()
        #: Of each: the level, and the names of the events that it wants; None: all. `_hooks`
        #: follows `_given`, of which no change is lost. (A lock would be kept by a fork, and by a
        #: thread whose signal handler wants it.)
        self._given: dict[object, _Wanted] = {}
        self._hooks: tuple[_Wanted, ...] = ()

    def add(self, hook: Hook, level: str, only: Set[str] | None = None) -> Callable[[], None]:
        """Call it for events of this level and above (and of these names, if they are given), until
        the returned function is called."""
        if level not in LEVELS:
            raise ValueError(f"level is one of {', '.join(LEVELS)}, not {level!r}")
        key = object()
        self._given[key] = LEVELS[level], hook, only
        self._follow()

        def remove() -> None:
            self._given.pop(key, None)
            self._follow()

        return remove

    def _follow(self) -> None:
        """What is given counts. Again if it has changed meanwhile, by another thread or by a signal
        handler: what was done of it may have been overwritten here."""
        given: dict[object, _Wanted] | None = None
        while given is None or given.keys() != self._given.copy().keys():
            given = self._given.copy()
            hooks = tuple(given.values())
            self.least = min((least for least, _, only in hooks if only is None), default=NEVER)
            self.named = frozenset().union(*(only for _, _, only in hooks if only is not None))
            self._hooks = hooks

    @property
    def is_empty(self) -> bool:
        """Whether nobody is to be called."""
        return not self._hooks

    def tell(self, event: Mapping[str, Any]) -> None:
        """Call those that want an event of this level, each with an event of its own."""
        level = LEVELS[event["level"]]
        for least, hook, only in self._hooks:
            if least <= level and (only is None or event["event"] in only):
                _call(hook, copied(event))


def _call(hook: Hook, event: dict[str, Any]) -> None:
    """Call a hook of the application. What it raises is printed: neither the actor that has told
    the event nor the application's call may end by it. (But an interrupt on the main thread does.)
    """
    try:
        hook(event)
    except Exception:
        _print_error()
    except BaseException:
        if threading.current_thread() is threading.main_thread():
            raise
        _print_error()


def runs_hook(frames: Iterable[FrameType]) -> bool:
    """Whether the thread with these frames is in a hook of the application."""
    return any(frame.f_code is _call.__code__ for frame in frames)


def _print_error() -> None:
    with contextlib.suppress(Exception):  # stderr may be closed, or there may be none
        sys.stderr.write("--- Error in a hook of aktor's events ---\n" + traceback.format_exc())
