"""What a client may write to a log, and what not."""

from __future__ import annotations

from typing import Final

from aktor.broker.codes import Code, Refused
from aktor.broker.log.batches import ZSTD
from aktor.broker.log.config import LogConfig
from aktor.broker.log.records import UNREADABLE, StoredRecord, records_in
from aktor.records.batch import BatchHeader, Buffer

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
    if header.checksum_of(data) != header.crc:
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
    low = now_ms - config.message_timestamp_before_max_ms
    high = now_ms + config.message_timestamp_after_max_ms
    timely = config.log_append_time or header.max_timestamp <= high
    if timely and not config.compacted and config.message_timestamp_before_max_ms == _LONG_MAX:
        return
    records = _read(header, data)
    if config.compacted:
        _refuse_those(
            Code.INVALID_RECORD,
            "Compacted topic cannot accept message without key.",
            [index for index, record in enumerate(records) if record.key is None],
        )
    if config.log_append_time:
        return
    times = [header.base_timestamp + record.timestamp_delta for record in records]
    _refuse_those(
        Code.INVALID_TIMESTAMP,
        f"The timestamp is out of range. It should be within [{low}, {high}]",
        [
            index
            for index, time in enumerate(times)
            if time != _NO_TIMESTAMP and not low <= time <= high
        ],
    )


def _read(header: BatchHeader, data: Buffer) -> list[StoredRecord]:
    try:
        return records_in(header, data)
    except UNREADABLE as fault:
        raise Refused(Code.INVALID_RECORD, f"Found an invalid record: {fault}") from None


def _refuse_those(code: Code, why: str, indices: list[int]) -> None:
    """Raise Refused if records are to blame, by their place in the batch."""
    if indices:
        raise Refused(code, why, [(index, why) for index in indices])
