"""The lag that `status()` tells is true, or not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aktor.consumer.facade import KafkaConsumer
from aktor.structs import TopicPartition
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, read
from tests.scenarios.world import World, seeds

#: A told end may be so many seconds older than its age: the answer was on its way, or a Fetch that
#: is in flight will bring the next one.
ON_THE_WAY = 0.6


@pytest.fixture(params=all_but_the_first(1, seeds(4)))
def world(request: Any) -> Iterator[World]:
    # (One broker leads both partitions, or each has one of its own.)
    with World(request.param, brokers=3 if request.param % 2 else 1) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def poll_for(world: World, consumer: KafkaConsumer, seconds: float) -> None:
    until = world.now + seconds
    while world.now < until:
        consumer.poll(timeout_ms=100)


def a_reader(world: World, group: str | None, **configs: Any) -> KafkaConsumer:
    consumer = a_member(world, group_id=group, **configs)
    assert len(read(world, consumer, 80)) == 80
    poll_for(world, consumer, 10.0)
    assert consumer.status().lag == 0
    return consumer


@pytest.mark.parametrize("paused", [(T0,), (T0, T1)], ids=["one", "all"])
@pytest.mark.parametrize("group", ["g", None])
def test_the_lag_of_a_paused_partition_is_not_known_and_its_end_has_an_age(
    world: World, group: str | None, paused: tuple[TopicPartition, ...]
) -> None:
    consumer = a_reader(world, group)
    consumer.pause(*paused)
    poll_for(world, consumer, 3.0)
    world.cluster.fill("orders", 60)
    poll_for(world, consumer, 5.0)

    said = consumer.status()
    of = said.partitions[T0]

    assert (of.lag, of.lag_seconds, of.lag_at_least) == (None, None, 0)
    assert of.end_age is not None
    assert of.end_age >= 7.0
    assert (said.lag, said.lag_at_least) == (None, 0)
    if T1 not in paused:
        assert said.partitions[T1].lag == 0
    consumer.resume(*paused)
    poll_for(world, consumer, 5.0)
    assert consumer.status().lag == 0


def test_what_was_known_to_wait_when_it_was_paused_is_what_waits_at_least(world: World) -> None:
    consumer = a_reader(world, "g", max_poll_records=1)
    world.cluster.fill("orders", 60)
    while consumer.status().partitions[T0].lag_at_least in (None, 0):
        consumer.poll(timeout_ms=100)
    consumer.pause(T0)
    poll_for(world, consumer, 15.0)

    of = consumer.status().partitions[T0]

    assert of.lag is None
    assert of.lag_at_least is not None
    assert 0 < of.lag_at_least <= 60


def test_in_an_outage_the_lag_is_not_known(world: World) -> None:
    consumer = a_reader(world, "g")
    for node in world.cluster.up:
        world.cluster.unreachable[f"b{node}"] = "Connection refused"
    world.host(consumer).cut()
    poll_for(world, consumer, 4.0)

    assert consumer.status().lag is None


def test_the_end_that_is_told_is_no_older_than_its_age(world: World) -> None:
    """Whatever is paused and resumed in between."""
    consumer = a_reader(world, "g")
    ends: dict[TopicPartition, list[tuple[float, int]]] = {T0: [], T1: []}
    known = 0
    for _ in range(60):
        world.trickle("orders", 3, over=0.5)
        act = consumer.pause if world.random.random() < 0.5 else consumer.resume
        act(world.random.choice([T0, T1]))
        for _ in range(world.random.randint(1, 4)):
            poll_for(world, consumer, world.random.uniform(0.05, 0.6))
            for tp, it in consumer.status().partitions.items():
                ends[tp].append((world.now, world.cluster.log(*tp).end))
                assert it.end is not None
                assert it.end_age is not None
                true_at = world.now - it.end_age - ON_THE_WAY
                assert it.end >= max([end for at, end in ends[tp] if at <= true_at], default=0)
                known += it.lag is not None

    assert known > 60
