"""What `process` pauses: partitions of which too much is in hand, and how much a poll may give."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from kafka.structs import TopicPartition

from aktor.processing.plan import Plan
from aktor.processing.surroundings import Surroundings
from aktor.processing.work import Work

__all__ = ["Pausing"]

#: This many records of one partition may be in hand, however many partitions share `max_pending`.
LEAST: Final = 10

#: Parts of a partition's share. A partition is paused if more than PAUSED of its share is in hand,
#: and resumed if RESUMED or less is. A poll may fill up the share of the fullest open partition.
PAUSED: Final = 0.5
RESUMED: Final = 0.375

#: If more partitions than these are open, `limit` does not look for the fullest one: that is slow.
LOOKED_AT: Final = 64

#: Of `max_pending`, what should be free before partitions are resumed.
FREE: Final = 0.5


class Pausing:
    """Owns which partitions are paused, because too much of them, or of all, is in hand.

    Some records of each partition should be in hand at all times: otherwise workers have nothing to
    do although there are records. So a partition never gets more than its share of `max_pending`,
    and the others have room even if its handlers are slow (not with more than `max_pending / LEAST`
    partitions: memory has a limit). Paused partitions with few records in hand wait in a queue
    (`_low`) to be resumed; those with none come first.
    """

    def __init__(self, around: Surroundings, plan: Plan, work: Work) -> None:
        self._consumer = around.consumer
        self._delivery = around.engine.delivery
        self._plan = plan
        self._work = work
        #: What we have paused, and the rest of the assignment when we last looked.
        self._paused: set[TopicPartition] = set()
        self._open: set[TopicPartition] = set()
        self._owned: Collection[TopicPartition] = ()
        #: Those of the paused that may be resumed when there is room, in this order.
        self._low: OrderedDict[TopicPartition, None] = OrderedDict()
        #: Partitions of which records came, and were finished, since we last looked.
        self._came: set[TopicPartition] = set()
        self._ended: set[TopicPartition] = set()

    def limit(self) -> int:
        """How many records a poll may give, for all of them may be of one partition."""
        most: int = self._consumer.config["max_poll_records"]
        share = self._share()
        limit = math.ceil(share * (1 - PAUSED))
        if 0 < len(self._open) <= LOOKED_AT:
            limit = max(limit, share - max(map(self._work.pending_of, self._open)))
        return min(most, limit, max(1, self._room()))

    def _room(self) -> int:
        return self._plan.max_pending - self._work.pending

    def _share(self) -> int:
        """How many records of one partition may be in hand; the least if the poll that is about to
        begin may be assigned any number of partitions."""
        owned = len(self._delivery.partitions)
        share = self._plan.max_pending // owned if owned else 0
        return max(min(LEAST, self._plan.max_pending), share)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """What we have paused. From any thread."""
        return frozenset(self._paused.copy())

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        """Records of these came."""
        self._came.update(partitions)

    def note_finished(self, partition: TopicPartition) -> None:
        """A record of it is finished."""
        self._ended.add(partition)

    def _line_up(self, partition: TopicPartition) -> None:
        if self._is_low(partition):
            self._low.setdefault(partition)
            if self._is_dry(partition):
                self._low.move_to_end(partition, last=False)

    def pause_and_resume(self, *, workers_wait: bool) -> None:
        """Pause partitions of which too many records are in hand (all, if `max_pending` is full),
        and resume others. `workers_wait`: workers could take more than there is to begin."""
        owned = self._delivery.partitions
        if owned is not self._owned:
            self._owned, self._open = owned, owned.keys() - self._paused
        if self._room() <= 0:
            self._pause(self._open)
        elif self._came:
            self._pause({partition for partition in self._came if self._is_behind(partition)})
        self._came.clear()
        for partition in self._ended & self._paused:
            self._line_up(partition)
        self._ended.clear()
        if self._low:
            self._resume(workers_wait=workers_wait)

    def _pause(self, partitions: Collection[TopicPartition]) -> None:
        owned = self._delivery.partitions
        # What the user has paused stays as it is when the others are resumed.
        late = sorted(
            partition
            for partition in partitions
            if partition in owned and not owned[partition].paused
        )
        if late:
            self._paused.update(late)
            self._consumer.pause(*late)
            self._open.difference_update(late)
            for partition in late:
                self._line_up(partition)

    def _resume(self, *, workers_wait: bool) -> None:
        """Resume the first, and more of them if there is room for more.

        Each poll, pause and resume costs the same, however few records it is about. So this waits
        until a part of `max_pending` is free, unless workers wait and a partition is dry.
        """
        share, room = self._share(), self._room()
        owned, most = self._delivery.partitions, self._plan.max_pending
        fits = share * len(owned) <= most  # if not, some partitions are always dry
        is_urgent = workers_wait and fits and self._is_dry(next(iter(self._low)))
        if room < (share * (1 - RESUMED) if is_urgent else most * FREE):
            return
        first = list(itertools.islice(self._low, max(1, room // share)))
        ready = [partition for partition in first if partition in owned]
        if ready:
            self._consumer.resume(*ready)
        self.forget(first)
        self._open.update(ready)

    def _is_behind(self, partition: TopicPartition) -> bool:
        """Whether it is to be paused."""
        work = self._work
        return (
            work.pending_of(partition) > self._share() * PAUSED
            or work.ahead_of(partition) >= self._plan.max_uncommitted
        )

    def _is_low(self, partition: TopicPartition) -> bool:
        """Whether it is to be resumed."""
        work = self._work
        return (
            work.pending_of(partition) <= self._share() * RESUMED
            and work.ahead_of(partition) < self._plan.max_uncommitted / 2
        )

    def _is_dry(self, partition: TopicPartition) -> bool:
        return not self._work.pending_of(partition)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._paused.discard(partition)
            self._low.pop(partition, None)

    def end(self) -> None:
        """What we have paused goes on."""
        owned = self._delivery.partitions
        resumed = [
            partition
            for partition in self._paused
            if partition in owned and owned[partition].paused
        ]
        if resumed:
            self._consumer.resume(*sorted(resumed))
