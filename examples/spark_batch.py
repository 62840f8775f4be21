"""A batch query: yesterday's orders as a table, and how many each partition has.

    python -m examples.spark_batch localhost:9092 orders

Needs `pip install -e '.[spark]'` and Java 17.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.spark_session import new_session


def records_per_partition(spark: Any, bootstrap: str, topic: str, since: str) -> dict[int, int]:
    """How many records each partition has since then: "earliest", "-1d", or a time in ms."""
    records = (
        spark.read.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", since)
        .option("columns", "partition,offset")  # what is not asked for costs nothing
        .load()
    )
    return {
        row["partition"]: row["count"] for row in records.groupBy("partition").count().collect()
    }


def main(bootstrap: str = "localhost:9092", topic: str = "orders", since: str = "-1d") -> None:
    """Print the counts."""
    spark = new_session()
    for partition, count in sorted(records_per_partition(spark, bootstrap, topic, since).items()):
        print(f"partition {partition}: {count:,} records")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
