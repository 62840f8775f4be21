"""The tasks of a batch: which offsets each reads. After Spark's KafkaOffsetRangeCalculator."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka.structs import TopicPartition

__all__ = ["OffsetRange", "RangeLimits", "name_of", "tasks"]


def name_of(partition: TopicPartition) -> str:
    """As Kafka writes it: orders-0."""
    return f"{partition.topic}-{partition.partition}"


class OffsetRange(NamedTuple):
    """Offsets of a partition; `end` is not included. `topic_id` is the topic's when it was planned,
    or None if brokers do not tell (KIP-516)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLimits:
    """`min_partitions` splits big ranges, `max_records` ranges above that size; `max_partitions`
    (not in Spark's source) lets a task read several ranges."""

    min_partitions: int | None = None
    max_records: int | None = None
    max_partitions: int | None = None


def tasks(ranges: Iterable[OffsetRange], limits: RangeLimits) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task. Empty ranges are in none."""
    found = [span for span in ranges if span.size > 0]
    if limits.max_records is not None:
        most = limits.max_records
        found = [part for span in found for part in _split(span, -(-span.size // most))]
    if limits.min_partitions is not None and len(found) < limits.min_partitions:
        found = _split_in_proportion(found, limits.min_partitions)
    if limits.max_partitions is None or len(found) <= limits.max_partitions:
        return [(span,) for span in found]
    return _joined(found, limits.max_partitions)


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """The range in so many parts, but at most one for each offset. If the sizes differ by one, the
    last parts are the bigger ones."""
    parts = min(parts, whole.size)
    found = []
    start = whole.start
    for part in range(parts):
        size = (whole.end - start) // (parts - part)
        found.append(whole._replace(start=start, end=start + size))
        start += size
    return found


def _split_in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Big ranges in parts, so that there are about `wanted`; the small ones stay whole and are not
    counted in the proportion."""
    total = sum(span.size for span in ranges)
    whole = {span for span in ranges if _parts(span.size, total, wanted) == 1}
    rest = total - sum(span.size for span in whole)
    left = max(wanted - len(whole), 1)
    return [
        part
        for span in ranges
        for part in _split(span, 1 if span in whole else _parts(span.size, rest, left))
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    # Java's Math.round, which takes halves up.
    return max(int(size / total * wanted + 0.5), 1)


def _joined(ranges: Sequence[OffsetRange], most: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges in so many tasks, the biggest first, each into the task that has least."""
    bins: list[list[OffsetRange]] = [[] for _ in range(most)]
    by_size = [(0, number) for number in range(most)]
    for span in sorted(ranges, key=lambda span: -span.size):
        size, least = by_size[0]
        bins[least].append(span)
        heapq.heapreplace(by_size, (size + span.size, least))
    return [tuple(sorted(task)) for task in bins if task]
