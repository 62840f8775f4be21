"""What a ConsumerGroupHeartbeat may ask, and how it is answered."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.member import Member
from aktor.protocol.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatResponse,
)

__all__ = [
    "check_heartbeat",
    "heartbeat_answer",
    "is_full_request",
    "new_member_id",
    "refusal",
    "reported_partitions",
    "says_nothing_new",
]

_Assignment: Any = ConsumerGroupHeartbeatResponse.Assignment

#: The first version whose members make their own ids (KIP-1082).
_CLIENT_MAKES_ID: Final = 1

#: What Java's `String.trim` takes off.
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))


def check_heartbeat(request: Any, *, version: int, assignors: Sequence[str]) -> None:
    """Refuse what no group could answer; before a group is looked up or made.

    Raises Refused(INVALID_REQUEST or UNSUPPORTED_ASSIGNOR) with Kafka's words.
    """
    epoch = request.member_epoch
    if version >= _CLIENT_MAKES_ID or epoch > 0 or epoch == LEAVE_GROUP_MEMBER_EPOCH:
        _refuse_blank(request.member_id, "MemberId can't be empty.")
    _refuse_blank(request.group_id, "GroupId can't be empty.")
    _refuse_blank(request.instance_id, "InstanceId can't be empty.")
    _refuse_blank(request.rack_id, "RackId can't be empty.")
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        if request.instance_id is None:
            raise Refused(Code.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise Refused(Code.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refused(
            Code.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _refuse_blank(value: str | None, message: str) -> None:
    if value is not None and not value.strip(_BLANK):
        raise Refused(Code.INVALID_REQUEST, message)


def _check_join(request: Any) -> None:
    if request.rebalance_timeout_ms == -1:
        raise Refused(Code.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise Refused(Code.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise Refused(
            Code.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        )


def new_member_id(rng: Random) -> str:
    """22 characters, as Kafka's Uuid prints itself."""
    made = UUID(int=rng.getrandbits(128), version=4)
    return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")


def says_nothing_new(request: Any) -> bool:
    """Whether it is a sign of life and no more."""
    return (
        request.instance_id is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
    )


def is_full_request(request: Any) -> bool:
    """Whether the member said all of itself, as it does when an answer was lost: it gets all."""
    return request.member_epoch == JOIN_GROUP_MEMBER_EPOCH or (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and not (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
    )


def reported_partitions(request: Any) -> frozenset[tuple[UUID, int]] | None:
    """What the member says it owns; None if it does not say."""
    if request.topic_partitions is None:
        return None
    return frozenset(
        (topic.topic_id, partition)
        for topic in request.topic_partitions
        for partition in topic.partitions
    )


def heartbeat_answer(member: Member, *, interval: float, with_assignment: bool) -> Any:
    """The answer to a heartbeat; `interval` in seconds."""
    assignment = None
    if with_assignment:
        assignment = _Assignment(
            topic_partitions=[
                _Assignment.TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
                for topic_id, epochs in member.assigned.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=round(interval * 1000),
        assignment=assignment,
    )


def refusal(refused: Refused) -> Any:
    """The answer to a heartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(
        error_code=int(refused.code), error_message=refused.message
    )
