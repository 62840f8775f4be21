"""Iterating over a consumer: the records of a poll, handed out one by one.

A position moves past a record when the record is handed out, so that a commit in the loop's body
covers it, as in kafka-python. If another call comes (a poll, a pause, a seek) or a rebalance step,
the records that are left are put back and given out later, or dropped if their partition has
another epoch.

One number says how many records of a batch were handed out, and the partition's position follows
from it (`settle`): wherever an interrupt comes, no record is skipped and none comes twice.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.structs import TopicPartition

from aktor.consumer.core.batch import Batch
from aktor.consumer.core.caller import CallerRef, is_this, nobody, this_caller
from aktor.consumer.core.core import Core
from aktor.consumer.core.delivery import Delivery, Given
from aktor.consumer.core.partition import Partition

__all__ = ["Calls", "Iteration", "Polled"]

#: For how many seconds records are handed out before the background is told, if the driver of the
#: calls has no other wish.
LOOK_EVERY: Final = 1.0


class Calls:
    """Iterates over the results of a function, until the function raises StopIteration.

    It is not a generator: a generator that is interrupted between the call and its `yield` would
    lose the result.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __iter__(self) -> Calls:
        return self

    def __next__(self) -> Any:
        return self._call()


class Polled:
    """Owns the records that a program's own `poll` (of a subclass, or of an agent) has returned to
    an iteration. The positions have moved past these records already. A record is dropped if its
    partition has another epoch when the record would be handed out: after a seek, or another
    assignment."""

    __slots__ = ("_delivery", "_records")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._records = deque[tuple[int, Any]]()

    def add(self, taken: Mapping[TopicPartition, list[Any]]) -> None:
        """That `poll` has returned these."""
        for records in taken.values():
            self._records += ((self._epoch_of(record), record) for record in records)

    def next(self) -> Any:
        """The next record, which is handed out; None if there is no more."""
        while self._records:
            epoch, record = self._records.popleft()
            if epoch == self._epoch_of(record):
                return record
        return None

    def _epoch_of(self, record: Any) -> int:
        partition = TopicPartition(record.topic, record.partition)
        state = self._delivery.partitions.get(partition)
        return -1 if state is None else state.epoch


