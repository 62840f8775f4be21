"""Warnings that come again and again, as the application's log has them: the first, then rarely,
with how many were left out.

While a broker is away each attempt fails, and each request that waited for it: some two warnings a
second, in which nobody sees what else happens. The file, hooks and listeners have all of them, and
so has a log at DEBUG.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aktor.trace.alike import without_numbers

__all__ = ["Repeats"]

#: What is tried again until it goes well.
_REPEATED: Final = frozenset(
    {
        "bootstrap.failed",
        "brokers.unreachable",
        "connection.failed",
        "coordinator.refused",
        "fetch.failed",
        "heartbeat.failed",
        "heartbeat.late",
        "metadata.failed",
        "position.retrying",
        "topic.refused",
    }
)

#: After these the next failure is news again.
_ENDS: Final = frozenset({"broker.returned", "brokers.reached"})

#: One that was told is told again after so many seconds, then after twice as many, up to the last.
AGAIN_AFTER: Final = 10.0
AGAIN_AT_MOST: Final = 300.0

#: If there was none for so long, in seconds, the next one is the first again.
QUIET: Final = 60.0

#: More kinds are not kept: then all are told anew.
KINDS_MAX: Final = 200


class _Told:
    """A kind of warning: when it was told and when one came last, how long it waits now."""

    __slots__ = ("came_at", "left_out", "told_at", "waits")

    def __init__(self, now: float) -> None:
        self.told_at = self.came_at = now
        self.waits = AGAIN_AFTER
        self.left_out = 0


class Repeats:
    """Owns which warnings of one consumer its log has had, and how many were left out since."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[tuple[Any, ...], _Told] = {}

    def heed(self, event: Mapping[str, Any]) -> int | None:
        """How many like this one were left out since the last that was told; None: this one is left
        out, too."""
        name = event["event"]
        if name in _ENDS:
            self._forget(event.get("node"))
        if name not in _REPEATED:
            return 0
        because = without_numbers(str(event.get("because")))
        kind = name, event.get("node"), event.get("address"), because
        now, told = event["mono"], self._told.get(kind)
        if told is None or now - told.came_at >= QUIET:
            if len(self._told) >= KINDS_MAX:
                self._told.clear()
            self._told[kind] = _Told(now)
            return 0
        told.came_at = now
        if now - told.told_at < told.waits:
            told.left_out += 1
            return None
        left_out, told.left_out = told.left_out, 0
        told.told_at, told.waits = now, min(2 * told.waits, AGAIN_AT_MOST)
        return left_out

    def _forget(self, node: int | None) -> None:
        """This broker answers again: so does one that may be asked anything."""
        for kind in list(self._told):
            of = kind[1]
            if of is None or of < 0 or of == node or node is None:
                self._told.pop(kind, None)
