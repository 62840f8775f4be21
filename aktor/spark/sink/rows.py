"""The rows that the sink writes: which columns a query may have, and batches of them as columns of
Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from aktor.errors import ConfigurationError, InvalidRowError
from aktor.spark.options.hints import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

__all__ = ["FENCED", "NO_PARTITIONS", "TOO_BIG", "RowLayout", "Rows"]

#: If a topic does not exist, a producer repeats its Metadata request until its timeout, and its
#: error says only that it timed out. So this is added to the error.
NO_PARTITIONS: Final = (
    "; no broker has told of the topic's partitions: create the topic if it does not exist"
)

#: Why a producer of the sink is fenced.
FENCED: Final = (
    ": a newer attempt of the task has begun, or the task took longer than"
    " kafka.transaction.timeout.ms"
)

#: A broker names no setting.
TOO_BIG: Final = ": raise max.message.bytes of the topic (message.max.bytes of the brokers)"

#: Values of at most so many bytes are there twice, in Arrow and in Python.
_PART_BYTES: Final = 4_000_000

#: What the source gives and no producer can set. Spark's own sink passes over them too.
_PASSED_OVER: Final = ("offset", "timestamp", "timestampType")

_TEXT: Final = "string or binary: CAST({} AS STRING), or to_json(struct(...))"
_HEADERS: Final = (
    "array<struct<key:string,value:binary>>: array(named_struct('key', 'name', 'value',"
    " CAST('text' AS BINARY)))"
)
_MUST_BE: Final = {
    "value": _TEXT,
    "key": _TEXT,
    "topic": "string: CAST(topic AS STRING)",
    "partition": "int: CAST(partition AS INT)",
    "headers": _HEADERS,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a task, column by column. Columns without nulls may be endless iterators."""

    first: int
    """The position of the first one in the input of the task."""
    topics: Iterable[str]
    keys: Iterable[bytes | None]
    values: Sequence[bytes | None]
    partitions: Iterable[int]
    """-1 where the producer chooses."""
    headers: Iterable[list[tuple[str, bytes | None]] | None]


class RowLayout:
    """Which column of a query is what. Raises ConfigurationError if a column is missing, unknown or
    of a type that cannot be written."""

    def __init__(self, schema: StructType, topic: str | None) -> None:
        self._topic = topic
        self._at = {field.name: place for place, field in enumerate(schema.fields)}
        for field in schema.fields:
            _check(field)
        if "value" not in self._at:
            raise ConfigurationError("the column value is missing: SELECT ... AS value")
        if topic is None and "topic" not in self._at:
            raise ConfigurationError(
                "no topic to write to: set the option topic, or have a column topic"
            )

    def rows(self, batch: pa.RecordBatch, first: int) -> Iterator[Rows]:
        """The rows of a batch, in parts of a few MB. Raises InvalidRowError."""
        per_part = max(1, batch.num_rows * _PART_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, per_part):
            yield self._rows(batch.slice(start, per_part), first + start)

    def _rows(self, batch: pa.RecordBatch, first: int) -> Rows:
        value = self._column(batch, "value")
        key = self._column(batch, "key")
        return Rows(
            first=first,
            topics=self._topics(batch, first),
            keys=repeat(None) if key is None else _binary(key),
            values=_binary(value),
            partitions=self._partitions(batch, first),
            headers=self._headers(batch, first),
        )

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        place = self._at.get(name)
        return None if place is None else batch.column(place)

    def _topics(self, batch: pa.RecordBatch, first: int) -> Iterable[str]:
        if self._topic is not None:
            return repeat(self._topic)
        topics = self._column(batch, "topic")
        if topics.null_count:
            raise InvalidRowError(
                row=first + pc.index(topics.is_null(), True).as_py(),
                reason="its topic is null; set the option topic, or fill the column topic",
            )
        has_zero = pc.match_substring(topics, "\0")
        if pc.any(has_zero).as_py():
            raise InvalidRowError(
                row=first + pc.index(has_zero, True).as_py(),
                reason="its topic has a character with the code 0",
            )
        found: list[str] = topics.to_pylist()
        return found

    def _partitions(self, batch: pa.RecordBatch, first: int) -> Iterable[int]:
        column = self._column(batch, "partition")
        if column is None:
            return repeat(-1)
        negative = pc.less(column, 0).fill_null(False)
        if pc.any(negative).as_py():
            raise InvalidRowError(
                row=first + pc.index(negative, True).as_py(),
                reason="its partition is below 0; null lets the producer choose",
            )
        found: list[int] = column.fill_null(-1).to_pylist()
        return found

    def _headers(
        self, batch: pa.RecordBatch, first: int
    ) -> Iterable[list[tuple[str, bytes | None]] | None]:
        column = self._column(batch, "headers")
        if column is None:
            return repeat(None)
        keys, values = (field.to_pylist() for field in column.values.flatten())
        pairs = list(zip(keys, values, strict=True))
        ends = column.offsets.to_pylist()
        found = [
            pairs[start:end] if there else None
            for start, end, there in zip(
                ends, ends[1:], column.is_valid().to_pylist(), strict=False
            )
        ]
        # `column.values` has the headers of the whole batch, also if `batch` is a slice of it. So a
        # bad key may belong to a row outside of the slice: look for the row.
        zeros = pc.match_substring(pa.array(keys, pa.string()), "\0")
        if None in keys or pc.any(zeros).as_py():
            for place, headers in enumerate(found, first):
                for key, _ in headers or ():
                    _check_header(place, key)
        return found


def _check_header(row: int, key: str | None) -> None:
    if key is None:
        raise InvalidRowError(row=row, reason="it has a header whose key is null")
    # confluent-kafka takes it for the end of the key.
    if "\0" in key:
        raise InvalidRowError(
            row=row, reason="it has a header whose key has a character with the code 0"
        )


def _binary(column: Any) -> list[bytes | None]:
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found


# -- the columns of a query


def _check(field: StructField) -> None:
    name = field.name
    if name in _PASSED_OVER:
        return
    if name not in _MUST_BE:
        hint = did_you_mean(name, _MUST_BE) or ": drop it, or put it into value."
        raise ConfigurationError(f"unknown column {name}{hint} Columns are {', '.join(_MUST_BE)}")
    if not _fits(name, field.dataType):
        raise ConfigurationError(
            f"the column {name} is {field.dataType.simpleString()}, and must be"
            f" {_MUST_BE[name].format(name)}"
        )


def _fits(name: str, kind: DataType) -> bool:
    if name in ("value", "key"):
        return isinstance(kind, (StringType, BinaryType))
    if name == "topic":
        return isinstance(kind, StringType)
    if name == "partition":
        return isinstance(kind, IntegerType)
    return (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and kind.elementType.names == ["key", "value"]
        and isinstance(kind.elementType.fields[0].dataType, StringType)
        and isinstance(kind.elementType.fields[1].dataType, BinaryType)
    )
