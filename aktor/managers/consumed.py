"""Consumed positions: what the application has finished with, and how much of it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.managers.commit_requests import Offsets, TopicIds

__all__ = ["UNHEARD", "Consumed"]

#: The ownership of a partition of whose assignment this (restarted) actor has not heard yet.
UNHEARD: Final = -1

#: The ownership of a partition that was not ours, as this actor found when it heard of it.
GONE: Final = -2


class Consumed:
    """Owns consumed and committed positions, and the number of each ownership of a partition.

    Only of partitions that are assigned: with the assignment goes all that is known of them, so
    nothing can be committed for a partition that is somebody else's.
    """

    def __init__(self) -> None:
        #: Each assigned partition with the number of this ownership of it.
        self.owned: dict[TopicPartition, int] = {}
        #: How many answers have said that offsets are stored: the age of a look-up.
        self.commits_stored = 0
        #: Whether the application is still at the positions of its last `Poll`, as far as is known
        #: here: it has asked for no commit since.
        self.are_up_to_date = False
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._topic_ids: dict[str, Any] = {}
        self._ownerships = 0
        self._heard = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These are ours now; what is not ours any more is forgotten."""
        self._heard = True
        self._ownerships += 1
        self.owned = {one: self.owned.get(one, self._ownerships) for one in partitions}
        for known in (self._positions, self._committed):
            for gone in known.keys() - self.owned.keys():
                del known[gone]

    def moved(self, positions: Offsets) -> None:
        """The application polls, and has consumed up to these."""
        self.are_up_to_date = True
        self._positions.update({k: v for k, v in positions.items() if k in self.owned})

    def commit_asked(self) -> None:
        """The application asks for a commit, perhaps of records that it got since its last `Poll`.

        It has moved on from the positions of that `Poll`, then.
        """
        self.are_up_to_date = False

    def know(self, topic_ids: TopicIds, *, by_name: bool) -> None:
        """Forget what was read, and committed, of a topic that was created anew since.

        Not if partitions are assigned by topic id, as in a KIP-848 group (`by_name` is False).
        """
        anew = {topic for topic, was in self._topic_ids.items() if topic_ids.get(topic, was) != was}
        ours = {one.topic for one in self.owned}  # remembered while they are deleted
        kept = {topic: was for topic, was in self._topic_ids.items() if topic in ours}
        self._topic_ids = {**kept, **topic_ids}
        for one in self.owned if by_name and anew else ():
            if one.topic in anew:
                self._positions.pop(one, None)
                self._committed.pop(one, None)

    def released(self, positions: Offsets) -> None:
        """The application has released partitions at these positions: an automatic commit of older
        ones would go back.

        The `Poll` with these positions comes later, perhaps only after the revoked callback.
        """
        self._positions.update({k: v for k, v in positions.items() if k in self._positions})

    def stored(self, offsets: Offsets, ownerships: Mapping[TopicPartition, int]) -> None:
        """The broker has stored these, sent in these ownerships.

        Others may have committed since of what is ours anew.
        """
        self.commits_stored += 1
        ours = {k: v for k, v in offsets.items() if self.owned.get(k) == ownerships[k]}
        self._committed.update(ours)

    def found(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """These were committed before us, and need not be committed again."""
        for one, value in offsets.items():
            if value is not None and one in self.owned:
                self._committed.setdefault(one, value)

    def to_commit(self, *, everything: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions that are not what is committed (a seek may have taken them back).

        `everything`: all positions, and what is committed where nothing has been consumed.
        """
        if everything:
            return self._committed | self._positions
        return {
            one: position
            for one, position in self._positions.items()
            if one not in self._committed or self._committed[one].offset != position.offset
        }

    def ownership(self, partition: TopicPartition) -> int:
        """The number of the present ownership; 0 if the partition is not ours."""
        return self.owned.get(partition, 0)

    def ownerships(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of those that are ours; `UNHEARD` as long as nobody has said what is."""
        if not self._heard:
            return dict.fromkeys(partitions, UNHEARD)
        return {one: self.owned[one] for one in partitions if one in self.owned}

    def heard_of(self, ownerships: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Replace each `UNHEARD` by the number of the present ownership, or by `GONE` if the
        partition is not owned.

        The application says what it has before it gives anything away.
        """
        return {
            one: self.owned.get(one, GONE) if ownership == UNHEARD else ownership
            for one, ownership in ownerships.items()
        }

    def changed_hands(self, partition: TopicPartition, ownership: int) -> bool:
        """Whether the partition is not ours any more, or ours anew (0: it was not ours then)."""
        return ownership not in (0, UNHEARD, self.ownership(partition))
