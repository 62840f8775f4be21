"""Records as columns, in the layout of Apache Arrow: the twin in Python of `kernel.Columns`.

pyarrow is not needed here: `aktor.consumer.columns.arrow` makes a RecordBatch of these buffers,
without copying them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["MAX_COLUMN_BYTES", "Binary", "Buffer", "Columns", "Row", "to_records"]

#: Whatever has the buffer protocol.
Buffer: TypeAlias = Any

#: The bytes of keys, values and headers after which no row is added, whatever is asked for: where
#: a value ends is an int32.
MAX_COLUMN_BYTES: Final = 1 << 30

_INT64: Final = (-(2**63), 2**63 - 1)


class Binary(NamedTuple):
    """Bytes or text that may be null; `valid` (a bit for each row, the lowest first) is None if
    nothing is null. `ends` (int32) begins with 0."""

    valid: Buffer | None
    ends: Buffer
    data: Buffer


class Row(NamedTuple):
    """What the trace tells of a row."""

    offset: int
    leader_epoch: int
    timestamp: int | None


class Columns:
    """Owns rows that are collected by columns, until `limit` of them or `max_bytes` are here.

    `rows` and `size` (bytes of keys, values and headers) say how many. `expected` is how many bytes
    the values will probably have. Without `key`, `value` or `headers` these are left out.
    """

    def __init__(
        self,
        limit: int,
        max_bytes: int | None = None,
        *,
        key: bool = True,
        value: bool = True,
        headers: bool = True,
        expected: int = 0,
    ) -> None:
        self.rows = 0
        self.size = 0
        self.limit = limit
        #: The topics of the rows; `topic` has indices of this.
        self.topics: list[str] = []
        self._max_bytes = min(max_bytes or MAX_COLUMN_BYTES, MAX_COLUMN_BYTES)
        self._keys = _BinaryBuilder() if key else None
        self._values = _BinaryBuilder() if value else None
        self._has_headers = headers
        self._header_names, self._header_values = _BinaryBuilder(), _BinaryBuilder()
        self._header_ends = array("i", [0])
        self._numbers = {name: array(code) for name, code in _NUMBERS.items()}
        #: Rows without a timestamp: those of format v0.
        self._undated: list[int] = []

    @property
    def full(self) -> bool:
        """Whether no row may be added."""
        return self.rows >= self.limit or self.size >= self._max_bytes

    def append(self, record: ConsumerRecord) -> None:
        """Add a record, whose key and value are bytes or None."""
        if not self.topics or self.topics[-1] != record.topic:
            self.topics.append(record.topic)
        timestamp = record.timestamp
        if timestamp is None:
            self._undated.append(self.rows)
            timestamp = 0
        numbers = self._numbers
        numbers["topic"].append(len(self.topics) - 1)
        numbers["partition"].append(record.partition)
        numbers["offset"].append(record.offset)
        numbers["timestamp"].append(min(max(timestamp, _INT64[0]), _INT64[1]))
        numbers["timestamp_type"].append(record.timestamp_type or 0)
        numbers["leader_epoch"].append(record.leader_epoch)
        for builder, content in ((self._keys, record.key), (self._values, record.value)):
            if builder is not None:
                self.size += builder.append(content)
        for name, content in record.headers if self._has_headers else ():
            self.size += self._header_names.append(name.encode())
            self.size += self._header_values.append(content)
        self._header_ends.append(self._header_names.count)
        self.rows += 1

    # -- what came of it

    def numbers(self, name: str) -> Buffer:
        """topic (int32: an index of `topics`), partition (int32), offset (int64), timestamp (int64,
        ms), timestamp_type (int8) or leader_epoch (int32) of all rows."""
        return self._numbers[name]

    def binary(self, name: str) -> Binary:
        """key, value, header_name or header_value of all rows (or of all headers of all rows)."""
        builder = {
            "key": self._keys,
            "value": self._values,
            "header_name": self._header_names,
            "header_value": self._header_values,
        }[name]
        assert builder is not None, f"{name} was left out"
        return builder.finish()

    @property
    def header_ends(self) -> Buffer:
        """Where the headers of each row end (int32), beginning with 0."""
        return self._header_ends

    @property
    def undated(self) -> Sequence[int]:
        """Rows that have no timestamp."""
        return self._undated

    def between(self, start: int, end: int) -> list[Row]:
        """These rows, for the trace."""
        names = ("offset", "leader_epoch", "timestamp")
        parts = (self._numbers[name][start:end] for name in names)
        return [Row(*row) for row in zip(*parts, strict=True)]


_NUMBERS: Final[dict[str, Literal["b", "i", "q"]]] = {
    "topic": "i",
    "partition": "i",
    "offset": "q",
    "timestamp": "q",
    "timestamp_type": "b",
    "leader_epoch": "i",
}


class _BinaryBuilder:
    """Owns the contents of one column."""

    def __init__(self) -> None:
        self.count = 0
        self._valid = bytearray()
        self._nulls = 0
        self._ends = array("i", [0])
        self._data = bytearray()

    def append(self, content: bytes | None) -> int:
        """Add it; returns how many bytes it has."""
        if not self.count & 7:
            self._valid.append(0)
        if content is None:
            self._nulls += 1
        else:
            self._valid[-1] |= 1 << (self.count & 7)
            self._data += content
        self._ends.append(len(self._data))
        self.count += 1
        return len(content or b"")

    def finish(self) -> Binary:
        return Binary(self._valid if self._nulls else None, self._ends, self._data)


def to_records(columns: Columns) -> list[ConsumerRecord]:
    """The rows as records, where no column was left out; for tests and simulations."""
    numbers = {
        name: memoryview(columns.numbers(name)).cast("B").cast(code)
        for name, code in _NUMBERS.items()
    }
    keys, values = _contents(columns.binary("key")), _contents(columns.binary("value"))
    names = [bytes(name or b"").decode() for name in _contents(columns.binary("header_name"))]
    headers = list(zip(names, _contents(columns.binary("header_value")), strict=True))
    ends = memoryview(columns.header_ends).cast("B").cast("i")
    undated = set(columns.undated)
    records = []
    for row in range(columns.rows):
        pairs = headers[ends[row] : ends[row + 1]]
        size = sum(len(name.encode()) + len(content or b"") for name, content in pairs)
        key, value = keys[row], values[row]
        records.append(
            ConsumerRecord(
                columns.topics[numbers["topic"][row]],
                numbers["partition"][row],
                numbers["leader_epoch"][row],
                numbers["offset"][row],
                None if row in undated else numbers["timestamp"][row],
                None if row in undated else numbers["timestamp_type"][row],
                key,
                value,
                pairs,
                None,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                size if pairs else -1,
            )
        )
    return records


def _contents(binary: Binary) -> list[bytes | None]:
    ends = memoryview(binary.ends).cast("B").cast("i")
    data = memoryview(binary.data)
    valid = None if binary.valid is None else memoryview(binary.valid)
    return [
        bytes(data[ends[index] : ends[index + 1]])
        if valid is None or valid[index >> 3] >> (index & 7) & 1
        else None
        for index in range(len(ends) - 1)
    ]
