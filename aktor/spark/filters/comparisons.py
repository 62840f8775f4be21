"""Comparisons of columns with values, by the types that Spark would compare them in.

What Spark would compare only after a cast that may fail, or that depends on a setting of the
session, is refused: the row would be dropped here, and Spark would have ended the query or kept it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
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
    MapType,
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
    Compare,
    Condition,
    Fixed,
    Not,
    OneOf,
    Pair,
    Same,
)
from aktor.spark.filters.literals import DIGITS, Value, in_utc, read_date, read_timestamp
from aktor.spark.filters.names import Named

__all__ = ["SIGNS", "compared", "compared_columns", "like", "matches", "one_of"]

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
#: The range of bigint.
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
#: Types whose values are looked up in a list, besides strings.
_LISTED: Final = (IntegralType, BinaryType, DateType, TimestampType, TimestampNTZType)
#: From here on, Spark may compare a float with an integer as float or as double.
_FLOAT_INTEGERS: Final = 2**24
_NUMBER: Final = re.compile(r"-?\d{1,38}(\.\d{1,38})?")


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
    raise _refused(named, value)


def _of_type(kind: DataType, value: Value) -> Value | None:
    """The value as one of this type; None if it is of another one."""
    if _is_text(kind) and isinstance(value, str):
        return value
    if isinstance(kind, BinaryType):
        if isinstance(value, str):
            return value.encode()
        return value if isinstance(value, bytes) else None
    if isinstance(kind, DateType):
        if isinstance(value, str):
            return read_date(value)
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        if isinstance(value, str):
            value = read_timestamp(value) or value
        if isinstance(value, datetime):
            zoned = value.tzinfo is not None
            if zoned == isinstance(kind, TimestampType):
                return in_utc(value) if zoned else value
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
        raise _refused(named, value)
    kind = named.kind
    if isinstance(kind, IntegralType) and sign != "=" and not _LEAST <= value <= _MOST:
        raise ConfigurationError(
            f"{named.text} is {kind.simpleString()}, and {value} is outside of the range of bigint:"
            " Spark would say true or false of null, too; write a number from"
            f" {_LEAST} to {_MOST}, or is not null for all that are"
        )
    if isinstance(kind, DecimalType):
        scale, most = kind.scale, 10**kind.precision - 1
        least = -most
        _check_digits(named, kind, value)
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


def _check_digits(named: Named, kind: DecimalType, value: int | Decimal) -> None:
    """Spark drops digits of what it has no room for."""
    _, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "it is finite"
    scale = max(0, -exponent)
    whole = max(kind.precision - kind.scale, len(digits) - scale + max(0, exponent))
    if whole + max(kind.scale, scale) > DIGITS:
        raise _refused(named, value)


def _float(named: Named, sign: str, value: int | float | Decimal) -> Condition:
    """A comparison of floats, in which a float column is made a double."""
    narrow = isinstance(named.kind, FloatType)
    if math.isnan(value) or (narrow and isinstance(value, int) and abs(value) > _FLOAT_INTEGERS):
        raise _refused(named, value)
    cast = None if isinstance(named.kind, DoubleType) else pa.float64()
    return Compare(named.column, sign, float(value), cast)


def one_of(named: Named, values: Sequence[Value]) -> Condition:
    """A column is one of these values."""
    if not values:
        return Fixed(named.column, False)
    kinds = {isinstance(value, float) for value in values}
    if len(kinds) > 1 and not isinstance(named.kind, DoubleType):
        raise ConfigurationError(
            f"{named.text} in (...) has doubles and other numbers: write them alike, as (1.0, 2.5)"
        )
    if isinstance(named.kind, (TimestampType, TimestampNTZType)):
        for value in values:
            if isinstance(value, str):  # by spark.sql.ansi.enabled
                raise ConfigurationError(
                    f"{named.text} in (...) has the string {value!r}, which Spark compares as a"
                    " time or as a string, by the settings of the session:"
                    f" {_hint(named, value).rpartition(': ')[2]}"
                )
    each = [compared(named, "=", value) for value in values]
    if _is_text(named.kind) or isinstance(named.kind, _LISTED):
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
        alike, cast = whole + scale <= DIGITS, pa.decimal128(DIGITS, scale)
    elif isinstance(left.kind, (FloatType, DoubleType)):
        alike = left.kind == right.kind
    elif isinstance(left.kind, BooleanType):
        alike = left.kind == right.kind and sign == "="
    if not alike:
        raise ConfigurationError(
            f"{left.text} is {left.kind.simpleString()}, and {right.text} is"
            f" {right.kind.simpleString()}: they are not compared here by {sign}; filter by Spark"
            " after reading, or compare each with a value"
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
            f"{named.text} is {named.kind.simpleString()}, and like is for strings; decode=string"
            " makes strings of keys and values"
        )
    return conditions.like(named.column, pattern, escape)


def matches(named: Named, how: str, text: str) -> Condition:
    """A string begins or ends with a text, or has it inside (see `Matches`)."""
    if not _is_text(named.kind):
        raise ConfigurationError(
            f"{named.text} is {named.kind.simpleString()}, and not a string (without a collation);"
            " decode=string makes strings of keys and values"
        )
    return conditions.Matches(named.column, how, text)


def _refused(named: Named, value: Value) -> ConfigurationError:
    """Neither side comes first: the user may have written it either way."""
    return ConfigurationError(
        f"{named.text} is {_kind(named.kind)}, and is not compared here with"
        f" {_said(value)}: {_hint(named, value)}"
    )


def _kind(kind: DataType) -> str:
    return "a struct" if isinstance(kind, StructType) else str(kind.simpleString())


def _said(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"the string {value!r}"
        case bytes():
            return f"the bytes X'{value.hex()}'"
        case datetime():
            zone = "" if value.tzinfo is None else "Z"
            return f"the time {value.replace(tzinfo=None)}{zone}"
        case date():
            return f"the date {value}"
    return str(value)


def _hint(named: Named, value: Value) -> str:
    """What to write in place of this value."""
    kind = named.kind
    day = value if isinstance(value, date) else None
    if isinstance(value, str):  # maybe of a time
        day = read_timestamp(value) or read_date(value)
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        return _dated_hint(kind, day)
    match kind:
        case BooleanType():
            return f"write {named.text}, not {named.text}, or {named.text} = true"
        case StructType() if kind.names:
            return f"compare a field of it, as {named.text}.{kind.names[0]}"
        case IntegralType() | DecimalType() | FloatType() | DoubleType():
            if isinstance(value, (str, bytes, bool, date)):
                number = value if isinstance(value, str) and _NUMBER.fullmatch(value) else 5
                return f"write a number without quotes, as {number}"
        case StringType() | VarcharType() if _is_text(kind):
            return f"write a string, as '{'DE' if isinstance(value, bytes) else value}'"
        case ArrayType() | MapType() | StructType():
            return "filter by Spark after reading"
        case BinaryType():
            return "write bytes, as X'00ff', or a string, as 'DE'"
    return "Spark would change one of them before, by its settings: filter by Spark after reading"


def _dated_hint(kind: DataType, day: date | None) -> str:
    moment = day or date(2026, 1, 31)
    time = moment.time() if isinstance(moment, datetime) else datetime.min.time()
    calendar = moment.date() if isinstance(moment, datetime) else moment
    if isinstance(kind, DateType):
        written = f"a date, as date'{calendar}'"
    elif isinstance(kind, TimestampType):
        written = f"a time with its zone, as timestamp'{calendar} {time}Z'"
    else:
        written = f"a time without a zone, as timestamp_ntz'{calendar} {time}'"
    is_zoned = isinstance(day, datetime) and day.tzinfo is not None
    if day is not None and is_zoned != isinstance(kind, TimestampType):
        return (
            f"the zone of the session, by which Spark would go, is not known here: write {written}"
        )
    return f"write {written}"
