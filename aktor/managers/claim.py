"""What a member of a KIP-848 group tells its coordinator that it owns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from aktor.managers.consumer_heartbeats import Assignment, claimed

__all__ = ["Claim"]


class Claim:
    """Owns what is claimed: what the coordinator must not give to another member.

    The coordinator gives away what is not claimed. So a partition is claimed from the moment in
    which it is assigned to the application, until the application has released it.
    """

    def __init__(self) -> None:
        #: What the application has, with both callbacks returned.
        self.acknowledged: Assignment = {}
        #: What the application is being given.
        self.assigning: Assignment = {}
        #: The target that `acknowledged` is of, as far as it could be reached.
        self.of_target = 0
        #: A heartbeat that says what is owned is not answered yet.
        self.is_unanswered = False
        #: The ids of the topics that the application has partitions of, by name. Others are told
        #: of it: it is replaced, never changed.
        self.ids: Mapping[str, Any] = {}

    @property
    def topics(self) -> frozenset[Any]:
        """Topics that the application has partitions of, or is being given."""
        return frozenset(self.acknowledged) | self.assigning.keys()

    def numbers(self, topic_id: Any) -> frozenset[int]:
        """The partitions that are claimed of a topic."""
        return claimed(self.acknowledged, self.assigning)[topic_id]

    def assign(self, assignment: Assignment, ids: Mapping[str, Any]) -> None:
        """This is assigned to the application; `ids` are those of its topics, by name."""
        self.assigning = assignment
        self.ids = {**self.ids, **ids}

    def reported(self) -> None:
        """A heartbeat is sent that says what is owned."""
        self.is_unanswered = True

    def answered(self) -> None:
        """The coordinator has heard all that was said."""
        self.is_unanswered = False

    def advance_to(self, target: int) -> None:
        """As far as this target can be reached, it is what is owned already."""
        self.of_target = target

    def acknowledge(self, assignment: Assignment, of_target: int) -> None:
        """The application has this, and nothing else."""
        self.acknowledged, self.of_target = assignment, of_target
        self.assigning = {}
        self.forget_ids()

    def drop(self, topics: Collection[Any]) -> None:
        """The application has nothing of these topics any more."""
        self.acknowledged = _without(self.acknowledged, topics)
        self.assigning = _without(self.assigning, topics)
        self.forget_ids()

    def forget_ids(self) -> None:
        """Forget the ids of topics of which the application owns no partition any more."""
        held = self.topics
        self.ids = {name: topic for name, topic in self.ids.items() if topic in held}

    def clear(self, of_target: int) -> None:
        """The membership is over: nothing is claimed, released by the application or not."""
        self.acknowledged, self.assigning = {}, {}
        self.of_target = of_target
        self.is_unanswered = False


def _without(assignment: Assignment, topics: Collection[Any]) -> Assignment:
    return {one: numbers for one, numbers in assignment.items() if one not in topics}
