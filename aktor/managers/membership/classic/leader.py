"""The leader's part in a rebalance: wait for the metadata of the group's topics, then assign, and
watch whether partitions are added (Java: `onLeaderElected` of ConsumerCoordinator)."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from aktor.actors.runtime.exchange import Exchange
from aktor.events.message import Message
from aktor.events.metadata import Cluster, RefreshMetadata, TrackTopics
from aktor.events.routes import MEMBERSHIP
from aktor.managers.membership.classic.assignors import (
    Assignors,
    LeaderPlan,
    partition_ids,
    read_assignments,
)
from aktor.settings import Settings
from aktor.state_table import follow
from aktor.trace import reasons

__all__ = ["STAGES", "Leader", "LeaderEvent", "LeaderStage"]

#: How long a leader waits for the metadata of topics that only other members subscribe to.
METADATA_WAIT: Final = 1.5


class LeaderStage(enum.Enum):
    """How far a leader is."""

    FOLLOWING = "following"
    """Another member leads, or nobody knows yet who does."""

    PLANNING = "planning"
    """The group's assignment is to be made and sent with SyncGroup, as soon as the metadata of the
    group's topics is here."""

    KEEPING = "keeping"
    """A static leader that came back sends SyncGroup without an assignment: the group keeps the one
    that it has (KIP-814)."""

    LEARNING = "learning"
    """The coordinator is asked which assignment the group has kept (DescribeGroups). It was made
    with the partitions of that time: those added while the leader was away would stay unassigned.

    With the Java client they do: it compares with the metadata it has now.
    """

    WATCHING = "watching"
    """When a topic has other partitions than those that were assigned, the group rebalances."""


class LeaderEvent(enum.Enum):
    """What leads from one stage to the next."""

    LEADS = "JoinGroup has made this member the leader"
    LEADS_AGAIN = "JoinGroup has made it the leader, and tells it to keep the assignment"
    SYNCS = "SyncGroup is sent"
    LEARNT = "the group's assignment is known, or cannot be known"
    OVER = "another rebalance begins, or the membership is over"


_S, _E = LeaderStage, LeaderEvent

#: The whole machine.
STAGES: Final[Mapping[LeaderStage, Mapping[LeaderEvent, LeaderStage]]] = {
    _S.FOLLOWING: {_E.LEADS: _S.PLANNING, _E.LEADS_AGAIN: _S.KEEPING, _E.OVER: _S.FOLLOWING},
    _S.PLANNING:  {_E.SYNCS: _S.WATCHING, _E.OVER: _S.FOLLOWING},
    _S.KEEPING:   {_E.SYNCS: _S.LEARNING, _E.OVER: _S.FOLLOWING},
    _S.LEARNING:  {_E.LEARNT: _S.WATCHING, _E.OVER: _S.FOLLOWING},
    _S.WATCHING:  {_E.OVER: _S.FOLLOWING},
}  # fmt: skip


class Leader:
    """Owns the leader's stage and plan, the partition ids with which it assigned, the request for
    the group's assignment, and the topics it tracks.

    A member that does not lead has no plan and tracks nothing.
    """

    def __init__(
        self, settings: Settings, assignors: Assignors, say: Callable[[Message], None]
    ) -> None:
        self.stage = LeaderStage.FOLLOWING
        self.plan: LeaderPlan | None = None
        #: DescribeGroups.
        self._describing = Exchange(settings)
        self._cluster = Cluster()
        self._wait_until = 0.0
        self._assignors = assignors
        self._say = say
        self._tracked: frozenset[str] = frozenset()
        #: Topic -> its id when it was assigned, as far as that is known.
        self._topic_ids: Mapping[str, UUID | None] = {}
        #: Topic -> the partition ids with which it was assigned; None: the topic did not exist.
        self._assigned_by: Mapping[str, frozenset[int] | None] = {}

    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""
        self._cluster = cluster

    def lead(self, response: Any, now: float) -> None:
        """JoinGroup has made us the leader; raises whatever decoding the members raises."""
        self.plan = LeaderPlan(self._assignors.by_name[response.protocol_name], response.members)
        self._on(LeaderEvent.LEADS_AGAIN if response.skip_assignment else LeaderEvent.LEADS)
        self._wait_until = now + METADATA_WAIT
        missing = self.plan.missing(self._cluster)
        stale = missing & self._tracked
        self._track(self.plan.topics)
        if stale:
            self._say(RefreshMetadata(because=f"the group wants {', '.join(sorted(missing))}"))

    def follow(self) -> None:
        """JoinGroup has made another member the leader, or there is no group."""
        self._track(frozenset())

    def forget_plan(self) -> None:
        """Another rebalance begins; the topics stay tracked until it is known who leads it."""
        self._on(LeaderEvent.OVER)
        self.plan = None
        self._assigned_by, self._topic_ids = {}, {}

    def track_again(self) -> None:
        """Say again what is tracked."""
        if self._tracked:
            self._say(TrackTopics(owner=MEMBERSHIP, topics=self._tracked))

    @property
    def ready_at(self) -> float:
        """When the group is told its assignment: at once, or after a wait for metadata.

        It does not wait for topics that do not exist: when one appears, the group rebalances.
        """
        if self.plan is None or not self._awaited:
            return -math.inf
        return self._wait_until

    def assign(self) -> Mapping[str, bytes] | None:
        """Member id -> assignment; None if this member does not lead, or must keep the assignment.

        Raises whatever the assignor raises.
        """
        if self.plan is None:
            return None
        self._on(LeaderEvent.SYNCS)
        if self.stage is LeaderStage.LEARNING:
            return None
        self._note_topics(self.plan)
        return self.plan.assign(self._cluster)

    # -- what a leader that keeps the assignment has to learn

    @property
    def must_learn(self) -> bool:
        """Whether to ask the coordinator what the group is assigned: not before the metadata of the
        group's topics is here."""
        return self.stage is LeaderStage.LEARNING and not self._awaited

    @property
    def asks_at(self) -> float:
        """When DescribeGroups may be sent."""
        return self._describing.due

    def asks(self) -> int:
        """DescribeGroups is sent; returns the number of the attempt."""
        return self._describing.sent()

    def describe_ends(self, number: int) -> bool:
        """This DescribeGroups was answered, or gets no answer; False if it was given up before."""
        return self._describing.ends(number)

    def abandon_description(self) -> None:
        """The coordinator is lost: give the DescribeGroups in flight up, if there is one."""
        self._describing.abandon()

    def asks_again(self, now: float, jitter: float) -> None:
        """There is no usable answer: DescribeGroups is sent again after the backoff."""
        self._describing.failed(now, jitter)

    @property
    def _awaited(self) -> frozenset[str]:
        """Topics of the group that may exist, and whose metadata is not here yet."""
        assert self.plan is not None, "a leader has a plan"
        return self.plan.missing(self._cluster) - self._cluster.unknown

    def missing(self) -> frozenset[str]:
        """Topics of the group without metadata."""
        return self.plan.missing(self._cluster) if self.plan is not None else frozenset()

    def learn(self, assignments: Iterable[bytes]) -> None:
        """DescribeGroups has told the members' assignments; raises whatever the decoding raises."""
        assert self.plan is not None, "only the leader, which has a plan, asks DescribeGroups"
        assigned: defaultdict[str, set[int]] = defaultdict(set)
        for partition in read_assignments(assignments):
            assigned[partition.topic].add(partition.partition)
        self._describing.answered()
        self._on(LeaderEvent.LEARNT)
        self._assigned_by = {
            topic: frozenset(assigned[topic]) if topic in assigned else None
            for topic in self.plan.topics
        }

    def learn_nothing(self) -> None:
        """The assignments cannot be learnt: watch the topics from now on."""
        assert self.plan is not None, "only the leader, which has a plan, asks DescribeGroups"
        self._describing.answered()
        self._on(LeaderEvent.LEARNT)
        self._note_topics(self.plan)

    # -- what it watches

    def reason_to_assign_again(self) -> str | None:
        """The topics that have other partitions than those we assigned, as a reason to rebalance;
        None if there are none."""
        if self.stage is not LeaderStage.WATCHING:
            return None
        current = partition_ids(self._cluster, self._assigned_by)
        changed = sorted(topic for topic, ids in current.items() if ids != self._assigned_by[topic])
        if not changed:
            return None
        before = self._assigned_by
        counts = (
            f"{topic}: {len(before[topic] or ())}, now {len(current[topic] or ()) or 'none'}"
            for topic in changed
        )
        is_new = any(map(self._is_another, changed))
        what = f"{reasons.PARTITIONS_OF}{', '.join(changed)} changed"
        return f"{reasons.TOPIC_RECREATED if is_new else what} ({'; '.join(counts)})"

    def _is_another(self, topic: str) -> bool:
        """Whether the topic was deleted since it was assigned, and created again."""
        was, now = self._topic_ids.get(topic), self._cluster.topic_id(topic)
        return None not in (was, now) and was != now

    def _note_topics(self, plan: LeaderPlan) -> None:
        """The topics of the plan are assigned as the metadata has them now."""
        self._assigned_by = partition_ids(self._cluster, plan.topics)
        self._topic_ids = {topic: self._cluster.topic_id(topic) for topic in plan.topics}

    def _on(self, event: LeaderEvent) -> None:
        self.stage = follow(STAGES, self.stage, event)

    def _track(self, topics: frozenset[str]) -> None:
        if topics == self._tracked:
            return
        self._tracked = topics
        self._say(TrackTopics(owner=MEMBERSHIP, topics=topics))
