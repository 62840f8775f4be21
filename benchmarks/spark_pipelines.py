"""Pipelines that filter values and group them, or write Parquet: aktor against Spark's own source,
tuned. Both read the whole topic.

The ways take turns, and each round begins with another one: a pipeline is slower after some than
after others, and a machine is slower at some times than at others. A gain is told as that of each
round, in which the ways stood side by side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.site import Site
from benchmarks.spark import timed
from benchmarks.tables import Table, at_least, spread

__all__ = ["Filter", "compared"]

#: Rounds that are counted, after one that is not: the JVM compiles its decoders late.
_COUNTED: Final = 5
_UNCOUNTED: Final = 1


class Filter(NamedTuple):
    """What a pipeline keeps; the condition, None for all; the least by which its CPU is to fall;
    and whether it writes Parquet, instead of a sum for each group."""

    kept: str
    condition: str | None
    least: float
    parquet: bool = False


#: Spark does not tell a source in Python which fields a query needs: the schema says it.
_NEEDED: Final = "aktor, the two fields"

#: Seconds and CPU seconds of each round, by filter and way.
_Found: TypeAlias = dict[tuple[str, str], list[tuple[float, float]]]


def compared(
    site: Site,
    spark: Any,
    ours: Callable[..., Any],
    own: Callable[[], Any],
    *,
    needed: Callable[[], Any],
    name: str,
    title: str,
    count: int,
    filters: Sequence[Filter],
) -> Table:
    """Processor time of each way, one after the other. `ours` and `own` give a frame with a column
    `value` that has the fields `paid` and `amount`, of which there are five; `needed` has these two
    only. `name` is that of Spark's own way."""
    found: _Found = {}
    results: dict[str, set[Any]] = {}
    rounds = 1 if site.quick else _COUNTED
    for number in range(1 if site.quick else _UNCOUNTED + _COUNTED):
        for kept, condition, _, parquet in filters:
            frames = {"aktor": ours(), name: own()}
            if condition is not None:
                frames = {way: frame.where(condition) for way, frame in frames.items()}
                frames["aktor, where="] = ours(where=condition)
            elif not parquet:
                frames[_NEEDED] = needed()
            for way, frame in _turned(frames, number):
                if parquet:
                    measured = timed(spark, lambda f=frame: _write(f))
                else:
                    rows: list[Any] = []
                    measured = timed(spark, lambda f=frame, r=rows: r.extend(_sums(f)))
                    results.setdefault(kept, set()).add(
                        tuple(sorted((str(row[0]), *map(round, row[1:])) for row in rows))
                    )
                if number >= _UNCOUNTED or site.quick:
                    found.setdefault((kept, way), []).append(measured)
                    site.say(f"{kept}, {way}: {measured[0]:.1f} s, {measured[1]:.1f} CPU s")
    assert all(len(some) == 1 for some in results.values()), "the ways have different rows"
    return Table(
        title=f"{title}, filtered and grouped, 4 partitions",
        columns=["rows kept, source", "M rows/s", "x faster", "CPU s per M", "x CPU", "target"],
        rows=list(_rows(found, count, filters, name)),
        notes=[f"rounds by turns: {rounds}; medians (least-greatest); x: of the ways in one round"],
    )


def _turned(frames: dict[str, Any], number: int) -> list[tuple[str, Any]]:
    """All of them, and another one first in each round."""
    ways = list(frames.items())
    first = number % len(ways)
    return [*ways[first:], *ways[:first]]


def _sums(frame: Any) -> list[Any]:
    grouped = frame.groupBy("value.paid").agg({"value.amount": "sum", "*": "count"})
    found: list[Any] = grouped.collect()
    return found


def _write(frame: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        frame.select("value.*").write.parquet(f"{folder}/data")


def _rows(found: _Found, count: int, filters: Sequence[Filter], name: str) -> Iterator[list[str]]:
    for kept, _, least, _ in filters:
        own = found[kept, name]
        for way in ("aktor", _NEEDED, "aktor, where=", name):
            some = found.get((kept, way))
            if some is None:
                continue
            pairs = list(zip(own, some, strict=True))
            faster = [theirs[0] / ours[0] for theirs, ours in pairs]
            gains = [theirs[1] / ours[1] for theirs, ours in pairs]
            is_ours = way == next(
                one for one in ("aktor, where=", _NEEDED, "aktor") if (kept, one) in found
            )
            yield [
                f"{kept}, {way}",
                spread([count / took / 1e6 for took, _ in some], 2),
                spread(faster, 2),
                spread([cpu / count * 1e6 for _, cpu in some], 2),
                spread(gains, 2),
                at_least(round(median(gains), 2), least, " x CPU") if is_ours else "",
            ]
