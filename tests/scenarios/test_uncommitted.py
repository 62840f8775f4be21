"""A group that commits nothing and begins at the end: what its members are given after a rebalance.

Such groups are common: each process has a group id of its own, and shows what comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from aktor.consumer.facade import KafkaConsumer
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, offsets, read
from tests.scenarios.world import World, seeds

ASSIGNORS = pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, CooperativeStickyAssignor], ids=["eager", "cooperative"]
)


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 20 records each; closed at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 20)
        yield world


def a_watcher(world: World, assignor: Any, **configs: Any) -> KafkaConsumer:
    """A member that has its position at the ends of both partitions."""
    consumer = a_member(
        world,
        auto_offset_reset="latest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
        **configs,
    )
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)
    assert [consumer.position(one) for one in (T0, T1)] == [20, 20]
    return consumer


@ASSIGNORS
def test_a_rebalance_skips_nothing_of_what_the_member_keeps(world: World, assignor: Any) -> None:
    consumer = a_watcher(world, assignor)
    world.cluster.create_topic("others")
    before = consumer.status().generation

    consumer.subscribe(["orders", "others"])
    world.cluster.fill("orders", 10)
    records = read(world, consumer, 20)
    while len(consumer.assignment()) < 3:
        records += read(world, consumer, 1, within=0.1)

    assert consumer.status().generation > before
    assert offsets(records, 0) == offsets(records, 1) == list(range(20, 30))


@ASSIGNORS
def test_a_member_that_was_expelled_and_comes_back_skips_nothing(
    world: World, assignor: Any
) -> None:
    consumer = a_watcher(world, assignor, max_poll_interval_ms=5_000)

    world.cluster.fill("orders", 10)
    world.sleep(5.5)
    world.cluster.fill("orders", 10)
    records = read(world, consumer, 40)

    assert [one["event"] for one in world.host(consumer).named("member.lost")]
    assert offsets(records, 0) == offsets(records, 1) == list(range(20, 40))


@ASSIGNORS
def test_who_unsubscribes_begins_at_the_end_again(world: World, assignor: Any) -> None:
    consumer = a_watcher(world, assignor)
    consumer.unsubscribe()
    world.cluster.fill("orders", 10)
    consumer.subscribe(["orders"])

    assert read(world, consumer, 1, within=3.0) == []
    assert [consumer.position(one) for one in (T0, T1)] == [30, 30]


@ASSIGNORS
def test_a_seek_to_the_end_that_a_rebalance_interrupts_is_not_forgotten(
    world: World, assignor: Any
) -> None:
    consumer = a_watcher(world, assignor)
    world.cluster.create_topic("others")
    world.cluster.fill("orders", 10)
    consumer.subscribe(["orders", "others"])
    consumer.seek_to_end(T0)

    read(world, consumer, 10, within=3.0)

    assert [consumer.position(one) for one in (T0, T1)] == [30, 30]
