"""Reading ranges of offsets in an executor: one consumer for each Python worker of Spark.

Spark keeps a worker between tasks, so the consumer, its connections, its metadata and what it has
fetched ahead stay. A worker has one task at a time. Spark may kill a worker at any moment, which
loses nothing: the consumer is in no group and commits nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from aktor.consumer.arrow import without
from aktor.consumer.facade import KafkaConsumer
from aktor.spark import client_settings, data_loss, garbage
from aktor.spark.options import SourceOptions
from aktor.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from aktor.spark.columns import Layout

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "read_ranges", "read_task"]

#: Spark takes batches of 1-2 MB fastest; bigger ones only cost memory (docs/spark.md has figures).
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 2_000_000

#: How long one poll waits before the time limit is looked at, in seconds.
_POLL: Final = 1.0

#: If nothing comes for so long, in seconds, and the log ends where the partition stands, then the
#: records of the range are gone. A new leader tells a lower end for a moment only (KIP-207).
_TRUNCATED_AFTER: Final = 30.0

#: The consumer of this process: its pid, its settings, itself. A variable of the module, since
#: Spark unpickles the reader for each task, and nothing else lives as long as the worker.
_kept: tuple[int, Mapping[str, str], KafkaConsumer] | None = None


def read_task(
    ranges: Sequence[OffsetRange], options: SourceOptions, layout: Layout
) -> Iterator[pa.RecordBatch]:
    """The records of a task's ranges, in Spark's layout. After an error the consumer is dropped."""
    if not ranges:
        return
    consumer = _worker_consumer(options.client)
    try:
        for batch in read_ranges(consumer, ranges, options, layout.columns):
            yield layout.batch(batch)
    except GeneratorExit:
        # Spark needs no more rows (a limit), or the task was cancelled.
        consumer.unsubscribe()
        raise
    except BaseException:
        _drop()
        raise


def _worker_consumer(client: Mapping[str, str]) -> KafkaConsumer:
    """The worker's consumer with these settings: the one that is there, or a new one.

    A consumer that was made before a fork is left alone: it belongs to the parent process.
    """
    global _kept
    if _kept is not None and _kept[0] == os.getpid():
        if _kept[1] == client:
            return _kept[2]
        _drop()
    defaults = {"client_id": f"aktor-spark-{os.getpid()}", "allow_auto_create_topics": False}
    settings = client_settings.consumer_settings(client)
    settings.pop("group_id", None)
    consumer = KafkaConsumer(
        **defaults | settings, auto_offset_reset="none", enable_auto_commit=False
    )
    _kept = os.getpid(), dict(client), consumer
    garbage.leave_out_what_is_there()
    return consumer


def _drop() -> None:
    """Close the consumer: its state is unknown."""
    global _kept
    kept, _kept = _kept, None
    if kept is not None and kept[0] == os.getpid():
        kept[2].close()


def read_ranges(
    consumer: KafkaConsumer,
    ranges: Sequence[OffsetRange],
    options: SourceOptions,
    columns: Sequence[str],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[pa.RecordBatch]:
    """The records of these ranges; `columns` has topic, partition and offset.

    Raises DataLossError for records that are gone, KafkaTimeoutError if nothing comes for
    `kafkaConsumer.pollTimeoutMs`, and what `poll_arrow` raises.
    """
    for wave in _waves(ranges):
        yield from _Wave(consumer, wave, options, clock).batches(columns)


def _waves(ranges: Iterable[OffsetRange]) -> list[list[OffsetRange]]:
    """The ranges so that no two of a wave are of one partition, and those of one are in order."""
    waves: list[list[OffsetRange]] = []
    counts: dict[TopicPartition, int] = {}
    for one in sorted(ranges):
        place = counts.get(one.topic_partition, 0)
        counts[one.topic_partition] = place + 1
        if place == len(waves):
            waves.append([])
        waves[place].append(one)
    return waves


class _Wave:
    """Owns how far ranges of different partitions are read."""

    def __init__(
        self,
        consumer: KafkaConsumer,
        ranges: Sequence[OffsetRange],
        options: SourceOptions,
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._options = options
        self._clock = clock
        self._left = {one.topic_partition: one for one in ranges if one.size > 0}
        self._at = {one.topic_partition: one.start for one in ranges}
        self._ids = {one.topic: one.topic_id for one in ranges if one.topic_id is not None}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches until every range is at its end."""
        self._assign()
        timeout = self._options.poll_timeout
        patience = min(timeout, _TRUNCATED_AFTER)
        heard = self._clock()
        while self._left:
            try:
                batch = self._consumer.poll_arrow(
                    min(_POLL, timeout) * 1000,
                    max_records=self._rows_wanted(),
                    max_bytes=BATCH_BYTES,
                    columns=columns,
                )
            except (OffsetOutOfRangeError, UnknownTopicOrPartitionError):
                self._go_on_behind_what_is_gone()
                heard = self._clock()
                continue
            batch, moved = self._advance(batch)
            silent = self._clock() - heard
            if moved or (silent >= patience and self._end_what_is_truncated(patience)):
                heard = self._clock()
            elif silent >= timeout:
                raise self._nothing_came(timeout)
            if batch.num_rows:
                yield batch
                # The time that Spark takes with a batch is not time in which nothing came.
                heard = self._clock()

    def _assign(self) -> None:
        """Begin at the start of each range. A partition that stands there already, by the task
        before this one, keeps what was fetched ahead."""
        consumer = self._consumer
        assigned = consumer.assignment()
        wanted: dict[TopicPartition, int | None] = {}
        for one in sorted(self._left):
            stands = one in assigned and consumer.position(one) == self._at[one]
            wanted[one] = None if stands else self._at[one]
        consumer.assign(wanted)
        consumer.resume(*wanted)

    def _rows_wanted(self) -> int:
        """Not more rows than there are offsets: a poll that goes beyond the end of a range leaves
        its partition at a position where the next task does not begin."""
        left = sum(wanted.end - self._at[one] for one, wanted in self._left.items())
        return max(1, min(BATCH_ROWS, left))

    def _advance(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        """Note the positions; rows beyond the ranges are cut off. Also whether there is progress.

        A range ends where the position has passed its end, not with its last row: the last offsets
        may be those of control records, or of records that are compacted or of an aborted
        transaction.
        """
        for one in self._recreated():
            batch = without(batch, one.topic, one.partition, 0)
            self._end([one])
        over = []
        moved = False
        for one, wanted in self._left.items():
            position = self._consumer.position(one)
            assert position is not None, "it was assigned with an offset"
            moved = moved or position != self._at[one]
            self._at[one] = position
            if position > wanted.end:
                batch = without(batch, one.topic, one.partition, wanted.end)
            if position >= wanted.end:
                over.append(one)
        self._end(over)
        return batch, moved

    def _end(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            del self._left[one]
            self._consumer.pause(one)

    # -- what is gone

    def _recreated(self) -> list[TopicPartition]:
        """The partitions whose topic was deleted and created anew after the batch was planned: the
        records that come are not those that were planned (KIP-516)."""
        found = []
        known = self._consumer._link.port.cluster.topics
        for topic, planned in list(self._ids.items()):
            info = known.get(topic)
            if info is None or info.topic_id is None or str(info.topic_id) == planned:
                continue
            self._lost(f"topic {topic} was deleted and created anew after the batch was planned")
            del self._ids[topic]
            found += [one for one in self._left if one.topic == topic]
        return found

    def _go_on_behind_what_is_gone(self) -> None:
        """Report what cannot be read, and go on with the first offset that can."""
        consumer = self._consumer
        there = set(consumer._look_up_topics(frozenset(one.topic for one in self._left)))
        gone = [one for one in self._left if one.topic not in there]
        for one in gone:
            self._lost(f"{_name(one)} does not exist any more")
        self._end(gone)
        first = consumer.beginning_offsets(list(self._left))
        last = consumer.end_offsets(list(self._left))
        for one, wanted in list(self._left.items()):
            at = self._at[one]
            if first[one] <= at < last[one]:
                continue
            self._lost(
                f"{_name(one)} was to be read from offset {at} to {wanted.end}, and has those from"
                f" {first[one]} to {last[one]}"
            )
            self._at[one] = first[one] if at < first[one] < wanted.end else wanted.end
            if self._at[one] == wanted.end:
                self._end([one])
        if self._left:
            consumer.assign({one: self._at[one] for one in self._left})
            consumer.resume(*self._left)

    def _end_what_is_truncated(self, timeout: float) -> bool:
        """End the ranges that go beyond the end of the log; whether there was one."""
        try:
            last = self._consumer.end_offsets(list(self._left), timeout_ms=timeout * 1000)
        except KafkaTimeoutError:
            return False
        gone = [one for one in self._left if last[one] <= self._at[one]]
        for one in gone:
            self._lost(
                f"{_name(one)} was to be read up to offset {self._left[one].end}, and ends at"
                f" {last[one]}"
            )
        self._end(gone)
        return bool(gone)

    def _lost(self, text: str) -> None:
        data_loss.report(text, fail=self._options.fail_on_data_loss)

    def _nothing_came(self, timeout: float) -> KafkaTimeoutError:
        names = ", ".join(
            f"{_name(one)} at {self._at[one]} (to be read up to {wanted.end})"
            for one, wanted in sorted(self._left.items())
        )
        return KafkaTimeoutError(
            f"nothing came within {timeout:g} s of {names}. Is the leader of each partition there?"
            " AKTOR_TRACE shows what the consumer waits for; kafkaConsumer.pollTimeoutMs is how"
            " long it may take"
        )


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
