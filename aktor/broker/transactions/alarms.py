"""When to look at which transaction again."""

from __future__ import annotations

import heapq
import math

__all__ = ["Alarms"]


class Alarms:
    """At most one alarm for a key: the earliest asked for. A key may be woken too early.

    So a transaction that is extended a thousand times costs no thousand entries: it is looked at
    when it was first due, and then asks for its new time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._at: dict[str, float] = {}
        self._asked = 0

    def ask(self, key: str, at: float) -> None:
        """Wake `key` at this time, or before."""
        if self._at.get(key, math.inf) <= at:
            return
        self._at[key] = at
        self._asked += 1
        heapq.heappush(self._heap, (at, self._asked, key))

    def next(self) -> float:
        """When the first alarm is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> list[str]:
        """Take the keys whose time has come, the earliest first."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                keys.append(key)
        return keys
