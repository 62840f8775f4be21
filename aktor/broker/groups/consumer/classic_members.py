"""Members of a consumer group that speak the classic protocol (KIP-848).

They send JoinGroup, SyncGroup and Heartbeat as in a classic group, but the broker assigns: no
member leads, and no JoinGroup waits for other members. A member that must revoke partitions, or
can get more, learns from its heartbeat that it must rejoin. Its subscription says which partitions
it owns, and SyncGroup tells it which it may own.
After Kafka's GroupMetadataManager, classicGroup...ToConsumerGroup.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.answers import (
    heartbeat_answer,
    join_answer,
    leave_answer,
    leave_outcome,
    leavers,
    sync_answer,
)
from aktor.broker.groups.classic.member import Protocols, protocols_of, rebalance_timeout_ms_of
from aktor.broker.groups.consumer.embedded_protocol import (
    Subscription,
    read_subscription,
    version_of,
    write_assignment,
)
from aktor.broker.groups.consumer.member import Classic, Member, MemberState, Reported
from aktor.broker.groups.consumer.rebalances import Rebalances
from aktor.broker.groups.consumer.requests import new_member_id

__all__ = ["ClassicMembers"]

_PROTOCOL_TYPE: Final = "consumer"
#: The first JoinGroup that asks for a member id before it joins (KIP-394).
_ASKS_FOR_ID: Final = 4


class ClassicMembers:
    """Answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup at a consumer group with members.

    That the session timeout is within its bounds is seen to before.
    """

    def __init__(self, group: Rebalances, *, rng: Random) -> None:
        self._group = group
        self._rng = rng

    # JoinGroup.

    def join(self, call: Call) -> None:
        """Handle a JoinGroupRequest; it is answered at once."""
        try:
            answer = self._join(call)
        except Refused as refused:
            call.reply(join_answer(call, refused.code))
            return
        self._group.answer(call, answer)

    def _join(self, call: Call) -> Any:
        request, group = call.request, self._group
        member_id = request.member_id or new_member_id(self._rng)
        group.refuse_if_full(member_id)
        protocols = protocols_of(request)
        self._refuse_inconsistent(member_id, request.protocol_type, protocols)
        instance_id = request.group_instance_id
        if not request.member_id and instance_id is None and call.version >= _ASKS_FOR_ID:
            return join_answer(call, Code.MEMBER_ID_REQUIRED, member_id=member_id)
        before, replaced = self._find(member_id, instance_id, is_known=bool(request.member_id))
        subscription = _subscription(protocols)
        # Asked before it takes the place of the other one.
        downgrade = self._replaces_the_last_consumer(instance_id)
        epoch = group.group_epoch
        member = _told(before, call, subscription, protocols)

        changed = group.admit(before, member, replaced=replaced, now=call.now)
        if not downgrade:
            group.assign(call.now)
        stale = group.assignment_epoch < group.group_epoch
        if not (downgrade and stale):
            owned = self._reported(subscription)
            member = group.reconcile(member, owned, now=call.now, subscription_changed=changed)
        if downgrade:
            # As in Kafka, the generation is the old epoch: no member has got a newer one.
            group.become_classic(generation=epoch, rebalance=stale)
        else:
            group.renew_session(member, call.now)
            group.await_sync(member, call.now)
        return join_answer(
            call,
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=protocols[0][0],
        )

    def _refuse_inconsistent(
        self, member_id: str, protocol_type: str, protocols: Protocols
    ) -> None:
        """It must be a consumer, with a protocol that all classic members have."""
        classic = [m.classic for m in self._group.members.values() if m.classic is not None]
        common = [
            name for name, _ in protocols if all(name in dict(each.protocols) for each in classic)
        ]
        if protocol_type != _PROTOCOL_TYPE or not common:
            raise Refused(
                Code.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _find(
        self, member_id: str, instance_id: str | None, *, is_known: bool
    ) -> tuple[Member, str | None]:
        """The member as it was, maybe new; and the id of the static member whose place it takes.

        A dynamic member may come with any id: Kafka does not remember which ones it gave out.
        """
        members = self._group.members
        if instance_id is not None and is_known:
            return members.known_static(instance_id, member_id), None
        static = None if instance_id is None else members.static(instance_id)
        if static is None:
            return members.get(member_id) or Member(member_id=member_id), None
        return static.named(member_id), static.member_id

    def _replaces_the_last_consumer(self, instance_id: str | None) -> bool:
        members = self._group.members
        static = None if instance_id is None else members.static(instance_id)
        return (
            static is not None
            and static.classic is None
            and self._group.may_downgrade
            and all(member is static or member.classic is not None for member in members.values())
        )

    def _reported(self, subscription: Subscription) -> Reported:
        """What it says it owns; one that cannot say it owns nothing when it joins."""
        topics = self._group.topics
        return frozenset(
            (topic_id, partition)
            for name, owned in subscription.owned.items()
            if (topic_id := topics.topic_id(name)) is not None
            for partition in owned
        )

    # SyncGroup and Heartbeat.

    def sync(self, call: Call) -> None:
        """Handle a SyncGroupRequest; it is answered at once."""
        try:
            answer = self._sync(call)
        except Refused as refused:
            answer = sync_answer(refused.code)
        call.reply(answer)

    def _sync(self, call: Call) -> Any:
        request, group = call.request, self._group
        member, classic = self._member(request)
        self._refuse_other_protocol(request, classic)
        if (
            member.epoch < group.assignment_epoch
            # It has rejoined already, and is told what it may keep.
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            group.await_join(member, call.now)
            raise Refused(Code.REBALANCE_IN_PROGRESS)
        group.synced(member.member_id)
        group.renew_session(member, call.now)
        owned = {topic_id: tuple(sorted(epochs)) for topic_id, epochs in member.assigned.items()}
        return sync_answer(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(owned, group.topics, version=version_of(classic.metadata)),
        )

    @staticmethod
    def _refuse_other_protocol(request: Any, classic: Classic) -> None:
        if request.protocol_type not in (None, _PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            classic.protocol_name,
        ):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL)

    def heartbeat(self, call: Call) -> None:
        """Handle a HeartbeatRequest: a sign of life, and the way members learn of a rebalance."""
        code = Code.NONE
        try:
            member, _ = self._member(call.request)
            self._group.renew_session(member, call.now)
            if self._shall_rejoin(member):
                self._group.await_join(member, call.now)
                code = Code.REBALANCE_IN_PROGRESS
        except Refused as refused:
            code = refused.code
        call.reply(heartbeat_answer(code))

    def _member(self, request: Any) -> tuple[Member, Classic]:
        """The classic member that asks in its generation.

        Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
        """
        member = self._named(request.member_id, request.group_instance_id)
        if member.classic is None:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID,
                f"Member {member.member_id} does not use the classic protocol.",
            )
        if request.generation_id != member.epoch:
            raise Refused(Code.ILLEGAL_GENERATION)
        return member, member.classic

    def _named(self, member_id: str, instance_id: str | None) -> Member:
        members = self._group.members
        if instance_id is None:
            return members.known(member_id)
        return members.known_static(instance_id, member_id)

    def _shall_rejoin(self, member: Member) -> bool:
        """Whether there is a new target, or it is to give up, or can get what it waits for."""
        group = self._group
        if member.epoch < group.assignment_epoch:
            return True
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return all(
                partition in member.assigned.get(topic_id, ())
                or group.members.is_free(topic_id, partition)
                for topic_id, partitions in group.targets.get(member.member_id, {}).items()
                for partition in partitions
            )
        return member.state is MemberState.UNREVOKED_PARTITIONS

    # LeaveGroup.

    def leave(self, call: Call) -> None:
        """Handle a LeaveGroupRequest: members of both protocols go, all of them at once."""
        gone: dict[str, None] = {}
        outcomes = []
        for member_id, instance_id in leavers(call):
            code = Code.NONE
            try:
                gone[self._leaver(member_id, instance_id).member_id] = None
            except Refused as refused:
                code = refused.code
            outcomes.append(leave_outcome(member_id, instance_id, code))
        if gone:
            self._group.remove(*gone)
        self._group.answer(call, leave_answer(call, outcomes=outcomes))

    def _leaver(self, member_id: str, instance_id: str | None) -> Member:
        """Administrators may name a static member by its instance id alone (KIP-345)."""
        if member_id == "" and instance_id is not None:
            static = self._group.members.static(instance_id)
            if static is not None:
                return static
        return self._named(member_id, instance_id)


def _subscription(protocols: Protocols) -> Subscription:
    """What a member wants: it says the same under all names, Kafka takes any of them."""
    try:
        return read_subscription(protocols[0][1])
    except ValueError:
        # Kafka trips over it.
        raise Refused(Code.UNKNOWN_SERVER_ERROR) from None


def _told(before: Member, call: Call, subscription: Subscription, protocols: Protocols) -> Member:
    """The member with what its JoinGroup says of it."""
    request = call.request
    instance_id, rack_id = request.group_instance_id, subscription.rack_id
    return replace(
        before,
        instance_id=before.instance_id if instance_id is None else instance_id,
        rack_id=before.rack_id if rack_id is None else rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms_of(call),
        client_id=call.client_id,
        client_host=call.client_host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=Classic(session_timeout_ms=request.session_timeout_ms, protocols=protocols),
    )
