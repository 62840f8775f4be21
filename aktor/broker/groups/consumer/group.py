"""One consumer group as its coordinator keeps it: members and target assignment (KIP-848).

Members say what they want and what they have with each heartbeat. A change raises the group
epoch; a target assignment is made for it; each member comes to its part of it step by step, and
no partition is given to one before the other has said that it gave it up.
After Kafka's GroupMetadataManager and ConsumerGroup, 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.assignors import MemberAssignment
from aktor.broker.groups.consumer.classic_members import ClassicMembers
from aktor.broker.groups.consumer.describe import describe_members
from aktor.broker.groups.consumer.epochs import (
    FIRST_COMMIT_VERSION,
    PartitionCheck,
    check_commit_epoch,
    check_fetch_epoch,
    check_heartbeat_epoch,
)
from aktor.broker.groups.consumer.member import Member
from aktor.broker.groups.consumer.members import Members
from aktor.broker.groups.consumer.rebalances import Rebalances
from aktor.broker.groups.consumer.requests import (
    check_heartbeat,
    heartbeat_answer,
    is_full_request,
    new_member_id,
    refusal,
    reported_partitions,
    says_nothing_new,
)
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView
from aktor.protocol.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["ConsumerGroup"]


class ConsumerGroup:
    """One group: the heartbeats of its members, and what others may know of it.

    downgrade: called when only classic members are left, with the group, the generation that it
        shall have, whether all shall rejoin, and the time; it makes a classic group of it, and this
        one is asked no more.
    """

    type: Final = "consumer"
    protocol_type: Final = "consumer"

    def __init__(
        self,
        group_id: str,
        *,
        rng: Random,
        settings: GroupSettings,
        topics: TopicsView,
        now: float,
        journal: Journal | None = None,
        downgrade: Callable[[ConsumerGroup, int, bool, float], None] | None = None,
    ) -> None:
        self.group_id = group_id
        self.created_at = now
        self._rng = rng
        self._settings = settings
        self._topics = topics
        self._group = group = Rebalances(
            group_id,
            settings=settings,
            topics=topics,
            journal=journal or NoJournal(),
            downgrade=None if downgrade is None else partial(downgrade, self),
        )
        #: Whose requests are JoinGroup, SyncGroup, Heartbeat; and LeaveGroup for whomever.
        self.classic = ClassicMembers(group, rng=rng)
        self._to_fence: set[str] = set()

    # What others ask.

    @property
    def members(self) -> Members:
        """The members, of both protocols. For reading."""
        return self._group.members

    @property
    def group_epoch(self) -> int:
        """Raised by each change."""
        return self._group.group_epoch

    @property
    def assignment_epoch(self) -> int:
        """The group epoch for which the target assignment was made."""
        return self._group.assignment_epoch

    @property
    def targets(self) -> Mapping[str, MemberAssignment]:
        """What each member shall own. For reading."""
        return self._group.targets

    @property
    def state(self) -> str:
        """One of "Empty", "Assigning", "Reconciling" and "Stable"."""
        return self._group.state

    @property
    def assignor(self) -> str:
        """The assignor most members vote for; the first that is configured without votes."""
        return self._group.assignor

    def subscribed_topics(self) -> frozenset[str]:
        """All topics that a member subscribes to, by name or by pattern, existing or not."""
        return self._group.topic_names()

    def describe(self) -> dict[str, Any]:
        """The fields of ConsumerGroupDescribe's DescribedGroup; members as message objects."""
        return {
            "group_id": self.group_id,
            "group_state": self.state,
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor_name": self.assignor,
            "members": describe_members(self.members.values(), self.targets, self._topics),
        }

    def validate_commit(
        self,
        member_id: str,
        member_epoch: int,
        group_instance_id: str | None = None,
        *,
        transactional: bool = False,
        version: int = FIRST_COMMIT_VERSION,
    ) -> PartitionCheck | None:
        """Whether a commit may be: None if all of it, or the check to make for each partition.

        `version` is that of OffsetCommit. Raises Refused (UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION,
        STALE_MEMBER_EPOCH; of classic members ILLEGAL_GENERATION), and so does the check, called
        with topic and partition: an older epoch is good enough for a partition that the member has
        had since then (KIP-1251).
        """
        if member_epoch < 0 and not self.members:
            return None
        if transactional and member_epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.members.known(member_id)
        if not transactional and member.classic is None and version < FIRST_COMMIT_VERSION:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                f"OffsetCommit version {FIRST_COMMIT_VERSION} or above must be used by members "
                "using the consumer group protocol",
            )
        return check_commit_epoch(member, member_epoch, self._topics)

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may fetch offsets (v9).

        Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; of classic members ILLEGAL_GENERATION.
        """
        if member_id is None and member_epoch < 0:
            return
        check_fetch_epoch(self.members.known(member_id or ""), member_epoch)

    # ConsumerGroupHeartbeat.

    def heartbeat(self, call: Call) -> bool:
        """Answer a ConsumerGroupHeartbeat; False if it was refused, which changes nothing."""
        try:
            response = self._idle(call) or self._answer(call)
        except Refused as refused:
            call.reply(refusal(refused))
            return False
        self._group.answer(call, response)
        return True

    def _idle(self, call: Call) -> Any | None:
        """The answer if nothing is new on either side; None if one has to look closer."""
        request = call.request
        member = self.members.get(request.member_id)
        if (
            member is None
            or member.classic is not None
            or request.member_epoch != member.epoch
            or not says_nothing_new(request)
            or not member.is_reconciled_to(self.group_epoch)
            or self._group.topics_changed
            or call.client_id != member.client_id
            or call.client_host != member.client_host
        ):
            return None
        self._group.look_at_regexes(call.now)
        return self._heard_of(member, call.now, with_assignment=False)

    def _answer(self, call: Call) -> Any:
        request = call.request
        check_heartbeat(request, version=call.version, assignors=self._settings.consumer_assignors)
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(request)
        return self._join_or_stay(call)

    def _join_or_stay(self, call: Call) -> Any:
        request, group = call.request, self._group
        group.refuse_if_full(request.member_id)
        member_id = request.member_id or new_member_id(self._rng)
        before, replaced = self._find(member_id, request)
        member = before.told(request, client_id=call.client_id, client_host=call.client_host)
        changed = group.admit(before, member, replaced=replaced, now=call.now)
        group.assign(call.now)
        member = group.reconcile(
            member, reported_partitions(request), now=call.now, subscription_changed=changed
        )
        with_assignment = is_full_request(request) or member.assigned != before.assigned
        return self._heard_of(member, call.now, with_assignment=with_assignment)

    def _heard_of(self, member: Member, now: float, *, with_assignment: bool) -> Any:
        """Its session starts anew; the answer."""
        self._group.renew_session(member, now)
        return heartbeat_answer(
            member,
            interval=self._settings.consumer_heartbeat_interval,
            with_assignment=with_assignment,
        )

    def _find(self, member_id: str, request: Any) -> tuple[Member, str | None]:
        """The member as it was, maybe new; and the id of the static member whose place it takes."""
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        self._refuse_fenced(member_id, joins=joins)
        if not joins:
            member = (
                self.members.known(member_id)
                if request.instance_id is None
                else self.members.known_static(request.instance_id, member_id)
            )
            check_heartbeat_epoch(member, request)
            return member, None

        static = None if request.instance_id is None else self.members.static(request.instance_id)
        if static is None:
            return self.members.get(member_id) or Member(member_id=member_id), None
        if static.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH and static.classic is None:
            raise Refused(
                Code.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the "
                f"group because the instance id is owned by {static.member_id} member.",
            )
        return static.named(member_id), static.member_id

    def _leave(self, request: Any) -> Any:
        if request.instance_id is None:
            member = self.members.known(request.member_id)
        else:
            member = self.members.known_static(request.instance_id, request.member_id)
        if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            self.members.put(member.away())
        else:
            self._group.remove(member.member_id)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def kept_until(self, member_id: str) -> float:
        """When the group goes on without this member; -math.inf if there is no such member."""
        known = member_id in self.members
        return self._group.kept_until(member_id) if known else -math.inf

    # Faults by command.

    def expire_session(self, member_id: str, now: float) -> None:
        """As if nothing was heard of a member for too long. Raises UNKNOWN_MEMBER_ID."""
        self._group.remove(self.members.known(member_id).member_id)
        self._group.keep(now)

    def fence(self, member_id: str, now: float) -> None:
        """Take a member out, and tell it FENCED_MEMBER_EPOCH when it comes again.

        A classic one is told UNKNOWN_MEMBER_ID, like one whose session has ended.
        """
        if self.members.known(member_id).classic is None:
            self._to_fence.add(member_id)
        self.expire_session(member_id, now)

    def _refuse_fenced(self, member_id: str, *, joins: bool) -> None:
        if member_id not in self._to_fence:
            return
        self._to_fence.discard(member_id)
        if not joins:
            raise Refused(
                Code.FENCED_MEMBER_EPOCH,
                f"Member {member_id} was fenced. The member must abandon all its partitions and "
                "rejoin.",
            )

    def coordinator_moved(self, now: float) -> None:
        """Another broker took over: all get a whole session, and their time to give up anew."""
        self._group.restart_timers(now)

    # Time.

    def wake_at(self) -> float:
        """When `tick` has something to do at the earliest, math.inf if never."""
        return self._group.wake_at()

    def tick(self, now: float) -> None:
        """Remove members that were not heard of, or did not revoke, in time."""
        self._group.tick(now)

    def topics_changed(self, now: float) -> None:
        """Topics came, went or grew: nothing to do, each heartbeat compares the view's version."""

    # Where it comes from.

    def take_over(self, members: Iterable[Member], *, epoch: int, now: float) -> None:
        """Be what a classic group of this generation was. It must be new; nothing is kept yet."""
        self._group.take_over(members, epoch=epoch, now=now)

    def snapshot(self) -> dict[str, Any]:
        """All that a restart must not lose, in JSON types."""
        return self._group.snapshot()

    @classmethod
    def restore(
        cls, value: Mapping[str, Any], group_id: str, *, now: float, **parts: Any
    ) -> ConsumerGroup:
        """The group of a snapshot; `parts` as the constructor takes them."""
        group = cls(group_id, now=now, **parts)
        group._group.load(value, now=now)
        return group
