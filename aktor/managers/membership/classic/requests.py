"""What a member asks of its coordinator: the requests of a classic group, and their notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka.errors import InconsistentGroupProtocolError, NoError
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from aktor.protocol.error_codes import error_of
from aktor.settings import Settings
from aktor.values import Value

__all__ = [
    "Identity",
    "GroupRequestSent",
    "assignments_of",
    "describe_group",
    "heartbeat",
    "join_error",
    "join_group",
    "leave_group",
    "sync_error",
    "sync_group",
]

#: The protocol type that consumers share; Connect workers have another one.
PROTOCOL_TYPE: Final = "consumer"

#: The state of a group whose members all have their assignments.
STABLE: Final = "Stable"

#: KIP-800 bounds the reason.
REASON_MAX: Final = 255


class Identity(Value):
    """The id and generation of a member; the generation is -1 before it has joined."""

    member_id: str = ""
    generation: int = -1

    def sends(self, number: int, *, at: float) -> GroupRequestSent:
        """The note on a request."""
        return GroupRequestSent(
            number=number,
            at=at,
            member_id=self.member_id,
            generation=self.generation,
        )


class GroupRequestSent(Value):
    """Note on a request: the member's id and generation when it was sent. Its answer is judged by
    these."""

    number: int
    at: float
    member_id: str
    generation: int

    def is_by(self, me: Identity) -> bool:
        """Whether the member still has the id and generation with which it was sent."""
        return (self.member_id, self.generation) == (me.member_id, me.generation)


def join_group(
    settings: Settings, me: Identity, *, offers: Iterable[tuple[str, bytes]], because: str
) -> Any:
    """JoinGroup; `offers` are the assignors and what each is told, the preferred one first."""
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=round(settings.session_timeout * 1000),
        rebalance_timeout_ms=round(settings.max_poll_interval * 1000),
        member_id=me.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in offers
        ],
        reason=because[:REASON_MAX],
        min_version=None if settings.group_instance_id is None else 5,
    )


def join_error(response: Any) -> type[Exception]:
    """Why JoinGroup was refused; `NoError` if it was not."""
    error = error_of(response.error_code)
    if error is NoError and response.protocol_type not in (None, PROTOCOL_TYPE):
        error = InconsistentGroupProtocolError
    return error


def sync_group(
    settings: Settings, me: Identity, *, assignor: str | None, assignments: Mapping[str, bytes]
) -> Any:
    """SyncGroup; `assignments` are the leader's, by member id, and empty from everybody else."""
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=me.generation,
        member_id=me.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assigned)
            for member, assigned in assignments.items()
        ],
        min_version=None if settings.group_instance_id is None else 3,
    )


def sync_error(response: Any, assignor: str | None) -> type[Exception]:
    """Why SyncGroup was refused; `NoError` if it was not."""
    error = join_error(response)
    if error is NoError and response.protocol_name not in (None, assignor):
        error = InconsistentGroupProtocolError
    return error


def heartbeat(settings: Settings, me: Identity) -> Any:
    """Heartbeat."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=me.generation,
        member_id=me.member_id,
        group_instance_id=settings.group_instance_id,
        min_version=None if settings.group_instance_id is None else 3,
    )


def leave_group(settings: Settings, member_id: str, because: str) -> Any:
    """LeaveGroup of one member; a static one is known by its instance id (v3, KIP-345)."""
    return LeaveGroupRequest(
        group_id=settings.group_id,
        member_id=member_id,
        members=[
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id,
                group_instance_id=settings.group_instance_id,
                reason=because[:REASON_MAX],
            )
        ],
        min_version=None if settings.group_instance_id is None else 3,
    )


def describe_group(settings: Settings) -> Any:
    """DescribeGroups, of our group."""
    return DescribeGroupsRequest(groups=[settings.group_id], include_authorized_operations=False)


def assignments_of(described: Any) -> list[bytes] | None:
    """The assignments of the group's members; None while the group rebalances."""
    if described.group_state != STABLE:
        return None
    return [member.member_assignment for member in described.members]
