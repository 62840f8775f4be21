"""The columns of the source: those of Spark's own, in Spark's types, and batches in that layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aktor.errors import ConfigurationError
from aktor.spark.decode.fields import check_nullable
from aktor.spark.filters.conditions import All, Condition, columns_of, parts_of
from aktor.spark.options.avro import AvroOptions
from aktor.spark.options.hints import did_you_mean
from aktor.spark.options.source import SourceOptions, unknown_option

if TYPE_CHECKING:
    from aktor.spark.filters.raw_search import RawSearch
    from aktor.spark.options.protobuf import ProtobufOptions

__all__ = ["Layout", "check_named_once", "condition_kinds", "conditions_of", "full_schema"]

_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_TYPES: Final[dict[str, Any]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}
#: With decode=string.
_AS_TEXT: Final = {"key": StringType(), "value": StringType()}
#: With the other decoders: why a value could not be decoded, and its bytes.
_BESIDE: Final = {"valueError": StringType(), "rawValue": BinaryType()}

#: The columns that a decoder makes.
_MADE: Final = {"value", *_BESIDE}

#: The columns that each record has.
_ALWAYS_THERE: Final = {"topic", "partition", "offset"}

#: Our column for each of Spark's.
_OURS: Final = {name: name for name in _TYPES} | {"timestampType": "timestamp_type"}


def full_schema(options: SourceOptions) -> StructType:
    """The columns of a query that names none by `.schema(...)`."""
    names = options.columns
    kinds = _kinds(None, options.decode, options.values)
    if names is None:
        names = tuple(n for n in _TYPES if n != "headers" or options.include_headers)
    lower = {name.lower(): name for name in kinds}
    for name in names:
        _check_decoded(name, options.decode)
        if name.lower() not in lower:
            raise unknown_option(f"columns={name}", tuple(f"columns={column}" for column in kinds))
    if len({name.lower() for name in names}) < len(names):
        raise ConfigurationError(f"columns names one twice: {', '.join(names)}")
    # JSON has no schema here: `Layout` says that .schema(...) is needed.
    known = {name: BinaryType() if kind is None else kind for name, kind in kinds.items()}
    return StructType([StructField(lower[n.lower()], known[lower[n.lower()]]) for n in names])


def check_named_once(options: SourceOptions, schema: StructType) -> None:
    """Refuse an option `columns` beside a `.schema(...)` with others: Spark would go by the schema,
    and the option would change nothing."""
    named = options.columns
    if named is None or {name.lower() for name in named} == {name.lower() for name in schema.names}:
        return
    raise ConfigurationError(
        f"the option is columns={','.join(named)}, and .schema(...) has {','.join(schema.names)}:"
        " leave columns out"
    )


class Layout:
    """Owns how a batch of `poll_arrow` becomes one that Spark takes.

    Spark takes a batch only if its schema is exactly the one that PySpark's `to_arrow_schema` makes
    of the query's schema. So that function makes it here.
    """

    def __init__(
        self,
        schema: StructType,
        *,
        decode: str | None,
        values: AvroOptions | ProtobufOptions | None = None,
        where: Sequence[Condition] = (),
    ) -> None:
        _check(schema, _kinds(schema, decode, values), decode)
        self._decode: Callable[[pa.RecordBatch], dict[str, pa.Array]] | None = None
        self._convert = dict(_CONVERT)
        if decode == "string":
            self._convert |= {"key": _text, "value": _text}
        elif decode == "json":
            # Only here: it imports parts of pyarrow that other queries do not need (50 ms).
            from aktor.spark.decode.json_values import JsonValues

            self._decode = JsonValues(schema).columns
        elif isinstance(values, AvroOptions):
            from aktor.spark.decode.avro.values import AvroValues

            self._decode = AvroValues(schema, values).columns
        elif values is not None:
            from aktor.spark.decode.protobuf.values import ProtobufValues

            self._decode = ProtobufValues(schema, values).columns
        self._names = schema.names
        made = _MADE if self._decode is not None else set()
        self._before = [one for one in where if not columns_of(one) & made]
        self._after = [one for one in where if columns_of(one) & made]
        self._search: RawSearch | None = None
        if self._after and decode == "json":
            from aktor.spark.filters.raw_search import RawSearch

            self._search = RawSearch(self._after)
        #: A topic, and an array that has it in each row.
        self._topic: str | None = None
        self._topics: pa.Array = pa.nulls(0, pa.string())
        # pyspark gives no types for this function.
        from pyspark.sql.pandas.types import to_arrow_schema

        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    @property
    def drops_rows(self) -> bool:
        """Whether there are conditions, so that a batch may have few rows."""
        return bool(self._before or self._after)

    @property
    def columns(self) -> Sequence[str]:
        """What `poll_arrow` is asked for. The offset and the partition are needed to cut ranges."""
        names = [*self._names]
        for condition in (*self._before, *self._after):
            names += columns_of(condition) - set(names)
        wanted = [_OURS[name] for name in names if name in _OURS]
        if self._decode is not None and "value" not in wanted:
            wanted.append("value")
        return [*wanted, *(n for n in ("topic", "partition", "offset") if n not in wanted)]

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in this layout, of those for which the conditions are true."""
        if self._before:
            rows = rows.filter(self._kept(self._before, rows, {}))
        if self._search is not None:
            places = self._search.rows(rows.column("value"))
            rows = rows if places is None else rows.take(places)
        made = {} if self._decode is None else self._decode(rows)
        arrays = [self._array(name, rows, made) for name in self._names]
        found = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return found.filter(self._kept(self._after, rows, made)) if self._after else found

    def _array(self, name: str, rows: pa.RecordBatch, made: Mapping[str, pa.Array]) -> pa.Array:
        if name in made:
            return made[name]
        column = rows.column(_OURS[name])
        return self._topics_of(column) if name == "topic" else self._convert[name](column)

    def _kept(
        self, conditions: Sequence[Condition], rows: pa.RecordBatch, made: Mapping[str, pa.Array]
    ) -> pa.BooleanArray:
        """Whether all of these are true, or null if that is not known."""
        return All(tuple(conditions)).of(lambda name: self._array(name, rows, made))

    def _topics_of(self, column: pa.DictionaryArray) -> pa.Array:
        """The topic of each row as a string. Nearly all batches of a task are of one topic. To
        write its name anew for each batch takes a tenth of a worker's time: the last one is kept.
        """
        if len(column.dictionary) != 1:
            return column.dictionary_decode()
        topic = column.dictionary[0].as_py()
        if topic != self._topic or len(column) > len(self._topics):
            self._topic, self._topics = topic, column.dictionary_decode()
        return self._topics[: len(column)]


