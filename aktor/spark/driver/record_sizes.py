"""How many bytes an offset of each topic takes, for `maxBytesPerTrigger`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafka.structs import TopicPartition

from aktor.spark.offsets.bounds import Offsets

__all__ = ["RecordSizes"]

#: How long an estimate is good, in seconds.
_AGE: Final = 60.0

#: Bytes per offset of a topic as long as no sample of it could be taken.
_UNKNOWN: Final = 1_000.0


class RecordSizes:
    """Owns the estimate for each topic, and when it was made. `sample` reads some records from an
    offset on; None if there are none now."""

    def __init__(
        self,
        sample: Callable[[TopicPartition, int], float | None],
        clock: Callable[[], float],
    ) -> None:
        self._sample = sample
        self._clock = clock
        self._sizes: dict[str, tuple[float, float]] = {}

    def of_backlog(
        self, begins: Mapping[TopicPartition, int], ends: Offsets
    ) -> Mapping[str, float]:
        """The estimate for each topic: a sample of the partition with the longest backlog, taken
        anew after a minute. If the sample fails, the estimate is the one before, or 1 kB."""
        now = self._clock()
        longest: dict[str, TopicPartition] = {}
        for partition in sorted(ends, key=lambda partition: ends[partition] - begins[partition]):
            longest[partition.topic] = partition
        for topic, partition in longest.items():
            _, at = self._sizes.get(topic, (_UNKNOWN, -_AGE))
            if ends[partition] > begins[partition] and now - at >= _AGE:
                sampled = self._sample(partition, begins[partition])
                if sampled is not None:
                    self._sizes[topic] = sampled, now
        return {topic: self._sizes.get(topic, (_UNKNOWN, now))[0] for topic in longest}
