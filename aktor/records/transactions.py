"""Which producers' records belong to an aborted transaction at the offset being read (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.consumer.fetcher import ConsumerRecord

from aktor.records.batch import FetchedBatch
from aktor.records.faults import Malformed
from aktor.records.records import RecordCursor, records_of


class AbortedProducers:
    """Owns the aborted transactions of a Fetch response: which are open, and which are to come."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def reach(self, offset: int) -> None:
        """Open every transaction which begins at `offset` or before."""
        while self._coming and self._coming[-1][1] <= offset:
            producer_id, _ = self._coming.pop()
            self._open.add(producer_id)

    def end(self, producer_id: int) -> None:
        """The producer's ABORT marker was read: what it writes next is another transaction."""
        self._open.discard(producer_id)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._open


def is_abort_marker(batch: FetchedBatch, limit: int) -> bool:
    """Whether a control batch aborts a transaction.

    A control record's key is an int16 version and an int16 type, where 0 is ABORT.
    """
    marker: list[ConsumerRecord] = []
    RecordCursor(batch, records_of(batch, limit), "", 0).decode(1, marker)
    if not marker:
        return False  # the marker was compacted away
    key = marker[0].key
    if key is None or len(key) < 4:
        raise Malformed("a control record without a type")
    return bool(key[2:4] == b"\x00\x00")
