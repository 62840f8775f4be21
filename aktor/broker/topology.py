"""Which brokers there are, where clients find them, and which of them has which partition.

Nothing here knows groups, transactions or requests that wait. What they must be told follows from
`on_change` and from what these methods return, and the cluster tells them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from aktor.broker.call import Journal
from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.settings import ClusterSettings
from aktor.broker.topics import INTERNAL_TOPICS, Topic, Topics

__all__ = ["Moved", "Node", "OpenLog", "Topology", "java_hash"]

_MOST_DEFAULT_REPLICAS: Final = 3

#: Opens a partition's log: topic id, partition, config.
OpenLog = Callable[[UUID, int, LogConfig], PartitionLog]

#: Of Kafka's own topics, the partitions that have another leader or leader epoch than before: the
#: coordinator of the keys in them is another.
Moved = Mapping[str, set[int]]


@dataclass(slots=True)
class Node:
    """A broker: where clients find it, and whether it is up."""

    node_id: int
    host: str = "127.0.0.1"
    port: int = 0
    rack: str | None = None
    up: bool = True


class Topology:
    """Owns the nodes, the topics, and which replicas are where, in sync, or lead.

    `nodes` by id; all are up at first. `open_log` makes a partition's log, by default in memory.
    `on_change` hears of each partition whose log, high watermark or leader changed.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        cluster_id: str,
        settings: ClusterSettings,
        rng: random.Random,
        on_change: Callable[[Partition], None],
        journal: Journal,
        open_log: OpenLog | None = None,
    ) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.cluster_id = cluster_id
        self.topics = Topics(
            rng=rng,
            make_log=open_log or (lambda _id, _index, config: PartitionLog(config=config)),
            on_change=self._changed,
            defaults={
                "min.insync.replicas": str(settings.min_insync_replicas),
                "unclean.leader.election.enable": str(settings.unclean_leader_election).lower(),
                **settings.topic_configs,
            },
            journal=journal,
        )
        self._settings = settings
        self._on_change = on_change
        #: Where followers were held back, in that order.
        self._lagging: dict[Partition, None] = {}
        #: Those of them where a follower may be behind: records came while it was held back. When a
        #: broker is silent, thousands are held back, and few get records.
        self._behind: dict[Partition, None] = {}

    def _changed(self, partition: Partition) -> None:
        if partition in self._lagging and partition.behind_since is not None:
            self._behind[partition] = None
        self._on_change(partition)

    def restore(self, kept: Mapping[tuple[str, tuple[str | int, ...]], Any]) -> None:
        """The topics that a journal had kept, on the nodes that there are now."""
        for (kind, key), value in kept.items():
            if kind == "topic":
                self.topics.restore(str(key[0]), value)
        for topic in self.topics:
            self._take_down(topic)
            # With the new epochs, so that no two leaders ever have the same one.
            self.topics.moved(topic.name)

    # -- nodes and endpoints

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
            for node in (self.nodes.get(node_id) for node_id in sorted(nodes))
            if node is not None
        ]

    def preferred_replica(self, partition: Partition, rack_id: str, offset: int) -> int:
        """A follower in the client's rack that has what it wants to read, -1 if the leader will do
        (KIP-392, RackAwareReplicaSelector)."""
        rack = rack_id if self._settings.replica_selector else ""
        if not rack or self.nodes[partition.leader].rack == rack:
            return -1
        near = [
            node
            for node in partition.isr
            if self.nodes[node].rack == rack and partition.end_of(node) >= offset
        ]
        return max(near, key=partition.end_of) if near else -1

    # -- where replicas are

    @property
    def default_replication(self) -> int:
        """How many replicas a partition has by default."""
        wanted = self._settings.replication_factor
        return wanted if wanted is not None else min(len(self.nodes), _MOST_DEFAULT_REPLICAS)

    def assignment(self, partitions: int | None, replication: int | None) -> list[tuple[int, ...]]:
        """Replicas for new partitions, by default as many as the settings say.

        Raises Refused with INVALID_REPLICATION_FACTOR or INVALID_PARTITIONS.
        """
        wanted = self.default_replication if replication is None else replication
        count = self._settings.partitions if partitions is None else partitions
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

    def make_topic(
        self, name: str, assignment: Sequence[tuple[int, ...]], configs: Mapping[str, str]
    ) -> Topic:
        """A topic with these replicas."""
        topic = self.topics.create(name, assignment, configs)
        if self._take_down(topic):
            self.topics.moved(name)
        return topic

    def grow_topic(self, topic: Topic, assignment: Sequence[tuple[int, ...]]) -> None:
        """More partitions, with these replicas."""
        there = len(topic.partitions)
        self.topics.grow(topic, assignment)
        if self._take_down(topic, there):
            self.topics.moved(topic.name)

    def delete_topic(self, topic: Topic) -> None:
        """It is gone, and its records."""
        self.topics.delete(topic)
        for partition in topic.partitions:
            self._lagging.pop(partition, None)
            self._behind.pop(partition, None)

    def reassign(self, partition: Partition, replicas: tuple[int, ...]) -> Moved:
        """Let a partition have these replicas, of which those that it has not had are up."""

        def act(each: Partition) -> None:
            if each is partition:
                each.reassign(replicas)

        return self._each_partition(act)

    def _take_down(self, topic: Topic, first: int = 0) -> bool:
        """Take down the replicas of new partitions, from the `first` on, whose broker is down or
        none of this cluster's: a data folder may come from a larger one. Returns whether there were
        any: others may lead then, and the journal has to know."""
        up = {node.node_id for node in self.up()}
        down = [
            (partition, node_id)
            for partition in topic.partitions[first:]
            for node_id in partition.replicas
            if node_id not in up
        ]
        for partition, node_id in down:
            partition.node_down(node_id, unclean=partition.unclean)
        return bool(down)

    # -- nodes that come and go, leaders that move

    def node_down(self, node_id: int) -> Moved:
        """A broker that was up is gone: others lead its partitions."""
        self.nodes[node_id].up = False
        return self._each_partition(
            lambda partition: partition.node_down(node_id, unclean=partition.unclean)
        )

    def node_up(self, node_id: int) -> Moved:
        """It is back, and catches up; one that was only silent fetches again."""
        node = self.nodes[node_id]
        if node.up:
            return self._each_partition(lambda partition: partition.follow(node_id))
        node.up = True
        return self._each_partition(
            lambda partition: partition.node_up(node_id, unclean=partition.unclean)
        )

    def node_silent(self, node_id: int) -> None:
        """The broker is dead or paused, and not fenced yet: its follower replicas do not fetch, and
        nobody fetches from it."""
        for topic in self.topics:
            for partition in topic.partitions:
                if node_id in partition.replicas:
                    partition.silence(node_id)
                    self._lagging[partition] = None

    def move_leader(self, partition: Partition, to: int | None, *, unclean: bool = False) -> Moved:
        """Let another replica lead, by default the next in sync. Raises ValueError if it can't."""
        others = [
            replica
            for replica in partition.replicas
            if replica in partition.isr and replica != partition.leader
        ]
        target = to if to is not None else next(iter(others), partition.leader)
        led: list[bool] = []

        def act(each: Partition) -> None:
            if each is not partition:
                return
            if target == partition.leader:
                partition.new_epoch()
                led.append(True)
            else:
                led.append(partition.lead_uncleanly(target) if unclean else partition.lead(target))

        moved = self._each_partition(act)
        if not led[0]:
            raise ValueError(
                f"broker {target} cannot lead {partition.topic}-{partition.index}: of its "
                f"replicas {list(partition.replicas)}, {partition.isr} are in sync"
            )
        return moved

    def _each_partition(self, act: Callable[[Partition], None]) -> Moved:
        """Call `act` for each partition, and write changed leaders to the journal. Returns the
        partitions of internal topics whose leader or epoch has changed."""
        moved: dict[str, set[int]] = {}
        for topic in list(self.topics):
            before = [(partition.leader, partition.leader_epoch) for partition in topic.partitions]
            for partition in topic.partitions:
                act(partition)
            after = [(partition.leader, partition.leader_epoch) for partition in topic.partitions]
            if after != before:
                self.topics.moved(topic.name)
                if topic.name in INTERNAL_TOPICS:
                    moved[topic.name] = {
                        index
                        for index, leadership in enumerate(after)
                        if leadership != before[index]
                    }
        return moved

    # -- followers that are behind

    def hold_replica(self, topic: str, partition: int, node: int) -> None:
        """A follower stops fetching: it is out of sync when `replica_lag_max` has passed.

        Raises ValueError if this node is not a follower of the partition.
        """
        found = self.partition(topic, partition)
        if node == found.leader or node not in found.replicas:
            raise ValueError(
                f"broker {node} is no follower of {topic}-{partition}: its leader is "
                f"{found.leader}, of its replicas {list(found.replicas)}"
            )
        found.hold(node)
        self._lagging[found] = None

    def release_replica(self, topic: str, partition: int, node: int) -> None:
        """It fetches again, and catches up."""
        self.partition(topic, partition).follow(node)

    def drop_laggards(self, now: float) -> None:
        """Out of the in-sync replicas with those that are behind for too long."""
        if now < self.drops_laggards_at():
            return
        for partition in list(self._lagging):
            partition.drop_laggards(now, lag_max=self._settings.replica_lag_max)

    def drops_laggards_at(self) -> float:
        """When the first of them is behind for too long."""
        first = math.inf
        for partition in list(self._behind):
            since = partition.behind_since
            if since is None:
                del self._behind[partition]
            else:
                first = min(first, since + self._settings.replica_lag_max)
        return first

    def partition(self, topic: str, index: int) -> Partition:
        """One that there must be. Raises ValueError."""
        found = self.topics.partition(topic, index)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{index}")
        return found

    # -- which partition a key belongs to: its leader coordinates the group or the transactional id

    def partition_of_key(self, topic: str, key: str) -> int:
        """Of one of Kafka's own topics, which there is."""
        return java_hash(key) % self.topics.partitions(topic)

    def leader_of_key(self, topic: str, key: str) -> Node | None:
        """The leader; None without one."""
        leader = self.partition(topic, self.partition_of_key(topic, key)).leader
        return self.nodes[leader] if leader != NO_LEADER else None

    def keys_led_by(self, topic: str, node_id: int) -> Callable[[str], bool]:
        """Whether a key's partition is led by this broker."""
        found = self.topics.get(topic)
        partitions = found.partitions if found is not None else ()
        return self.keys_in(
            topic, {partition.index for partition in partitions if partition.leader == node_id}
        )

    def keys_in(self, topic: str, partitions: set[int]) -> Callable[[str], bool]:
        """Whether a key's partition is one of these."""
        count = self.topics.partitions(topic)
        return lambda key: java_hash(key) % count in partitions


def java_hash(text: str) -> int:
    """The absolute value of Java's String.hashCode: which partition coordinates a group."""
    value = 0
    data = text.encode("utf-16-be")
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value if value < 2**31 else (2**32 - value) & 0x7FFFFFFF