def conditions_of(options: SourceOptions, schema: StructType) -> tuple[Condition, ...]:
    """The conditions of the option `where`, all of which must be true. Raises ConfigurationError.

    Call it in the driver: tasks need no parser of SQL.
    """
    if options.where is None:
        return ()
    try:
        from aktor.spark.filters.where import read_where
    except ModuleNotFoundError as error:
        if error.name != "sqlglot":
            raise
        raise ConfigurationError(
            "where needs sqlglot in the driver: pip install sqlglot, or filter by Spark"
        ) from None
    return parts_of(read_where(options.where, condition_kinds(schema, options)))


def condition_kinds(schema: StructType, options: SourceOptions) -> dict[str, DataType]:
    """The columns that `where` may name: all that there are, also those that are not read."""
    kinds = _kinds(schema, options.decode, options.values)
    return {
        name: schema[name].dataType if kind is None else kind
        for name, kind in kinds.items()
        if kind is not None or name in schema.names
    }


def _kinds(
    schema: StructType | None,
    decode: str | None,
    values: AvroOptions | ProtobufOptions | None,
) -> dict[str, DataType | None]:
    """The type of each column that there may be; None: the one that the schema says."""
    if decode == "string":
        return _TYPES | _AS_TEXT
    if decode is None:
        return _TYPES
    if values is None or (schema is not None and "value" in schema.names):
        return _TYPES | _BESIDE | {"value": None}
    if isinstance(values, AvroOptions):
        from aktor.spark.decode.avro.values import value_type as of_avro

        return _TYPES | _BESIDE | {"value": of_avro(values)}
    from aktor.spark.decode.protobuf.values import value_type as of_protobuf

    return _TYPES | _BESIDE | {"value": of_protobuf(values)}


def _check_decoded(name: str, decode: str | None) -> None:
    """Refuse a column that only a decoder makes, where there is none."""
    there = {column.lower(): column for column in _BESIDE}
    if name.lower() in there and decode in (None, "string"):
        raise ConfigurationError(
            f"the column {there[name.lower()]} is there only with decode=json, avro or protobuf:"
            " set one of them"
        )


def _remedy(field: StructField, decode: str | None) -> str:
    """What makes the column one of the type that the schema says."""
    if field.name == "value" and decode in (None, "string"):
        if isinstance(field.dataType, StructType):
            return "set decode=json, avro or protobuf, which make a struct of it"
        if decode is None and field.dataType == StringType():
            return "set decode=string, or cast it after reading"
    return "cast it after reading"


def _check(schema: StructType, kinds: Mapping[str, DataType | None], decode: str | None) -> None:
    double = [name for name, times in Counter(schema.names).items() if times > 1]
    if double:
        raise ConfigurationError(f"the schema names a column twice: {', '.join(double)}")
    for field in schema.fields:
        _check_decoded(field.name, decode)
        if field.name not in kinds:
            hint = did_you_mean(field.name, kinds) or "."
            raise ConfigurationError(
                f"unknown column {field.name}{hint} Columns are {', '.join(kinds)}"
            )
        if field.name not in _ALWAYS_THERE:
            check_nullable(field, field.name)
        kind = kinds[field.name]
        if kind is not None and field.dataType != kind:
            raise ConfigurationError(
                f"the column {field.name} is {kind.simpleString()}, not"
                f" {field.dataType.simpleString()}: {_remedy(field, decode)}"
            )


# -- Arrow of `poll_arrow` -> Arrow of Spark


def _same(column: pa.Array) -> pa.Array:
    return column


def _text(column: pa.Array) -> pa.Array:
    """The bytes as a string, unchanged: Spark's `cast(value as string)` does not look at them."""
    return column.view(pa.string())


def _cast(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda column: column.cast(kind)


_HEADER: Final = (pa.field("key", pa.string()), pa.field("value", pa.binary()))
_HEADERS_OF_SPARK: Final = pa.list_(pa.field("element", pa.struct(_HEADER)))


def _headers(column: pa.Array) -> pa.Array:
    """Spark's own source has null for a record without headers."""
    pairs = column.values
    if not len(pairs):
        return pa.nulls(len(column), _HEADERS_OF_SPARK)
    import pyarrow.compute as compute

    found: pa.Array = pa.ListArray.from_arrays(
        column.offsets,
        pa.StructArray.from_arrays([pairs.field("key"), pairs.field("value")], fields=_HEADER),
        type=_HEADERS_OF_SPARK,
        mask=compute.equal(compute.list_value_length(column), 0),
    )
    return found


_CONVERT: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "key": _same,
    "value": _same,
    "partition": _same,
    "offset": _same,
    "timestamp": _cast(pa.timestamp("us", "UTC")),
    "timestampType": _cast(pa.int32()),
    "headers": _headers,
}
