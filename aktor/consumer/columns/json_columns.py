"""JSON values as typed columns: `json_columns`, and `JsonReader` for many batches.

pyarrow's JSON reader reads a batch as one block, if the block is surely good (`json_blocks`). If it
is not, the batch is halved until the halves are good or small, and Python's parser reads the small
ones value by value. That parser alone says which rows are bad and why.

Python's parser makes columns as a whole, too; only if a column cannot be made, it is searched for
the rows that are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as compute

from aktor.consumer.columns.json_blocks import JsonBlocks

__all__ = ["JsonColumns", "JsonReader", "json_columns"]

#: A block of so few values is not halved when it is refused: Python reads these in half a
#: millisecond.
_FEW: Final = 256


class JsonColumns(NamedTuple):
    """The result of `json_columns`.

    `rows` has the batch's columns but `value`, and then the schema's, of all rows that could be
    read. `bad` has the others as they came, and `error` (string): why they could not be read.
    """

    rows: pa.RecordBatch
    bad: pa.RecordBatch


def json_columns(batch: pa.RecordBatch, schema: pa.Schema) -> JsonColumns:
    """The values of a batch (see `KafkaConsumer.poll_arrow`), read as JSON objects of `schema`.

    A field that is missing is null, one that the schema does not name is ignored; a record without
    a value (a tombstone) has nulls everywhere. Integers up to 2^53 may stand for floats; decimals
    are numbers or strings in JSON; dates, timestamps: strings (ISO 8601); a map is an object. The
    same holds for fields of structs and lists. Everything else that is not of the schema makes the
    row a bad one: no row is lost, and none is guessed.

    Raises:
        ValueError: the batch has no column `value`, or the schema names one of its other columns
            (leave that out by `columns=` of `poll_arrow`), or a type that is not read from JSON
            (times of day, durations, unions, run-end encoded, dictionaries but those of strings).
    """
    names = batch.schema.names
    if "value" not in names:
        raise ValueError("json_columns needs the column 'value'")
    double = [name for name in schema.names if name in names and name != "value"]
    if double or len(set(schema.names)) < len(schema.names):
        raise ValueError(
            f"the schema has names that are there already: {', '.join(double or schema.names)};"
            " poll_arrow(columns=...) leaves columns out"
        )
    columns, bad = JsonReader(schema).read(batch.column("value"))
    rest = batch.drop_columns(["value"])
    if bad:
        rest = rest.take(pa.array([row for row in range(len(batch)) if row not in bad], pa.int64()))
    rows = pa.RecordBatch.from_arrays(
        [*rest.columns, *columns],
        schema=pa.schema([*rest.schema, *(field.with_nullable(True) for field in schema)]),
    )
    aside = batch.take(pa.array(bad.keys(), pa.int64()))
    return JsonColumns(rows, aside.append_column("error", pa.array(bad.values(), pa.string())))


class JsonReader:
    """Reads arrays of values as columns of one schema, by the rules of `json_columns`.

    Raises ValueError for a type that is not read from JSON.
    """

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            _check_type(field.name, field.type)
        self._schema = schema
        self._blocks = JsonBlocks(schema)
        self._decode = _decoder(schema)

    def read(self, values: pa.Array) -> tuple[list[pa.Array], dict[int, str]]:
        """The column of each field, of all rows but the bad ones; and what is wrong with those, by
        row, in order."""
        columns = self._blocks.columns(values)
        if columns is not None:
            return columns, {}
        if len(values) <= _FEW:
            return self.read_by_python(values)
        middle = len(values) // 2
        before, bad = self.read(values[:middle])
        after, bad_after = self.read(values[middle:])
        bad |= {middle + row: error for row, error in bad_after.items()}
        return [pa.concat_arrays(both) for both in zip(before, after, strict=True)], bad

    def read_by_python(self, values: pa.Array) -> tuple[list[pa.Array], dict[int, str]]:
        """As `read`, by Python's parser alone."""
        bad: dict[int, str] = {}
        documents = _parse(values.to_pylist(), self._decode, bad)
        columns = [_column(documents, field, bad) for field in self._schema]
        kept = [row for row in documents if row not in bad]
        # Later columns may have found more bad rows: make earlier ones again without these rows.
        made = [
            column
            if len(column) == len(kept)
            else _made([documents[row].get(field.name) for row in kept], field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        return made, dict(sorted(bad.items()))


def _check_type(path: str, kind: pa.DataType) -> None:
    """Refuse a type as which no JSON value can be read."""
    if _is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind):
        for place in range(kind.num_fields):
            child = kind.field(place)
            _check_type(f"{path}.{child.name}", child.type)
    elif not _is_read(kind):
        raise ValueError(
            f"{path} is of type {kind}, which is not read from JSON: read it as pyarrow.string(),"
            " and convert it"
        )


def _is_read(kind: pa.DataType) -> bool:
    """Whether there are JSON values of this type, which is no list, struct or map."""
    types = pa.types
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        return False  # unions: nothing says which of its types is meant
    if types.is_dictionary(kind):
        return bool(types.is_string(kind.value_type) or types.is_large_string(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        return bool(types.is_string(kind.storage_type))
    if _allowed(kind)[1] != pa.string():
        return True
    try:
        pa.array([], pa.string()).cast(kind)
    except pa.ArrowNotImplementedError:
        return False
    return True


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _parse(
    values: Sequence[bytes | None], decode: Callable[[str], Any], bad: dict[int, str]
) -> dict[int, dict[str, Any]]:
    """The objects, by row; the rows that have none are bad."""
    documents: dict[int, dict[str, Any]] = {}
    for row, value in enumerate(values):
        if value is None:
            documents[row] = {}
            continue
        try:
            found = decode(value.decode())
        except (ValueError, RecursionError) as error:
            bad[row] = f"{type(error).__name__}: {error}"
            continue
        if type(found) is dict:
            documents[row] = found
        else:
            bad[row] = "it is no JSON object"
    return documents


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _decoder(schema: pa.Schema) -> Callable[[str], Any]:
    number = _Number if any(_has_decimals(field.type) for field in schema) else None
    return json.JSONDecoder(parse_constant=_refuse, parse_float=number).decode


def _column(documents: dict[int, dict[str, Any]], field: pa.Field, bad: dict[int, str]) -> pa.Array:
    """The values of this field in all rows that are not bad; notes those in which it is wrong."""
    rows = [row for row in documents if row not in bad]
    values = [documents[row].get(field.name) for row in rows]
    try:
        return _made(values, field.type)
    except _WRONG:
        wrong = _wrong(values, field.type, 0)
    for place, error in wrong.items():
        bad[rows[place]] = f"field {field.name!r} is no {field.type}: {error}"
    return _made([value for place, value in enumerate(values) if place not in wrong], field.type)


def _wrong(values: Sequence[Any], kind: pa.DataType, first: int) -> dict[int, str]:
    """Which of them cannot be of this type, and why; the first is number `first`."""
    try:
        _made(values, kind)
    except _WRONG as error:
        if len(values) == 1:
            return {first: str(error)}
        middle = len(values) // 2
        before = _wrong(values[:middle], kind, first)
        return before | _wrong(values[middle:], kind, first + middle)
    return {}


#: The errors that pyarrow raises about a value that is not of the type.
_WRONG: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)

_NONE: Final = type(None)


def _made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of the values. pyarrow alone would take True for 1, 2.0 for 2, and 5 for a date."""
    allowed, meanwhile = _allowed(kind)
    if strange := set(map(type, values)) - allowed:
        found = strange.pop()
        raise TypeError(f"it is a {'float' if found is _Number else found.__name__}")
    types = pa.types
    if types.is_struct(kind):
        return _structs(values, kind)
    if types.is_fixed_size_list(kind):
        return _lists_of_one_size(values, kind)
    if _is_list(kind):
        flat = [item for some in values if some is not None for item in some]
        return _lists(values, kind, [_items(flat, kind.value_field)])
    if types.is_map(kind):
        names = [name for some in values if some is not None for name in some]
        flat = [item for some in values if some is not None for item in some.values()]
        return _lists(values, kind, [_made(names, kind.key_type), _items(flat, kind.item_field)])
    if types.is_decimal(kind):
        values = [value if value is None else _digits(value) for value in values]
    made = pa.array(values, meanwhile or kind)
    if meanwhile:
        made = made.cast(kind)
    if types.is_floating(kind) and compute.any(compute.is_inf(made)).as_py():
        raise OverflowError("it is too big")
    return made


def _structs(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    fields = []
    for field in kind:
        if not field.nullable:
            _check_for_nulls([one.get(field.name) for one in values if one is not None], field)
        inside = [None if value is None else value.get(field.name) for value in values]
        fields.append(_made(inside, field.type))
    return pa.Array.from_buffers(kind, len(values), [_validity(values)], children=fields)


def _items(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if not field.nullable:
        _check_for_nulls(values, field)
    return _made(values, field.type)


def _check_for_nulls(values: Sequence[Any], field: pa.Field) -> None:
    if None in values:
        raise ValueError(f"{field.name} is null, or missing")


def _lists_of_one_size(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    size = kind.list_size
    for value in values:
        if value is not None and len(value) != size:
            raise ValueError(f"it has {len(value)} items")
    present = [item for some in values if some is not None for item in some]
    if not kind.value_field.nullable:
        _check_for_nulls(present, kind.value_field)
    # A list that is null takes the room of one.
    flat = [item for some in values for item in ([None] * size if some is None else some)]
    children = [_made(flat, kind.value_type)]
    return pa.Array.from_buffers(kind, len(values), [_validity(values)], children=children)


def _lists(values: Sequence[Any], kind: pa.DataType, flat: list[pa.Array]) -> pa.Array:
    """Lists or maps, of the arrays that hold all of their values."""
    sizes = [0 if value is None else len(value) for value in values]
    wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    numbers = pa.int64() if wide else pa.int32()
    offsets = pa.array(accumulate(sizes, initial=0), numbers).buffers()[1]
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        flat = [pa.Array.from_buffers(entries, len(flat[0]), [None], children=flat)]
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        buffers = [_validity(values), offsets, pa.array(sizes, numbers).buffers()[1]]
        return pa.Array.from_buffers(kind, len(values), buffers, children=flat)
    return pa.Array.from_buffers(kind, len(values), [_validity(values), offsets], children=flat)


def _validity(values: Sequence[Any]) -> pa.Buffer:
    """The bits that say which values are not null."""
    return pa.array([value is not None for value in values], pa.bool_()).buffers()[1]


def _digits(number: str | int | float) -> str:
    """The number as it was written: a float would not have all digits of a decimal."""
    return number.written if isinstance(number, _Number) else str(number)


class _Number(float):
    """A number that is no integer, if the schema has decimals."""

    def __new__(cls, written: str) -> Self:
        """The float, with its text."""
        made = super().__new__(cls, written)
        made.written = written
        return made

    written: str


def _allowed(kind: pa.DataType) -> tuple[set[type], pa.DataType | None]:
    """The Python types of JSON values for this type; and the type from which pyarrow casts them, if
    it does not take them as they are."""
    types = pa.types
    if types.is_boolean(kind):
        return {bool, _NONE}, None
    if types.is_integer(kind):
        return {int, _NONE}, None
    if types.is_floating(kind):
        return {int, float, _Number, _NONE}, pa.float64()
    if types.is_decimal(kind):
        return {int, float, _Number, str, _NONE}, pa.string()
    if types.is_struct(kind) or types.is_map(kind):
        return {dict, _NONE}, None
    if _is_list(kind):
        return {list, _NONE}, None
    if types.is_string(kind) or types.is_large_string(kind):
        return {str, _NONE}, None
    return {str, _NONE}, pa.string()


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_decimals(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind))
