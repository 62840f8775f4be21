"""Partitions as requests and sentences have them: by topic, and by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafka.structs import TopicPartition

__all__ = ["by_topic", "first_of", "listed", "name_of_partition"]

#: So many names a sentence has.
_NAMED: Final = 5


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def name_of_partition(partition: TopicPartition) -> str:
    """As Kafka's tools write it: "orders-0"."""
    return f"{partition.topic}-{partition.partition}"


def listed(partitions: Iterable[TopicPartition]) -> str:
    """The first five names, and how many more there are."""
    return first_of([name_of_partition(partition) for partition in sorted(partitions)])


def first_of(names: Sequence[str]) -> str:
    """The first five, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
