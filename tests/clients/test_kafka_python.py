"""kafka-python, its own producer, consumer and admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
    TransactionState,
)
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    NoError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.members import (
    Member,
    all_read,
    kafka_python_consumer,
    kafka_python_member,
    share,
)
from tests.clients.support import PARTITIONS, SOON_S, numbered, produce, wait_until

Names = Callable[[str], str]


def poll(one: KafkaConsumer) -> list[Any]:
    return [it for records in one.poll(timeout_ms=10_000).values() for it in records]


def read(one: KafkaConsumer, count: int) -> list[Any]:
    """The next `count` records; fails if more come with them."""
    found: list[Any] = []
    wait_until(lambda: found.extend(poll(one)) or len(found) >= count, f"{count} records")
    assert len(found) == count
    return found


def values(records: Sequence[Any]) -> list[str]:
    return sorted(one.value.decode() for one in records)


class Rebalances(ConsumerRebalanceListener):
    """Counts them."""

    count = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing to do."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """One more."""
        self.count += 1


# -- producing


@pytest.mark.parametrize(
    "settings",
    [{}, {"acks": "all"}, {"acks": 1, "enable_idempotence": False}],
    ids=["idempotent", "acks-all", "acks-1"],
)
def test_records_come_back_as_they_were_sent(
    kafka: EmbeddedKafka, topic: str, settings: dict[str, Any]
) -> None:
    place = TopicPartition(topic, 2)

    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        sent = producer.send(
            topic, key=b"k", value=b"v", headers=[("h", b"1")], partition=2, timestamp_ms=1234
        ).get(timeout=SOON_S)
        tombstone = producer.send(topic, key=b"k", partition=2).get(timeout=SOON_S)

    assert (sent.offset, sent.timestamp, tombstone.offset) == (0, 1234, 1)
    with kafka_python_consumer(kafka) as reader:
        reader.assign([place])
        first, second = read(reader, 2)
    assert (first.key, first.value, first.headers) == (b"k", b"v", [("h", b"1")])
    assert (first.timestamp, first.timestamp_type, first.leader_epoch) == (1234, 0, 0)
    assert (second.offset, second.value) == (1, None)


def test_records_that_nobody_acknowledges_arrive(kafka: EmbeddedKafka, topic: str) -> None:
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, acks=0, enable_idempotence=False
    ) as producer:
        for number in range(10):
            producer.send(topic, value=b"%d" % number, partition=0)
        producer.flush(timeout=SOON_S)

    wait_until(lambda: kafka.end_offset(topic) == 10, "ten records")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_taken_and_given(
    kafka: EmbeddedKafka, topic: str, codec: str
) -> None:
    written = produce(
        kafka, topic, [f"{number}-" + "x" * 500 for number in range(40)], compression_type=codec
    )

    with kafka_python_consumer(kafka, topic) as reader:
        assert values(read(reader, 40)) == sorted(written)


def test_a_topic_that_is_asked_for_is_made(kafka: EmbeddedKafka, unique: Names) -> None:
    name = unique("new")

    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        assert producer.send(name, b"v").get(timeout=SOON_S).offset == 0


# -- transactions


def test_what_was_committed_is_read_and_what_was_aborted_is_not(
    kafka: EmbeddedKafka, topic: str, unique: Names
) -> None:
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique("txn")
    ) as producer:
        producer.init_transactions()
        for number, end in enumerate(["commit", "abort", "commit"]):
            producer.begin_transaction()
            for partition in PARTITIONS:
                producer.send(topic, value=f"{end}-{number}".encode(), partition=partition)
            producer.flush(timeout=SOON_S)
            getattr(producer, f"{end}_transaction")()
        producer.begin_transaction()
        producer.send(topic, value=b"open", partition=0).get(timeout=SOON_S)

        with kafka_python_consumer(kafka, topic, isolation_level="read_committed") as reader:
            committed = values(read(reader, 8))
            end = reader.end_offsets([TopicPartition(topic, 0)])
        with kafka_python_consumer(kafka, topic) as reader:
            everything = values(read(reader, 13))
        producer.abort_transaction()

    assert committed == ["commit-0"] * 4 + ["commit-2"] * 4
    assert everything == sorted([*committed, *["abort-1"] * 4, "open"])
    assert end == {TopicPartition(topic, 0): 6}  # three records and their markers


def test_offsets_count_with_the_transaction_that_sends_them(
    kafka: EmbeddedKafka, topic: str, group: str, unique: Names
) -> None:
    produce(kafka, topic, numbered("in", 4))
    out = unique("out")
    place = TopicPartition(topic, 1)

    with (
        kafka_python_consumer(kafka, topic, group_id=group) as reader,
        KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique("txn")
        ) as producer,
    ):
        read(reader, 4)
        producer.init_transactions()
        for offset, end in ((1, producer.commit_transaction), (0, producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(out, b"result")
            offsets = {place: OffsetAndMetadata(offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, reader.group_metadata())
            end()

        assert reader.committed(place) == 1


def test_a_second_producer_with_the_same_name_fences_the_first(
    kafka: EmbeddedKafka, topic: str, unique: Names
) -> None:
    name = unique("txn")
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "transactional_id": name}
    with KafkaProducer(**settings) as first, KafkaProducer(**settings) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"lost").get(timeout=SOON_S)

        second.init_transactions()

        with pytest.raises(ProducerFencedError):
            first.commit_transaction()


# -- consuming in groups


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, CooperativeStickyAssignor], ids=lambda one: one.name
)
def test_members_of_a_group_share_the_partitions(
    kafka: EmbeddedKafka, topic: str, group: str, assignor: Any
) -> None:
    def join() -> Member:
        return kafka_python_member(kafka, topic, group, partition_assignment_strategy=[assignor])

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


def test_who_joins_next_goes_on_where_the_group_was(
    kafka: EmbeddedKafka, topic: str, group: str
) -> None:
    produce(kafka, topic, numbered("old", 8))
    place = TopicPartition(topic, 3)
    with kafka_python_consumer(kafka, topic, group_id=group) as first:
        read(first, 8)
        first.commit({place: OffsetAndMetadata(1, "a note", -1)})

    with kafka_python_consumer(kafka, topic, group_id=group) as second:
        assert second.committed(place, metadata=True).metadata == "a note"
        assert second.committed(TopicPartition(topic, 0)) is None
        again = read(second, 7)

    assert [one.offset for one in again if one.partition == 3] == [1]


def test_a_static_member_comes_back_without_a_rebalance(
    kafka: EmbeddedKafka, topic: str, group: str
) -> None:
    def join(name: str, listener: Any = None) -> Member:
        return kafka_python_member(kafka, topic, group, listener, group_instance_id=name)

    rebalances = Rebalances()
    with join("one", rebalances) as stays:
        with join("two") as leaves:
            share([stays, leaves])
            written = produce(kafka, topic, numbered("early", 4))
            all_read([stays, leaves], written)
            had, count = leaves.owned, rebalances.count
        with join("two") as back:
            share([stays, back])
            written += produce(kafka, topic, numbered("late", 4))
            all_read([stays, leaves, back], written)
            assert (back.owned, rebalances.count) == (had, count)

    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        # Static members are not gone when they close.
        removed = admin.remove_group_members(group, [MemberToRemove(group_instance_id="two")])
        assert list(removed.values()) == [NoError]
        described = admin.describe_groups([group])[group]
        assert [it["group_instance_id"] for it in described["members"]] == ["one"]


def test_positions_are_found_by_time(kafka: EmbeddedKafka, topic: str) -> None:
    place = TopicPartition(topic, 0)
    now = int(time.time() * 1000)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=now + number * 10)

    with kafka_python_consumer(kafka) as reader:
        reader.assign([place])
        (found,) = reader.offsets_for_times({place: now + 35}).values()
        reader.seek(place, found.offset)
        records = read(reader, 6)
        late = reader.offsets_for_times({place: now + 1000})
        ends = reader.beginning_offsets([place]), reader.end_offsets([place])

    assert (found.offset, found.timestamp) == (4, now + 40)
    assert values(records) == ["4", "5", "6", "7", "8", "9"]
    assert late == {place: None}
    assert ends == ({place: 0}, {place: 10})


# -- administration


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Any:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client


def test_topics_are_made_grown_described_and_deleted(
    kafka: EmbeddedKafka, admin: KafkaAdminClient, unique: Names
) -> None:
    name = unique("admin")
    wanted = {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "60000"}}
    admin.create_topics({name: wanted}, wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([name])
    admin.create_partitions({name: 5})

    (described,) = admin.describe_topics([name])
    assert len(described["partitions"]) == 5
    assert all(sorted(one["replica_nodes"]) == [1, 2, 3] for one in described["partitions"])
    assert name in admin.list_topics()

    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_configs_are_described_and_altered(admin: KafkaAdminClient, topic: str) -> None:
    def altered() -> dict[str, str]:
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        configs = described["topic"][topic]
        return {name: configs[name]["value"] for name in configs if name != "min.insync.replicas"}

    changes = {
        "retention.ms": ("SET", "5000"),
        "cleanup.policy": ("APPEND", "compact"),
    }
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=changes)])
    assert altered() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}

    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=["retention.ms"])])
    assert altered() == {"cleanup.policy": "delete,compact"}
    assert admin.list_config_resources(["BROKER"]) == {"broker": ["1", "2", "3"]}
    assert topic in admin.list_config_resources(["TOPIC"])["topic"]


def test_records_before_an_offset_are_deleted(
    kafka: EmbeddedKafka, admin: KafkaAdminClient, topic: str
) -> None:
    produce(kafka, topic, numbered("value", 40))
    places = [TopicPartition(topic, partition) for partition in (0, 1)]

    deleted = admin.delete_records(dict(zip(places, (4, -1), strict=True)))

    assert [deleted[place]["low_watermark"] for place in places] == [4, 10]
    specs = {places[0]: OffsetSpec.EARLIEST, places[1]: OffsetSpec.LATEST}
    listed = admin.list_partition_offsets(specs)
    assert [listed[place].offset for place in places] == [4, 10]
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({places[0]: 99})


def test_groups_and_their_offsets_are_administered(
    kafka: EmbeddedKafka, admin: KafkaAdminClient, topic: str, group: str
) -> None:
    produce(kafka, topic, numbered("value", 8))
    places = [TopicPartition(topic, partition) for partition in PARTITIONS]
    with kafka_python_consumer(kafka, topic, group_id=group) as reader:
        read(reader, 8)
        reader.commit()
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable"
        assert len(described["members"]) == 1

    def empty() -> bool:
        return group in {one["group_id"] for one in admin.list_groups(states_filter=["Empty"])}

    wait_until(empty, "the member has left")
    offsets = admin.list_group_offsets(group)[group]
    assert {place: one.offset for place, one in offsets.items()} == dict.fromkeys(places, 2)

    reset = {places[0]: OffsetSpec.EARLIEST, places[1]: 1}
    assert {one["error"] for one in admin.reset_group_offsets(group, reset).values()} == {NoError}
    assert admin.delete_group_offsets(group, [places[2]]) == {places[2]: NoError}
    offsets = admin.list_group_offsets(group)[group]
    assert {place.partition: one.offset for place, one in offsets.items()} == {0: 0, 1: 1, 3: 2}

    admin.delete_groups([group])
    assert group not in {one["group_id"] for one in admin.list_groups()}
    assert admin.delete_groups([group]) == {group: "GroupIdNotFoundError"}


def test_the_cluster_and_its_transactions_are_described(
    kafka: EmbeddedKafka, admin: KafkaAdminClient, topic: str, unique: Names
) -> None:
    name = unique("txn")
    place = TopicPartition(topic, 0)
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=name
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).get(timeout=SOON_S)

        transaction = admin.describe_transactions([name])[name]
        (state,) = admin.describe_producers([place])[place].active_producers
        listed = admin.list_transactions()
        producer.commit_transaction()

    assert transaction.state is TransactionState.ONGOING
    assert transaction.topic_partitions == {place}
    assert state.current_transaction_start_offset == 0
    assert name in {one.transactional_id for found in listed.values() for one in found}
    cluster = admin.describe_cluster()
    assert [one["broker_id"] for one in cluster["brokers"]] == [1, 2, 3]
    sizes = admin.describe_log_dirs()
    assert len(sizes) == 3
