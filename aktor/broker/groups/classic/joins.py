"""JoinGroup at a classic group: which member sent it, and whether a rebalance follows."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.answers import join_answer
from aktor.broker.groups.classic.generations import Generations
from aktor.broker.groups.classic.member import (
    Member,
    Protocols,
    protocols_of,
    rebalance_timeout_ms_of,
)
from aktor.broker.groups.classic.states import State
from aktor.broker.groups.settings import GroupSettings

__all__ = ["Joins", "check_session_timeout"]


def check_session_timeout(request: Any, settings: GroupSettings) -> None:
    """Raise Refused if the session timeout is outside of the broker's limits."""
    timeout = request.session_timeout_ms
    if not settings.min_session_timeout * 1000 <= timeout <= settings.max_session_timeout * 1000:
        raise Refused(Code.INVALID_SESSION_TIMEOUT)


class Joins:
    """Handles JoinGroup of one group; checks in the order of Kafka's GroupMetadataManager."""

    def __init__(self, group: Generations, *, rng: random.Random) -> None:
        self._group = group
        self._rng = rng

    def handle(self, call: Call) -> None:
        """Handle a JoinGroupRequest: answer it, or let it wait in the group."""
        group, request = self._group, call.request
        try:
            check_session_timeout(request, group.settings)
        except Refused as refused:
            group.answer(call, join_answer(call, refused.code, member_id=request.member_id))
            return
        if group.kept is None and group.state is not State.DEAD:
            group.keep()  # Kafka writes a record of each group it creates.
        if not self._has_room_for(request.member_id):
            group.drop(request.member_id)
            group.answer(call, join_answer(call, Code.GROUP_MAX_SIZE_REACHED))
        elif group.state is State.DEAD:
            answer = join_answer(call, Code.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id)
            group.answer(call, answer)
        elif not self._supports(request.protocol_type, protocols_of(request)):
            code = Code.INCONSISTENT_GROUP_PROTOCOL
            group.answer(call, join_answer(call, code, member_id=request.member_id))
        elif request.member_id == "":
            self._join_anew(call)
        elif request.member_id in group.members.pending:
            self._join_as_told(call)
        else:
            self._join_again(call)

    def _has_room_for(self, member_id: str) -> bool:
        members, most = self._group.members, self._group.settings.max_size
        match self._group.state:
            case State.PREPARING_REBALANCE:
                # Only members that have joined again count: the last one to join is refused.
                waits = member_id in members and members[member_id].join_call is not None
                return waits or members.joining() < most
            case State.COMPLETING_REBALANCE | State.STABLE:
                return member_id in members or len(members) < most
            case _:
                return True

    def _supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self._group.state is State.EMPTY:
            return bool(protocol_type and protocols)
        names = [name for name, _ in protocols]
        return protocol_type == self._group.protocol_type and (
            self._group.members.support_any(names)
        )

    def _join_anew(self, call: Call) -> None:
        """A JoinGroup without a member id: from a new member, or from a restarted static one."""
        group, instance = self._group, call.request.group_instance_id
        name = call.client_id if instance is None else instance
        member_id = f"{name}-{UUID(int=self._rng.getrandbits(128), version=4)}"
        old_id = None if instance is None else group.members.static_id(instance)
        if old_id is not None:
            self._replace(call, old_id, member_id)
        elif instance is None and call.version >= 4:
            # The member must join again with this id. If the group added it at once, and the
            # answer were lost, its retry would leave a member behind that never polls (KIP-394).
            group.admit(member_id, call.request.session_timeout_ms / 1000, call.now)
            group.answer(call, join_answer(call, Code.MEMBER_ID_REQUIRED, member_id=member_id))
        else:
            self._add(call, member_id)

    def _join_as_told(self, call: Call) -> None:
        """A JoinGroup with an id that the group gave out with MEMBER_ID_REQUIRED (KIP-394)."""
        if call.request.group_instance_id is None:
            self._add(call, call.request.member_id)
        else:
            # Static members never get an id by MEMBER_ID_REQUIRED; Kafka fails with an exception.
            self._group.answer(call, join_answer(call, Code.UNKNOWN_SERVER_ERROR))

    def _join_again(self, call: Call) -> None:
        """A JoinGroup with the id of a member."""
        group, request = self._group, call.request
        member_id = request.member_id
        try:
            group.members.check(member_id, request.group_instance_id)
        except Refused as refused:
            group.answer(call, join_answer(call, refused.code, member_id=member_id))
            return
        member = group.members[member_id]
        leads = member_id == group.members.leader_id
        if (
            group.state is State.PREPARING_REBALANCE
            # The leader may join again because the partitions have changed: its metadata has not.
            or (group.state is State.STABLE and leads)
            or member.protocols != protocols_of(request)
        ):
            self._update(member, call)
            group.rebalance_or_complete(call.now)
        else:
            # Perhaps the answer to its last JoinGroup was lost: it gets the generation again.
            group.answer(call, group.joined(call, member, with_members=leads))

    def _add(self, call: Call, member_id: str) -> None:
        member = Member(
            member_id=member_id,
            group_instance_id=call.request.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms_of(call),
            session_timeout_ms=call.request.session_timeout_ms,
            protocols=protocols_of(call.request),
            join_call=call,
            is_new=True,
        )
        self._group.add(member, call.request.protocol_type, call.now)
        self._group.rebalance_or_complete(call.now)

    def _update(self, member: Member, call: Call) -> None:
        """Take over what the member's new JoinGroup says, and let it wait.

        If an older JoinGroup still waits, it came over another connection, since a connection is
        served one request after the other. Kafka never answers the older one; we answer every call.
        """
        self._group.answer_join(member, Code.REBALANCE_IN_PROGRESS)
        member.protocols = protocols_of(call.request)
        member.rebalance_timeout_ms = rebalance_timeout_ms_of(call)
        member.session_timeout_ms = call.request.session_timeout_ms
        member.join_call = call

    def _replace(self, call: Call, old_id: str, member_id: str) -> None:
        """A static member was restarted and has no member id: give it a new one (KIP-345)."""
        group = self._group
        led_before = group.members.leader_id or ""
        member = group.members[old_id].renamed(member_id)
        group.replace(old_id, member, call.now)
        self._update(member, call)
        if group.state is State.PREPARING_REBALANCE:
            group.maybe_complete_join(call.now)
        elif group.state is State.STABLE and group.members.choose_protocol() == group.protocol_name:
            group.keep()
            member.join_call = None
            group.answer(call, self._welcome_back(call, member, led_before))
        else:
            # In CompletingRebalance the leader may be computing an assignment for the old id.
            group.rebalance(call.now)

    def _welcome_back(self, call: Call, member: Member, led_before: str) -> Any:
        """The answer to a restarted static member if the assignment need not change.

        If it is the leader, it must not assign anew. v9 has a field for that (KIP-814). Before v9
        the answer names the old member id as the leader, so that the member does not assign.
        """
        if call.version < 9:
            return self._group.joined(call, member, leader=led_before)
        leads = member.member_id == self._group.members.leader_id
        return self._group.joined(call, member, with_members=leads, skip_assignment=leads)
