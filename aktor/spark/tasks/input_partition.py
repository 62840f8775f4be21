"""The partition of a Spark job: the ranges of offsets that one task reads."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from aktor.spark.offsets.ranges import OffsetRange

__all__ = ["RangesPartition"]


class RangesPartition(InputPartition):
    """The ranges of one task. Nothing in it is secret."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(tuple(ranges))

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """What the task reads."""
        found: tuple[OffsetRange, ...] = self.value
        return found

    def __repr__(self) -> str:
        return f"RangesPartition({'; '.join(map(str, self.ranges))})"
