"""The whole cluster as one state machine: brokers, topics, groups, transactions.

A request goes in by `receive`, its answer comes out through the call, now or later; `tick` lets
time pass. No thread, no clock, no socket: the TCP server and the simulator drive the same cluster.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from aktor.broker.apis import Apis
from aktor.broker.broker_configs import broker_configs
from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.fetching import Fetching
from aktor.broker.groups.coordinator import GroupCoordinator
from aktor.broker.log.log import Appended, LogConfig, PartitionLog
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.produce import Producing
from aktor.broker.settings import ClusterSettings
from aktor.broker.topics import (
    GROUP_OFFSETS,
    INTERNAL_TOPICS,
    TRANSACTION_STATE,
    Topic,
    Topics,
)
from aktor.broker.transactions import TransactionCoordinator

__all__ = ["Cluster", "Node"]

_MOST_DEFAULT_REPLICAS: Final = 3
_NEWEST_PRODUCE: Final = 13

#: Opens a partition's log: topic id, partition, config.
OpenLog = Callable[[UUID, int, LogConfig], PartitionLog]


@dataclass(slots=True)
class Node:
    """A broker: where clients find it, and whether it is up."""

    node_id: int
    host: str = "127.0.0.1"
    port: int = 0
    rack: str | None = None
    up: bool = True


class Cluster:
    """Owns everything that the brokers know.

    `nodes` by id; all are up at first. `open_log` makes a partition's log, by default in memory.
    `kept` is what `journal` had under (kind, key) when it was opened.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        now: float,
        cluster_id: str = "aktor-embedded-cluster",
        settings: ClusterSettings | None = None,
        rng: random.Random | None = None,
        journal: Journal | None = None,
        open_log: OpenLog | None = None,
        kept: Mapping[tuple[str, tuple[str | int, ...]], Any] | None = None,
    ) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.cluster_id = cluster_id
        self.settings = settings or ClusterSettings()
        self.rng = rng or random.Random()
        self._journal = journal or NoJournal()
        self.now = now
        self._changed: dict[tuple[str, int], None] = {}
        #: Where followers were held back, in that order.
        self._lagging: dict[Partition, None] = {}
        self._next_retention = now + self.settings.retention_check
        self._next_compaction = now + self.settings.cleaner_backoff
        self.topics = Topics(
            rng=self.rng,
            make_log=open_log or (lambda _id, _index, config: PartitionLog(config=config)),
            on_change=self._on_change,
            defaults={
                "min.insync.replicas": str(self.settings.min_insync_replicas),
                **self.settings.topic_configs,
            },
            journal=self._journal,
        )
        self.groups = GroupCoordinator(
            rng=self.rng,
            settings=self.settings.groups,
            journal=self._journal,
            topics=self.topics,
        )
        self.transactions = TransactionCoordinator(
            rng=self.rng, settings=self.settings.transactions, journal=self._journal, ports=self
        )
        self.fetching = Fetching(self)
        self.producing = Producing(self)
        self._apis = Apis(self)
        if kept:
            self._restore(kept)

    def _restore(self, kept: Mapping[tuple[str, tuple[str | int, ...]], Any]) -> None:
        for (kind, key), value in kept.items():
            if kind == "topic":
                self.topics.restore(str(key[0]), value)
        for topic in self.topics:
            self._take_down(topic.partitions)
            # With the new epochs, so that no two leaders ever have the same one.
            self.topics.moved(topic.name)
        self.groups.restore(kept, self.now)
        self.transactions.restore(kept)
        self._progress()

    # -- requests and time

    def receive(self, call: Call, api: str) -> None:
        """Handle one request, by the name of its API. The call is answered now or later."""
        self.now = max(self.now, call.now)
        self._apis.handle(call, api)
        self._progress()

    def tick(self, now: float) -> None:
        """Do what is due: answer who waited long enough, expire sessions, delete old records,
        compact topics."""
        self.now = max(self.now, now)
        self.fetching.waiting.tick(now)
        self.producing.waiting.tick(now)
        if self.groups.wake_at() <= now:
            self.groups.tick(now)
        if self.transactions.wake_at() <= now:
            self.transactions.tick(now)
        self._drop_laggards(now)
        if self._next_retention <= now:
            self._next_retention = now + self.settings.retention_check
            self.retain(now)
        if self._next_compaction <= now:
            self._next_compaction = now + self.settings.cleaner_backoff
            self.compact(now)
        self._progress()

    def wake_at(self) -> float:
        """When `tick` has something to do next."""
        return min(
            self.fetching.waiting.wake_at(),
            self.producing.waiting.wake_at(),
            self.groups.wake_at(),
            self.transactions.wake_at(),
            self._next_retention,
            self._next_compaction,
            min(
                (
                    one.behind_since + self.settings.replica_lag_max
                    for one in self._lagging
                    if one.behind_since is not None
                ),
                default=math.inf,
            ),
        )

    def forget(self, which: Callable[[Call], bool]) -> None:
        """Whoever made these calls is gone: do not keep records waiting for them."""
        self.fetching.waiting.forget(which)
        self.producing.waiting.forget(which)

    def _on_change(self, partition: Partition) -> None:
        self._changed[partition.topic, partition.index] = None

    def _progress(self) -> None:
        """Try again what waited for a partition that changed."""
        while self._changed:
            changed, self._changed = self._changed, {}
            for place in changed:
                self.producing.waiting.changed(place)
                self.fetching.waiting.changed(place)

    # -- what the brokers are

    def up(self) -> list[Node]:
        """The brokers that are up, by id."""
        return [node for _, node in sorted(self.nodes.items()) if node.up]

    @property
    def controller(self) -> int:
        """Any broker takes requests for the controller; clients are shown the first that is up."""
        return next((node.node_id for node in self.up()), -1)

    def endpoints(self, endpoint: Any, nodes: Iterable[int]) -> list[Any]:
        """Where these brokers are, as the given message class (KIP-951)."""
        return [
            endpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in (self.nodes.get(one) for one in sorted(nodes))
            if node is not None
        ]

    def preferred_replica(self, partition: Partition, call: Call, offset: int) -> int:
        """A follower in the client's rack that has what it wants to read, -1 if the leader will do
        (KIP-392, RackAwareReplicaSelector)."""
        rack = call.request.rack_id if self.settings.replica_selector else ""
        if not rack or self.nodes[partition.leader].rack == rack:
            return -1
        near = [
            node
            for node in partition.isr
            if self.nodes[node].rack == rack and partition.end_of(node) >= offset
        ]
        return max(near, key=partition.end_of) if near else -1

    def broker_configs(self, node_id: int) -> dict[str, str]:
        """What a broker runs with, as DescribeConfigs shows it."""
        return broker_configs(
            self.nodes[node_id], self.settings, replication_factor=self._replication()
        )

    # -- topics

    def _replication(self) -> int:
        wanted = self.settings.replication_factor
        return wanted if wanted is not None else min(len(self.nodes), _MOST_DEFAULT_REPLICAS)

    def assignment(self, partitions: int | None, replication: int | None) -> list[tuple[int, ...]]:
        """Replicas for new partitions, by default as many as the settings say.

        Raises Refused with INVALID_REPLICATION_FACTOR or INVALID_PARTITIONS.
        """
        wanted = self._replication() if replication is None else replication
        count = self.settings.partitions if partitions is None else partitions
        if wanted < 1:
            raise Refused(
                Code.INVALID_REPLICATION_FACTOR,
                f"The replication factor must be larger than 0, but it is {wanted}.",
            )
        if count < 1:
            raise Refused(
                Code.INVALID_PARTITIONS,
                f"The number of partitions must be larger than 0, but it is {count}.",
            )
        if wanted > len(self.nodes):
            raise Refused(
                Code.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {wanted} time(s): The target replication "
                f"factor of {wanted} cannot be reached because only {len(self.nodes)} broker(s) "
                "are registered.",
            )
        up = [node.node_id for node in self.up()]
        down = [node for node in sorted(self.nodes) if node not in up]
        return self.topics.assign(count, wanted, up if wanted <= len(up) else up + down)

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic, as `CreateTopics` would. Raises Refused."""
        return self.make_topic(name, self.assignment(partitions, replication), configs or {})

    def auto_create_topic(self, name: str) -> Topic:
        """A topic somebody asked for; Kafka's own are made as it needs them. Raises Refused."""
        partitions = {
            GROUP_OFFSETS: self.settings.offsets_topic_partitions,
            TRANSACTION_STATE: self.settings.transactions_topic_partitions,
        }.get(name)
        configs = {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}
        return self.create_topic(name, partitions, None, configs)

    def make_topic(
        self, name: str, assignment: Sequence[tuple[int, ...]], configs: Mapping[str, str]
    ) -> Topic:
        """A topic with these replicas."""
        topic = self.topics.create(name, assignment, configs)
        self._take_down(topic.partitions)
        self.groups.topics_changed(self.now)
        return topic

    def grow_topic(self, topic: Topic, assignment: Sequence[tuple[int, ...]], now: float) -> None:
        """More partitions, with these replicas."""
        there = len(topic.partitions)
        self.topics.grow(topic, assignment)
        self._take_down(topic.partitions[there:])
        self.groups.topics_changed(now)

    def delete_topic(self, topic: Topic, now: float) -> None:
        """Its records, and the offsets that groups committed in it, are gone."""
        self.topics.delete(topic)
        for partition in topic.partitions:
            self._lagging.pop(partition, None)
        self.groups.topic_deleted(topic.name, topic.topic_id, now)
        self.groups.topics_changed(now)
        self._progress()

    def retain(self, now: float) -> None:
        """Delete what is too old or too much by the topics' policies, now."""
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.log.retain(now):
                    partition.settle()

    def compact(self, now: float) -> None:
        """Keep the last record of each key where the topics' policies say so, now."""
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.log.compact(now):
                    partition.settle()

    def _take_down(self, partitions: Iterable[Partition]) -> None:
        """Tell new partitions which of their brokers are down, or are none of this cluster's: a
        data folder may come from a larger one."""
        for partition in partitions:
            for node_id in partition.replicas:
                node = self.nodes.get(node_id)
                if node is None or not node.up:
                    partition.node_down(node_id, unclean=self.settings.unclean_leader_election)

    # -- coordinators

    def coordinator(self, topic: str, key: str) -> Node | None:
        """Who coordinates this group (`__consumer_offsets`) or transactional id; None: nobody."""
        found = self.topics.get(topic) or self.auto_create_topic(topic)
        leader = found.partitions[java_hash(key) % len(found.partitions)].leader
        return self.nodes[leader] if leader != NO_LEADER else None

    def coordinates(self, node: int, topic: str, key: str) -> bool:
        """Whether this broker coordinates this group or transactional id."""
        found = self.coordinator(topic, key)
        return found is not None and found.node_id == node

    # -- what the transaction coordinator does to partitions and groups

    def partition_exists(self, topic: str, partition: int) -> bool:
        """Whether it is there."""
        return self.topics.partition(topic, partition) is not None

    def write_marker(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now: float,
    ) -> bool:
        """End a transaction in one partition; whether that could be done."""
        found = self.topics.partition(topic, partition)
        if found is None:
            return True  # deleted: there is nothing left to end
        if found.leader == NO_LEADER:
            return False
        found.append_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now=now,
        )
        return True

    def end_group_transaction(
        self, group_id: str, producer_id: int, *, commit: bool, now: float
    ) -> None:
        """The offsets of a transaction count, or never were."""
        self.groups.end_transaction(group_id, producer_id, commit, now)

    def append(self, topic: str, partition: int, batch: bytes, now: float) -> Appended | None:
        """Append a batch from outside, without a producer; None if nobody leads the partition.

        Raises Refused.
        """
        self.now = max(self.now, now)
        found = self.topics.partition(topic, partition)
        if found is None or found.leader == NO_LEADER:
            return None
        appended = found.append(batch, now=now, api_version=_NEWEST_PRODUCE)
        self._progress()
        return appended

    # -- brokers that come and go, leaders that move

    def broker_down(self, node_id: int, now: float) -> None:
        """A broker is gone: others lead its partitions and coordinate its groups."""
        node = self.nodes[node_id]
        if not node.up:
            return
        node.up = False
        self.forget(lambda call: call.node == node_id)
        self.fetching.restarted(node_id)
        self._each_partition(
            lambda one: one.node_down(node_id, unclean=self.settings.unclean_leader_election), now
        )

    def broker_silent(self, node_id: int, now: float) -> None:
        """It says nothing, and nobody has given it up yet: what it leads stands still, and what
        it follows it does not get, so that acks=all waits for it. The groups that it coordinates
        stand still, too."""
        for topic in self.topics:
            for partition in topic.partitions:
                if node_id in partition.isr and partition.leader != node_id:
                    partition.hold(node_id)
                    self._lagging[partition] = None
        self.groups.coordinator_silent(self._coordinated_by(node_id))

    def broker_up(self, node_id: int, now: float) -> None:
        """It is back, and catches up."""
        node = self.nodes[node_id]
        if node.up:
            self._each_partition(lambda one: one.follow(node_id), now)
            self.groups.coordinator_back(self._coordinated_by(node_id))
            return
        node.up = True
        self._each_partition(
            lambda one: one.node_up(node_id, unclean=self.settings.unclean_leader_election), now
        )

    def move_leader(
        self, topic: str, partition: int, to: int | None, now: float, *, unclean: bool = False
    ) -> int:
        """Let another replica lead, by default the next in sync; the new leader.

        Raises ValueError if it can't.
        """
        found = self.topics.partition(topic, partition)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        others = [one for one in found.replicas if one in found.isr and one != found.leader]
        target = to if to is not None else next(iter(others), found.leader)
        moved: list[bool] = []

        def move(one: Partition) -> None:
            if one is not found:
                return
            if target == found.leader:
                found.new_epoch()
                moved.append(True)
            else:
                moved.append(found.lead_uncleanly(target) if unclean else found.lead(target))

        self._each_partition(move, now)
        if not moved[0]:
            raise ValueError(
                f"broker {target} cannot lead {topic}-{partition}: of its replicas "
                f"{list(found.replicas)}, {found.isr} are in sync"
            )
        return found.leader

    def reassign(self, partition: Partition, replicas: tuple[int, ...], now: float) -> None:
        """Let a partition have these replicas, of which those that it has not had are up."""

        def act(one: Partition) -> None:
            if one is partition:
                one.reassign(replicas)

        self._each_partition(act, now)
        self.topics.moved(partition.topic)

    def move_coordinator(self, topic: str, key: str, to: int | None, now: float) -> int:
        """Let another broker coordinate this group or transactional id; the new coordinator."""
        self.coordinator(topic, key)
        count = self.topics.partitions(topic)
        return self.move_leader(topic, java_hash(key) % count, to, now)

    def hold_replica(self, topic: str, partition: int, node: int) -> None:
        """A follower fetches no more: out of sync when `replica_lag_max` has passed.

        Raises ValueError if it follows nobody there.
        """
        found = self.topics.partition(topic, partition)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        if node == found.leader or node not in found.replicas:
            raise ValueError(
                f"broker {node} is no follower of {topic}-{partition}: its leader is "
                f"{found.leader}, of its replicas {list(found.replicas)}"
            )
        found.hold(node)
        self._lagging[found] = None

    def release_replica(self, topic: str, partition: int, node: int) -> None:
        """It fetches again, and catches up."""
        found = self.topics.partition(topic, partition)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        found.follow(node)
        self._progress()

    def _drop_laggards(self, now: float) -> None:
        for partition in list(self._lagging):
            partition.drop_laggards(now, lag_max=self.settings.replica_lag_max)

    def _each_partition(self, act: Callable[[Partition], None], now: float) -> None:
        """Act on all; whose coordinator is another afterwards is told."""
        self.now = max(self.now, now)
        moved: dict[str, set[int]] = {GROUP_OFFSETS: set(), TRANSACTION_STATE: set()}
        for topic in list(self.topics):
            before = [(one.leader, one.leader_epoch) for one in topic.partitions]
            for partition in topic.partitions:
                act(partition)
            after = [(one.leader, one.leader_epoch) for one in topic.partitions]
            if after != before:
                self.topics.moved(topic.name)
                if topic.name in moved:
                    moved[topic.name] = {
                        index for index, one in enumerate(after) if one != before[index]
                    }
        for name, coordinator in (
            (GROUP_OFFSETS, self.groups),
            (TRANSACTION_STATE, self.transactions),
        ):
            if moved[name]:
                coordinator.coordinator_moved(self._is_among(name, moved[name]), now)
        self._progress()

    def _coordinated_by(self, node_id: int) -> Callable[[str], bool]:
        """Whether a group's coordinator is this broker."""
        offsets = self.topics.get(GROUP_OFFSETS)
        partitions = offsets.partitions if offsets is not None else ()
        led = {one.index for one in partitions if one.leader == node_id}
        return self._is_among(GROUP_OFFSETS, led)

    def _is_among(self, topic: str, partitions: set[int]) -> Callable[[str], bool]:
        """Whether a key's coordinator is the leader of one of these partitions."""
        count = self.topics.partitions(topic)
        return lambda key: java_hash(key) % count in partitions


def java_hash(text: str) -> int:
    """The absolute value of Java's String.hashCode: which partition coordinates a group."""
    value = 0
    data = text.encode("utf-16-be")
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value if value < 2**31 else (2**32 - value) & 0x7FFFFFFF
