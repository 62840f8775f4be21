"""The limits of a micro-batch: how much of the backlog it reads, and when it may begin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka.structs import TopicPartition

from aktor.spark.offsets.bounds import Offsets

__all__ = ["Delay", "limited"]


def limited(
    begins: Mapping[TopicPartition, int],
    ends: Offsets,
    limit: float,
    weight: Callable[[TopicPartition], float] = lambda _: 1.0,
) -> Offsets:
    """The ends of a batch of about `limit`, which is shared in proportion to the backlog of each
    partition. `weight` is what one offset of a partition counts (1: offsets; its size: bytes).

    A partition with a backlog gets at least one offset. After Spark's KafkaMicroBatchStream.
    """
    sizes = {
        partition: (end - begins[partition]) * weight(partition)
        for partition, end in ends.items()
        if end > begins[partition]
    }
    total = sum(sizes.values())
    if total <= limit:
        return ends
    found = dict(ends)
    for partition, size in sizes.items():
        part = limit * (size / total) / weight(partition)
        share = math.ceil(part) if part < 1 else math.floor(part)
        found[partition] = min(ends[partition], begins[partition] + share)
    return found


@dataclass(slots=True, kw_only=True)
class Delay:
    """Owns the time of the last batch. The next batch waits for `minimum` offsets
    (`minOffsetsPerTrigger`), but at most for `longest` seconds (`maxTriggerDelay`)."""

    minimum: int
    longest: float
    since: float = -math.inf

    def holds(self, begins: Mapping[TopicPartition, int], ends: Offsets, now: float) -> bool:
        """Whether the backlog is too small for a batch yet."""
        new = sum(max(0, end - begins[partition]) for partition, end in ends.items())
        if now - self.since < self.longest and new < self.minimum:
            return True
        self.since = now
        return False
