"""The whole cluster as one state machine: brokers, topics, groups, transactions.

A request goes in by `receive`, its answer comes out through the call, now or later; `tick` lets
time pass. No thread, no clock, no socket: the TCP server and the simulator drive the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aktor.broker.apis import Apis
from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.fetching import Fetching
from aktor.broker.groups.coordinator import GroupCoordinator
from aktor.broker.log.log import Appended
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.produce import Producing
from aktor.broker.settings import ClusterSettings
from aktor.broker.topics import GROUP_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE, Topic
from aktor.broker.topology import Moved, Node, OpenLog, Topology
from aktor.broker.transactions import TransactionCoordinator

__all__ = ["Cluster"]

_NEWEST_PRODUCE: Final = 13


class Cluster:
    """Composes the brokers' parts: the topology, the groups, the transactions, the handlers of
    requests.

    The parts do not know this class. A change that concerns other parts goes through a port, which
    this class implements: `broker.ports` for handlers, `transactions.ports` for the transaction
    coordinator. All `nodes` are up at first. `open_log` makes a partition's log, by default in
    memory. `kept` is what `journal` had under (kind, key) when it was opened.
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
        self.settings = settings or ClusterSettings()
        self.now = now
        self._changed: dict[tuple[str, int], None] = {}
        self._next_retention = now + self.settings.retention_check
        self._next_compaction = now + self.settings.cleaner_backoff
        rng, journal = rng or random.Random(), journal or NoJournal()
        self.topology = Topology(
            nodes,
            cluster_id=cluster_id,
            settings=self.settings,
            rng=rng,
            on_change=self._on_change,
            journal=journal,
            open_log=open_log,
        )
        self.nodes = self.topology.nodes
        self.topics = self.topology.topics
        self.groups = GroupCoordinator(
            rng=rng,
            settings=self.settings.groups,
            journal=journal,
            topics=self.topics,
        )
        self.transactions = TransactionCoordinator(
            rng=rng, settings=self.settings.transactions, journal=journal, ports=self
        )
        self.fetching = Fetching(self.topology, settings=self.settings, rng=rng)
        self.producing = Producing(self.topology, self.transactions)
        self._apis = Apis(
            topology=self.topology,
            settings=self.settings,
            groups=self.groups,
            transactions=self.transactions,
            fetching=self.fetching,
            producing=self.producing,
            ports=self,
        )
        if kept:
            self._restore(kept)

    def _restore(self, kept: Mapping[tuple[str, tuple[str | int, ...]], Any]) -> None:
        self.topology.restore(kept)
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
        """Do what is due: answer requests whose wait is over, expire sessions, delete old records,
        compact topics."""
        self.now = max(self.now, now)
        self.fetching.waiting.tick(now)
        self.producing.waiting.tick(now)
        if self.groups.wake_at() <= now:
            self.groups.tick(now)
        if self.transactions.wake_at() <= now:
            self.transactions.tick(now)
        self.topology.drop_laggards(now)
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
            self.topology.drops_laggards_at(),
        )

    def forget(self, which: Callable[[Call], bool]) -> None:
        """The clients of these calls have disconnected: do not wait for records for them."""
        self.fetching.waiting.forget(which)
        self.producing.waiting.forget(which)

    def _on_change(self, partition: Partition) -> None:
        self._changed[partition.topic, partition.index] = None

    def _progress(self) -> None:
        """Handle the requests again that waited for a change of a partition."""
        while self._changed:
            changed, self._changed = self._changed, {}
            for place in changed:
                self.producing.waiting.changed(place)
                self.fetching.waiting.changed(place)

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic, as `CreateTopics` would. Raises Refused."""
        return self.make_topic(
            name, self.topology.assignment(partitions, replication), configs or {}
        )

    def auto_create_topic(self, name: str) -> Topic:
        """The topic that a client asked for, or an internal one. Raises Refused."""
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
        topic = self.topology.make_topic(name, assignment, configs)
        self.groups.topics_changed(self.now)
        return topic

    def grow_topic(self, topic: Topic, assignment: Sequence[tuple[int, ...]], now: float) -> None:
        """More partitions, with these replicas."""
        self.topology.grow_topic(topic, assignment)
        self.groups.topics_changed(now)

    def delete_topic(self, topic: Topic, now: float) -> None:
        """Delete a topic, with its records and the committed offsets of all groups."""
        self.topology.delete_topic(topic)
        self.groups.topic_deleted(topic.name, topic.topic_id, now)
        self.groups.topics_changed(now)
        self._progress()

    def retain(self, now: float) -> None:
        """Apply retention by time and size to all topics now."""
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.log.retain(now):
                    partition.settle()

    def compact(self, now: float) -> None:
        """Run the log cleaner on all compacted topics now."""
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.log.compact(now):
                    partition.settle()

    # -- coordinators

    def coordinator(self, topic: str, key: str) -> Node | None:
        """The coordinator of this group (`__consumer_offsets`) or transactional id, or None."""
        if self.topics.get(topic) is None:
            self.auto_create_topic(topic)
        return self.topology.leader_of_key(topic, key)

    def coordinates(self, node: int, topic: str, key: str) -> bool:
        """Whether this broker coordinates this group or transactional id."""
        found = self.coordinator(topic, key)
        return found is not None and found.node_id == node

    # -- what the transaction coordinator does to partitions and groups

    def partition_exists(self, topic: str, partition: int) -> bool:
        """Whether the partition exists."""
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
        """Write the end of a transaction to one partition; returns whether that was possible."""
        found = self.topics.partition(topic, partition)
        if found is None:
            return True  # the partition was deleted: nothing is left to end
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
        """The transaction has ended: its offsets become the group's, or are dropped."""
        self.groups.end_transaction(group_id, producer_id, commit, now)

    def append(self, topic: str, partition: int, batch: bytes, now: float) -> Appended | None:
        """Append a batch from outside, without a producer; None if the partition has no leader.

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
        """A broker is down: other brokers lead its partitions and coordinate its groups."""
        if not self.nodes[node_id].up:
            return
        self.forget(lambda call: call.node == node_id)
        self.fetching.restarted(node_id)
        self.broker_fenced(node_id, now)

    def broker_fenced(self, node_id: int, now: float) -> None:
        """The controller does not hear of a broker that runs: other brokers lead its partitions and
        coordinate its groups, and it answers the requests that wait there."""
        if self.nodes[node_id].up:
            self._moved(self.topology.node_down(node_id), now)

    def broker_silent(self, node_id: int, now: float) -> None:
        """A broker does not answer, and its session has not ended yet. Its partitions and groups
        stand still, and it does not replicate: a Produce with acks=all waits for it."""
        self.topology.node_silent(node_id)
        self.groups.coordinator_silent(self.topology.keys_led_by(GROUP_OFFSETS, node_id))

    def broker_up(self, node_id: int, now: float) -> None:
        """The broker answers again, and replicates what it missed."""
        was_silent = self.nodes[node_id].up
        self._moved(self.topology.node_up(node_id), now)
        if was_silent:
            self.groups.coordinator_back(self.topology.keys_led_by(GROUP_OFFSETS, node_id))

    def move_leader(
        self, topic: str, partition: int, to: int | None, now: float, *, unclean: bool = False
    ) -> int:
        """Let another replica lead, by default the next in sync; the new leader.

        Raises ValueError if it can't.
        """
        found = self.topology.partition(topic, partition)
        self.now = max(self.now, now)
        self._moved(self.topology.move_leader(found, to, unclean=unclean), now)
        return found.leader

    def reassign(self, partition: Partition, replicas: tuple[int, ...], now: float) -> None:
        """Give a partition these replicas. Those that are new must be up."""
        self._moved(self.topology.reassign(partition, replicas), now)
        self.topics.moved(partition.topic)

    def move_coordinator(self, topic: str, key: str, to: int | None, now: float) -> int:
        """Let another broker coordinate this group or transactional id; the new coordinator."""
        self.coordinator(topic, key)
        return self.move_leader(topic, self.topology.partition_of_key(topic, key), to, now)

    def hold_replica(self, topic: str, partition: int, node: int) -> None:
        """A follower stops fetching, and is out of sync when `replica_lag_max` has passed.

        Raises ValueError if it is no follower of this partition.
        """
        self.topology.hold_replica(topic, partition, node)

    def release_replica(self, topic: str, partition: int, node: int) -> None:
        """The follower fetches again. Raises ValueError if there is no such partition."""
        self.topology.release_replica(topic, partition, node)
        self._progress()

    def _moved(self, moved: Moved, now: float) -> None:
        """Tell the coordinators whose groups and transactional ids have another broker now, and
        the requests that waited for the partitions."""
        self.now = max(self.now, now)
        for name, coordinator in (
            (GROUP_OFFSETS, self.groups),
            (TRANSACTION_STATE, self.transactions),
        ):
            if name in moved:
                coordinator.coordinator_moved(self.topology.keys_in(name, moved[name]), now)
        self._progress()
