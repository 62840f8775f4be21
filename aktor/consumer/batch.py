"""What an iteration hands out, and when it has to look up: shared with the compiled iterator.

`Batch` and `Attention` are those of `record_iterator`, which is compiled, or the ones here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aktor import compiled
from aktor.consumer.partition import Partition

if TYPE_CHECKING:
    from aktor.consumer.record_iterator import RecordIterator

__all__ = ["Attention", "Batch", "iterator"]


class Batch:
    """The records that a poll took of one partition.

    The first `handed` were handed out, the first `told` of them the trace knows of.
    """

    __slots__ = ("epoch", "handed", "records", "state", "told")

    def __init__(self, state: Partition | None, records: list[Any]) -> None:
        self.state = state
        self.epoch = 0 if state is None else state.epoch
        self.records = records
        self.handed = self.told = 0

    def take_back(self, handed: int) -> None:
        """Of what was handed out only so many records have arrived."""
        self.handed = handed

    def tell(self) -> list[Any]:
        """What was handed out since this was last called."""
        told, self.told = self.told, self.handed
        return self.records[told : self.handed]


class Attention:
    """Tells the compiled iterator that it has to look at more than the batch it is in.

    It is called at the beginning of each call that is not an iteration, and by all that ends one.
    In Python all of that is looked at for every record, and nobody listens here.
    """

    __slots__ = ()

    def call(self) -> None:
        """Something else was done, or is to be done. From any thread."""


#: The compiled iterator, if it is used.
iterator: type[RecordIterator] | None = None

if compiled.is_wanted():
    with contextlib.suppress(ImportError):
        from aktor.consumer import record_iterator

        iterator = record_iterator.RecordIterator
        if not TYPE_CHECKING:
            Batch, Attention = record_iterator.Batch, record_iterator.Attention
