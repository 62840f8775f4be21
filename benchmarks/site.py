"""Where a benchmark runs: its Kafka, its topics, and how long it may take."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from tests.kafka.real import KafkaCluster, topics

__all__ = ["Site"]


class Site:
    """Owns the one-node Kafka, started when it is first needed unless an address was given.

    `quick` means: only show that it runs; the figures are worth nothing. `rows`: no more records in
    a topic.
    """

    def __init__(
        self, bootstrap: str | None = None, *, quick: bool = False, rows: int | None = None
    ) -> None:
        self.quick = quick
        self._rows = rows
        self._given = bootstrap.split(",") if bootstrap else None
        self._cluster: KafkaCluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._cluster is not None:
            self._cluster.stop()

    @property
    def bootstrap(self) -> list[str]:
        """The address of the broker."""
        if self._given is not None:
            return self._given
        if self._cluster is None:
            self._cluster = KafkaCluster()
            self._cluster.start()
            # The first group of all makes the broker create its offsets topic: not our affair.
            topics.coordinator_of(self._cluster.bootstrap_servers, new_name("warm-up"))
        return self._cluster.bootstrap_servers

    @property
    def classpath(self) -> str | None:
        """Where Java finds Kafka's classes; None on a Kafka that is not ours."""
        return None if self._cluster is None else self._cluster.prepare().classpath

    def scaled(self, count: int) -> int:
        """`count`, or a tenth of it if only a quick look is wanted; not more than asked for."""
        count = max(1, count // 10) if self.quick else count
        return count if self._rows is None else min(count, self._rows)

    def say(self, text: str) -> None:
        """What has just been measured: a table has its figures only when all is measured."""
        print(f"  {text}", file=sys.stderr, flush=True)

    def new_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> str:
        """An empty topic."""
        return topics.create_topic(self.bootstrap, new_name("bench"), partitions, configs=configs)

    def fill(self, topic: str, values: Iterable[bytes], *, compression: str | None = None) -> None:
        """Write values, spread over the partitions, and wait for the acknowledgement of all.

        With confluent-kafka if it is there, since it is ten times as fast.
        """
        try:
            from confluent_kafka import Producer
        except ImportError:
            _fill_by_kafka_python(self.bootstrap, topic, values, compression)
            return
        producer = Producer(
            {
                "bootstrap.servers": ",".join(self.bootstrap),
                "compression.type": compression or "none",
                "linger.ms": 20,
                "batch.size": 500_000,
                "sticky.partitioning.linger.ms": 0,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        partitions = topics.views(self.bootstrap)[0].of_topic(topic)
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value, partition=number % len(partitions))
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.flush()


def _fill_by_kafka_python(
    bootstrap: list[str], topic: str, values: Iterable[bytes], compression: str | None
) -> None:
    settings: dict[str, Any] = {"compression_type": compression, "linger_ms": 20}
    partitions = len(topics.views(bootstrap)[0].of_topic(topic))
    with topics.producer(bootstrap, batch_size=500_000, **settings) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions)
        producer.flush()


def new_name(what: str) -> str:
    """A name nobody has used."""
    return f"{what}-{uuid.uuid4().hex[:8]}"
