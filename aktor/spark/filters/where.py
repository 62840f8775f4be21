"""The option `where`: a condition in SQL, which the tasks evaluate before Spark gets the rows.

sqlglot parses it, in the driver; tasks get plain data (`conditions`). What is not known here is
refused by its name before a job starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BooleanType, DataType

from aktor.errors import ConfigurationError
from aktor.spark.filters import comparisons
from aktor.spark.filters.comparisons import SIGNS, Columns, Named, Value
from aktor.spark.filters.conditions import All, Any_, Condition, IsNull, Not, True_

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

__all__ = ["read_where"]

#: The parts of sqlglot's nodes that are read here. A node with other parts is refused: they could
#: turn its meaning round.
_READ: Final = frozenset(
    (
        "this",
        "expression",
        "expressions",
        "low",
        "high",
        "to",
        "table",
        "db",
        "catalog",
        "quoted",
        "is_string",
    )
)

#: A decimal of Spark has so many digits at most.
DIGITS_MAX: Final = 38

_KNOWN: Final = (
    "known are = <> < <= > >= <=>, and, or, not, in, between, like, is null, startswith, endswith,"
    " contains; columns and their fields, numbers, strings, true, false, X'...', date'...',"
    " timestamp'...'"
)


def read_where(text: str, kinds: Mapping[str, DataType]) -> Condition:
    """The condition that this text means, for columns of these types.

    Raises ConfigurationError for what is no condition, names no column, or is not known here.
    """
    try:
        import sqlglot
    except ImportError:
        raise ConfigurationError(
            "where needs sqlglot in the driver: pip install sqlglot, or filter by Spark"
        ) from None
    if "\\" in text:
        raise ConfigurationError(
            f"where={text!r} has a backslash, which means several things in SQL: like has escape"
            " '!', and other texts are for a filter of Spark after reading"
        )
    try:
        expressions = sqlglot.parse(text, dialect="spark")
        if len(expressions) != 1 or expressions[0] is None:
            raise ConfigurationError("it is not one condition")
        for node in expressions[0].walk():
            read = _READ | {"negate"} if isinstance(node, sqlglot.exp.Like) else _READ
            if any(of for name, of in node.args.items() if name not in read):
                raise _unknown(node)
        return _Reader(Columns(kinds)).condition(expressions[0])
    except sqlglot.errors.SqlglotError as error:
        said = re.sub(r"\x1b\[[0-9]*m", "", str(error)).splitlines()[0]
        said = re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", said)
    except ConfigurationError as error:
        said = error.args[0]
    except RecursionError:
        said = "it is nested too deeply"
    raise ConfigurationError(f"where={text!r}: {said}")


class _Reader:
    """Owns the columns that may be named."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def condition(self, node: Any) -> Condition:
        from sqlglot import exp

        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return All(tuple(map(self.condition, node.flatten())))
            case exp.Or():
                return Any_(tuple(map(self.condition, node.flatten())))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Between():
                named = self._named(node.this)
                least, most = _value(node.args["low"]), _value(node.args["high"])
                return All(
                    (
                        comparisons.compared(named, ">=", least),
                        comparisons.compared(named, "<=", most),
                    )
                )
            case exp.In() if node.expressions:
                return comparisons.one_of(
                    self._named(node.this), [_value(one) for one in node.expressions]
                )
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self._named(node.this).column)
            case exp.Is() if isinstance(node.expression, exp.Not) and isinstance(
                node.expression.this, exp.Null
            ):
                return Not(IsNull(self._named(node.this).column))
            case exp.Escape(this=exp.Like() as like):
                found = self._like(like, _text(node.expression))
                return Not(found) if like.args.get("negate") else found
            case exp.Like():
                found = self._like(node, "")
                return Not(found) if node.args.get("negate") else found
            case exp.StartsWith() | exp.EndsWith() | exp.Contains():
                how = _HOW[type(node).__name__]
                return comparisons.matches(self._named(node.this), how, _text(node.expression))
            case exp.Column() | exp.Dot():
                named = self._named(node)
                if not isinstance(named.kind, BooleanType):
                    raise ConfigurationError(
                        f"{named.text} is {named.kind.simpleString()}, and no condition"
                    )
                return True_(named.column)
        sign = _SIGN.get(type(node).__name__)
        if sign is None:
            raise _unknown(node)
        return self._compared(sign, node.this, node.expression)

    def _compared(self, sign: str, left: Any, right: Any) -> Condition:
        from sqlglot import exp

        if not _is_column(left):
            left, right, sign = right, left, SIGNS[sign]
        if not _is_column(left):
            raise _unknown(left if isinstance(right, (exp.Literal, exp.Boolean)) else right)
        named = self._named(left)
        if _is_column(right):
            return comparisons.compared_columns(named, sign, self._named(right))
        return comparisons.compared(named, sign, _value(right))

    def _like(self, node: Any, escape: str) -> Condition:
        if len(escape) > 1:
            raise ConfigurationError(f"escape is one character, not {escape!r}")
        named, pattern = self._named(node.this), _text(node.expression)
        try:
            return comparisons.like(named, pattern, escape)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None

    def _named(self, node: Any) -> Named:
        return self._columns.find(_path(_bare(node)))


