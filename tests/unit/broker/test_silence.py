"""Brokers that die or stand still without a word, and what the others do until they notice."""

from __future__ import annotations

import random
import socket

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.partition import Partition
from aktor.broker.topology import Node
from tests.unit.broker.clocks import StandingClock
from tests.unit.broker.log.building import NOW, a_batch

SESSION_S = 9.0


def a_cluster() -> tuple[Cluster, Partition]:
    """Three brokers, and a partition that the first leads and all replicate."""
    cluster = Cluster([Node(node_id=n) for n in (1, 2, 3)], now=NOW, rng=random.Random(1))
    topic = cluster.make_topic("orders", [(1, 2, 3)], {})
    return cluster, topic.partitions[0]


def write(partition: Partition) -> None:
    partition.append(a_batch(b"one"), now=NOW, api_version=9)


def test_what_a_silent_broker_led_stands_still_until_it_is_given_up() -> None:
    cluster, orders = a_cluster()

    cluster.broker_silent(1, NOW)
    assert (orders.leader, orders.isr) == (1, [1, 2, 3])

    cluster.broker_down(1, NOW)
    assert (orders.leader, orders.isr) == (2, [2, 3])


def test_acks_of_all_wait_for_a_silent_follower_until_it_is_given_up() -> None:
    cluster, orders = a_cluster()

    cluster.broker_silent(3, NOW)
    write(orders)
    assert (orders.log.end_offset, orders.log.high_watermark) == (1, 0)

    cluster.broker_down(3, NOW)
    assert orders.log.high_watermark == 1


def test_a_broker_that_speaks_again_in_time_has_lost_nothing() -> None:
    cluster, orders = a_cluster()
    cluster.broker_silent(3, NOW)
    write(orders)

    cluster.broker_up(3, NOW)

    assert (orders.leader, orders.leader_epoch, orders.isr) == (1, 0, [1, 2, 3])
    assert orders.log.high_watermark == 1


def test_nobody_catches_up_from_a_silent_leader() -> None:
    cluster, orders = a_cluster()
    cluster.broker_silent(3, NOW)
    write(orders)
    cluster.broker_silent(1, NOW)

    cluster.broker_up(3, NOW)
    assert (orders.end_of(3), orders.log.high_watermark) == (0, 0)

    cluster.broker_up(1, NOW)
    assert (orders.end_of(3), orders.log.high_watermark, orders.isr) == (1, 1, [1, 2, 3])


def test_what_only_a_broker_had_that_died_in_silence_is_lost_with_it() -> None:
    """Its followers were behind, and their brokers came back before its session had ended."""
    cluster = Cluster([Node(node_id=n) for n in (1, 2)], now=NOW, rng=random.Random(1))
    configs = {"unclean.leader.election.enable": "true"}
    (orders,) = cluster.make_topic("orders", [(1, 2)], configs).partitions
    cluster.broker_down(2, NOW)
    write(orders)
    cluster.broker_silent(1, NOW)

    cluster.broker_up(2, NOW)
    cluster.broker_down(1, NOW)

    assert (orders.leader, orders.log.end_offset) == (2, 0)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_after_all_were_down_all_are_in_sync_again_whoever_comes_back_first(
    order: tuple[int, ...],
) -> None:
    cluster, orders = a_cluster()
    write(orders)
    for node in (1, 2, 3):
        cluster.broker_down(node, NOW)
    assert (orders.leader, orders.isr) == (-1, [3])

    for node in order:
        cluster.broker_up(node, NOW)

    assert (orders.leader, sorted(orders.isr)) == (3, [1, 2, 3])
    assert orders.log.high_watermark == 1


def test_a_killed_broker_is_gone_at_once_and_replaced_when_its_session_ends() -> None:
    clock = StandingClock()
    with EmbeddedKafka(brokers=3, topics={"orders": 1}, clock=clock) as kafka:
        leader = kafka.leader("orders")
        other = leader % 3 + 1
        host, port = kafka.address(leader).split(":")

        kafka.kill_broker(leader, session_timeout=SESSION_S)
        assert kafka.leader("orders") == leader
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        clock.put_forward(SESSION_S - 0.1, kafka, awake=other)
        assert kafka.leader("orders") == leader
        clock.put_forward(0.2, kafka, awake=other)
        assert kafka.leader("orders") != leader

        kafka.start_broker(leader)
        socket.create_connection((host, int(port))).close()


@pytest.mark.parametrize("again", ["kill", "pause"])
def test_the_session_of_a_second_silence_does_not_end_with_that_of_the_first(again: str) -> None:
    clock = StandingClock()
    with EmbeddedKafka(brokers=3, topics={"orders": 1}, clock=clock) as kafka:
        leader = kafka.leader("orders")
        kafka.pause_broker(leader, session_timeout=SESSION_S)
        kafka.resume_broker(leader)

        getattr(kafka, f"{again}_broker")(leader, session_timeout=60.0)
        clock.put_forward(1.5 * SESSION_S, kafka, awake=leader % 3 + 1)

        assert kafka.leader("orders") == leader
