"""The cluster's topics: names, ids, partitions and their replicas. What a controller keeps."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from aktor.broker.call import Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.partition import NO_LEADER, Partition

__all__ = ["GROUP_OFFSETS", "INTERNAL_TOPICS", "TRANSACTION_STATE", "Topic", "Topics", "check_name"]

#: Kafka's own topics. Here they hold no records: they only decide the coordinators.
GROUP_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_OFFSETS, TRANSACTION_STATE})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_NAME: Final = 249

#: Makes a partition's log: topic id, partition, config.
MakeLog = Callable[[UUID, int, LogConfig], PartitionLog]


def check_name(name: str) -> None:
    """Raises Refused(INVALID_TOPIC_EXCEPTION) with Kafka's reasons (Topic.validate)."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = "'.' or '..' is not allowed"
    elif len(name) > _LONGEST_NAME:
        why = f"the length of '{name}' is longer than the max allowed length {_LONGEST_NAME}"
    elif not _LEGAL.fullmatch(name):
        why = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return
    raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


class Topic:
    """A topic; `configs` are those that were set, by Kafka's names."""

    __slots__ = ("configs", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, configs: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions: list[Partition] = []

    @property
    def internal(self) -> bool:
        """Whether it is Kafka's own."""
        return self.name in INTERNAL_TOPICS


class Topics:
    """All topics; a `TopicsView` for the groups."""

    def __init__(
        self,
        *,
        rng: random.Random,
        make_log: MakeLog,
        on_change: Callable[[Partition], None],
        defaults: Mapping[str, str],
        journal: Journal | None = None,
    ) -> None:
        self._rng = rng
        self._make_log = make_log
        self._on_change = on_change
        self._defaults = dict(defaults)
        self._journal = journal or NoJournal()
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        #: Names of topics that clients may not READ: Fetch and commits are refused.
        self.forbidden: set[str] = set()
        #: Names that clients may not DESCRIBE, whether there is such a topic or not.
        self.hidden: set[str] = set()
        self.version = 0
        self._next_replica = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    # -- what is there

    def names(self) -> tuple[str, ...]:
        """All topics, sorted."""
        return tuple(sorted(self._by_name))

    def get(self, name: str | None, topic_id: UUID | None = None) -> Topic | None:
        """By name, or by id if there is no name."""
        if name:
            return self._by_name.get(name)
        return self._by_id.get(topic_id) if topic_id is not None else None

    def topic_id(self, name: str) -> UUID | None:
        """The id of the topic that has this name now."""
        topic = self._by_name.get(name)
        return topic.topic_id if topic else None

    def name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, None if it is gone."""
        topic = self._by_id.get(topic_id)
        return topic.name if topic else None

    def partitions(self, name: str) -> int:
        """How many partitions it has; 0 if there is no such topic."""
        topic = self._by_name.get(name)
        return len(topic.partitions) if topic else 0

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, None if it is not there."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    # -- what changes

    def create(
        self, name: str, assignment: Sequence[tuple[int, ...]], configs: Mapping[str, str]
    ) -> Topic:
        """A new topic with these replicas per partition."""
        topic = Topic(name, self.new_id(), dict(configs))
        self._add_partitions(topic, assignment)
        self._add(topic)
        self._changed(topic)
        return topic

    def new_id(self) -> UUID:
        """An id for a topic."""
        return UUID(int=self._rng.getrandbits(128), version=4)

    def grow(self, topic: Topic, assignment: Sequence[tuple[int, ...]]) -> None:
        """More partitions, with these replicas."""
        self._add_partitions(topic, assignment)
        self._changed(topic)

    def delete(self, topic: Topic) -> None:
        """It is deleted, and its records; requests that wait for them are answered."""
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self.version += 1
        self._journal.put("topic", (topic.name,), None)
        for partition in topic.partitions:
            partition.leader = NO_LEADER
            partition.log.destroy()
            self._on_change(partition)

    def close(self) -> None:
        """Give back what the logs have of the operating system."""
        for topic in self:
            for partition in topic.partitions:
                partition.log.close()

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace what was set."""
        topic.configs = dict(configs)
        for partition in topic.partitions:
            partition.log.config = self._log_config(topic)
            partition.min_insync = self._min_insync(topic)
            partition.unclean = self._unclean(topic)
            partition.settle()
        self._changed(topic)

    def moved(self, topic: str) -> None:
        """Leaders changed: keep it."""
        if found := self._by_name.get(topic):
            self._changed(found, version=False)

    def assign(
        self, partitions: int, replication: int, nodes: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """Replicas for new partitions: leaders in turn, followers after them."""
        start = self._next_replica
        self._next_replica += partitions
        return [
            tuple(nodes[(start + index + step) % len(nodes)] for step in range(replication))
            for index in range(partitions)
        ]

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic

    def _add_partitions(self, topic: Topic, assignment: Sequence[tuple[int, ...]]) -> None:
        for replicas in assignment:
            topic.partitions.append(self._partition(topic, replicas))

    def _partition(
        self, topic: Topic, replicas: Sequence[int], leader: int | None = None, epoch: int = 0
    ) -> Partition:
        """The next partition of a topic."""
        index = len(topic.partitions)
        log = self._make_log(topic.topic_id, index, self._log_config(topic))
        return Partition(
            topic=topic.name,
            index=index,
            replicas=tuple(replicas),
            log=log,
            on_change=self._on_change,
            min_insync=self._min_insync(topic),
            unclean=self._unclean(topic),
            leader=leader,
            leader_epoch=max(epoch, log.latest_epoch + 1),
        )

    def _log_config(self, topic: Topic) -> LogConfig:
        return LogConfig.of(self._defaults | topic.configs)

    def _min_insync(self, topic: Topic) -> int:
        return int((self._defaults | topic.configs).get("min.insync.replicas", 1))

    def _unclean(self, topic: Topic) -> bool:
        configs = self._defaults | topic.configs
        return configs.get("unclean.leader.election.enable", "false").lower() == "true"

    def _changed(self, topic: Topic, *, version: bool = True) -> None:
        if version:
            self.version += 1
        self._journal.put(
            "topic",
            (topic.name,),
            {
                "id": topic.topic_id.hex,
                "configs": topic.configs,
                "partitions": [
                    [list(partition.replicas), partition.leader, partition.leader_epoch]
                    for partition in topic.partitions
                ],
            },
        )

    def restore(self, name: str, value: Any) -> None:
        """A topic as it was kept, its leaders elected anew; its logs read what they have."""
        topic = Topic(name, UUID(hex=value["id"]), dict(value["configs"]))
        for replicas, leader, epoch in value["partitions"]:
            known = leader if leader != NO_LEADER else None
            topic.partitions.append(self._partition(topic, replicas, known, epoch + 1))
        self._add(topic)
        self.version += 1
        self._next_replica += len(topic.partitions)
