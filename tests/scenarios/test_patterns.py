"""Subscribing to a pattern, and what becomes of the membership when a consumer is closed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

from aktor import KafkaConsumer, SubscriptionPattern
from aktor.errors import ConfigurationError
from tests.gate import all_but_the_first
from tests.scenarios.reading import a_member, read
from tests.scenarios.world import World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """Topics "orders-eu", "orders-us" and "payments" with ten records each."""
    with World(request.param) as world:
        for topic in ("orders-eu", "orders-us", "payments"):
            world.cluster.create_topic(topic)
            world.cluster.fill(topic, 10)
        yield world


def a_consumer(world: World, pattern: Any, **configs: Any) -> KafkaConsumer:
    """One that subscribes to this pattern, in a group unless it is told otherwise."""
    usual = {"group_id": "g", "auto_offset_reset": "earliest", "metadata_max_age_ms": 2_000}
    consumer = world.consumer(**usual | configs)
    consumer.subscribe(pattern=pattern)
    return consumer


def topics_of(records: list[Any]) -> set[str]:
    return {one.topic for one in records}


@pytest.mark.parametrize("group_id", ["g", None])
@pytest.mark.parametrize("pattern", ["orders", re.compile("ORDERS", re.IGNORECASE)])
def test_what_matches_from_its_beginning_is_read(
    world: World, pattern: Any, group_id: str | None
) -> None:
    """Scenario 76."""
    consumer = a_consumer(world, pattern, group_id=group_id)

    records = read(world, consumer, 20, within=20.0)

    assert topics_of(records) == consumer.subscription() == {"orders-eu", "orders-us"}
    assert len(records) == 20


@pytest.mark.parametrize("group_id", ["g", None])
def test_a_topic_that_comes_later_is_read_from_its_beginning(
    world: World, group_id: str | None
) -> None:
    """Scenario 76."""
    consumer = a_consumer(world, "orders", group_id=group_id)
    read(world, consumer, 20, within=20.0)

    world.cluster.create_topic("orders-asia")
    world.cluster.fill("orders-asia", 10)
    records = read(world, consumer, 10, within=20.0)

    assert topics_of(records) == {"orders-asia"}
    assert "orders-asia" in consumer.subscription()


def test_topics_take_the_place_of_a_pattern_and_a_pattern_of_topics(world: World) -> None:
    """Scenario 74."""
    consumer = a_consumer(world, "orders")
    read(world, consumer, 20, within=20.0)

    consumer.subscribe(["payments"])
    assert topics_of(read(world, consumer, 10, within=20.0)) == {"payments"}
    consumer.subscribe(pattern="orders-e")
    world.cluster.fill("orders-eu", 10)

    assert topics_of(read(world, consumer, 10, within=20.0)) == {"orders-eu"}


def test_after_unsubscribing_nothing_matches_any_more(world: World) -> None:
    """Scenario 76."""
    consumer = a_consumer(world, "orders")
    read(world, consumer, 20, within=20.0)

    consumer.unsubscribe()
    world.cluster.create_topic("orders-asia")
    world.cluster.fill("orders-asia", 10)

    assert consumer.subscription() is None
    assert read(world, consumer, 1, within=10.0) == []


def test_a_pattern_is_no_way_around_an_assignment_by_hand(world: World) -> None:
    consumer = a_consumer(world, "nothing-matches")

    with pytest.raises(IllegalStateError):
        consumer.assign([TopicPartition("payments", 0)])


def test_topics_and_a_pattern_are_two_ways(world: World) -> None:
    consumer = world.consumer(group_id="g")

    with pytest.raises(IllegalStateError, match="only one way"):
        consumer.subscribe(["payments"], pattern="orders")


def test_a_pattern_that_python_cannot_read_is_an_error_at_once(world: World) -> None:
    consumer = world.consumer(group_id="g")

    with pytest.raises(re.error):
        consumer.subscribe(pattern="orders(")
    assert consumer.subscription() is None


@pytest.mark.parametrize("configs", [{"group_id": "g"}, {"group_protocol": "consumer"}])
def test_a_pattern_for_the_brokers_takes_a_group_that_speaks_kip_848(
    world: World, configs: dict[str, Any]
) -> None:
    consumer = world.consumer(**configs)

    with pytest.raises(ConfigurationError, match="group_protocol 'consumer'"):
        consumer.subscribe(pattern=SubscriptionPattern("orders.*"))


# -- close


@pytest.mark.parametrize(
    ("operation", "remain"), [("default", 0), ("leave_group", 0), ("REMAIN_IN_GROUP", 1)]
)
def test_a_member_is_in_the_group_after_close_only_if_that_is_wanted(
    world: World, operation: str, remain: int
) -> None:
    """KIP-1092."""
    consumer = a_member(world)
    world.cluster.create_topic("orders")
    world.cluster.fill("orders", 10)
    read(world, consumer, 10, within=20.0)

    consumer.close(group_membership_operation=operation)

    assert len(world.cluster.group("g").members) == remain


class Slow(ConsumerRebalanceListener):
    """Takes a second to let go of partitions."""

    def __init__(self, world: World) -> None:
        self.world = world

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing to do."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Something that takes its time."""
        self.world.sleep(1.0)


def test_a_listener_that_takes_longer_than_close_may_does_not_keep_the_member_in_the_group(
    world: World,
) -> None:
    """Its time is its own, and the group hears of the end all the same."""
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["payments"], listener=Slow(world))
    read(world, consumer, 10)

    consumer.close(timeout_ms=500)

    assert not world.cluster.group("g").members


def test_an_operation_that_there_is_not_is_refused_and_the_consumer_stays_open(
    world: World,
) -> None:
    consumer = world.consumer(group_id="g")

    with pytest.raises(ValueError, match="leve"):
        consumer.close(group_membership_operation="leve")

    assert consumer.status().state == "running"
