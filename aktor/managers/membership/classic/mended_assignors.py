"""kafka-python's assignors, with their bugs mended.

The outcome is that of the Java classes of the same names, so that it does not depend on which
client leads a group.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, Final

from kafka.coordinator.assignors import cooperative_sticky
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyAssignorMemberMetadataV1,
    StickyPartitionAssignor,
)
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import TopicPartition

from aktor.protocol.partitions import by_topic

__all__ = [
    "CooperativeStickyAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "in_order",
    "mended",
]


def in_order(members: Iterable[Any]) -> list[Any]:
    """Members in the order in which assignors serve them: static ones first, by their instance ids,
    then the others by their member ids (Java's `MemberInfo.compareTo`).

    kafka-python's range and round robin assignors take members that come as static, dynamic,
    static for static, dynamic, and give those that came first nothing.
    """

    def key(member: Any) -> tuple[bool, str, str]:
        instance = member.group_instance_id
        return instance is None, instance or "", member.member_id

    return sorted(members, key=key)


class RoundRobinAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc]  # it is untyped
    """Assigns the partitions in turns, to the next member that has subscribed to the topic.

    kafka-python's raises KeyError as soon as two members have different topics.
    """

    @classmethod
    def assign(cls, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """Member id -> assignment, as in Java's `RoundRobinAssignor`."""
        topics = {member.member_id: frozenset(member.metadata.topics) for member in members}
        assigned: dict[str, dict[str, list[int]]] = {one: defaultdict(list) for one in topics}
        turns = cycle(member.member_id for member in in_order(members))
        for topic in sorted(frozenset().union(*topics.values())):
            for partition in sorted(cluster.partitions_for_topic(topic) or ()):
                member = next(one for one in turns if topic in topics[one])
                assigned[member][topic].append(partition)
        return {
            member: ConsumerProtocolAssignment(cls.version, sorted(given.items()), b"")
            for member, given in assigned.items()
        }


class StickyAssignor(StickyPartitionAssignor):  # type: ignore[misc]  # it is untyped
    """Moves as few partitions as it can.

    kafka-python's gives a partition back to the member that had it before its owner, although that
    member has left its topic: nobody reads it then; or it raises KeyError. So a member claims only
    what is of its topics.

    Each member says in its subscription which partitions it had, and in which generation. Java's
    `StickyAssignor` and kafka-python before 3.0 write that without a version in front of it,
    kafka-python 3.0 with one: no side can read the other's, and all partitions may move. This one
    writes it as Java does, and reads both.
    """

    def metadata(self, topics: Iterable[str]) -> Any:
        """The subscription, with what this member had."""
        had = b""
        if self.member_assignment is not None:
            by_topics = list(by_topic(self.member_assignment).items())
            had = StickyAssignorUserData(by_topics, self.generation).encode(header=False)
        return ConsumerProtocolSubscription(self.version, sorted(topics), had)

    @classmethod
    def parse_member_metadata(cls, metadata: Any) -> Any:
        """What a member had, and its topics; nothing if it cannot be read."""
        had, generation = _had(bytes(metadata.user_data or b""))
        had = [partition for partition in had if partition.topic in metadata.topics]
        return StickyAssignorMemberMetadataV1(
            partitions=had, generation=generation, subscription=metadata.topics
        )


#: Java's schemas, and then that of kafka-python 3.0. Version 0 has no generation.
_FORMS: Final = ((1, False), (1, True), (0, False))


def _had(user_data: bytes) -> tuple[list[TopicPartition], int]:
    """What a member says that it had, and in which generation."""
    for version, header in _FORMS:
        stream = io.BytesIO(user_data)
        try:
            read = StickyAssignorUserData.decode(stream, version=version, header=header)
        except Exception:
            continue  # another form, or nothing that we know
        if user_data and stream.tell() == len(user_data):
            had = [
                TopicPartition(topic, partition)
                for topic, partitions in read.previous_assignment
                for partition in partitions
            ]
            return had, read.generation
    return [], StickyPartitionAssignor.DEFAULT_GENERATION_ID


class CooperativeStickyAssignor(
    cooperative_sticky.CooperativeStickyAssignor  # type: ignore[misc]  # it is untyped
):
    """Moves as few partitions as it can, each only after its owner has given it up (KIP-429).

    A member that has missed a rebalance still claims what it had then. kafka-python's takes a
    partition for one that moves if such a claim comes last, and its owner gives it up in vain.
    """

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """Member id -> assignment. Of several claims of a partition that of the latest generation
        counts; none, if two members have it from one generation (as in Java)."""
        claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
        for member in members:
            for partition in _claimed(member):
                claims[partition].append((member.metadata.generation_id, member.member_id))
        owners = {partition: _owner(sorted(found)) for partition, found in claims.items()}
        return super().assign(cluster, [_with_claims(one, owners) for one in members])  # type: ignore[no-any-return]


def _claimed(member: Any) -> list[TopicPartition]:
    return [
        TopicPartition(claim.topic, partition)
        for claim in member.metadata.owned_partitions or ()
        for partition in claim.partitions
    ]


def _owner(claims: list[tuple[int, str]]) -> str | None:
    same = len(claims) > 1 and claims[-1][0] == claims[-2][0]
    return None if same else claims[-1][1]


def _with_claims(member: Any, owners: Mapping[TopicPartition, str | None]) -> Any:
    """The member, with claims of what it owns only."""
    given = member.metadata
    owned = by_topic(one for one in _claimed(member) if owners[one] == member.member_id)
    metadata = ConsumerProtocolSubscription(
        version=given.version,
        topics=given.topics,
        user_data=given.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in owned.items()
        ],
        generation_id=given.generation_id,
        rack_id=given.rack_id,
    )
    return type(member)(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        metadata=metadata,
    )


#: In the place of kafka-python's classes.
_MENDED: Final[Mapping[type, type]] = {
    RoundRobinPartitionAssignor: RoundRobinAssignor,
    StickyPartitionAssignor: StickyAssignor,
    cooperative_sticky.CooperativeStickyAssignor: CooperativeStickyAssignor,
}


def mended(assignor: Any) -> Any:
    """An instance of this assignor, a class or an instance; of those of kafka-python that have bugs
    an instance of ours. What an application has derived from them stays its own."""
    kind = assignor if isinstance(assignor, type) else type(assignor)
    if kind in _MENDED:
        return _MENDED[kind]()
    return assignor() if isinstance(assignor, type) else assignor
