"""What each commit says of its topic, so that a later member knows which partitions are new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.metadata import Cluster
from aktor.managers.commits.requests import Offsets
from aktor.protocol.commit_note import count_in, has_room, note_of
from aktor.settings import Settings

__all__ = ["CommitNotes"]


class CommitNotes:
    """Owns how many partitions each topic had when a member of the group began to follow it.

    It is the least that is known: what our own metadata has shown, and the notes that come with
    committed offsets. The count in a note is never raised: the note that a commit replaces may be
    the only one with the lower count.
    """

    def __init__(self, settings: Settings) -> None:
        self._writes = settings.reads_new_partitions_from_start
        self._counts: dict[str, int] = {}
        self._topic_ids: dict[str, Any] = {}

    def follow(self, cluster: Cluster) -> None:
        """The metadata has changed. A topic that was created anew has nothing of the old one."""
        if not self._writes:
            return
        kept = cluster.topics.keys() | cluster.unknown
        self._counts = {topic: count for topic, count in self._counts.items() if topic in kept}
        for topic, info in cluster.topics.items():
            was = self._topic_ids.get(topic)
            if None not in (was, info.topic_id) and was != info.topic_id:
                self._counts.pop(topic, None)
            if info.had is not None:
                self._learn(topic, info.had)
        self._topic_ids = {
            **{topic: was for topic, was in self._topic_ids.items() if topic in kept},
            **{topic: info.topic_id for topic, info in cluster.topics.items()},
        }

    def found(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """These offsets are committed."""
        for partition, value in offsets.items():
            count = None if value is None or not self._writes else count_in(value.metadata)
            if count is not None:
                self._learn(partition.topic, count)

    def are_refused(self, offsets: Offsets) -> bool:
        """The broker has refused the metadata of these offsets as too long. True if it was our
        note: no notes are written any more."""
        refused = bool(self._counts) and all(has_room(value) for value in offsets.values())
        if refused:
            self._writes = False
            self._counts.clear()
        return refused

    def _learn(self, topic: str, count: int) -> None:
        self._counts[topic] = min(count, self._counts.get(topic, count))

    def annotated(self, offsets: Offsets) -> Offsets:
        """These offsets, with notes where the application gives no metadata."""
        if not self._counts:
            return offsets
        return {
            partition: value._replace(metadata=note_of(self._counts[partition.topic]))
            if partition.topic in self._counts and has_room(value)
            else value
            for partition, value in offsets.items()
        }
