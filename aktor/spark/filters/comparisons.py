"""Comparisons of columns with values, by the types that Spark would compare them in.

What Spark would compare only after a cast that may fail, or that depends on a setting of the
session, is refused: the row would be dropped here, and Spark would have ended the query or kept it.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from aktor.errors import ConfigurationError
from aktor.spark.filters import conditions
from aktor.spark.filters.conditions import (
    Any_,
    Column,
    Compare,
    Condition,
    Fixed,
    Not,
    OneOf,
    Pair,
    Same,
)

__all__ = ["Columns", "Named", "Value", "compared", "compared_columns", "one_of"]

#: A value that is written in a query: never null. A float is Spark's double.
Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime

Dated = TypeVar("Dated", date, datetime)

#: The signs of comparisons, and each with its sides exchanged.
SIGNS: Final = {
    "=": "=",
    "<>": "<>",
    "<=>": "<=>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}

_BITS: Final[dict[type[DataType], int]] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
#: From here on, Spark may compare a float with an integer as float or as double.
_FLOAT_INTEGERS: Final = 2**24
#: Digits that Spark has room for.
_DIGITS: Final = 38
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2})(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?"
)


@dataclass(frozen=True, slots=True)
class Named:
    """A column, and its type in Spark."""

    column: Column
    kind: DataType
    text: str


class Columns:
    """The columns that a condition may name. Upper and lower case do not matter, as in Spark."""

    def __init__(self, kinds: Mapping[str, DataType]) -> None:
        self._root = StructType()
        for name, kind in kinds.items():
            self._root.add(name, kind)

    def find(self, path: Sequence[str]) -> Named:
        """The column of this name, or the field. ConfigurationError: there is none."""
        kind: DataType = self._root
        places = []
        text = ".".join(path)
        for depth, name in enumerate(path):
            if not isinstance(kind, StructType):
                raise ConfigurationError(
                    f"{'.'.join(path[:depth])} is {kind.simpleString()}, and {text} would be a"
                    " field of it"
                )
            place = _place(kind, name)
            if place is None:
                near = difflib.get_close_matches(name, kind.names, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kind.names)}"
                raise ConfigurationError(f"there is no {text}; {hint}")
            places.append(place)
            kind = kind[place].dataType
        # pyspark gives no types for this function.
        from pyspark.sql.pandas.types import to_arrow_type

        name = self._root.names[places[0]]
        return Named(
            Column(name, tuple(places[1:]), to_arrow_type(kind, timezone="UTC")), kind, text
        )


def _place(kind: StructType, name: str) -> int | None:
    if name in kind.names:
        return kind.names.index(name)
    places = [place for place, one in enumerate(kind.names) if one.lower() == name.lower()]
    return places[0] if len(places) == 1 else None


def compared(named: Named, sign: str, value: Value) -> Condition:
    """The comparison of a column with a value. ConfigurationError: Spark might compare them in
    another way."""
    if sign == "<>":
        return Not(compared(named, "=", value))
    if sign == "<=>":
        return Same(compared(named, "=", value))
    kind = named.kind
    if isinstance(kind, (IntegralType, DecimalType)) and not isinstance(value, bool):
        if isinstance(value, (int, Decimal)):
            return _exact(named, sign, value)
        if isinstance(value, float) and isinstance(kind, IntegralType):
            return _float(named, sign, value)
    elif isinstance(kind, (FloatType, DoubleType)) and not isinstance(value, bool):
        if isinstance(value, (int, float, Decimal)):
            return _float(named, sign, value)
    elif isinstance(kind, BooleanType):
        if isinstance(value, bool) and sign == "=":
            return Compare(named.column, sign, value)
    else:
        found = _of_type(kind, value)
        if found is not None:
            return Compare(named.column, sign, found)
    raise _refused(named, sign, value)


def _of_type(kind: DataType, value: Value) -> Value | None:
    """The value as one of this type; None if it is of another one."""
    if _is_text(kind) and isinstance(value, str):
        return value
    if isinstance(kind, BinaryType):
        if isinstance(value, str):
            return value.encode()
        return value if isinstance(value, bytes) else None
    if isinstance(kind, DateType):
        if isinstance(value, str) and _DATE.fullmatch(value):
            return _iso(date, value)
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        if isinstance(value, str):
            value = read_timestamp(value) or value
        if isinstance(value, datetime):
            zoned = value.tzinfo is not None
            if zoned == isinstance(kind, TimestampType):
                return _in_utc(value) if zoned else value
    return None


def read_timestamp(text: str) -> datetime | None:
    """A date and a time of day, in UTC if the text has a zone. None if it is no time that Python
    has."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups(default="")
    digits = f"{fraction:0<7}" if fraction else ""
    found = _iso(datetime, f"{day}T{time}{digits}{zone}")
    return found if found is None or not zone else _in_utc(found)


