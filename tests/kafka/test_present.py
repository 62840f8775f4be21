"""What a consumer says of an outage, over real sockets: the coordinator's broker dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from aktor import ConsumerStatus, KafkaConsumer, TopicPartition
from aktor.broker import EmbeddedKafka
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.real.topics import Transaction
from tests.kafka.support import numbered, quick, read, traced
from tests.kafka.support import poll_until as poll_until_it_happened

#: Until the cluster notices that the broker is gone, in seconds.
NOTICED = 6.0


def poll_until(
    consumer: KafkaConsumer, done: Callable[[ConsumerStatus], bool], within: float
) -> list[ConsumerStatus]:
    """Poll until it looks as wanted; returns all looks, one in a quarter of a second."""
    until, looks = time.monotonic() + within, [consumer.status()]
    while not done(looks[-1]):
        assert time.monotonic() < until, str(looks[-1])
        consumer.poll(timeout_ms=250)
        looks.append(consumer.status())
    return looks


def is_at_the_end(look: ConsumerStatus) -> bool:
    """Whether all that it says is that nothing new has been written."""
    return look.why.startswith(("There is nothing new", "Records are fetched"))


@pytest.mark.gate
def test_while_the_coordinators_broker_is_dead_every_look_names_it() -> None:
    with (
        EmbeddedKafka(3, topics={"orders": 3}) as kafka,
        KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="g",
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
        ) as consumer,
    ):
        poll_until(consumer, lambda one: one.member_state == "stable" and one.lag == 0, 20.0)
        node = kafka.coordinator("g")
        kafka.kill_broker(node, session_timeout=NOTICED)
        died = time.monotonic()

        poll_until(consumer, lambda one: one.state != "running", 5.0)
        looks = poll_until(consumer, lambda _: time.monotonic() - died > NOTICED - 0.5, 10.0)
        poll_until(consumer, lambda one: one.state == "running", 30.0)
        # A partition whose leader died has to be checked with its new one first.
        recovered = poll_until(consumer, is_at_the_end, 10.0)[-1]

    assert all(f"broker {node}, " in one.state for one in looks), [one.state for one in looks]
    assert all("Not your code" in one.why for one in looks)
    assert recovered.healthy


@pytest.mark.gate
def test_without_a_group_a_stall_is_told_although_nothing_else_wakes_the_thread() -> None:
    """There are no heartbeats, nothing is asked for since the buffer is full, and nobody polls."""
    with (
        EmbeddedKafka(1, topics={"orders": 1}) as kafka,
        KafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers, group_id=None, max_buffered_bytes=30_000
        ) as consumer,
        traced() as events,
    ):
        consumer.assign([TopicPartition("orders", 0)])
        poll_until(consumer, lambda one: one.lag == 0, 20.0)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:  # so that the thread has looked, and found nothing
            consumer.poll(timeout_ms=10)
        topics.produce([kafka.bootstrap_servers], "orders", ["x" * 1000] * 100)
        # (Whether `why` is asked or not.)
        time.sleep(5.0)
        told = [one for one in events if one["event"] == "delivery.stalled"]

    assert [one["reason"] for one in told] == ["application"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_looks_sees_the_lag_of_a_paused_partition_grow(
    kafka: Cluster, topic: str, group: str, protocol: str
) -> None:
    """With read_committed up to the last stable offset."""
    address, fresh = kafka.bootstrap_servers, TopicPartition(topic, 0)
    topics.create_topic(address, topic)
    topics.produce(address, topic, numbered(5))

    def lag_is(expected: int) -> Callable[[], bool]:
        return lambda: consumer.status().partitions[fresh].lag == expected

    with quick(
        kafka,
        topic,
        group_id=group,
        group_protocol=protocol,
        isolation_level="read_committed",
    ) as consumer:
        read(consumer, 5)
        consumer.pause(fresh)
        topics.produce(address, topic, numbered(3))
        poll_until_it_happened(consumer, lag_is(3), "a lag of 3")
        with Transaction(address) as transaction:
            transaction.produce(topic, numbered(4))
            for _ in range(15):
                assert consumer.poll(100) == {}
                assert consumer.status().partitions[fresh].lag == 3
            transaction.commit()
        poll_until_it_happened(consumer, lag_is(8), "a lag of 8, with the marker")
        seen = consumer.status().partitions[fresh]
        assert seen.end_age is not None
        assert seen.end_age < 2.0
        assert seen.lag_seconds is not None
        assert seen.lag_seconds >= 1.5
        consumer.resume(fresh)
        read(consumer, 7)


def test_who_looks_sees_the_lag_though_brokers_wait_for_more_bytes(
    kafka: Cluster, topic: str
) -> None:
    """Until `fetch_max_wait_ms` has passed they tell nothing, though there are records."""
    address, fresh = kafka.bootstrap_servers, TopicPartition(topic, 0)
    topics.create_topic(address, topic)
    topics.produce(address, topic, numbered(5))

    with quick(
        kafka, topic, group_id=None, fetch_min_bytes=1_000_000, fetch_max_wait_ms=4000
    ) as consumer:
        read(consumer, 5)
        topics.produce(address, topic, numbered(3))
        seen: set[int | None] = set()
        until = time.monotonic() + 3.5
        while time.monotonic() < until and 3 not in seen:
            assert consumer.poll(50) == {}
            seen.add(consumer.status().partitions[fresh].lag)

    assert 3 in seen


def stalls(events: list[Any]) -> list[Any]:
    return [one for one in events.copy() if one["event"].startswith("delivery.")]


def test_a_transaction_that_stays_open_is_a_stall_with_its_own_reason(
    kafka: Cluster, topic: str
) -> None:
    address = kafka.bootstrap_servers
    topics.create_topic(address, topic)
    topics.produce(address, topic, numbered(5))

    with (
        traced() as events,
        quick(kafka, topic, group_id=None, isolation_level="read_committed") as consumer,
    ):
        read(consumer, 5)
        with Transaction(address) as transaction:
            transaction.produce(topic, numbered(4))
            poll_until_it_happened(consumer, lambda: bool(stalls(events)), "a stall is told")
            transaction.commit()
        read(consumer, 4)
        poll_until_it_happened(consumer, lambda: len(stalls(events)) > 1, "the stall is over")

    stalled, resumed = stalls(events)
    assert (stalled["event"], stalled["reason"]) == ("delivery.stalled", "open transaction")
    assert (resumed["event"], resumed["because"]) == ("delivery.resumed", "records were delivered")
