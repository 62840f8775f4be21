"""Streams in Spark go on after what happens to their processes and to Kafka: no record is lost, and
none is written twice."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_driver import Driver, parquet_query, running, times_written
from tests.kafka.spark_support import OURS, read, reader
from tests.kafka.support import numbered, wait_until

#: Several of them are more than what lies between a Python worker and its JVM, so that the worker
#: is in the midst of its range for as long as the task runs.
LARGE = bytes(20_000)


def write(kafka: Cluster, topic: str, partitions: int, count: int) -> Counter[tuple[int, int]]:
    """So many records in each partition; each of them once."""
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=partitions)
    for partition in range(partitions):
        topics.produce(kafka.bootstrap_servers, topic, [LARGE] * count, partition=partition)
    return once_each(*[count] * partitions)


def once_each(*counts: int) -> Counter[tuple[int, int]]:
    """Each offset of each partition once."""
    return Counter((partition, at) for partition, count in enumerate(counts) for at in range(count))


def finish(spark: Any, kafka: Cluster, topic: str, folder: Path, **options: Any) -> None:
    """Run the query of a driver that is no more to its end, in this session."""
    query = parquet_query(spark, kafka, folder, 0, subscribe=topic, **options)
    assert query.awaitTermination(300)


@pytest.mark.timeout(600)  # 115 s were seen on a machine with a load of 15
@pytest.mark.once("a driver of its own takes 20 s")
def test_python_workers_are_killed_and_the_driver_is_interrupted_in_mid_batch(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    written = write(kafka, topic, 2, 1600)
    copy = f"{topic}-copy"
    topics.create_topic(kafka.bootstrap_servers, copy, partitions=2)
    options = {"maxOffsetsPerTrigger": 800}
    with Driver(kafka, topic, tmp_path, pause_ms=8, to=[copy, ""], **options) as driver:
        driver.fail_a_task()  # of the sink, and of its source
        assert driver.wait_for_end() is None
        driver.fail_a_task()
        driver.wait_in_mid_batch(1)
        below = driver.interrupt()
        wait_until(lambda: not running(below), "all its processes have ended", 60)
    commits = [int(one.name) for one in (tmp_path / "checkpoint/commits").glob("[0-9]*")]
    assert max(commits) < 3, "the driver was interrupted in mid-stream"

    finish(spark, kafka, topic, tmp_path, **options)

    assert times_written(spark, tmp_path) == written
    # What the killed task had sent is sent again: at least once.
    copied = Counter(place(record.value) for record in read(kafka, copy))
    assert copied.keys() == written.keys()
    assert copied.total() < 2 * written.total()


def place(value: bytes) -> tuple[int, int]:
    """Partition and offset of the record that this value was made of."""
    partition, offset, _ = value.split(b"-")
    return int(partition), int(offset)


class Running:
    """A query of this session that goes on until the block ends; `places` has partition and offset
    of every row. Its sink is Spark's table in memory: `foreachBatch` would call this process, and
    to stop a query in the middle of such a call can hang for ever."""

    def __init__(self, spark: Any, kafka: Cluster, topic: str, **options: Any) -> None:
        options = {"subscribe": topic, "startingOffsets": "earliest", **options}
        # Quick to find partitions, leaders, and that something is gone.
        quick = {"kafka.metadata.max.age.ms": "1000", "fetchOffset.retryIntervalMs": "100"}
        source = reader(spark.readStream, OURS, kafka, quick | options).load()
        name = f"rows_{uuid.uuid4().hex}"
        self.query = (
            source.select("partition", "offset")
            .writeStream.format("memory")
            .queryName(name)
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        # A frame of the table is planned once, with the rows of that moment: a new one each time.
        self._table = lambda: spark.table(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.query.stop()

    @property
    def places(self) -> list[tuple[int, int]]:
        return [tuple(row) for row in self._table().collect()]

    def wait_for(self, count: int) -> None:
        """Wait until so many rows were read."""

        def done() -> bool:
            if (error := self.query.exception()) is not None:
                raise error
            return len(self.places) >= count

        wait_until(done, f"{count} rows come", 60)

    def wait_for_error(self) -> str:
        """Wait until the query has failed; what it says."""
        wait_until(lambda: not self.query.isActive, "the query fails", 60)
        return str(self.query.exception())


def add(kafka: Cluster, topic: str, *counts: int) -> None:
    """So many more small records in each partition."""
    for partition, count in enumerate(counts):
        topics.produce(kafka.bootstrap_servers, topic, numbered(count), partition=partition)


@pytest.mark.once("brokers are restarted")
def test_partitions_are_added_and_brokers_restarted_while_a_query_runs(
    spark: Any, kafka3: Cluster, topic: str
) -> None:
    topics.create_topic(kafka3.bootstrap_servers, topic, partitions=2, replication=3)
    add(kafka3, topic, 10, 10)
    with Running(spark, kafka3, topic) as running:
        running.wait_for(20)
        topics.add_partitions(kafka3.bootstrap_servers, topic, 3)
        add(kafka3, topic, 1, 0, 7)
        running.wait_for(28)
        leader = topics.leader_of(kafka3.bootstrap_servers, topic, 0)
        kafka3.restart(leader)
        add(kafka3, topic, 2, 2, 2)
        running.wait_for(34)
        kafka3.kill(topics.leader_of(kafka3.bootstrap_servers, topic, 1))
        add(kafka3, topic, 3, 3, 3)
        running.wait_for(43)

    assert Counter(running.places) == once_each(16, 15, 12)


@pytest.mark.real("the embedded Kafka is told which leader to elect, and by other means")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "not strict"])
def test_a_leader_without_all_records_is_elected(
    spark: Any, kafka3: Cluster, topic: str, strict: bool
) -> None:
    address = kafka3.bootstrap_servers
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topics.create_topic(address, topic, replication=2, configs=configs)
    add(kafka3, topic, 10)
    first, second = _replicas(address, topic)
    with Running(spark, kafka3, topic, failOnDataLoss=str(strict).lower()) as running:
        running.wait_for(10)
        kafka3.terminate(second)
        topics.wait_for_leader(address, topic, 0)
        add(kafka3, topic, 5)
        running.wait_for(15)
        kafka3.kill(first)
        kafka3.restart(second)
        assert topics.wait_for_leader(address, topic, 0, other_than=first) == second
        if strict:
            assert f"{topic}-0 was read up to offset 15 and now ends at 10" in (
                running.wait_for_error()
            )
            return
        wait_until(lambda: _end(running) == 10, "the query goes back to the end of the log", 60)
        add(kafka3, topic, 4)
        running.wait_for(19)

    assert Counter(running.places) == once_each(15) + Counter((0, at) for at in range(10, 14))


def _replicas(address: Any, topic: str) -> tuple[int, int]:
    """The leader and the other replica of partition 0."""
    (partition,) = topics.views(address)[0].of_topic(topic)
    (other,) = set(partition.replicas) - {partition.leader}
    return partition.leader, other


def _end(running: Running) -> int:
    """Where the last batch of the query ended, of one partition."""
    (source,) = running.query.lastProgress["sources"]
    (partitions,) = json.loads(source["endOffset"]).values()
    return int(partitions["0"])


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "not strict"])
def test_a_topic_is_deleted_and_created_anew_while_a_query_runs(
    spark: Any, kafka: Cluster, topic: str, strict: bool
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    add(kafka, topic, 10)
    with Running(spark, kafka, topic, failOnDataLoss=str(strict).lower()) as running:
        running.wait_for(10)
        topics.delete_topic(kafka.bootstrap_servers, topic)
        topics.create_topic(kafka.bootstrap_servers, topic)
        # More than there were before: the offsets alone do not show it.
        add(kafka, topic, 15)
        if strict:
            assert f"{topic}" in running.wait_for_error()
            return
        running.wait_for(25)

    assert Counter(running.places) == once_each(10) + once_each(15)
