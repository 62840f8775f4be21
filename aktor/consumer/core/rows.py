"""From a fetched chunk to rows: its reader, and what the records are decoded into, a list of them
or columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aktor.events.fetching import Chunk
from aktor.records import Columns, Deserialize, RecordReader
from aktor.settings import Settings

__all__ = ["Filling", "Rows", "reader_maker"]


def reader_maker(
    settings: Settings, key: Deserialize | None, value: Deserialize | None
) -> Callable[[Chunk], RecordReader]:
    """A function that makes the reader of a fetched chunk."""
    read_committed = settings.isolation_level == "read_committed"

    def make(chunk: Chunk) -> RecordReader:
        return RecordReader(
            chunk.data,
            topic=chunk.partition.topic,
            partition=chunk.partition.partition,
            fetch_offset=chunk.offset,
            check_crcs=settings.check_crcs,
            read_committed=read_committed,
            aborted=chunk.aborted,
            deserialize_key=key,
            deserialize_value=value,
            max_batch_bytes=settings.max_decompressed_batch_bytes,
        )

    return make


class Rows:
    """Owns up to `limit` records of one partition, as they are decoded."""

    __slots__ = ("limit", "records")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.records: list[Any] = []

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.records)

    @property
    def full(self) -> bool:
        """Whether no record may be added."""
        return len(self.records) >= self.limit

    def extend(self, records: list[Any]) -> None:
        """Add these records."""
        # Most polls get all records of a partition from one chunk: its list is not copied.
        self.records = self.records + records if self.records else records

    def read(self, reader: RecordReader) -> None:
        """Add the reader's next records; raises what `reader.take` raises."""
        self.extend(reader.take(self.limit - len(self.records)))


class Filling:
    """Rows that are added to columns."""

    __slots__ = ("_columns", "limit")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.limit = columns.limit

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._columns.rows

    @property
    def full(self) -> bool:
        """Whether no row may be added."""
        return self._columns.full

    def extend(self, records: list[Any]) -> None:
        """Add these records."""
        for record in records:
            self._columns.append(record)

    def read(self, reader: RecordReader) -> None:
        """Add the reader's next records; raises what `reader.fill` raises."""
        reader.fill(self._columns)
