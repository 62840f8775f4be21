"""What `process` pauses: partitions of which too much is in hand, and how much a poll may give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka.structs import TopicPartition

from aktor.processing.plan import Plan
from aktor.processing.surroundings import Surroundings
from aktor.processing.work import Work

__all__ = ["Pausing"]

#: So many records of one partition may be in hand, however many partitions share `max_pending`.
LEAST: Final = 10


class Pausing:
    """Owns which partitions are paused, because too much of them is in hand."""

    def __init__(self, around: Surroundings, plan: Plan, work: Work) -> None:
        self._consumer = around.consumer
        self._delivery = around.engine.delivery
        self._plan = plan
        self._work = work
        #: What we have paused; and whether that is everything, because too much is in hand.
        self._paused: set[TopicPartition] = set()
        self._full = False
        #: Partitions of which records came since we last looked who is behind.
        self._came: set[TopicPartition] = set()

    def limit(self) -> int:
        """How many records a poll may give: few enough that all partitions come to their turn."""
        most: int = self._consumer.config["max_poll_records"]
        return min(most, self._share(), max(1, self._plan.max_pending - self._work.pending))

    def _share(self) -> int:
        """How many records of one partition may be in hand."""
        owned = max(1, len(self._delivery.partitions))
        return max(min(LEAST, self._plan.max_pending), self._plan.max_pending // owned)

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        """Records of these came."""
        self._came.update(partitions)

    def pause_and_resume(self) -> None:
        """Partitions that have too much in hand wait, and all of them if all have."""
        if not self._full and self._work.pending >= self._plan.max_pending:
            self._full = True
            self._pause(set(self._delivery.partitions))
        elif self._came:
            self._pause({one for one in self._came if self._is_behind(one, share=1.0)})
        elif self._paused and self._work.pending <= self._plan.max_pending / 2:
            self._full = False
            self._resume({one for one in self._paused if not self._is_behind(one, share=0.5)})
        self._came = set()

    def _pause(self, partitions: set[TopicPartition]) -> None:
        owned = self._delivery.partitions
        # What the user has paused stays as it is when the others are resumed.
        late = [one for one in partitions if one in owned and not owned[one].paused]
        if late:
            self._paused.update(late)
            self._consumer.pause(*sorted(late))

    def _resume(self, partitions: set[TopicPartition]) -> None:
        owned = self._delivery.partitions
        ready = [one for one in partitions if one in owned]
        if ready:
            self._consumer.resume(*sorted(ready))
        self._paused -= partitions

    def _is_behind(self, partition: TopicPartition, *, share: float) -> bool:
        work, plan = self._work, self._plan
        return (
            work.pending_of(partition) >= self._share() * share
            or work.ahead_of(partition) >= plan.max_uncommitted * share
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        self._paused.difference_update(partitions)

    def end(self) -> None:
        """What we have paused goes on."""
        owned = self._delivery.partitions
        resumed = [one for one in self._paused if one in owned and owned[one].paused]
        if resumed:
            self._consumer.resume(*sorted(resumed))
