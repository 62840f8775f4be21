"""Where batches begin and end in fetched bytes, and what the header of a v2 batch says."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from aktor.records.faults import Malformed

#: Every format starts with an int64 offset and an int32 length, and has its magic at byte 16.
LOG_OVERHEAD: Final = 12
MAGIC_AT: Final = 16

#: The magic of the batches written since Kafka 0.11 (KIP-98).
V2: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
#: The base timestamp is when tombstones and markers may go (KIP-534).
DELETE_HORIZON: Final = 0x40

OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = _HEADER.size
#: The checksum covers what the producer wrote: from the attributes on. The broker fills in the
#: base offset and the leader epoch, so those (and the length and the magic) are not covered.
CHECKED_FROM: Final = 21
#: A message of v0 without key and value: checksum, magic, attributes and two lengths. No batch of
#: any format is shorter.
SMALLEST_LENGTH: Final = 14
#: Where the header of a v2 batch has fields that are read, or written, without the others.
CRC_AT: Final = 17
LAST_OFFSET_DELTA_AT: Final = 23
MAX_TIMESTAMP_AT: Final = 35
#: The greatest offset that a record may have: the one after it must be an int64 too.
LAST_OFFSET: Final = 2**63 - 2
#: Each field of a v2 record takes one byte at least.
_SMALLEST_RECORD = 7
_MAX_SEQUENCE: Final = 2**31 - 1

Buffer: TypeAlias = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The header of a v2 batch: its fields in the order of their bytes, sound or not."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def read(cls, data: Buffer, at: int = 0) -> BatchHeader:
        """The header at `at`, of which all bytes must be there."""
        return cls._make(_HEADER.unpack_from(data, at))

    @property
    def size(self) -> int:
        """The bytes of the batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2^31-1 comes 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE

    def checksum_of(self, batch: Buffer) -> int:
        """The checksum of these bytes, the batch of this header: to be compared with `crc`."""
        return int(crc32c(memoryview(batch)[CHECKED_FROM : self.size]))


def end_of_batch(data: memoryview, start: int) -> int | None:
    """Where the batch that begins at `start` ends, or None if it is not there to its end.

    A broker cuts a response at its size limit, so the last batch may be a part of one.
    """
    if len(data) - start < LOG_OVERHEAD:
        return None
    _, length = OFFSET_AND_LENGTH.unpack_from(data, start)
    if length < SMALLEST_LENGTH:
        raise Malformed(f"a batch of {length} bytes is too short")
    end: int = start + LOG_OVERHEAD + length
    return end if end <= len(data) else None


def offset_at(data: memoryview, start: int) -> int:
    """The offset that the batch at `start` claims, be it sound or not."""
    offset: int = OFFSET_AND_LENGTH.unpack_from(data, start)[0]
    return offset


class FetchedBatch:
    """One v2 batch of a Fetch response: its header, which is possible, and its bytes.

    Raises `Malformed` if no batch can have such a header.
    """

    __slots__ = ("header", "view")

    def __init__(self, view: memoryview) -> None:
        if len(view) < HEADER_SIZE:
            raise Malformed(f"a batch of {len(view)} bytes is shorter than its header")
        self.view = view
        self.header = header = BatchHeader.read(view)
        delta = header.last_offset_delta
        if header.base_offset < 0 or delta < 0 or header.last_offset > LAST_OFFSET:
            raise Malformed(f"offsets {header.base_offset} and {delta:+} after it")
        # Compaction may leave fewer records than offsets, never more.
        if not 0 <= header.record_count <= delta + 1:
            raise Malformed(f"{header.record_count} records in {self.offsets}")

    @property
    def offsets(self) -> str:
        return f"offsets {self.header.base_offset} to {self.header.last_offset}"

    @property
    def payload(self) -> memoryview:
        """The records, compressed as the header says."""
        return self.view[HEADER_SIZE:]

    def verify(self) -> None:
        """Raise `Malformed` unless the checksum is that of the bytes."""
        found, crc = self.header.checksum_of(self.view), self.header.crc
        if found != crc:
            raise Malformed(f"checksum {found:#010x} instead of {crc:#010x} in {self.offsets}")

    def verify_count(self, size: int) -> None:
        """Raise `Malformed` if `size` bytes of records cannot hold so many records."""
        count = self.header.record_count
        if count * _SMALLEST_RECORD > size:
            raise Malformed(f"{count} records in {size} bytes of {self.offsets}")