_SIGN: Final = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_HOW: Final = {
    "StartsWith": "starts_with",
    "EndsWith": "ends_with",
    "Contains": "match_substring",
}


def _bare(node: Any) -> Any:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_column(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(_bare(node), (exp.Column, exp.Dot))


def _path(node: Expression) -> Sequence[str]:
    from sqlglot import exp

    match node:
        case exp.Dot(this=before, expression=exp.Identifier(this=name)):
            return [*_path(before), name]
        case exp.Column() if all(isinstance(part, exp.Identifier) for part in node.parts):
            return [part.name for part in node.parts]
    raise _unknown(node)


def _text(node: Any) -> str:
    value = _value(node)
    if not isinstance(value, str):
        raise ConfigurationError(f"{_sql(node)} must be a string")
    return value


def _value(node: Any) -> Value:
    from sqlglot import exp

    match _bare(node):
        case exp.Literal(is_string=True, this=text):
            return str(text)
        case exp.Literal(this=text):
            return _number(text)
        case exp.Neg(this=exp.Literal(is_string=False, this=text)):
            return -_number(text)
        case exp.Boolean(this=value):
            return bool(value)
        case exp.HexString(this=digits):
            # Spark has a 0 before an odd number of digits.
            return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
        case exp.Null():
            raise ConfigurationError("nothing is equal to null: write is null, or is not null")
        case exp.Cast(this=exp.Literal(is_string=True, this=text), to=kind) if not isinstance(
            node, exp.TryCast
        ):
            return _dated(node, kind.this.name, text)
    raise _unknown(node)


def _number(text: str) -> int | float | Decimal:
    """As Spark reads it, with the bounds of its literals."""
    if re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text):
        if len(text.replace(".", "")) > DIGITS_MAX:
            raise ConfigurationError(f"Spark has no number with more than {DIGITS_MAX} digits")
        return Decimal(text) if "." in text else int(text)
    if re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+", text):
        if math.isinf(float(text)):
            raise ConfigurationError(f"Spark has no number as large as {text}")
        return float(text)
    raise ConfigurationError(f"{text} is a number of a kind that is not known here")


def _dated(node: Any, kind: str, text: str) -> Value:
    """date'...' and the like."""
    if kind == "DATE" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    found = comparisons.read_timestamp(text)
    if found is None:
        raise _unknown(node)
    zoned = found.tzinfo is not None
    if kind == "TIMESTAMPTZ" or (kind == "TIMESTAMP" and zoned):
        if zoned:
            return found
        raise ConfigurationError(
            f"{_sql(node)} would be in the session's zone, which is not known where rows are read:"
            " write it with its zone, as timestamp'2026-01-31 12:00:00Z'"
        )
    if kind in ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME") and not zoned:
        return found
    raise _unknown(node)


def _unknown(node: Any) -> ConfigurationError:
    return ConfigurationError(f"{_sql(node)} is not known here; {_KNOWN}")


def _sql(node: Any) -> str:
    try:
        return str(node.sql(dialect="spark"))
    except Exception:  # of any kind: it only writes a message
        return type(node).__name__
