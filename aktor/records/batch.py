"""Where batches begin and end in fetched bytes, and what the header of a v2 batch says."""

from __future__ import annotations

import struct
from typing import Final

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

_OFFSET_AND_LENGTH = struct.Struct(">qi")
#: base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp,
#: max timestamp, producer id, producer epoch, base sequence, count of records
_HEADER = struct.Struct(">qiibIhiqqqhii")
#: The checksum covers what the producer wrote: from the attributes on. The broker fills in the
#: base offset and the leader epoch, so those (and the length and the magic) are not covered.
_CHECKED_FROM = 21
#: A message of v0 without key and value: checksum, magic, attributes and two lengths.
_SMALLEST_LENGTH = 14
#: The greatest offset that a record may have: the one after it must be an int64 too.
LAST_OFFSET: Final = 2**63 - 2
#: Each field of a v2 record takes one byte at least.
_SMALLEST_RECORD = 7


def end_of_batch(data: memoryview, start: int) -> int | None:
    """Where the batch that begins at `start` ends, or None if it is not there to its end.

    A broker cuts a response at its size limit, so the last batch may be a part of one.
    """
    if len(data) - start < LOG_OVERHEAD:
        return None
    _, length = _OFFSET_AND_LENGTH.unpack_from(data, start)
    if length < _SMALLEST_LENGTH:
        raise Malformed(f"a batch of {length} bytes is too short")
    end: int = start + LOG_OVERHEAD + length
    return end if end <= len(data) else None


def offset_at(data: memoryview, start: int) -> int:
    """The offset that the batch at `start` claims, be it sound or not."""
    offset: int = _OFFSET_AND_LENGTH.unpack_from(data, start)[0]
    return offset


class BatchHeader:
    """The header of one v2 batch, and the view of its (maybe compressed) records."""

    __slots__ = (
        "base_offset",
        "base_timestamp",
        "count",
        "crc",
        "flags",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "payload",
        "producer_id",
        "view",
    )

    def __init__(self, view: memoryview) -> None:
        if len(view) < _HEADER.size:
            raise Malformed(f"a batch of {len(view)} bytes is shorter than its header")
        (
            self.base_offset,
            _,
            self.leader_epoch,
            _,
            self.crc,
            self.flags,
            last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            _,
            _,
            self.count,
        ) = _HEADER.unpack_from(view)
        self.view = view
        self.payload = view[_HEADER.size :]
        if (
            self.base_offset < 0
            or last_offset_delta < 0
            or self.base_offset + last_offset_delta > LAST_OFFSET
        ):
            raise Malformed(f"offsets {self.base_offset} and {last_offset_delta:+} after it")
        self.last_offset: int = self.base_offset + last_offset_delta
        # Compaction may leave fewer records than offsets, never more.
        if not 0 <= self.count <= last_offset_delta + 1:
            raise Malformed(f"{self.count} records in {self.offsets}")

    @property
    def offsets(self) -> str:
        return f"offsets {self.base_offset} to {self.last_offset}"

    def verify(self) -> None:
        """Raise `Malformed` unless the checksum is that of the bytes."""
        found = crc32c(self.view[_CHECKED_FROM:])
        if found != self.crc:
            raise Malformed(f"checksum {found:#010x} instead of {self.crc:#010x} in {self.offsets}")

    def verify_count(self, size: int) -> None:
        """Raise `Malformed` if `size` bytes of records cannot hold so many records."""
        if self.count * _SMALLEST_RECORD > size:
            raise Malformed(f"{self.count} records in {size} bytes of {self.offsets}")
