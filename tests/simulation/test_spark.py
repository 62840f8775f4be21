"""The stream's plan and the reader of ranges, in simulated storms.

A member does what Spark does: it plans a batch, logs its end, reads the ranges of its tasks, and
logs that the batch is finished. A member that is killed is replaced by another one, which goes on
from the checkpoint. Every record is in the rows of exactly one finished batch.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import KafkaConsumer
from aktor.simulation import Simulation
from aktor.simulation.world.topic import Topic
from aktor.spark.driver.cluster import DriverCluster
from aktor.spark.driver.stream_plan import StreamPlan
from aktor.spark.offsets.ranges import OffsetRange
from aktor.spark.options.source import SourceOptions, read_options
from aktor.spark.tasks.worker import read_ranges
from tests.gate import all_but_the_first
from tests.scenarios.world import seeds

COLUMNS = ("value", "topic", "partition", "offset")


class Checkpoint:
    """Owns what survives a killed process: the ends of batches, and the rows of finished ones."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.rows: list[list[bytes]] = []

    @property
    def read(self) -> list[bytes]:
        """The values of all finished batches."""
        return [value for rows in self.rows for value in rows]


def query(checkpoint: Checkpoint, **given: str) -> None:
    """The driver and a worker, begun anew after each error, as a supervised query is."""
    options = read_options(
        {
            "kafka.bootstrap.servers": "kafka:9092",
            "kafka.request.timeout.ms": "3000",
            "kafka.default.api.timeout.ms": "5000",
            "kafkaconsumer.polltimeoutms": "5000",
            "subscribe": "orders",
        }
        | given,
        stream=True,
    )
    draw = random.Random(len(checkpoint.ends))
    while True:
        cluster = DriverCluster(options, sleep=time.sleep)
        try:
            run(checkpoint, options, cluster, draw)
        except KafkaError:
            time.sleep(0.5)
        finally:
            cluster.close()


def run(
    checkpoint: Checkpoint, options: SourceOptions, cluster: DriverCluster, draw: random.Random
) -> None:
    """One run of the query, until an error ends it."""
    plan = StreamPlan(
        options, cluster, clock=time.monotonic, wall_clock=time.time, sleep=time.sleep
    )
    worker: KafkaConsumer | None = None
    try:
        while True:
            number = len(checkpoint.rows)
            start = json.loads(checkpoint.ends[number - 1]) if number else plan.initial()
            if len(checkpoint.ends) == number:
                end = plan.latest(start, everything=False)
                if json.dumps(end) == json.dumps(start):
                    time.sleep(0.1)
                    continue
                checkpoint.ends.append(json.dumps(end))
                time.sleep(0.2)  # while Spark sends the tasks to its workers
            tasks = plan.tasks(start, json.loads(checkpoint.ends[number]))
            rows: list[bytes] = []
            for task in tasks:
                if worker is None or draw.random() < 0.1:  # another worker has this task
                    worker = a_worker(worker)
                rows += values(worker, task, options)
            checkpoint.rows.append(rows)
    finally:
        if worker is not None:
            worker.close()


def a_worker(before: KafkaConsumer | None) -> KafkaConsumer:
    """The consumer of a worker."""
    if before is not None:
        before.close()
    return KafkaConsumer(
        bootstrap_servers="kafka:9092",
        auto_offset_reset="none",
        enable_auto_commit=False,
        request_timeout_ms=3000,
    )


def values(
    worker: KafkaConsumer, task: Sequence[OffsetRange], options: SourceOptions
) -> list[bytes]:
    batches = read_ranges(worker, task, options, COLUMNS, clock=time.monotonic)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


GIVEN: dict[str, dict[str, str]] = {
    "earliest": {"startingOffsets": "earliest"},
    "limited": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "15"},
    "joined": {"startingOffsets": "earliest", "maxRecordsPerPartition": "5", "maxPartitions": "2"},
}


@pytest.mark.parametrize(
    ("seed", "how"), all_but_the_first(1, zip(seeds(4), itertools.cycle(GIVEN), strict=False))
)
def test_a_query_reads_every_record_once_whatever_happens_to_brokers_and_to_its_processes(
    seed: int, how: str
) -> None:
    checkpoint = Checkpoint()
    with Simulation(seed, brokers=3) as sim:
        orders = sim.topic("orders", partitions=3, records=30)
        sim.trickle(orders, per_second=8, seconds=25)
        sim.member(query, checkpoint, **GIVEN[how])

        sim.chaos(0.5, for_=30).run(for_=30)
        sim.heal().run(until=lambda: complete(checkpoint, orders), at_most=120)

    assert sorted(checkpoint.read) == sorted(orders.values)


def complete(checkpoint: Checkpoint, topic: Topic) -> bool:
    """Whether as many values were read as were written."""
    return len(checkpoint.read) >= len(topic.values)


def test_a_query_that_begins_at_the_end_loses_nothing_that_was_written_after_its_first_batch() -> (
    None
):
    for seed in seeds(6):
        checkpoint = Checkpoint()
        with Simulation(seed, brokers=3) as sim:
            orders = sim.topic("orders", partitions=3, records=30)
            member: Any = sim.member(query, checkpoint)
            sim.run(until=lambda at=checkpoint: bool(at.ends), at_most=60)
            before = len(orders.values)
            member.kill()
            orders.write(20)
            sim.replace(member)
            sim.run(until=lambda at=checkpoint: len(at.read) >= 20, at_most=120)

            assert sorted(checkpoint.read) == sorted(orders.values[before:])
