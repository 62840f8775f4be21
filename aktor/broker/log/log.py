"""One partition's log: batches are appended at its end and read from any offset."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from aktor.broker.codes import Code, Refused
from aktor.broker.log.batches import is_sound, only_batch, stamped, with_checksum
from aktor.broker.log.compaction import AbortedRanges, Cleaner, latest_of_keys
from aktor.broker.log.config import LogConfig
from aktor.broker.log.epochs import LeaderEpochs
from aktor.broker.log.index import BatchIndex, batches, headers
from aktor.broker.log.producers import ActiveProducer, Producers
from aktor.broker.log.records import (
    UNREADABLE,
    build_marker,
    marker_in,
    records_in,
    with_records,
)
from aktor.broker.log.segments import Segments
from aktor.broker.log.store import MemoryStore, Store
from aktor.broker.log.validation import validate_batch, validate_records
from aktor.records.batch import BatchHeader, Buffer

__all__ = ["Appended", "LogConfig", "PartitionLog", "TimedOffset", "peek_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch is in the log.

    `log_append_time` is in ms, -1 for CreateTime. A `duplicate` was written before, and nothing
    now; these are its offsets and its time.
    """

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool


#: (offset, timestamp in ms, leader epoch), as ListOffsets answers.
TimedOffset = tuple[int, int, int]


def peek_batch(records: Buffer | None, *, api_version: int = 9) -> BatchHeader:
    """The header of what a Produce request has for a partition. Raises Refused."""
    return only_batch(records, api_version=api_version)


