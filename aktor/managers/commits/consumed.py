"""Consumed positions: up to where the application has finished, what of that is committed, and when
automatic commits are due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.manager import Backoff
from aktor.managers.commits.requests import Offsets
from aktor.settings import Settings

__all__ = ["SHORTEST", "UNHEARD", "AutoCommitClock", "Consumed"]

#: The ownership number of every partition until this actor, which may have been restarted, has
#: received its first AssignmentChanged.
UNHEARD: Final = -1

#: Replaces `UNHEARD` if the first AssignmentChanged does not have the partition.
GONE: Final = -2


class Consumed:
    """Owns consumed and committed positions, and the number of each ownership of a partition.

    A partition gets a new ownership number each time it is assigned. When it is revoked, all that
    is known of it is forgotten: so nothing is committed for a partition of another member.
    """

    def __init__(self) -> None:
        #: The ownership number of each assigned partition.
        self.owned: dict[TopicPartition, int] = {}
        #: Counts the answers that stored offsets: a look-up from before the last one is too old.
        self.commits_stored = 0
        #: Whether the positions of the last `Poll` are the newest ones: the application has asked
        #: for no commit since.
        self.are_up_to_date = False
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._ownerships = 0
        self._heard = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these partitions are assigned now; forget all that is known of others."""
        self._heard = True
        self._ownerships += 1
        self.owned = {
            partition: self.owned.get(partition, self._ownerships) for partition in partitions
        }
        for known in (self._positions, self._committed):
            for gone in known.keys() - self.owned.keys():
                del known[gone]

    def moved(self, positions: Offsets) -> None:
        """The application polls; these are its consumed positions."""
        self.are_up_to_date = True
        if positions:
            self._positions.update({k: v for k, v in positions.items() if k in self.owned})

    def commit_asked(self) -> None:
        """The application asks for a commit, perhaps of records that it got since its last `Poll`:
        the positions of that `Poll` may not be the newest ones."""
        self.are_up_to_date = False

    def created_anew(self, topics: Collection[str]) -> None:
        """These topics were deleted and created again: what is known is of the old ones."""
        for partition in [partition for partition in self.owned if partition.topic in topics]:
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)

    @property
    def topics(self) -> set[str]:
        """The topics of our partitions."""
        return {partition.topic for partition in self.owned}

    def released(self, positions: Offsets) -> None:
        """The application gives out no more records of these partitions, and these are its last
        positions: an automatic commit of older ones would take the committed offsets back.

        The `Poll` with these positions comes later, perhaps only after the revoked callback.
        """
        self._positions.update({k: v for k, v in positions.items() if k in self._positions})

    def stored(self, offsets: Offsets, ownerships: Mapping[TopicPartition, int]) -> None:
        """The broker has stored these offsets; `ownerships`: the numbers when they were sent.

        If a partition was revoked and assigned to us again since the commit was sent, ignore its
        offset: another member may have committed a later one.
        """
        self.commits_stored += 1
        ours = {k: v for k, v in offsets.items() if self.owned.get(k) == ownerships[k]}
        self._committed.update(ours)

    def found(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """These offsets were committed before we owned the partitions; do not commit them again."""
        for partition, value in offsets.items():
            if value is not None and partition in self.owned:
                self._committed.setdefault(partition, value)

    def to_commit(self, *, everything: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions that differ from the committed offset (after a seek they may be smaller).

        `everything`: all positions; where nothing has been consumed, the committed offset.
        """
        if everything:
            return self._committed | self._positions
        return {
            partition: position
            for partition, position in self._positions.items()
            if partition not in self._committed
            or self._committed[partition].offset != position.offset
        }

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The committed offsets of these, as far as they are known."""
        return {
            partition: self._committed[partition]
            for partition in partitions
            if partition in self._committed
        }

    def ownership(self, partition: TopicPartition) -> int:
        """The ownership number of the partition; 0 if it is not assigned."""
        return self.owned.get(partition, 0)

    def ownerships(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ownership number of each of these that is assigned. Before the first
        AssignmentChanged: `UNHEARD` for all of them."""
        if not self._heard:
            return dict.fromkeys(partitions, UNHEARD)
        return {
            partition: self.owned[partition] for partition in partitions if partition in self.owned
        }

    def heard_of(self, ownerships: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Replace each `UNHEARD` by the present ownership number, or by `GONE` if the partition is
        not assigned.

        The number is still that of the time when the commit was asked for: after a restart the
        application tells the whole assignment before it removes a partition (`Recovery.restore`).
        """
        return {
            partition: self.owned.get(partition, GONE) if ownership == UNHEARD else ownership
            for partition, ownership in ownerships.items()
        }

    def changed_hands(self, partition: TopicPartition, ownership: int) -> bool:
        """Whether the partition was revoked since it had this ownership number; it may be assigned
        again. False for 0 (the partition was not assigned then) and for `UNHEARD`."""
        return ownership not in (0, UNHEARD, self.ownership(partition))


#: Committed offsets that nobody commits again expire (`offsets.retention.minutes`, 7 days, counted
#: from the last commit if the group has no members): with auto-commit on, positions that have not
#: moved are committed again this often, in seconds.
REFRESH: Final = 3600.0

#: The shortest interval, in seconds. With an `auto_commit_interval_ms` of 0 a commit would be due
#: again as soon as one was made, and the manager would never come to rest.
SHORTEST: Final = 0.01


class AutoCommitClock:
    """Owns the times of the next automatic commit and of the next one that stores all positions."""

    def __init__(self, settings: Settings) -> None:
        self._interval = max(settings.auto_commit_interval, SHORTEST)
        self._backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._due: float | None = None
        self._refresh_due = 0.0

    def stop(self) -> None:
        """No partition was assigned until now: the next call of `due` starts a new interval."""
        self._due = None

    def due(self, now: float) -> float:
        """When the next commit is due; the first call starts the interval."""
        if self._due is None:
            self._due = now + self._interval
            self._refresh_due = now + REFRESH
        return self._due

    def begin(self, now: float) -> bool:
        """The commit that is due is made now. Returns True if it must also store positions that
        have not moved."""
        self._due = now + self._interval
        refreshes = now >= self._refresh_due
        if refreshes:
            self._refresh_due = now + REFRESH
        return refreshes

    def succeeded(self) -> None:
        """The broker stored an automatic commit: the next failure begins with the first backoff."""
        self._backoff.reset()

    def failed(self, now: float, jitter: float) -> None:
        """The broker did not store an automatic commit: make the next one after the backoff, if
        that is sooner than the interval."""
        retry_at = self._backoff.failed(now, jitter)
        self._due = None if self._due is None else min(self._due, retry_at)
