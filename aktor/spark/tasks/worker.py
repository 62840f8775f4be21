"""Reading ranges of offsets in an executor: one consumer for each Python worker of Spark.

Spark keeps a worker between tasks, so the consumer stays with its connections, its metadata and the
records that it has fetched ahead. A worker runs one task at a time. Spark may kill a worker at any
moment. No record is lost then: the consumer is in no group and commits no offsets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from aktor.consumer.columns.arrow import without
from aktor.consumer.facade import KafkaConsumer
from aktor.errors import BootstrapError, BrokersUnreachableError, LogTruncationError
from aktor.spark.offsets import data_loss
from aktor.spark.offsets.ranges import OffsetRange, name_of
from aktor.spark.options import client_settings
from aktor.spark.options.source import SourceOptions
from aktor.spark.tasks import garbage

if TYPE_CHECKING:
    from aktor.spark.tasks.columns import Layout

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "read_ranges", "read_task"]

#: Spark takes batches of 1-2 MB fastest; bigger ones only cost memory.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 2_000_000

#: A task has one partition or a few, so a Fetch must bring more of each of them than by default
#: (1 MiB). With 1 MiB each batch costs a round trip: 2.9-3.5 M rows/s, with 10 MiB 3.5-3.7 M (100
#: bytes each, in one run).
FETCH_BYTES: Final = 8 * 1024 * 1024

#: How long one poll waits before the time limit is looked at, in seconds.
_POLL: Final = 1.0

#: If no record comes for so long, in seconds, and the partition ends at the consumer's position,
#: then the other records of the range are lost. An earlier verdict could be wrong: a new leader may
#: answer with an old high watermark for a moment (KIP-207).
_TRUNCATED_AFTER: Final = 30.0

#: If no record comes for so long, in seconds, it is asked whether the topics are there. The
#: consumer says once that it does not find a topic, and a task before may have heard that.
_DELETED_AFTER: Final = 5.0

#: The errors of a consumer that has not reached any broker yet, or none but a bootstrap server. It
#: goes on trying, and raises them every two seconds.
_UNREACHABLE: Final = (BootstrapError, BrokersUnreachableError)

#: The consumer of this process: its pid, its settings, itself. A variable of the module, since
#: Spark unpickles the reader for each task, and nothing else lives as long as the worker.
_kept: tuple[int, Mapping[str, str], KafkaConsumer] | None = None


def read_task(
    ranges: Sequence[OffsetRange], options: SourceOptions, layout: Layout
) -> Iterator[pa.RecordBatch]:
    """The records of a task's ranges, in Spark's layout. After an error the consumer is dropped."""
    if not ranges:
        return
    with client_settings.naming_options():
        consumer = _worker_consumer(options.client, ranges)
    try:
        with client_settings.naming_options():
            batches = map(layout.batch, read_ranges(consumer, ranges, options, layout.columns))
            yield from _gathered(batches) if layout.drops_rows else batches
    except GeneratorExit:
        # Spark needs no more rows (a limit), or the task was cancelled.
        consumer.unsubscribe()
        raise
    except BaseException:
        _drop()
        raise


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of which conditions have left little are joined: each costs Spark a call."""
    few: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if not few and batch.num_rows > BATCH_ROWS // 2:
            yield batch
            continue
        few.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > BATCH_ROWS // 2 or size > BATCH_BYTES // 2:
            yield _joined(few)
            few, rows, size = [], 0, 0
    if rows:
        yield _joined(few)


