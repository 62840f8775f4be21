"""Which offsets could not be committed, and were not since: for `status()` and `why()`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from kafka.structs import TopicPartition

from aktor.events.present import CommitsFail

__all__ = ["CommitFailures"]


class CommitFailures:
    """Owns the failures of commits that are not made good: it goes by partitions, since one commit
    may store the offsets of a topic and be refused those of another, again and again.

    `failed` is called by handlers, which do not know the time: `shown` adds it.
    """

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._attempts = 0
        self._error = ""
        self._since = self._at = -math.inf
        self._has_new = False

    def failed(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """An attempt to commit offsets of these has failed, or was not made because of this."""
        self._partitions.update(partitions)
        if self._partitions:
            self._attempts += 1
            self._error = str(error)
            self._has_new = True

    def stored(self, partitions: Iterable[TopicPartition]) -> None:
        """Offsets of these are stored."""
        if self._partitions:
            self._partitions.difference_update(partitions)
            self._forget_if_over()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are ours now: of others nobody waits for a commit of ours any more."""
        if self._partitions:
            self._partitions.intersection_update(partitions)
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if not self._partitions:
            self._attempts = 0
            self._since = self._at = -math.inf
            self._has_new = False

    def shown(self, now: float) -> CommitsFail | None:
        """What is to be shown; None: all that was to be committed is stored, or on its way."""
        if not self._attempts:
            return None
        if self._has_new:
            self._has_new, self._at = False, now
            if self._since == -math.inf:
                self._since = now
        return CommitsFail(
            since=self._since, at=self._at, attempts=self._attempts, error=self._error
        )
