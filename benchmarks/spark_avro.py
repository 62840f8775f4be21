"""Avro values, filtered and grouped: `decode=avro` against Spark's own source, tuned, and its
`from_avro`. Both read the whole topic.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from benchmarks.site import Site
from benchmarks.spark import TUNED, recommended_session, timed
from benchmarks.tables import Table, at_least, ratio, spread
from tests.spark.session import connector, what_is_missing

#: After two rounds that are not counted: the JVM compiles `from_avro` late.
ROUNDS: Final = 3
UNCOUNTED: Final = 2
RECORDS: Final = 5_000_000
OWN: Final = "Spark's own, tuned, from_avro"

SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "paid", "type": ["null", "boolean"]},
            {"name": "note", "type": "string"},
        ],
    }
)

#: Rows that a pipeline keeps, and the least by which its CPU is to fall.
_FILTERS: Final = (("all", None, 2.5), ("1 %: amount >= 990", "value.amount >= 990", 2.5))


def tables(site: Site) -> list[Table]:
    """Processor time of each way, one after the other."""
    missing = what_is_missing() or (None if connector() else "there is no connector of Spark's")
    if missing:
        return [Table(title=f"spark_avro: not measured, since {missing}", columns=["-"], rows=[])]
    with recommended_session() as spark:
        return [_pipelines(site, spark)]


def _pipelines(site: Site, spark: Any) -> Table:
    count = site.scaled(RECORDS)
    topic = site.new_topic(4)
    site.fill(topic, _values(count))
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    results: dict[str, set[Any]] = {}
    for number in range(1 if site.quick else UNCOUNTED + ROUNDS):
        for name, condition, _ in _FILTERS:
            for way, frame in _ways(site, spark, topic, condition).items():
                grouped = frame.groupBy("value.paid").agg({"value.amount": "sum", "*": "count"})
                rows: list[Any] = []
                measured = timed(spark, lambda g=grouped, r=rows: r.extend(g.collect()))
                results.setdefault(name, set()).add(
                    tuple(sorted((str(row[0]), *map(round, row[1:])) for row in rows))
                )
                if number >= UNCOUNTED or site.quick:
                    found.setdefault((name, way), []).append(measured)
    assert all(len(some) == 1 for some in results.values()), "the ways have different rows"
    return Table(
        title=f"spark_avro: {count:,} values of five fields, filtered and grouped, 4 partitions",
        columns=["rows kept, source", "M rows/s", "CPU s per M", "own: x CPU", "target"],
        rows=list(_rows(found, count)),
    )


def _ways(site: Site, spark: Any, topic: str, condition: str | None) -> dict[str, Any]:
    from pyspark.sql.avro.functions import from_avro

    given = {"kafka.bootstrap.servers": ",".join(site.bootstrap), "subscribe": topic}
    given["startingOffsets"] = "earliest"

    def ours(**options: str) -> Any:
        read = spark.read.format("aktor").options(**given, decode="avro", avroSchema=SCHEMA)
        return read.options(**{"columns": "value"} | options).load()

    own = spark.read.format("kafka").options(**given | TUNED).load()
    own = own.select(from_avro("value", SCHEMA, {"mode": "PERMISSIVE"}).alias("value"))
    if condition is None:
        return {"aktor": ours(), OWN: own}
    return {
        "aktor": ours().where(condition),
        "aktor, where=": ours(where=condition),
        OWN: own.where(condition),
    }


def _rows(
    found: dict[tuple[str, str], list[tuple[float, float]]], count: int
) -> Iterator[list[str]]:
    for name, condition, least in _FILTERS:
        own = [cpu for _, cpu in found[name, OWN]]
        for way in ("aktor", "aktor, where=", OWN):
            some = found.get((name, way))
            if some is None:
                continue
            gain = ratio(own, [cpu for _, cpu in some])
            is_ours = way == ("aktor" if condition is None else "aktor, where=")
            yield [
                f"{name}, {way}",
                spread([count / took / 1e6 for took, _ in some], 2),
                f"{median(cpu for _, cpu in some) / count * 1e6:.2f}",
                f"{gain:.2f}",
                at_least(round(gain, 2), least, " x CPU") if is_ours else "",
            ]


def _values(count: int) -> Iterator[bytes]:
    import fastavro

    schema = fastavro.parse_schema(json.loads(SCHEMA))
    for number in range(count):
        to = io.BytesIO()
        fastavro.schemaless_writer(
            to,
            schema,
            {
                "id": number,
                "customer": f"c{number * 7919 % 10007}",
                "amount": number * 2654435761 % 100_000 / 100,
                "paid": None if number % 10 == 0 else number % 2 == 0,
                "note": f"{number * 2654435761 % 2**32:08x}" * 3,
            },
        )
        yield to.getvalue()
