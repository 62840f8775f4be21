"""How a consumer group comes from one epoch to the next, and what is kept of it.

A change raises the group epoch; a target assignment is made for it; each member comes to its part
of it step by step. Members of both protocols go through this alike; they differ in how they say
what they want and in what happens when they are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from aktor.broker.call import Call, Journal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.assignors import ASSIGNORS, Candidate, MemberAssignment
from aktor.broker.groups.consumer.deadlines import Deadlines
from aktor.broker.groups.consumer.member import (
    Member,
    MemberState,
    Reported,
    Target,
    reconcile,
)
from aktor.broker.groups.consumer.members import Members
from aktor.broker.groups.consumer.subscriptions import Subscriptions
from aktor.broker.groups.consumer.topic_regexes import RegexIntervals, TopicRegexes, check_regex
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["Downgrade", "Rebalances"]

#: Makes a classic group of a consumer group, and keeps it: (its generation, whether its members
#: shall rejoin, now).
Downgrade: TypeAlias = Callable[[int, bool, float], None]

#: The epoch of a group in which nothing happened; 0 would be taken for a wish to join.
_FIRST_EPOCH: Final = 1


class Rebalances:
    """Owns the members, the epochs, the target assignment, and by when members must be heard of.

    downgrade: called instead of keeping the group when only classic members are left (KIP-848);
        None: the group stays what it is.
    """

    def __init__(
        self,
        group_id: str,
        *,
        settings: GroupSettings,
        topics: TopicsView,
        journal: Journal,
        downgrade: Downgrade | None,
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.members = Members(group_id)
        self.group_epoch = _FIRST_EPOCH
        self.assignment_epoch = _FIRST_EPOCH
        self.targets: dict[str, MemberAssignment] = {}
        self._group_id = group_id
        self._journal = journal
        self._downgrade = downgrade
        #: When it is due to become a classic group: the generation, and whether all shall rejoin.
        self._classic_again: tuple[int, bool] | None = None
        self._assigned_at: float | None = None
        self._regexes = TopicRegexes(
            topics,
            intervals=RegexIntervals(
                minimum=settings.consumer_regex_min_interval,
                maximum=settings.consumer_regex_refresh_interval,
            ),
        )
        self._subscriptions = Subscriptions(self.members, self._regexes, topics)
        #: Whether patterns are to be resolved after the answer that is being made.
        self._regexes_due = False
        #: The subscribed topics as the group epoch knows them: [name, id, partitions].
        self._metadata: list[list[Any]] = []
        self._metadata_version: int | None = None
        self._sessions: Deadlines[str] = Deadlines()
        self._revocations: Deadlines[str] = Deadlines()
        #: The epoch that a member with partitions to give up has to leave.
        self._revoking_epoch: dict[str, int] = {}
        #: By when classic members must join after they were told to, and sync after that.
        self._joins: Deadlines[str] = Deadlines()
        self._syncs: Deadlines[str] = Deadlines()
        self._persisted = (0, _FIRST_EPOCH, _FIRST_EPOCH)

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
    def assignor(self) -> str:
        """The assignor most members vote for; the first that is configured without votes."""
        votes = [member.assignor for member in self.members.values()]
        return max(self.settings.consumer_assignors, key=votes.count)

    def topic_names(self) -> frozenset[str]:
        """All topics that a member subscribes to, existing or not."""
        return self._subscriptions.names()

    @property
    def topics_changed(self) -> bool:
        """Whether the group epoch may not know the topics as they are."""
        return self._metadata_version != self.topics.version

    # Members.

    def refuse_if_full(self, member_id: str) -> None:
        """Raises GROUP_MAX_SIZE_REACHED if there is no room for a new one."""
        limit = self.settings.consumer_max_size
        if len(self.members) >= limit and member_id not in self.members:
            raise Refused(
                Code.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def admit(self, before: Member, member: Member, *, replaced: str | None, now: float) -> bool:
        """Take in a member, new or changed, maybe in the place of the static one `replaced`.

        Returns whether it subscribes to something else than `before`. Raises
        INVALID_REGULAR_EXPRESSION, and then nothing has changed.
        """
        resolved = self._check_regex_change(before, member)
        if replaced is not None:
            self._replace(replaced, before)
        self.members.put(member)
        if (before.classic is None) != (member.classic is None):
            self._joins.drop(member.member_id)
            self._syncs.drop(member.member_id)
            self._time_revocation(member, now)
        # In this order, as in Kafka: a pattern in place of another one is not resolved at once.
        self.look_at_regexes(now)
        self._forget_unused_regexes()
        names_changed = member.topics != before.topics
        self._refresh_epoch(bump=names_changed or resolved)
        return names_changed or member.regex != before.regex

    def remove(self, *member_ids: str) -> None:
        """Without these there is a new group epoch, or a classic group; what they had is free."""
        for member_id in member_ids:
            self._forget(member_id)
        self._forget_unused_regexes()
        if self.may_downgrade and all(m.classic is not None for m in self.members.values()):
            self.become_classic(generation=self.group_epoch, rebalance=True)
        else:
            self._refresh_epoch(bump=True)

    def _forget(self, member_id: str) -> None:
        self.members.remove(member_id)
        self.targets.pop(member_id, None)
        self._sessions.drop(member_id)
        self._stop_revocation(member_id)
        self._joins.drop(member_id)
        self._syncs.drop(member_id)

    def _replace(self, old_id: str, member: Member) -> None:
        """A static member is back under another id: what was the old one's is its own."""
        target = self.targets.get(old_id, {})
        self._forget(old_id)
        if member.member_id in self.members:
            self._forget(member.member_id)
        self.targets[member.member_id] = target
        self.members.put(member)

    # Becoming another kind of group.

    @property
    def may_downgrade(self) -> bool:
        """Whether it could be a classic group, were all its members classic ones."""
        return self._downgrade is not None and 0 < len(self.members) <= self.settings.max_size

    def become_classic(self, *, generation: int, rebalance: bool) -> None:
        """Let it be a classic group before anybody is answered; its members rejoin or need not."""
        self._classic_again = generation, rebalance

    def take_over(self, members: Iterable[Member], *, epoch: int, now: float) -> None:
        """Be what a classic group was: what its members had is their target. It must be new."""
        self.group_epoch = self.assignment_epoch = epoch
        for member in members:
            self.members.put(member)
            self.targets[member.member_id] = {
                topic_id: tuple(epochs) for topic_id, epochs in member.assigned.items()
            }
            self.renew_session(member, now)
        self._metadata = self._subscriptions.metadata()
        self._metadata_version = self.topics.version

    # Epochs and assignments.

    def _refresh_epoch(self, *, bump: bool) -> None:
        """Raise the group epoch if it must be, or if a subscribed topic is not what it was."""
        if not bump and not self.topics_changed:
            return
        metadata = self._subscriptions.metadata()
        if bump or metadata != self._metadata:
            self.group_epoch += 1
        self._metadata = metadata
        self._metadata_version = self.topics.version

    def assign(self, now: float) -> None:
        """Make the target assignment for the group epoch, if there is none and it is time."""
        if self.group_epoch <= self.assignment_epoch:
            return
        interval = self.settings.consumer_assignment_interval
        if self._assigned_at is not None and now < self._assigned_at + interval:
            return
        candidates = {
            member_id: Candidate(
                topics=self._subscriptions.topic_ids(member),
                target=self.targets.get(member_id, {}),
                instance_id=member.instance_id,
            )
            for member_id, member in sorted(self.members.items())
        }
        assign = ASSIGNORS[self.assignor]
        subscriptions = self._subscriptions
        self.targets = dict(
            assign(candidates, subscriptions.partitions(), subscriptions.homogeneous)
        )
        self.assignment_epoch = self.group_epoch
        self._assigned_at = now

    def reconcile(
        self,
        member: Member,
        reported: Reported | None,
        *,
        now: float,
        subscription_changed: bool,
    ) -> Member:
        """The member one step nearer to its target, given what it says it owns."""
        if not subscription_changed and member.is_reconciled_to(self.assignment_epoch):
            return member
        assignment = self.targets.get(member.member_id, {})
        after = reconcile(
            member,
            Target(epoch=self.assignment_epoch, assignment=assignment),
            subscribed=self._subscriptions.topic_ids(member),
            reported=reported,
            is_free=self.members.is_free,
            subscription_changed=subscription_changed,
        )
        if after != member:
            self.members.put(after)
            self._time_revocation(after, now)
        return after

    # Patterns.

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

    def look_at_regexes(self, now: float) -> None:
        """Have the patterns resolved after the answer, if it is time."""
        if self.members.regexes:
            self._regexes_due = self._regexes.due(self.members.regexes, now=now)

    def _resolve_regexes(self, now: float) -> None:
        self._regexes_due = False
        changed = self._regexes.resolve(self.members.regexes, now=now)
        self._refresh_epoch(bump=changed)
        self._keep()

    def _forget_unused_regexes(self) -> None:
        for regex in self._regexes.resolved():
            if regex not in self.members.regexes:
                self._regexes.forget(regex)

    # Time.

    def renew_session(self, member: Member, now: float) -> None:
        """A sign of life. Of members the broker says how long a session is, or the classic one."""
        timeout = self.settings.consumer_session_timeout
        if member.classic is not None:
            timeout = member.classic.session_timeout_ms / 1000
        self._sessions.set(member.member_id, now + timeout)

    def kept_until(self, member_id: str) -> float:
        """When the group goes on without it, if nothing more is heard of it: its session ends, or
        the time in which it has to give partitions up, to join or to sync."""
        deadlines = (self._sessions, self._revocations, self._joins, self._syncs)
        return min(one.at(member_id) for one in deadlines)

    def await_join(self, member: Member, now: float) -> None:
        """A classic member is told to join; if it was before, its time runs already."""
        if member.member_id not in self._joins:
            self._joins.set(member.member_id, now + member.rebalance_timeout_ms / 1000)

    def await_sync(self, member: Member, now: float) -> None:
        """A classic member has joined."""
        self._joins.drop(member.member_id)
        self._syncs.set(member.member_id, now + member.rebalance_timeout_ms / 1000)

    def synced(self, member_id: str) -> None:
        """A classic member has asked for its assignment."""
        self._syncs.drop(member_id)

    def _time_revocation(self, member: Member, now: float) -> None:
        """The member has its rebalance timeout to give up what it must.

        Classic ones don't: they are told to join until they have given it up, and have a time for
        that.
        """
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            self._revocations.set(member.member_id, now + member.rebalance_timeout_ms / 1000)
            self._revoking_epoch[member.member_id] = member.epoch
        else:
            self._stop_revocation(member.member_id)

    def _stop_revocation(self, member_id: str) -> None:
        self._revocations.drop(member_id)
        self._revoking_epoch.pop(member_id, None)

    def wake_at(self) -> float:
        """When `tick` has something to do at the earliest, math.inf if never."""
        return min(
            self._sessions.next_at,
            self._revocations.next_at,
            self._joins.next_at,
            self._syncs.next_at,
        )

    def tick(self, now: float) -> None:
        """Remove members that were not heard of, or did not revoke, in time."""
        for member_id in self._overdue(now):
            self.remove(member_id)
            if self._classic_again is not None:
                break  # In the classic group the others' time begins anew.
        self.keep(now)

    def _overdue(self, now: float) -> Iterator[str]:
        yield from self._sessions.due(now)
        for member_id in self._revocations.due(now):
            if self._revoking_epoch.pop(member_id) == self.members.known(member_id).epoch:
                yield member_id
        yield from self._joins.due(now)
        yield from self._syncs.due(now)

    def restart_timers(self, now: float) -> None:
        """Another broker took over: all get a whole session, and their time to give up anew."""
        for deadlines in (self._sessions, self._revocations, self._joins, self._syncs):
            deadlines.clear()
        for member in self.members.values():
            self.renew_session(member, now)
            self._time_revocation(member, now)

    # Answers, and what is kept.

    def answer(self, call: Call, response: Any) -> None:
        """Keep what has changed, then answer, then do what no answer waits for."""
        self.keep(call.now)
        call.reply(response)
        if self._regexes_due:
            # Kafka resolves patterns in the background.
            self._resolve_regexes(call.now)

    def keep(self, now: float) -> None:
        """Write the group down if it has changed, as the kind of group that it is now."""
        if self._classic_again is not None and self._downgrade is not None:
            self._regexes_due = False
            self._downgrade(*self._classic_again, now)
            return
        state = (self.members.changes, self.group_epoch, self.assignment_epoch)
        if state != self._persisted:
            self._keep()

    def _keep(self) -> None:
        self._persisted = (self.members.changes, self.group_epoch, self.assignment_epoch)
        self._journal.put("consumer-group", (self._group_id,), self.snapshot())

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
                for member_id, target in self.targets.items()
            },
            "regexes": self._regexes.to_json(),
        }

    def load(self, value: Mapping[str, Any], *, now: float) -> None:
        """Take over a snapshot; sessions start at `now`. For a group that is still new."""
        self.group_epoch = value["group_epoch"]
        self.assignment_epoch = value["assignment_epoch"]
        self._assigned_at = value["assigned_at"]
        self._metadata = value["metadata"]
        self.targets = {
            member_id: {UUID(hex=topic_id): tuple(owned) for topic_id, owned in target}
            for member_id, target in value["targets"].items()
        }
        self._regexes.load(value["regexes"])
        for member in value["members"]:
            self.members.put(Member.from_json(member))
        self._persisted = (self.members.changes, self.group_epoch, self.assignment_epoch)
        self.restart_timers(now)
