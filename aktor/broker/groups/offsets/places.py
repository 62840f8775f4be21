"""The topics and partitions that a request about offsets names, and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aktor.broker.codes import Code
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["Asked", "AskedTopic", "look_up"]


@dataclass(slots=True)
class Asked:
    """A partition in a request, and the code to answer for it."""

    request: Any
    index: int
    code: Code


@dataclass(slots=True)
class AskedTopic:
    """A topic in a request, under the name and the id it has now."""

    request: Any
    name: str
    topic_id: str
    partitions: list[Asked]

    def good(self) -> Iterator[Asked]:
        """The partitions of which nothing bad is known so far."""
        return (partition for partition in self.partitions if partition.code is Code.NONE)


def look_up(topics: TopicsView, asked: list[Any], *, by_id: bool = False) -> list[AskedTopic]:
    """Find the topics of a request in the cluster, by name or by id (KIP-848).

    Partitions of an unknown topic, and those it does not have, get the code that says so.
    """
    return [_look_up(topics, topic, by_id=by_id) for topic in asked]


def _look_up(topics: TopicsView, asked: Any, *, by_id: bool) -> AskedTopic:
    if by_id:
        name = topics.name(asked.topic_id) if asked.topic_id is not None else None
        missing = Code.UNKNOWN_TOPIC_ID
    else:
        name, missing = asked.name, Code.UNKNOWN_TOPIC_OR_PARTITION
    count = topics.partitions(name) if name is not None else 0
    topic_id = topics.topic_id(name) if name is not None else None
    partitions = []
    for partition in asked.partitions:
        if 0 <= partition.partition_index < count:
            code = Code.NONE
        else:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if count else missing
        partitions.append(Asked(request=partition, index=partition.partition_index, code=code))
    return AskedTopic(
        request=asked,
        name=name or "",
        topic_id=topic_id.hex if topic_id is not None else "",
        partitions=partitions,
    )
