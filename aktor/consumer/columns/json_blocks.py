"""Blocks of JSON values that are read as a whole: `JsonBlocks`.

A compiled reader (`flat_json`) takes simple objects of numbers, strings and booleans. It is about
four times as fast as pyarrow's own JSON reader, which takes what is left, if it is surely JSON.

pyarrow's reader is six times as fast as Python's parser, and less strict: it also reads `NaN`, or
two objects that stand in one value, and a block that begins with `null` crashes the process. So a
block is looked at before it is read, and its columns are looked at after that. If anything is in
doubt, the block is refused, and the caller reads it by Python's parser (`json_columns`): the result
is the same, only later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as compute
from pyarrow import json

from aktor import compiled

if compiled.is_wanted():
    try:
        from aktor.consumer.columns.flat_json import FlatReader
    except ImportError:  # it was not compiled
        FlatReader = None  # type: ignore[assignment, misc]
else:
    FlatReader = None  # type: ignore[assignment, misc]

__all__ = ["JsonBlocks"]

#: The reader counts bytes in an int32; a smaller block also takes less memory.
_MOST_BYTES: Final = 64 * 1024 * 1024

#: Python's parser raises RecursionError at about 1000 levels, less the depth of its caller. A value
#: with fewer brackets than this has fewer levels.
_BRACKETS: Final = 300

#: Python reads no integer with more digits (`sys.set_int_max_str_digits`).
_DIGITS: Final = 4300
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")

#: Words that the reader takes for a number, although they are not JSON.
_NO_NUMBER: Final = re.compile(rb"[:,\[][ \t\r\n]*-?(?:NaN|Inf)")

#: From here on, a float may not be the integer that was written.
_INEXACT: Final = 2.0**53


class JsonBlocks:
    """Reads blocks of values as columns of a schema, or refuses them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._kinds = schema.types
        found = [_read_as(field.type) for field in schema]
        #: The types that the reader makes; None if it cannot read this schema.
        self._schema: pa.Schema | None = None
        if found and None not in found:
            self._schema = pa.schema(list(zip(schema.names, found, strict=True)))
        self._flat = _flat_reader(self._schema, schema.types)
        #: Kept, since memory that is new for each batch takes a third of the time.
        self._scratch = bytearray()

    def columns(self, values: pa.Array) -> list[pa.Array] | None:
        """A column for each field of the schema; None if the block is refused."""
        if self._schema is None or values.type != pa.binary():
            return None
        if not len(values) or values.nbytes > _MOST_BYTES:
            return None
        if values.null_count:
            values = compute.fill_null(values, b"{}")
        try:
            columns = self._read_flat(values)
            if columns is None:
                if not self._is_safe(values):
                    return None
                found = _read(_lines_of(values), self._schema)
                if found.num_rows != len(values):
                    return None
                columns = [_whole(found.column(name)) for name in self._schema.names]
                if not all(map(_is_exact, columns)):
                    return None
            return [
                column if column.type == kind else column.cast(kind)
                for column, kind in zip(columns, self._kinds, strict=True)
            ]
        except pa.ArrowNotImplementedError:
            self._schema = None
        except (pa.ArrowException, OverflowError):
            pass
        return None

    def _read_flat(self, values: pa.Array) -> list[pa.Array] | None:
        """The columns, of types that `_FLAT` has; None if a value is not simple."""
        if self._flat is None:
            return None
        _, ends, data = values.buffers()
        rows = len(values)
        made = self._flat.read(
            memoryview(data if data else b"\0").cast("B"),
            memoryview(ends).cast("B").cast("i"),
            values.offset,
            rows,
        )
        if made is None:
            return None
        assert self._schema is not None, "there is a reader of it"
        return [
            pa.Array.from_buffers(
                _FLAT_TYPES[_FLAT[kind]],
                rows,
                [None if one is None else pa.py_buffer(one) for one in buffers],
                nulls,
            )
            for kind, (nulls, buffers) in zip(self._schema.types, made, strict=True)
        ]

    def _is_safe(self, values: pa.Array) -> bool:
        """False if the reader could fail with these values, or read them wrongly.

        Each value begins with `{` and ends with `}`, and the next one stands on a new line. No JSON
        object goes on over `}`, line break, `{`, since a string has no line breaks. So each value
        is one object or several, and if there are as many objects as values in the end, each value
        is one.
        """
        if not _is_object_each(values):
            return False
        text = self._scratch
        text[:] = _bytes_of(values, b"")
        # The reader takes a zero for the end.
        if b"\0" in text:
            return False
        return _is_utf8(text) and not _may_have_no_number(text) and not _is_long(values, text)


#: How `flat_json` reads a type; the small ones are cast.
_FLAT: Final = {
    pa.bool_(): "b",
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()], "i"),
    **dict.fromkeys([pa.int64(), pa.uint32()], "l"),
    pa.float64(): "d",
    pa.string(): "s",
}
_FLAT_TYPES: Final = {
    "b": pa.bool_(),
    "i": pa.int32(),
    "l": pa.int64(),
    "d": pa.float64(),
    "s": pa.string(),
}


