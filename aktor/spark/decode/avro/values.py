"""The columns of `decode=avro`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

import aktor
from aktor.errors import ConfigurationError
from aktor.spark.decode import bad_values
from aktor.spark.decode.avro.schema import Kind, SchemaError, parse
from aktor.spark.decode.avro.types import part_of, type_of
from aktor.spark.decode.registry import (
    References,
    Registry,
    RegistryUnavailable,
    SchemaKind,
    registry_with,
)
from aktor.spark.options.avro import AvroOptions

try:
    from aktor.spark.decode.avro import kernel
    from aktor.spark.decode.avro.resolution import Resolution, column_of
except ImportError:  # it was not compiled
    kernel = None  # type: ignore[assignment]

__all__ = ["AvroValues", "newest_schema", "value_type"]


def value_type(options: AvroOptions) -> DataType:
    """Spark's type of the values."""
    _check_compiled()
    try:
        return type_of(parse(options.schema))
    except SchemaError as error:
        raise ConfigurationError(f"avroSchema: {error}") from None


def _check_compiled() -> None:
    if kernel is None:
        raise ConfigurationError(
            "decode=avro needs the compiled modules of aktor, which"
            f" {os.path.dirname(aktor.__file__)} does not have. If that is a checkout: pip install"
            " -e . there; else there was no compiler when it was installed: read value as bytes,"
            " and use from_avro of Spark"
        )


def _read_schema(text: str, references: References) -> Kind:
    named: dict[str, Kind] = {}
    for name, other in references:
        if name not in named:
            parse(other, named)
    return parse(text, named)


_AVRO: Final = SchemaKind("AVRO", None, _read_schema)


def newest_schema(registry: Mapping[str, str], subject: str) -> str:
    """The newest schema of a subject, for the option `avroSchema`. Raises ConfigurationError."""
    text, references = Registry(registry, _AVRO).newest(subject)
    if references:
        raise ConfigurationError(
            f"the schema of {subject} names types of other schemas: write one for avroSchema that"
            " has them in it"
        )
    return text


class AvroValues:
    """Makes the columns value, valueError and rawValue. A value that is not Avro of its schema, or
    whose schema cannot be read as `avroSchema`, becomes null; the other two then have the reason
    and the bytes. Its neighbours are as if it were not there."""

    def __init__(self, schema: StructType, options: AvroOptions) -> None:
        _check_compiled()
        try:
            whole = parse(options.schema)
            kind = type_of(whole)
            if "value" in schema.names:
                kind = schema["value"].dataType
            self._kind = part_of(whole, kind, "value")
            self._root = column_of(self._kind)
            #: The step that reads values of each schema, or why there is none.
            self._steps: dict[int | None, Any] = {}
            self._steps[None] = Resolution().step(self._kind, self._kind, self._root)
            if not options.registry:
                self._steps[None] = Resolution().step(whole, self._kind, self._root)
        except SchemaError as error:
            raise ConfigurationError(f"avroSchema: {error}") from None
        # pyspark gives no types for this function.
        from pyspark.sql.pandas.types import to_arrow_type

        self._type: pa.DataType = to_arrow_type(kind, timezone="UTC")
        self._options = options
        self._registry: Registry | None = None
        self._rows: pa.RecordBatch | None = None

    @property
    def framed(self) -> bool:
        """Whether each value begins with the id of its schema."""
        return bool(self._options.registry)

    def columns(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        values = rows.column("value")
        valid, offsets, data = values.buffers()
        self._rows = rows
        count = len(values)
        try:
            bad = kernel.read_values(
                self._root,
                memoryview(data if data else b"\0").cast("B"),
                memoryview(offsets if offsets else bytes(4)).cast("B").cast("i"),
                None if valid is None else memoryview(valid).cast("B"),
                values.offset,
                count,
                self,
            )
            value = _array(self._root, self._type)
        except BaseException:
            self._root.clear()
            raise
        finally:
            self._rows = None
        return {"value": value, **bad_values.columns_of(values, bad)}

    def step(self, schema_id: int | None, row: int) -> Any:
        """For the kernel: the step for values of this schema, or why there is none."""
        there = self._steps.get(schema_id)
        if there is not None or schema_id is None:
            return there
        if self._registry is None:
            self._registry = registry_with(self._options.registry, _AVRO)
        try:
            found = self._registry.schema(schema_id)
        except RegistryUnavailable as error:
            assert self._rows is not None, "a batch is read"
            raise self._registry.not_looked_up(schema_id, self._rows, row, error) from None
        if isinstance(found, str):
            return found
        step = self._steps[schema_id] = self._resolved(found)
        return step

    def _resolved(self, written: Kind) -> Any:
        try:
            return Resolution().step(written, self._kind, self._root)
        except SchemaError as error:
            return str(error)


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    """The array of what a column has. The column is empty then."""
    count, nulls, buffers = column.take()
    children: list[pa.Array] = []
    if pa.types.is_null(kind):
        return pa.nulls(count)
    if pa.types.is_map(kind):
        keys, items = column.children
        entries = [_array(keys, kind.key_type), _array(items, kind.item_type)]
        entry = pa.struct([kind.key_field, kind.item_field])
        children = [pa.Array.from_buffers(entry, len(entries[0]), [None], 0, 0, entries)]
    elif pa.types.is_list(kind):
        children = [_array(column.children[0], kind.value_type)]
    elif pa.types.is_struct(kind):
        children = [
            _array(child, kind.field(number).type) for number, child in enumerate(column.children)
        ]
    found = [None if one is None else pa.py_buffer(one) for one in buffers]
    return pa.Array.from_buffers(kind, count, found, nulls, 0, children)