class PartitionLog:
    """Owns the bytes of a partition, and what is known of them.

    Offsets: `start_offset` <= `last_stable_offset` <= `high_watermark` <= `end_offset`, which is
    where the next record goes. What the store has is read when it is made: a torn or corrupt end
    is cut off, and all that is left counts as replicated. `start_offset` and `on_start` keep where
    the log starts over a restart. `now` is in seconds since the epoch.
    """

    def __init__(
        self,
        *,
        config: LogConfig | None = None,
        store: Store | None = None,
        start_offset: int = 0,
        on_start: Callable[[int], None] | None = None,
    ) -> None:
        self.config = config or LogConfig()
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.high_watermark = start_offset
        self._store: Store = MemoryStore() if store is None else store
        self._on_start = on_start
        self._index = BatchIndex(self._store)
        self._segments = Segments(start_offset, self._store.start)
        self._epochs = LeaderEpochs()
        self._producers = Producers()
        #: Where the batch with the start offset is.
        self._start_position = self._store.start
        #: The cleaner went up to here.
        self._cleaned_to = 0
        if self._store.end > self._store.start:
            self._recover()

    def __repr__(self) -> str:
        return (
            f"<PartitionLog {self.start_offset} to {self.end_offset},"
            f" replicated to {self.high_watermark}, {self.size_bytes} bytes>"
        )

    def _recover(self) -> None:
        end, following, first = self._store.start, 0, True
        for position, header, batch in batches(self._store, end, self._store.end):
            if header.base_offset < following or not is_sound(header, batch):
                break
            end, following = position + header.size, header.last_offset + 1
            if header.last_offset < self.start_offset:
                continue
            if first:
                self._start_position = position
                if self._store.start > 0:
                    self.start_offset = max(self.start_offset, header.base_offset)
                self._segments = Segments(header.base_offset, position)
                first = False
            self._note(position, header, -1)
            self._replay(header, batch)
        self._store.truncate(end)
        if first:
            self._start_position = end
            self._segments = Segments(self.start_offset, end)
        self.advance(self.end_offset)

    def close(self) -> None:
        """Free what the operating system gave."""
        self._store.close()

    def destroy(self) -> None:
        """The topic is deleted: leave nothing."""
        self._store.destroy()

    # -- what is there

    @property
    def size_bytes(self) -> int:
        """How many bytes the batches have."""
        return self._store.end - self._start_position

    @property
    def last_stable_offset(self) -> int:
        """Up to where read_committed consumers may read: before the first open transaction."""
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.start_offset), self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch that is known, -1 if none is."""
        return self._epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 if unknown."""
        return self._epochs.at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        return self._epochs.end_of(epoch, self.end_offset)

    def in_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of this producer is open here, so need not be verified again."""
        return self._producers.in_transaction(producer_id)

    def active_producers(self) -> list[ActiveProducer]:
        """What DescribeProducers shows."""
        return self._producers.active()

    # -- writing

    def begin_epoch(self, epoch: int) -> None:
        """A leader was elected: what is appended from now on is of this epoch."""
        self._epochs.begin(epoch, self.end_offset)

    def advance(self, high_watermark: int) -> None:
        """All replicas in sync have the log up to here. It never goes back."""
        upto = min(high_watermark, self.end_offset)
        if upto > self.high_watermark:
            self.high_watermark = upto
            self._producers.replicated(upto)

    def append(
        self, records: Buffer | None, *, leader_epoch: int, now: float, api_version: int = 9
    ) -> Appended:
        """Append what a Produce request has for this partition: exactly one batch.

        Raises Refused with the code for the answer; then nothing has changed.
        """
        header = only_batch(records, api_version=api_version)
        assert records is not None, "there is a batch in nothing"
        now_ms = int(now * 1000)
        validate_batch(header, records, max_bytes=self.config.max_message_bytes)
        validate_records(header, records, config=self.config, now_ms=now_ms)
        if header.size > self.config.segment_bytes:
            raise Refused(
                Code.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {header.size} bytes, which exceeds the maximum configured"
                f" segment size of {self.config.segment_bytes}.",
            )
        if header.producer_id >= 0:
            if found := self._producers.duplicate_of(header):
                return Appended(
                    base_offset=found.first_offset,
                    last_offset=found.last_offset,
                    log_append_time=found.timestamp,
                    log_start_offset=self.start_offset,
                    duplicate=True,
                )
            self._producers.validate(header)
        appended = self._write(header, records, leader_epoch, now_ms)
        if header.producer_id >= 0:
            self._producers.wrote(appended)
        return self._appended(appended)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now: float,
    ) -> Appended:
        """End a producer's transaction. Raises Refused if it or the coordinator is fenced."""
        self._producers.validate_marker(producer_id, producer_epoch, coordinator_epoch)
        now_ms = int(now * 1000)
        marker = build_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        header = self._write(BatchHeader.read(marker), marker, leader_epoch, now_ms)
        self._producers.ended(header, commit=commit, coordinator_epoch=coordinator_epoch)
        return self._appended(header)

    def _appended(self, header: BatchHeader) -> Appended:
        return Appended(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            log_append_time=header.max_timestamp if self.config.log_append_time else -1,
            log_start_offset=self.start_offset,
            duplicate=False,
        )

    def _write(
        self, header: BatchHeader, data: Buffer, leader_epoch: int, now_ms: int
    ) -> BatchHeader:
        header, batch = stamped(
            header,
            data,
            base_offset=self.end_offset,
            leader_epoch=leader_epoch,
            log_append_time=now_ms if self.config.log_append_time else None,
        )
        position = self._store.append(batch)
        self._note(position, header, now_ms)
        return header

    def _note(self, position: int, header: BatchHeader, now_ms: int) -> None:
        """A batch is in the store."""
        self._index.note(position, header)
        self._segments.note(position, header, self.config, now_ms)
        self._epochs.begin(header.leader_epoch, header.base_offset)
        self.end_offset = header.last_offset + 1

    def _replay(self, header: BatchHeader, batch: Buffer) -> None:
        """What a batch that was in the store says of its producer."""
        if header.producer_id < 0:
            return
        if not header.control:
            self._producers.wrote(header)
        elif marker := marker_in(header, batch):
            self._producers.ended(
                header, commit=marker.commit, coordinator_epoch=marker.coordinator_epoch
            )

    # -- reading

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True) -> Buffer:
        """Batches from the one with `offset` on, before offset `upto` and of one segment.

        `max_bytes` at most, where the last batch may be cut off; but one batch at least if
        `min_one`, and nothing if the first one does not fit else. Empty where there is nothing.
        The bytes stay the same whatever happens to the log. Raises Refused with
        OFFSET_OUT_OF_RANGE.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset}, but the log is from {self.start_offset} to"
                f" {self.end_offset}.",
            )
        if offset >= upto:
            return b""
        start = self._index.locate(offset)
        end = self._store.end if upto >= self.end_offset else self._index.locate(upto)
        end = min(end, self._segments.end_of(start, self._store.end))
        if end - start > max_bytes:
            first = self._index.end_of_batch(start)
            if first - start <= max_bytes:
                end = start + max_bytes
            else:
                end = first if min_one else start
        return self._store.read(start, end - start) if end > start else b""

    def aborted(self, offset: int, upto: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [offset, upto)."""
        return self._producers.aborted(offset, upto)

    def all_batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Also markers, and what is in a transaction that was aborted or is open."""
        return self._batches_before(self.end_offset)

    def committed(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of records up to the last stable offset, without aborted transactions."""
        aborted = AbortedRanges(self._producers.aborted_ranges())
        for header, batch in self._batches_before(self.last_stable_offset):
            if not header.control and header not in aborted:
                yield header, batch

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record of this time or later, None if there is none."""
        for position, header in self._index.reaching(timestamp_ms):
            if header.last_offset < self.start_offset:
                continue
            for offset, time in self._times(position, header):
                if time >= timestamp_ms and offset >= self.start_offset:
                    return offset, time, header.leader_epoch
        return None

    def max_timestamp(self) -> TimedOffset | None:
        """The first of the records with the largest timestamp (KIP-734), None if there is none."""
        newest = self._index.max_timestamp
        if newest < 0 and self.end_offset > self.start_offset:
            # No record has a timestamp: the first of them, as Kafka says.
            return self.start_offset, newest, self.epoch_at(self.start_offset)
        return self.offset_for_time(newest) if newest >= 0 else None

    def _times(self, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
        """(offset, timestamp) of each record of a batch."""
        try:
            records = records_in(header, self._store.read(position, header.size))
        except UNREADABLE:
            yield header.base_offset, header.max_timestamp
            return
        for record in records:
            time = header.base_timestamp + record.timestamp_delta
            yield (
                header.base_offset + record.offset_delta,
                header.max_timestamp if header.log_append_time else time,
            )

    # -- cutting

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on: the new leader does not have it."""
        if offset >= self.end_offset:
            return
        position = self._index.locate(offset) if offset > self.start_offset else 0
        position = max(position, self._start_position)
        self._store.truncate(position)
        self._index.truncate(position)
        self._segments.truncate(offset, position)
        self._epochs.truncate(offset)
        if offset < self.start_offset:
            self._start_at(offset)
        self.end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self._cleaned_to = min(self._cleaned_to, offset)
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        if self._producers.empty:
            return
        older, self._producers = self._producers, Producers()
        for _, header, batch in batches(self._store, self._start_position, self._store.end):
            self._replay(header, batch)
        self._producers.keep_untouched(older, self.end_offset)
        self._producers.replicated(self.high_watermark)

    def delete_before(self, offset: int) -> int:
        """Let the log start at `offset` or later, be it inside a batch; its start offset now.

        Raises Refused with OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if not 0 <= offset <= self.high_watermark:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} since it is larger than the"
                f" high watermark {self.high_watermark}",
            )
        if offset > self.start_offset:
            self._start_at(offset)
            position = self._index.locate(offset)
            self._index.drop_before(position)
            self._store.drop_before(position)
            self._start_position = position
            self._segments.drop_before(offset, position, self._store.end)
            self._epochs.drop_before(offset)
            self._producers.drop_before(offset)
        return self.start_offset

    def _start_at(self, offset: int) -> None:
        self.start_offset = offset
        if self._on_start is not None:
            self._on_start(offset)

    def retain(self, now: float) -> bool:
        """Delete the segments that are too old or too much; whether any was.

        As in Kafka, segments go as a whole (`segment_bytes`, `segment_ms`): one young record
        keeps all others of its segment, and the last segment is never too much, only too old.
        """
        now_ms = int(now * 1000)
        self._producers.expire(now_ms)
        if not self.config.deleted:
            return False
        upto = self._segments.expired(
            self.config,
            now_ms=now_ms,
            high_watermark=self.high_watermark,
            end_offset=self.end_offset,
            end=self._store.end,
        )
        if upto is None or upto <= self.start_offset:
            return False
        self.delete_before(upto)
        return True

    # -- compaction

    def compact(self, now: float, *, force: bool = False) -> bool:
        """Keep only the last record of each key, and tombstones for a while; whether it ran.

        Like Kafka's cleaner it goes up to the active segment, and only runs if enough is new
        (`min_cleanable_dirty_ratio`). `force` it to clean all up to the last stable offset.
        Raises Refused with KAFKA_STORAGE_ERROR; then nothing has changed.
        """
        now_ms = int(now * 1000)
        upto = self._cleanable_to(now_ms, force=force)
        if upto <= self.start_offset or not (force or self._is_dirty(upto)):
            return False
        aborted = AbortedRanges(self._producers.aborted_ranges())
        latest = latest_of_keys(self._batches_before(upto), aborted)
        cleaner = Cleaner(
            latest=latest,
            aborted=aborted,
            last_offsets=self._producers.last_offsets(),
            last_base=self._last_base_before(upto),
            now_ms=now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
        )
        self._rewrite(upto, cleaner.clean)
        self._producers.forget_aborted(cleaner.lonely_markers)
        self._cleaned_to = upto
        return True

    def punch(self, offsets: Collection[int]) -> None:
        """Take single records out, as compaction does. For tests."""
        gone = frozenset(offsets)
        last_base = self._last_base_before(self.end_offset)

        def without(header: BatchHeader, batch: Buffer) -> Buffer | None:
            if gone.isdisjoint(range(header.base_offset, header.last_offset + 1)):
                return batch
            records = records_in(header, batch)
            kept = [
                record for record in records if header.base_offset + record.offset_delta not in gone
            ]
            if not kept and header.base_offset != last_base:
                return None
            return with_records(header, kept)

        self._rewrite(self.end_offset, without)

    def spoil(self, offset: int) -> None:
        """From now on the checksum of the batch with this offset is wrong, as on a bad disk. For
        tests."""

        def spoiled(header: BatchHeader, batch: Buffer) -> Buffer:
            if not header.base_offset <= offset <= header.last_offset:
                return batch
            return with_checksum(batch, ~header.crc)

        self._rewrite(self.end_offset, spoiled)

    def _cleanable_to(self, now_ms: int, *, force: bool) -> int:
        if force:
            return self.last_stable_offset
        if not self.config.compacted:
            return -1
        upto = min(self.last_stable_offset, self._segments.active.base_offset)
        lag = self.config.min_compaction_lag_ms
        return self._segments.before(upto, newest=now_ms - lag, now_ms=now_ms) if lag else upto

    def _is_dirty(self, upto: int) -> bool:
        cleaned = self._index.locate(max(self._cleaned_to, self.start_offset))
        end = self._index.locate(upto)
        dirty, total = end - cleaned, end - self._start_position
        return dirty > 0 and dirty / total > self.config.min_cleanable_dirty_ratio

    def _batches_before(self, upto: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        for _, header, batch in batches(self._store, self._start_position, self._store.end):
            if header.base_offset >= upto:
                return
            yield header, batch

    def _last_base_before(self, upto: int) -> int:
        last = -1
        for _, header in headers(self._store, self._start_position, self._store.end):
            if header.base_offset >= upto:
                break
            last = header.base_offset
        return last

    def _rewrite(self, upto: int, clean: Callable[[BatchHeader, Buffer], Buffer | None]) -> None:
        """Have every batch before `upto` as `clean` returns it, and the others as they are."""

        def parts() -> Iterator[Buffer]:
            for _, header, batch in batches(self._store, self._start_position, self._store.end):
                left = clean(header, batch) if header.base_offset < upto else batch
                if left is not None:
                    yield left

        self._store.replace(parts())
        self._start_position = self._store.start
        self._index.clear()
        for position, header in headers(self._store, self._store.start, self._store.end):
            self._index.note(position, header)
        self._segments.moved(self._index.locate)
