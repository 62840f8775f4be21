"""The metadata conversation: what the cluster looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from kafka.structs import TopicPartition

from aktor.address import written
from aktor.events.message import Message
from aktor.values import Value


class Broker(Value):
    """Where a broker is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """As an error names it."""
        return f"broker {self.node_id} at {self.address}"

    @property
    def address(self) -> str:
        """As errors and traces have it."""
        return written(self.host, self.port)


class PartitionInfo(Value):
    """Who leads a partition; `leader` is -1 while there is none, `leader_epoch` -1 if unknown."""

    leader: int
    leader_epoch: int


class TopicInfo(Value):
    """A topic that exists: its id (None before Metadata v10) and its partitions."""

    topic_id: UUID | None
    partitions: Mapping[int, PartitionInfo]
    internal: bool = False
    #: How many partitions it had when we began to follow it; 0: it came into being since. None: it
    #: is not followed.
    had: int | None = field(default=None, compare=False)

    def has_gained(self, partition: int) -> bool:
        """Whether the partition came into being since we began to follow the topic."""
        return self.had is not None and partition >= self.had


class Cluster(Value):
    """The cluster as last heard of: a frozen snapshot; `version` grows with every change.

    `unknown` are topics that an owner needs (`TrackTopics`) and that the brokers do not know,
    `forbidden` those that we may not describe.
    """

    version: int = 0
    cluster_id: str | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def leader(self, topic: str, partition: int) -> PartitionInfo | None:
        """The partition's leader, or None if the partition is unknown or has none now."""
        info = self.topics.get(topic)
        found = info.partitions.get(partition) if info is not None else None
        return found if found is not None and found.leader >= 0 else None

    def topic_id(self, topic: str) -> UUID | None:
        """The topic's id, or None if the topic is unknown or the brokers tell no ids."""
        info = self.topics.get(topic)
        return None if info is None else info.topic_id

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Partition ids of a known topic, else None. (What kafka-python's assignors ask for.)"""
        info = self.topics.get(topic)
        return set(info.partitions) if info is not None else None


class TopicPattern(Value):
    """A pattern of topic names that we evaluate ourselves; `internal`: Kafka's own topics too."""

    pattern: re.Pattern[str]
    internal: bool = False

    def matches(self, topic: str, info: TopicInfo) -> bool:
        """Whether the pattern matches this topic."""
        return (self.internal or not info.internal) and self.pattern.match(topic) is not None


class TrackTopics(Message):
    """membership, application ▶ metadata: `owner` needs these topics from now on.

    Replaces what this owner asked for before; the union over the owners is kept fresh. With a
    `pattern` also all topics that it matches from their beginning, as they come and go.
    """

    owner: str
    topics: frozenset[str] = frozenset()
    pattern: TopicPattern | None = None


class RefreshMetadata(Message):
    """coordinator, membership, commits, positions, fetch ▶ metadata: the snapshot is stale (a
    leader moved, a partition is unknown).
    """

    because: str


class LeadersMoved(Message):
    """fetch ▶ metadata: a broker named new leaders in its answer (KIP-951), and where they are
    (`brokers`).

    `topic_ids` are the ids of these topics, as far as they are known: a topic that was created anew
    has other leaders.
    """

    leaders: Mapping[TopicPartition, PartitionInfo]
    topic_ids: Mapping[str, UUID | None]
    brokers: Mapping[int, Broker] = field(default_factory=dict)


class LeaderEpochsUnknown(Message):
    """positions, fetch ▶ metadata: the leaders of these partitions do not know the epochs that the
    metadata told (UNKNOWN_LEADER_EPOCH). No record that was read proves that there are such epochs.
    """

    epochs: Mapping[TopicPartition, int]
    now: float


class DescribeTopics(Message):
    """application ▶ metadata: ask a broker now; None means all topics.

    Answered with `{topic: TopicInfo}` of those that exist. Failed with
    `TopicAuthorizationFailedError` or `InvalidTopicError`, naming the topics.
    """

    ticket: int
    topics: frozenset[str] | None
    deadline: float


class NameTopics(Message):
    """membership ▶ metadata: look up the names of these topic ids, in place of those asked before.

    A broker assigns partitions by topic id (KIP-848), and may do so before it has described the
    topic to us. Asked until all are known.
    """

    topic_ids: frozenset[object]


class TopicsNamed(Message):
    """metadata ▶ membership: the names of topics, by their ids."""

    names: Mapping[object, str]


class ClusterChanged(Message):
    """metadata ▶ network, membership, commits, positions, fetch, application: the new snapshot."""

    cluster: Cluster


class TopicsRefused(Message):
    """metadata ▶ application: tracked topics cannot be read; raise this from `poll`.

    `error` is a `TopicAuthorizationFailedError`, an `InvalidTopicError`, or an
    `UnknownTopicOrPartitionError` for a topic that never existed; told once per topic and error.
    """

    topics: frozenset[str]
    error: Exception
