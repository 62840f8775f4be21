"""Who gets which partitions: kafka-python's assignors, as a member and as the leader use them.
`mended_assignors` has those that had bugs.

The assignors are pure functions over a cluster and the members' subscriptions, except that sticky
ones remember their last assignment: one instance each, owned by one membership manager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import TopicPartition

from aktor.errors import ConfigurationError
from aktor.events.metadata import Cluster
from aktor.managers.membership.classic.mended_assignors import in_order, mended
from aktor.protocol.partitions import by_topic

__all__ = ["AssignorError", "Assignors", "LeaderPlan", "partition_ids"]

#: Subscriptions from this version on carry the owned partitions and their generation (KIP-792).
_WITH_GENERATION = 2

#: From this version on they carry the member's rack (KIP-881).
_WITH_RACK = 3


class AssignorError(Exception):
    """The assignor of this name has raised an exception, which is the `__cause__`."""

    def __init__(self, assignor: str) -> None:
        super().__init__(assignor)
        self.assignor = assignor


class Assignors:
    """The assignors a member offers, by name, in order of preference.

    `strategy` holds classes or instances. `cooperative` is the highest protocol that all of them
    support, as in the Java client (KIP-429). Raises `ConfigurationError` if there is none.

    A member says its `rack`, if it has one: a leader of another kind, as Java's client, may give it
    the partitions that have a replica there. (Ours does not look at racks.)
    """

    def __init__(self, strategy: Sequence[Any], rack: str = "") -> None:
        self._rack = rack or None
        made = [mended(assignor) for assignor in strategy]
        self.by_name: dict[str, Any] = {assignor.name: assignor for assignor in made}
        common = frozenset(RebalanceProtocol)
        for assignor in made:
            common &= frozenset(assignor.supported_protocols())
        if not common:
            raise ConfigurationError(
                f"partition_assignment_strategy {sorted(self.by_name)} mixes eager and cooperative"
                " assignors, which have no rebalance protocol in common; use one kind only"
            )
        self.cooperative: bool = max(common) == RebalanceProtocol.COOPERATIVE

    def subscriptions(
        self, topics: frozenset[str], owned: Iterable[TopicPartition], generation: int
    ) -> list[tuple[str, bytes]]:
        """The offers for JoinGroup: (assignor, encoded subscription), the preferred one first.

        Raises:
            AssignorError: the `metadata` of an assignor raised, or what it made cannot be encoded.
        """
        offers = []
        for name, assignor in self.by_name.items():
            try:
                offers.append((name, self._subscription(assignor, topics, owned, generation)))
            except Exception as error:
                raise AssignorError(name) from error
        return offers

    def _subscription(
        self,
        assignor: Any,
        topics: frozenset[str],
        owned: Iterable[TopicPartition],
        generation: int,
    ) -> bytes:
        made = assignor.metadata(set(topics))
        if isinstance(made, (bytes, bytearray)):
            return bytes(made)
        if isinstance(made, ConsumerProtocolSubscription):
            # A cooperative member reports what it owns now: the assignor remembers only its last
            # assignment. The topics are in order, as in Java: in another order they would look like
            # another subscription, with which a member joins again.
            owns, rack = self.cooperative, made.rack_id or self._rack
            lowest = _WITH_RACK if rack else _WITH_GENERATION if owns else 0
            made = ConsumerProtocolSubscription(
                version=max(made.version or 0, lowest),
                topics=sorted(made.topics),
                user_data=made.user_data,
                owned_partitions=_listed(owned) if owns else made.owned_partitions,
                generation_id=generation if owns else made.generation_id,
                rack_id=rack,
            )
        return bytes(made.encode())

    def read(self, name: str, assignment: bytes, generation: int) -> frozenset[TopicPartition]:
        """The partitions that SyncGroup assigned; tells the assignor."""
        if assignment:
            decoded = ConsumerProtocolAssignment.decode(bytes(assignment))
        else:
            # The coordinator sends an empty assignment to a member that the leader left out.
            decoded = ConsumerProtocolAssignment(0, [], b"")
        self.by_name[name].on_assignment(decoded, generation)
        return frozenset(decoded.partitions())


def _listed(owned: Iterable[TopicPartition]) -> list[Any]:
    return [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in by_topic(owned).items()
    ]


def read_assignments(assignments: Iterable[bytes]) -> frozenset[TopicPartition]:
    """All partitions of these encoded assignments; raises whatever the decoding raises."""
    decoded = (ConsumerProtocolAssignment.decode(bytes(data)) for data in assignments if data)
    return frozenset(partition for assignment in decoded for partition in assignment.partitions())


class LeaderPlan:
    """The members of the group in one generation and their topics, as the leader knows them.

    `members` are those of the JoinGroup response; raises whatever the decoding of a member's
    subscription raises.
    """

    def __init__(self, assignor: Any, members: Iterable[Any]) -> None:
        self.assignor = assignor
        self.members = in_order(
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=ConsumerProtocolSubscription.decode(bytes(member.metadata)),
            )
            for member in members
        )
        self.topics = frozenset(
            topic for member in self.members for topic in member.metadata.topics
        )

    def missing(self, cluster: Cluster) -> frozenset[str]:
        """The group's topics that the snapshot does not know (yet)."""
        return frozenset(
            topic for topic in self.topics if cluster.partitions_for_topic(topic) is None
        )

    def assign(self, cluster: Cluster) -> dict[str, bytes]:
        """Member id -> encoded assignment; raises whatever the assignor raises."""
        made = self.assignor.assign(_AssignorsCluster(cluster, self.topics), self.members)
        return {
            member: bytes(data if isinstance(data, (bytes, bytearray)) else data.encode())
            for member, data in made.items()
        }


class _AssignorsCluster:
    """The group's topics as assignors ask for them: methods of kafka-python's ClusterMetadata."""

    def __init__(self, cluster: Cluster, topics: frozenset[str]) -> None:
        self._partitions = {topic: cluster.partitions_for_topic(topic) for topic in sorted(topics)}

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The group's topics that exist."""
        return {topic for topic, found in self._partitions.items() if found is not None}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Partition ids, None for an unknown topic."""
        found = self._partitions.get(topic)
        return None if found is None else set(found)

    available_partitions_for_topic = partitions_for_topic


def partition_ids(cluster: Cluster, topics: Iterable[str]) -> Mapping[str, frozenset[int] | None]:
    """The partition ids of each topic, on which its assignment depends; None if it is unknown."""
    found = {topic: cluster.partitions_for_topic(topic) for topic in topics}
    return {topic: None if ids is None else frozenset(ids) for topic, ids in found.items()}
