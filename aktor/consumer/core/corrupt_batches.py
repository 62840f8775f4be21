"""Corrupt batches are fetched again: if the bytes were damaged on the way, the next ones are sound.

Meanwhile each poll raises the error. If the bytes of `TRIES` more Fetches are corrupt, too, the
batch is not fetched any more, until the application seeks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import Backoff
from aktor.consumer.core.assignment import Assignment
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.link import Link
from aktor.consumer.core.partition import Partition
from aktor.protocol.error_codes import is_corrupt

__all__ = ["TRIES", "CorruptBatches"]

#: How often a corrupt batch is fetched again.
TRIES: Final = 3

#: The application thread has no randomness: use the middle of the backoff's jitter.
_NO_JITTER: Final = 0.5


@dataclass(slots=True)
class _Attempts:
    """The attempts to fetch the corrupt batch at `offset` of one partition."""

    offset: int
    #: The partition's epoch since the last attempt.
    epoch: int
    backoff: Backoff
    tries: int = 0
    #: The last error that was counted.
    error: Exception | None = None
    due_at: float = math.inf

    def failed(self, error: Exception | None, now: float) -> None:
        """The batch is corrupt: for the first time, or still."""
        self.error = error
        if self.tries < TRIES:
            self.due_at = self.backoff.failed(now, _NO_JITTER)

    def begin(self, epoch: int) -> None:
        """The batch is fetched again, in this epoch."""
        self.tries += 1
        self.epoch = epoch
        self.due_at = math.inf


class CorruptBatches:
    """Owns how often each corrupt batch was fetched again, and when the next attempt is due.

    After a seek, or anything else that gives a partition a new epoch, the count begins at zero.
    """

    def __init__(
        self,
        link: Link,
        delivery: Delivery,
        assignment: Assignment,
        *,
        retry_backoff: float,
        retry_backoff_max: float,
    ) -> None:
        self._delivery = delivery
        self._assignment = assignment
        self._log = link.log
        self._retry_backoff = retry_backoff
        self._retry_backoff_max = retry_backoff_max
        self._attempts: dict[TopicPartition, _Attempts] = {}
        self._due_at = math.inf

    def due_after(self, now: float) -> float:
        """When a poll that waits has a batch to fetch again."""
        return self._due_at if self._due_at > now else math.inf

    def may_heal(self, partition: TopicPartition) -> bool:
        """Whether the corrupt batch that a poll has raised for this partition is fetched again."""
        attempts = self._attempts.get(partition)
        state = self._delivery.partitions.get(partition)
        if attempts is None or state is None:
            return False
        return attempts.due_at < math.inf or state.fetched_anew

    def fetch_anew(self, now: float) -> None:
        """Note which batches are corrupt, and fetch those again that are due."""
        self._forget_healed()
        self._due_at = math.inf
        due = []
        for state in self._delivery.failed():
            if not is_corrupt(state.error) or not state.all_given_out:
                continue
            attempts = self._attempts_of(state)
            if attempts.error is not state.error:
                attempts.failed(state.error, now)
                self._tell(attempts, state, now)
            if attempts.due_at <= now:
                due.append(state)
            else:
                self._due_at = min(self._due_at, attempts.due_at)
        if due:
            self._assignment.fetch_anew(due)
            for state in due:
                self._attempts[state.topic_partition].begin(state.epoch)

    def _attempts_of(self, state: Partition) -> _Attempts:
        known = self._attempts.get(state.topic_partition)
        if known is None or (known.epoch, known.offset) != (state.epoch, state.offset):
            assert state.offset is not None, "it has been given out up to its error"
            backoff = Backoff(self._retry_backoff, self._retry_backoff_max)
            known = _Attempts(state.offset, state.epoch, backoff)
            self._attempts[state.topic_partition] = known
        return known

    def _tell(self, attempts: _Attempts, state: Partition, now: float) -> None:
        """Trace that the batch is corrupt, and when it is fetched again."""
        wait = attempts.due_at - now
        self._log.warning(
            "batch.corrupt",
            partition=state.topic_partition,
            offset=attempts.offset,
            because=state.error,
            tries=attempts.tries,
            retry_in=None if wait == math.inf else round(wait, 3),
        )

    def _forget_healed(self) -> None:
        """Forget batches that were read meanwhile, and partitions that have another epoch."""
        for partition, attempts in list(self._attempts.items()):
            state = self._delivery.partitions.get(partition)
            if state is None or state.epoch != attempts.epoch:
                del self._attempts[partition]
            elif state.offset != attempts.offset:
                del self._attempts[partition]
                self._log.info(
                    "batch.healed",
                    partition=partition,
                    offset=attempts.offset,
                    tries=attempts.tries,
                )
