"""The group coordinator: all groups of a cluster, of all brokers.

The caller has checked that the broker coordinates the group of a request. The rest of KafkaApis and
GroupCoordinatorService is here: which kind of group a request is for, and when groups are created,
converted and deleted. The classes of the groups handle what happens inside a group.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.answers import (
    heartbeat_answer,
    join_answer,
    leave_answer,
    leave_unknown_group,
    sync_answer,
)
from aktor.broker.groups.classic.group import ClassicGroup, check_session_timeout
from aktor.broker.groups.classic.member import subscribed_topics
from aktor.broker.groups.consumer.group import ConsumerGroup
from aktor.broker.groups.consumer.requests import check_heartbeat, refusal
from aktor.broker.groups.directory import Directory, Group, is_empty
from aktor.broker.groups.listing import Listing
from aktor.broker.groups.offsets.commits import OffsetCommits
from aktor.broker.groups.offsets.committed import GroupOffsets
from aktor.broker.groups.offsets.deletes import OffsetDeletes
from aktor.broker.groups.offsets.fetches import OffsetFetches
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView
from aktor.protocol.consumer_group import JOIN_GROUP_MEMBER_EPOCH

__all__ = ["GroupCoordinator", "GroupMember"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member as a test finds it. `group_instance_id` is None for a dynamic member, `topics` if
    what it subscribes to is a regular expression, or cannot be read."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str] | None


class GroupCoordinator:
    """Owns all groups and their offsets; answers the requests about them, one handler for each API.

    Answers to joins and syncs may come later, from `tick` or from another member's request.
    """

    def __init__(
        self,
        *,
        rng: random.Random,
        settings: GroupSettings,
        topics: TopicsView,
        journal: Journal | None = None,
    ) -> None:
        journal = journal or NoJournal()
        self._settings = settings
        self._groups = groups = Directory(
            rng=rng, settings=settings, journal=journal, topics=topics
        )
        self._offsets = offsets = GroupOffsets(journal)
        self._commits = OffsetCommits(
            groups=groups, offsets=offsets, settings=settings, topics=topics
        )
        self._fetches = OffsetFetches(groups=groups, offsets=offsets, topics=topics)
        self._deletes = OffsetDeletes(
            groups=groups, offsets=offsets, settings=settings, topics=topics
        )
        self._listing = Listing(groups=groups, offsets=offsets)
        #: When to look for expired offsets; never, without groups.
        self._expire_at = math.inf

    def restore(self, values: Mapping[tuple[str, tuple[str | int, ...]], Any], now: float) -> None:
        """Be what the journal has kept; all members have a whole session from now."""
        self._groups.restore(values, now)
        self._offsets.restore(values)
        for group_id in self._offsets.groups():
            if self._groups.get(group_id) is None:
                self._groups.new_classic(group_id, now)
        self._schedule_expiry(now)

    # The members of classic groups.

    def handle_join_group(self, call: Call) -> None:
        """JoinGroup: makes the group if need be; an empty consumer group becomes a classic one.

        A consumer group with members takes in a classic one among them.
        """
        request = call.request
        try:
            group = self._group_to_join(call)
        except Refused as refused:
            call.reply(join_answer(call, refused.code, member_id=request.member_id))
            return
        if isinstance(group, ClassicGroup):
            group.join(call)
        else:
            group.classic.join(call)
        self._touched(request.group_id, call.now)

    def _group_to_join(self, call: Call) -> Group:
        request = call.request
        if not request.group_id:
            raise Refused(Code.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group
        check_session_timeout(request, self._settings)
        if group is not None and not is_empty(group):
            return group
        if request.member_id:
            raise Refused(Code.UNKNOWN_MEMBER_ID)
        if group is not None:
            self._groups.remove(group, call.now)
        return self._groups.new_classic(request.group_id, call.now)

    def handle_sync_group(self, call: Call) -> None:
        """SyncGroup; what its protocol is comes before everything else, as in KafkaApis."""
        request = call.request
        if call.version >= 5 and not (request.protocol_type and request.protocol_name):
            call.reply(sync_answer(Code.INCONSISTENT_GROUP_PROTOCOL))
            return
        group = self._group_of_member(call, sync_answer)
        if isinstance(group, ClassicGroup):
            group.sync(call)
        elif group is not None:
            group.classic.sync(call)
        self._touched(request.group_id, call.now)

    def handle_heartbeat(self, call: Call) -> None:
        """Heartbeat."""
        group = self._group_of_member(call, heartbeat_answer)
        if isinstance(group, ClassicGroup):
            group.heartbeat(call)
        elif group is not None:
            group.classic.heartbeat(call)
        self._touched(call.request.group_id, call.now)

    def _group_of_member(self, call: Call, answer: Callable[[Code], Any]) -> Group | None:
        """The group for what only a member may ask; None if there is none, which is answered."""
        group_id = call.request.group_id
        group = self._groups.get(group_id)
        if not group_id:
            call.reply(answer(Code.INVALID_GROUP_ID))
        elif group is None:
            call.reply(answer(Code.UNKNOWN_MEMBER_ID))
        return group

    def handle_leave_group(self, call: Call) -> None:
        """LeaveGroup: by it administrators put members of both protocols out of groups."""
        group_id = call.request.group_id
        group = self._groups.get(group_id)
        if not group_id:
            call.reply(leave_answer(call, Code.INVALID_GROUP_ID))
        elif group is None:
            call.reply(leave_unknown_group(call))
        elif isinstance(group, ClassicGroup):
            group.leave(call)
        else:
            group.classic.leave(call)
        self._touched(group_id, call.now)

    # The members of consumer groups.

    def handle_consumer_group_heartbeat(self, call: Call) -> None:
        """ConsumerGroupHeartbeat: makes the group if need be, also from a classic one."""
        group_id = call.request.group_id
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.heartbeat(call)
        else:
            try:
                self._make_consumer_group(call, group)
            except Refused as refused:
                call.reply(refusal(refused))
        self._touched(group_id, call.now)

    def _make_consumer_group(self, call: Call, before: ClassicGroup | None) -> None:
        """The first heartbeat of a group; if the group refuses it, all is as it was before."""
        request = call.request
        check_heartbeat(request, version=call.version, assignors=self._settings.consumer_assignors)
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        if before is None and not joins:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if not joins:
            self._groups.consumer(request.group_id)  # refuses: it is a classic group
        if before is None or is_empty(before):
            group = self._groups.new_consumer(request.group_id, call.now)
        else:
            group = self._groups.upgrade(before, call.now)
        if not group.heartbeat(call):
            self._groups.put_back(request.group_id, before)
        elif before is not None:
            self._groups.remove(before, call.now)

    # Offsets.

    def handle_offset_commit(self, call: Call) -> None:
        """OffsetCommit, versions 2 to 10."""
        self._answer(call, self._commits.commit(call))

    def handle_txn_offset_commit(
        self, call: Call, verify: Callable[[], None] | None = None
    ) -> None:
        """TxnOffsetCommit: the offsets are pending until `end_transaction`.

        `verify` is called before anything is kept; it raises Refused unless the group is in the
        producer's transaction, which the transaction coordinator knows.
        """
        self._answer(call, self._commits.commit_in_transaction(call, verify))

    def end_transaction(self, group_id: str, producer_id: int, commit: bool, now: float) -> None:
        """The producer's transaction is committed or aborted. To say so twice does no harm."""
        self._offsets.end_transaction(group_id, producer_id, commit=commit)

    def handle_offset_fetch(self, call: Call) -> None:
        """OffsetFetch, versions 1 to 10."""
        call.reply(self._fetches.fetch(call))

    def handle_offset_delete(self, call: Call) -> None:
        """OffsetDelete."""
        call.reply(self._deletes.delete(call))

    def _answer(self, call: Call, response: Any) -> None:
        self._touched(call.request.group_id, call.now)
        call.reply(response)

    # Administration.

    def handle_describe_groups(self, call: Call) -> None:
        """DescribeGroups."""
        call.reply(self._listing.describe(call))

    def handle_consumer_group_describe(self, call: Call) -> None:
        """ConsumerGroupDescribe."""
        call.reply(self._listing.describe_consumer_groups(call))

    def handle_list_groups(self, call: Call) -> None:
        """ListGroups: of all brokers; whose group is whose, the caller knows."""
        call.reply(self._listing.list(call))

    def handle_delete_groups(self, call: Call) -> None:
        """DeleteGroups."""
        call.reply(self._listing.delete(call))

    # Faults by command.

    def members(self, group_id: str) -> tuple[GroupMember, ...]:
        """The members in the order they joined. Raises Refused(GROUP_ID_NOT_FOUND)."""
        group = self._groups[group_id]
        if isinstance(group, ClassicGroup):
            return tuple(
                GroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topics=_topics(member.metadata(group.protocol_name)),
                )
                for member in group.members.values()
            )
        return tuple(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=None if member.regex else member.topics,
            )
            for member in group.members.values()
        )

    def kept_until(self, group_id: str, member_id: str) -> float:
        """When the group goes on without a member that is silent; -math.inf if it is none."""
        group = self._groups.get(group_id)
        return -math.inf if group is None else group.kept_until(member_id)

    def expire_session(self, group_id: str, member_id: str, now: float) -> None:
        """As if nothing was heard of a member for its session timeout.

        Raises Refused(GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID).
        """
        group = self._groups[group_id]
        if group.expire_session(member_id, now) is False:
            raise _unknown_member(member_id, group_id)
        self._touched(group_id, now)

    def fence_member(self, group_id: str, member_id: str, now: float) -> None:
        """As if another had taken the member's place: FENCED_INSTANCE_ID or FENCED_MEMBER_EPOCH.

        Raises Refused(GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID).
        """
        group = self._groups[group_id]
        if group.fence(member_id, now) is False:
            raise _unknown_member(member_id, group_id)
        self._touched(group_id, now)

    # Time, and what happens around.

    def wake_at(self) -> float:
        """When `tick` may have something to do, in seconds; math.inf if never. It costs nothing."""
        return min(self._groups.wake_at(), self._expire_at)

    def tick(self, now: float) -> None:
        """Do what is due: end sessions and rebalances, forget old offsets."""
        self._groups.tick(now)
        if now >= self._expire_at:
            self._deletes.expire(now)
            self._expire_at = math.inf
            self._schedule_expiry(now)

    def topics_changed(self, now: float) -> None:
        """Topics came, went or grew."""
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                group.topics_changed(now)
                self._groups.touched(group.group_id)

    def topic_deleted(self, name: str, topic_id: Any, now: float) -> None:
        """The topic is gone, and what was committed in it."""
        self._offsets.delete_topic(name)

    def coordinator_moved(self, moved: Callable[[str], bool], now: float) -> None:
        """Other brokers coordinate the groups whose ids `moved` says: they know what was kept."""
        for group in self._groups:
            if moved(group.group_id):
                group.coordinator_moved(now)
                self._groups.go_on(group.group_id)

    def coordinator_silent(self, silent: Callable[[str], bool]) -> None:
        """The broker that coordinates these groups is paused: no session ends meanwhile."""
        for group in self._groups:
            if silent(group.group_id):
                self._groups.stand_still(group.group_id)

    def coordinator_back(self, back: Callable[[str], bool]) -> None:
        """It stood still, and goes on: what is overdue is due now."""
        for group in self._groups:
            if back(group.group_id):
                self._groups.go_on(group.group_id)

    def _touched(self, group_id: str, now: float) -> None:
        self._groups.touched(group_id)
        self._schedule_expiry(now)

    def _schedule_expiry(self, now: float) -> None:
        if self._expire_at == math.inf and len(self._groups):
            self._expire_at = now + self._settings.offsets_retention_check


def _topics(metadata: bytes) -> frozenset[str] | None:
    try:
        return frozenset(subscribed_topics(metadata))
    except ValueError:
        return None


def _unknown_member(member_id: str, group_id: str) -> Refused:
    return Refused(
        Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )
