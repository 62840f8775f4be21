"""The records that an iteration hands out, and the signal to stop: for the compiled iterator, too.

`Batch` and `Attention` are those of `record_iterator`, which is compiled, or the ones here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aktor import compiled
from aktor.consumer.core.partition import Partition

if TYPE_CHECKING:
    from aktor.consumer.core.record_iterator import RecordIterator

__all__ = ["Attention", "Batch", "iterator"]


class Batch:
    """The records that a poll took of one partition.

    The first `handed` records were handed out; of these the first `told` were traced. `first_at`
    and `last_at` are when the first and the last of the others were handed out.
    """

    __slots__ = ("epoch", "first_at", "handed", "last_at", "records", "state", "told")

    def __init__(self, state: Partition | None, records: list[Any]) -> None:
        self.state = state
        self.epoch = 0 if state is None else state.epoch
        self.records = records
        self.handed = self.told = 0
        self.first_at = self.last_at = 0.0

    def next(self, now: float) -> Any:
        """The next record, which is handed out; None if there is no more."""
        index = self.handed
        if index >= len(self.records):
            return None
        self.last_at = now
        if index == self.told:
            self.first_at = now
        record = self.records[index]
        self.handed = index + 1
        return record

    def take_back(self, handed: int) -> None:
        """Only the first `handed` records have reached the user."""
        self.handed = handed

    def tell(self) -> list[Any]:
        """The records that were handed out since the last call."""
        told, self.told = self.told, self.handed
        return self.records[told : self.handed]


class Attention:
    """Tells the compiled iterator to look for other work before the next record of its batch.

    `call` is called when another method of the consumer begins, and by `wakeup` and a nested
    `close`. The compiled iterator checks for such work only after that. The Python iterator checks
    for each record, so here `call` does nothing.
    """

    __slots__ = ()

    def call(self) -> None:
        """There is other work, or there was. From any thread."""


#: The compiled iterator, if it is used.
iterator: type[RecordIterator] | None = None

if compiled.is_wanted():
    with contextlib.suppress(ImportError):
        from aktor.consumer.core import record_iterator

        iterator = record_iterator.RecordIterator
        if not TYPE_CHECKING:
            Batch, Attention = record_iterator.Batch, record_iterator.Attention
