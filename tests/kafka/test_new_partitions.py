"""With "latest", new partitions are read from their first record, and old ones from their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from aktor import KafkaConsumer, TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import numbered, poll_until, quick, read, read_for, read_through

LATEST = {
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 100,
    "metadata_max_age_ms": 1_000,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def values(records: list[Any]) -> list[bytes]:
    """What was written, in order of the numbers in it."""
    return sorted(record.value for record in records)


@pytest.fixture
def grows(kafka: Cluster, topic: str) -> str:
    """A topic of one partition, with records from before anybody reads it."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, [b"old"] * 5)
    return topic


def grown(kafka: Cluster, topic: str, total: int, wanted: list[bytes]) -> None:
    """The topic gets partitions, and records in the last one before anybody notices it."""
    topics.add_partitions(kafka.bootstrap_servers, topic, total)
    topics.produce(kafka.bootstrap_servers, topic, wanted, partition=total - 1)


def settled(consumer: KafkaConsumer, *partitions: TopicPartition) -> None:
    """Poll until these positions are committed."""
    poll_until(
        consumer,
        lambda: all(consumer.committed(one) is not None for one in partitions),
        "positions are committed",
    )


@PROTOCOLS
def test_what_is_written_to_a_new_partition_before_it_is_noticed_is_read(
    kafka: Cluster, grows: str, group: str, protocol: str
) -> None:
    wanted = numbered(10)
    with quick(kafka, grows, group_id=group, group_protocol=protocol, **LATEST) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        settled(consumer, TopicPartition(grows, 0))
        grown(kafka, grows, 2, wanted)

        assert values(read(consumer, 10)) == sorted(wanted)


@PROTOCOLS
def test_whoever_wants_kafka_pythons_way_gets_it(
    kafka: Cluster, grows: str, group: str, protocol: str
) -> None:
    way = {**LATEST, "auto_offset_reset_new_partitions": "latest", "group_protocol": protocol}
    with quick(kafka, grows, group_id=group, **way) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        grown(kafka, grows, 2, numbered(10))
        new = TopicPartition(grows, 1)

        records = poll_until(consumer, lambda: new in consumer.assignment(), "it is assigned")
        assert consumer.position(new) == 10
        assert records == []


