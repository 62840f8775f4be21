"""The brokers of a simulation: the embedded cluster's model, in virtual time.

What `broker.Cluster` is asked comes from the simulated network; here are its clock, the brokers
that come and go, and what a test may do to topics and groups from outside.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from aktor.broker.call import Call
from aktor.broker.cluster import Cluster, Node
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.log.records import build_batch
from aktor.broker.settings import ClusterSettings
from aktor.broker.topics import GROUP_OFFSETS
from aktor.simulation.history import History
from aktor.simulation.scheduler import Scheduler

__all__ = ["Brokers"]

#: Kafka's `broker.session.timeout.ms`: how long a crashed broker is still believed to be there.
SESSION: Final = 9.0

PORT: Final = 9092


class Brokers:
    """Owns the cluster's model, and which of its brokers run."""

    def __init__(
        self,
        count: int,
        *,
        seed: int,
        scheduler: Scheduler,
        history: History,
        settings: ClusterSettings | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._history = history
        self._commits = _Commits(history)
        self.model = Cluster(
            [Node(node_id=n, host=f"b{n}", port=PORT) for n in range(1, count + 1)],
            now=scheduler.now,
            settings=settings
            or ClusterSettings(
                offsets_topic_partitions=4,
                transactions_topic_partitions=2,
                retention_check=3600.0,
                groups=GroupSettings(initial_rebalance_delay=0.1),
            ),
            rng=random.Random(f"{seed} brokers"),
            journal=self._commits,
        )
        #: Brokers that run; one that does not answers nobody.
        self.running = set(self.model.nodes)
        #: Called with a broker's id when its process ends, and whether its sockets say so.
        self.on_end: list[Callable[[int, bool], None]] = []
        self._lives = dict.fromkeys(self.model.nodes, 1)
        self._tick_at = math.inf
        self._look_ahead()

    @property
    def bootstrap_servers(self) -> list[str]:
        """All of them."""
        return [f"{node.host}:{node.port}" for node in self.model.nodes.values()]

    def life(self, node: int) -> int:
        """Which process of this broker it is: a new one does not know the old one's connections."""
        return self._lives[node]

    # -- requests and time

    def receive(self, call: Call, api: str) -> None:
        """Hand a request to the model."""
        self.model.receive(call, api)
        self._look_ahead()

    def _tick(self) -> None:
        self._tick_at = math.inf
        self.model.tick(self._scheduler.now)
        self._look_ahead()

    def _look_ahead(self) -> None:
        wake_at = self.model.wake_at()
        if wake_at < self._tick_at:
            self._tick_at = wake_at
            self._scheduler.at(wake_at, self._tick)

    # -- brokers that come and go

    def crash(self, node: int, *, clean: bool = False, silent: bool = False) -> None:
        """Its process ends. `clean`: the others know at once; `silent`: its sockets say nothing
        (its machine is gone), so that clients are left with half-open connections."""
        if node not in self.running:
            return
        self.running.discard(node)
        self._lives[node] += 1
        life = self._lives[node]
        self._history.note("broker.crashed", broker=node, clean=clean, silent=silent)
        for act in self.on_end:
            act(node, silent)
        self.model.forget(lambda call: call.node == node)
        if clean:
            self.model.broker_down(node, self._scheduler.now)
        else:
            self.model.broker_silent(node, self._scheduler.now)
            self._scheduler.after(SESSION, lambda: self._give_up(node, life))
        self._look_ahead()

    def _give_up(self, node: int, life: int) -> None:
        if self._lives[node] == life and node not in self.running:
            self.model.broker_down(node, self._scheduler.now)
            self._look_ahead()

    def restart(self, node: int) -> None:
        """It is back."""
        if node in self.running:
            return
        now = self._scheduler.now
        self.model.broker_down(node, now)
        self.running.add(node)
        self._history.note("broker.restarted", broker=node)
        self.model.broker_up(node, now)
        self._look_ahead()

    # -- topics

    def create_topic(self, name: str, partitions: int) -> None:
        """A new topic, with a replica on every broker, up to three."""
        self._history.note("topic.created", topic=name, partitions=partitions)
        self.model.create_topic(name, partitions)
        self._look_ahead()

    def delete_topic(self, name: str) -> None:
        """It is gone, with all records."""
        topic = self.model.topics.get(name)
        if topic is not None:
            self._history.note("topic.removed", topic=name)
            self.model.delete_topic(topic, self._scheduler.now)
            self._look_ahead()

    def grow_topic(self, name: str, partitions: int) -> None:
        """More partitions."""
        topic = self.model.topics.get(name)
        if topic is None or partitions <= len(topic.partitions):
            return
        self._history.note("topic.grown", topic=name, partitions=partitions)
        more = self.model.assignment(partitions - len(topic.partitions), None)
        self.model.grow_topic(topic, more, self._scheduler.now)
        self._look_ahead()

    def write(self, topic: str, partition: int, values: Iterable[bytes]) -> int | None:
        """Append a batch as a producer with acks=all would; the offset after it, None if there is
        nobody to write to."""
        now = self._scheduler.now
        if self.leader(topic, partition) not in self.running:
            return None
        batch = build_batch([(None, value) for value in values], timestamp=int(now * 1000))
        appended = self.model.append(topic, partition, bytes(batch), now)
        self._look_ahead()
        assert appended is not None, "it has a leader"
        self._history.note(
            "records.written",
            partition=f"{topic}-{partition}",
            first=appended.base_offset,
            last=appended.last_offset,
        )
        return appended.last_offset + 1

    # -- leaders, coordinators, groups

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> None:
        """Another replica in sync leads, if one can."""
        self._move(lambda: self.model.move_leader(topic, partition, to, self._scheduler.now))

    def move_coordinator(self, group: str, to: int | None = None) -> None:
        """Another broker coordinates the group, if one can."""
        now = self._scheduler.now
        self._move(lambda: self.model.move_coordinator(GROUP_OFFSETS, group, to, now))

    def _move(self, act: Callable[[], int]) -> None:
        try:
            act()
        except ValueError:
            return  # nobody else is in sync
        self._look_ahead()

    def expire_somebody(self, group: str, draw: random.Random) -> None:
        """The coordinator has not heard of a member for too long."""
        members = self.model.groups.members(group)
        if members:
            some = draw.choice(sorted(members, key=lambda one: one.member_id))
            self._history.note("session.expired", group=group, client_id=some.client_id)
            self.model.groups.expire_session(group, some.member_id, self._scheduler.now)
            self._look_ahead()

    def members(self, group: str) -> set[str]:
        """The ids of the group's members, as its coordinator knows them."""
        return {one.member_id for one in self.model.groups.members(group)}

    def coordinator(self, group: str) -> int:
        """The broker that coordinates the group, -1 if none does."""
        node = self.model.coordinator(GROUP_OFFSETS, group)
        return -1 if node is None else node.node_id

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """What the group has committed."""
        return self._commits.latest.get((group, topic, partition))

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads, or would if it ran; -1 if none does."""
        found = self.model.topics.partition(topic, partition)
        return -1 if found is None else found.leader

    def note_ends(self, topic: str) -> None:
        """Say where the topic's logs begin and end: what was written beyond is not there."""
        found = self.model.topics.get(topic)
        for one in found.partitions if found is not None else ():
            self._history.note(
                "log.ends",
                partition=f"{topic}-{one.index}",
                start=one.log.start_offset,
                end=one.log.end_offset,
            )

    def end(self, topic: str, partition: int) -> int:
        """The high watermark."""
        found = self.model.topics.partition(topic, partition)
        return 0 if found is None else int(found.log.high_watermark)


class _Commits:
    """A journal that notes committed offsets in the history, and keeps the latest."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.latest: dict[tuple[str | int, ...], int] = {}

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        if kind != "offset":
            return
        if value is None:
            self.latest.pop(key, None)
        else:
            group, topic, partition = key
            self.latest[key] = value["offset"]
            self._history.note(
                "offset.committed",
                group=group,
                partition=f"{topic}-{partition}",
                offset=value["offset"],
            )
