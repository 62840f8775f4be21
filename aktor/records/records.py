"""The hot loop: from the records of one v2 batch to `ConsumerRecord`s, in one pass."""

from __future__ import annotations

from typing import NamedTuple

from kafka.consumer.fetcher import ConsumerRecord

from aktor.records.batch import FetchedBatch
from aktor.records.codecs import decompress, readable
from aktor.records.faults import Malformed

Headers = list[tuple[str, bytes | None]]

#: A varint of 32 bits has 5 bytes at most, one of 64 bits 10.
_VARINT = 5
_VARLONG = 10
#: How a null key and a null value are written: length -1, zigzag.
_NULL = 1


class Mark(NamedTuple):
    """How far a batch has been read."""

    pos: int
    left: int
    previous_delta: int


class RecordCursor:
    """Owns how far one v2 batch has been read.

    `decode` returns the new mark and does not set `mark`. The caller sets it when it has handed
    over the records. If it is interrupted before that, the same records are decoded again.
    """

    __slots__ = ("batch", "buffer", "mark", "partition", "topic")

    def __init__(
        self, batch: FetchedBatch, buffer: bytes | memoryview, topic: str, partition: int
    ) -> None:
        batch.verify_count(len(buffer))
        self.batch = batch
        self.buffer = buffer
        self.topic = topic
        self.partition = partition
        self.mark = Mark(0, batch.header.record_count, -1)
        if not self.mark.left:
            self._verify_end(self.mark)

    def skip_before(self, offset: int) -> None:
        """Pass over the records before `offset` without decoding them."""
        buffer = self.buffer
        pos, left, previous = self.mark
        wanted = offset - self.batch.header.base_offset
        try:
            while left:
                length, start = read_varint(buffer, pos, _VARINT)
                _, at = read_varint(buffer, start + 1, _VARLONG)
                raw_delta, at = read_varint(buffer, at, _VARINT)
                delta = raw_delta >> 1
                if delta >= wanted:
                    break
                end = start + (length >> 1)
                if length & 1 or raw_delta & 1 or at > end or delta <= previous:
                    raise Malformed("a record does not have the structure of one")
                if end > len(buffer):
                    raise IndexError
                pos, left, previous = end, left - 1, delta
        except IndexError:
            raise Malformed("a record runs beyond its batch") from None
        self.mark = Mark(pos, left, previous)
        if not left:
            self._verify_end(self.mark)

    @property
    def next_timestamp(self) -> int:
        """The timestamp of the record at the mark; the newest of the batch if there is none."""
        header = self.batch.header
        pos, left, _ = self.mark
        try:
            if not left or header.log_append_time:
                return header.max_timestamp
            _, pos = read_varint(self.buffer, pos, _VARINT)
            moment, _ = read_varint(self.buffer, pos + 1, _VARLONG)
        except (IndexError, Malformed):
            return header.max_timestamp
        return header.base_timestamp + ((moment >> 1) ^ -(moment & 1))

    def decode(self, limit: int, records: list[ConsumerRecord]) -> Mark:
        """Append the next records, `limit` at most, and return the mark after them.

        Raises `Malformed` at the first bad one, after those before it were appended.
        """
        # Long, flat and repetitive on purpose: a call per field would cost more than the field.
        header = self.batch.header
        topic = self.topic
        partition = self.partition
        epoch = header.leader_epoch
        base_offset = header.base_offset
        timestamp_type = 1 if header.log_append_time else 0
        base_timestamp = header.base_timestamp
        max_timestamp = header.max_timestamp
        last_delta = header.last_offset - base_offset
        buffer = self.buffer
        is_view = type(buffer) is not bytes
        append = records.append
        new = tuple.__new__
        pos, left, delta = self.mark
        take = min(limit, left)

        try:
            for _ in range(take):
                length = buffer[pos]
                if length < 0x80:
                    start = pos + 1
                elif (high := buffer[pos + 1]) < 0x80:
                    length += (high << 7) - 0x80
                    start = pos + 2
                else:
                    length, start = read_varint(buffer, pos, _VARINT)

                pos = start + 1  # the attributes of a record are unused
                moment = buffer[pos]
                if moment < 0x80:
                    pos += 1
                elif (high := buffer[pos + 1]) < 0x80:
                    moment += (high << 7) - 0x80
                    pos += 2
                else:
                    moment, pos = read_varint(buffer, pos, _VARLONG)

                previous = delta
                delta = buffer[pos]
                if delta < 0x80:
                    pos += 1
                elif (high := buffer[pos + 1]) < 0x80:
                    delta += (high << 7) - 0x80
                    pos += 2
                else:
                    delta, pos = read_varint(buffer, pos, _VARINT)
                if delta & 1:
                    raise Malformed("a record with a negative offset delta")
                delta >>= 1
                if not previous < delta <= last_delta:
                    raise Malformed(f"offset delta {delta} after {previous}, of {last_delta}")

                key_size = buffer[pos]
                if key_size == _NULL:
                    pos += 1
                    key = None
                    key_size = -1
                else:
                    if key_size < 0x80:
                        pos += 1
                    else:
                        key_size, pos = read_varint(buffer, pos, _VARINT)
                    if key_size & 1:
                        raise Malformed("a key of negative length")
                    key_size >>= 1
                    key = buffer[pos : pos + key_size]
                    if is_view:
                        key = bytes(key)
                    pos += key_size

                value_size = buffer[pos]
                if value_size < 0x80:
                    pos += 1
                elif (high := buffer[pos + 1]) < 0x80:
                    value_size += (high << 7) - 0x80
                    pos += 2
                else:
                    value_size, pos = read_varint(buffer, pos, _VARINT)
                if value_size & 1:
                    if value_size != _NULL:
                        raise Malformed("a value of negative length")
                    value = None
                    value_size = -1
                else:
                    value_size >>= 1
                    value = buffer[pos : pos + value_size]
                    if is_view:
                        value = bytes(value)
                    pos += value_size

                if buffer[pos]:
                    headers, headers_size, pos = _read_headers(buffer, pos)
                else:
                    headers = []
                    headers_size = -1
                    pos += 1
                if (pos - start) * 2 != length:
                    raise Malformed("a record is not as long as it says")

                append(
                    new(
                        ConsumerRecord,
                        (
                            topic,
                            partition,
                            epoch,
                            base_offset + delta,
                            max_timestamp
                            if timestamp_type
                            else base_timestamp + ((moment >> 1) ^ -(moment & 1)),
                            timestamp_type,
                            key,
                            value,
                            headers,
                            None,
                            key_size,
                            value_size,
                            headers_size,
                        ),
                    )
                )
        except IndexError:
            raise Malformed("a record runs beyond its batch") from None

        mark = Mark(pos, left - take, delta)
        if not mark.left:
            self._verify_end(mark)
        return mark

    def _verify_end(self, mark: Mark) -> None:
        if mark.pos != len(self.buffer):
            excess = len(self.buffer) - mark.pos
            raise Malformed(f"{excess} bytes after the last record of {self.batch.offsets}")


