"""The option `where`: a condition in SQL, which the tasks evaluate before Spark gets the rows.

sqlglot parses it, in the driver; tasks get plain data (`conditions`). What is not known here is
refused by its name before a job starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.types import BooleanType, DataType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from aktor.errors import ConfigurationError
from aktor.spark.filters import comparisons
from aktor.spark.filters.comparisons import SIGNS
from aktor.spark.filters.conditions import All, Any_, Condition, Constant, IsNull, Not, True_
from aktor.spark.filters.literals import DIGITS, Value, read_date, read_timestamp
from aktor.spark.filters.names import Columns, Named
from aktor.spark.filters.where_text import EXAMPLE, Placed, Refused, WhereText

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

_KNOWN: Final = (
    "known are = <> < <= > >= <=>, and, or, not, in, between, like, is null, startswith, endswith,"
    " contains; columns and their fields, numbers, strings, true, false, X'...', date'...',"
    f" timestamp'...', as {EXAMPLE}; filter by Spark after reading otherwise"
)

#: What is written instead of a node of this class.
_INSTEAD: Final = {
    "IsNull": "write is null",
    "IsNotNull": "write is not null",
    "Null": "write is null, or is not null",
    "In": "write the values in a list, as partition in (1, 2)",
    "Cast": "write the value in the type of the column; decode=string makes strings of keys and"
    " values",
    "Tuple": "compare the columns one by one, joined by and",
    "Neg": "only numbers may have a - before them",
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "IntDiv", "Mod"),
        "nothing is computed here: write the value itself, or filter by Spark after reading",
    ),
    **dict.fromkeys(
        ("CurrentTimestamp", "CurrentDate", "Now", "Interval"),
        "write the time itself, as timestamp'2026-01-31 12:00:00Z', which the program that makes"
        " the query may compute, or filter by Spark after reading",
    ),
}


def read_where(text: str, kinds: Mapping[str, DataType]) -> Condition:
    """The condition that this text means, for columns of these types.

    Raises ConfigurationError for what is no condition, names no column, or is not known here. It
    has the place in the text, what is expected there, and an example.
    """
    try:
        source = WhereText(text)
        top = source.node()
        reader = _Reader(Columns(kinds), source)
        found = reader.condition(top)
        reader.check_all_was_read(top)
        return found
    except ConfigurationError as error:
        said = error.args[0]
    except SqlglotError:
        said = f"it is no condition of SQL; write one as {EXAMPLE}"
    except RecursionError:
        said = "it is nested too deeply"
    raise ConfigurationError(f"where={text!r}: {said}")


class _Reader:
    """Owns the columns that may be named, and the text."""

    def __init__(self, columns: Columns, source: WhereText) -> None:
        self._columns = columns
        self._source = source

    def condition(self, node: Any) -> Condition:
        """The condition that a node means."""
        try:
            return self._condition(node)
        except Placed:
            raise
        except ConfigurationError as error:
            raise self._source.placed(error, node) from None

    def check_all_was_read(self, top: Any) -> None:
        """Refuse a node with parts that are not read here."""
        for node in top.walk():
            read = _READ | {"negate"} if isinstance(node, exp.Like) else _READ
            if any(part for name, part in node.args.items() if name not in read):
                raise self._source.placed(self._unknown(node), node)

    def _condition(self, node: Any) -> Condition:
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return All(tuple(map(self.condition, node.flatten())))
            case exp.Or():
                return Any_(tuple(map(self.condition, node.flatten())))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Boolean(this=value):
                return Constant(self._columns.counted(), bool(value))
            case exp.Between():
                named = self._named(node.this)
                least, most = self._value(node.args["low"]), self._value(node.args["high"])
                return All(
                    (
                        comparisons.compared(named, ">=", least),
                        comparisons.compared(named, "<=", most),
                    )
                )
            case exp.In() if node.expressions:
                return comparisons.one_of(
                    self._named(node.this), [self._value(one) for one in node.expressions]
                )
            case exp.In():
                raise Refused("in has no list of values after it: write it as partition in (1, 2)")
            case exp.Is():
                return self._is(node)
            case exp.Escape(this=exp.Like() as like):
                return self._like(like, self._text(node.expression))
            case exp.Like():
                return self._like(node, "")
            case exp.StartsWith() | exp.EndsWith() | exp.Contains():
                how = _HOW[type(node).__name__]
                text = self._text(node.expression)
                return comparisons.matches(self._named(node.this), how, text)
            case exp.Column() | exp.Dot():
                named = self._named(node)
                if not isinstance(named.kind, BooleanType):
                    raise Refused(
                        f"{named.text} is {named.kind.simpleString()}, and no condition: compare it"
                        f" with a value, as {EXAMPLE}"
                    )
                return True_(named.column)
            case exp.Literal():
                raise Refused(
                    f"{self._source.piece(node)} is a value, and no condition: compare a column"
                    f" with it, as {EXAMPLE}"
                )
        sign = _SIGN.get(type(node).__name__)
        if sign is None:
            raise self._unknown(node)
        return self._compared(sign, node)

    def _compared(self, sign: str, node: Any) -> Condition:
        left, right = node.this, node.expression
        if not _is_column(left):
            left, right, sign = right, left, SIGNS[sign]
        if not _is_column(left):
            for one in (node.this, node.expression):
                self._value(one)  # what is not known is told rather
            raise Refused(
                f"{self._source.piece(node)} has no column: compare a column with a value, as"
                f" {EXAMPLE}; true stands for all rows"
            )
        named = self._named(left)
        if _is_column(right):
            return comparisons.compared_columns(named, sign, self._named(right))
        return comparisons.compared(named, sign, self._value(right))

    def _is(self, node: Any) -> Condition:
        asked, negated = node.expression, isinstance(node.expression, exp.Not)
        asked = asked.this if negated else asked
        if isinstance(asked, exp.Null):
            found: Condition = IsNull(self._named(node.this).column)
        elif isinstance(asked, exp.Boolean):
            found = comparisons.compared(self._named(node.this), "<=>", bool(asked.this))
        else:
            raise Refused(
                f"{self._source.piece(node)}: after is stands null, not null, true or false; other"
                " values are compared by ="
            )
        return Not(found) if negated else found

    def _like(self, node: Any, escape: str) -> Condition:
        if len(escape) > 1:
            raise Refused(f"escape is one character, as escape '!', not {escape!r}")
        named, pattern = self._named(node.this), self._text(node.expression)
        try:
            found = comparisons.like(named, pattern, escape)
        except ValueError as error:
            raise Refused(str(error)) from None
        return Not(found) if node.args.get("negate") else found

    def _named(self, node: Any) -> Named:
        path = self._path(_bare(node))
        try:
            return self._columns.find(path)
        except ConfigurationError as error:
            raise Refused(error.args[0], node) from None

    def _path(self, node: Any) -> Sequence[str]:
        match node:
            case exp.Dot(this=before, expression=exp.Identifier(this=name)):
                return [*self._path(before), name]
            case exp.Column() if all(isinstance(part, exp.Identifier) for part in node.parts):
                return [part.name for part in node.parts]
        raise self._unknown(node)

    def _text(self, node: Any) -> str:
        value = None if _is_column(node) else self._value(node)
        if not isinstance(value, str):
            raise Refused(f"{self._source.piece(node)} must be a string, as 'DE'", node)
        return value

    def _value(self, node: Any) -> Value:
        node = _bare(node)
        try:
            match node:
                case exp.Literal(is_string=True, this=text):
                    return str(text)
                case exp.Concat(expressions=parts) if all(
                    isinstance(part, exp.Literal) and part.is_string for part in parts
                ):
                    return "".join(part.this for part in parts)
                case exp.Literal(this=text):
                    return _number(text)
                case exp.Neg(this=exp.Literal(is_string=False, this=text)):
                    return -_number(text)
                case exp.Boolean(this=value):
                    return bool(value)
                case exp.HexString(this=digits) if self._source.piece(node)[:1] in "xX":
                    # Spark has a 0 before an odd number of digits.
                    return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
                case exp.Null():
                    raise Refused(
                        "nothing is equal to null: write is null, or is not null", node.parent
                    )
                case exp.Cast(this=exp.Literal(is_string=True, this=text), to=kind) if (
                    not isinstance(node, exp.TryCast)
                ):
                    return _dated(lambda: self._source.piece(node), kind.this.name, text)
        except Refused as error:
            error.node = error.node or node
            raise
        raise self._unknown(node)

    def _unknown(self, node: Any) -> Refused:
        """It is not known here, and what may be written in its place."""
        piece = self._source.piece(node)
        name = type(node).__name__
        if name == "Anonymous":
            # As other versions of sqlglot name them.
            name = {"isnull": "IsNull", "isnotnull": "IsNotNull", "now": "Now"}.get(
                str(node.this).lower(), name
            )
        instead = _INSTEAD.get(name.removeprefix("Try"), _KNOWN)
        times = (exp.CurrentTimestamp, exp.CurrentDate, exp.Interval)
        if isinstance(node, (exp.Add, exp.Sub)) and node.find(*times):
            instead = _INSTEAD["Interval"]
        elif name.endswith("Cast") and node.this.is_number and "(" not in piece:
            instead = f"write a number without letters, or with an exponent, as {node.this.sql()}"
        elif isinstance(node, (exp.Bracket, exp.Array)):
            instead = "fields are named with a dot, as value.country, and elements not at all"
        elif isinstance(node, (exp.Placeholder, exp.Parameter, exp.Struct)):
            instead = "nothing is put in here: write the value itself"
        elif isinstance(node, (exp.RawString, exp.National, exp.HexString)):
            instead = "write a string as 'DE', bytes as X'00ff'"
        return Refused(f"{piece} is not known here: {instead}", node)


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
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_column(node: Any) -> bool:
    return isinstance(_bare(node), (exp.Column, exp.Dot))


def _number(text: str) -> int | float | Decimal:
    """As Spark reads it, with the bounds of its literals."""
    if re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text):
        if len(text.replace(".", "")) > DIGITS:
            raise Refused(f"Spark has no number with more than {DIGITS} digits")
        return Decimal(text) if "." in text else int(text)
    if re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+", text):
        if math.isinf(float(text)):
            raise Refused(f"Spark has no number as large as {text}")
        return float(text)
    raise Refused(
        f"{text} is a number of a kind that is not known here: write it as 5, 1.5 or 1.5e3"
    )


def _dated(piece: Callable[[], str], kind: str, text: str) -> Value:
    """date'...' and the like. `piece` is what the user has written."""
    found: date | None = None
    if kind == "DATE":
        found = read_date(text)
        if found is not None:
            return found
        raise Refused(f"{piece()} is no date here: write it as date'2026-01-31'")
    found = read_timestamp(text)
    zoned = found is not None and found.tzinfo is not None
    if kind == "TIMESTAMPTZ" or (kind == "TIMESTAMP" and (zoned or found is None)):
        if found is None:
            raise Refused(f"{piece()} is no time here: write it as timestamp'2026-01-31 12:00:00Z'")
        if zoned:
            return found
    if kind in ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME") and found is not None and not zoned:
        return found
    if kind == "TIMESTAMPTZ":
        raise Refused(
            f"{piece()} would be in the session's zone, which is not known where rows are read:"
            f" write it with its zone, as timestamp'{text}Z'"
        )
    raise Refused(f"{piece()} is not known here: write it as timestamp_ntz'2026-01-31 12:00:00'")
