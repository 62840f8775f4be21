"""The records that a partition of the simulated cluster still has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aktor.broker.log.records import records_in
from aktor.broker.partition import Partition

__all__ = ["Stored", "offsets_of", "records_of"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that is in its log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def place(self) -> str:
        """As in sentences: "orders-1:17"."""
        return f"{self.topic}-{self.partition}:{self.offset}"

    @property
    def shown(self) -> str:
        """Its value, if that is short."""
        return repr(self.value if self.value is None else self.value[:40])


def offsets_of(partition: Partition) -> set[int]:
    """Those of all records and markers that are there."""
    return {
        header.base_offset + record.offset_delta
        for header, batch in partition.log.all_batches()
        for record in records_in(header, batch)
    }


def records_of(partition: Partition) -> Iterator[Stored]:
    """What a read_committed consumer may be given of it from its beginning on."""
    start = partition.log.start_offset
    for header, batch in partition.log.committed():
        for record in records_in(header, batch):
            offset = header.base_offset + record.offset_delta
            if offset >= start:
                yield Stored(
                    topic=partition.topic,
                    partition=partition.index,
                    offset=offset,
                    timestamp=header.base_timestamp + record.timestamp_delta,
                    key=record.key,
                    value=record.value,
                    headers=tuple(record.headers),
                )
