"""What the controller keeps: names, ids, partitions, and where they are."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.topics import Topics, check_name
from tests.unit.broker.harness import Journal
from tests.unit.broker.log.building import NOW, a_batch


class TopicsWorld:
    """Topics, their logs by (id, partition), and who was told of a change."""

    def __init__(self, journal: Journal | None = None, **defaults: str) -> None:
        self.journal = journal or Journal()
        self.logs: dict[tuple[UUID, int], PartitionLog] = {}
        self.changed: list[Partition] = []
        self.topics = Topics(
            rng=random.Random(1),
            make_log=self.make_log,
            on_change=self.changed.append,
            defaults={name.replace("_", "."): value for name, value in defaults.items()},
            journal=self.journal,
        )

    def make_log(self, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        log = self.logs.setdefault((topic_id, index), PartitionLog())
        log.config = config
        return log

    def restarted(self) -> TopicsWorld:
        """Another process with the same journal and the same logs."""
        world = TopicsWorld(self.journal)
        world.logs = self.logs
        for (_, key), value in self.journal.values().items():
            world.topics.restore(str(key[0]), value)
        return world


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "_", "x" * 249])
def test_names_that_are_fine(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * 250])
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(Refused) as refused:
        check_name(name)

    assert refused.value.code is Code.INVALID_TOPIC_EXCEPTION


def test_a_topic_is_found_by_its_name_and_by_its_id() -> None:
    topics = TopicsWorld().topics

    orders = topics.create("orders", [(1, 2), (2, 1)], {})

    assert topics.get("orders") is topics.get(None, orders.topic_id) is orders
    assert topics.topic_id("orders") == orders.topic_id
    assert topics.name(orders.topic_id) == "orders"
    assert topics.partitions("orders") == 2
    assert [one.leader for one in orders.partitions] == [1, 2]


def test_what_is_not_there_is_not_found() -> None:
    topics = TopicsWorld().topics
    topics.create("orders", [(1,)], {})

    assert topics.get("bills") is topics.get(None, UUID(int=5)) is topics.get(None) is None
    assert topics.get("bills", topics.topic_id("orders")) is None
    assert topics.topic_id("bills") is None
    assert topics.name(UUID(int=5)) is None
    assert topics.partitions("bills") == 0
    assert topics.partition("orders", 1) is topics.partition("orders", -1) is None


def test_topics_are_listed_by_name() -> None:
    topics = TopicsWorld().topics
    for name in ("c", "a", "b"):
        topics.create(name, [(1,)], {})

    assert topics.names() == ("a", "b", "c")
    assert [topic.name for topic in topics] == ["a", "b", "c"]


def test_each_change_of_what_can_be_read_raises_the_version() -> None:
    topics = TopicsWorld().topics
    versions = [topics.version]

    orders = topics.create("orders", [(1,)], {})
    versions.append(topics.version)
    topics.grow(orders, [(1,)])
    versions.append(topics.version)
    topics.delete(orders)
    versions.append(topics.version)
    assert versions == sorted(set(versions))

    again = topics.create("orders", [(1,)], {})
    before = topics.version
    topics.moved(again.name)
    assert topics.version == before


def test_a_topic_that_is_made_again_has_another_id_and_no_records() -> None:
    topics = TopicsWorld().topics
    first = topics.create("orders", [(1,)], {})
    first.partitions[0].append(a_batch(b"a"), now=NOW, api_version=12)
    topics.delete(first)

    second = topics.create("orders", [(1,)], {})

    assert second.topic_id != first.topic_id
    assert second.partitions[0].log.end_offset == 0
    assert topics.name(first.topic_id) is None


def test_who_waits_for_a_deleted_topic_is_told_that_nobody_leads_it() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(1,), (1,)], {})

    world.topics.delete(orders)

    assert world.changed == orders.partitions
    assert [one.leader for one in orders.partitions] == [NO_LEADER, NO_LEADER]


def test_settings_reach_the_logs_and_the_partitions() -> None:
    world = TopicsWorld(max_message_bytes="100", min_insync_replicas="2")
    orders = world.topics.create("orders", [(1, 2)], {"retention.ms": "5"})
    (partition,) = orders.partitions
    assert (partition.log.config.max_message_bytes, partition.log.config.retention_ms) == (100, 5)
    assert partition.min_insync == 2

    world.topics.configure(orders, {"max.message.bytes": "50", "min.insync.replicas": "1"})

    assert partition.log.config.max_message_bytes == 50
    assert partition.log.config.retention_ms == LogConfig().retention_ms
    assert partition.min_insync == 1


def test_a_lower_minimum_lets_the_high_watermark_go_on() -> None:
    world = TopicsWorld(min_insync_replicas="2")
    orders = world.topics.create("orders", [(1, 2)], {})
    (partition,) = orders.partitions
    partition.node_down(2, unclean=False)
    partition.append(a_batch(b"a"), now=NOW, api_version=12)
    assert partition.log.high_watermark == 0

    world.topics.configure(orders, {"min.insync.replicas": "1"})

    assert partition.log.high_watermark == 1


def test_leaders_are_spread_and_no_broker_has_a_partition_twice() -> None:
    topics = TopicsWorld().topics

    assigned = topics.assign(6, 2, [1, 2, 3])

    assert [replicas[0] for replicas in assigned] == [1, 2, 3, 1, 2, 3]
    assert all(len(set(replicas)) == 2 for replicas in assigned)
    assert topics.assign(1, 3, [1, 2, 3]) == [(1, 2, 3)]
    assert topics.assign(1, 3, [1, 2, 3]) == [(2, 3, 1)]


# Over a restart.


def kept(world: TopicsWorld) -> Any:
    return [
        (topic.name, topic.topic_id, topic.configs, [one.replicas for one in topic.partitions])
        for topic in world.topics
    ]


def test_topics_outlive_a_restart_and_deleted_ones_do_not() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(1, 2)], {"retention.ms": "5"})
    world.topics.grow(orders, [(2, 1)])
    world.topics.delete(world.topics.create("bills", [(1,)], {}))

    again = world.restarted()

    assert kept(again) == kept(world)
    restored = again.topics.get("orders")
    assert restored is not None
    assert restored.partitions[0].log.config.retention_ms == 5
    assert again.topics.version > 0


def test_who_led_before_leads_after_a_restart_in_a_later_epoch() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(1, 2)], {})
    orders.partitions[0].lead(2)
    world.topics.moved("orders")

    (partition,) = next(iter(world.restarted().topics)).partitions

    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 2, [1, 2])


def test_the_history_of_epochs_outlives_a_restart() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(1, 2)], {})
    (partition,) = orders.partitions
    partition.append(a_batch(b"a"), now=NOW, api_version=12)
    partition.lead(2)
    partition.append(a_batch(b"b"), now=NOW, api_version=12)
    world.topics.moved("orders")

    (again,) = next(iter(world.restarted().topics)).partitions

    assert again.leader_epoch == 2
    assert again.log.end_offset_for_epoch(0) == (0, 1)
    assert again.log.end_offset_for_epoch(1) == (1, 2)
    assert again.log.end_offset_for_epoch(2) == (2, 2)


def test_the_epoch_after_a_restart_is_later_than_any_in_the_log() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(1, 2)], {})
    for _ in range(4):
        orders.partitions[0].new_epoch()  # the process dies before that is kept
    orders.partitions[0].append(a_batch(b"a"), now=NOW, api_version=12)

    (again,) = next(iter(world.restarted().topics)).partitions

    assert again.leader_epoch == 5


def test_where_nobody_led_the_preferred_replica_leads_after_a_restart() -> None:
    world = TopicsWorld()
    orders = world.topics.create("orders", [(2, 1)], {})
    for node in (2, 1):
        orders.partitions[0].node_down(node, unclean=False)
    world.topics.moved("orders")

    (partition,) = next(iter(world.restarted().topics)).partitions

    assert partition.leader == 2
