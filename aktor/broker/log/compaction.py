"""What the cleaner keeps of a log: the last record of every key (LogCleaner, KIP-534)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aktor.broker.log.records import UNREADABLE, StoredRecord, records_in, with_records
from aktor.records.batch import DELETE_HORIZON, BatchHeader, Buffer

__all__ = ["AbortedRanges", "Cleaner", "latest_of_keys"]


class AbortedRanges:
    """From which to which offset a producer's records are of an aborted transaction."""

    def __init__(self, aborted: Iterable[tuple[int, int, int]]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first_offset, last_offset in aborted:
            self._ranges.setdefault(producer_id, []).append((first_offset, last_offset))

    def __contains__(self, header: BatchHeader) -> bool:
        return header.transactional and any(
            first <= header.base_offset <= last
            for first, last in self._ranges.get(header.producer_id, ())
        )


def latest_of_keys(
    batches: Iterable[tuple[BatchHeader, Buffer]], aborted: AbortedRanges
) -> dict[bytes, int]:
    """The last offset of every key, aborted records aside."""
    latest: dict[bytes, int] = {}
    for header, batch in batches:
        if header.control or header in aborted:
            continue
        try:
            records = records_in(header, batch)
        except UNREADABLE:
            continue
        for record in records:
            if record.key is not None:
                latest[record.key] = header.base_offset + record.offset_delta
    return latest


class Cleaner:
    """Takes batches one by one, in order, and says what remains of each.

    `latest` is the last offset of every key. `last_offsets` are what is kept for the producers'
    sake. The batch at `last_base` is kept, be it empty, so that the end of the log is known.
    """

    def __init__(
        self,
        *,
        latest: Mapping[bytes, int],
        aborted: AbortedRanges,
        last_offsets: Mapping[int, tuple[int | None, int]],
        last_base: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._latest = latest
        self._aborted = aborted
        self._last_offsets = last_offsets
        self._last_base = last_base
        self._now_ms = now_ms
        self._horizon = now_ms + delete_retention_ms
        #: Producers of which there was something since their last marker.
        self._seen: set[int] = set()
        #: The offsets of markers of which nothing else is left.
        self.lonely_markers: set[int] = set()

    def clean(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """The batch as it remains, maybe without records; None if it goes."""
        try:
            records = records_in(header, batch)
        except UNREADABLE:
            return batch
        if header.control:
            return self._clean_marker(header, batch, records)

        if header.transactional:
            self._seen.add(header.producer_id)
        kept = [] if header in self._aborted else self._kept(header, records)
        if not kept:
            return self._emptied(header, batch)
        due = not header.attributes & DELETE_HORIZON and any(
            record.value is None for record in kept
        )
        if len(kept) == len(records) and not due:
            return batch
        return with_records(header, kept, delete_horizon=self._horizon if due else None)

    def _kept(self, header: BatchHeader, records: list[StoredRecord]) -> list[StoredRecord]:
        keep_tombstones = not self._past_horizon(header)
        return [
            record
            for record in records
            if record.key is not None
            and self._latest.get(record.key, -1) <= header.base_offset + record.offset_delta
            and (record.value is not None or keep_tombstones)
        ]

    def _past_horizon(self, header: BatchHeader) -> bool:
        return bool(header.attributes & DELETE_HORIZON) and header.base_timestamp <= self._now_ms

    def _clean_marker(
        self, header: BatchHeader, batch: Buffer, records: list[StoredRecord]
    ) -> Buffer | None:
        """A marker stays until nothing of its transaction is left, and as long as a tombstone."""
        if header.producer_id in self._seen:
            self._seen.remove(header.producer_id)
            return batch
        self.lonely_markers.add(header.base_offset)
        if not records or self._past_horizon(header):
            return self._emptied(header, batch)
        if header.attributes & DELETE_HORIZON:
            return batch
        return with_records(header, records, delete_horizon=self._horizon)

    def _emptied(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if header.base_offset != self._last_base and not self._is_last_of_producer(header):
            return None
        return with_records(header, ()) if header.record_count else batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last, epoch = self._last_offsets.get(header.producer_id, (None, -1))
        if last is not None:
            return header.last_offset == last
        return header.control and header.producer_epoch == epoch
