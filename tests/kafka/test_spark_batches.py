"""Batch queries have the rows of Spark's own Kafka source, whatever a topic has been through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.structs import TopicPartition
from pyspark.sql.functions import expr

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.real.topics import Transaction
from tests.kafka.spark_support import (
    NATIVE,
    OURS,
    SOURCES,
    assert_same_rows,
    batch,
    offsets,
)
from tests.kafka.support import numbered, wait_until

EVERY_CODEC: tuple[Any, ...] = (None, "gzip", "snappy", "lz4", "zstd")


def filled(kafka: Cluster, topic: str, *, partitions: int = 3, count: int = 40) -> None:
    """A topic with so many records in each partition, whose timestamps are 1000, 2000, ..."""
    configs = {"retention.ms": "-1"}
    topics.create_topic(kafka.bootstrap_servers, topic, partitions, configs=configs)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for number in range(count):
            for partition in range(partitions):
                producer.send(
                    topic,
                    value=b"%d-%d" % (partition, number),
                    partition=partition,
                    timestamp_ms=1000 * (number + 1),
                )
        producer.flush()


def test_keys_values_and_headers_are_those_of_sparks_own_source(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    # kafka-python's producer sends no record without both key and value.
    producer = Producer({"bootstrap.servers": ",".join(kafka.bootstrap_servers)})
    for key, value, headers in (
        (None, None, []),
        (b"", b"", []),
        (b"key", b"value", [("a", b"1"), ("a", b"2"), ("b", b"")]),
        (b"key", b"\x00\xff", [("", None), ("größe", b"\x00"), ("a", None)]),
        (None, b"no headers", []),
    ):
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(30) == 0

    found = assert_same_rows(spark, kafka, topic)

    assert [row[7] and [tuple(one) for one in row[7]] for row in found] == [
        None,
        None,
        [("a", b"1"), ("a", b"2"), ("b", b"")],
        [("", None), ("größe", b"\x00"), ("a", None)],
        None,
    ]
    assert [row[0] for row in found] == [None, b"", b"key", b"key", None]
    assert_same_rows(spark, kafka, topic, includeHeaders="false")


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_transactions_are_read_as_sparks_own_source_reads_them(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    address = kafka.bootstrap_servers
    topics.create_topic(address, topic, partitions=2)
    topics.produce(address, topic, ["plain"], partition=0)
    for number in range(3):
        with Transaction(address) as kept:
            kept.produce(topic, [f"kept-{number}"] * 2, partition=number % 2)
            kept.commit()
        with Transaction(address) as dropped:
            dropped.produce(topic, [f"dropped-{number}"] * 2, partition=0)
    for partition in range(2):
        topics.wait_for_markers(address, topic, partition)

    every = assert_same_rows(spark, kafka, topic)
    committed = assert_same_rows(spark, kafka, topic, **{"kafka.isolation.level": "read_committed"})
    with Transaction(address) as still_open:
        still_open.produce(topic, ["open"], partition=0)
        with_open = assert_same_rows(
            spark, kafka, topic, **{"kafka.isolation.level": "read_committed"}
        )

    assert len(every) == 13
    assert {bytes(row[1]).split(b"-")[0] for row in committed} == {b"plain", b"kept"}
    assert with_open == committed


@pytest.mark.real("the embedded Kafka does not compact")
def test_compacted_ranges_are_read_as_sparks_own_source_reads_them(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "1"}
    topics.create_topic(kafka.bootstrap_servers, topic, configs=configs)
    for number in range(4):
        for key in ("a", "b"):
            topics.produce(kafka.bootstrap_servers, topic, [f"{key}-{number}"] * 5, key=key)
    topics.produce(kafka.bootstrap_servers, topic, ["last"], key="c")
    cleaned = batch(spark, OURS, kafka, topic)
    # In the end one record of each key is left. The cleaner works in several rounds, and both
    # sources must read after the last of them.
    wait_until(lambda: cleaned.count() == 3, "the log cleaner has done all it can")

    found = assert_same_rows(spark, kafka, topic)
    first, last = offsets(found)[0], offsets(found)[-1]
    assert first > 0
    assert last == 40
    # A range that begins and ends with holes, one that is nothing but a hole, and many ranges.
    for start, end in ((1, last - 1), (0, first), (0, last + 1)):
        assert_same_rows(
            spark,
            kafka,
            topic,
            startingOffsets={topic: {"0": start}},
            endingOffsets={topic: {"0": end}},
            maxRecordsPerPartition=7,
        )


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_deleted_records_fail_a_batch_or_are_passed_over_as_the_option_says(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    filled(kafka, topic, partitions=1)
    with topics.admin(kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    deleted = {"startingOffsets": {topic: {"0": 5}}}

    assert offsets(assert_same_rows(spark, kafka, topic)) == list(range(15, 40))
    kept = assert_same_rows(spark, kafka, topic, failOnDataLoss="false", **deleted)
    assert offsets(kept) == list(range(15, 40))
    nothing = assert_same_rows(
        spark,
        kafka,
        topic,
        failOnDataLoss="false",
        endingOffsets={topic: {"0": 10}},
        **deleted,
    )
    assert nothing == []
    with pytest.raises(Exception, match=f"{topic}-0 .* from 15 to 40.*failOnDataLoss"):
        batch(spark, OURS, kafka, topic, **deleted).collect()
    with pytest.raises(Exception, match="Some data may have been lost"):
        batch(spark, NATIVE, kafka, topic, **deleted).collect()


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_records_of_ten_megabytes_are_read(spark: Any, kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, configs={"max.message.bytes": "20000000"})
    large = bytes(range(256)) * 40_000
    with topics.producer(kafka.bootstrap_servers, max_request_size=20_000_000) as producer:
        for value in (b"before", large, large[::-1], b"after"):
            producer.send(topic, value=value)
            producer.flush()

    found = assert_same_rows(spark, kafka, topic, includeHeaders="false")

    assert [bytes(row[1]) for row in found] == [b"before", large, large[::-1], b"after"]


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_every_codec_is_read(spark: Any, kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    for codec in EVERY_CODEC:
        topics.produce(kafka.bootstrap_servers, topic, numbered(300), compression=codec)

    assert len(assert_same_rows(spark, kafka, topic)) == 300 * len(EVERY_CODEC)


@pytest.mark.once("it takes 6 s")
def test_every_way_to_say_where_to_begin_and_end_means_the_same_rows(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    filled(kafka, topic)

    def each(first: int, second: int, third: int) -> dict[str, Any]:
        return {topic: {"0": first, "1": second, "2": third}}

    counts = [
        len(assert_same_rows(spark, kafka, topic, **options))
        for options in (
            {"startingOffsets": "earliest", "endingOffsets": "latest"},
            {"startingOffsets": each(-2, 7, 40), "endingOffsets": each(-1, 7, 40)},
            {"startingOffsets": each(0, 39, 12), "endingOffsets": each(40, 40, 13)},
            {"startingTimestamp": "20500"},
            {"startingTimestamp": "20500", "startingOffsets": each(0, 0, 0)},
            {"endingTimestamp": "10000"},
            {"endingTimestamp": "99000"},
            {"startingOffsetsByTimestamp": each(1, 20_000, 40_000)},
            {"endingOffsetsByTimestamp": each(1, 20_000, 99_000)},
            {
                "startingTimestamp": "99000",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {
                "startingOffsetsByTimestamp": each(1, 99_000, 40_000),
                "startingOffsetsByTimestampStrategy": "latest",
            },
        )
    ]

    assert counts == [120, 40, 42, 60, 60, 27, 120, 62, 59, 0, 41]


@pytest.mark.once("it takes 10 s, most of it in Spark's own source")
def test_what_cannot_be_meant_is_refused_as_sparks_own_source_refuses_it(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    filled(kafka, topic, partitions=2, count=1)

    for options in (
        {"startingOffsets": "latest"},
        {"startingOffsets": {topic: {"0": -1, "1": 0}}},
        {"startingOffsets": {topic: {"0": 0}}},
        {"startingOffsets": {topic: {"0": 0, "1": 0, "2": 0}}},
        {"endingOffsets": "earliest"},
        {"endingOffsets": {topic: {"0": -2, "1": 1}}},
        {"startingTimestamp": "99000"},
        {"startingTimestamp": "soon"},
        {"assign": {topic: [0]}},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.key.deserializer": "X"},
        {"kafka.interceptor.classes": "X"},
        {"minPartitions": "0"},
    ):
        for name in SOURCES:
            with pytest.raises(Exception):  # noqa: B017 - each has an error of its own
                print(name, options, batch(spark, name, kafka, topic, **options).collect())


@pytest.mark.once("it takes 10 s, and Spark decides which task reads what")
def test_tasks_have_the_ranges_of_sparks_own_source(spark: Any, kafka: Cluster, topic: str) -> None:
    filled(kafka, topic, partitions=2, count=50)
    topics.produce(kafka.bootstrap_servers, topic, numbered(130), partition=0)

    for options in (
        {"minPartitions": 1},
        {"minPartitions": 5},
        {"minPartitions": 9},
        {"maxRecordsPerPartition": 60, "minPartitions": 7},
    ):
        ours, native = (_ranges(batch(spark, name, kafka, topic, **options)) for name in SOURCES)
        assert ours == native, options

    # In batch queries Spark's own source (4.2.0) looks at maxRecordsPerPartition only if
    # minPartitions makes it split at all; ours always does. Streams are alike.
    assert len(_ranges(batch(spark, OURS, kafka, topic, maxRecordsPerPartition=7))) == 26 + 8


def _ranges(frame: Any) -> list[Any]:
    """Partition, first and last offset of each task."""
    found = frame.selectExpr("spark_partition_id() task", "partition", "offset").groupBy(
        "task", "partition"
    )
    return sorted(
        tuple(row)[1:] for row in found.agg(expr("min(offset)"), expr("max(offset)")).collect()
    )


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_what_to_read_is_said_by_assign_or_by_a_pattern_as_well(
    spark: Any, kafka: Cluster, unique: Callable[[str], str]
) -> None:
    base = unique("orders")
    names = [f"{base}.{kind}" for kind in ("new", "old")]
    for name in names:
        filled(kafka, name, partitions=2, count=10)

    assigned = assert_same_rows(spark, kafka, assign={names[0]: [1], names[1]: [0, 1]})
    both = assert_same_rows(spark, kafka, subscribe=f"{names[1]},{names[0]}")
    pattern = assert_same_rows(spark, kafka, subscribePattern=f"{base}\\.(new|old)")
    part = assert_same_rows(spark, kafka, subscribePattern=f"{base}.n.*")
    some = assert_same_rows(spark, kafka, subscribePattern=f"{base[:-3]}.*.ol")

    assert len(assigned) == 30
    assert both == pattern
    assert {row[2] for row in part} == {names[0]}
    assert {row[2] for row in some} == {names[1]}, "a pattern may match a part of a name"
