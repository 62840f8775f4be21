"""Alarms by name: each name has one, and setting it again moves it."""

from __future__ import annotations

import heapq
import math

__all__ = ["Timers"]

#: The finest step of Kafka's timing wheel, seconds: nothing is due in the moment it was set, so a
#: timeout of nothing, set again by what it triggers, cannot keep a tick going for ever.
STEP = 0.001


class Timers:
    """Owns the alarms of one group. Earliest first; of two at one time, the one set first."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}
        #: All alarms ever set whose time has not come; those not in `_due` any more are skipped.
        self._queue: list[tuple[float, int, str]] = []
        self._count = 0

    def set(self, name: str, now: float, delay: float) -> None:
        """Let `name` be due `delay` seconds from now, and at no other time."""
        self._count += 1
        at = now + max(delay, STEP)
        self._due[name] = (at, self._count)
        heapq.heappush(self._queue, (at, self._count, name))

    def at(self, name: str) -> float:
        """When `name` is due; math.inf if it is not set."""
        return self._due[name][0] if name in self._due else math.inf

    def cancel(self, name: str) -> None:
        """Forget it, if it was set."""
        self._due.pop(name, None)

    def clear(self) -> None:
        """Forget all."""
        self._due.clear()
        self._queue.clear()

    def wake_at(self) -> float:
        """When the next is due, math.inf if there is none."""
        queue = self._queue
        while queue and self._due.get(queue[0][2]) != queue[0][:2]:
            heapq.heappop(queue)
        return queue[0][0] if queue else math.inf

    def pop(self, now: float) -> str | None:
        """One that is due, which is over with this; None if there is none."""
        if self.wake_at() > now:
            return None
        _, _, name = heapq.heappop(self._queue)
        del self._due[name]
        return name
