"""Columns as a `pyarrow.RecordBatch`. The only module that imports pyarrow (`arrow_range` gets it
from here): it is an extra."""

from __future__ import annotations

import difflib
import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute

from aktor.records import Columns
from aktor.records.columns import Binary, Buffer

__all__ = [
    "DEFAULT_COLUMNS",
    "FIELDS",
    "batch_of",
    "checked_columns",
    "maker",
    "table_of",
    "without",
]

#: A consumer's `Engine`; named here, since this room imports no other one.
Engine: TypeAlias = Any

_HEADER: Final = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])

#: The type of each column. Null is what is null in Kafka: a key, a value, a header's value;
#: timestamp and timestamp_type of message format v0.
FIELDS: Final[dict[str, pa.Field]] = {
    field.name: field
    for field in (
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("timestamp_type", pa.int8()),
        pa.field("headers", pa.list_(pa.field("header", _HEADER, nullable=False)), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
    )
}

#: The columns of a batch unless others are asked for.
DEFAULT_COLUMNS: Final = tuple(name for name in FIELDS if name != "leader_epoch")


def checked_columns(names: Sequence[str] | None) -> Sequence[str]:
    """These columns, or the default ones. Raises ValueError for an unknown or repeated name."""
    if names is None:
        return DEFAULT_COLUMNS
    if isinstance(names, str):
        raise ValueError(f"columns must be a list of names, not {names!r}")
    for name in names:
        if name not in FIELDS:
            near = difflib.get_close_matches(str(name), FIELDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(FIELDS)}"
            raise ValueError(f"unknown column {name!r}{hint}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"columns must be different names, at least one, not {list(names)}")
    return tuple(names)


def batch_of(columns: Columns, names: Sequence[str], topics: Sequence[str] = ()) -> pa.RecordBatch:
    """A batch of these columns. The data is not copied.

    The dictionary of its topics begins with `topics`: batches with the same dictionary can be
    written to a file of Arrow, and grouped. Arrow refuses different ones.
    """
    schema = _schema(names)
    arrays = [
        _topics(columns, topics) if name == "topic" else _ARRAYS[name](columns) for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def maker(engine: Engine, names: Sequence[str]) -> Callable[[Columns], pa.RecordBatch]:
    """Makes batches of the columns that a poll of this engine has filled. What it reads may change
    in the poll: the topics are those that it reads afterwards."""
    return lambda columns: batch_of(columns, names, engine.topics_in_order)


def table_of(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    """The batches as one table of these columns. All of its chunks have the same dictionary of
    topics: `group_by`, `join` and files of Arrow refuse different ones."""
    return pa.Table.from_batches(batches, _schema(names)).unify_dictionaries()


def without(batch: pa.RecordBatch, topic: str, partition: int, offset: int) -> pa.RecordBatch:
    """The batch without the rows of this partition from this offset on. It must have the columns
    topic, partition and offset."""
    compute = pyarrow.compute
    gone = compute.and_(
        compute.greater_equal(batch.column("offset"), offset),
        compute.and_(
            compute.equal(batch.column("partition"), partition),
            compute.equal(batch.column("topic").cast(pa.string()), topic),
        ),
    )
    return batch.filter(compute.invert(gone))


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([FIELDS[name] for name in names])


def _numbers(name: str) -> Callable[[Columns], pa.Array]:
    dated = name.startswith("timestamp")

    def make(columns: Columns) -> pa.Array:
        valid = _validity(columns.rows, columns.undated) if dated and columns.undated else None
        buffers = [valid, _buffer(columns.numbers(name))]
        return pa.Array.from_buffers(FIELDS[name].type, columns.rows, buffers)

    return make


def _binary(name: str) -> Callable[[Columns], pa.Array]:
    return lambda columns: _contents(pa.binary(), columns.rows, columns.binary(name))


def _topics(columns: Columns, topics: Sequence[str]) -> pa.Array:
    indices = pa.Array.from_buffers(
        pa.int32(), columns.rows, [None, _buffer(columns.numbers("topic"))]
    )
    names = list(dict.fromkeys([*topics, *columns.topics]))
    if names[: len(columns.topics)] != columns.topics:  # one that came again has two numbers
        numbers = array("i", map(names.index, columns.topics))
        again = pa.Array.from_buffers(pa.int32(), len(numbers), [None, _buffer(numbers)])
        indices = again.take(indices)
    # No index is out of bounds. `pa.array` would import pandas, if there is one: 40 MB.
    return pa.DictionaryArray.from_arrays(indices, _texts(names), safe=False)


def _texts(texts: Sequence[str]) -> pa.Array:
    contents = [text.encode() for text in texts]
    ends = array("i", [0, *itertools.accumulate(map(len, contents))])
    buffers = [None, _buffer(ends), _buffer(b"".join(contents))]
    return pa.Array.from_buffers(pa.string(), len(contents), buffers)


def _headers(columns: Columns) -> pa.Array:
    names, values = columns.binary("header_name"), columns.binary("header_value")
    count = len(memoryview(names.ends).cast("B")) // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [_contents(pa.string(), count, names), _contents(pa.binary(), count, values)],
        fields=list(_HEADER),
    )
    buffers = [None, _buffer(columns.header_ends)]
    return pa.Array.from_buffers(FIELDS["headers"].type, columns.rows, buffers, children=[pairs])


def _contents(kind: pa.DataType, count: int, binary: Binary) -> pa.Array:
    valid = None if binary.valid is None else _buffer(binary.valid)
    return pa.Array.from_buffers(kind, count, [valid, _buffer(binary.ends), _buffer(binary.data)])


def _buffer(source: Buffer) -> pa.Buffer:
    return pa.py_buffer(source)


def _validity(rows: int, nulls: Sequence[int]) -> pa.Buffer:
    bits = bytearray(b"\xff" * ((rows + 7) // 8))
    for row in nulls:
        bits[row >> 3] &= ~(1 << (row & 7))
    return pa.py_buffer(bytes(bits))


_ARRAYS: Final[dict[str, Callable[[Columns], Any]]] = {
    **{
        name: _numbers(name)
        for name in ("partition", "offset", "timestamp", "timestamp_type", "leader_epoch")
    },
    "key": _binary("key"),
    "value": _binary("value"),
    "headers": _headers,
}
