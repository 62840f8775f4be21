"""confluent-kafka, which is librdkafka: C, and in both group protocols."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.members import (
    Member,
    all_read,
    confluent_consumer,
    confluent_member,
    confluent_poll,
    confluent_settings,
    share,
)
from tests.clients.support import PARTITIONS, SOON_S, Record, numbered, produce, wait_until

Names = Callable[[str], str]

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def read(one: Any, count: int) -> list[Record]:
    """The next `count` records; fails if more come with them."""
    found: list[Record] = []
    wait_until(lambda: found.extend(confluent_poll(one)) or len(found) >= count, f"{count} records")
    assert len(found) == count
    return found


def send(producer: Any, topic: str, values: list[str]) -> list[str]:
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % len(PARTITIONS))
    assert producer.flush(SOON_S) == 0
    return values


# -- producing


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_idempotent_producer_is_acknowledged(
    kafka: EmbeddedKafka, topic: str, group: str, codec: str
) -> None:
    reports: list[Any] = []
    producer = Producer(confluent_settings(kafka, enable_idempotence=True, compression_type=codec))
    for number in range(20):
        producer.produce(
            topic,
            b"x" * 200,
            key=b"%d" % number,
            partition=0,
            headers=[("h", b"1"), ("h", None)],
            timestamp=1000 + number,
            on_delivery=lambda error, message: reports.append((error, message.offset())),
        )
    assert producer.flush(SOON_S) == 0

    assert reports == [(None, offset) for offset in range(20)]
    with closing(confluent_consumer(kafka, group)) as reader:
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages: list[Any] = []
        wait_until(
            lambda: messages.extend(reader.consume(20, timeout=0.1)) or len(messages) >= 20,
            "twenty records",
        )
    last = messages[-1]
    assert (last.key(), last.headers()) == (b"19", [("h", b"1"), ("h", None)])
    assert last.timestamp() == (1, 1019)


def test_records_that_nobody_acknowledges_arrive(kafka: EmbeddedKafka, topic: str) -> None:
    producer = Producer(confluent_settings(kafka, acks=0))

    send(producer, topic, numbered("value", 8))

    wait_until(lambda: kafka.end_offset(topic, 3) == 2, "the last records")


# -- transactions


def test_a_copying_application_commits_records_and_offsets_together(
    kafka: EmbeddedKafka, topic: str, group: str, unique: Names
) -> None:
    out = unique("out")
    kafka.create_topic(out, 4)
    produce(kafka, topic, numbered("value", 8))
    producer = Producer(confluent_settings(kafka, transactional_id=unique("txn")))
    producer.init_transactions(SOON_S)

    with closing(confluent_consumer(kafka, group, enable_auto_commit=False)) as reader:
        reader.subscribe([topic])
        for end in (producer.abort_transaction, producer.commit_transaction):
            found = read(reader, 8)
            places = reader.assignment()
            producer.begin_transaction()
            send(producer, out, [f"{end.__name__} {one.value}" for one in found])
            producer.send_offsets_to_transaction(
                reader.position(places), reader.consumer_group_metadata(), SOON_S
            )
            end(SOON_S)
            for place in places:
                reader.seek(TopicPartition(topic, place.partition, 0))

        assert kafka.committed(group) == {(topic, partition): 2 for partition in PARTITIONS}
    with closing(
        confluent_consumer(kafka, unique("reader"), isolation_level="read_committed")
    ) as reader:
        reader.subscribe([out])
        copied = [one.value for one in read(reader, 8)]
    assert sorted(copied) == [f"commit_transaction value-{number}" for number in range(8)]


def test_a_second_producer_with_the_same_name_fences_the_first(
    kafka: EmbeddedKafka, topic: str, unique: Names
) -> None:
    name = unique("txn")
    first = Producer(confluent_settings(kafka, transactional_id=name))
    first.init_transactions(SOON_S)
    first.begin_transaction()
    send(first, topic, ["lost"])

    second = Producer(confluent_settings(kafka, transactional_id=name))
    second.init_transactions(SOON_S)

    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(SOON_S)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    send(second, topic, ["kept"])
    second.commit_transaction(SOON_S)


# -- consuming in groups


@pytest.mark.parametrize(
    "more",
    [
        {"group_protocol": "classic", "partition_assignment_strategy": "range"},
        {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer", "group_remote_assignor": "range"},
        {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
    ],
    ids=["classic-range", "classic-cooperative-sticky", "consumer-range", "consumer-uniform"],
)
def test_members_of_a_group_share_the_partitions(
    kafka: EmbeddedKafka, topic: str, group: str, more: dict[str, Any]
) -> None:
    def join() -> Member:
        return confluent_member(kafka, [topic], group, **more)

    written = produce(kafka, topic, numbered("early", 40))
    with join() as alice:
        all_read([alice], written)
        with join() as bob:
            share([alice, bob])
            written += produce(kafka, topic, numbered("late", 40))
            all_read([alice, bob], written)
        share([alice])
        written += produce(kafka, topic, numbered("last", 4))
        all_read([alice, bob], written)


@PROTOCOLS
def test_an_incremental_rebalance_takes_away_only_what_moves(
    kafka: EmbeddedKafka, topic: str, group: str, protocol: str
) -> None:
    more: dict[str, Any] = {"group_protocol": protocol}
    if protocol == "classic":
        more["partition_assignment_strategy"] = "cooperative-sticky"
    events: list[tuple[str, list[int]]] = []

    def note(kind: str) -> Callable[[Any, Any], None]:
        return lambda _, places: events.append((kind, [one.partition for one in places]))

    listeners = {"on_assign": note("assigned"), "on_revoke": note("revoked")}
    with confluent_member(kafka, [topic], group, listeners=listeners, **more) as alice:
        share([alice])
        with confluent_member(kafka, [topic], group, **more) as bob:
            share([alice, bob])
            moved = sorted(bob.owned)

            assert [it for kind, it in events if kind == "revoked" and it] == [moved]
            assert sorted(events[0][1]) == list(PARTITIONS)


@PROTOCOLS
def test_topics_that_match_a_pattern_are_found_while_it_runs(
    kafka: EmbeddedKafka, group: str, unique: Names, protocol: str
) -> None:
    prefix = unique("pattern")
    kafka.create_topic(f"{prefix}-a", 4)
    pattern = f"^{prefix}-[ab]"

    with confluent_member(kafka, [pattern], group, group_protocol=protocol) as reader:
        written = produce(kafka, f"{prefix}-a", numbered("a", 4))
        all_read([reader], written)
        kafka.create_topic(f"{prefix}-b", 4)
        kafka.create_topic(f"{prefix}-c", 4)
        written += produce(kafka, f"{prefix}-b", numbered("b", 4))
        all_read([reader], written)


@PROTOCOLS
def test_a_static_member_comes_back_to_its_partitions(
    kafka: EmbeddedKafka, topic: str, group: str, protocol: str
) -> None:
    def join(name: str) -> Member:
        more: dict[str, Any] = {"group_protocol": protocol, "group_instance_id": name}
        return confluent_member(kafka, [topic], group, **more)

    with join("one") as stays:
        with join("two") as leaves:
            share([stays, leaves])
            had = leaves.owned
        with join("two") as back:
            share([stays, back])
            assert back.owned == had


def test_positions_are_found_by_time_and_offsets_are_committed(
    kafka: EmbeddedKafka, topic: str, group: str
) -> None:
    now = int(time.time() * 1000)
    producer = Producer(confluent_settings(kafka))
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=now + number * 10)
    assert producer.flush(SOON_S) == 0

    with closing(confluent_consumer(kafka, group)) as reader:
        (found,) = reader.offsets_for_times([TopicPartition(topic, 0, now + 35)], SOON_S)
        reader.assign([found])
        assert [one.value for one in read(reader, 6)] == ["4", "5", "6", "7", "8", "9"]
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), SOON_S) == (0, 10)

        reader.commit(offsets=[TopicPartition(topic, 0, 7, "note")], asynchronous=False)
        (committed,) = reader.committed([TopicPartition(topic, 0)], SOON_S)
        assert (committed.offset, committed.metadata) == (7, "note")


# -- administration


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Any:
    return AdminClient(confluent_settings(kafka))


def only(futures: dict[Any, Any]) -> Any:
    """The result of the one thing that was asked for."""
    (future,) = futures.values()
    return future.result(SOON_S)


def test_topics_are_administered(admin: Any, unique: Names) -> None:
    name = unique("admin")
    only(admin.create_topics([NewTopic(name, 2, 3, config={"retention.ms": "60000"})]))
    only(admin.create_partitions([NewPartitions(name, 5)]))
    resource = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("segment.ms", "5000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry(
                "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND
            ),
        ],
    )
    only(admin.incremental_alter_configs([resource]))

    described = admin.list_topics(name, timeout=SOON_S).topics[name]
    assert len(described.partitions) == 5
    assert all(sorted(one.replicas) == [1, 2, 3] for one in described.partitions.values())
    configs = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
    values = {key: configs[key].value for key in ("retention.ms", "segment.ms", "cleanup.policy")}
    assert values == {
        "retention.ms": "60000",
        "segment.ms": "5000",
        "cleanup.policy": "delete,compact",
    }

    only(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=SOON_S).topics


def test_records_are_deleted_and_offsets_listed(
    kafka: EmbeddedKafka, admin: Any, topic: str
) -> None:
    produce(kafka, topic, numbered("value", 40))

    deleted = only(admin.delete_records([TopicPartition(topic, 0, 4)]))

    assert deleted.low_watermark == 4
    for spec, offset in ((OffsetSpec.earliest(), 4), (OffsetSpec.latest(), 10)):
        listed = only(
            admin.list_offsets(
                {TopicPartition(topic, 0): spec}, isolation_level=IsolationLevel.READ_COMMITTED
            )
        )
        assert listed.offset == offset


@PROTOCOLS
def test_groups_are_administered(
    kafka: EmbeddedKafka, admin: Any, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, numbered("value", 8))
    with confluent_member(kafka, [topic], group, group_protocol=protocol) as reader:
        wait_until(lambda: len(reader.records) == 8, "eight records")
        described = only(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        assert described.type == ConsumerGroupType[protocol.upper()]
        (it,) = described.members
        assert sorted(place.partition for place in it.assignment.topic_partitions) == list(
            PARTITIONS
        )

    def empty() -> bool:
        listed = admin.list_consumer_groups(types={ConsumerGroupType[protocol.upper()]})
        states = {found.group_id: found.state for found in listed.result(SOON_S).valid}
        return bool(states[group] == ConsumerGroupState.EMPTY)

    wait_until(empty, "the member has left")
    wanted = [TopicPartition(topic, partition, 1) for partition in PARTITIONS]
    only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    found = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert sorted((place.partition, place.offset) for place in found.topic_partitions) == [
        (partition, 1) for partition in PARTITIONS
    ]
    only(admin.delete_consumer_groups([group]))
    assert kafka.committed(group) == {}


def test_the_cluster_is_described(kafka: EmbeddedKafka, admin: Any) -> None:
    described = admin.describe_cluster().result(SOON_S)

    assert [node.id for node in described.nodes] == [1, 2, 3]
    assert described.cluster_id == kafka.status()["cluster_id"]
