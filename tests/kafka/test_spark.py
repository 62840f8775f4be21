"""The data source in sessions of Spark, beside Spark's own Kafka source."""

from __future__ import annotations

from typing import Any

from tests.kafka.embedded import Cluster
from tests.kafka.spark_support import filled


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
