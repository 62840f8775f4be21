"""The responses of the classic group protocol, as the version of the request wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

from aktor.broker.call import Call
from aktor.broker.codes import Code

__all__ = [
    "heartbeat_answer",
    "join_answer",
    "leave_answer",
    "leave_outcome",
    "leave_unknown_group",
    "leavers",
    "sync_answer",
]


def join_answer(
    call: Call,
    code: Code = Code.NONE,
    *,
    member_id: str = "",
    generation: int = -1,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    leader: str = "",
    skip_assignment: bool = False,
    members: Sequence[Any] = (),
) -> Any:
    """A JoinGroupResponse. An absent protocol name is "" before v7 and null since (KIP-559)."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=(protocol_name or None) if call.version >= 7 else (protocol_name or ""),
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=list(members),
    )


def sync_answer(
    code: Code = Code.NONE,
    *,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    assignment: bytes = b"",
) -> Any:
    """A SyncGroupResponse."""
    return SyncGroupResponse(
        error_code=code,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=assignment,
    )


def heartbeat_answer(code: Code = Code.NONE) -> Any:
    """A HeartbeatResponse."""
    return HeartbeatResponse(error_code=code)


def leavers(call: Call) -> list[tuple[str, str | None]]:
    """The members that leave: (member id, group.instance.id). Before v3 one member, without it."""
    if call.version < 3:
        return [(call.request.member_id, None)]
    return [(member.member_id, member.group_instance_id) for member in call.request.members]


def leave_outcome(member_id: str, group_instance_id: str | None, code: Code) -> Any:
    """The outcome for one of the members that leave."""
    return LeaveGroupResponse.MemberResponse(
        member_id=member_id, group_instance_id=group_instance_id, error_code=code
    )


def leave_answer(call: Call, code: Code = Code.NONE, outcomes: Sequence[Any] = ()) -> Any:
    """A LeaveGroupResponse. Before v3 one member leaves: its error is that of the response."""
    if call.version >= 3:
        return LeaveGroupResponse(error_code=code, members=list(outcomes))
    if code is Code.NONE and outcomes:
        code = outcomes[0].error_code
    return LeaveGroupResponse(error_code=code)


def leave_unknown_group(call: Call) -> Any:
    """The response of a coordinator that does not know the group: it knows none of the members."""
    return leave_answer(
        call,
        outcomes=[
            leave_outcome(member_id, instance, Code.UNKNOWN_MEMBER_ID)
            for member_id, instance in leavers(call)
        ],
    )
