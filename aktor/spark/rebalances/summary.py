"""What the page shows of the tables: sums and the worst, so that it stays small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BUCKETS", "DECADES", "Summary", "summarise"]

#: How many parts the time is divided in.
BUCKETS: Final = 60

#: Durations are counted by these bounds, in milliseconds.
DECADES: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)

#: How many of the worst are listed.
WORST: Final = 15

Records = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All that the page shows."""

    counts: Mapping[str, int]
    totals: Mapping[str, Any]
    #: When the first rebalance began, and how many seconds a bucket has.
    began: float
    bucket_s: float
    #: (bucket, trigger, rebalances)
    over_time: list[tuple[int, str, int]]
    #: How many rebalances and downtimes there were up to each bound of `DECADES`, and beyond.
    durations: list[int]
    downtimes: list[int]
    #: The mean of the longest time in each phase, by protocol.
    phases: Records
    longest: Records
    needless: Records
    members: Records
    storms: Records
    refused: Records
    resets: Records


def summarise(tables: Mapping[str, DataFrame]) -> Summary:
    """Ask the tables for it."""
    rebalances, downtimes = tables["rebalances"], tables["downtimes"]
    (totals,) = _records(
        rebalances.agg(
            F.count("*").alias("rebalances"),
            F.countDistinct("group").alias("groups"),
            F.sum("moved").alias("moved"),
            F.sum("moved_needlessly").alias("needlessly"),
            F.sum(F.when(F.col("trigger") == "unknown", 1)).alias("unexplained"),
            F.min(F.col("began").cast("double")).alias("began"),
            F.max(F.col("ended").cast("double")).alias("ended"),
            F.max("longest_downtime_ms").alias("downtime"),
        )
    )
    began = totals["began"] or 0.0
    bucket = max(((totals["ended"] or began) - began) / BUCKETS, 1.0)
    at = F.least(((F.col("began").cast("double") - began) / bucket).cast("int"), F.lit(BUCKETS - 1))
    over_time = rebalances.groupBy(at.alias("at"), "trigger").count().orderBy("at", "trigger")
    by_reason = F.regexp_extract("because", "^[A-Za-z]+", 0).alias("error")
    return Summary(
        counts={row["what"]: row["lines"] for row in tables["counts"].collect()},
        totals=totals,
        began=began,
        bucket_s=bucket,
        over_time=[(row["at"], row["trigger"], row["count"]) for row in over_time.collect()],
        durations=_histogram(rebalances, "duration_ms"),
        downtimes=_histogram(downtimes.where("downtime_ms IS NOT NULL"), "downtime_ms"),
        phases=_phases(rebalances),
        longest=_worst(rebalances, "duration_ms"),
        needless=_worst(rebalances.where("moved_needlessly > 0"), "moved_needlessly"),
        members=_worst(tables["members"], "rebalancing_ms"),
        storms=_worst(tables["storms"], "generations"),
        refused=_most(tables["refused_commits"].groupBy("group", by_reason, "kind")),
        resets=_most(tables["resets"].groupBy("group", "because", "strategy")),
    )


def _records(frame: DataFrame) -> Records:
    return [row.asDict() for row in frame.collect()]


def _worst(frame: DataFrame, by: str) -> Records:
    return _records(frame.orderBy(F.desc(by), "group").limit(WORST))


def _most(groups: Any) -> Records:
    return _records(groups.count().orderBy(F.desc("count"), "group").limit(WORST))


def _histogram(frame: DataFrame, column: str) -> list[int]:
    decade = F.lit(len(DECADES))
    for number, bound in reversed(list(enumerate(DECADES))):
        decade = F.when(F.col(column) <= bound, number).otherwise(decade)
    found = {
        row["decade"]: row["count"]
        for row in frame.groupBy(decade.alias("decade")).count().collect()
    }
    return [found.get(number, 0) for number in range(len(DECADES) + 1)]


def _phases(rebalances: DataFrame) -> Records:
    columns = [
        column
        for column in rebalances.columns
        if column.endswith("_ms") and column != "duration_ms"
    ]
    columns.remove("longest_downtime_ms")
    return _records(
        rebalances.groupBy("protocol")
        .agg(
            F.count("*").alias("rebalances"), *(F.mean(column).alias(column) for column in columns)
        )
        .orderBy("protocol")
    )
