"""The records that were polled and are not finished: what may be begun, what may be committed.

Nothing here waits, and all of it belongs to the application thread. Records that must keep their
order stand in one lane; the first of a lane is the only one that is worked on. Of a partition,
everything below its lowest unfinished offset may be committed.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Task", "Work"]


class Task:
    """One record on its way. `cancel` gives it back from a worker that has not begun with it."""

    __slots__ = (
        "attempts",
        "cancel",
        "dropped",
        "epoch_before",
        "error",
        "lane",
        "partition",
        "record",
        "running",
        "since",
    )

    def __init__(self, record: Any, partition: TopicPartition, epoch_before: int | None) -> None:
        self.record = record
        self.partition = partition
        #: The leader epoch of the record before this one: it is committed with this offset.
        self.epoch_before = epoch_before
        self.lane: Hashable = None
        #: Attempts that have failed, and what the last one raised.
        self.attempts = 0
        self.error: BaseException | None = None
        #: A worker has it.
        self.running = False
        #: When a worker has begun with it; inf: none has, it waits for one.
        self.since = math.inf
        #: Its partition is not this member's any more: what becomes of it does not count.
        self.dropped = False
        self.cancel: Callable[[], bool] = lambda: False


class _Partition:
    """What is unfinished of one partition, since it was assigned."""

    __slots__ = ("end", "end_epoch", "pending")

    def __init__(self) -> None:
        #: By offset. An OrderedDict, since its first entry is found at once after many deletions.
        self.pending: OrderedDict[int, Task] = OrderedDict()
        #: The offset after the last record that came, and that record's leader epoch.
        self.end = -1
        self.end_epoch: int | None = None


class Work:
    """Owns the unfinished records of all partitions, and the order in which they are begun."""

    def __init__(self, order: str) -> None:
        #: What the last poll gave, and is not in a lane yet.
        self.incoming: dict[TopicPartition, list[Any]] = {}
        #: Tasks that workers have, also those that do not count any more.
        self.running: set[Task] = set()
        #: Records that were polled and are not finished.
        self.pending = 0
        self._order = order
        self._partitions: dict[TopicPartition, _Partition] = {}
        #: Records that keep their order among themselves. The first is ready, running, or waits for
        #: another attempt.
        self._lanes: dict[Hashable, deque[Task]] = {}
        self._ready: deque[Task] = deque()
        #: Those that wait for another attempt: (when, number, task).
        self._later: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()

    # -- records come

    def take_in(self) -> None:
        """What the last poll gave is worked on.

        An interrupt may come between any two lines. What it leaves in `incoming` counts as
        unfinished, so it is given out again.
        """
        for partition, records in list(self.incoming.items()):
            self.add(partition, records)
            del self.incoming[partition]

    def add(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        """Add polled records. If their offsets go back (the log was truncated, and the position
        reset), forget the earlier records of the partition."""
        for record in records:
            self._line_up(self.add_aside(partition, record))

    def add_aside(self, partition: TopicPartition, record: Any) -> Task:
        """Add a polled record that no worker may begin by itself: the caller handles it."""
        mine = self._partitions.get(partition)
        if mine is None or record.offset < mine.end:
            self.forget([partition])
            mine = self._partitions[partition] = _Partition()
        task = mine.pending[record.offset] = Task(record, partition, mine.end_epoch)
        mine.end, mine.end_epoch = record.offset + 1, record.leader_epoch
        self.pending += 1
        return task

    def _line_up(self, task: Task) -> None:
        task.lane = self._lane_of(task)
        if task.lane is None:
            self._ready.append(task)
            return
        lane = self._lanes.setdefault(task.lane, deque())
        lane.append(task)
        if len(lane) == 1:
            self._ready.append(task)

    def _lane_of(self, task: Task) -> Hashable:
        """None if the record keeps no order: with order "none", or with order "key" and no key."""
        if self._order == "none":
            return None
        partition: Hashable = task.partition
        if self._order == "partition":
            return partition
        key = task.record.key
        if key is None:
            return None
        try:
            hash(key)
        except TypeError:  # a deserializer made it: a dict, a list
            return partition
        return partition, key

    # -- records are worked on

    def begin(self, now: float) -> Task | None:
        """The next that may be begun; the caller gives it to a worker."""
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[2])
        while self._ready:
            task = self._ready.popleft()
            if not task.dropped:
                self.begin_with(task)
                return task
        return None

    def begin_with(self, task: Task) -> None:
        """The workers get this one."""
        task.running, task.since = True, math.inf
        self.running.add(task)

    def returned(self, task: Task) -> None:
        """The worker has ended with it, or has never begun."""
        task.running = False
        self.running.discard(task)
        if task.dropped:
            self._leave_lane(task)

    def retry(self, task: Task, at: float) -> None:
        """Begin it again then."""
        heapq.heappush(self._later, (at, next(self._numbers), task))

    def finish(self, task: Task) -> None:
        """The record is finished: its offset may be committed. A second call changes nothing."""
        mine = self._partitions.get(task.partition)
        if task.dropped or mine is None or mine.pending.pop(task.record.offset, None) is None:
            return
        self.pending -= 1
        self._leave_lane(task)

    def _leave_lane(self, task: Task) -> None:
        lane = self._lanes.get(task.lane)
        if not lane or lane[0] is not task:
            return
        lane.popleft()
        if lane:
            self._ready.append(lane[0])
        else:
            del self._lanes[task.lane]

    @property
    def next_retry(self) -> float:
        """When another attempt is due; infinity: none is."""
        return self._later[0][0] if self._later else float("inf")

    # -- partitions go

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin nothing more of these; what is running may still finish."""
        for partition in partitions:
            mine = self._partitions.get(partition)
            for task in list(mine.pending.values()) if mine is not None else ():
                if task.running and not task.cancel():
                    continue
                self._withdraw(task)

    def _withdraw(self, task: Task) -> None:
        task.dropped = True
        task.running = False
        self.running.discard(task)
        lane = self._lanes.get(task.lane)
        if lane and lane[0] is task:
            self._leave_lane(task)
        elif lane:
            with contextlib.suppress(ValueError):
                lane.remove(task)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more. What still runs keeps its place in its lane: a record that
        comes with the same key, if we are assigned the partition again, waits for it."""
        for partition in list(partitions):
            mine = self._partitions.pop(partition, None)
            for task in mine.pending.values() if mine is not None else ():
                self.pending -= 1
                if task.running:
                    task.dropped = True
                elif not task.dropped:
                    self._withdraw(task)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more: forget them, and what the last poll gave of them."""
        for partition in list(partitions):
            self.forget([partition])
            self.incoming.pop(partition, None)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """Those of which a record came."""
        return self._partitions.keys()

    def runs_of(self, partitions: Collection[TopicPartition]) -> list[Task]:
        """What workers have of these partitions, and counts."""
        return [task for task in self.running if task.partition in partitions and not task.dropped]

    # -- how far it is

    def now(self) -> tuple[int, int, float]:
        """How many records are unfinished, with how many of them workers have begun, and when with
        the oldest (inf: none). From any thread."""
        begun = [since for task in self.running.copy() if (since := task.since) < math.inf]
        return self.unfinished_count, len(begun), min(begun, default=math.inf)

    def unfinished_from(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """The lowest unfinished offset, to be committed; None: everything that came is finished."""
        mine = self._partitions.get(partition)
        if mine is None or not mine.pending:
            return None
        offset, task = next(iter(mine.pending.items()))
        return OffsetAndMetadata(offset, "", -1 if task.epoch_before is None else task.epoch_before)

    def unfinished(
        self, consumed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """From where these partitions are to be read again, if something is left.

        `consumed`: their positions. One that is not behind an unfinished record has gone back: the
        log was truncated, or the topic created anew. That record says nothing about the new log.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, position in consumed.items():
            first = self.unfinished_from(partition)
            for record in self.incoming.get(partition, [])[:1]:
                if first is None or record.offset < first.offset:
                    first = OffsetAndMetadata(record.offset, "", -1)
            if first is not None and first.offset < position.offset:
                found[partition] = first
        return found

    @property
    def unfinished_count(self) -> int:
        """How many records came and are not finished."""
        return self.pending + sum(map(len, self.incoming.copy().values()))

    def pending_of(self, partition: TopicPartition) -> int:
        """How many records of it are unfinished."""
        mine = self._partitions.get(partition)
        return 0 if mine is None else len(mine.pending)

    def ahead_of(self, partition: TopicPartition) -> int:
        """How many offsets lie between the lowest unfinished one and the end of what came."""
        mine = self._partitions.get(partition)
        if mine is None or not mine.pending:
            return 0
        return mine.end - next(iter(mine.pending))
