"""What a member of a KIP-848 group tells its coordinator that it owns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from aktor.managers.membership.consumer.heartbeats import LocalAssignment, claimed

__all__ = ["Claim"]


class Claim:
    """Owns the claim: the partitions that the coordinator must not give to another member.

    The coordinator may give a partition that is not claimed to another member. So a partition is
    claimed from the moment it is assigned to the application until the application has released it.
    """

    def __init__(self) -> None:
        #: The partitions of the application, after its revoked and assigned callbacks returned.
        self.acknowledged: LocalAssignment = {}
        #: The assignment that the application is being given.
        self.assigning: LocalAssignment = {}
        #: Number of the target that `acknowledged` belongs to (maybe only a part of it).
        self.of_target = 0
        #: A heartbeat that says what is owned is not answered yet.
        self.is_unanswered = False
        #: The ids of the topics that the application has partitions of, by name. `MemberChanged`
        #: carries this mapping to other actors, so it is replaced and never changed in place.
        self.ids: Mapping[str, Any] = {}

    @property
    def topics(self) -> frozenset[Any]:
        """Topics that the application has partitions of, or is being given."""
        return frozenset(self.acknowledged) | self.assigning.keys()

    def numbers(self, topic_id: Any) -> frozenset[int]:
        """The partitions that are claimed of a topic."""
        return claimed(self.acknowledged, self.assigning)[topic_id]

    def assign(self, assignment: LocalAssignment, ids: Mapping[str, Any]) -> None:
        """`assignment` is being given to the application; `ids` are its topics' ids, by name."""
        self.assigning = assignment
        self.ids = {**self.ids, **ids}

    def reported(self) -> None:
        """A heartbeat that reports the owned partitions is sent."""
        self.is_unanswered = True

    def answered(self) -> None:
        """A heartbeat was answered: the coordinator has read the last report."""
        self.is_unanswered = False

    def advance_to(self, target: int) -> None:
        """The member already owns all partitions of this target whose topic names are known: report
        the target as acknowledged."""
        self.of_target = target

    def acknowledge(self, assignment: LocalAssignment, of_target: int) -> None:
        """The application has exactly this assignment, and its assigned callback has returned."""
        self.acknowledged, self.of_target = assignment, of_target
        self.assigning = {}
        self.forget_ids()

    def drop(self, topics: Collection[Any]) -> None:
        """The application has no partition of these topics any more."""
        self.acknowledged = _without(self.acknowledged, topics)
        self.assigning = _without(self.assigning, topics)
        self.forget_ids()

    def forget_ids(self) -> None:
        """Forget the ids of topics of which the application owns no partition any more."""
        held = self.topics
        self.ids = {name: topic for name, topic in self.ids.items() if topic in held}

    def clear(self, of_target: int) -> None:
        """The membership is over: claim nothing, even what the application has not released yet."""
        self.acknowledged, self.assigning = {}, {}
        self.of_target = of_target
        self.is_unanswered = False


def _without(assignment: LocalAssignment, topics: Collection[Any]) -> LocalAssignment:
    return {topic: numbers for topic, numbers in assignment.items() if topic not in topics}
