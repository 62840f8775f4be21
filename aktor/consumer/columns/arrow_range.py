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

    partitions = _assigned(consumer, timeout, clock)
    ends = _offsets(consumer, partitions, end if end is not None else "latest", "end")
    if start is not None:
        for partition, offset in _offsets(consumer, partitions, start, "start").items():
            consumer.seek(partition, offset)
    begins = {partition: _position(consumer, partition) for partition in partitions}
    asked = [*columns, *(name for name in ("topic", "partition", "offset") if name not in columns)]
    batches = []
    paused = consumer.paused()
    try:
        consumer.resume(*paused)
        for batch in _batches(consumer, begins, ends, asked, timeout, progress, clock):
            batches.append(batch.select(list(columns)))
    except BaseException:
        for partition in consumer.assignment() & begins.keys():
            consumer.seek(partition, begins[partition])
        raise
    finally:
        still = consumer.assignment()
        consumer.resume(*(consumer.paused() - paused))
        consumer.pause(*(paused & still))
    from aktor.consumer.columns.arrow import no_rows

    return pyarrow.Table.from_batches([no_rows(columns), *batches])


def _assigned(
    consumer: Consumer, timeout: float, clock: Callable[[], float]
) -> list[TopicPartition]:
    """The assigned partitions. A consumer that has subscribed gets them in a poll: this polls until
    it has some, and rewinds what these polls return."""
    deadline = clock() + timeout
    while not (partitions := sorted(consumer.assignment())):
        if not consumer.subscription():
            raise IllegalStateError(
                "to_table reads the assigned partitions, and there are none: call subscribe() or"
                " assign() first"
            )
        if clock() >= deadline:
            raise KafkaTimeoutError(
                f"no partition was assigned within {timeout:g} s: other members of the group may"
                " have all of them. A consumer without group_id gets all partitions"
            )
        batch = consumer.poll_arrow(100, max_records=1, columns=["topic", "partition", "offset"])
        for row in batch.to_pylist():
            consumer.seek(TopicPartition(row["topic"], row["partition"]), row["offset"])
    return partitions


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
    from aktor.consumer.columns.arrow import without

    total = sum(max(0, ends[partition] - begins[partition]) for partition in begins)
    done = dict(begins)
    left = _end_those_read(consumer, done, ends, set(begins))
    heard = clock()
    while left:
        batch = consumer.poll_arrow(min(1.0, timeout) * 1000, columns=columns)
        positions = {partition: _position(consumer, partition) for partition in left}
        if positions != {partition: done[partition] for partition in left}:
            heard = clock()
        elif clock() - heard >= timeout:
            names = ", ".join(
                f"{partition.topic}-{partition.partition} at {done[partition]}"
                for partition in sorted(left)
            )
            raise KafkaTimeoutError(f"nothing came within {timeout:g} s of {names}")
        done.update(positions)
        for partition in left:
            if positions[partition] > ends[partition]:
                batch = without(batch, partition.topic, partition.partition, ends[partition])
                consumer.seek(partition, ends[partition])
        left = _end_those_read(consumer, done, ends, left)
        if progress is not None:
            progress(
                sum(
                    min(done[partition], ends[partition]) - begins[partition]
                    for partition in begins
                ),
                total,
            )
        if batch.num_rows:
            yield batch


def _end_those_read(
    consumer: Consumer,
    done: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    left: set[TopicPartition],
) -> set[TopicPartition]:
    """Pause the partitions that are read to their ends; returns the others."""
    over = {partition for partition in left if done[partition] >= ends[partition]}
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
        missing = [partition for partition in partitions if partition not in bound]
        if missing:
            raise ValueError(f"{name} has no offset for {missing[0].topic}-{missing[0].partition}")
        return {partition: bound[partition] for partition in partitions}
    if isinstance(bound, datetime):
        moment = int(bound.timestamp() * 1000)
        found = consumer.offsets_for_times(dict.fromkeys(partitions, moment))
        latest = consumer.end_offsets(partitions)
        return {
            partition: latest[partition] if (at := found[partition]) is None else at.offset
            for partition in partitions
        }
    if bound == "earliest":
        return dict(consumer.beginning_offsets(partitions))
    if bound == "latest":
        return dict(consumer.end_offsets(partitions))
    raise ValueError(
        f"{name} must be a dict of offsets, a datetime, 'earliest' or 'latest', not {bound!r}"
    )
