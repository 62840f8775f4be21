"""Spark into Kafka: our sink against Spark's own, with its defaults and with our sizes of batches.

Rows come from `spark.range`; what it costs to make them is the row `noop`. CPU seconds are those of
the driver's JVM and of all Python workers, without the broker.
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from benchmarks.site import Site
from benchmarks.spark import recommended_session, timed
from benchmarks.tables import Table, ratio, spread
from tests.spark.session import what_is_missing

#: After a first round that is not counted.
ROUNDS: Final = 4
ROWS: Final = 2_000_000
#: kafka-python is slower by a factor of ten.
FEW: Final = 200_000

#: The defaults of our sink; Java's are 0 ms and 16 kB.
OUR_BATCHES: Final = {"kafka.linger.ms": "5", "kafka.batch.size": "262144"}
LZ4: Final = {"kafka.compression.type": "lz4"}

#: Name, format, rows, options.
SINKS: Final[tuple[tuple[str, str, int, dict[str, str]], ...]] = (
    ("noop", "noop", ROWS, {}),
    ("Spark's own", "kafka", ROWS, {}),
    ("Spark's own, larger batches", "kafka", ROWS, OUR_BATCHES),
    ("Spark's own, larger batches, lz4", "kafka", ROWS, OUR_BATCHES | LZ4),
    ("aktor, confluent-kafka", "aktor", ROWS, {"producer": "confluent"}),
    ("aktor, confluent-kafka, lz4", "aktor", ROWS, {"producer": "confluent"} | LZ4),
    (
        "aktor, confluent-kafka, transactional",
        "aktor",
        ROWS,
        {"producer": "confluent", "transactional": "true"},
    ),
    ("aktor, kafka-python", "aktor", FEW, {"producer": "kafka-python"}),
)


def tables(site: Site) -> list[Table]:
    """Rows per second and CPU of each sink, one after the other."""
    if missing := what_is_missing():
        return [Table(title=f"spark_sink: not measured, since {missing}", columns=["-"], rows=[])]
    found: dict[str, list[tuple[float, float]]] = {}
    with recommended_session() as spark:
        for number in range(1 if site.quick else 1 + ROUNDS):
            for name, kind, rows, options in SINKS:
                count = site.scaled(rows)
                took, cpu = _one_write(site, spark, kind, count, options)
                if number or site.quick:
                    found.setdefault(name, []).append((count / took, cpu / count * 1e6))
    own = [rate for rate, _ in found["Spark's own"]]
    lines = []
    for name, some in found.items():
        rates = [rate for rate, _ in some]
        versus = "" if name == "noop" else f"{ratio(rates, own):.2f}"
        lines.append([name, spread(rates, 0), versus, f"{median(cpu for _, cpu in some):.2f}"])
    return [
        Table(
            title=f"spark_sink: {site.scaled(ROWS):,} rows of 100 bytes, 2 tasks, 4 partitions",
            columns=["sink", "rows/s", "x Spark's own", "CPU s per M"],
            rows=lines,
            notes=[f"kafka-python: {site.scaled(FEW):,} rows."],
        )
    ]


def _one_write(
    site: Site, spark: Any, kind: str, count: int, options: dict[str, str]
) -> tuple[float, float]:
    rows = spark.range(0, count, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS key", "lpad(CAST(id AS STRING), 100, 'x') AS value"
    )
    if kind == "noop":
        return timed(spark, lambda: rows.write.format("noop").mode("overwrite").save())
    where = {"kafka.bootstrap.servers": ",".join(site.bootstrap), "topic": site.new_topic(4)}
    writer = rows.write.format(kind).mode("append").options(**where | options)
    return timed(spark, writer.save)
