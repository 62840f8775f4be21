"""What a client may write to a log, and what not."""

from __future__ import annotations

from typing import Final

from aktor.broker.codes import Code, Refused
from aktor.broker.log.batches import ZSTD, BatchHeader, Buffer, has_right_checksum
from aktor.broker.log.config import LogConfig
from aktor.broker.log.records import UNREADABLE, records_in

__all__ = ["validate_batch", "validate_records"]

_LONG_MAX: Final = 2**63 - 1
#: The timestamp of a record that has none.
_NO_TIMESTAMP: Final = -1


def validate_batch(header: BatchHeader, data: Buffer, *, max_bytes: int) -> None:
    """Raise Refused unless a client may write this batch (UnifiedLog, LogValidator)."""
    if header.base_offset != 0:
        raise Refused(
            Code.INVALID_RECORD,
            f"The baseOffset of the record batch should be 0, but it is {header.base_offset}",
        )
    if header.size > max_bytes:
        raise Refused(
            Code.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size} bytes which exceeds the maximum configured"
            f" value of {max_bytes}.",
        )
    if not has_right_checksum(header, data):
        raise Refused(Code.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}).")
    if header.codec > ZSTD:
        raise Refused(Code.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {header.codec}")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise Refused(
            Code.INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records"
            f" {header.record_count}",
        )
    if header.control:
        raise Refused(Code.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise Refused(
            Code.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId"
            f" {header.producer_id}",
        )


def validate_records(header: BatchHeader, data: Buffer, *, config: LogConfig, now_ms: int) -> None:
    """Raise Refused for what Kafka finds record by record (LogValidator).

    They are only read where the header does not tell: for the keys of compacted topics, and if
    records may not be too old.
    """
    if config.log_append_time and header.log_append_time:
        raise Refused(
            Code.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime."
        )
    oldest = newest = header.max_timestamp
    if config.compacted or config.message_timestamp_before_max_ms < _LONG_MAX:
        oldest = _oldest(header, data, keys=config.compacted)
    if not config.log_append_time and newest != _NO_TIMESTAMP:
        _validate_times(oldest, newest, config, now_ms)


def _oldest(header: BatchHeader, data: Buffer, *, keys: bool) -> int:
    """The oldest timestamp; `keys`: Raise Refused if a record has none."""
    try:
        records = records_in(header, data)
    except UNREADABLE as fault:
        raise Refused(Code.INVALID_RECORD, f"Found an invalid record: {fault}") from None
    if keys and any(record.key is None for record in records):
        raise Refused(Code.INVALID_RECORD, "Compacted topic cannot accept message without key.")
    times = (header.base_timestamp + record.timestamp_delta for record in records)
    return min((time for time in times if time != _NO_TIMESTAMP), default=header.max_timestamp)


def _validate_times(oldest: int, newest: int, config: LogConfig, now_ms: int) -> None:
    low = now_ms - config.message_timestamp_before_max_ms
    high = now_ms + config.message_timestamp_after_max_ms
    if oldest < low or newest > high:
        raise Refused(
            Code.INVALID_TIMESTAMP,
            f"Timestamps {oldest} to {newest} of a batch are out of range. They should be within"
            f" [{low}, {high}]",
        )
