"""A topic is cleaned into another one: a stream that reads from Kafka and writes to Kafka.

    python -m examples.spark_sink localhost:9092 orders orders-clean /data/checkpoint

Values that are no JSON with a customer are left out; the customer becomes the key. Run it again and
it goes on where it was. Needs `pip install -e '.[spark]' confluent-kafka` and Java 17.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.spark_session import new_session


def clean(spark: Any, bootstrap: str, topic: str, into: str, checkpoint: str) -> Any:
    """Write what is there now, and end; returns the query."""
    records = (
        spark.readStream.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")  # of a new query only
        .load()
    )
    orders = records.selectExpr(
        "get_json_object(CAST(value AS STRING), '$.customer') AS key",
        "value",
        "array(named_struct('key', 'from', 'value',"
        " CAST(concat(topic, '-', partition, '@', offset) AS BINARY))) AS headers",
    )
    return (
        orders.where("key IS NOT NULL")
        .writeStream.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", into)
        # Readers with isolation_level=read_committed never see the rows of a task that failed.
        .option("transactional", "true")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main(bootstrap: str, topic: str, into: str, checkpoint: str) -> None:
    """Clean what is there."""
    spark = new_session()
    clean(spark, bootstrap, topic, into, checkpoint).awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
