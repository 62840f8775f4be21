"""`to_table`: a bounded range of the assigned partitions, read by `poll_arrow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka.errors import IllegalStateError, KafkaTimeoutError
from kafka.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Bound", "read"]

#: A `KafkaConsumer`; named here, its module and this one would import each other.
Consumer: TypeAlias = Any

#: Where a range begins or ends: an offset for each partition, a time, "earliest" or "latest".
Bound: TypeAlias = Mapping[TopicPartition, int] | datetime | str | None


def read(
    consumer: Consumer,
    start: Bound,
    end: Bound,
    *,
    columns: Sequence[str],
    timeout: float,
    progress: Callable[[int, int], Any] | None,
    clock: Callable[[], float],
) -> pyarrow.Table:
    """See `KafkaConsumer.to_table`; `timeout` is in seconds."""
    import pyarrow

    partitions = sorted(consumer.assignment())
    if not partitions:
        raise IllegalStateError("to_table reads the partitions that are assigned: there are none")
    ends = _offsets(consumer, partitions, end if end is not None else "latest", "end")
    if start is not None:
        for one, offset in _offsets(consumer, partitions, start, "start").items():
            consumer.seek(one, offset)
    begins = {one: _position(consumer, one) for one in partitions}
    asked = [*columns, *(one for one in ("topic", "partition", "offset") if one not in columns)]
    batches = []
    paused = consumer.paused()
    try:
        consumer.resume(*paused)
        for batch in _batches(consumer, begins, ends, asked, timeout, progress, clock):
            batches.append(batch.select(list(columns)))
    except BaseException:
        for one in consumer.assignment() & begins.keys():
            consumer.seek(one, begins[one])
        raise
    finally:
        still = consumer.assignment()
        consumer.resume(*(consumer.paused() - paused))
        consumer.pause(*(paused & still))
    from aktor.consumer.arrow import no_rows

    return pyarrow.Table.from_batches([no_rows(columns), *batches])


def _batches(
    consumer: Consumer,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    columns: Sequence[str],
    timeout: float,
    progress: Callable[[int, int], Any] | None,
    clock: Callable[[], float],
) -> Any:
    """The batches of all ranges. A partition is paused when its range is read to the end."""
    from aktor.consumer.arrow import without

    total = sum(max(0, ends[one] - begins[one]) for one in begins)
    done = dict(begins)
    left = _end_those_read(consumer, done, ends, set(begins))
    heard = clock()
    while left:
        batch = consumer.poll_arrow(min(1.0, timeout) * 1000, columns=columns)
        positions = {one: _position(consumer, one) for one in left}
        if positions != {one: done[one] for one in left}:
            heard = clock()
        elif clock() - heard >= timeout:
            names = ", ".join(f"{one.topic}-{one.partition} at {done[one]}" for one in sorted(left))
            raise KafkaTimeoutError(f"nothing came within {timeout:g} s of {names}")
        done.update(positions)
        for one in left:
            if positions[one] > ends[one]:
                batch = without(batch, one.topic, one.partition, ends[one])
                consumer.seek(one, ends[one])
        left = _end_those_read(consumer, done, ends, left)
        if progress is not None:
            progress(sum(min(done[one], ends[one]) - begins[one] for one in begins), total)
        if batch.num_rows:
            yield batch


def _end_those_read(
    consumer: Consumer,
    done: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    left: set[TopicPartition],
) -> set[TopicPartition]:
    """Pause the partitions that are read to their ends; returns the others."""
    over = {one for one in left if done[one] >= ends[one]}
    consumer.pause(*over)
    return left - over


def _position(consumer: Consumer, partition: TopicPartition) -> int:
    position: int | None = consumer.position(partition)
    if position is None:
        raise KafkaTimeoutError(f"no position of {partition.topic}-{partition.partition} was found")
    return position


def _offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], bound: Bound, name: str
) -> dict[TopicPartition, int]:
    """For each partition the offset that the bound stands for."""
    if isinstance(bound, Mapping):
        missing = [one for one in partitions if one not in bound]
        if missing:
            raise ValueError(f"{name} has no offset for {missing[0].topic}-{missing[0].partition}")
        return {one: bound[one] for one in partitions}
    if isinstance(bound, datetime):
        moment = int(bound.timestamp() * 1000)
        found = consumer.offsets_for_times(dict.fromkeys(partitions, moment))
        latest = consumer.end_offsets(partitions)
        return {one: latest[one] if (at := found[one]) is None else at.offset for one in partitions}
    if bound == "earliest":
        return dict(consumer.beginning_offsets(partitions))
    if bound == "latest":
        return dict(consumer.end_offsets(partitions))
    raise ValueError(
        f"{name} must be a dict of offsets, a datetime, 'earliest' or 'latest', not {bound!r}"
    )
