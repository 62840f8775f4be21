"""Records: what a producer wrote is what the application gets, field by field."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import kafka as kafka_python
import pytest
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import IllegalStateError, UnknownTopicOrPartitionError
from kafka.serializer import Deserializer

from aktor import TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.real.topics import Transaction
from tests.kafka.support import (
    SOON_S,
    batches,
    numbered,
    offsets,
    poll,
    poll_until,
    quick,
    read,
    read_for,
    read_through,
    values,
    wait_until,
)

#: gzip is in the standard library; the others need cramjam to be read.
COMPRESSIONS = pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])


@pytest.fixture
def fresh(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of an empty topic."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    return TopicPartition(topic, 0)


def all_of(kafka: Cluster, partition: TopicPartition, **settings: Any) -> list[Any]:
    """Everything up to the end, as a new consumer is given it. No transaction may be open."""
    end = topics.wait_for_markers(kafka.bootstrap_servers, *partition)
    with quick(kafka, **settings) as consumer:
        consumer.assign([partition])
        return poll_until(consumer, lambda: consumer.position(partition) == end, "the end")


def theirs(kafka: Cluster, partition: TopicPartition, **settings: Any) -> list[Any]:
    """The same from kafka-python's consumer."""
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False, **settings
    )
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        return poll_until(consumer, lambda: consumer.position(partition) == end, "the end")
    finally:
        consumer.close()


@COMPRESSIONS
def test_every_field_of_every_record_is_what_the_other_library_gives(
    kafka: Cluster, fresh: TopicPartition, compression: Any
) -> None:
    address, topic = kafka.bootstrap_servers, fresh.topic
    topics.produce(address, topic, numbered(200), compression=compression, key="k")
    topics.produce(address, topic, [None, "", "x" * 5000], compression=compression, key="")
    topics.produce(address, topic, ["t"], compression=compression, timestamp=1_234_567_890_123)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("ünï", bytes(range(256)))]
    topics.produce(address, topic, ["h"], compression=compression, headers=headers)

    ours = all_of(kafka, fresh)

    assert ours == theirs(kafka, fresh)
    assert all(type(record) is ConsumerRecord for record in ours)
    assert ours[-1].headers == headers
    assert ours[-2].timestamp == 1_234_567_890_123
    assert values(ours)[200:203] == [None, b"", b"x" * 5000]


@COMPRESSIONS
def test_large_batches_are_read_completely_in_every_compression(
    kafka: Cluster, fresh: TopicPartition, compression: str | None
) -> None:
    wanted = [f"{number:06}-{'payload' * 20}".encode() for number in range(20_000)]
    batches(kafka, fresh.topic, wanted, compression_type=compression, batch_size=500_000)

    assert values(all_of(kafka, fresh)) == wanted


