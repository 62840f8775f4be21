"""One consumer group as its coordinator keeps it: who is in it and who shall own what (KIP-848).

Members say what they want and what they have with each heartbeat. A change raises the group
epoch; a target assignment is made for it; each member comes to its part of it step by step, and
no partition is given to one before the other has said that it gave it up.
After Kafka's GroupMetadataManager and ConsumerGroup, 4.3.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final
from uuid import UUID

from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.assignors import ASSIGNORS, Assignment, Candidate
from aktor.broker.groups.consumer_describe import describe_members
from aktor.broker.groups.consumer_epochs import (
    FIRST_COMMIT_VERSION,
    PartitionCheck,
    check_commit_epoch,
    check_fetch_epoch,
    check_heartbeat_epoch,
)
from aktor.broker.groups.consumer_member import (
    Member,
    MemberState,
    Reported,
    Target,
    reconcile,
)
from aktor.broker.groups.consumer_members import Members
from aktor.broker.groups.consumer_requests import (
    check_heartbeat,
    heartbeat_answer,
    is_full_request,
    refusal,
    reported_partitions,
    says_nothing_new,
)
from aktor.broker.groups.deadlines import Deadlines
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.subscriptions import TopicsView
from aktor.broker.groups.topic_regexes import RegexIntervals, TopicRegexes, check_regex
from aktor.protocol.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["ConsumerGroup"]

#: The epoch of a group in which nothing happened; 0 would be taken for a wish to join.
_FIRST_EPOCH: Final = 1


class ConsumerGroup:
    """Owns the members, the epochs and the target assignment.

    assignment_interval: seconds between two target assignments, for which members that join
    together need only one (`group.consumer.assignment.interval.ms`; Kafka: 1 s).
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
        assignment_interval: float = 0.0,
        regex_intervals: RegexIntervals | None = None,
    ) -> None:
        self.group_id = group_id
        self.created_at = now
        self.members = Members(group_id)
        self.group_epoch = _FIRST_EPOCH
        self.assignment_epoch = _FIRST_EPOCH
        self._rng = rng
        self._settings = settings
        self._topics = topics
        self._journal: Journal = journal or NoJournal()
        self._assignment_interval = assignment_interval
        self._assigned_at: float | None = None
        self._targets: dict[str, Assignment] = {}
        self._regexes = TopicRegexes(topics, intervals=regex_intervals or RegexIntervals())
        #: The subscribed topics as the group epoch knows them: [name, id, partitions].
        self._metadata: list[list[Any]] = []
        self._metadata_version: int | None = None
        self._sessions: Deadlines[str] = Deadlines()
        self._revocations: Deadlines[str] = Deadlines()
        #: The epoch that a member with partitions to give up has to leave.
        self._revoking_epoch: dict[str, int] = {}
        self._to_fence: set[str] = set()
        #: Whether patterns are to be resolved after the answer that is being made.
        self._regexes_due = False
        self._persisted = (0, _FIRST_EPOCH, _FIRST_EPOCH)

    # What others ask.

    @property
    def state(self) -> str:
        """One of "Empty", "Assigning", "Reconciling" and "Stable"."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_new(self) -> bool:
        """Whether nobody was ever in it: Kafka would not know it."""
        return self.group_epoch == _FIRST_EPOCH and not self.members

    @property
    def assignor(self) -> str:
        """The assignor most members vote for; the first that is configured without votes."""
        votes = [member.assignor for member in self.members.values()]
        return max(self._settings.consumer_assignors, key=votes.count)

    def subscribed_topics(self) -> frozenset[str]:
        """All topics that a member subscribes to, by name or by pattern, existing or not."""
        return frozenset[str]().union(*map(self._names_of, self.members.values()))

    def describe(self) -> dict[str, Any]:
        """The fields of ConsumerGroupDescribe's DescribedGroup; members as message objects."""
        return {
            "group_id": self.group_id,
            "group_state": self.state,
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor_name": self.assignor,
            "members": describe_members(self.members.values(), self._targets, self._topics),
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

        `version` is that of OffsetCommit. Raises Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or
        UNSUPPORTED_VERSION), and so does the check, called with topic and partition: an older
        epoch is good enough for a partition that the member has had since then (KIP-1251).
        """
        if member_epoch < 0 and not self.members:
            return None
        if transactional and member_epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.members.known(member_id)
        if not transactional and version < FIRST_COMMIT_VERSION:
            raise Refused(
                Code.UNSUPPORTED_VERSION,
                f"OffsetCommit version {FIRST_COMMIT_VERSION} or above must be used by members "
                "using the consumer group protocol",
            )
        return check_commit_epoch(member, member_epoch, self._topics)

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may fetch offsets (v9); raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
        if member_id is None and member_epoch < 0:
            return
        check_fetch_epoch(self.members.known(member_id or ""), member_epoch)

    # ConsumerGroupHeartbeat.

    def heartbeat(self, call: Call) -> None:
        """Answer a ConsumerGroupHeartbeat, refusals included."""
        self._regexes_due = False
        try:
            response = self._idle(call) or self._answer(call)
        except Refused as refused:
            call.reply(refusal(refused))
            return
        self._persist()
        call.reply(response)
        if self._regexes_due:
            # Kafka resolves patterns in the background: the answer does not wait for it.
            self._resolve_regexes(call.now)

    def _idle(self, call: Call) -> Any | None:
        """The answer if nothing is new on either side; None if one has to look closer."""
        request = call.request
        member = self.members.get(request.member_id)
        if (
            member is None
            or request.member_epoch != member.epoch
            or not says_nothing_new(request)
            or not member.is_reconciled_to(self.group_epoch)
            or self._metadata_version != self._topics.version
            or call.client_id != member.client_id
            or call.client_host != member.client_host
        ):
            return None
        self._look_at_regexes(call.now)
        return self._heard_of(member, call.now, with_assignment=False)

    def _answer(self, call: Call) -> Any:
        request = call.request
        check_heartbeat(request, version=call.version, assignors=self._settings.consumer_assignors)
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(request)
        return self._join_or_stay(call)

    def _join_or_stay(self, call: Call) -> Any:
        request = call.request
        self._refuse_if_full(request.member_id)
        member_id = request.member_id or self._new_member_id()
        before, replaced = self._find(member_id, request)
        member = before.told(request, client_id=call.client_id, client_host=call.client_host)
        resolved = self._check_regex_change(before, member)

        # Nothing is refused from here on.
        if replaced is not None:
            self._replace(replaced, before)
        self.members.put(member)
        # In this order, as in Kafka: a pattern in place of another one is not resolved at once.
        self._look_at_regexes(call.now)
        self._forget_unused_regexes()
        names_changed = member.topics != before.topics
        self._refresh_epoch(bump=names_changed or resolved)
        self._assign(call.now)
        member = self._reconcile(
            member,
            reported_partitions(request),
            now=call.now,
            subscription_changed=names_changed or member.regex != before.regex,
        )
        with_assignment = is_full_request(request) or member.assigned != before.assigned
        return self._heard_of(member, call.now, with_assignment=with_assignment)

    def _heard_of(self, member: Member, now: float, *, with_assignment: bool) -> Any:
        """Its session starts anew; the answer."""
        self._sessions.set(member.member_id, now + self._settings.consumer_session_timeout)
        return heartbeat_answer(
            member,
            interval=self._settings.consumer_heartbeat_interval,
            with_assignment=with_assignment,
        )

    def _refuse_if_full(self, member_id: str) -> None:
        limit = self._settings.consumer_max_size
        if len(self.members) >= limit and member_id not in self.members:
            raise Refused(
                Code.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _new_member_id(self) -> str:
        """22 characters, as Kafka's Uuid prints itself."""
        made = UUID(int=self._rng.getrandbits(128), version=4)
        return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")

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
        if static.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            raise Refused(
                Code.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the "
                f"group because the instance id is owned by {static.member_id} member.",
            )
        return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static.member_id

    def _check_regex_change(self, before: Member, after: Member) -> bool:
        """Refuse a new pattern that is none; whether it is known what it matches."""
        if after.regex == before.regex:
            return False
        if not after.regex:
            return True
        if after.regex not in self.members.regexes:
            check_regex(after.regex)
            return False
        return self._regexes.is_resolved(after.regex)

    # Epochs and assignments.

    def _refresh_epoch(self, *, bump: bool) -> None:
        """Raise the group epoch if it must be, or if a subscribed topic is not what it was."""
        if not bump and self._metadata_version == self._topics.version:
            return
        metadata = [
            [name, topic_id.hex, self._topics.partitions(name)]
            for name, topic_id in self._existing(self.subscribed_topics())
        ]
        if bump or metadata != self._metadata:
            self.group_epoch += 1
        self._metadata = metadata
        self._metadata_version = self._topics.version

    def _existing(self, names: frozenset[str]) -> list[tuple[str, UUID]]:
        """Those topics that are there, by name."""
        found = [(name, self._topics.topic_id(name)) for name in sorted(names)]
        return [(name, topic_id) for name, topic_id in found if topic_id is not None]

    def _names_of(self, member: Member) -> frozenset[str]:
        if not member.regex:
            return member.topics
        return member.topics | self._regexes.topics(member.regex)

    def _topic_ids(self, member: Member) -> tuple[UUID, ...]:
        return tuple(topic_id for _, topic_id in self._existing(self._names_of(member)))

    def _assign(self, now: float) -> None:
        """Make the target assignment for the group epoch, if there is none and it is time."""
        if self.group_epoch <= self.assignment_epoch:
            return
        if self._assigned_at is not None and now < self._assigned_at + self._assignment_interval:
            return
        partitions = {
            topic_id: self._topics.partitions(name)
            for name, topic_id in self._existing(self.subscribed_topics())
        }
        candidates = {
            member_id: Candidate(
                topics=self._topic_ids(member),
                target=self._targets.get(member_id, {}),
                instance_id=member.instance_id,
            )
            for member_id, member in sorted(self.members.items())
        }
        assign = ASSIGNORS[self.assignor]
        self._targets = dict(assign(candidates, partitions, self._is_homogeneous()))
        self.assignment_epoch = self.group_epoch
        self._assigned_at = now

    def _is_homogeneous(self) -> bool:
        """Whether all subscribe alike: by the same names, or by one pattern and no names."""
        first, *others = self.members.values()
        if first.regex and first.topics:
            return False
        return all((m.regex, m.topics) == (first.regex, first.topics) for m in others)

    def _reconcile(
        self,
        member: Member,
        reported: Reported | None,
        *,
        now: float,
        subscription_changed: bool,
    ) -> Member:
        if not subscription_changed and member.is_reconciled_to(self.assignment_epoch):
            return member
        assignment = self._targets.get(member.member_id, {})
        after = reconcile(
            member,
            Target(epoch=self.assignment_epoch, assignment=assignment),
            subscribed=self._topic_ids(member),
            reported=reported,
            is_free=self.members.is_free,
            subscription_changed=subscription_changed,
        )
        if after != member:
            self.members.put(after)
            self._time_revocation(after, now)
        return after

    def _look_at_regexes(self, now: float) -> None:
        if self.members.regexes:
            self._regexes_due = self._regexes.due(self.members.regexes, now=now)

    def _resolve_regexes(self, now: float) -> None:
        changed = self._regexes.resolve(self.members.regexes, now=now)
        self._refresh_epoch(bump=changed)
        self._persist(at_all_events=True)

    def _forget_unused_regexes(self) -> None:
        for regex in self._regexes.resolved():
            if regex not in self.members.regexes:
                self._regexes.forget(regex)

    # Leaving.

    def _leave(self, request: Any) -> Any:
        if request.instance_id is None:
            member = self.members.known(request.member_id)
        else:
            member = self.members.known_static(request.instance_id, request.member_id)
        if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            self.members.put(member.away())
        else:
            self._remove(member.member_id)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def _remove(self, member_id: str) -> None:
        """Without the member there is a new group epoch; its partitions are free at once."""
        self._forget(member_id)
        self._forget_unused_regexes()
        self._refresh_epoch(bump=True)

    def _forget(self, member_id: str) -> None:
        self.members.remove(member_id)
        self._targets.pop(member_id, None)
        self._sessions.drop(member_id)
        self._stop_revocation(member_id)

    def _replace(self, old_id: str, member: Member) -> None:
        """A static member is back under another id: what was the old one's is its own."""
        target = self._targets.get(old_id, {})
        self._forget(old_id)
        if member.member_id in self.members:
            self._forget(member.member_id)
        self._targets[member.member_id] = target
        self.members.put(member)

    # Faults by command.

    def expire_session(self, member_id: str, now: float) -> None:
        """As if nothing was heard of a member for too long. Raises UNKNOWN_MEMBER_ID."""
        self._remove(self.members.known(member_id).member_id)
        self._persist()

    def fence(self, member_id: str, now: float) -> None:
        """Take a member out, and tell it FENCED_MEMBER_EPOCH when it comes again."""
        self.expire_session(member_id, now)
        self._to_fence.add(member_id)

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
        self._sessions.clear()
        self._revocations.clear()
        self._metadata_version = None
        for member in self.members.values():
            self._sessions.set(member.member_id, now + self._settings.consumer_session_timeout)
            self._time_revocation(member, now)

    # Time.

    def wake_at(self) -> float:
        """When `tick` has something to do at the earliest, math.inf if never."""
        return min(self._sessions.next_at, self._revocations.next_at)

    def tick(self, now: float) -> None:
        """Take out who was not heard of in time, or did not give up its partitions in time."""
        for member_id in self._sessions.due(now):
            self._remove(member_id)
        for member_id in self._revocations.due(now):
            epoch = self._revoking_epoch.pop(member_id)
            if self.members.known(member_id).epoch == epoch:
                self._remove(member_id)
        self._persist()

    def topics_changed(self, now: float) -> None:
        """Topics came, went or grew: nothing to do, each heartbeat compares the view's version."""

    def _time_revocation(self, member: Member, now: float) -> None:
        """The member has its rebalance timeout to give up what it must."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._revocations.set(member.member_id, now + member.rebalance_timeout_ms / 1000)
            self._revoking_epoch[member.member_id] = member.epoch
        else:
            self._stop_revocation(member.member_id)

    def _stop_revocation(self, member_id: str) -> None:
        self._revocations.drop(member_id)
        self._revoking_epoch.pop(member_id, None)

    # Persistence.

    def _persist(self, *, at_all_events: bool = False) -> None:
        state = (self.members.changes, self.group_epoch, self.assignment_epoch)
        if state != self._persisted or at_all_events:
            self._persisted = state
            self._journal.put("consumer-group", (self.group_id,), self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """All that a restart must not lose, in JSON types."""
        return {
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "assigned_at": self._assigned_at,
            "metadata": self._metadata,
            "members": [member.to_json() for member in self.members.values()],
            "targets": {
                member_id: [[topic_id.hex, list(owned)] for topic_id, owned in target.items()]
                for member_id, target in self._targets.items()
            },
            "regexes": self._regexes.to_json(),
        }

    def load(self, value: Mapping[str, Any], *, now: float) -> None:
        """Take over a snapshot; sessions start at `now`. For a group that is still new."""
        self.group_epoch = value["group_epoch"]
        self.assignment_epoch = value["assignment_epoch"]
        self._assigned_at = value["assigned_at"]
        self._metadata = value["metadata"]
        self._targets = {
            member_id: {UUID(hex=topic_id): tuple(owned) for topic_id, owned in target}
            for member_id, target in value["targets"].items()
        }
        self._regexes.load(value["regexes"])
        for member in value["members"]:
            self.members.put(Member.from_json(member))
        self._persisted = (self.members.changes, self.group_epoch, self.assignment_epoch)
        self.coordinator_moved(now)

    @classmethod
    def restore(
        cls, value: Mapping[str, Any], group_id: str, *, now: float, **parts: Any
    ) -> ConsumerGroup:
        """The group of a snapshot; `parts` as the constructor takes them."""
        group = cls(group_id, now=now, **parts)
        group.load(value, now=now)
        return group
