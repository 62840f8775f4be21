"""pyarrow's own JSON reader, for blocks of values that are surely JSON: `JsonBlocks`.

The reader is six times as fast as Python's parser, and less strict: it also reads `NaN`, or two
objects that stand in one value, and a block that begins with `null` crashes the process. So a block
is looked at before it is read, and its columns are looked at after that. If anything is in doubt,
the block is refused, and the caller reads it by Python's parser (`json_columns`): the result is the
same, only later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as compute
from pyarrow import json

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
        #: Kept, since memory that is new for each batch takes a third of the time.
        self._scratch = bytearray()

    def columns(self, values: pa.Array) -> list[pa.Array] | None:
        """A column for each field of the schema; None if the block is refused."""
        if self._schema is None or values.type != pa.binary():
            return None
        if values.null_count:
            values = compute.fill_null(values, b"{}")
        if not self._is_safe(values):
            return None
        try:
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

    def _is_safe(self, values: pa.Array) -> bool:
        """False if the reader could fail with these values, or read them wrongly.

        Each value begins with `{` and ends with `}`, and the next one stands on a new line. No JSON
        object goes on over `}`, line break, `{`, since a string has no line breaks. So each value
        is one object or several, and if there are as many objects as values in the end, each value
        is one.
        """
        if not len(values) or values.nbytes > _MOST_BYTES or not _is_object_each(values):
            return False
        text = self._scratch
        text[:] = _bytes_of(values, b"")
        # The reader takes a zero for the end.
        if b"\0" in text:
            return False
        return _is_utf8(text) and not _may_have_no_number(text) and not _is_long(values, text)


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
