"""Batch queries without any record."""

from __future__ import annotations

import pytest

from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError
from tests.spark.harness import read_batch


def test_a_batch_without_a_record_has_no_rows(embedded_kafka: EmbeddedKafka) -> None:
    embedded_kafka.create_topic("orders", 2)
    servers = embedded_kafka.bootstrap_servers

    rows, _ = read_batch({"kafka.bootstrap.servers": servers, "subscribe": "orders"})

    assert rows.num_rows == 0


def test_a_batch_that_would_end_before_it_begins_is_refused(embedded_kafka: EmbeddedKafka) -> None:
    embedded_kafka.create_topic("orders", 1)
    options = {
        "kafka.bootstrap.servers": embedded_kafka.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": '{"orders": {"0": 7}}',
    }

    with pytest.raises(
        ConfigurationError, match=r"begin with offset 7 \(startingOffsets\).*with 0"
    ):
        read_batch(options)
