"""Which offsets of each partition conditions leave to read. The conditions themselves stay.

Only the lower end of a time cuts a range. Kafka tells the first offset whose record is that young
(ListOffsets), so that all records before it are older. After it there may be older ones, too: times
of records may be out of order. So an upper end of a time cuts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from aktor.spark.filters.conditions import (
    All,
    Any_,
    Compare,
    Condition,
    Constant,
    Fixed,
    OneOf,
    columns_of,
)
from aktor.spark.offsets.bounds import LookUps
from aktor.spark.offsets.ranges import OffsetRange

__all__ = ["pruned"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE: Final = {"topic", "partition"}


class _Interval(NamedTuple):
    """Whole numbers from `least` to `most`, both included. It is empty if least > most."""

    least: float | int
    most: float | int


_ALL: Final = _Interval(float("-inf"), float("inf"))
_NONE: Final = _Interval(float("inf"), float("-inf"))


def pruned(
    ranges: Sequence[OffsetRange], conditions: Collection[Condition], cluster: LookUps
) -> list[OffsetRange]:
    """The ranges, shorter where the conditions on topic, partition, offset and timestamp cannot be
    true. Ranges that are not needed at all are empty."""
    if not conditions:
        return list(ranges)
    all_of_them = All(tuple(conditions))
    found = []
    times = {}
    for span in ranges:
        offsets = _interval(all_of_them, "offset", int, span)
        start, end = max(span.start, offsets.least), min(span.end, offsets.most + 1)
        ages = _interval(all_of_them, "timestamp", _microseconds, span)
        if start >= end or ages.least > ages.most:
            start = end = span.start
        elif ages.least != _ALL.least:
            # Records have times in milliseconds; that of the first one must not be earlier.
            times[span.topic_partition] = max(0, -(-int(ages.least) // 1000))
        found.append(span._replace(start=int(start), end=int(end)))
    if not times:
        return found
    first = cluster.offsets_for_times(times)
    return [
        _from(span, first.get(span.topic_partition)) if span.topic_partition in times else span
        for span in found
    ]


def _from(span: OffsetRange, first: Any) -> OffsetRange:
    """The part that begins with the first record of the time; there may be none so young."""
    start = span.end if first is None else min(span.end, max(span.start, first.offset))
    return span._replace(start=start)


def _microseconds(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1)


def _interval(
    condition: Condition, name: str, number: Callable[[Any], int], span: OffsetRange
) -> _Interval:
    """Outside of which values of this column the condition is not true, in this partition."""

    def of(part: Condition) -> _Interval:
        if isinstance(part, All):
            each = [of(one) for one in part.parts]
            return _Interval(max(i.least for i in each), min(i.most for i in each))
        if isinstance(part, Any_):
            each = [found for found in map(of, part.parts) if found.least <= found.most]
            if not each:
                return _NONE
            return _Interval(min(i.least for i in each), max(i.most for i in each))
        if isinstance(part, Constant):
            return _ALL if part.value else _NONE
        names = columns_of(part)
        if names <= _PLACE:
            return _ALL if _is_true(part, span) else _NONE
        if names != {name}:
            return _ALL
        if isinstance(part, Fixed):
            return _ALL if part.value else _NONE
        if isinstance(part, OneOf):
            numbers = [number(value) for value in part.values]
            return _Interval(min(numbers), max(numbers))
        if isinstance(part, Compare) and part.cast is None:
            return _compared(part.sign, number(part.value))
        return _ALL

    return of(condition)


def _compared(sign: str, value: int) -> _Interval:
    least, most = _ALL
    if sign in ("=", ">=", ">"):
        least = value + (sign == ">")
    if sign in ("=", "<=", "<"):
        most = value - (sign == "<")
    return _Interval(least, most)


def _is_true(condition: Condition, span: OffsetRange) -> bool:
    arrays = {
        "topic": pa.array([span.topic]),
        "partition": pa.array([span.partition], pa.int32()),
    }
    return condition.of(arrays.__getitem__)[0].as_py() is True
