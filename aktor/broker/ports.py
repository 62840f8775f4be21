"""What handlers of requests change that others in the cluster must hear of: groups, transactional
ids, and requests that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from aktor.broker.partition import Partition
from aktor.broker.topics import Topic
from aktor.broker.topology import Node

__all__ = ["Coordinators", "LeaderChanges", "Ports", "TopicChanges"]


class TopicChanges(Protocol):
    """Groups that subscribe to the topics are told."""

    def auto_create_topic(self, name: str) -> Topic:
        """A topic that a client asked for; Kafka's own are made as needed. Raises Refused."""

    def make_topic(
        self, name: str, assignment: Sequence[tuple[int, ...]], configs: Mapping[str, str]
    ) -> Topic:
        """A topic with these replicas."""

    def grow_topic(self, topic: Topic, assignment: Sequence[tuple[int, ...]], now: float) -> None:
        """More partitions, with these replicas."""

    def delete_topic(self, topic: Topic, now: float) -> None:
        """Its records, and the offsets that groups committed in it, are gone."""


class LeaderChanges(Protocol):
    """Requests that wait for the partitions are tried again, and coordinators told if the
    partitions are those of Kafka's own topics."""

    def move_leader(
        self, topic: str, partition: int, to: int | None, now: float, *, unclean: bool = False
    ) -> int:
        """Let another replica lead; the new leader. Raises ValueError if it can't."""

    def reassign(self, partition: Partition, replicas: tuple[int, ...], now: float) -> None:
        """Let a partition have these replicas, of which those that it has not had are up."""


class Coordinators(Protocol):
    """Kafka's own topics decide the coordinators; asking for one makes its topic."""

    def coordinator(self, topic: str, key: str) -> Node | None:
        """The coordinator of this group (`__consumer_offsets`) or transactional id, or None."""

    def coordinates(self, node: int, topic: str, key: str) -> bool:
        """Whether this broker coordinates this group or transactional id."""


class Ports(TopicChanges, LeaderChanges, Coordinators, Protocol):
    """The cluster behind the handlers."""
