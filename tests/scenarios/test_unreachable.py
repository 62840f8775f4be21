"""Brokers that advertise addresses which cannot be reached: every call says so, until they can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import BrokersUnreachableError
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, read
from tests.scenarios.world import World, seeds

REFUSED = "Connection refused"
UNKNOWN = "the name cannot be looked up: Name or service not known"
SWALLOWED = None


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """Three brokers that are called by names of a network which is not ours."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        world.cluster.advertised = {node: f"inner-{node}" for node in world.cluster.up}
        yield world


def hide(world: World, how: str | None, *nodes: int) -> None:
    """From now on these brokers cannot be reached at the addresses that they advertise."""
    for node in nodes or tuple(world.cluster.up):
        world.cluster.unreachable[world.cluster.advertised[node]] = how


def subscribed(world: World, **configs: Any) -> KafkaConsumer:
    return world.consumer("orders", **{"auto_offset_reset": "earliest"} | configs)


def errors_of(world: World, call: Callable[[], Any], until: float) -> list[tuple[float, Exception]]:
    """What the call raises until then, with the seconds since now."""
    began, errors = world.now, []
    while world.now < began + until:
        try:
            call()
        except BrokersUnreachableError as error:
            errors.append((world.now - began, error))
    return errors


@pytest.mark.parametrize("how", [REFUSED, UNKNOWN], ids=["refused", "unknown name"])
@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_poll_says_within_two_seconds_that_no_advertised_address_can_be_reached(
    world: World, how: str, group_id: str | None
) -> None:
    hide(world, how)
    consumer = subscribed(world, group_id=group_id)

    errors = errors_of(world, lambda: consumer.poll(timeout_ms=60_000), until=20.0)

    assert 2.0 <= errors[0][0] < 2.2
    assert 8 <= len(errors) <= 10, "every two seconds or so, as long as it lasts"
    error = errors[-1][1]
    assert isinstance(error, BrokersUnreachableError)
    assert error.attempts == {f"inner-{node}:9092": how for node in (1, 2, 3)}
    assert error.advertised_by in ("b1:9092", "b2:9092")
    assert "advertised.listeners" in str(error)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_where_packets_are_swallowed_it_says_so_within_seconds_as_well(
    world: World, group_id: str | None
) -> None:
    hide(world, SWALLOWED)
    consumer = subscribed(world, group_id=group_id)

    errors = errors_of(world, lambda: consumer.poll(timeout_ms=60_000), until=30.0)

    assert 5.0 <= errors[0][0] < 5.2
    assert "inner-1:9092: no answer for 5 s" in str(errors[0][1])
    assert len(errors) >= 9
    assert "not connected within 10 s" in str(errors[-1][1])


def test_every_call_that_waits_for_a_broker_says_it(world: World) -> None:
    hide(world, REFUSED)
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest")
    consumer.assign([T0])

    for call in (
        lambda: consumer.poll(timeout_ms=10_000),
        lambda: consumer.position(T0),
        lambda: consumer.committed(T0),
        lambda: consumer.end_offsets([T0]),
        lambda: consumer.commit({T0: OffsetAndMetadata(1, "", -1)}),
        lambda: next(consumer),
    ):
        began = world.now
        with pytest.raises(BrokersUnreachableError, match="advertised by b"):
            call()
        assert world.now - began < 2.2


def test_when_the_brokers_can_be_reached_everything_goes_on_by_itself(world: World) -> None:
    hide(world, REFUSED)
    consumer = subscribed(world, group_id="g")
    errors_of(world, lambda: consumer.poll(timeout_ms=1_000), until=10.0)
    assert "running, but none of the cluster's brokers" in consumer.status().state

    world.cluster.unreachable.clear()
    records: list[Any] = []
    until = world.now + 60.0
    while len(records) < 80 and world.now < until:
        try:
            records += read(world, consumer, 80)
        except BrokersUnreachableError:
            continue

    assert len(records) == 80
    assert consumer.status().state == "running"
    assert errors_of(world, lambda: consumer.poll(timeout_ms=1_000), until=10.0) == []


def test_one_broker_that_can_be_reached_is_enough_to_wait_quietly(world: World) -> None:
    """Its leadership moves sooner or later; until then this is a broker that is down."""
    hide(world, REFUSED, 1, 2)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, TopicPartition("orders", 1)])  # both led by others than broker 3

    assert errors_of(world, lambda: consumer.poll(timeout_ms=1_000), until=15.0) == []
    for partition in (0, 1):
        world.cluster.log("orders", partition).leader = 3

    assert len(read(world, consumer, 80, within=40.0)) == 80


def test_a_cluster_that_was_reached_and_goes_down_is_waited_for(world: World) -> None:
    consumer = subscribed(world)
    read(world, consumer, 80)

    hide(world, REFUSED)
    world.host(consumer).cut()

    assert errors_of(world, lambda: consumer.poll(timeout_ms=1_000), until=20.0) == []


def test_a_slow_start_is_no_reason_to_cry(world: World) -> None:
    hide(world, REFUSED)
    consumer = subscribed(world)
    world.after(1.0, world.cluster.unreachable.clear)

    assert len(read(world, consumer, 80, within=30.0)) == 80


def test_who_wants_nothing_of_a_broker_is_told_nothing(world: World) -> None:
    hide(world, REFUSED)
    consumer = world.consumer()

    assert consumer.topics() == {"orders"}
    world.sleep(30.0)
    assert consumer.topics() == {"orders"}
    assert consumer.status().state == "running"


def test_the_status_names_partitions_whose_leader_has_not_been_reached_for_a_second(
    world: World,
) -> None:
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, TopicPartition("orders", 1)])
    read(world, consumer, 80)
    hide(world, REFUSED, 1)
    world.host(consumer).cut()

    world.sleep(0.5)
    assert consumer.status().partitions[T0].trouble == ""
    world.sleep(60.0)
    trouble = consumer.status().partitions[T0].trouble
    assert trouble.startswith("its leader (broker 1, inner-1:9092) has not answered for 6")
    assert "(Connection refused, " in trouble
    assert trouble in str(consumer.status())
    assert consumer.status().partitions[TopicPartition("orders", 1)].trouble == ""
    assert consumer.status().state == f"running, but nothing from orders-0 is delivered: {trouble}"

    world.cluster.unreachable.clear()
    world.sleep(60.0)
    assert consumer.status().partitions[T0].trouble == ""
