"""Requests that wait: for records, for replicas, for their time to run out."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aktor.broker.call import Call

__all__ = ["Waiting", "WaitingList"]

#: So many that were answered may stay in the heap of deadlines in any case.
_GONE_MAX: Final = 64


@dataclass(slots=True, eq=False)
class Waiting:
    """A call that waits for partitions; `again(late)` tries once more: whether it answered."""

    call: Call
    deadline: float
    places: frozenset[tuple[str, int]]
    again: Callable[[bool], bool]
    gone: bool = field(default=False)


class WaitingList:
    """Calls by the partitions they wait for, and by their deadlines (Kafka's purgatory)."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], dict[Waiting, None]] = {}
        self._deadlines: list[tuple[float, int, Waiting]] = []
        self._numbers = itertools.count()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._deadlines) - self._gone

    def add(self, waiting: Waiting) -> None:
        """Let it wait."""
        for place in waiting.places:
            self._by_place.setdefault(place, {})[waiting] = None
        heapq.heappush(self._deadlines, (waiting.deadline, next(self._numbers), waiting))

    def changed(self, place: tuple[str, int]) -> None:
        """Try those again that wait for this partition, in the order they came."""
        for waiting in list(self._by_place.get(place, ())):
            if not waiting.gone and waiting.again(False):
                self._remove(waiting)

    def wake_at(self) -> float:
        """When the first one's time has run out."""
        while self._deadlines and self._deadlines[0][2].gone:
            heapq.heappop(self._deadlines)
            self._gone -= 1
        return self._deadlines[0][0] if self._deadlines else math.inf

    def tick(self, now: float) -> None:
        """Answer those whose time has run out."""
        while self.wake_at() <= now:
            waiting = self._deadlines[0][2]
            self._remove(waiting)
            waiting.again(True)

    def forget(self, which: Callable[[Call], bool]) -> None:
        """These are not to be answered any more: a broker stopped, or a connection broke."""
        for waiting in [
            waiting for _, _, waiting in self._deadlines if not waiting.gone and which(waiting.call)
        ]:
            self._remove(waiting)

    def _remove(self, waiting: Waiting) -> None:
        if waiting.gone:  # its connection broke while it was answered
            return
        waiting.gone = True
        self._gone += 1
        if self._gone > _GONE_MAX and self._gone > len(self._deadlines) // 2:
            # A request with a long wait that is answered soon must not be kept all that time.
            self._deadlines = [deadline for deadline in self._deadlines if not deadline[2].gone]
            heapq.heapify(self._deadlines)
            self._gone = 0
        for place in waiting.places:
            others = self._by_place.get(place)
            if others is not None:
                others.pop(waiting, None)
                if not others:
                    del self._by_place[place]
