"""The records of one partition, read from fetched bytes a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor.errors import RecordDeserializationError
from aktor.records.batch import (
    MAGIC_AT,
    V2,
    FetchedBatch,
    end_of_batch,
    offset_at,
)
from aktor.records.codecs import MAX_BATCH_BYTES
from aktor.records.columns import Columns
from aktor.records.extent import timestamp_from
from aktor.records.faults import (
    CodecUnavailable,
    Malformed,
    Oversized,
    passes,
    public_error,
    undeserializable,
)
from aktor.records.legacy import Message, MessageCursor
from aktor.records.records import Headers, RecordCursor, records_of
from aktor.records.transactions import AbortedProducers, is_abort_marker

#: Called with (topic, headers as [(str, bytes | None)], bytes or None); returns the user's value.
Deserialize = Callable[[str, Headers, "bytes | None"], Any]


class RecordReader:
    """The records of one partition out of one Fetch response, taken in order, a few at a time.

    Owns the position in `data`. Batches are checked, decompressed and decoded when `take` gets
    to them, on its thread. Not thread-safe.

    `aborted` is the response's list of (producer id, first offset), used if `read_committed`.
    A deserializer gets (topic, headers, raw bytes or None). No batch is decompressed to more
    than `max_batch_bytes`.
    """

    def __init__(
        self,
        data: memoryview | bytes,
        *,
        topic: str,
        partition: int,
        fetch_offset: int,
        check_crcs: bool = True,
        read_committed: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
        deserialize_key: Deserialize | None = None,
        deserialize_value: Deserialize | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        #: The position of a consumer that has taken everything taken so far. It moves over
        #: control records and over aborted and compacted-away ones too.
        self.next_offset = fetch_offset
        #: The leader epoch of the batch with the record before `next_offset`, -1 if unknown.
        self.leader_epoch = -1

        self._data = memoryview(data)
        self._tp = TopicPartition(topic, partition)
        self._check_crcs = check_crcs
        self._deserialize_key = deserialize_key
        self._deserialize_value = deserialize_value
        self._max_batch_bytes = max_batch_bytes
        self._aborted = AbortedProducers(aborted) if read_committed and aborted else None

        #: The leader epoch of the last batch entered, and the batch's first offset.
        self._entered: tuple[int, int] = (-1, 0)
        self._at = 0  # where the next batch begins
        self._cursor: RecordCursor | MessageCursor | None = None
        self._after_batch = 0  # the position once the batch before `_at` is through
        self._position = fetch_offset  # ahead of `next_offset` by what is in `_ready`
        self._ready: list[ConsumerRecord] = []
        #: Records after a refused one: they are decoded, and not deserialized yet.
        self._raw: list[ConsumerRecord] = []
        self._error: KafkaError | None = None

    @property
    def error(self) -> KafkaError | None:
        """What `take` raises after the records before it."""
        return self._error

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing more in here. What is left of a cut-off batch does not count."""
        if self._ready or self._cursor is not None or self._error is not None:
            return False
        try:
            return end_of_batch(self._data, self._at) is None
        except Malformed:
            return False  # to be raised when it is taken

    @property
    def next_timestamp(self) -> int:
        """The timestamp of the next record, in ms since the epoch; -1: it is not known. If the
        record is not decoded, and not the first of its batch, the newest of the batch stands for
        it. From any thread."""
        if ready := self._ready:
            return int(ready[0].timestamp)
        cursor = self._cursor
        if isinstance(cursor, RecordCursor):
            return cursor.next_timestamp
        return timestamp_from(self._data, self._at, self._position)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """The next records, `limit` at most, and none only if this is exhausted.

        What was read before an error is returned first. Then this call and every later one
        raise that same error: `CorruptBatchError`, `BatchTooLargeError`,
        `RecordDeserializationError` or kafka's `UnsupportedCodecError`.
        """
        assert limit > 0, "taking no records would look like the end"
        # Whatever interrupts this (Ctrl-C in a deserializer), `_ready` and the cursor's mark stay
        # good for the next call: no record is lost or comes twice.
        while len(self._ready) < limit and self._error is None:
            if self._cursor is not None:
                self._decode(self._cursor, limit - len(self._ready))
            elif not self._enter_batch():
                break
        return self._hand_over(limit)

    def skip_to(self, offset: int) -> bool:
        """Go on with the first record at or after `offset`, which is not before `next_offset`.

        It may be after a record that a deserializer refused. False if it cannot be found without
        the bytes from `next_offset` on: the batch is corrupt, or the refused record would have to
        be deserialized again. Then the reader must not be used any more.
        """
        if self._error is not None and not passes(self._error, offset):
            return False
        self._ready = [record for record in self._ready if record.offset >= offset]
        self._raw = [record for record in self._raw if record.offset >= offset]
        if self._cursor is not None and not self._ready and not self._raw:
            try:
                self._cursor.skip_before(offset)
            except Malformed:
                return False
        self._error = None
        if not self._ready:
            self._position = max(self._position, offset)
            self._leave_if_read()
        self._come_to(offset if self._ready else self._position)
        return True

    def fill(self, columns: Columns) -> int:
        """Add the next records to `columns`; returns how many, and 0 only if this is exhausted or
        they are full.

        Nothing is deserialized. Errors are raised as by `take`.
        """
        before = columns.rows
        for record in self._ready:
            columns.append(record)
        self._ready = []
        while self._error is None and not columns.full:
            if self._raw:
                self._move_raw_to_columns(columns)
            elif self._cursor is not None:
                self._move_to_columns(self._cursor, columns)
            elif not self._enter_batch():
                break
        self._come_to(self._position)
        if self._error is not None and columns.rows == before:
            raise self._error.with_traceback(None)
        return columns.rows - before

    def _move_raw_to_columns(self, columns: Columns) -> None:
        """Move records that follow a refused one to `columns`."""
        moved = 0
        while moved < len(self._raw) and not columns.full:
            columns.append(self._raw[moved])
            self._position = self._raw[moved].offset + 1
            moved += 1
        del self._raw[:moved]
        self._leave_if_read()

    def _move_to_columns(self, cursor: RecordCursor | MessageCursor, columns: Columns) -> None:
        """Move the next record from the batch being read to `columns`."""
        records: list[ConsumerRecord] = []
        fault: Exception | None = None
        mark = cursor.mark
        try:
            mark = cursor.decode(1, records)
        except Malformed as malformed:
            fault = malformed
        for record in records:
            columns.append(record)
            self._position = record.offset + 1
        cursor.mark = mark
        if fault is not None:
            self._fail(fault, offset=self._position)
        else:
            self._leave_if_read()

    def _hand_over(self, limit: int) -> list[ConsumerRecord]:
        if self._error is not None and not self._ready:
            self._come_to(self._position)
            raise self._error.with_traceback(None)
        records, self._ready = self._ready[:limit], self._ready[limit:]
        if self._ready:
            self.next_offset = records[-1].offset + 1
            self.leader_epoch = records[-1].leader_epoch
        else:
            self._come_to(self._position)
        return records

    def _come_to(self, offset: int) -> None:
        """Everything before this offset is taken. Of the last batch entered that may be nothing: if
        its first record cannot be read, the position is before the batch."""
        self.next_offset = offset
        self._follow_epoch(offset)

    def _follow_epoch(self, offset: int) -> None:
        epoch, start = self._entered
        if offset > start:
            self.leader_epoch = epoch

    def _enter_batch(self) -> bool:
        """Check the batch at `_at` and either move past it or make it the one being read.

        False if there is no batch left.
        """
        claimed = self._position
        cursor: RecordCursor | MessageCursor | None
        try:
            end = end_of_batch(self._data, self._at)
            if end is None:
                return False
            view = self._data[self._at : end]
            if view[MAGIC_AT] == V2:
                claimed = offset_at(self._data, self._at)
                after, cursor = self._enter_records(FetchedBatch(view))
            elif view[MAGIC_AT] < V2:
                after, cursor = self._enter_messages(view)
            else:
                raise Malformed(f"unknown message format v{view[MAGIC_AT]}")
        except (Malformed, Oversized, CodecUnavailable) as fault:
            self._fail(fault, offset=max(self._position, claimed))
        else:
            # All at once and last: an interrupt before this leaves the batch still to be entered.
            self._at, self._after_batch, self._cursor = end, after, cursor
            self._leave_if_read()
        return True

    def _enter_records(self, batch: FetchedBatch) -> tuple[int, RecordCursor | None]:
        """The offset after the batch, and its records unless there are none to deliver."""
        header = batch.header
        if self._check_crcs:
            batch.verify()
        self._verify_order(header.base_offset)
        self._follow_epoch(self._position)  # all of the batch before this one is taken
        self._entered = header.leader_epoch, header.base_offset
        after = header.last_offset + 1
        if self._is_hidden(batch) or after <= self._position:
            return after, None
        records = records_of(batch, self._max_batch_bytes)
        cursor = RecordCursor(batch, records, self._tp.topic, self._tp.partition)
        if header.base_offset < self._position:
            cursor.skip_before(self._position)
        return after, cursor

    def _verify_order(self, offset: int) -> None:
        if self._at and offset < self._after_batch:
            raise Malformed(f"offset {offset} after those before {self._after_batch}")

    def _is_hidden(self, batch: FetchedBatch) -> bool:
        """Whether the batch is a control batch or of an aborted transaction (KIP-98)."""
        header = batch.header
        if self._aborted is None or header.producer_id < 0:
            return header.control
        self._aborted.reach(header.last_offset)
        if header.control:
            if is_abort_marker(batch, self._max_batch_bytes):
                self._aborted.end(header.producer_id)
            return True
        return header.transactional and header.producer_id in self._aborted

    def _enter_messages(self, view: memoryview) -> tuple[int, MessageCursor | None]:
        """The offset after the message, and what is in it unless there is nothing to deliver."""
        outer = Message(view, 0, view[MAGIC_AT])
        if self._check_crcs:
            outer.verify(view)
        self._verify_order(outer.offset)
        after = outer.offset + 1
        if after <= self._position:
            return after, None
        cursor = MessageCursor(
            view,
            outer,
            self._tp.topic,
            self._tp.partition,
            self._entered[0],
            check_crcs=self._check_crcs,
            limit=self._max_batch_bytes,
        )
        cursor.skip_before(self._position)
        return after, cursor

    def _decode(self, cursor: RecordCursor | MessageCursor, limit: int) -> None:
        """Move up to `limit` records from the batch being read to `_ready`."""
        raw = self._raw
        records: list[ConsumerRecord] = raw[:limit]
        fault: Exception | None = None
        mark = cursor.mark
        if not raw:
            try:
                mark = cursor.decode(limit, records)
            except Malformed as malformed:
                fault = malformed
        error, rest = self._deserialize(records)

        # An interrupt before this leaves the same records to be decoded again. If there is a fault,
        # the mark is before all of these records.
        cursor.mark = mark
        self._raw = rest + raw[limit:] if fault is None else []
        self._ready += records
        if records:
            self._position = records[-1].offset + 1
        if error is not None:
            self._position = error.offset
            self._error = error
        elif fault is not None:
            self._fail(fault, offset=self._position)
        else:
            self._leave_if_read()

    def _leave_if_read(self) -> None:
        if self._raw:
            return
        if self._cursor is None or not self._cursor.mark.left:
            self._cursor = None
            self._position = max(self._position, self._after_batch)

    def _deserialize(
        self, records: list[ConsumerRecord]
    ) -> tuple[RecordDeserializationError | None, list[ConsumerRecord]]:
        """Deserialize in place. At the first failure cut the list there, and return the error and
        the records after the refused one."""
        if self._deserialize_key is None and self._deserialize_value is None:
            return None, []
        for index, record in enumerate(records):
            key, value, headers = record.key, record.value, record.headers
            try:
                if self._deserialize_key is not None:
                    key = self._deserialize_key(self._tp.topic, headers, key)
                if self._deserialize_value is not None:
                    value = self._deserialize_value(self._tp.topic, headers, value)
            except Exception as cause:
                rest = records[index + 1 :]
                del records[index:]
                return undeserializable(record, cause), rest
            records[index] = ConsumerRecord(*record[:6], key, value, *record[8:])
        return None, []

    def _fail(self, fault: Exception, offset: int) -> None:
        """Keep the public error for `fault`; the position goes to `offset` and stays there."""
        self._position = offset
        self._error = public_error(
            fault,
            topic=self._tp.topic,
            partition=self._tp.partition,
            offset=offset,
            max_batch_bytes=self._max_batch_bytes,
        )
