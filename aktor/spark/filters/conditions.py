"""Conditions on columns, evaluated on Arrow arrays by SQL's rules, as Spark's own filters are.

A condition is true, false or null for each row, and a filter keeps the rows for which it is true.
Where Spark and Arrow differ, it is Spark's rule: NaN equals NaN and is above all other numbers.
Conditions are plain data: the driver makes them (`where`, `pushed_filters`), tasks evaluate them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from aktor.spark.filters import strings

__all__ = [
    "All",
    "Any_",
    "Around",
    "Column",
    "Compare",
    "Condition",
    "Constant",
    "Expression",
    "Fixed",
    "IsNull",
    "Matches",
    "Not",
    "OneOf",
    "Pair",
    "Same",
    "True_",
    "columns_of",
    "parts_of",
]

#: Gives the array of a column by its name.
Arrays: TypeAlias = Callable[[str], pa.Array]


class Condition(Protocol):
    """Something that is true, false or null in each row."""

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        """One value for each row."""

    def columns(self) -> Iterator[Column]:
        """The columns that it looks at."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside of one: its name, and the places of the fields."""

    name: str
    places: tuple[int, ...]
    kind: pa.DataType

    def of(self, arrays: Arrays) -> pa.Array:
        """The values. A field of a struct that is null is null."""
        import pyarrow.compute as compute

        found = arrays(self.name)
        return compute.struct_field(found, self.places) if self.places else found


