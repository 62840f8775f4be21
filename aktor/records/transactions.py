"""Which producers' records belong to an aborted transaction at the offset being read (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence


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
