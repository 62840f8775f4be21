"""Batch queries without any record."""

from __future__ import annotations

from aktor.broker import EmbeddedKafka
from tests.spark.harness import read_batch


def test_a_batch_without_a_record_has_no_rows(embedded_kafka: EmbeddedKafka) -> None:
    embedded_kafka.create_topic("orders", 2)
    servers = embedded_kafka.bootstrap_servers

    rows, _ = read_batch({"kafka.bootstrap.servers": servers, "subscribe": "orders"})

    assert rows.num_rows == 0
