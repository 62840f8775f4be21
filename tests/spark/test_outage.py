"""All brokers are away while a stream runs: it waits, and goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from aktor.broker import EmbeddedKafka
from aktor.errors import BootstrapError
from aktor.spark.tasks import worker
from tests.spark.harness import Query, Run, a_source, run_task, sent, the_schema


@pytest.fixture
def kafka(embedded_kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A broker with five records."""
    embedded_kafka.create_topic("orders", 1)
    write(embedded_kafka, 5)
    yield embedded_kafka
    worker._drop()


def write(kafka: EmbeddedKafka, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for _ in range(count):
        producer.send("orders", b"v")
    producer.close()


def options(kafka: EmbeddedKafka, **given: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kafka.default.api.timeout.ms": "500",
        "fetchOffset.numRetries": "0",
    } | given


@contextmanager
def outage(kafka: EmbeddedKafka, seconds: float | None = None) -> Iterator[None]:
    """No broker is there for so long, or for all of the block."""
    kafka.stop_broker(1)
    if seconds is None:
        try:
            yield
        finally:
            kafka.start_broker(1)
        return
    back = threading.Timer(seconds, kafka.start_broker, [1])
    back.start()
    try:
        yield
    finally:
        back.join()


def test_a_running_stream_goes_on_after_an_outage(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(options(kafka))
    run = Run(query, available_now=False)
    run.one_batch()

    with outage(kafka, 3):
        assert not run.one_batch(), "it waits, and there is nothing new"
    write(kafka, 2)
    assert run.one_batch()
    run.stop()

    assert [row["offset"] for row in query.rows] == list(range(7))
    assert "the query waits until brokers answer" in caplog.text


def test_a_stream_that_is_started_in_an_outage_says_so(kafka: EmbeddedKafka) -> None:
    query = Query(options(kafka))
    query.run()

    with outage(kafka), pytest.raises((BootstrapError, KafkaTimeoutError), match=r"127\.0\.0\.1"):
        Run(query).one_batch()


def test_a_task_of_a_new_worker_waits_for_brokers_as_one_of_an_old_worker(
    kafka: EmbeddedKafka,
) -> None:
    given = options(kafka)
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    (task,) = reader.partitions()
    worker._drop()

    with outage(kafka, 5):
        (batch,) = run_task(reader, task, schema)

    assert batch.num_rows == 5


def test_a_task_of_a_new_worker_says_after_its_time_that_no_broker_answers(
    kafka: EmbeddedKafka,
) -> None:
    given = options(kafka, **{"kafkaConsumer.pollTimeoutMs": "3000"})
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    (task,) = reader.partitions()
    worker._drop()

    with outage(kafka), pytest.raises(BootstrapError, match="Connection refused"):
        run_task(reader, task, schema)
