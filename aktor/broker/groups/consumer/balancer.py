"""How partitions are evened out among members that subscribe to different topics.

The loads of a topic's subscribers are leveled from both ends: the least loaded take in turn until
they reach the next ones above, the most loaded give in turn until they reach the next ones below,
and it ends when the two levels meet (Kafka's UniformHeterogeneousAssignmentBuilder).
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

__all__ = ["Balancer", "Owners"]


class Owners:
    """The owner of each partition, and how many each member has. Members are numbers."""

    def __init__(self, partitions: Mapping[UUID, int], *, members: int) -> None:
        self._owners: dict[UUID, list[int | None]] = {t: [None] * n for t, n in partitions.items()}
        self.sizes = [0] * members

    def give(self, topic_id: UUID, partition: int, member: int) -> None:
        """From now on it is this member's."""
        owners = self._owners[topic_id]
        if partition >= len(owners):
            return
        before = owners[partition]
        if before is not None:
            self.sizes[before] -= 1
        owners[partition] = member
        self.sizes[member] += 1

    def unowned(self, topic_id: UUID) -> list[int]:
        """The partitions of a topic without an owner."""
        return [p for p, owner in enumerate(self._owners[topic_id]) if owner is None]

    def by_member(self, topic_id: UUID) -> dict[int, list[int]]:
        """The partitions of a topic, by owner, ascending."""
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                owned.setdefault(owner, []).append(partition)
        return owned

    def of(self, member: int) -> dict[UUID, tuple[int, ...]]:
        """All that one member has."""
        found = {
            topic_id: tuple(p for p, owner in enumerate(owners) if owner == member)
            for topic_id, owners in self._owners.items()
        }
        return {topic_id: owned for topic_id, owned in found.items() if owned}


class Balancer:
    """The subscribers of one topic by load, leveled from below and from above.

    The sizes are read when a level is reached, not followed while partitions move.
    """

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=lambda member: (sizes[member], member))
        self._low_end = 0
        self._low_level = sizes[self._sorted[0]] - 1
        self._low_next = 0
        self._high_start = len(self._sorted)
        self._high_end = len(self._sorted)
        self._high_level = sizes[self._sorted[-1]] + 1
        self._high_next = len(self._sorted) - 1
        self.imbalance = sizes[self._sorted[-1]] - sizes[self._sorted[0]]

    @property
    def balanced(self) -> bool:
        """Whether the levels are as near as moving whole partitions can bring them."""
        return self._high_level - self._low_level <= 1

    def next_least_loaded(self) -> int:
        """The member to take the next partition; counts as if it did."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while (
                self._low_end < len(self._sorted)
                and self._sizes[self._sorted[self._low_end]] == self._low_level
            ):
                self._low_end += 1
            self._low_next = 0
        member = self._sorted[self._low_next]
        self._low_next += 1
        return member

    def _next_most_loaded(self) -> int | None:
        """The member to give the next partition; None if none is left."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # All at this level had nothing to give: go down to the next ones, however far.
                self._high_level = self._sizes[self._sorted[self._high_start - 1]]
            else:
                self._high_level -= 1
            while (
                self._high_start > 0
                and self._sizes[self._sorted[self._high_start - 1]] == self._high_level
            ):
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        member = self._sorted[self._high_next]
        self._high_next -= 1
        return member

    def _exclude(self) -> None:
        """The member just named has nothing to give: out of the upper range with it."""
        at, last = self._high_next + 1, self._high_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._high_end -= 1

    def even_out(self, topic_id: UUID, owners: Owners) -> int:
        """Move the topic's partitions from the most to the least loaded; how many were moved."""
        if self.imbalance <= 1:
            return 0
        owned = owners.by_member(topic_id)
        moved = 0
        while not self.balanced:
            giver = self._next_most_loaded()
            while giver is not None and not owned.get(giver):
                self._exclude()
                giver = self._next_most_loaded()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = self.next_least_loaded()
            if self.balanced:
                break
            owners.give(topic_id, partition, taker)
            moved += 1
        return moved
