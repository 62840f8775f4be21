"""A checkpoint whose first batch was planned, by aktor or by Spark's own source, and is not
finished."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.structs import TopicPartition

from aktor.broker import EmbeddedKafka
from aktor.errors import DataLossError
from tests.spark.harness import Query, Run


def write(kafka: EmbeddedKafka, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for value in values:
        producer.send("orders", value)
    producer.close()


def delete_below(kafka: EmbeddedKafka, offset: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.delete_records({TopicPartition("orders", 0): offset})
    admin.close()


def a_checkpoint(kafka: EmbeddedKafka, **options: str) -> Query:
    """Of a query that began with offset 0 of one partition, when there were no records, and has
    planned a batch up to offset 2."""
    kafka.create_topic("orders", 1)
    with_address = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "orders"}
    query = Query(with_address | options)
    write(kafka, b"a", b"b")
    query.log = ['{"orders":{"0":2}}']
    return query


def test_a_start_that_is_not_known_any_more_is_a_loss(embedded_kafka: EmbeddedKafka) -> None:
    query = a_checkpoint(embedded_kafka, startingOffsets="latest")

    with pytest.raises(DataLossError, match="let it finish the batch"):
        query.run()


def test_a_start_that_is_the_same_again_is_gone_on_with(embedded_kafka: EmbeddedKafka) -> None:
    query = a_checkpoint(embedded_kafka, startingOffsets="earliest")

    query.run()

    assert [row["value"] for row in query.rows] == [b"a", b"b"]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("starting", ["earliest", '{"orders": {"0": %d}}'])
def test_records_that_are_deleted_while_the_first_batch_fails_are_not_skipped_in_silence(
    embedded_kafka: EmbeddedKafka, starting: str, first: int
) -> None:
    embedded_kafka.create_topic("orders", 1)
    write(embedded_kafka, *(b"%d" % number for number in range(30)))
    delete_below(embedded_kafka, first)
    given = {
        "kafka.bootstrap.servers": embedded_kafka.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": starting.replace("%d", str(first)),
    }
    query = Query(given)
    Run(query).one_batch(fail=True)
    assert len(query.rows) == 30 - first
    query.rows.clear()
    delete_below(embedded_kafka, 12)

    with pytest.raises(DataLossError, match="orders-0"):
        query.run()
    assert query.rows == []

    query.options["failOnDataLoss"] = "false"
    query.run()
    assert [row["offset"] for row in query.rows] == list(range(12, 30))
