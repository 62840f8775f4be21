"""The ids of the topics that are read: a topic that is deleted and created again gets another."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aktor.consumer.core.port import ApplicationPort
from aktor.events.metadata import Cluster

__all__ = ["TopicIds"]


class TopicIds:
    """Owns the ids of the topics that are read, and the last cluster that was acted on."""

    __slots__ = ("_ids", "_port", "followed")

    def __init__(self, port: ApplicationPort) -> None:
        self._port = port
        self._ids: dict[str, object] = {}
        #: The cluster whose changes were acted on.
        self.followed: Cluster | None = None

    def created_anew(self) -> tuple[Cluster, Mapping[str, object]]:
        """The latest cluster, and the topics that have another id in it than we know, each with its
        new id."""
        cluster = self._port.cluster
        anew = {
            topic: info.topic_id
            for topic, was in self._ids.items()
            if (info := cluster.topics.get(topic)) and info.topic_id not in (None, was)
        }
        return cluster, anew

    def learn(self, ids: Mapping[str, object]) -> None:
        """From now on these are the topics' ids."""
        self._ids.update(ids)

    def note(self, read: Collection[str]) -> None:
        """These topics are read. For each topic keep the first id that the metadata told."""
        topics = self._port.cluster.topics
        ids = {
            topic: self._ids.get(topic) or (topics[topic].topic_id if topic in topics else None)
            for topic in read
        }
        self._ids = {topic: known for topic, known in ids.items() if known is not None}

    def follow(self, cluster: Cluster) -> None:
        """The changes of this cluster were acted on."""
        self.followed = cluster
