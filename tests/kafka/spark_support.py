"""What tests with a session of Spark say again and again: batches, streams, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer

from aktor import KafkaConsumer, TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics

#: Our source and Spark's own.
OURS: Final = "aktor"
NATIVE: Final = "kafka"
SOURCES: Final = (OURS, NATIVE)

Row = tuple[Any, ...]


def reader(kind: Any, name: str, kafka: Cluster, options: dict[str, Any]) -> Any:
    """`spark.read` or `spark.readStream` of a format, with the cluster's address and options."""
    found = kind.format(name).option("kafka.bootstrap.servers", ",".join(kafka.bootstrap_servers))
    for option, value in options.items():
        text = json.dumps(value) if isinstance(value, dict) else value
        found = found.option(option, text)
    return found


def batch(spark: Any, name: str, kafka: Cluster, topic: str | None = None, **options: Any) -> Any:
    """A batch query. Names of options with dots are given as `**{"kafka.isolation.level": ...}`."""
    if topic is not None:
        options = {"subscribe": topic, **options}
    return reader(spark.read, name, kafka, options).load()


def rows(frame: Any) -> list[Row]:
    """All rows, in the order of partitions and offsets."""
    found = frame.collect()
    return sorted(map(tuple, found), key=_place(frame.columns))


def _place(columns: list[str]) -> Any:
    at = [columns.index(name) for name in ("topic", "partition", "offset")]
    return lambda row: tuple(row[index] for index in at)


def assert_same_rows(
    spark: Any, kafka: Cluster, topic: str | None = None, **options: Any
) -> list[Row]:
    """Our source and Spark's own have the same schema and rows; the rows."""
    options = {"includeHeaders": "true", **options}
    ours, native = (batch(spark, name, kafka, topic, **options) for name in (OURS, NATIVE))
    assert ours.schema == native.schema
    found = rows(ours)
    assert found == rows(native), options
    return found


def offsets(found: Iterable[Row]) -> list[int]:
    """The offsets of rows with all columns."""
    return [row[4] for row in found]


class Stream:
    """A query with a checkpoint, run by one source and then the other.

    `batches` has the rows (partition, offset, value) of each batch by its number. A batch that is
    run again must have the rows that it had.
    """

    def __init__(self, spark: Any, kafka: Cluster, topic: str, folder: Path, **options: Any):
        self.spark = spark
        self.kafka = kafka
        self.options = {"subscribe": topic, "startingOffsets": "earliest", **options}
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Row]] = {}

    def run(self, name: str, **options: Any) -> list[int]:
        """Run until everything is read that is there (AvailableNow); the numbers of its batches."""
        ran: list[int] = []

        def keep(frame: Any, number: int) -> None:
            found = sorted(map(tuple, frame.select("partition", "offset", "value").collect()))
            before = self.batches.setdefault(number, found)
            assert found == before, f"batch {number} has other rows when it is run again"
            ran.append(number)

        source = reader(self.spark.readStream, name, self.kafka, self.options | options).load()
        query = (
            source.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(300), "the query did not end within 300 s"
        finally:
            query.stop()
        return ran

    def unfinish(self, number: int | None = None) -> int:
        """Make the last batch (or this one) unfinished, as if the driver had been killed before it
        was logged as done, and forget all later ones; its number."""
        numbers = self._numbers("commits")
        last = max(numbers) if number is None else number
        for folder, first in (("commits", last), ("offsets", last + 1)):
            for one in self._numbers(folder):
                if one >= first:
                    (self.checkpoint / folder / str(one)).unlink()
                    (self.checkpoint / folder / f".{one}.crc").unlink(missing_ok=True)
        return last

    def end_of(self, number: int) -> dict[str, Any]:
        """The end of a batch in the checkpoint."""
        text = (self.checkpoint / "offsets" / str(number)).read_text()
        found: dict[str, Any] = json.loads(text.splitlines()[-1])
        return found

    def places(self) -> list[tuple[int, int]]:
        """Partition and offset of every row of all batches."""
        return sorted((row[0], row[1]) for found in self.batches.values() for row in found)

    def _numbers(self, folder: str) -> list[int]:
        files = (self.checkpoint / folder).iterdir()
        return sorted(int(file.name) for file in files if file.name.isdigit())


def read(kafka: Cluster, topic: str, isolation: str = "read_committed") -> list[Any]:
    """What is in the topic now for such a reader, by partition and offset."""
    with KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, isolation_level=isolation
    ) as consumer:
        partitions = [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[Any] = []
        while any(consumer.position(one) < end for one, end in ends.items()):
            found += [one for batch in consumer.poll(1000).values() for one in batch]
    return sorted(found, key=lambda one: (one.partition, one.offset))


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
