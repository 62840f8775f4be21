"""A stream: what is new in a topic is appended to Parquet files, once a minute.

    aktor broker --topic orders:4 --records 1000
    python -m examples.spark_stream localhost:9092 orders /data/orders

The first command is for who has no Kafka with orders. Run the second one again and it goes on where
it was. Needs `pip install -e '.[spark]'` and Java 17.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from examples.spark_session import new_session


def append(
    spark: Any, bootstrap: str, topic: str, folder: str, trigger: dict[str, Any] | None = None
) -> Any:
    """Start the query, or go on with it from the checkpoint in the folder; returns the query."""
    records = (
        spark.readStream.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")  # of a new query only
        .option("maxOffsetsPerTrigger", "1000000")
        # Progress as committed offsets of a group, for the tools that show lag.
        .option("commitOffsets", "true")
        .option("kafka.group.id", f"{topic}-to-parquet")
        .load()
    )
    return (
        records.selectExpr(
            "CAST(key AS STRING) AS key", "value", "partition", "offset", "timestamp"
        )
        .writeStream.format("parquet")
        .option("path", f"{folder}/data")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(**(trigger or {"processingTime": "1 minute"}))
        .start()
    )


def main(bootstrap: str = "localhost:9092", topic: str = "orders", folder: str = "orders") -> None:
    """Run until Ctrl-C, and say what was appended."""
    spark = new_session()
    query = append(spark, bootstrap, topic, folder)
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    batch = -1
    while not stopped.is_set() and not query.awaitTermination(1):
        progress = query.lastProgress
        if progress is not None and progress.batchId > batch:
            batch = progress.batchId
            print(f"batch {batch}: {progress.numInputRows} records to {folder}", flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
