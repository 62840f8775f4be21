"""A group becomes one of the other kind: its members, as that kind knows them (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.classic.member import Member as ClassicMember
from aktor.broker.groups.classic.members import Members as ClassicMembers
from aktor.broker.groups.consumer.assignors import MemberAssignment
from aktor.broker.groups.consumer.embedded_protocol import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from aktor.broker.groups.consumer.member import Classic, Member
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["check_upgradable", "to_classic_members", "to_consumer_members"]


# Upgrade.


def check_upgradable(group: ClassicGroup, settings: GroupSettings) -> None:
    """Raises GROUP_ID_NOT_FOUND for a group of another type, or with too many members."""
    if group.protocol_type != "consumer":
        raise _not_upgradable(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.consumer_max_size:
        raise _not_upgradable(group, "the group size exceeds the consumer group maximum size.")


def to_consumer_members(group: ClassicGroup, topics: TopicsView) -> list[Member]:
    """The members of a classic group, each with what the leader last gave it, in the group's order.

    Raises GROUP_ID_NOT_FOUND if what they say is not to be understood, or would be lost.
    """
    if group.protocol_name is None:
        # Kafka trips over a group whose first members are still joining.
        raise Refused(Code.UNKNOWN_SERVER_ERROR)
    try:
        return [_upgraded(member, group, topics) for member in group.members.values()]
    except ValueError:
        raise _not_upgradable(group, "the embedded consumer protocol is malformed.") from None


def _not_upgradable(group: ClassicGroup, why: str) -> Refused:
    return Refused(
        Code.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )


def _upgraded(member: ClassicMember, group: ClassicGroup, topics: TopicsView) -> Member:
    """The member as if it had come to its assignment in an epoch with the generation's number."""
    subscription = read_subscription(member.metadata(group.protocol_name))
    return Member(
        member_id=member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=_owned(member, group, topics),
        classic=Classic(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
    )


def _owned(
    member: ClassicMember, group: ClassicGroup, topics: TopicsView
) -> dict[UUID, dict[int, int]]:
    """What it was given that is there, each partition with the generation."""
    if not member.assignment:
        return {}
    given = read_assignment(member.assignment)
    if given.user_data:
        raise _not_upgradable(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade.",
        )
    owned = {}
    for name, partitions in given.partitions.items():
        topic_id, count = topics.topic_id(name), topics.partitions(name)
        there = [partition for partition in sorted(partitions) if 0 <= partition < count]
        if topic_id is not None and there:
            owned[topic_id] = dict.fromkeys(there, group.generation)
    return owned


# Downgrade.


def to_classic_members(
    members: Iterable[Member], targets: Mapping[str, MemberAssignment], topics: TopicsView
) -> list[ClassicMember]:
    """Members that speak the classic protocol, each with its part of the target assignment."""
    group = ClassicMembers()
    for member in members:
        group.add(_downgraded(member))
    protocol = group.choose_protocol()
    for made in group:
        made.assignment = write_assignment(
            targets.get(made.member_id, {}), topics, version=version_of(made.metadata(protocol))
        )
    return list(group)


def _downgraded(member: Member) -> ClassicMember:
    assert member.classic is not None, f"{member.member_id} speaks the consumer protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )
