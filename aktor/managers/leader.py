"""The leader's part in a rebalance: wait for the metadata of the group's topics, then assign."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aktor.events.message import Message
from aktor.events.metadata import Cluster, RefreshMetadata, TrackTopics
from aktor.events.routes import MEMBERSHIP
from aktor.managers.assignment import Assignors, LeaderPlan, partition_ids, read_assignments
from aktor.managers.exchange import Exchange
from aktor.settings import Settings
from aktor.trace import reasons

__all__ = ["Leader"]

#: How long a leader waits for the metadata of topics that only other members subscribe to.
METADATA_WAIT: Final = 1.5


class Leader:
    """Owns the leader's plan, the partition ids with which it assigned, and the topics it tracks.

    A member that does not lead has no plan and tracks nothing.
    """

    def __init__(
        self, settings: Settings, assignors: Assignors, say: Callable[[Message], None]
    ) -> None:
        self.plan: LeaderPlan | None = None
        #: DescribeGroups.
        self.describing = Exchange(settings)
        self._cluster = Cluster()
        self._wait_until = 0.0
        self._assignors = assignors
        self._say = say
        self._skips = False
        self._has_to_learn = False
        self._tracked: frozenset[str] = frozenset()
        self._assigned_by: Mapping[str, frozenset[int] | None] | None = None

    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""
        self._cluster = cluster

    def lead(self, response: Any, now: float) -> None:
        """JoinGroup has made us the leader; raises whatever decoding the members raises."""
        self.plan = LeaderPlan(self._assignors.by_name[response.protocol_name], response.members)
        self._skips = bool(response.skip_assignment)
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
        self.plan = None
        self._assigned_by = None
        self._has_to_learn = False

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
        if self._skips:
            self._has_to_learn = True
            return None
        self._assigned_by = partition_ids(self._cluster, self.plan.topics)
        return self.plan.assign(self._cluster)

    @property
    def must_learn(self) -> bool:
        """Whether to ask the coordinator what the group is assigned.

        A static leader that came back is told to keep the assignment (KIP-814). That was made with
        the partitions of that time: those added while the leader was away would stay unassigned.
        (They do with the Java client, which compares with the metadata it has now:
        ConsumerCoordinator.onLeaderElected.) Not before the metadata of the group's topics is here.
        """
        return self._has_to_learn and self.plan is not None and not self._awaited

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
        for one in read_assignments(assignments):
            assigned[one.topic].add(one.partition)
        self._has_to_learn = False
        self._assigned_by = {
            topic: frozenset(assigned[topic]) if topic in assigned else None
            for topic in self.plan.topics
        }

    def learn_nothing(self) -> None:
        """The assignments cannot be learnt: watch the topics from now on."""
        assert self.plan is not None, "only the leader, which has a plan, asks DescribeGroups"
        self._has_to_learn = False
        self._assigned_by = partition_ids(self._cluster, self.plan.topics)

    def reason_to_assign_again(self) -> str | None:
        """The topics that have other partitions than those we assigned, as a reason to rebalance;
        None if there are none."""
        if self._assigned_by is None:
            return None
        current = partition_ids(self._cluster, self._assigned_by)
        changed = sorted(one for one, ids in current.items() if ids != self._assigned_by[one])
        return f"{reasons.PARTITIONS_OF}{', '.join(changed)} changed" if changed else None

    def _track(self, topics: frozenset[str]) -> None:
        if topics == self._tracked:
            return
        self._tracked = topics
        self._say(TrackTopics(owner=MEMBERSHIP, topics=topics))
