"""Hooks on events: whom to call from which level on, or for which events; and what they raise."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from aktor.trace.logs import LEVELS
from aktor.trace.plain import copied

__all__ = ["NEVER", "Hook", "Hooks"]

Hook = Callable[[dict[str, Any]], object]

#: A level above all.
NEVER: Final = 100


class Hooks:
    """Owns the hooks of one trace. `least` is the lowest level of which one of them wants all
    events; besides them, some want the events that are `named`."""

    __slots__ = ("_hooks", "_lock", "least", "named")

    def __init__(self) -> None:
        self.least = NEVER
        self.named: Set[str] = frozenset()
        #: Of each: the level, and the names of the events that it wants; None: all.
        self._hooks: tuple[tuple[int, Hook, Set[str] | None], ...] = ()
        #: Two threads that hook at the same time must not forget each other's hook.
        self._lock = threading.Lock()

    def add(self, hook: Hook, level: str, only: Set[str] | None = None) -> Callable[[], None]:
        """Call it for events of this level and above (and of these names, if they are given), until
        the returned function is called."""
        if level not in LEVELS:
            raise ValueError(f"level is one of {', '.join(LEVELS)}, not {level!r}")
        entry = LEVELS[level], hook, only
        with self._lock:
            self._set((*self._hooks, entry))

        def remove() -> None:
            with self._lock:
                self._set(tuple(other for other in self._hooks if other is not entry))

        return remove

    def _set(self, hooks: tuple[tuple[int, Hook, Set[str] | None], ...]) -> None:
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


def _print_error() -> None:
    with contextlib.suppress(Exception):  # stderr may be closed, or there may be none
        sys.stderr.write("--- Error in a hook of aktor's events ---\n" + traceback.format_exc())
