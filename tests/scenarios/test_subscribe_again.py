"""Subscribing to other topics: nothing of what is left out is given out from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import TopicPartition

from aktor import KafkaConsumer
from tests.gate import all_but_the_first
from tests.scenarios.world import World, seeds

OLD = TopicPartition("old", 0)
STAYS = TopicPartition("stays", 0)
NEW = TopicPartition("new", 0)

#: With an eager assignor everything is revoked, with a cooperative one what is left out.
GROUPS = pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, CooperativeStickyAssignor],
    ids=["eager", "cooperative"],
)


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """Topics with many more records each than a poll takes."""
    with World(request.param) as world:
        for topic in ("old", "stays", "new"):
            world.cluster.create_topic(topic)
            world.cluster.fill(topic, 300)
        yield world


def a_reader(world: World, assignor: Any, *topics: str, **configs: Any) -> KafkaConsumer:
    """A member that has begun to read these, and has more of each in its buffer."""
    usual: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "max_poll_records": 5,
    }
    usual |= {"partition_assignment_strategy": [assignor]}
    consumer = world.consumer(*topics, **usual | configs)
    polled(world, consumer, lambda: all(consumer.position(one) for one in consumer.assignment()))
    world.sleep(0.5)
    return consumer


def polled(world: World, consumer: KafkaConsumer, done: Callable[[], Any]) -> list[Any]:
    """Poll until the member owns something and `done`; the records."""
    records = []
    for _ in range(200):
        for some in consumer.poll(timeout_ms=100).values():
            records += some
        if consumer.assignment() and done():
            return records
    raise AssertionError("it does not come")


def _stands_at(consumer: KafkaConsumer, partition: TopicPartition, offset: int) -> bool:
    return partition in consumer.assignment() and consumer.position(partition) == offset


def by_arrow(consumer: KafkaConsumer) -> set[str]:
    """The topics of some columns."""
    return set(consumer.poll_arrow(timeout_ms=100, max_records=5).column("topic").to_pylist())


def by_poll(consumer: KafkaConsumer) -> set[str]:
    """The topics of a poll."""
    return {one.topic for one in consumer.poll(timeout_ms=100)}


def by_iteration(consumer: KafkaConsumer) -> set[str]:
    """The topic of one record, while others of its batch are left."""
    return {record.topic for record in [next(consumer, None)] if record is not None}


WAYS = pytest.mark.parametrize("read", [by_poll, by_iteration, by_arrow])


@GROUPS
@WAYS
def test_nothing_of_a_topic_that_is_left_out_is_given_out(
    world: World, assignor: Any, read: Callable[[KafkaConsumer], set[str]]
) -> None:
    consumer = a_reader(world, assignor, "old", consumer_timeout_ms=100)
    read(consumer)

    consumer.subscribe(["new"])
    topics: set[str] = set()
    for _ in range(50):
        topics |= read(consumer)

    assert topics == {"new"}


@GROUPS
@pytest.mark.parametrize("again", [["stays", "new"], "stays|new"])
def test_what_stays_subscribed_stays_buffered(
    world: World, assignor: Any, again: list[str] | str
) -> None:
    consumer = a_reader(world, assignor, "old", "stays")
    before = consumer.status().partitions

    if isinstance(again, str):
        consumer.subscribe(pattern=again)
    else:
        consumer.subscribe(again)
    after = consumer.status().partitions

    assert after[STAYS].buffered_bytes == before[STAYS].buffered_bytes > 0
    assert before[OLD].buffered_bytes > 0 == after[OLD].buffered_bytes
    assert "not subscribed" in after[OLD].trouble
    assert "stays" in by_poll(consumer)


@GROUPS
def test_a_pattern_leaves_out_what_it_does_not_match(world: World, assignor: Any) -> None:
    consumer = a_reader(world, assignor, "old")

    consumer.subscribe(pattern="ne.*")
    records = polled(world, consumer, lambda: consumer.assignment() == {NEW})

    assert {one.topic for one in records} <= {"new"}


@GROUPS
def test_the_position_of_what_is_left_out_is_committed_as_it_was_consumed(
    world: World, assignor: Any
) -> None:
    consumer = a_reader(world, assignor, "old", auto_commit_interval_ms=3_600_000)
    consumed = consumer.position(OLD)

    consumer.subscribe(["new"])
    polled(world, consumer, lambda: consumer.assignment() == {NEW})

    assert 0 < consumed < 300
    assert consumer.committed(OLD) == consumed


@GROUPS
def test_who_subscribes_to_it_again_before_it_was_revoked_reads_on_without_a_gap(
    world: World, assignor: Any
) -> None:
    consumer = a_reader(world, assignor, "old")
    consumed = consumer.position(OLD)

    consumer.subscribe(["new"])
    assert by_poll(consumer) <= {"new"}
    consumer.subscribe(["old", "new"])
    records = polled(world, consumer, lambda: _stands_at(consumer, OLD, 300))

    offsets = [record.offset for record in records if record.topic == "old"]
    assert offsets == list(range(consumed, 300))


@GROUPS
def test_an_assignment_for_the_subscription_of_before_gives_out_nothing(
    world: World, assignor: Any
) -> None:
    """The group may assign partitions for the subscription that is replaced meanwhile."""
    consumer = world.consumer(
        "old", group_id="g", partition_assignment_strategy=[assignor], auto_offset_reset="earliest"
    )
    consumer.poll(timeout_ms=0)
    world.sleep(10.0)  # the assignment is here, and no poll has acted on it
    assert not consumer.assignment()

    consumer.subscribe(["new"])
    records = polled(world, consumer, lambda: consumer.assignment() == {NEW})

    assert {one.topic for one in records} <= {"new"}


@GROUPS
def test_unsubscribing_and_subscribing_gives_out_nothing_of_before(
    world: World, assignor: Any
) -> None:
    consumer = a_reader(world, assignor, "old", "stays")

    consumer.unsubscribe()
    consumer.subscribe(["new"])
    records = polled(world, consumer, lambda: consumer.position(NEW))

    assert {one.topic for one in records} == {"new"}


@GROUPS
def test_an_error_of_what_is_left_out_is_not_raised(world: World, assignor: Any) -> None:
    def number(value: bytes) -> int:
        return int(value.split(b":")[1])

    world.cluster.create_topic("torn")
    world.cluster.fill("torn", 5)
    world.cluster.produce("torn", 0, b"no number")
    consumer = a_reader(world, assignor, "torn", value_deserializer=number)

    consumer.subscribe(["new"])  # the next poll would have raised

    polled(world, consumer, lambda: consumer.assignment() == {NEW})
