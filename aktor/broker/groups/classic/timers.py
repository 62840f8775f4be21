"""Timers by name: a name has one timer; to set it again moves it."""

from __future__ import annotations

import heapq
import math

__all__ = ["Timers"]

#: The finest step of Kafka's timing wheel, in seconds. No timer is due at the moment at which it
#: was set: else a timer of 0 seconds that its own handler sets again would keep `tick` in a loop.
STEP = 0.001


class Timers:
    """Owns the timers of one group. The earliest comes first, then the one that was set first."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}
        #: All timers that were set and are not due yet; those that are not in `_due` are skipped.
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