def _in_utc(value: datetime) -> datetime | None:
    """The same moment; None if Python has no year for it (0, 10000)."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return None


def _iso(kind: type[Dated], text: str) -> Dated | None:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def _is_text(kind: DataType) -> bool:
    """Whether it is a string that Spark compares by its bytes: not one with a collation, or one
    that is padded."""
    if isinstance(kind, StringType):
        return getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    return isinstance(kind, VarcharType)


def _exact(named: Named, sign: str, value: int | Decimal) -> Condition:
    """A comparison of an integer or a decimal, as mathematics has it. Spark makes both wider for
    it, and then it is the same."""
    if isinstance(value, Decimal) and not value.is_finite():
        raise _refused(named, sign, value)
    kind = named.kind
    if isinstance(kind, DecimalType):
        scale, most = kind.scale, 10**kind.precision - 1
        least = -most
        _check_digits(named, sign, kind, value)
    else:
        scale, most = 0, 2 ** (_BITS[type(kind)] - 1) - 1
        least = -most - 1
    scaled = Fraction(value) * 10**scale
    number = math.floor(scaled)
    if scaled != number:
        if sign == "=":
            return Fixed(named.column, False)
        sign = ">" if sign in (">", ">=") else "<="
    if number > most:
        return Fixed(named.column, sign in ("<", "<="))
    if number < least:
        return Fixed(named.column, sign in (">", ">="))
    if not isinstance(kind, DecimalType):
        return Compare(named.column, sign, number)
    digits = tuple(map(int, str(abs(number))))
    return Compare(named.column, sign, Decimal((int(number < 0), digits, -scale)))


def _check_digits(named: Named, sign: str, kind: DecimalType, value: int | Decimal) -> None:
    """Spark drops digits of what it has no room for."""
    _, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "it is finite"
    scale = max(0, -exponent)
    whole = max(kind.precision - kind.scale, len(digits) - scale + max(0, exponent))
    if whole + max(kind.scale, scale) > _DIGITS:
        raise _refused(named, sign, value)


def _float(named: Named, sign: str, value: int | float | Decimal) -> Condition:
    """A comparison of floats, in which a float column is made a double."""
    narrow = isinstance(named.kind, FloatType)
    if math.isnan(value) or (narrow and isinstance(value, int) and abs(value) > _FLOAT_INTEGERS):
        raise _refused(named, sign, value)
    cast = None if isinstance(named.kind, DoubleType) else pa.float64()
    return Compare(named.column, sign, float(value), cast)


def one_of(named: Named, values: Sequence[Value]) -> Condition:
    """A column is one of these values."""
    if not values:
        return Fixed(named.column, False)
    kinds = {isinstance(value, float) for value in values}
    if len(kinds) > 1 and not isinstance(named.kind, DoubleType):
        raise ConfigurationError(
            f"{named.text} in (...) has doubles and other numbers: write them alike"
        )
    each = [compared(named, "=", value) for value in values]
    if _is_text(named.kind) or isinstance(named.kind, (IntegralType, BinaryType)):
        found = [one.value for one in each if isinstance(one, Compare) and one.cast is None]
        if len(found) + sum(isinstance(one, Fixed) for one in each) == len(each):
            return OneOf(named.column, tuple(found)) if found else each[0]
    return each[0] if len(each) == 1 else Any_(tuple(each))


def compared_columns(left: Named, sign: str, right: Named) -> Condition:
    """The comparison of two columns of one type."""
    if sign == "<>":
        return Not(compared_columns(left, "=", right))
    if sign == "<=>":
        return Same(compared_columns(left, "=", right), (left.column, right.column))
    cast = None
    alike = left.kind == right.kind and _of_type(left.kind, _EXAMPLE.get(type(left.kind), 0))
    if isinstance(left.kind, IntegralType) and isinstance(right.kind, IntegralType):
        alike, cast = True, pa.int64()
    elif isinstance(left.kind, DecimalType) and isinstance(right.kind, DecimalType):
        scale = max(left.kind.scale, right.kind.scale)
        whole = max(kind.precision - kind.scale for kind in (left.kind, right.kind))
        alike, cast = whole + scale <= _DIGITS, pa.decimal128(_DIGITS, scale)
    elif isinstance(left.kind, (FloatType, DoubleType)):
        alike = left.kind == right.kind
    elif isinstance(left.kind, BooleanType):
        alike = left.kind == right.kind and sign == "="
    if not alike:
        raise ConfigurationError(
            f"{left.text} {sign} {right.text} compares {left.kind.simpleString()} with"
            f" {right.kind.simpleString()}: filter by Spark after reading"
        )
    return Pair(left.column, sign, right.column, cast)


#: A value of each type whose columns may be compared with one another.
_EXAMPLE: Final[dict[type[DataType], Value]] = {
    StringType: "a",
    VarcharType: "a",
    BinaryType: b"a",
    DateType: date(2000, 1, 1),
    TimestampType: datetime(2000, 1, 1, tzinfo=UTC),
    TimestampNTZType: datetime(2000, 1, 1),
}


def like(named: Named, pattern: str, escape: str) -> Condition:
    """SQL's LIKE."""
    if not _is_text(named.kind):
        raise ConfigurationError(
            f"{named.text} is {named.kind.simpleString()}, and like is for strings"
        )
    return conditions.like(named.column, pattern, escape)


def matches(named: Named, how: str, text: str) -> Condition:
    """A string begins or ends with a text, or has it inside (see `Matches`)."""
    if not _is_text(named.kind):
        raise ConfigurationError(
            f"{named.text} is {named.kind.simpleString()}, and not a string (without a collation)"
        )
    return conditions.Matches(named.column, how, text)


def _refused(named: Named, sign: str, value: Value) -> ConfigurationError:
    hint = "write a value of that type, or filter by Spark after reading"
    if isinstance(named.kind, TimestampType) and isinstance(value, (str, datetime, date)):
        hint = "write it with its zone, as timestamp'2026-01-31 12:00:00Z'"
    elif isinstance(named.kind, TimestampNTZType) and isinstance(value, (str, datetime, date)):
        hint = "write it as timestamp_ntz'2026-01-31 12:00:00'"
    return ConfigurationError(
        f"{named.text} is {named.kind.simpleString()}, and cannot be compared here by {sign} with"
        f" {value!r}: {hint}"
    )
