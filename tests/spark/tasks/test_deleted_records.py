"""Retention deletes records between two tasks of a worker: the second one reads what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import OffsetOutOfRangeError
from kafka.structs import TopicPartition

from aktor.broker import EmbeddedKafka
from aktor.errors import DataLossError
from aktor.spark.offsets.ranges import OffsetRange
from aktor.spark.options.source import read_options
from aktor.spark.tasks import worker
from aktor.spark.tasks.columns import Layout
from tests.spark.harness import the_schema

PARTITION = TopicPartition("short", 0)


@pytest.fixture
def kafka(embedded_kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """Ten records, of which a task of this worker has read five."""
    embedded_kafka.create_topic(PARTITION.topic, 1)
    write(embedded_kafka, 10)
    assert read(embedded_kafka, 0, 5, strict=True) == [0, 1, 2, 3, 4]
    yield embedded_kafka
    worker._drop()


def write(kafka: EmbeddedKafka, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for _ in range(count):
        producer.send(PARTITION.topic, b"value", partition=0)
    producer.close()


def delete(kafka: EmbeddedKafka, end: int) -> None:
    """Retention deletes the records before this offset."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.delete_records({PARTITION: end})
    admin.close()


def read(kafka: EmbeddedKafka, start: int, end: int, *, strict: bool) -> list[int]:
    """The offsets that a task of this worker reads."""
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": PARTITION.topic,
        "failOnDataLoss": str(strict).lower(),
    }
    options, layout = read_options(given, stream=True), Layout(the_schema(given), decode=None)
    batches = worker.read_task([OffsetRange(PARTITION.topic, 0, start, end)], options, layout)
    return [row["offset"] for batch in batches for row in batch.to_pylist()]


def lost(start: int, end: int, first: int, last: int) -> Any:
    """The error of a task that cannot read its range."""
    text = f"from offset {start} to {end}, and has those from {first} to {last}"
    return pytest.raises(DataLossError, match=re.escape(text))


def its_consumer_hears_of_it(at: int) -> None:
    """The consumer fetches ahead, and what it would fetch next is not there any more."""
    assert worker._kept is not None
    consumer = worker._kept[2]
    consumer.assign({PARTITION: at})
    consumer.resume(PARTITION)
    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll(30_000)


@pytest.mark.parametrize("strict", [True, False])
def test_a_task_whose_first_records_are_lost_says_so(kafka: EmbeddedKafka, *, strict: bool) -> None:
    delete(kafka, 8)
    its_consumer_hears_of_it(5)

    with lost(5, 10, 8, 10) if strict else nullcontext():
        assert read(kafka, 5, 10, strict=strict) == [8, 9]


def test_a_task_that_wants_none_of_the_lost_records_has_lost_nothing(kafka: EmbeddedKafka) -> None:
    delete(kafka, 8)
    its_consumer_hears_of_it(5)

    assert read(kafka, 8, 10, strict=True) == [8, 9]


def test_a_task_reads_on_after_one_whose_records_are_all_lost(kafka: EmbeddedKafka) -> None:
    delete(kafka, 10)
    its_consumer_hears_of_it(5)
    assert read(kafka, 5, 10, strict=False) == []

    write(kafka, 2)

    assert read(kafka, 10, 12, strict=True) == [10, 11]
