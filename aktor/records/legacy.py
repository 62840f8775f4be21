"""Messages as before Kafka 0.11: format v0 and v1, alone or wrapped in a compressed message."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from kafka.consumer.fetcher import ConsumerRecord

from aktor.records.batch import CODEC_MASK, LAST_OFFSET, LOG_APPEND_TIME, LOG_OVERHEAD
from aktor.records.codecs import decompress, repair_lz4_header
from aktor.records.faults import CodecUnavailable, Malformed
from aktor.records.records import Mark

_LZ4: Final = 3
_KNOWN_CODECS = (1, 2, _LZ4)

#: offset, length, crc, magic, attributes; v1 adds an int64 timestamp.
_HEADER = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
#: The checksum covers everything after itself.
_CHECKED_FROM = 16


class Message:
    """One message of format v0 or v1 at `start` of `buffer`; key and value are views."""

    __slots__ = (
        "attributes",
        "crc",
        "end",
        "key",
        "magic",
        "offset",
        "start",
        "timestamp",
        "value",
    )

    def __init__(self, buffer: memoryview, start: int, magic: int) -> None:
        self.start = start
        try:
            self.offset, length, self.crc, self.magic, self.attributes = _HEADER.unpack_from(
                buffer, start
            )
            self.end = start + LOG_OVERHEAD + length
            pos = start + _HEADER.size
            self.timestamp: int | None = None
            if magic:
                self.timestamp = _TIMESTAMP.unpack_from(buffer, pos)[0]
                pos += _TIMESTAMP.size
            self.key, pos = _read_bytes(buffer, pos)
            self.value, pos = _read_bytes(buffer, pos)
        except struct.error:
            raise Malformed("a message runs beyond its batch") from None
        if self.magic != magic:
            raise Malformed(f"a message of format v{self.magic} among those of v{magic}")
        if self.offset > LAST_OFFSET:
            raise Malformed(f"offset {self.offset} is greater than any")
        if self.offset < 0 or pos != self.end:
            raise Malformed(f"the message at offset {self.offset} is not as long as it says")

    def verify(self, buffer: memoryview) -> None:
        """Raise `Malformed` unless the checksum is that of the bytes."""
        found = crc32(buffer[self.start + _CHECKED_FROM : self.end])
        if found != self.crc:
            raise Malformed(
                f"checksum {found:#010x} instead of {self.crc:#010x} in the message"
                f" at offset {self.offset}"
            )


class MessageCursor:
    """Owns how far one message, or the messages wrapped in it, has been read.

    `mark` and `decode` are as in `RecordCursor`.
    """

    __slots__ = (
        "alone",
        "append_time",
        "base_offset",
        "buffer",
        "check_crcs",
        "last",
        "leader_epoch",
        "magic",
        "mark",
        "partition",
        "timestamp_type",
        "topic",
    )

    def __init__(
        self,
        view: memoryview,
        outer: Message,
        topic: str,
        partition: int,
        leader_epoch: int,
        *,
        check_crcs: bool,
        limit: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.magic = outer.magic
        # With LogAppendTime the timestamp of a compressed (wrapper) message is that of all messages
        # in it (KIP-32). Format v0 has no timestamps.
        self.timestamp_type = (
            (1 if outer.attributes & LOG_APPEND_TIME else 0) if self.magic else None
        )
        self.append_time = outer.timestamp if self.timestamp_type else None
        self.buffer = view
        self.base_offset = 0
        self.alone: Message | None = outer
        self.check_crcs = False  # an outer message was checked before
        count, last_offset = 1, outer.offset
        if outer.attributes & CODEC_MASK:
            self.alone = None
            self.check_crcs = check_crcs
            self.buffer = _unwrap(outer, limit)
            count, last_offset = _count(self.buffer)
            if self.magic:
                # In v1 the messages in a wrapper have relative offsets. The offset of the wrapper
                # is the absolute offset of its last message (KIP-31).
                self.base_offset = outer.offset - last_offset
                if self.base_offset < 0:
                    raise Malformed(f"offset {last_offset} in the wrapper {outer.offset}")
        if self.base_offset + last_offset > LAST_OFFSET:
            raise Malformed(f"offset {last_offset} is greater than any")
        self.last = last_offset
        self.mark = Mark(0, count, -1)

    def skip_before(self, offset: int) -> None:
        """Pass over the messages before `offset` without decoding them."""
        pos, left, previous = self.mark
        while left:
            relative, length = _entry(self.buffer, pos)
            if relative + self.base_offset >= offset:
                break
            pos, left, previous = pos + length, left - 1, relative
        self.mark = Mark(pos, left, previous)

    def decode(self, limit: int, records: list[ConsumerRecord]) -> Mark:
        """Append the next messages, `limit` at most, and return the mark after them.

        Raises `Malformed` at the first bad one, after those before it were appended.
        """
        pos, left, previous = self.mark
        take = min(limit, left)
        for _ in range(take):
            message = self.alone or Message(self.buffer, pos, self.magic)
            if self.check_crcs:
                message.verify(self.buffer)
            if self.alone is None and message.attributes & CODEC_MASK:
                raise Malformed("a compressed message in a compressed one")
            if not previous < message.offset <= self.last:
                raise Malformed(f"offset {message.offset} after {previous}, of {self.last}")
            pos, previous = message.end, message.offset
            records.append(self._record(message))
        return Mark(pos, left - take, previous)

    def _record(self, message: Message) -> ConsumerRecord:
        key = None if message.key is None else bytes(message.key)
        value = None if message.value is None else bytes(message.value)
        return ConsumerRecord(
            self.topic,
            self.partition,
            self.leader_epoch,
            self.base_offset + message.offset,
            message.timestamp if self.append_time is None else self.append_time,
            self.timestamp_type,
            key,
            value,
            [],
            message.crc,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            -1,
        )


def _unwrap(outer: Message, limit: int) -> memoryview:
    codec = outer.attributes & CODEC_MASK
    if codec not in _KNOWN_CODECS:
        raise CodecUnavailable(
            f"compressed with codec {codec}, which message format v{outer.magic} does not have"
        )
    if outer.value is None:
        raise Malformed("a compressed message without a value")
    repair = codec == _LZ4 and outer.magic == 0
    data = repair_lz4_header(outer.value) if repair else outer.value
    return memoryview(decompress(codec, data, limit))


def _count(buffer: memoryview) -> tuple[int, int]:
    """How many messages there are, and the offset of the last.

    The last one may be cut off: Java ignores it, as in a Fetch response of these formats.
    """
    count = pos = 0
    offset = -1
    while len(buffer) - pos >= LOG_OVERHEAD:
        length = int.from_bytes(buffer[pos + 8 : pos + LOG_OVERHEAD], "big", signed=True)
        if length > len(buffer) - pos - LOG_OVERHEAD:
            break
        offset, length = _entry(buffer, pos)
        pos += length
        count += 1
    if not count:
        raise Malformed("a compressed message without messages in it")
    return count, offset


def _entry(buffer: memoryview, pos: int) -> tuple[int, int]:
    """The offset of the message at `pos` and how many bytes it takes."""
    offset = int.from_bytes(buffer[pos : pos + 8], "big", signed=True)
    length = int.from_bytes(buffer[pos + 8 : pos + LOG_OVERHEAD], "big", signed=True)
    if length < 0 or pos + LOG_OVERHEAD + length > len(buffer):
        raise Malformed("a message runs beyond its batch")
    return offset, LOG_OVERHEAD + length


def _read_bytes(buffer: memoryview, pos: int) -> tuple[memoryview | None, int]:
    """A view of nullable bytes after their int32 length, and where they end."""
    size = _SIZE.unpack_from(buffer, pos)[0]
    pos += _SIZE.size
    if size == -1:
        return None, pos
    if size < 0:
        raise Malformed("a negative length in a message")
    return buffer[pos : pos + size], pos + size
