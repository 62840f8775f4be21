"""The columns of `decode=json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Final

import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from aktor.consumer.columns.json_columns import JsonReader
from aktor.errors import ConfigurationError
from aktor.spark.decode import bad_values
from aktor.spark.decode.fields import children

__all__ = ["JsonValues"]

#: The types that JSON values are read as.
_READ: Final = (
    *(ArrayType, BinaryType, BooleanType, CharType, DateType, MapType, NumericType),
    *(StringType, StructType, TimestampNTZType, TimestampType, VarcharType),
)


class JsonValues:
    """Makes the columns value, valueError and rawValue. A value that is not JSON of the schema
    becomes null; the other two then have the reason and the bytes."""

    def __init__(self, schema: StructType) -> None:
        decoded = _decoded(schema)
        self._fields = list(decoded)
        self._reader = JsonReader(decoded)

    def columns(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        values = rows.column("value")
        fields, bad = self._reader.read(values)
        beside = bad_values.columns_of(values, bad)
        nothing = values.is_null() if values.null_count else None
        if bad:
            places = _places(len(values), bad)
            fields = [column.take(places) for column in fields]
            nothing = compute.or_(values.is_null(), beside["valueError"].is_valid())
        value = pa.StructArray.from_arrays(fields, fields=self._fields, mask=nothing)
        return {"value": value, **beside}


def _decoded(schema: StructType) -> pa.Schema:
    """The Arrow schema of the values."""
    value = next((field for field in schema.fields if field.name == "value"), None)
    if value is None or not isinstance(value.dataType, StructType):
        raise ConfigurationError(
            "decode=json needs the values' schema: .schema('value struct<id: bigint, ...>, offset"
            " bigint, ...'), with valueError string and rawValue binary for what cannot be read"
        )
    if not value.dataType.fields:
        raise ConfigurationError(
            "value is a struct without a field: name the fields to read, or leave decode out"
        )
    _check_type(value, "value")
    # pyspark gives no types for this function.
    from pyspark.sql.pandas.types import to_arrow_schema

    found: pa.Schema = to_arrow_schema(value.dataType, timezone="UTC")
    return found


def _check_type(field: StructField, path: str) -> None:
    """Refuse what each task would stumble over."""
    if not isinstance(field.dataType, _READ):
        raise ConfigurationError(
            f"{path} is of type {field.dataType.simpleString()}, which decode=json does not read:"
            f" write '{field.name} string', and cast it in the query"
        )
    names = field.dataType.names if isinstance(field.dataType, StructType) else []
    double = [name for name, times in Counter(names).items() if times > 1]
    if double:
        raise ConfigurationError(f"the struct {path} names a field twice: {', '.join(double)}")
    for child in children(field.dataType):
        _check_type(child, f"{path}.{child.name}")


def _places(count: int, bad: Container[int]) -> pa.Array:
    """For each row its place among those that are not bad; null for a bad one."""
    place = iter(range(count))
    return pa.array([None if row in bad else next(place) for row in range(count)], pa.int64())
