"""What records are decoded into: a list of them, or columns."""

from __future__ import annotations

from typing import Any

from aktor.records import Columns, RecordReader

__all__ = ["Filling", "Rows"]


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
