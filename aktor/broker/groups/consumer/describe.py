"""What ConsumerGroupDescribe says of a consumer group's members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from aktor.broker.groups.consumer.assignors import MemberAssignment
from aktor.broker.groups.consumer.member import Member
from aktor.broker.groups.topics_view import TopicsView
from aktor.protocol.consumer_group import ConsumerGroupDescribeResponse

__all__ = ["describe_members"]

#: `MemberType`: which protocol a member speaks (KIP-1099).
_CLASSIC: Final = 0
_CONSUMER: Final = 1

_Member: Any = ConsumerGroupDescribeResponse.DescribedGroup.Member


def describe_members(
    members: Iterable[Member], targets: Mapping[str, MemberAssignment], topics: TopicsView
) -> list[Any]:
    """DescribedGroup's members, in the order in which they joined."""
    return [_describe(member, targets.get(member.member_id, {}), topics) for member in members]


def _describe(member: Member, target: MemberAssignment, topics: TopicsView) -> Any:
    owned: dict[UUID, list[int]] = {}
    for topic_id, partition in member.partitions():
        owned.setdefault(topic_id, []).append(partition)
    return _Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], topics: TopicsView) -> Any:
    """By name too; topics that are gone are left out."""
    kind = _Member.Assignment
    return kind(
        topic_partitions=[
            kind.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(owned))
            for topic_id, owned in partitions.items()
            if (name := topics.name(topic_id)) is not None
        ]
    )
