"""The data source in sessions of Spark, beside Spark's own Kafka source."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer

from tests.embedded import Cluster
from tests.real_kafka import topics


def filled(
    kafka: Cluster, topic: str, *, partitions: int = 4, count: int = 1000, create: bool = True
) -> None:
    """A topic with keys, nulls, empty values and headers."""
    if create:
        topics.create_topic(kafka.bootstrap_servers, topic, partitions=partitions)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(count):
        producer.send(
            topic,
            key=b"key-%d" % number if number % 3 or number % 5 == 2 else None,
            value={1: b"", 2: None}.get(number % 5, b"value-%d" % number),
            partition=number % partitions,
            headers=[("trace", b"%d" % number), ("empty", b"")][: number % 3],
        )
    producer.flush()
    producer.close()


def loaded(spark: Any, name: str, kafka: Cluster, topic: str, **options: Any) -> Any:
    """A batch query."""
    reader = spark.read.format(name).option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", ",".join(kafka.bootstrap_servers))
    for option, value in options.items():
        reader = reader.option(option, value)
    return reader.load()


def test_a_batch_has_the_rows_of_sparks_own_source(spark: Any, kafka: Cluster, topic: str) -> None:
    filled(kafka, topic)

    ours = loaded(spark, "aktor", kafka, topic, includeHeaders="true")
    theirs = loaded(spark, "kafka", kafka, topic, includeHeaders="true")

    assert ours.schema == theirs.schema
    order = ("partition", "offset")
    assert ours.orderBy(*order).collect() == theirs.orderBy(*order).collect()
    assert ours.count() == 1000
