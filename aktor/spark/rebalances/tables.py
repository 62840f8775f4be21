"""The tables as Arrow and Spark have them: a column for each field of a row."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, Final

import pyarrow as pa

from aktor.trace.rebalances.rows import At, Row
from aktor.trace.rebalances.tables import TABLES

__all__ = ["COUNTS", "NAMES", "TABLES", "arrow_table", "ddl", "record", "rows_of", "struct"]

NAMES: Final[Mapping[type[Row], str]] = {row: table for table, row in TABLES.items()}

#: One more: how many lines there were, and how many of them were not understood, and why.
COUNTS: Final = "counts"

_TYPES: Final[Mapping[Any, tuple[pa.DataType, str]]] = {
    str: (pa.string(), "string"),
    int: (pa.int64(), "bigint"),
    float: (pa.float64(), "double"),
    bool: (pa.bool_(), "boolean"),
    At: (pa.timestamp("us", "UTC"), "timestamp"),
}


@cache
def _fields(table: str) -> Mapping[str, Any]:
    """The type of each field of a row, without None."""
    hints = typing.get_type_hints(TABLES[table])
    return {
        name: next(kind for kind in (*typing.get_args(hint), hint) if kind is not type(None))
        for name, hint in hints.items()
    }


def struct(table: str) -> pa.DataType:
    """A row of a table as Arrow has it."""
    fields = _fields(table)
    return pa.struct([(name, _TYPES[kind][0]) for name, kind in fields.items()])


def ddl(table: str) -> str:
    """A row of a table as Spark has it."""
    fields = _fields(table)
    return (
        "struct<" + ", ".join(f"{name}: {_TYPES[kind][1]}" for name, kind in fields.items()) + ">"
    )


def record(row: Row) -> dict[str, Any]:
    """The values of a row; times in whole microseconds."""
    values = asdict(row)
    for name, kind in _fields(NAMES[type(row)]).items():
        if kind is At and values[name] is not None:
            values[name] = round(values[name] * 1e6)
    return values


def arrow_table(table: str, rows: Iterable[Row]) -> pa.Table:
    """Those of the rows that are of this table."""
    records = [record(row) for row in rows if type(row) is TABLES[table]]
    return pa.Table.from_pylist(records, schema=pa.schema(struct(table)))


def rows_of(table: str, column: pa.ChunkedArray) -> Iterator[Row]:
    """The rows in a column of structs, as `struct` has them."""
    fields = _fields(table)
    micros = pa.struct(
        [(name, pa.int64() if kind is At else _TYPES[kind][0]) for name, kind in fields.items()]
    )
    found = column.drop_null().cast(micros)
    for values in found.to_pylist():
        for name, kind in fields.items():
            if kind is At and values[name] is not None:
                values[name] /= 1e6
        yield TABLES[table](**values)
