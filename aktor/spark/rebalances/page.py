"""The page of pictures, of tables that Spark has made: what `aktor why --html` draws.

The driver cannot hold the rows of terabytes of traces. So the page has the groups that spent most
time in rebalances and silences, and of a large table only what the pictures show of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from aktor.spark.rebalances.tables import rows_of
from aktor.trace.pictures import Pictures, check, draw, more_groups
from aktor.trace.pictures.groups import GROUPS, WATERFALLS, GroupPictures
from aktor.trace.pictures.times import PART
from aktor.trace.rebalances.lines import ALONE
from aktor.trace.rebalances.rows import Row
from aktor.trace.rebalances.tables import TABLES, Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from aktor.spark.rebalances.job import Tables as SparkTables

__all__ = ["drawn", "pictures_of"]

#: A table of more rows is large, and only so many of it are drawn.
MOST: Final = 50_000

#: Of these, if they are large, the longest are drawn.
_LONGEST: Final = ("rebalances", "silences")

#: Of these, if they are large, what was under way at the time of the longest rebalances.
_NEAR: Final = ("parts", "spans", "downtimes", "owned_partitions")


def pictures_of(tables: SparkTables) -> Pictures:
    """The pictures of these tables. Raises MissingError (a ModuleNotFoundError) without the extra
    `pictures`."""
    check()
    rows, notes = drawn(tables)
    return draw(rows, notes=notes)


def drawn(tables: SparkTables, most: int = MOST) -> tuple[Tables, list[str]]:
    """The rows that are drawn, and what a page of them says of the rest."""
    group = _group(TABLES)
    chosen = _worst(tables.rows, group)
    others = tables.rows.where(group.isNotNull() & ~group.isin(ALONE, *chosen))
    left_out = others.select(group).distinct().count()
    notes = [more_groups(left_out)] if left_out else []
    rows = tables.rows.where(group.isin(chosen))
    names = (*_LONGEST, *_NEAR)
    (counts,) = rows.agg(*(F.count(name).alias(name) for name in names)).collect()
    large = [name for name in names if counts[name] > most]
    found = list(_collected(rows, [name for name in names if name not in large]))
    for name in large:
        began, ended = _span(name)
        frame = rows.where(F.col(name).isNotNull())
        if name in _LONGEST:
            notes.append(f"Of {counts[name]:,} {name} the longest {most:,} are drawn.")
        else:
            frame = frame.where(_is_near(name, found, chosen))
        found += _collected(frame.orderBy(F.desc(ended - began)).limit(most), [name])
    return Tables(found), notes


def _group(names: Iterable[str]) -> Column:
    """The group of a row of one of these tables; null of others."""
    return F.coalesce(*(F.col(f"{name}.group") for name in names))


def _worst(rows: DataFrame, group: Column) -> list[str]:
    """The groups that are drawn: those that spent most time in rebalances and silences."""
    spent = F.coalesce("rebalances.duration_ms", "silences.duration_ms", F.lit(0.0))
    worst = rows.where(_group(("rebalances", "silences", "spans")).isNotNull())
    worst = worst.groupBy(group.alias("group")).agg(F.sum(spent).alias("spent"))
    return [row["group"] for row in worst.orderBy(F.desc("spent"), "group").limit(GROUPS).collect()]


def _span(table: str) -> tuple[Column, Column]:
    """When a row of it begins and ends, in seconds since 1970. (What goes on does not end.)"""
    row = F.col(table)
    if table == "downtimes":
        began = F.coalesce(row["last_delivered"], row["assigned"])
        ended = F.coalesce(row["first_delivered"], row["assigned"])
    elif table == "owned_partitions":
        began, ended = row["assigned"], row["released"]
    else:
        began, ended = row["began"], row["ended"]
    return began.cast("double"), F.coalesce(ended.cast("double"), F.lit(math.inf))


def _collected(rows: DataFrame, names: Sequence[str]) -> Iterator[Row]:
    if not names:
        return
    found = rows.where(_group(names).isNotNull()).select(*names).toArrow()
    for name in names:
        yield from rows_of(name, found.column(name))


def _is_near(table: str, found: Sequence[Row], groups: Sequence[str]) -> Column:
    """Whether a row of the table is of the time of one of the rebalances that are drawn step by
    step (if its group has none: of one of its longest silences)."""
    began, ended = _span(table)
    conditions = []
    for group in groups:
        of_group = GroupPictures(Tables(found), group)
        silences = sorted(of_group.silences, key=lambda row: -(row.duration_ms or 0.0))
        worst: list[Any] = of_group.worst or silences[:WATERFALLS]
        for row in worst:
            length = (row.duration_ms or 0.0) / 1000
            middle, half = row.began + length / 2, max(PART, 1.5 * length) / 2
            is_then = (began <= middle + half) & (ended >= middle - half)
            conditions.append((F.col(f"{table}.group") == group) & is_then)
    return reduce(or_, conditions, F.expr("false"))
