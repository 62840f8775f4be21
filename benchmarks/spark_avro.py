"""Avro values, filtered and grouped: `decode=avro` against Spark's own source, tuned, and its
`from_avro`. Both read the whole topic.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.site import Site
from benchmarks.spark import TUNED, recommended_session
from benchmarks.spark_pipelines import Filter, compared
from benchmarks.tables import Table
from tests.spark.session import connector, what_is_missing

#: As many as of JSON.
RECORDS: Final = 2_000_000
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
_FILTERS: Final = (
    Filter("all", None, 2.5),
    Filter("1 %: amount >= 990", "value.amount >= 990", 2.5),
)


def tables(site: Site) -> list[Table]:
    """Processor time of each way, one after the other."""
    missing = what_is_missing() or (None if connector() else "there is no connector of Spark's")
    if missing:
        return [Table(title=f"spark_avro: not measured, since {missing}", columns=["-"], rows=[])]
    with recommended_session() as spark:
        return [_pipelines(site, spark)]


def _pipelines(site: Site, spark: Any) -> Table:
    from pyspark.sql.avro.functions import from_avro

    count = site.scaled(RECORDS)
    topic = site.new_topic(4)
    site.fill(topic, _values(count))
    given = {"kafka.bootstrap.servers": ",".join(site.bootstrap), "subscribe": topic}
    given["startingOffsets"] = "earliest"

    def ours(**options: str) -> Any:
        read = spark.read.format("aktor").options(**given, decode="avro", avroSchema=SCHEMA)
        return read.options(columns="value", **options).load()

    def needed() -> Any:
        read = spark.read.format("aktor").options(**given, decode="avro", avroSchema=SCHEMA)
        return read.schema("value struct<amount: double, paid: boolean>").load()

    def own() -> Any:
        read = spark.read.format("kafka").options(**given | TUNED).load()
        return read.select(from_avro("value", SCHEMA, {"mode": "PERMISSIVE"}).alias("value"))

    title = f"spark_avro: {count:,} values of five fields"
    return compared(
        *(site, spark, ours, own),
        needed=needed,
        name=OWN,
        title=title,
        count=count,
        filters=_FILTERS,
    )


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
