"""A classic consumer group: members join, the leader assigns the partitions, and SyncGroup tells
each member its assignment.

Kafka's GroupMetadataManager and ClassicGroup are the model. A rebalance has two halves: all members
join (PreparingRebalance), then the group waits for the leader's assignment (CompletingRebalance).
JoinGroup and SyncGroup wait for other members: the group keeps their calls and answers them later.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.answers import (
    heartbeat_answer,
    leave_answer,
    leave_outcome,
    leavers,
    sync_answer,
)
from aktor.broker.groups.classic.generations import Generations
from aktor.broker.groups.classic.joins import Joins, check_session_timeout
from aktor.broker.groups.classic.member import Member
from aktor.broker.groups.classic.states import State
from aktor.broker.groups.settings import GroupSettings

__all__ = ["ClassicGroup", "Member", "State", "check_session_timeout"]

_NO_JOURNAL = NoJournal()


class ClassicGroup:
    """One group: the four requests of its members, and what the rest of the broker may know of it.

    The caller has checked that the group id is not "", that the group exists, and that this broker
    coordinates it. The group does not learn of broken connections: the session of a member that
    is gone expires.
    """

    def __init__(
        self,
        group_id: str,
        *,
        rng: random.Random,
        settings: GroupSettings,
        journal: Journal = _NO_JOURNAL,
        now: float,
        kept: Any = None,
    ) -> None:
        self.group_id = group_id
        self._rng = rng
        self._group = Generations(group_id, settings=settings, journal=journal, kept=kept, now=now)
        self._joins = Joins(self._group, rng=rng)

    @classmethod
    def restore(
        cls,
        value: Any,
        *,
        group_id: str,
        rng: random.Random,
        settings: GroupSettings,
        journal: Journal = _NO_JOURNAL,
        now: float,
    ) -> ClassicGroup:
        """The group as `snapshot` or the journal has it; all sessions begin anew."""
        return cls(group_id, rng=rng, settings=settings, journal=journal, now=now, kept=value)

    def snapshot(self) -> Any:
        """The group as a restarted broker would load it, in JSON types; None if the group was never
        written to the journal."""
        return self._group.kept

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id!r} {self.state} generation {self.generation}"
            f" members {len(self.members)}>"
        )

    # What the rest of the broker may know.

    @property
    def state(self) -> State:
        """The group's state, a str as DescribeGroups shows it."""
        return self._group.state

    @property
    def state_since(self) -> float:
        """When the group entered this state, in seconds; the retention time of the offsets of an
        empty group counts from then."""
        return self._group.state_since

    @property
    def generation(self) -> int:
        """The number of its latest generation; 0 before the first."""
        return self._group.generation

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the members, usually "consumer"; None before the first member."""
        return self._group.protocol_type

    @property
    def protocol_name(self) -> str | None:
        """The protocol (for consumers: the assignor) of this generation; None without members."""
        return self._group.protocol_name

    @property
    def members(self) -> dict[str, Member]:
        """The members by id, in the order in which they joined. For reading only."""
        return self._group.members.by_id

    @property
    def pending_members(self) -> frozenset[str]:
        """Member ids that were given out with MEMBER_ID_REQUIRED and have not joined yet."""
        return frozenset(self._group.members.pending)

    @property
    def leader_id(self) -> str | None:
        """The leader, which makes the assignments; None without members."""
        return self._group.members.leader_id

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of this generation's members; None if the group cannot know them: the members
        are not consumers, or their metadata is not a ConsumerProtocolSubscription."""
        return self._group.topics

    def describe(self) -> dict[str, Any]:
        """Fields of a DescribedGroup: state, protocol_type, protocol_data, and members.

        Each member is a dict of DescribedGroupMember's fields. As in Kafka, the protocol and the
        members' metadata are only shown when the group is stable.
        """
        stable = self.state is State.STABLE
        return {
            "state": str(self.state),
            "protocol_type": self.protocol_type or "",
            "protocol_data": (self.protocol_name or "") if stable else "",
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "member_metadata": member.metadata(self.protocol_name) if stable else b"",
                    "member_assignment": member.assignment,
                }
                for member in self.members.values()
            ],
        }

    # The members' requests.

    def join(self, call: Call) -> None:
        """Handle a JoinGroupRequest; the answer may wait for other members."""
        self._joins.handle(call)
        self._group.send_answers()

    def sync(self, call: Call) -> None:
        """Handle a SyncGroupRequest; the answer waits for the leader's."""
        try:
            self._sync(call)
        except Refused as refused:
            self._group.answer(call, sync_answer(refused.code))
        self._group.send_answers()

    def _sync(self, call: Call) -> None:
        request, group = call.request, self._group
        nameless = request.protocol_type is None or request.protocol_name is None
        if call.version >= 5 and nameless:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is State.EMPTY:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        self._check(request)
        if self._differs(request.protocol_type, self.protocol_type) or self._differs(
            request.protocol_name, self.protocol_name
        ):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is State.PREPARING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

        member = self.members[request.member_id]
        group.synced(member.member_id)
        if self.state is State.STABLE:
            group.answer(call, group.assigned(member))
            return
        # An earlier SyncGroup that still waits came over another connection.
        group.answer_sync(member, Code.REBALANCE_IN_PROGRESS)
        member.sync_call = call
        if member.member_id == self.leader_id:
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            group.assign(given, call.now)

    @staticmethod
    def _differs(asked: str | None, ours: str | None) -> bool:
        return asked is not None and ours is not None and asked != ours

    def heartbeat(self, call: Call) -> None:
        """Handle a HeartbeatRequest: it renews the session, and its answer tells a member of a
        rebalance."""
        code = Code.NONE
        try:
            self._check(call.request)
            self._group.renew_session(self.members[call.request.member_id], call.now)
            if self.state is State.PREPARING_REBALANCE:
                code = Code.REBALANCE_IN_PROGRESS
        except Refused as refused:
            code = refused.code
        self._group.answer(call, heartbeat_answer(code))
        self._group.send_answers()

    def _check(self, request: Any) -> None:
        """Raise Refused unless a request comes from a member of this generation."""
        if self.state is State.DEAD:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        self._group.members.check(request.member_id, request.group_instance_id)
        if request.generation_id != self.generation:
            raise Refused(Code.ILLEGAL_GENERATION)

    def leave(self, call: Call) -> None:
        """Handle a LeaveGroupRequest: several may leave at once, each with its own error."""
        if self.state is State.DEAD:
            self._group.answer(call, leave_answer(call, Code.COORDINATOR_NOT_AVAILABLE))
        else:
            codes = [self._leave(*leaver) for leaver in leavers(call)]
            if Code.NONE in codes and self.state is not State.EMPTY:
                self._group.rebalance_or_complete(call.now)
            outcomes = [
                leave_outcome(member_id, instance, code)
                for (member_id, instance), code in zip(leavers(call), codes, strict=True)
            ]
            self._group.answer(call, leave_answer(call, outcomes=outcomes))
        self._group.send_answers()

    def _leave(self, member_id: str, group_instance_id: str | None) -> Code:
        members = self._group.members
        if member_id == "":
            # An administrator may name a static member by its instance id alone (KIP-345).
            owner = members.static_id(group_instance_id) if group_instance_id is not None else None
            if owner is None:
                return Code.UNKNOWN_MEMBER_ID
            member_id = owner
        elif member_id not in members.pending:
            try:
                members.check(member_id, group_instance_id)
            except Refused as refused:
                return refused.code
        self._group.drop(member_id)
        return Code.NONE

    # Offsets.

    def validate_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
    ) -> None:
        """Raise Refused unless a client that names this member and generation may commit offsets.

        A generation below 0 means that the client is not a member: it may commit while the group is
        empty, or in a transaction.
        """
        if self.state is State.DEAD:
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or group_instance_id is not None:
            self._group.members.check(member_id, group_instance_id)
            if generation != self.generation:
                raise Refused(Code.ILLEGAL_GENERATION)
        elif not transactional:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise Refused(Code.REBALANCE_IN_PROGRESS)

    def touch(self, member_id: str, now: float) -> None:
        """An accepted OffsetCommit renews the session, except in CompletingRebalance."""
        if member_id in self.members and self.state in (State.STABLE, State.PREPARING_REBALANCE):
            self._group.renew_session(self.members[member_id], now)

    # Time, and faults that tests inject.

    def wake_at(self) -> float:
        """When something is due, math.inf if nothing is."""
        return self._group.timers.wake_at()

    def kept_until(self, member_id: str) -> float:
        """When the group goes on without this member; -math.inf if there is no such member."""
        member = self.members.get(member_id)
        return -math.inf if member is None else self._group.kept_until(member)

    def tick(self, now: float) -> None:
        """Do what is due by now."""
        self._group.tick(now)
        self._group.send_answers()

    def expire_session(self, member_id: str, now: float) -> bool:
        """A fault: this member's session ends now, even if it waits in JoinGroup or SyncGroup.
        False: there is no such member."""
        known = member_id in self.members or member_id in self.pending_members
        if known:
            self._group.expel(member_id, now)
            self._group.send_answers()
        return known

    def fence(self, member_id: str, now: float) -> bool:
        """A fault: another client takes this member's place. False: there is no such member.

        The group.instance.id of a static member goes to a new member, which never sends another
        request. A dynamic member cannot be replaced: it is removed as if its session had ended.
        """
        member = self.members.get(member_id)
        if member is None or member.group_instance_id is None:
            return self.expire_session(member_id, now)
        new_id = f"{member.group_instance_id}-{UUID(int=self._rng.getrandbits(128), version=4)}"
        self._group.replace(member_id, member.renamed(new_id), now)
        if self.state is State.STABLE:
            self._group.keep()
        elif self.state is State.COMPLETING_REBALANCE:
            self._group.rebalance(now)
        self._group.send_answers()
        return True

    def coordinator_moved(self, now: float) -> None:
        """Another broker coordinates the group now; it knows only what the journal has."""
        self._group.give_up(Code.NOT_COORDINATOR)
        if self.state is not State.DEAD:
            self._group.load(now)
        self._group.send_answers()

    def remove(self, now: float) -> None:
        """Delete the group: it is DEAD from now on. The caller has checked that it may."""
        self._group.remove_group(now)
        self._group.send_answers()

    def call_again(self) -> None:
        """Answer all waiting JoinGroup and SyncGroup requests with REBALANCE_IN_PROGRESS, so that
        their members join again."""
        self._group.give_up(Code.REBALANCE_IN_PROGRESS)
        self._group.send_answers()

    def take_over(
        self, members: Iterable[Member], *, generation: int, rebalance: bool, now: float
    ) -> None:
        """Take over the members of a consumer group (KIP-848) and write them to the journal. This
        group must be new.

        `members` keep the assignments that they had there, unless they shall `rebalance` at once.
        """
        self._group.take_over(members, generation=generation, now=now)
        if rebalance:
            self._group.rebalance(now)
        self._group.send_answers()
