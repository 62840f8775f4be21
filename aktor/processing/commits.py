"""What `process` commits, and when: all below the lowest unfinished offset of each partition."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.processing.surroundings import BlockingConsumer, Surroundings
from aktor.processing.work import Work

__all__ = ["Commits"]

#: Seconds that the commit of what was drained may take.
LAST_COMMIT: Final = 10.0

#: The least time between two looks, in seconds, while there is nothing to commit. Without it no
#: poll would wait if `commit_interval` is 0.
IDLE_INTERVAL: Final = 1.0


class Commits:
    """Owns what was committed, as far as is known, and when the next commit is due.

    Without a group it commits nothing.
    """

    def __init__(self, around: Surroundings, work: Work, *, interval: float) -> None:
        self._consumer = around.consumer
        self._call = around.engine.call
        self._delivery = around.engine.delivery
        self._clock = around.clock
        self._work = work
        self._interval = interval
        self._has_group = around.consumer.config["group_id"] is not None
        #: The offsets that the group has stored, as far as we know.
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._in_flight = False
        self._due = self._clock() + interval if self._has_group else math.inf

    @property
    def due(self) -> float:
        """When the next commit is due; never, while one waits for its answer."""
        return math.inf if self._in_flight else self._due

    def commit_if_due(self) -> None:
        """Commit what is finished, if it is time; the answer is not waited for."""
        now = self._clock()
        if now < self.due:
            return
        offsets = self._finished()
        self._due = now + (self._interval if offsets else max(self._interval, IDLE_INTERVAL))
        if offsets:
            self._in_flight = True
            self._consumer.commit_async(offsets, self._on_committed)

    def _on_committed(self, offsets: Mapping[TopicPartition, Any], error: Any) -> None:
        self._in_flight = False
        if error is None:  # else the next commit says it again
            self._stored.update(offsets)

    def commit_now(
        self,
        consumer: BlockingConsumer,
        partitions: Collection[TopicPartition] | None = None,
    ) -> None:
        """Commit what is finished of these (default: all) partitions, and wait for the answer.

        It is the last commit before they are given up, so `wakeup` does not end it: a record that
        is finished would be handled once more. A later wait ends by that `wakeup`.

        Raises what `KafkaConsumer.commit` raises, but for what only ends a wait.
        """
        if offsets := self.to_commit(partitions):
            with self._call.steady():
                consumer.commit(offsets, timeout_ms=LAST_COMMIT * 1000)
            self.note_stored(offsets)

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the last commit of these (default: all) partitions has to say; {}: nothing."""
        return self._finished(partitions) if self._has_group else {}

    def note_stored(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The group has stored these."""
        self._stored.update(offsets)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._stored.pop(partition, None)

    def _finished(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed and is not yet, of these (default: all) partitions."""
        consumed = self._delivery.consumed(partitions)
        offsets = consumed | self._work.unfinished(consumed)
        return {
            partition: offset
            for partition, offset in offsets.items()
            if self._stored.get(partition) != offset
        }
