"""A checkpoint whose first batch was planned by Spark's own source and is not finished."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer

from aktor.broker import EmbeddedKafka
from aktor.errors import DataLossError
from tests.spark.harness import Query


def a_checkpoint(kafka: EmbeddedKafka, **options: str) -> Query:
    """Of a query that began with offset 0 of one partition, when there were no records, and has
    planned a batch up to offset 2."""
    kafka.create_topic("orders", 1)
    with_address = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "orders"}
    query = Query(with_address | options)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for value in (b"a", b"b"):
        producer.send("orders", value)
    producer.close()
    query.log = ['{"orders":{"0":2}}']
    return query


def test_a_start_that_is_not_known_any_more_is_a_loss(embedded_kafka: EmbeddedKafka) -> None:
    query = a_checkpoint(embedded_kafka, startingOffsets="latest")

    with pytest.raises(DataLossError, match="Let Spark's own source finish the batch"):
        query.run()


def test_a_start_that_is_the_same_again_is_gone_on_with(embedded_kafka: EmbeddedKafka) -> None:
    query = a_checkpoint(embedded_kafka, startingOffsets="earliest")

    query.run()

    assert [row["value"] for row in query.rows] == [b"a", b"b"]
