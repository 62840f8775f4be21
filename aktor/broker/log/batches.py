"""Record batches of format v2 as bytes: what their headers say, whether they may be written."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from aktor.broker.codes import Code, Refused

__all__ = [
    "CODEC_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "TRANSACTIONAL",
    "BatchHeader",
    "Buffer",
    "ZSTD",
    "assemble",
    "extent",
    "has_right_checksum",
    "is_sound",
    "only_batch",
    "stamped",
    "with_checksum",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
#: The base timestamp is when tombstones and markers may go (KIP-534).
DELETE_HORIZON: Final = 0x40

ZSTD: Final = 4
#: The first version of Produce that may carry zstd (KIP-110).
_ZSTD_SINCE: Final = 7

_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
#: The shortest message of format v0: no batch of any format is shorter.
_SMALLEST_LENGTH: Final = 14
_MAX_SEQUENCE: Final = 2**31 - 1

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
#: What the checksum covers, up to the records.
_CHECKED = struct.Struct(">hiqqqhii")
HEADER_SIZE: Final = _HEADER.size
#: Base offset, length and, far behind, the last offset's delta.
_EXTENT = struct.Struct(">qi11xi")


class BatchHeader(NamedTuple):
    """The fields of a header in the order of their bytes."""

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
        return self.length + _OVERHEAD

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


def extent(data: Buffer, at: int = 0) -> tuple[int, int]:
    """(last offset, bytes) of the batch at `at`, of whose header all bytes must be there."""
    base_offset, length, delta = _EXTENT.unpack_from(data, at)
    return base_offset + delta, length + _OVERHEAD


def only_batch(records: Buffer | None, *, api_version: int) -> BatchHeader:
    """The header of the one batch that a Produce request has for a partition.

    Raises Refused as ProduceRequest.validateRecords does. A cut-off batch at the end is ignored.
    """
    data = b"" if records is None else records
    size = _whole_batch(data, 0)
    if size is None:
        raise Refused(
            Code.INVALID_RECORD,
            f"Produce requests with version {api_version} must have at least one record batch per"
            " partition",
        )
    if data[_MAGIC_AT] != 2:
        raise Refused(
            Code.INVALID_RECORD,
            f"Produce requests with version {api_version} are only allowed to contain record"
            " batches with magic version 2",
        )
    if size < HEADER_SIZE:
        raise Refused(Code.CORRUPT_MESSAGE)
    header = BatchHeader.read(data)
    if header.codec == ZSTD and api_version < _ZSTD_SINCE:
        raise Refused(
            Code.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {api_version} are not allowed to use ZStandard"
            " compression",
        )
    if len(data) > size and _whole_batch(data, size) is not None:
        raise Refused(
            Code.INVALID_RECORD,
            f"Produce requests with version {api_version} are only allowed to contain exactly one"
            " record batch per partition",
        )
    return header


def _whole_batch(data: Buffer, at: int) -> int | None:
    """The size of the batch at `at` in any format, or None if it is not there to its end."""
    left = len(data) - at
    if left < _OVERHEAD:
        return None
    length: int = _OFFSET_AND_LENGTH.unpack_from(data, at)[1]
    if length < _SMALLEST_LENGTH:
        raise Refused(Code.CORRUPT_MESSAGE, f"A batch of {length} bytes is too short.")
    if left <= _MAGIC_AT:
        return None
    if data[at + _MAGIC_AT] > 2:
        raise Refused(Code.CORRUPT_MESSAGE, f"Invalid magic {data[at + _MAGIC_AT]} in a batch.")
    return length + _OVERHEAD if length + _OVERHEAD <= left else None


def has_right_checksum(header: BatchHeader, data: Buffer) -> bool:
    """Whether the bytes are those that the checksum in the header was made of."""
    return bool(crc32c(memoryview(data)[_CHECKED_FROM : header.size]) == header.crc)


def with_checksum(batch: Buffer, crc: int) -> bytearray:
    """The same bytes with another checksum in their header."""
    changed = bytearray(batch)
    struct.pack_into(">I", changed, _CRC_AT, crc & 0xFFFFFFFF)
    return changed


def is_sound(header: BatchHeader, batch: Buffer) -> bool:
    """Whether these bytes are a batch as a log has it, with the right checksum."""
    return (
        header.magic == 2
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
        and has_right_checksum(header, batch)
    )


def stamped(
    header: BatchHeader,
    data: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    log_append_time: int | None,
) -> tuple[BatchHeader, bytearray]:
    """A copy of the batch with what the broker fills in, and its header.

    `log_append_time` in ms for topics with LogAppendTime, else None. The checksum covers it, but
    neither the offset nor the leader epoch.
    """
    batch = bytearray(memoryview(data)[: header.size])
    attributes, max_timestamp, crc = header.attributes, header.max_timestamp, header.crc
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    else:
        attributes &= ~LOG_APPEND_TIME
    if attributes != header.attributes or max_timestamp != header.max_timestamp:
        struct.pack_into(">h", batch, _CHECKED_FROM, attributes)
        struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
        crc = crc32c(memoryview(batch)[_CHECKED_FROM:])
        struct.pack_into(">I", batch, _CRC_AT, crc)
    struct.pack_into(">qii", batch, 0, base_offset, header.length, leader_epoch)
    new = header._replace(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        max_timestamp=max_timestamp,
        crc=crc,
    )
    return new, batch


def assemble(
    payload: Buffer,
    *,
    count: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = -1,
    max_timestamp: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """A batch around records that are encoded (and compressed as `attributes` say)."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    checked = _CHECKED.pack(
        attributes,
        delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    length = HEADER_SIZE - _OVERHEAD + len(payload)
    crc = crc32c(payload, crc32c(checked))
    batch = bytearray(struct.pack(">qiibI", base_offset, length, leader_epoch, 2, crc))
    batch += checked
    batch += payload
    return batch
