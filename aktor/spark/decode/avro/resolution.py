"""How values of one schema are read as those of another ("Schema Resolution" of Avro)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from aktor.spark.decode.avro import kernel
from aktor.spark.decode.avro.kernel import Column, Step
from aktor.spark.decode.avro.schema import NO_DEFAULT, Field, Kind, SchemaError, alone

__all__ = ["Resolution", "column_of"]

#: Microseconds, as which Spark has times.
_MICROSECONDS: Final = {"millis": 1000, "micros": 1}


def column_of(kind: Kind) -> Column:
    """An empty column for values of this type."""
    only = alone(kind)
    if only is None:
        others = [branch for branch in kind.branches if branch.type != "null"]
        return kernel.Struct(*map(column_of, others))
    if only.logical == "decimal":
        return kernel.Fixed(16)
    match only.type:
        case "null":
            return Column()
        case "boolean":
            return kernel.Flags(1)
        case "int" | "float":
            return kernel.Fixed(4)
        case "long" | "double":
            return kernel.Fixed(8)
        case "array":
            assert only.items is not None
            return kernel.List(column_of(only.items))
        case "map":
            assert only.items is not None
            return kernel.List(kernel.Bytes(), column_of(only.items))
        case "record":
            return kernel.Struct(*(column_of(one.kind) for one in only.fields))
    return kernel.Bytes()


class Resolution:
    """Makes the step that reads values of one schema as those of another into a column."""

    def __init__(self) -> None:
        #: By the names of records: one may have itself in it.
        self._skips: dict[str, Step] = {}

    def step(self, written: Kind, read: Kind, column: Any) -> Step:
        """`column` is one that `column_of` made for `read`. Raises SchemaError if it cannot be."""
        if written.type == "union":
            return self._of_union(written, read, column)
        if read.type == "union":
            return self._into_union(written, read, column)
        made = _STEPS.get(read.type, Resolution._same)(self, written, read, column)
        if made is None:
            raise SchemaError(f"it was written as {written}, and cannot be read as {read}")
        return made

    def _of_union(self, written: Kind, read: Kind, column: Any) -> Step:
        """A branch that does not fit is refused when it comes."""
        steps: list[Step] = []
        for branch in written.branches:
            try:
                steps.append(self.step(branch, read, column))
            except SchemaError as error:
                steps.append(kernel.Refuse(str(error)))
        if all(isinstance(step, kernel.Refuse) for step in steps):
            raise SchemaError(f"it was written as {written}, and cannot be read as {read}")
        return kernel.Union(steps)

    def _into_union(self, written: Kind, read: Kind, column: Any) -> Step:
        if written.type == "null":
            if any(branch.type == "null" for branch in read.branches):
                return kernel.ToNull(column)
            raise SchemaError(f"it was written as null, and {read} has no null")
        only = alone(read)
        if only is not None:
            return self.step(written, only, column)
        others = [branch for branch in read.branches if branch.type != "null"]
        same = [
            n
            for n, one in enumerate(others)
            if (one.type, one.name) == (written.type, written.name)
        ]
        for number in (*same, *range(len(others))):
            try:
                step = self.step(written, others[number], column.children[number])
            except SchemaError:
                continue
            return kernel.ToMember(column, number, step)
        raise SchemaError(f"it was written as {written}, which the union does not have")

    # -- one type

    def _same(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if read.type == written.type == "null":
            return kernel.ToNull(column)
        if read.type == written.type == "boolean":
            return kernel.ToFlag(column)
        return None

    def _integer(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type not in ("int", read.type):
            return None
        # A time has the unit with which it was written.
        said = written.logical if written.type == "long" and written.logical else read.logical
        unit = (said or "").rpartition("-")[2]
        factor = _MICROSECONDS.get(unit, 1) if read.type == "long" and read.logical else 1
        return kernel.ToInteger(column, is_int=written.type == "int", factor=factor)

    def _real(self, written: Kind, read: Kind, column: Any) -> Step | None:
        widths = {"int": 0, "long": 0, "float": 4, "double": 8}
        if written.type not in widths or (written.type, read.type) == ("double", "float"):
            return None
        return kernel.ToReal(column, width=widths[written.type])

    def _bytes(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if read.logical == "decimal":
            return self._decimal(written, read, column)
        if written.type not in ("bytes", "string"):
            return None
        return kernel.ToBytes(column, is_text=read.type == "string")

    def _decimal(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type not in ("bytes", read.type):
            return None
        if written.logical == "decimal" and written.scale != read.scale:
            raise SchemaError(
                f"a decimal was written with {written.scale} digits after the point, and cannot be"
                f" read with {read.scale}"
            )
        size = written.size if written.type == "fixed" else -1
        return kernel.ToDecimal(column, size=size, precision=read.precision)

    def _fixed(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type != "fixed" or written.size != read.size:
            return None
        if read.logical == "decimal":
            return self._decimal(written, read, column)
        return kernel.ToBytes(column, size=read.size)

    def _enum(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type != "enum":
            return None
        default = None if read.default is None else read.default.encode()
        symbols = [one.encode() if one in read.symbols else default for one in written.symbols]
        return kernel.ToSymbol(column, symbols)

    def _array(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type != "array" or written.items is None or read.items is None:
            return None
        return kernel.ToList(column, self.step(written.items, read.items, column.children[0]))

    def _map(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type != "map" or written.items is None or read.items is None:
            return None
        keys, values = column.children
        item = self.step(written.items, read.items, values)
        return kernel.ToList(column, kernel.Sequence((kernel.ToBytes(keys, is_text=True), item)))

    def _record(self, written: Kind, read: Kind, column: Any) -> Step | None:
        if written.type != "record":
            return None
        columns = dict(zip((one.name for one in read.fields), column.children, strict=True))
        left = {one.name: one for one in read.fields}
        steps: list[Step] = []
        for one in written.fields:
            wanted = left.get(one.name) or next(
                (there for there in left.values() if one.name in there.aliases), None
            )
            if wanted is None:
                steps.append(self.skip(one.kind))
                continue
            del left[wanted.name]
            steps.append(self._field(wanted, one.kind, columns[wanted.name]))
        for wanted in left.values():
            if wanted.default is NO_DEFAULT:
                raise SchemaError(f"it has no field {wanted.name}, and the schema has no default")
            constant = encoded(wanted.default, wanted.kind)
            step = self._field(wanted, wanted.kind, columns[wanted.name])
            steps.append(kernel.Constant(constant, step))
        return kernel.ToStruct(column, kernel.Sequence(steps))

    def _field(self, wanted: Field, written: Kind, column: Any) -> Step:
        try:
            return self.step(written, wanted.kind, column)
        except SchemaError as error:
            raise SchemaError(f"{wanted.name}: {error}") from None

    # -- what is not read

    def skip(self, kind: Kind) -> Step:
        """The step over a value of this type."""
        match kind.type:
            case "null":
                return kernel.Sequence()
            case "boolean":
                return kernel.SkipFixed(1)
            case "int" | "long" | "enum":
                return kernel.SkipLong()
            case "float":
                return kernel.SkipFixed(4)
            case "double":
                return kernel.SkipFixed(8)
            case "fixed":
                return kernel.SkipFixed(kind.size)
            case "union":
                return kernel.Union(map(self.skip, kind.branches))
            case "array":
                assert kind.items is not None
                return kernel.SkipItems(self.skip(kind.items))
            case "map":
                assert kind.items is not None
                return kernel.SkipItems(
                    kernel.Sequence((kernel.SkipBytes(), self.skip(kind.items)))
                )
            case "record":
                there = self._skips.get(kind.name)
                if there is None:
                    self._skips[kind.name] = there = made = kernel.Sequence()
                    made.steps = tuple(self.skip(one.kind) for one in kind.fields)
                return there
        return kernel.SkipBytes()


_Make = Callable[[Resolution, Kind, Kind, Any], Step | None]
_STEPS: Final[dict[str, _Make]] = {
    "int": Resolution._integer,
    "long": Resolution._integer,
    "float": Resolution._real,
    "double": Resolution._real,
    "bytes": Resolution._bytes,
    "string": Resolution._bytes,
    "fixed": Resolution._fixed,
    "enum": Resolution._enum,
    "array": Resolution._array,
    "map": Resolution._map,
    "record": Resolution._record,
}


def encoded(value: Any, kind: Kind) -> bytes:
    """A default of a schema, as it would stand in a value. Raises SchemaError."""
    try:
        return _encoded(value, kind)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error):
        raise SchemaError(f"the default {value!r} is no {kind}") from None


def _encoded(value: Any, kind: Kind) -> bytes:
    match kind.type:
        case "null":
            if value is not None:
                raise TypeError
            return b""
        case "boolean":
            return bytes([{True: 1, False: 0}[value]])
        case "int" | "long":
            return _number(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return _sized(value.encode())
        case "bytes":  # a letter for each byte
            return _sized(value.encode("latin-1"))
        case "fixed":
            return bytes(value.encode("latin-1"))
        case "enum":
            return _number(kind.symbols.index(value))
        case "union":
            return _of_branch(value, kind)
        case "array" | "map":
            assert kind.items is not None
            if kind.type == "array":
                items = [_encoded(one, kind.items) for one in value]
            else:
                items = [
                    _sized(key.encode()) + _encoded(one, kind.items) for key, one in value.items()
                ]
            return (_number(len(items)) + b"".join(items) if items else b"") + b"\0"
    parts = []
    for one in kind.fields:
        told = value.get(one.name, one.default)
        parts.append(_encoded(told, one.kind))
    return b"".join(parts)


def _of_branch(value: Any, kind: Kind) -> bytes:
    """A default is of the first branch; since Avro 1.12 of any."""
    for number, branch in enumerate(kind.branches):
        try:
            return _number(number) + _encoded(value, branch)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error):
            continue
    raise ValueError


def _number(value: int) -> bytes:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data
