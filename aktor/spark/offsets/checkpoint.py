"""Offsets as they stand in a checkpoint: `{"orders": {"0": 23}}`, as in Spark's own source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.structs import TopicPartition

from aktor.errors import ConfigurationError
from aktor.spark.offsets.bounds import Offsets

__all__ = ["START", "from_json", "start_of", "to_json"]

#: In the end of a batch: where the batch begins, for the partitions that do not begin at the end
#: of the batch before it. Spark's log has only the ends of batches. So a query that begins at
#: "latest" and is killed in its first batch would begin again at a later "latest", and the records
#: between the two would be lost. No topic can have this name.
START: Final = "@start"


def to_json(
    offsets: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int] | None = None
) -> dict[str, Any]:
    """The offsets, sorted: Spark compares texts to see whether there is anything new."""
    found: dict[str, Any] = {}
    for offset in sorted(offsets):
        found.setdefault(offset.topic, {})[str(offset.partition)] = offsets[offset]
    if start:
        found[START] = to_json(start)
    return found


def from_json(value: Mapping[str, Any]) -> Offsets:
    """The offsets in a checkpoint of this source, or of Spark's own source.

    Raises ConfigurationError if the checkpoint is damaged, or is one of another source.
    """
    try:
        found = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in value.items()
            if topic != START
            for partition, offset in partitions.items()
        }
        sound = all(
            partition.partition >= 0 and type(offset) is int and offset >= 0
            for partition, offset in found.items()
        )
    except (AttributeError, TypeError, ValueError):
        found, sound = {}, False
    if not sound:
        raise ConfigurationError(
            "the checkpoint has offsets that are not those of a Kafka source, or it is damaged:"
            f" {value!r}; use another checkpointLocation"
        )
    return found


def start_of(value: Mapping[str, Any]) -> Offsets:
    """Where the batch with this end begins, for the partitions for which the end says it."""
    return from_json(value.get(START) or {})
