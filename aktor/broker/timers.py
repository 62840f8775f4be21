"""Requests that wait: for records, for replicas, for their time to run out."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from aktor.broker.call import Call

__all__ = ["Waiting", "WaitingList"]


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

    def __len__(self) -> int:
        return sum(1 for _, _, one in self._deadlines if not one.gone)

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
        return self._deadlines[0][0] if self._deadlines else math.inf

    def tick(self, now: float) -> None:
        """Answer those whose time has run out."""
        while self.wake_at() <= now:
            waiting = heapq.heappop(self._deadlines)[2]
            waiting.again(True)
            self._remove(waiting)

    def forget(self, which: Callable[[Call], bool]) -> None:
        """Nobody listens to these any more: a broker stopped, a connection broke."""
        for waiting in [one for _, _, one in self._deadlines if which(one.call)]:
            self._remove(waiting)

    def _remove(self, waiting: Waiting) -> None:
        waiting.gone = True
        for place in waiting.places:
            others = self._by_place.get(place)
            if others is not None:
                others.pop(waiting, None)
                if not others:
                    del self._by_place[place]