def test_null_keys_and_values_and_empty_ones_are_told_apart(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    with topics.producer(kafka.bootstrap_servers) as producer:
        for key in (None, b"", b"k"):
            for value in (None, b"", b"v"):
                if (key, value) != (None, None):  # which this producer refuses
                    producer.send(fresh.topic, key=key, value=value)

    records = all_of(kafka, fresh)

    assert [(record.key, record.value) for record in records] == [
        (key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")
    ][1:]


@pytest.mark.parametrize(("kind", "number"), [("CreateTime", 0), ("LogAppendTime", 1)])
def test_the_time_of_a_record_is_its_makers_or_the_brokers(
    kafka: Cluster, topic: str, kind: str, number: int
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, configs={"message.timestamp.type": kind})
    before = int(time.time() * 1000) - 1000
    topics.produce(kafka.bootstrap_servers, topic, ["a", "b"], timestamp=before - 3_600_000)

    partition = TopicPartition(topic, 0)
    records = all_of(kafka, partition)

    assert records == theirs(kafka, partition)
    assert {record.timestamp_type for record in records} == {number}
    assert all((record.timestamp >= before) == bool(number) for record in records)


def test_a_record_far_larger_than_a_fetch_is_still_delivered(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    large = bytes(range(256)) * 3600
    topics.produce(kafka.bootstrap_servers, fresh.topic, ["before", large, "after"])

    records = all_of(kafka, fresh, max_partition_fetch_bytes=1024, fetch_max_bytes=2048)

    assert values(records) == [b"before", large, b"after"]


class _Latin1(str):
    """The name of a header that a careless producer writes in another encoding than UTF-8."""

    def encode(self, *_: Any) -> bytes:
        return super().encode("latin-1")


def test_a_headers_name_that_is_not_utf_8_is_read_with_a_replacement(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    with topics.producer(kafka.bootstrap_servers) as producer:
        producer.send(fresh.topic, b"first", headers=[(_Latin1("größe"), b"1")]).get(20)
        producer.send(fresh.topic, b"second", headers=[("größe", b"2")]).get(20)

    with quick(kafka, fresh.topic) as consumer:
        records = read(consumer, 2)

    assert values(records) == [b"first", b"second"]
    assert [one.headers for one in records] == [
        [("gr\ufffd\ufffde", b"1")],
        [("größe", b"2")],
    ]


def test_small_fetches_read_many_batches_without_a_gap(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    wanted = numbered(2000)
    batches(kafka, fresh.topic, wanted, batch_size=500)

    assert values(all_of(kafka, fresh, max_partition_fetch_bytes=1500)) == wanted


def test_a_committed_reader_skips_what_was_aborted_and_everyone_else_sees_it(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    address = kafka.bootstrap_servers
    topics.produce(address, fresh.topic, ["plain"])
    for number in range(3):
        with Transaction(address) as kept:
            kept.produce(fresh.topic, [f"kept-{number}"])
            kept.commit()
        with Transaction(address) as dropped:
            dropped.produce(fresh.topic, [f"dropped-{number}"])
    topics.produce(address, fresh.topic, ["last"])

    committed = values(all_of(kafka, fresh, isolation_level="read_committed"))
    uncommitted = values(all_of(kafka, fresh, isolation_level="read_uncommitted"))

    assert committed == [b"plain", b"kept-0", b"kept-1", b"kept-2", b"last"]
    assert len(uncommitted) == 8
    assert set(committed) < set(uncommitted)


def test_interleaved_transactions_are_told_apart(kafka: Cluster, fresh: TopicPartition) -> None:
    address = kafka.bootstrap_servers
    with Transaction(address) as kept, Transaction(address) as dropped:
        for number in range(3):
            kept.produce(fresh.topic, [f"kept-{number}"])
            dropped.produce(fresh.topic, [f"dropped-{number}"])
        dropped.abort()
        kept.produce(fresh.topic, ["kept-3"])
        kept.commit()

    records = all_of(kafka, fresh, isolation_level="read_committed")

    assert values(records) == [b"kept-0", b"kept-1", b"kept-2", b"kept-3"]


def test_a_committed_reader_waits_for_an_open_transaction_and_then_goes_on(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    address = kafka.bootstrap_servers
    with (
        quick(kafka, fresh.topic, isolation_level="read_committed") as consumer,
        Transaction(address) as transaction,
    ):
        transaction.produce(fresh.topic, ["inside"])
        topics.produce(address, fresh.topic, ["behind"])
        assert read_for(consumer, 0.5) == []
        assert consumer.end_offsets([fresh]) == {fresh: 0}

        transaction.commit()
        assert values(read(consumer, 2)) == [b"inside", b"behind"]


def test_the_position_moves_past_control_batches_and_the_lag_becomes_zero(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    with Transaction(kafka.bootstrap_servers) as transaction:
        transaction.produce(fresh.topic, ["a", "b"])
        transaction.commit()

    with quick(kafka, fresh.topic, isolation_level="read_committed") as consumer:
        assert offsets(read(consumer, 2)) == [0, 1]
        poll_until(consumer, lambda: consumer.position(fresh) == 3, "past the marker")

        assert consumer.status().lag == 0


def test_a_partition_of_nothing_but_aborted_records_is_passed_over_to_its_end(
    kafka: Cluster, fresh: TopicPartition
) -> None:
    for _ in range(3):
        with Transaction(kafka.bootstrap_servers) as transaction:
            transaction.produce(fresh.topic, numbered(5))

    with quick(kafka, fresh.topic, isolation_level="read_committed") as consumer:
        records = poll_until(
            consumer,
            lambda: consumer.assignment() and consumer.position(fresh) == 18,
            "the end of the aborted records",
        )

        assert records == []
        topics.produce(kafka.bootstrap_servers, fresh.topic, ["at last"])
        assert values(read(consumer, 1)) == [b"at last"]


def test_a_compacted_topic_is_read_over_its_holes(kafka: Cluster, topic: str) -> None:
    # Each producer's record comes later than a segment may last, so it begins a new one. All but
    # the last segment are cleaned.
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "1"}
    topics.create_topic(kafka.bootstrap_servers, topic, configs=configs)
    partition = TopicPartition(topic, 0)
    for key, value in [("first", "0"), *(("same", f"{n}") for n in range(1, 6)), ("last", "6")]:
        topics.produce(kafka.bootstrap_servers, topic, [value], key=key)
    wait_until(lambda: len(theirs(kafka, partition)) == 3, "the log cleaner has done all it can")

    records = all_of(kafka, partition)

    assert values(records) == [b"0", b"5", b"6"]
    assert offsets(records) == [0, 5, 6]


def test_deserializers_are_given_every_key_and_value(kafka: Cluster, fresh: TopicPartition) -> None:
    class Json(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            return None if data is None else json.loads(data)

    class Text(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            return f"{topic}:{data.decode()}" if data is not None else "nobody"

    topics.produce(kafka.bootstrap_servers, fresh.topic, ['{"a": 1}', None], key="me")
    topics.produce(kafka.bootstrap_servers, fresh.topic, ["[2]"])
    settings = {"value_deserializer": Json(), "key_deserializer": Text()}

    ours = all_of(kafka, fresh, **settings)

    assert values(ours) == [{"a": 1}, None, [2]]
    assert [record.key for record in ours] == [f"{fresh.topic}:me"] * 2 + ["nobody"]
    assert ours == theirs(kafka, fresh, **settings)


def test_a_topic_created_later_is_found_and_read_from_its_start(
    kafka: Cluster, topic: str, group: str
) -> None:
    with quick(kafka, topic, group_id=group) as consumer:
        # Nobody knows the topic yet: that is an error now and then, and no reason to give up.
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.poll(20_000)
        topics.create_topic(kafka.bootstrap_servers, topic)
        topics.produce(kafka.bootstrap_servers, topic, numbered(3))

        found, _ = read_through(consumer, 3, UnknownTopicOrPartitionError)
        assert values(found) == numbered(3)


@pytest.mark.parametrize("grouped", [True, False])
def test_partitions_added_while_reading_lose_nothing(
    kafka: Cluster, topic: str, group: str, grouped: bool
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)

    settings = {"group_id": group, "enable_auto_commit": True} if grouped else {}
    with quick(kafka, topic, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "the first partition is assigned")
        topics.add_partitions(kafka.bootstrap_servers, topic, 3)
        for partition in range(3):
            topics.produce(kafka.bootstrap_servers, topic, numbered(5), partition=partition)

        records = read(consumer, 15)
        for partition in range(3):
            assert offsets(r for r in records if r.partition == partition) == [0, 1, 2, 3, 4]
        assert len(consumer.assignment()) == 3


@pytest.mark.parametrize("by", ["assign", "group"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_topic_created_anew_is_read_from_its_start_though_it_is_longer_by_then(
    kafka: Cluster, topic: str, group: str, by: str, commits: bool
) -> None:
    """At the offset of the old topic half of the new one would be skipped."""
    servers = kafka.bootstrap_servers
    topics.create_topic(servers, topic)
    topics.produce(servers, topic, numbered(1000))

    with quick(kafka, group_id=group, enable_auto_commit=False) as consumer:
        if by == "assign":
            consumer.assign([TopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        read(consumer, 1000)
        if commits:
            consumer.commit()
        topics.delete_topic(servers, topic)
        topics.create_topic(servers, topic)
        topics.produce(servers, topic, numbered(2000))

        found, _ = read_through(consumer, 2000, UnknownTopicOrPartitionError)

    assert offsets(found) == list(range(2000))


def test_a_topic_deleted_while_reading_does_not_disturb_the_others(
    kafka: Cluster, topic: str, group: str
) -> None:
    doomed, stays = f"{topic}-doomed", f"{topic}-stays"
    for name in (doomed, stays):
        topics.create_topic(kafka.bootstrap_servers, name)
        topics.produce(kafka.bootstrap_servers, name, numbered(2))

    settings = {"group_id": group, "enable_auto_commit": True}
    with quick(kafka, doomed, stays, **settings) as consumer:
        read(consumer, 4)
        topics.delete_topic(kafka.bootstrap_servers, doomed)
        topics.produce(kafka.bootstrap_servers, stays, ["still here"])

        found, told = read_through(consumer, 1, UnknownTopicOrPartitionError)
        deadline = time.monotonic() + SOON_S
        while consumer.assignment() != {TopicPartition(stays, 0)}:
            assert time.monotonic() < deadline, consumer.assignment()
            with contextlib.suppress(UnknownTopicOrPartitionError):
                found += poll(consumer)
        assert all(doomed in str(error) for error in told)
        assert values(found) == [b"still here"]


def test_a_topic_deleted_and_created_again_is_read_from_its_start(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(5))

    with quick(kafka, topic, group_id=group) as consumer:
        read(consumer, 5)
        topics.delete_topic(kafka.bootstrap_servers, topic)
        topics.create_topic(kafka.bootstrap_servers, topic)
        topics.produce(kafka.bootstrap_servers, topic, ["reborn-0", "reborn-1"])

        found, _ = read_through(consumer, 2, UnknownTopicOrPartitionError)
        assert values(found) == [b"reborn-0", b"reborn-1"]


def test_a_range_is_not_of_a_topic_that_is_created_anew_while_it_is_read(
    kafka: Cluster, topic: str
) -> None:
    pytest.importorskip("pyarrow")
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(5))
    done: list[int] = []

    def recreate(_done: int, _all: int) -> None:
        if not done:
            done.append(1)
            topics.delete_topic(kafka.bootstrap_servers, topic)
            topics.create_topic(kafka.bootstrap_servers, topic)
            topics.produce(kafka.bootstrap_servers, topic, numbered(9))

    with quick(kafka, group_id=None, metadata_max_age_ms=500) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(IllegalStateError, match="created anew"):
            consumer.to_table("earliest", {TopicPartition(topic, 0): 9}, progress=recreate)