def _flat_reader(schema: pa.Schema | None, kinds: Sequence[pa.DataType]) -> FlatReader | None:
    """The compiled reader, if it is there and knows all the types. (A float64 that is cast to
    float32 may become infinite.)"""
    if FlatReader is None or schema is None or not set(schema.types) <= _FLAT.keys():
        return None
    if pa.float32() in kinds:
        return None
    if len(set(schema.names)) < len(schema.names):
        return None
    return FlatReader(schema.names, "".join(_FLAT[kind] for kind in schema.types))


def _read_as(kind: pa.DataType) -> pa.DataType | None:
    """The type that the reader is asked for. As in `json_columns`, floats are read as float64 and
    what JSON has no type for as strings; both are cast. A decimal may be a number or a string."""
    types = pa.types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return kind
    if types.is_list(kind):
        return _fields_read_as([kind.value_field], pa.list_)
    if types.is_struct(kind):
        return _fields_read_as(list(kind), lambda *fields: pa.struct(fields))
    if types.is_nested(kind) or types.is_float16(kind):
        return None  # a float64 that is cast to float16 may become infinite
    return pa.float64() if types.is_floating(kind) else pa.string()


def _fields_read_as(fields: list[pa.Field], made: Any) -> pa.DataType | None:
    kinds = [_read_as(field.type) for field in fields]
    names = [field.name for field in fields]
    if None in kinds or len(set(names)) < len(names) or not all(field.nullable for field in fields):
        return None
    return made(*(column.with_type(kind) for column, kind in zip(fields, kinds, strict=True)))


# -- before


def _bytes_of(values: pa.Array, between: bytes) -> pa.Buffer:
    """The values in one piece. (`as_py` would copy it, which takes fifty times as long.)"""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return compute.binary_join(whole, between)[0].as_buffer()


def _lines_of(values: pa.Array) -> pa.Buffer:
    """The values in one piece, with a line break after each.

    The reader cuts a block after its last line break. There has to be one at the very end: a cut in
    a value that has line breaks could make a block that begins with `null`, and crash the process.
    """
    return _bytes_of(pa.concat_arrays([values, pa.array([b""], pa.binary())]), b"\n")


def _is_object_each(values: pa.Array) -> bool:
    """True if each value begins and ends as an object."""
    both = compute.and_(compute.starts_with(values, "{"), compute.ends_with(values, "}"))
    return bool(compute.all(both).as_py())


def _is_utf8(text: bytearray) -> bool:
    """Whether all bytes are UTF-8: the reader checks only the strings of the schema."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _may_have_no_number(text: bytearray) -> bool:
    """True if there may be NaN or Infinity. To look for a single letter first is much faster."""
    nan = b"N" in text and b"NaN" in text
    infinite = b"I" in text and b"Inf" in text
    return (nan or infinite) and _NO_NUMBER.search(text) is not None


def _is_long(values: pa.Array, text: bytearray) -> bool:
    """True if a value may be one that Python's parser refuses for its depth or its digits."""
    longest = compute.max(compute.binary_length(values)).as_py()
    if longest > _BRACKETS and _is_deep(values):
        return True
    return bool(longest > _DIGITS and b"0" * (_DIGITS + 1) in text.translate(_DIGITS_ALIKE))


def _is_deep(values: pa.Array) -> bool:
    brackets = compute.add(
        compute.count_substring(values, "{"), compute.count_substring(values, "[")
    )
    return bool(compute.max(brackets).as_py() > _BRACKETS)


# -- reading, and after


def _read(text: pa.Buffer, schema: pa.Schema) -> pa.Table:
    return json.read_json(
        pa.BufferReader(text),
        # One block: the values are not read by several threads, and none is cut in two.
        read_options=json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _is_exact(column: pa.Array) -> bool:
    """False if a number may not be the one that was written.

    A float may not be: a big integer, or -0, which Python's parser reads as 0. A decimal may have
    more digits than its type: the reader does not see it, and ArrowInvalid is raised here.
    """
    for numbers in _numbers(column):
        if pa.types.is_decimal(numbers.type):
            numbers.validate(full=True)
            continue
        least, most = (value or 0.0 for value in compute.min_max(numbers).as_py().values())
        if least <= -_INEXACT or most >= _INEXACT:
            return False
        if compute.any(compute.equal(numbers.view(pa.int64()), -(2**63))).as_py():
            return False
    return True


def _numbers(column: pa.Array) -> Iterator[pa.Array]:
    """The arrays of floats and decimals in a column."""
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        yield column
    elif pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from _numbers(child)
    elif pa.types.is_list(column.type):
        yield from _numbers(column.flatten())