@dataclass(frozen=True, slots=True)
class Compare:
    """A column beside a value that is not null, both of one type (floats: any, but not NaN).
    `sign`: = < <= > >=."""

    column: Column
    sign: str
    value: Any
    #: The column is cast to this type before.
    cast: pa.DataType | None = None

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        found = self.column.of(arrays)
        if self.cast is not None:
            found = found.cast(self.cast, safe=False)
        result = _SIGNS[self.sign](compute)(found, pa.scalar(self.value, found.type))
        if self.sign in (">", ">=") and pa.types.is_floating(found.type):
            result = compute.or_(result, compute.is_nan(found))
        return result

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of one type. `sign`: = < <= > >=."""

    left: Column
    sign: str
    right: Column
    #: Both are cast to this type before.
    cast: pa.DataType | None = None

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        left, right = self.left.of(arrays), self.right.of(arrays)
        if self.cast is not None:
            left, right = left.cast(self.cast), right.cast(self.cast)
        sign = self.sign
        if sign in ("<", "<="):
            left, right, sign = right, left, sign.replace("<", ">")
        result = _SIGNS[sign](compute)(left, right)
        if not pa.types.is_floating(left.type):
            return result
        high, other = compute.is_nan(left), compute.is_nan(right)
        if sign == ">":
            high = compute.and_not(high, other)
        elif sign == "=":
            high = compute.and_(high, other)
        return compute.or_(result, high)

    def columns(self) -> Iterator[Column]:
        yield from (self.left, self.right)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column is one of these values, of its type and none of them null or NaN."""

    column: Column
    values: tuple[Any, ...]

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        found = self.column.of(arrays)
        result = compute.is_in(found, value_set=pa.array(self.values, found.type))
        return compute.if_else(compute.is_valid(found), result, pa.scalar(None, pa.bool_()))

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Matches:
    """A string begins or ends with a text, or has it inside, by its bytes. `how`: starts_with,
    ends_with, match_substring."""

    column: Column
    how: str
    pattern: str

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        found: pa.BooleanArray = getattr(compute, self.how)(self.column.of(arrays), self.pattern)
        return found

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Expression:
    """A string matches a regular expression of RE2."""

    column: Column
    pattern: str

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        found = strings.readable(self.column.of(arrays))
        result: pa.BooleanArray = compute.match_substring_regex(found, self.pattern)
        return result

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Around:
    """A string begins with a text and ends with another one, which do not overlap: LIKE 'a%b'.

    Spark's optimizer makes the comparisons of bytes and of lengths of it that are made here. For
    strings that are no UTF-8 they differ from LIKE itself.
    """

    column: Column
    start: str
    end: str

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        found = self.column.of(arrays)
        ends = (compute.starts_with(found, self.start), compute.ends_with(found, self.end))
        least = len(self.start) + len(self.end)
        long_enough = compute.greater_equal(strings.lengths(found), least)
        return compute.and_(long_enough, compute.and_(*ends))

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class True_:
    """A column of booleans."""

    column: Column

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        return self.column.of(arrays)

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same for all values of a column, and null where it is null."""

    column: Column
    value: bool

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        valid = compute.is_valid(self.column.of(arrays))
        return compute.if_else(valid, pa.scalar(self.value), pa.scalar(None, pa.bool_()))

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Constant:
    """The same in each row. `counted` is a column of which nothing but the length is used."""

    counted: Column
    value: bool

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        return pa.repeat(pa.scalar(self.value), len(self.counted.of(arrays)))

    def columns(self) -> Iterator[Column]:
        yield self.counted


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: Column

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        return self.column.of(arrays).is_null()

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Same:
    """`<=>`: as `=`, but two nulls are equal, and one null is not equal: it is never null."""

    equal: Condition
    both: tuple[Column, ...] = ()

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        result = compute.fill_null(self.equal.of(arrays), False)
        if not self.both:
            return result
        left, right = (column.of(arrays).is_null() for column in self.both)
        return compute.or_(result, compute.and_(left, right))

    def columns(self) -> Iterator[Column]:
        yield from self.equal.columns()


@dataclass(frozen=True, slots=True)
class Not:
    """True where the other is false."""

    one: Condition

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        return compute.invert(self.one.of(arrays))

    def columns(self) -> Iterator[Column]:
        yield from self.one.columns()


@dataclass(frozen=True, slots=True)
class All:
    """True if all are, false if one is false."""

    parts: tuple[Condition, ...]

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        return _joined(compute.and_kleene, (part.of(arrays) for part in self.parts))

    def columns(self) -> Iterator[Column]:
        return _all_columns(self.parts)


@dataclass(frozen=True, slots=True)
class Any_:
    """True if one is, false if all are false."""

    parts: tuple[Condition, ...]

    def of(self, arrays: Arrays) -> pa.BooleanArray:
        import pyarrow.compute as compute

        return _joined(compute.or_kleene, (part.of(arrays) for part in self.parts))

    def columns(self) -> Iterator[Column]:
        return _all_columns(self.parts)


_SIGNS: Final[dict[str, Callable[[Any], Callable[[Any, Any], pa.BooleanArray]]]] = {
    "=": operator.attrgetter("equal"),
    "<": operator.attrgetter("less"),
    "<=": operator.attrgetter("less_equal"),
    ">": operator.attrgetter("greater"),
    ">=": operator.attrgetter("greater_equal"),
}


def _joined(join: Callable[[Any, Any], Any], results: Iterable[pa.BooleanArray]) -> pa.BooleanArray:
    found = None
    for result in results:
        found = result if found is None else join(found, result)
    return found


def _all_columns(parts: Sequence[Condition]) -> Iterator[Column]:
    for part in parts:
        yield from part.columns()


def columns_of(condition: Condition) -> set[str]:
    """The names of the columns that it looks at."""
    return {column.name for column in condition.columns()}


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """Those that must all be true for it to be true."""
    if isinstance(condition, All):
        return tuple(part for one in condition.parts for part in parts_of(one))
    return (condition,)


def like(column: Column, pattern: str, escape: str) -> Condition:
    """SQL's LIKE: `%` is any text, `_` one character. ValueError: the escape character stands
    before anything but these and itself, or the pattern has U+FFFD, for which Spark takes some
    bytes that are no UTF-8, or takes none, as the rest of the pattern is."""
    if strings.REPLACEMENT in pattern:
        raise ValueError("U+FFFD, which stands for bytes that are no UTF-8, is not known in like")
    tokens: list[tuple[str, str]] = []
    rest = iter(pattern)
    for letter in rest:
        if letter == escape:
            letter = next(rest, "")
            if letter not in ("%", "_", escape) or not letter:
                raise ValueError(f"{escape!r} must stand before %, _ or itself")
            tokens.append(("text", letter))
        else:
            tokens.append((letter if letter in "%_" else "text", letter))
    text = "".join(letter for kind, letter in tokens if kind == "text")
    kinds = re.sub("(text)+", "text", "".join(kind for kind, _ in tokens))
    if kinds in _SIMPLE:
        return Matches(column, _SIMPLE[kinds], text)
    if kinds in ("text", ""):
        return Compare(column, "=", text)
    special = {"%": ".*", "_": "."}
    if kinds == "text%text" and not (escape and escape in pattern):
        start, _, end = pattern.partition("%")
        return Around(column, start, end)
    made = "".join(special.get(kind) or re.escape(letter) for kind, letter in tokens)
    return Expression(column, rf"(?s)\A{made}\z")


_SIMPLE: Final = {
    "text%": "starts_with",
    "%text": "ends_with",
    "%text%": "match_substring",
}