@PROTOCOLS
def test_a_member_that_joins_after_the_topic_has_grown_decides_the_same(
    kafka: Cluster, grows: str, group: str, protocol: str
) -> None:
    wanted = numbered(10)
    settings = {"group_id": group, "group_protocol": protocol, **LATEST}
    with quick(kafka, grows, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        settled(consumer, TopicPartition(grows, 0))
    grown(kafka, grows, 2, wanted)

    with quick(kafka, grows, **settings) as consumer:
        assert values(read(consumer, 10)) == sorted(wanted)


@PROTOCOLS
def test_the_next_owner_of_an_idle_partition_reads_no_old_records(
    kafka: Cluster, topic: str, group: str, protocol: str
) -> None:
    """Nothing was read of it, and its position was committed all the same."""
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=3)
    topics.produce(kafka.bootstrap_servers, topic, [b"old"] * 5, partition=2)
    settings = {"group_id": group, "group_protocol": protocol, **LATEST}
    with quick(kafka, topic, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partitions")
        settled(consumer, *(TopicPartition(topic, one) for one in range(3)))
        topics.produce(kafka.bootstrap_servers, topic, [b"new"], partition=0)
        read(consumer, 1)

    with quick(kafka, topic, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "the next one has them")
        assert read_for(consumer, 0.5) == []
        assert consumer.position(TopicPartition(topic, 2)) == 5


@PROTOCOLS
@pytest.mark.parametrize(
    "committed", [{}, {1: 0}, {0: 0, 2: 0}], ids=["nothing", "not the first", "with a gap"]
)
def test_where_a_group_commits_only_what_it_has_read_old_records_are_not_read(
    kafka: Cluster, topic: str, group: str, protocol: str, committed: dict[int, int]
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=4)
    topics.produce(kafka.bootstrap_servers, topic, [b"old"] * 5, partition=3)
    with quick(kafka, group_id=group, enable_auto_commit=False) as consumer:
        if committed:
            consumer.commit(
                {
                    TopicPartition(topic, one): OffsetAndMetadata(at, "", -1)
                    for one, at in committed.items()
                }
            )

    with quick(kafka, topic, group_id=group, group_protocol=protocol, **LATEST) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partitions")
        assert consumer.position(TopicPartition(topic, 3)) == 5


@PROTOCOLS
@pytest.mark.parametrize("automatic", [False, True])
def test_what_the_owner_of_a_new_partition_did_not_commit_is_read_by_the_next_one(
    kafka: Cluster, grows: str, group: str, protocol: str, *, automatic: bool
) -> None:
    """Though others have committed for partitions with higher numbers."""
    wanted, new = numbered(10), TopicPartition(grows, 1)
    settings = {**LATEST, "group_id": group, "group_protocol": protocol}
    with quick(kafka, grows, **settings) as consumer:
        settled(consumer, TopicPartition(grows, 0))
    grown(kafka, grows, 2, wanted)
    topics.add_partitions(kafka.bootstrap_servers, grows, 3)
    with quick(kafka, group_id=group, enable_auto_commit=False) as another:
        another.commit({TopicPartition(grows, 2): OffsetAndMetadata(0, "", -1)})
        assert another.committed(new) is None

    with quick(kafka, grows, **{**settings, "enable_auto_commit": automatic}) as consumer:
        assert values(read(consumer, 10)) == sorted(wanted)


@PROTOCOLS
def test_without_auto_commit_a_partition_is_new_that_no_commit_knows(
    kafka: Cluster, grows: str, group: str, protocol: str
) -> None:
    """The application sees no note, and its own metadata is kept."""
    old, wanted = TopicPartition(grows, 0), numbered(10)
    settings = {**LATEST, "enable_auto_commit": False, "group_protocol": protocol}
    with quick(kafka, grows, group_id=group, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        assert consumer.position(old) == 5
        consumer.commit({old: OffsetAndMetadata(5, "mine", -1)})
        assert consumer.committed(old, metadata=True).metadata == "mine"
        consumer.commit()
        assert consumer.committed(old, metadata=True).metadata == ""
    grown(kafka, grows, 2, wanted)

    with quick(kafka, grows, group_id=group, **settings) as consumer:
        assert values(read(consumer, 10)) == sorted(wanted)


@PROTOCOLS
def test_where_commits_have_no_notes_and_none_is_automatic_only_what_a_member_has_seen_counts(
    kafka: Cluster, grows: str, group: str, protocol: str
) -> None:
    settings = {**LATEST, "enable_auto_commit": False, "group_protocol": protocol}
    with quick(kafka, grows, group_id=group, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        consumer.commit({TopicPartition(grows, 0): OffsetAndMetadata(5, "mine", -1)})
        grown(kafka, grows, 2, numbered(10))
        assert values(read(consumer, 10)) == sorted(numbered(10))

    with quick(kafka, grows, group_id=group, **settings) as consumer:
        poll_until(consumer, consumer.assignment, "the next one has them")
        assert consumer.position(TopicPartition(grows, 1)) == 10


@pytest.mark.parametrize(
    "how",
    [{"group_id": None}, {"group_protocol": "classic"}, {"group_protocol": "consumer"}],
    ids=["without a group", "classic", "consumer"],
)
def test_a_topic_that_is_created_anew_is_read_from_its_first_record(
    kafka: Cluster, grows: str, group: str, how: dict[str, Any]
) -> None:
    """All of it was written after the subscription."""
    servers, wanted = kafka.bootstrap_servers, numbered(10)
    with quick(kafka, grows, **{**LATEST, "group_id": group, **how}) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        assert consumer.position(TopicPartition(grows, 0)) == 5
        topics.delete_topic(servers, grows)
        topics.create_topic(servers, grows)
        topics.produce(servers, grows, wanted)

        found, _ = read_through(consumer, 10, UnknownTopicOrPartitionError)
        assert values(found) == sorted(wanted)


def test_without_a_group_new_partitions_are_read_from_their_first_record(
    kafka: Cluster, grows: str
) -> None:
    wanted = numbered(10)
    with quick(kafka, grows, **{**LATEST, "enable_auto_commit": False}) as consumer:
        poll_until(consumer, consumer.assignment, "it has the partition")
        assert consumer.position(TopicPartition(grows, 0)) == 5
        grown(kafka, grows, 2, wanted)

        assert values(read(consumer, 10)) == sorted(wanted)


def test_what_is_assigned_by_hand_begins_where_the_policy_says(kafka: Cluster, grows: str) -> None:
    with quick(kafka, **{**LATEST, "enable_auto_commit": False}) as consumer:
        consumer.assign([TopicPartition(grows, 0)])
        assert consumer.position(TopicPartition(grows, 0)) == 5
        grown(kafka, grows, 2, numbered(10))
        time.sleep(1.5)
        consumer.assign([TopicPartition(grows, 0), TopicPartition(grows, 1)])

        assert consumer.position(TopicPartition(grows, 1)) == 10


@PROTOCOLS
@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_topic_that_comes_into_being_is_read_from_its_first_record(
    kafka: Cluster, unique: Callable[[str], str], group: str, protocol: str, by_pattern: bool
) -> None:
    family = unique("family")
    old, new = f"{family}-old", f"{family}-new"
    topics.create_topic(kafka.bootstrap_servers, old)
    topics.produce(kafka.bootstrap_servers, old, [b"old"] * 5)
    settings = {"group_id": group, "group_protocol": protocol, **LATEST}
    with quick(kafka, allow_auto_create_topics=False, **settings) as consumer:
        if by_pattern:
            consumer.subscribe(pattern=f"{family}-.*")
        else:
            consumer.subscribe([old, new])
        poll_until(consumer, consumer.assignment, "it has the old topic")
        read_for(consumer, 1.0)

        topics.create_topic(kafka.bootstrap_servers, new)
        topics.produce(kafka.bootstrap_servers, new, numbered(10))

        assert values(read(consumer, 10)) == sorted(numbered(10))


@PROTOCOLS
def test_a_subscription_to_an_old_topic_begins_at_its_end(
    kafka: Cluster, grows: str, unique: Callable[[str], str], group: str, protocol: str
) -> None:
    """It is new to the group, but was there before."""
    other = topics.create_topic(kafka.bootstrap_servers, unique("other"), partitions=2)
    settings = {"group_id": group, "group_protocol": protocol, **LATEST}
    with quick(kafka, other, **settings) as consumer:
        settled(consumer, TopicPartition(other, 0), TopicPartition(other, 1))
        consumer.subscribe([grows, other])
        old = TopicPartition(grows, 0)

        poll_until(consumer, lambda: old in consumer.assignment(), "it has the old topic")
        assert consumer.position(old) == 5