def records_of(batch: FetchedBatch, limit: int) -> bytes | memoryview:
    """The records of a batch, decompressed to `limit` bytes at most."""
    if codec := batch.header.codec:
        return readable(decompress(codec, batch.payload, limit))
    return readable(batch.payload)


def read_varint(buffer: bytes | memoryview, pos: int, longest: int) -> tuple[int, int]:
    """The unsigned varint at `pos` of `longest` bytes at most, and where it ends.

    Raises `IndexError` if the buffer ends before it.
    """
    value: int = buffer[pos]
    if value < 0x80:
        return value, pos + 1
    value = 0
    for index in range(longest):
        byte = buffer[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> (32 if longest == _VARINT else 64):
                break
            return value, pos + index + 1
    raise Malformed("a varint is too long")


def _read_headers(buffer: bytes | memoryview, pos: int) -> tuple[Headers, int, int]:
    """The headers of the record whose count of headers is at `pos`, their size, and their end."""
    raw_count, pos = read_varint(buffer, pos, _VARINT)
    if raw_count & 1:
        raise Malformed("a record with a negative number of headers")
    headers: Headers = []
    total = 0
    for _ in range(raw_count >> 1):
        raw_size = buffer[pos]
        if raw_size < 0x80:
            pos += 1
        else:
            raw_size, pos = read_varint(buffer, pos, _VARINT)
        if raw_size & 1:
            raise Malformed("a header without a key")
        end = pos + (raw_size >> 1)
        # As Java does: a name that is not UTF-8 must not keep the record from being read.
        key = bytes(buffer[pos:end]).decode(errors="replace")
        total += end - pos

        raw_size = buffer[end]
        if raw_size < 0x80:
            pos = end + 1
        else:
            raw_size, pos = read_varint(buffer, end, _VARINT)
        if raw_size & 1:
            if raw_size != _NULL:
                raise Malformed("a header's value of negative length")
            headers.append((key, None))
        else:
            end = pos + (raw_size >> 1)
            headers.append((key, bytes(buffer[pos:end])))
            total += end - pos
            pos = end
    # A slice beyond the end of the buffer is shorter, without an error: so compare the position.
    if pos > len(buffer):
        raise Malformed("a header runs beyond its batch")
    return headers, total if headers else -1, pos
