"""`group_protocol` on a cluster that has the classic protocol only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import UnsupportedVersionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor import SubscriptionPattern
from aktor.events.lifecycle import Tick
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, a_member, offsets, read
from tests.scenarios.world import World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """The topic "orders" with two partitions of 10 records each."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 10)
        yield world


def test_auto_finds_out_that_the_cluster_speaks_the_classic_protocol_and_reads(
    world: World,
) -> None:
    consumer = a_member(world, group_protocol="auto")
    assert consumer.status().group_protocol == "auto"

    records = read(world, consumer, 20)

    assert offsets(records, 0) == offsets(records, 1) == list(range(10))
    assert consumer.status().group_protocol == "classic"
    assert len(world.cluster.group("g").members) == 1


def test_what_auto_has_chosen_is_told_also_by_who_is_not_in_the_group(world: World) -> None:
    consumer = a_member(world, group_protocol="auto")
    read(world, consumer, 20)

    consumer.unsubscribe()
    assert consumer.status().group_protocol == "classic"
    consumer.close()

    assert consumer.status().group_protocol == "classic"


def test_auto_commits_and_leaves_in_the_classic_protocol(world: World) -> None:
    consumer = a_member(world, group_protocol="auto")
    read(world, consumer, 20)

    consumer.commit()
    consumer.close()

    assert world.cluster.committed("g", "orders", 0) == 10
    assert not world.cluster.group("g").members


def test_auto_asks_once_in_a_consumers_life(world: World) -> None:
    consumer = a_member(world, group_protocol="auto")
    read(world, consumer, 20)
    asked = world.cluster.asked["ConsumerGroupHeartbeat"]

    consumer.unsubscribe()
    consumer.subscribe(["orders"])
    world.cluster.fill("orders", 10)
    read(world, consumer, 20)

    assert (asked, world.cluster.asked["ConsumerGroupHeartbeat"]) == (1, 1)


def test_auto_asks_once_though_the_actor_that_asked_fell_over(world: World) -> None:
    consumer = a_member(world, group_protocol="auto")
    read(world, consumer, 20)
    happened = world.host(consumer).crash("membership", Tick)

    world.cluster.fill("orders", 10)
    read(world, consumer, 20)

    assert happened
    assert consumer.status().group_protocol == "classic"
    assert world.cluster.asked["ConsumerGroupHeartbeat"] == 1


def test_the_consumer_protocol_is_an_error_that_says_what_to_set(world: World) -> None:
    """Scenario 127."""
    consumer = a_member(world, group_protocol="consumer")

    with pytest.raises(UnsupportedVersionError, match="set group_protocol to 'classic' or 'auto'"):
        consumer.poll(timeout_ms=10_000)


def test_a_member_that_the_group_refuses_for_good_is_not_alive(world: World) -> None:
    consumer = a_member(world, group_protocol="consumer")
    with pytest.raises(UnsupportedVersionError):
        consumer.poll(timeout_ms=10_000)
    world.sleep(1.0)

    status = consumer.status()
    assert "It does not join again: close the consumer and make a new one." in status.why
    assert status.alive.because.startswith("the group has refused the member")
    assert status.alive.because.endswith(" The member does not join again")


@pytest.mark.parametrize("protocol", ["auto", "consumer"])
def test_a_pattern_for_the_brokers_is_an_error_and_not_an_endless_wait(
    world: World, protocol: str
) -> None:
    """Scenario 77."""
    consumer = world.consumer(group_id="g", group_protocol=protocol)
    consumer.subscribe(pattern=SubscriptionPattern("orders.*"))

    with pytest.raises(UnsupportedVersionError, match="give a pattern of Python's re"):
        consumer.poll(timeout_ms=10_000)


@pytest.mark.parametrize("protocol", ["auto", "consumer"])
def test_partitions_assigned_by_hand_are_read_and_committed_with_any_protocol(
    world: World, protocol: str
) -> None:
    consumer = world.consumer(group_id="g", group_protocol=protocol, auto_offset_reset="earliest")
    consumer.assign([T0])
    assert len(read(world, consumer, 10)) == 10

    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)})

    assert world.cluster.committed("g", "orders", 0) == 7
    assert not world.cluster.asked["ConsumerGroupHeartbeat"]
