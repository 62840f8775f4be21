"""The lag that `status()` tells is true, or not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.status import WaitingFor
from aktor.structs import TopicPartition
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_full_reader, a_member, read
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
def test_the_lag_of_a_paused_partition_is_known_to_who_looks_twice(
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
    poll_for(world, consumer, 0.5)

    said = consumer.status()
    of = said.partitions[T0]

    assert (of.lag, of.end, of.lag_at_least) == (60, 100, 60)
    assert of.end_age is not None
    assert of.end_age <= 0.8
    assert said.lag_at_least == 60 * len(paused)
    consumer.resume(*paused)
    poll_for(world, consumer, 5.0)
    assert consumer.status().lag == 0


def test_nobody_is_asked_for_who_does_not_look(world: World) -> None:
    consumer = a_reader(world, "g")
    consumer.pause(T0, T1)
    poll_for(world, consumer, 2.0)
    asked = world.cluster.asked["ListOffsets"]

    poll_for(world, consumer, 60.0)

    assert world.cluster.asked["ListOffsets"] == asked


@pytest.mark.parametrize("every", [0.1, 1.0, 15.0, 60.0])
def test_who_looks_again_and_again_finds_the_lag_each_time(world: World, every: float) -> None:
    """A loop, or a scrape of metrics once a minute: also of partitions that were paused before they
    were read, of which `assign` knows the positions."""
    consumer = world.consumer(auto_offset_reset="earliest", metrics_enabled=every > 1.0)
    consumer.assign([T0, T1])
    consumer.pause(T0, T1)
    consumer.seek(T0, 10)
    consumer.seek(T1, 0)
    looks = []
    for number in range(8):
        world.cluster.fill("orders", 10)
        poll_for(world, consumer, every)
        if every > 1.0 and number % 2:
            consumer.metrics()  # this is a look, too
        else:
            looks.append(consumer.status())
    asked = world.cluster.asked["ListOffsets"]
    poll_for(world, consumer, 91.0)
    ended = world.cluster.asked["ListOffsets"]
    poll_for(world, consumer, 60.0)

    assert looks[0].lag is None
    for said in looks[-3:]:
        assert said.lag is not None
        for tp, it in said.partitions.items():
            assert it.end_age is not None
            assert it.end_age <= 1.2
            assert it.lag == (it.end or 0) - (10 if tp == T0 else 0)
    at_end = looks[-1].partitions[T0]
    assert at_end.end is not None
    missing = 1.2 / every * 10 + 10  # (what was written since, and what the last look missed)
    assert at_end.end >= 120 - missing
    nodes = len({world.cluster.log(*tp).leader for tp in (T0, T1)})
    assert asked <= (8 * every + 1) * nodes
    assert world.cluster.asked["ListOffsets"] == ended


def test_a_partition_that_is_resumed_is_followed_no_longer(world: World) -> None:
    consumer = a_reader(world, "g")
    consumer.pause(T0)
    for _ in range(3):
        poll_for(world, consumer, 2.0)
        consumer.status()
    assert consumer.status().lag == 0
    consumer.resume(T0)
    poll_for(world, consumer, 5.0)
    consumer.status()
    poll_for(world, consumer, 1.0)
    asked = world.cluster.asked["ListOffsets"]
    poll_for(world, consumer, 10.0)

    assert world.cluster.asked["ListOffsets"] == asked
    assert consumer.status().lag == 0


def test_the_lag_that_metrics_tell_of_a_paused_partition_is_that_of_the_status(
    world: World,
) -> None:
    consumer = a_reader(world, "g")
    consumer.pause(T0)
    poll_for(world, consumer, 3.0)
    world.cluster.fill("orders", 60)
    before = consumer.metrics()
    poll_for(world, consumer, 0.5)

    said = consumer.metrics()

    group = "consumer-fetch-manager-metrics.orders-0"
    assert before is not None
    assert said is not None
    assert "records-lag" not in before[group]
    assert said[group]["records-lag"] == consumer.status().partitions[T0].lag == 60
    assert said["consumer-fetch-manager-metrics"]["records-lag-max"] == 60


def test_the_lag_of_a_partition_for_which_there_is_no_room_is_known_to_who_looks_twice(
    world: World,
) -> None:
    consumer = a_full_reader(world)
    world.sleep(2.5)

    looks = []
    for _ in range(2):
        looks.append(consumer.status().partitions[T1])
        world.sleep(0.3)

    assert [one.waiting_for for one in looks] == [WaitingFor.BUFFER] * 2
    assert [one.lag for one in looks] == [None, 1]


def test_what_has_come_and_no_poll_has_taken_fills_the_buffer_too(world: World) -> None:
    """The other one was "being fetched"."""
    consumer = world.consumer(auto_offset_reset="earliest", max_buffered_bytes=20_000)
    consumer.assign([T0, T1])
    read(world, consumer, 80)
    world.cluster.produce("orders", 0, *[b"x" * 1000] * 100)
    world.sleep(5.0)
    world.cluster.produce("orders", 1, b"a")
    world.sleep(1.0)

    status = consumer.status()

    assert status.partitions[T1].waiting_for is WaitingFor.BUFFER
    assert "the buffer is full (" in status.partitions[T1].because


def test_the_lag_of_many_paused_partitions_costs_one_request_a_second_to_each_leader() -> None:
    with World(1) as world:
        world.cluster.create_topic("orders", partitions=200)
        world.cluster.fill("orders", 1)
        consumer = a_member(world, group_id="g")
        assert len(read(world, consumer, 200)) == 200
        consumer.pause(*consumer.assignment())
        poll_for(world, consumer, 5.0)
        world.cluster.fill("orders", 2)
        before = world.cluster.asked.copy()
        for _ in range(100):
            poll_for(world, consumer, 0.1)
            consumer.status()

        assert consumer.status().lag == 400
        asked = world.cluster.asked - before
        assert 3 * 9 <= asked["ListOffsets"] <= 3 * 11
        assert asked["Fetch"] == 0


def test_while_a_leader_is_away_no_end_is_younger_than_what_is_told(world: World) -> None:
    """And it is asked seldom; when it is back, or there is another one, the lag is known again."""
    consumer = a_reader(world, None)
    consumer.pause(T0, T1)
    leader = world.cluster.log(*T0).leader
    for _ in range(6):
        poll_for(world, consumer, 1.0)
        assert consumer.status().partitions[T0].lag in (0, None)
    assert consumer.status().lag == 0
    lost_at = world.now
    world.cluster.unreachable[f"b{leader}"] = "Connection refused"
    world.host(consumer).cut()
    asked = world.cluster.asked.copy()
    for _ in range(80):
        world.cluster.fill("orders", 1)
        poll_for(world, consumer, 0.5)
        of = consumer.status().partitions[T0]
        assert of.end_age is not None
        assert of.end_age >= world.now - lost_at
        assert of.lag is None or world.now - lost_at < 2.0
    del world.cluster.unreachable[f"b{leader}"]
    if len(world.cluster.up) > 1:
        assert (world.cluster.asked - asked)["ListOffsets"] <= 50  # the other leader, once a second
        world.cluster.move_leader("orders", 0)
    for _ in range(40):
        poll_for(world, consumer, 0.5)
        consumer.status()

    assert consumer.status().partitions[T0].lag == 80


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