class Iteration:
    """Owns the records of a poll that an iteration has not handed out yet."""

    __slots__ = (
        "_call",
        "_clock",
        "_core",
        "_events",
        "_waiting",
        "batch",
        "given_to",
        "look_at",
        "look_every",
    )

    def __init__(self, core: Core) -> None:
        self._core = core
        #: What `next` looks at for each record.
        self._call, self._clock, self._events = core.call, core.clock, core.port.events
        #: The batch being handed out, and the batches after it (the next one is last in the list).
        self.batch = Batch(None, [])
        self._waiting: list[Batch] = []
        #: The thread that they are handed out to.
        self.given_to: CallerRef = nobody
        #: When `next` must stop and the background be told, even if there are more records.
        self.look_at = -math.inf
        #: For how many seconds records are handed out before that.
        self.look_every = LOOK_EVERY

    def next(self) -> Any:
        """The next fetched record; None if a poll must run first.

        This is the only code that runs once per record, so it calls little but the clock.
        """
        batch = self.batch
        if (
            batch.handed >= len(batch.records)
            or batch.state.epoch != batch.epoch  # type: ignore[union-attr]  # it has records
            or self._events
            or self._call.woken
        ):
            return None
        now = self._clock()
        return None if now > self.look_at else batch.next(now)

    def take_back(self, record: Any) -> bool:
        """The record has not reached the user. False: it is not what was handed out last."""
        batch = self.batch
        last = batch.handed - 1
        if last < 0 or batch.records[last] is not record:
            return False
        batch.take_back(last)
        return True

    def take_back_to(self, batch: Batch, handed: int) -> None:
        """Records that were handed out since `batch` and its count `handed` were noted have not
        reached the user."""
        self.batch.take_back(handed if self.batch is batch else 0)

    def take_back_last(self) -> None:
        """The record that was handed out last may not be finished: the position stays before it,
        unless it has moved already."""
        self.batch.take_back(max(0, self.batch.handed - 1))

    def settle(self) -> None:
        """Move the position past the records that were handed out."""
        batch = self.batch
        if batch.told != batch.handed:
            self.tell()
        if batch.handed and batch.state is not None and batch.state.epoch == batch.epoch:
            record = batch.records[batch.handed - 1]
            self._core.delivery.hand_out(batch.state, record)

    def settle_for_another(self) -> list[Given]:
        """The records were handed out to another thread: move the position past them. If it moves
        past the last record only now, return the position before that record: the other thread may
        not be finished with the record (see `InHand`)."""
        batch, delivery = self.batch, self._core.delivery
        state, given = batch.state, list[Given]()
        if state is not None and state.epoch == batch.epoch:
            if batch.handed > 1:
                delivery.hand_out(state, batch.records[batch.handed - 2])
            if (state.offset or 0) <= batch.records[batch.handed - 1].offset:
                given = [(state, state.epoch, state.consumed)]
        self.settle()
        return given

    def tell(self) -> None:
        """Trace the records that were handed out since the last call."""
        batch, delivery = self.batch, self._core.delivery
        records = batch.tell()
        if batch.state is None or not records:
            return
        batch.state.give(batch.first_at, batch.last_at)
        if delivery.log.hears_debug():
            now = self._clock()
            ago = now - batch.first_at, now - batch.last_at
            delivery.tell(batch.state.topic_partition, records, ago)

    def offset_of(self, state: Partition) -> int | None:
        """The consumed position, settled or not. From any thread."""
        batch = self.batch
        handed = batch.handed
        if batch.state is not state or batch.epoch != state.epoch or not handed:
            return state.offset
        after: int = batch.records[handed - 1].offset + 1
        return max(state.offset or 0, after)

    @property
    def handed_at(self) -> float:
        """When a record of the batch was handed out last, which counts as a poll; -inf: none was.
        From any thread."""
        batch = self.batch
        return batch.last_at if batch.handed else -math.inf

    def in_hand(self) -> dict[Partition, tuple[int, int]]:
        """How many records are here of each partition that were not handed out, and the timestamp
        of the first of them. From any thread."""
        found: dict[Partition, tuple[int, int]] = {}
        for batch in (self.batch, *self._waiting):
            records, handed = batch.records, batch.handed
            left = len(records) - handed
            if left > 0 and batch.state is not None and batch.epoch == batch.state.epoch:
                found[batch.state] = left, records[handed].timestamp
        return found

    def stow(self) -> None:
        """Put back the records that were not handed out; a later poll begins with them."""
        self._call.touch()
        if self.batch.state is None and not self._waiting:
            return
        self.settle()
        self._put_back(self.batch)
        while self._waiting:
            self._put_back(self._waiting.pop())
        self.forget()

    def _put_back(self, batch: Batch) -> None:
        if batch.state is None or batch.state.epoch != batch.epoch:
            return
        if batch.handed < len(batch.records):
            self._core.delivery.put_back(batch.state, batch.records[batch.handed :])
        else:  # after the last record there may be markers, aborted or compacted records
            self._core.delivery.pass_by(batch.state)

    def forget(self) -> None:
        """Drop the records that are here: the partitions are read again from their positions."""
        self._waiting = []
        self.batch = Batch(None, [])

    def begin(self, taken: Mapping[TopicPartition, list[Any]]) -> None:
        """Hand out these records, which a poll has taken without moving the positions."""
        if not is_this(self.given_to):
            self.given_to = this_caller()
        core = self._core
        self.look_at = core.clock() + self.look_every
        if core.subscription.in_group:
            self.look_at = min(self.look_at, core.port.membership.session_until)
        partitions = core.delivery.partitions
        self._waiting = [
            Batch(partitions[partition], taken[partition]) for partition in reversed(taken)
        ]
        self.begin_next_batch()

    @property
    def has_records(self) -> bool:
        """Whether the batch that is being handed out has more records."""
        return self.batch.handed < len(self.batch.records)

    def begin_next_batch(self) -> bool:
        """Finish this partition's records and begin the next one's; False if there are none."""
        state = self.batch.state
        if state is not None and state.epoch == self.batch.epoch:
            self.settle()
            self._core.delivery.pass_by(state)
        self.batch = self._waiting.pop() if self._waiting else Batch(None, [])
        return self.batch.state is not None
