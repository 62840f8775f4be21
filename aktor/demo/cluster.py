"""The Kafka of the demo: what it needs of one, asked with kafka-python, not with aktor."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

__all__ = ["Cluster", "ClusterError"]

CONNECT_TIMEOUT_MS = 8_000
DELETE_TIMEOUT_S = 10
RETRY_S = 0.3


class ClusterError(RuntimeError):
    """Kafka can't be reached or refuses what the demo needs; the message is one line."""


class Cluster:
    """A connection to Kafka for making a topic, and for asking what a group has committed."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap = list(bootstrap)
        # What goes wrong is raised; its own words on standard error would spoil the view.
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        try:
            self._admin: Any = KafkaAdminClient(
                bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=CONNECT_TIMEOUT_MS
            )
        except (KafkaError, ValueError) as error:
            raise ClusterError(
                f"no Kafka answers at {','.join(self.bootstrap)}: check --bootstrap ({error})"
            ) from error

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait for its leaders."""
        wanted = {"num_partitions": partitions, "replication_factor": -1}
        try:
            self._admin.create_topics({name: wanted}, wait_for_metadata=True)
        except KafkaError as error:
            raise ClusterError(f"the topic {name} can't be created: {error}") from error

    def lag(self, group: str, topic: str, partitions: int) -> int | None:
        """How many records of the topic the group has not committed; None if nobody answers."""
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        try:
            ends = self._admin.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))
            committed = self._admin.list_group_offsets(group)[group]
        except KafkaError:
            return None
        read = {one: offset.offset for one, offset in committed.items()}
        lag: int = sum(ends[one].offset - max(0, read.get(one, 0)) for one in wanted)
        return lag

    def clean_up(self, group: str, topic: str) -> list[str]:
        """Delete the group and the topic. Returns what is left over, for the user to delete."""
        left = []
        if not _persist(lambda: self._delete_group(group)):
            left.append(f"group {group}")
        if not _persist(lambda: self._delete_topic(topic)):
            left.append(f"topic {topic}")
        return left

    def _delete_group(self, group: str) -> bool:
        return self._admin.delete_groups([group])[group] in ("OK", "GroupIdNotFoundError")

    def _delete_topic(self, topic: str) -> bool:
        self._admin.delete_topics([topic])
        return True

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


def _persist(act: Callable[[], bool]) -> bool:
    """Try until it succeeds: a group can't be deleted while the session of a killed member runs."""
    deadline = time.monotonic() + DELETE_TIMEOUT_S
    while True:
        try:
            if act():
                return True
        except KafkaError:
            pass
        if time.monotonic() > deadline:
            return False
        time.sleep(RETRY_S)
