"""An unclean election between two tasks of a worker: what its second task finds is reported."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.structs import TopicPartition

from aktor.broker import EmbeddedKafka
from aktor.broker.codes import Code
from aktor.broker.faults import FailWith, Fault
from aktor.broker.settings import ClusterSettings
from aktor.errors import DataLossError, LogTruncationError
from aktor.spark.offsets.ranges import OffsetRange
from aktor.spark.options.source import read_options
from aktor.spark.tasks import worker
from aktor.spark.tasks.columns import Layout
from tests.kafka.support import wait_until
from tests.spark.harness import the_schema

SAID = "cut-0 was read up to offset 20, and its leader has other records from offset 10 on"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, settings=ClusterSettings(replica_lag_max=1.0)) as kafka:
        kafka.create_topic("cut", 1, replication_factor=2)
        yield kafka
        worker._drop()


def write(kafka: EmbeddedKafka, what: str, count: int) -> None:
    """Acknowledged by the leader."""
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, acks=1, enable_idempotence=False
    )
    for number in range(count):
        producer.send("cut", f"{what} {number}".encode(), partition=0).get(20)
    producer.close()


def read(kafka: EmbeddedKafka, start: int, end: int, *, strict: bool) -> list[str]:
    """What a task of this worker reads."""
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": "cut",
        "failOnDataLoss": str(strict).lower(),
    }
    options, layout = read_options(given, stream=True), Layout(the_schema(given), decode=None)
    batches = worker.read_task([OffsetRange("cut", 0, start, end)], options, layout)
    return [row["value"].decode() for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("strict", "between"),
    [
        (True, False),
        pytest.param(False, False, marks=pytest.mark.gate),
        pytest.param(False, True, marks=pytest.mark.gate),
    ],
    ids=["strict", "not strict", "heard between tasks"],
)
def test_records_that_another_leader_has_in_place_of_those_that_were_read_are_reported(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, *, strict: bool, between: bool
) -> None:
    leader = kafka.leader("cut")
    assert leader is not None
    other = 3 - leader
    write(kafka, "both", 10)
    wait_until(lambda: kafka.end_offset("cut") == 10, "both replicas have them")
    kafka.hold_replica("cut", 0, other)
    write(kafka, "lost", 10)
    wait_until(lambda: kafka.end_offset("cut") == 20, "the other one is not waited for")
    assert len(read(kafka, 0, 20, strict=strict)) == 20

    # The consumer hears of the election when the other log is longer than what it has read.
    kafka.inject(
        Fault(api="Fetch", action=FailWith(Code.NOT_LEADER_OR_FOLLOWER), times=None),
    )
    kafka.move_leader("cut", 0, other, unclean=True)
    write(kafka, "new", 15)
    kafka.clear_faults()
    if between:
        assert worker._kept is not None
        consumer = worker._kept[2]
        consumer.resume(TopicPartition("cut", 0))
        with pytest.raises(LogTruncationError):
            consumer.poll(30_000)

    if strict:
        with pytest.raises(DataLossError, match=re.escape(SAID)):
            read(kafka, 20, 25, strict=strict)
        return
    with caplog.at_level(logging.WARNING, "aktor.spark"):
        assert read(kafka, 20, 25, strict=strict) == [f"new {number}" for number in range(10, 15)]
    assert SAID in caplog.text
