"""The filters of a batch query that Spark hands to the source, as conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import datasource as spark
from pyspark.sql.types import DataType

from aktor.errors import ConfigurationError
from aktor.spark.filters import comparisons
from aktor.spark.filters.conditions import Condition, IsNull, Not, columns_of
from aktor.spark.filters.names import Columns, Named

__all__ = ["read_filters"]

#: The columns on which Spark need not filter again: these are never null, and compared as numbers
#: and bytes.
_EXACT: Final = {"topic", "partition", "offset"}


def read_filters(
    filters: Sequence[spark.Filter], kinds: Mapping[str, DataType]
) -> tuple[list[Condition], list[spark.Filter]]:
    """The conditions that stand for these filters, as far as they are known here; and the filters
    that Spark has to apply all the same."""
    columns = Columns(kinds)
    found: list[Condition] = []
    left = []
    for one in filters:
        try:
            condition = _condition(one, columns)
        except ConfigurationError:
            left.append(one)
            continue
        found.append(condition)
        if not columns_of(condition) <= _EXACT:
            left.append(one)
    return found, left


def _condition(one: spark.Filter, columns: Columns) -> Condition:
    if isinstance(one, spark.Not):
        return Not(_condition(one.child, columns))
    named = columns.find(one.attribute)  # type: ignore[attr-defined]
    if isinstance(one, spark.IsNull):
        return IsNull(named.column)
    if isinstance(one, spark.IsNotNull):
        return Not(IsNull(named.column))
    make = _MADE.get(type(one))
    if make is None:
        raise ConfigurationError(f"{one} is not known")
    return make(named, one.value)  # type: ignore[attr-defined]


def _by(sign: str) -> Callable[[Named, Any], Condition]:
    return lambda named, value: comparisons.compared(named, sign, value)


def _text(how: str) -> Callable[[Named, Any], Condition]:
    return lambda named, value: comparisons.matches(named, how, value)


_MADE: Final[dict[type[spark.Filter], Callable[[Named, Any], Condition]]] = {
    spark.EqualTo: _by("="),
    spark.EqualNullSafe: _by("<=>"),
    spark.GreaterThan: _by(">"),
    spark.GreaterThanOrEqual: _by(">="),
    spark.LessThan: _by("<"),
    spark.LessThanOrEqual: _by("<="),
    spark.In: comparisons.one_of,
    spark.StringStartsWith: _text("starts_with"),
    spark.StringEndsWith: _text("ends_with"),
    spark.StringContains: _text("match_substring"),
}
