"""Tasks one after the other on the consumer of one worker: each gets its records, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer

from aktor.broker import EmbeddedKafka
from aktor.spark.offsets.ranges import OffsetRange
from aktor.spark.options.source import read_options
from aktor.spark.tasks import worker
from aktor.spark.tasks.columns import Layout
from tests.spark.harness import the_schema

#: Offsets of each partition; the records of every other transaction are aborted.
END = 60
PARTITIONS = 3

a_range = st.builds(
    lambda partition, start, size: OffsetRange("ranges", partition, start, min(END, start + size)),
    st.integers(0, PARTITIONS - 1),
    st.integers(0, END - 1),
    st.integers(1, END),
)
#: The ranges of each task, and after how many batches Spark stops it (None: it reads all).
tasks = st.lists(
    st.tuples(
        st.lists(a_range, min_size=1, max_size=4, unique_by=lambda one: one.partition),
        st.one_of(st.none(), st.none(), st.just(0), st.just(1)),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """A topic whose partitions have committed and aborted transactions in turn."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("ranges", PARTITIONS)
        producer = KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, transactional_id="ranges"
        )
        producer.init_transactions()
        for number in range(END // 6):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                for _ in range(5):
                    producer.send("ranges", b"%d" % (number % 2), partition=partition)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.close()
        yield kafka
        worker._drop()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tasks=tasks)
def test_a_task_gets_the_records_of_its_ranges_whatever_was_read_before(
    kafka: EmbeddedKafka, isolation: str, tasks: list[tuple[list[OffsetRange], int | None]]
) -> None:
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": "ranges",
        "kafka.isolation.level": isolation,
        "kafkaConsumer.pollTimeoutMs": "5000",
    }
    options, layout = read_options(given, stream=False), Layout(the_schema(given), decode=None)

    for ranges, stop_after in tasks:
        batches = worker.read_task(ranges, options, layout)
        found = []
        for number, batch in enumerate(batches):
            if number == stop_after:
                batches.close()  # type: ignore[attr-defined]
                break
            found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
        expected = [
            (one.partition, offset)
            for one in ranges
            for offset in range(one.start, one.end)
            if offset % 6 != 5 and (isolation == "read_uncommitted" or offset // 6 % 2 == 0)
        ]
        if stop_after is None:
            assert sorted(found) == sorted(expected)
        else:
            assert set(found) <= set(expected)
            assert len(set(found)) == len(found)
