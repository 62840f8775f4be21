"""JSON values into a struct: `decode=json` against Spark's own `from_json`, both on our source; and
whole pipelines, in which the other side has Spark's own source, too.

Each query reads all records and writes them nowhere (`noop`). The row `raw` has the values as
bytes: the time to read them and to give them to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from benchmarks.site import Site
from benchmarks.spark import TUNED, recommended_session, timed
from benchmarks.spark_pipelines import Filter, compared
from benchmarks.tables import Table, ratio, spread
from tests.spark.session import what_is_missing

#: After two rounds that are not counted: the JVM compiles `from_json` late.
ROUNDS: Final = 3
UNCOUNTED: Final = 2
RECORDS: Final = 1_000_000

#: Filtered and grouped: a second of start-up matters less, the more there are. With 5 M
#: this and spark_avro would take a quarter of an hour on two quiet cores, half of it with these.
PIPELINE_RECORDS: Final = 2_000_000
OWN: Final = "Spark's own, tuned"

FIELDS: Final = "id bigint, customer string, amount double, paid boolean, note string"
_DECODED: Final = f"value struct<{FIELDS}>"

#: Which values: all good, and one of 10,000 that is none.
BAD_ONES: Final = (None, 10_000)


def tables(site: Site) -> Iterator[Table]:
    """Rows per second of each way to read the values, one after the other."""
    if missing := what_is_missing():
        yield Table(title=f"spark_json: not measured, since {missing}", columns=["-"], rows=[])
        return
    with recommended_session() as spark:
        for one in BAD_ONES:
            yield _compared(site, spark, one)
        yield _pipelines(site, spark)


def _compared(site: Site, spark: Any, bad: int | None) -> Table:
    count = site.scaled(RECORDS)
    topic = site.new_topic(4)
    site.fill(topic, _values(count, bad))
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(1 if site.quick else UNCOUNTED + ROUNDS):
        for name, frame in _ways(site, spark, topic).items():
            write = frame.write.format("noop").mode("overwrite")
            took, cpu = timed(spark, write.save)
            if number >= UNCOUNTED or site.quick:
                found.setdefault(name, []).append((count / took / 1e6, cpu / count * 1e6))
    rates = {name: [rate for rate, _ in some] for name, some in found.items()}
    rows = [
        [
            name,
            spread(rates[name], 2),
            f"{ratio(rates[name], rates['from_json']):.2f}",
            f"{median(cpu for _, cpu in some):.2f}",
        ]
        for name, some in found.items()
    ]
    kind = "all good" if bad is None else f"one of {bad:,} is bad"
    return Table(
        title=f"spark_json: {count:,} values of five fields, {kind}, 4 partitions",
        columns=["query", "M rows/s", "x from_json", "CPU s per M"],
        rows=rows,
    )


def _ways(site: Site, spark: Any, topic: str) -> dict[str, Any]:
    def source(**options: str) -> Any:
        return spark.read.format("aktor").options(
            **{"kafka.bootstrap.servers": ",".join(site.bootstrap), "subscribe": topic},
            startingOffsets="earliest",
            **options,
        )

    return {
        "raw": source(columns="value").load(),
        "decode=json": source(decode="json").schema(_DECODED).load(),
        "decode=json, with valueError and rawValue": source(decode="json")
        .schema(f"{_DECODED}, valueError string, rawValue binary")
        .load(),
        "from_json": source(columns="value")
        .load()
        .selectExpr(f"from_json(cast(value as string), '{FIELDS}') as value"),
    }


#: Rows that a pipeline keeps, and the least by which its CPU is to fall.
_FILTERS: Final = (
    Filter("all", None, 3.0),
    Filter("1 %: amount >= 990", "value.amount >= 990", 5.0),
    Filter("1 %: customer like 'c12%'", "value.customer like 'c12%'", 5.0),
    Filter("all, to Parquet", None, 2.0, parquet=True),
)


def _pipelines(site: Site, spark: Any) -> Table:
    """JSON of which some rows are grouped: the whole way, against Spark's own source, tuned."""
    count = site.scaled(PIPELINE_RECORDS)
    topic = site.new_topic(4)
    site.fill(topic, _values(count, None))
    given = {"kafka.bootstrap.servers": ",".join(site.bootstrap), "subscribe": topic}
    given["startingOffsets"] = "earliest"

    def ours(**options: str) -> Any:
        read = spark.read.format("aktor").options(**given, decode="json", **options)
        return read.schema(_DECODED).load()

    def needed() -> Any:
        read = spark.read.format("aktor").options(**given, decode="json")
        return read.schema("value struct<amount: double, paid: boolean>").load()

    def own() -> Any:
        read = spark.read.format("kafka").options(**given | TUNED).load()
        return read.selectExpr(f"from_json(cast(value as string), '{FIELDS}') as value")

    title = f"spark_json: {count:,} values"
    return compared(
        *(site, spark, ours, own),
        needed=needed,
        name=OWN,
        title=title,
        count=count,
        filters=_FILTERS,
    )


def _values(count: int, bad: int | None) -> Iterator[bytes]:
    for number in range(count):
        if bad is not None and number % bad == bad // 2:
            yield b"nonsense"
            continue
        yield json.dumps(
            {
                "id": number,
                "customer": f"c{number * 7919 % 10007}",
                "amount": number * 2654435761 % 100_000 / 100,
                "paid": number % 2 == 0,
                "note": f"{number * 2654435761 % 2**32:08x}" * 3,
            }
        ).encode()