def _joined(few: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(few) == 1:
        return few[0]
    [found] = pa.Table.from_batches(few).combine_chunks().to_batches()
    return found


def _worker_consumer(client: Mapping[str, str], ranges: Sequence[OffsetRange]) -> KafkaConsumer:
    """The worker's consumer with these settings: the one that is there, or a new one.

    A consumer that was made before a fork is left alone: it belongs to the parent process. One that
    knows another id of a topic is not used: its metadata may be older than the plan. It would take
    a new topic for one that was created after the batch was planned, and skip its records.
    """
    global _kept
    if _kept is not None and _kept[0] == os.getpid():
        _, made_with, consumer = _kept
        ids = {span.topic: span.topic_id for span in ranges}
        if made_with == client and not any(
            _knows_other_id(consumer, *pair) for pair in ids.items()
        ):
            return consumer
        _drop()
    settings = client_settings.with_defaults(
        client_settings.consumer_settings(client),
        client_id=f"aktor-spark-{os.getpid()}",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    settings.pop("group_id", None)
    consumer = KafkaConsumer(**settings, auto_offset_reset="none", enable_auto_commit=False)
    _kept = os.getpid(), dict(client), consumer
    garbage.leave_out_what_is_there()
    return consumer


def _knows_other_id(consumer: KafkaConsumer, topic: str, planned: str | None) -> bool:
    """Whether the consumer knows the topic by another id than it had when the batch was planned."""
    info = consumer.known_topics().get(topic)
    told = None if info is None else info.topic_id
    return None not in (told, planned) and str(told) != planned


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

    Raises DataLossError for lost records, KafkaTimeoutError if no record comes for
    `kafkaConsumer.pollTimeoutMs`, and the errors of `poll_arrow`.
    """
    for wave in _waves(ranges):
        yield from _Wave(consumer, wave, options, clock).batches(columns)


def _waves(ranges: Iterable[OffsetRange]) -> list[list[OffsetRange]]:
    """The ranges in waves, which are read one after the other. A wave has at most one range of each
    partition, since a consumer has one position in a partition."""
    waves: list[list[OffsetRange]] = []
    counts: dict[TopicPartition, int] = {}
    for span in sorted(ranges):
        place = counts.get(span.topic_partition, 0)
        counts[span.topic_partition] = place + 1
        if place == len(waves):
            waves.append([])
        waves[place].append(span)
    return waves


class _Wave:
    """Owns the positions of one wave: how far the range of each partition is read."""

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
        self._left = {span.topic_partition: span for span in ranges if span.size > 0}
        self._at = {span.topic_partition: span.start for span in ranges}
        self._ids = {span.topic: span.topic_id for span in ranges}

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
                self._skip_lost_records()
                heard = self._clock()
                continue
            except LogTruncationError as error:
                self._report_truncation(error)
                heard = self._clock()
                continue
            except _UNREACHABLE:
                # The driver has planned the batch, so the address is right. A worker that already
                # had connections would wait, too.
                if self._clock() - heard >= timeout:
                    raise
                continue
            batch, moved = self._advance(batch)
            silent = self._clock() - heard
            if (
                moved
                or (silent >= _DELETED_AFTER and self._end_deleted_topics())
                or (silent >= patience and self._end_truncated_ranges(patience))
            ):
                heard = self._clock()
            elif silent >= timeout:
                raise self._nothing_came(timeout)
            if batch.num_rows:
                yield batch
                # The time that Spark takes with a batch is not time in which nothing came.
                heard = self._clock()

    def _assign(self) -> None:
        """Begin at the start of each range. If the task before this one ended at that offset, the
        partition is not sought: it keeps the records that were fetched ahead."""
        consumer = self._consumer
        assigned = consumer.assignment()
        wanted: dict[TopicPartition, int | None] = {}
        for partition in sorted(self._left):
            stands = partition in assigned and self._stands(partition)
            wanted[partition] = None if stands else self._at[partition]
        consumer.assign(wanted)
        consumer.resume(*wanted)

    def _stands(self, partition: TopicPartition) -> bool:
        """Whether the consumer is at the start of the range. After the task before this one it may
        have heard that what it would fetch next is not there any more."""
        try:
            return self._consumer.position(partition) == self._at[partition]
        except OffsetOutOfRangeError:
            return False

    def _rows_wanted(self) -> int:
        """Not more rows than there are offsets. A poll that goes beyond the end of a range leaves
        its partition behind the start of the next task, which must fetch those records again."""
        left = sum(wanted.end - self._at[partition] for partition, wanted in self._left.items())
        return max(1, min(BATCH_ROWS, left))

    def _advance(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        """Note the positions, and cut off the rows beyond the ranges. The second value says whether
        a position has moved.

        A range is finished when the position has reached its end, not when its last row has come:
        its last offsets may have no row (control records, records of an aborted transaction,
        compacted records). A task that waited for their rows would end with a timeout.
        """
        for partition in self._recreated():
            batch = without(batch, partition.topic, partition.partition, 0)
            self._end([partition])
        over = []
        moved = False
        for partition, wanted in self._left.items():
            position = self._consumer.position(partition)
            assert position is not None, "it was assigned with an offset"
            moved = moved or position != self._at[partition]
            self._at[partition] = position
            if position > wanted.end:
                batch = without(batch, partition.topic, partition.partition, wanted.end)
            if position >= wanted.end:
                over.append(partition)
        self._end(over)
        return batch, moved

    def _end(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self._left[partition]
            self._consumer.pause(partition)

    # -- data loss

    def _recreated(self) -> list[TopicPartition]:
        """The partitions whose topic was deleted and created anew after the batch was planned.

        The new topic has the same name and offsets, but other records. Without the comparison of
        topic ids (KIP-516) the task would give out those as the planned ones.
        """
        found = []
        for topic, planned in list(self._ids.items()):
            if not _knows_other_id(self._consumer, topic, planned):
                continue
            self._lost(f"topic {topic} was deleted and created anew after the batch was planned")
            del self._ids[topic]
            found += [partition for partition in self._left if partition.topic == topic]
        return found

    def _skip_lost_records(self) -> None:
        """Report the offsets that cannot be read, and go on with the first one that can."""
        consumer = self._consumer
        self._end_deleted_topics()
        first = consumer.beginning_offsets(list(self._left))
        last = consumer.end_offsets(list(self._left))
        for partition, wanted in list(self._left.items()):
            at = self._at[partition]
            if first[partition] <= at < last[partition]:
                continue
            self._lost(
                f"{name_of(partition)} was to be read from offset {at} to {wanted.end}, and has"
                f" those from {first[partition]} to {last[partition]}"
            )
            self._at[partition] = (
                first[partition] if at < first[partition] < wanted.end else wanted.end
            )
            if self._at[partition] == wanted.end:
                self._end([partition])
        if self._left:
            self._seek()

    def _report_truncation(self, error: LogTruncationError) -> None:
        """The task before this one, or this one, has read records that the leader does not have
        (KIP-320). What the leader has at these offsets is of no batch: report it, and go on."""
        partition = TopicPartition(error.topic, error.partition)
        at, other = self._at[partition], error.diverging_offset
        self._lost(
            f"{name_of(partition)} was read up to offset {at}, and its leader has other records"
            f"{'' if other is None else f' from offset {other} on'}: an unclean leader election"
        )
        self._seek()

    def _seek(self) -> None:
        """Go on from the positions, as offsets without a leader epoch: nothing is compared."""
        self._consumer.assign({partition: self._at[partition] for partition in self._left})
        self._consumer.resume(*self._left)

    def _end_deleted_topics(self) -> bool:
        """End the ranges of topics that do not exist any more. True if there was one."""
        try:
            there = set(
                self._consumer.look_up_topics({partition.topic for partition in self._left})
            )
        except (KafkaTimeoutError, *_UNREACHABLE):
            return False
        gone = [partition for partition in self._left if partition.topic not in there]
        for partition in gone:
            self._lost(f"{name_of(partition)} does not exist any more")
        self._end(gone)
        return bool(gone)

    def _end_truncated_ranges(self, timeout: float) -> bool:
        """End the ranges whose partition ends at the position. True if there was one."""
        try:
            last = self._consumer.end_offsets(list(self._left), timeout_ms=timeout * 1000)
        except (KafkaTimeoutError, *_UNREACHABLE):
            return False
        gone = [partition for partition in self._left if last[partition] <= self._at[partition]]
        for partition in gone:
            self._lost(
                f"{name_of(partition)} was to be read up to offset {self._left[partition].end},"
                f" and ends at {last[partition]}"
            )
        self._end(gone)
        return bool(gone)

    def _lost(self, text: str) -> None:
        data_loss.report(text, fail=self._options.fail_on_data_loss)

    def _nothing_came(self, timeout: float) -> KafkaTimeoutError:
        names = ", ".join(
            f"{name_of(partition)} at {self._at[partition]} (to be read up to {wanted.end})"
            for partition, wanted in sorted(self._left.items())
        )
        return KafkaTimeoutError(
            f"no records came within {timeout:g} s of {names}. Is the leader of each partition"
            " reachable? AKTOR_TRACE=FILE writes down what the consumer waits for;"
            " kafkaConsumer.pollTimeoutMs raises the limit"
        )
