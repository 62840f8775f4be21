"""Logs and batches for tests, and what a consumer sees of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.consumer.fetcher import ConsumerRecord

from aktor.broker.log.log import Appended, LogConfig, PartitionLog
from aktor.broker.log.records import build_batch
from aktor.records import RecordReader

NOW = 1_700_000_000.0
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def a_log(**settings: Any) -> PartitionLog:
    """A log in memory with these settings of `LogConfig`."""
    return PartitionLog(config=LogConfig(**settings))


def a_batch(*values: bytes | None, keys: Sequence[bytes | None] = (), **fields: Any) -> bytes:
    """What a producer sends: one record for each value, without key if none is given."""
    pairs = list(zip(keys, values, strict=True)) if keys else [(None, value) for value in values]
    return bytes(build_batch(pairs or [(None, b"value")], **{"timestamp": NOW_MS, **fields}))


def write(log: PartitionLog, batch: bytes, *, epoch: int = 0, now: float = NOW) -> Appended:
    """Append a batch and have it replicated at once."""
    appended = log.append(batch, leader_epoch=epoch, now=now)
    log.advance(log.end_offset)
    return appended


def write_each(log: PartitionLog, *values: bytes) -> None:
    """One batch for each value."""
    for value in values:
        write(log, a_batch(value))


def end_transaction(
    log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator: int = 0
) -> Appended:
    """Append the marker and have it replicated at once."""
    appended = log.append_marker(
        producer_id,
        epoch,
        commit=commit,
        coordinator_epoch=coordinator,
        leader_epoch=0,
        now=NOW,
    )
    log.advance(log.end_offset)
    return appended


def in_transaction(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch of a transaction."""
    return a_batch(
        *values,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def consumed(log: PartitionLog, *, read_committed: bool = False) -> list[ConsumerRecord]:
    """All records from the start, as a consumer takes them from many small fetches."""
    records: list[ConsumerRecord] = []
    upto = log.last_stable_offset if read_committed else log.high_watermark
    offset = log.start_offset
    while data := log.read(offset, 300, upto=upto):
        reader = RecordReader(
            bytes(data),
            topic="orders",
            partition=0,
            fetch_offset=offset,
            read_committed=read_committed,
            aborted=log.aborted(offset, upto),
        )
        while not reader.exhausted:
            records += reader.take(100)
        assert reader.next_offset > offset, "a fetch that does not get on"
        offset = reader.next_offset
    return records


def values(log: PartitionLog, *, read_committed: bool = False) -> list[bytes | None]:
    return [record.value for record in consumed(log, read_committed=read_committed)]


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in consumed(log)]
