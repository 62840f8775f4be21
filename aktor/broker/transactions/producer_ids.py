"""Producer ids: each is given to one producer only, once and for ever."""

from __future__ import annotations

from typing import Any, Final

from aktor.broker.call import Journal

__all__ = ["ProducerIds"]

#: How many ids are set aside by one entry in the journal, as Kafka's controller does.
_BLOCK: Final = 1000


class ProducerIds:
    """Owns the counter. After a restart the rest of the last block is skipped, as in Kafka."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = 0
        self._end = 0

    def take(self) -> int:
        """An id that no producer had before."""
        if self._next == self._end:
            self._end += _BLOCK
            self._journal.put("producer-id", ("next",), self._end)
        taken = self._next
        self._next += 1
        return taken

    def restore(self, value: Any) -> None:
        """Go on after the last block that was set aside."""
        self._next = self._end = int(value)
