"""Record batches of format v2 as a log has them: whether they may be written, and what the broker
fills in."""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from aktor.broker.codes import Code, Refused
from aktor.records.batch import (
    CHECKED_FROM,
    CRC_AT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OFFSET_AND_LENGTH,
    SMALLEST_LENGTH,
    V2,
    BatchHeader,
    Buffer,
)

__all__ = [
    "ZSTD",
    "assemble",
    "extent",
    "is_sound",
    "only_batch",
    "stamped",
    "with_checksum",
]

ZSTD: Final = 4
#: The first version of Produce that may carry zstd (KIP-110).
_ZSTD_SINCE: Final = 7

#: What the checksum covers, up to the records.
_CHECKED = struct.Struct(">hiqqqhii")
#: Base offset, length and, far behind, the last offset's delta.
_EXTENT = struct.Struct(">qi11xi")


def extent(data: Buffer, at: int = 0) -> tuple[int, int]:
    """(last offset, bytes) of the batch at `at`, of whose header all bytes must be there."""
    base_offset, length, delta = _EXTENT.unpack_from(data, at)
    return base_offset + delta, length + LOG_OVERHEAD


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
    if data[MAGIC_AT] != V2:
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
    if left < LOG_OVERHEAD:
        return None
    length: int = OFFSET_AND_LENGTH.unpack_from(data, at)[1]
    if length < SMALLEST_LENGTH:
        raise Refused(Code.CORRUPT_MESSAGE, f"A batch of {length} bytes is too short.")
    if left <= MAGIC_AT:
        return None
    if data[at + MAGIC_AT] > V2:
        raise Refused(Code.CORRUPT_MESSAGE, f"Invalid magic {data[at + MAGIC_AT]} in a batch.")
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= left else None


def with_checksum(batch: Buffer, crc: int) -> bytearray:
    """The same bytes with another checksum in their header."""
    changed = bytearray(batch)
    struct.pack_into(">I", changed, CRC_AT, crc & 0xFFFFFFFF)
    return changed


def is_sound(header: BatchHeader, batch: Buffer) -> bool:
    """Whether these bytes are a batch as a log has it, with the right checksum."""
    return (
        header.magic == V2
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.checksum_of(batch) == header.crc
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
        struct.pack_into(">h", batch, CHECKED_FROM, attributes)
        struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, max_timestamp)
        crc = crc32c(memoryview(batch)[CHECKED_FROM:])
        struct.pack_into(">I", batch, CRC_AT, crc)
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
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    crc = crc32c(payload, crc32c(checked))
    batch = bytearray(struct.pack(">qiibI", base_offset, length, leader_epoch, V2, crc))
    batch += checked
    batch += payload
    return batch
