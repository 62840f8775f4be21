"""Topics that appear, are forbidden, are cut off at either end, or hold rubbish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.serializer import Deserializer
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import CorruptBatchError, RecordDeserializationError
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, offsets, read
from tests.scenarios.world import World, seeds

ReadOn = Callable[[World, KafkaConsumer], list[Any]]


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 40 records each; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def test_a_topic_that_appears_later_is_read_from_its_beginning(world: World) -> None:
    """Java 139: testSubscribeWhenTopicUnavailable."""
    consumer = world.consumer("later", group_id="g", auto_offset_reset="earliest")
    with pytest.raises(UnknownTopicOrPartitionError, match="later"):
        consumer.poll(timeout_ms=30_000)

    world.cluster.create_topic("later", partitions=2)
    world.cluster.fill("later", 10)
    records = read(world, consumer, 20, within=20.0)

    assert sorted(offsets(records, 0)) == sorted(offsets(records, 1)) == list(range(10))


def test_without_a_group_all_partitions_of_a_topic_are_read_new_ones_too(world: World) -> None:
    consumer = world.consumer("orders", auto_offset_reset="earliest", metadata_max_age_ms=2_000)
    assert len(read(world, consumer, 80)) == 80

    world.cluster.create_topic("orders", partitions=3)
    world.cluster.produce("orders", 2, b"2:0")

    assert [one.value for one in read(world, consumer, 1, within=10.0)] == [b"2:0"]


def test_a_forbidden_topic_is_reported_and_read_once_it_is_allowed(world: World) -> None:
    world.cluster.forbidden.add("orders")
    consumer = a_member(world)

    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(timeout_ms=30_000)
    world.cluster.forbidden.clear()

    assert len(read(world, consumer, 80, within=20.0)) == 80


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_position_in_a_forbidden_topic_is_refused_at_once(
    world: World, group_id: str | None
) -> None:
    world.cluster.forbidden.add("orders")
    consumer = world.consumer(group_id=group_id, auto_offset_reset="earliest")
    consumer.assign([T0])
    began = world.now

    for _ in range(2):
        with pytest.raises(TopicAuthorizationFailedError, match="orders"):
            consumer.position(T0)
    assert world.now - began < 1.0

    world.cluster.forbidden.clear()
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(timeout_ms=30_000)  # it was refused, and that is said once
    consumer.poll(timeout_ms=3000)
    assert consumer.position(T0) > 0


def test_a_topic_that_is_forbidden_later_is_reported_and_read_on_when_allowed_again(
    world: World,
) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    world.cluster.forbidden.add("orders")
    world.cluster.fill("orders", 10)

    with pytest.raises(TopicAuthorizationFailedError):
        read(world, consumer, 1, within=30.0)
    world.cluster.forbidden.clear()
    records: list[Any] = []
    while len(records) < 20:
        try:
            records += read(world, consumer, 20 - len(records), within=30.0)
        except TopicAuthorizationFailedError:
            continue

    assert offsets(records, 0) == offsets(records, 1) == list(range(40, 50))


def test_without_a_policy_a_missing_offset_is_raised_at_each_poll_until_it_is_sought(
    world: World,
) -> None:
    """Java 2, 80."""
    consumer = a_member(world, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll(timeout_ms=5_000)

    for _ in range(3):
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(timeout_ms=0)
    with pytest.raises(NoOffsetForPartitionError):
        consumer.position(T0)
    consumer.seek(T0, 30)
    consumer.seek(T1, 35)
    records = read(world, consumer, 15)

    assert offsets(records, 0) == list(range(30, 40))
    assert offsets(records, 1) == list(range(35, 40))


@pytest.mark.parametrize(("policy", "goes_on_at"), [("earliest", 20), ("latest", 40)])
def test_an_offset_out_of_range_is_reset_by_the_policy(
    world: World, policy: str, goes_on_at: int
) -> None:
    """Java 81."""
    consumer = a_member(world, auto_offset_reset=policy)
    world.cluster.log("orders", 0).delete_before(20)
    consumer.poll(timeout_ms=1000)

    consumer.seek(T0, 5)
    world.after(1.0, lambda: world.cluster.fill("orders", 10))
    records = [one for one in read(world, consumer, 1000, within=5.0) if one.partition == 0]

    assert [one.offset for one in records[-(50 - goes_on_at) :]] == list(range(goes_on_at, 50))
    assert 5 not in offsets(records, 0)


def test_without_a_policy_an_offset_out_of_range_is_raised_until_it_is_sought(
    world: World,
) -> None:
    """Java 80: testFetchInvalidOffset."""
    consumer = world.consumer(auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 99)

    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll(timeout_ms=5_000)
    consumer.seek(T0, 38)

    assert offsets(read(world, consumer, 2), 0) == [38, 39]


def test_records_before_a_corrupt_batch_are_given_out_and_then_it_is_raised_until_sought_past(
    world: World,
) -> None:
    """Java 98: testParseCorruptedRecord."""
    world.cluster.log("orders", 0).corrupt(25)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])

    before = read(world, consumer, 20)
    errors = []
    for _ in range(5):
        with pytest.raises(CorruptBatchError) as raised:
            consumer.poll(timeout_ms=1000)
        errors.append(raised.value)
    consumer.seek(T0, 30)
    after = read(world, consumer, 10)

    assert offsets(before, 0) == list(range(20))
    assert {(one.partition, one.offset) for one in errors} == {(0, 20)}
    assert offsets(after, 0) == list(range(30, 40))


@pytest.mark.parametrize("iterating", [False, True])
def test_a_batch_that_was_damaged_on_the_way_is_told_and_then_read_without_a_seek(
    world: World, iterating: bool
) -> None:
    log = world.cluster.log("orders", 0)
    log.corrupt(25)
    consumer = world.consumer(auto_offset_reset="earliest", consumer_timeout_ms=1000)
    consumer.assign([T0])
    records = read(world, consumer, 20)

    with pytest.raises(CorruptBatchError) as raised:
        consumer.poll(timeout_ms=1000)
    log.corrupt(25)  # the same bit: it is sound again
    for _ in range(20):
        try:
            records += list(consumer) if iterating else read(world, consumer, 20, within=0.2)
        except CorruptBatchError:
            continue

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*T0, 20)
    assert offsets(records, 0) == list(range(40))


def test_a_batch_that_stays_corrupt_is_fetched_anew_three_times(world: World) -> None:
    world.cluster.log("orders", 0).corrupt(25)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])
    read(world, consumer, 20)
    began, asked = world.now, world.cluster.asked["Fetch"]
    for _ in range(40):
        with pytest.raises(CorruptBatchError):
            consumer.poll(timeout_ms=1000)

    assert world.now - began == pytest.approx(4.0, abs=1.0)  # it does not spin
    # Long polls of half a second, and for each attempt one of the session, and one beside it.
    assert world.cluster.asked["Fetch"] - asked <= 8 + 2 * 3 + 2


@pytest.mark.parametrize("why", ["the checksum is wrong", "no such codec", "no such value"])
def test_what_stands_behind_a_batch_that_cannot_be_read_is_not_fetched_again_and_again(
    world: World, why: str
) -> None:
    """20 batches, one in each Fetch, and what is written meanwhile; all fits into the buffer."""
    world.cluster.create_topic("small", partitions=1)
    world.cluster.fill("small", 105, batch=5)
    log = world.cluster.log("small", 0)
    settings: dict[str, Any] = {"max_partition_fetch_bytes": 100, "max_buffered_bytes": 1_000_000}
    if why == "the checksum is wrong":
        log.corrupt(2)
    elif why == "no such codec":
        log.name_codec(2, 7)
    else:
        settings["value_deserializer"] = Refusing(b"0:2")
    consumer = world.consumer(auto_offset_reset="earliest", **settings)
    small = TopicPartition("small", 0)
    consumer.assign([small])

    for number in range(30):
        with suppress(KafkaError):
            consumer.poll(timeout_ms=100)
        world.cluster.produce("small", 0, b"%d" % number)  # so that no Fetch waits for long
    asked = world.cluster.asked["Fetch"]
    assert 21 <= asked <= 21 + 30  # each batch once

    consumer.seek(small, 5)
    assert offsets(read(world, consumer, 130, within=10.0), 0) == list(range(5, 135))


class Refusing(Deserializer):
    def __init__(self, refused: bytes) -> None:
        self.refused = refused

    def deserialize(self, topic: str, headers: Any, data: bytes) -> bytes:
        """Refuse one record."""
        if data == self.refused:
            raise ValueError("not this one")
        return data


def test_a_deserializer_that_fails_is_raised_at_its_record_until_sought_past(
    world: World,
) -> None:
    """Java 98: testFetchedRecordsRaisesOnSerializationErrors."""

    consumer = world.consumer(auto_offset_reset="earliest", value_deserializer=Refusing(b"0:12"))
    consumer.assign([T0])

    before = read(world, consumer, 12)
    for _ in range(3):
        with pytest.raises(RecordDeserializationError, match="12") as raised:
            consumer.poll(timeout_ms=1000)
    consumer.seek(T0, 13)

    assert offsets(before, 0) == list(range(12))
    assert isinstance(raised.value.__cause__, ValueError)
    assert offsets(read(world, consumer, 27), 0) == list(range(13, 40))


def polled(world: World, consumer: KafkaConsumer) -> list[Any]:
    """The records of one poll."""
    return [one for some in consumer.poll(timeout_ms=1000).values() for one in some]


def iterated(world: World, consumer: KafkaConsumer) -> list[Any]:
    """The next record."""
    return [next(consumer)]


def came_of(world: World, consumer: KafkaConsumer, read_on: ReadOn, times: int) -> list[Any]:
    """Records, and errors among them, as they came to one who catches errors and goes on."""
    came: list[Any] = []
    for _ in range(times):
        try:
            came += read_on(world, consumer)
        except KafkaError as error:
            came.append(error)
            world.sleep(0.1)
    return came


@pytest.mark.parametrize(("read_on", "times"), [(polled, 60), (iterated, 300)])
def test_a_bad_record_is_told_beside_a_busy_partition_and_keeps_none_of_its_records_back(
    world: World, read_on: ReadOn, times: int
) -> None:
    world.cluster.log("orders", 0).corrupt(25)
    for count in range(40, 400):
        world.cluster.produce("orders", 1, b"1:%d" % count)
    consumer = world.consumer(auto_offset_reset="earliest", max_poll_records=5)
    consumer.assign([T0, T1])
    # Fetching begins with the first poll; records of one partition must not be read to their end,
    # in no time, while the connection to the leader of the other is still being made.
    came: list[Any] = [one for some in consumer.poll().values() for one in some]
    world.sleep(1.0)
    came += came_of(world, consumer, read_on, times)

    records = [one for one in came if not isinstance(one, KafkaError)]
    told = [index for index, one in enumerate(came) if isinstance(one, CorruptBatchError)]
    read_of_busy = offsets(records, 1)
    assert offsets(records, 0) == list(range(20))
    assert read_of_busy == list(range(len(read_of_busy)))
    assert len(read_of_busy) >= 100
    # It was found after the records before it, in turn; then it comes with every second poll.
    assert told[0] <= 50
    assert len(told) >= 20
    assert max(later - earlier for earlier, later in pairwise(told)) <= 6

    consumer.seek(T0, 30)
    assert offsets(read(world, consumer, 400), 0) == list(range(30, 40))


def test_a_right_that_is_withdrawn_beside_a_busy_topic_is_told_and_read_on_when_it_is_back(
    world: World,
) -> None:
    world.cluster.create_topic("busy")
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest", max_poll_records=5)
    consumer.subscribe(["orders", "busy"])
    world.after(1.0, lambda: world.cluster.forbidden.add("orders"))
    world.after(7.0, lambda: world.cluster.forbidden.clear())
    until = world.now + 12.0

    read_of_orders: list[Any] = []
    told: list[float] = []
    while world.now < until:
        world.sleep(0.05)
        world.cluster.fill("busy", 10)
        if world.now < until - 2.0:
            world.cluster.produce("orders", 0, b"more")
        try:
            came = polled(world, consumer)
        except TopicAuthorizationFailedError:
            told.append(world.now)
        else:
            read_of_orders += [one for one in came if one.topic == "orders"]

    assert told
    for index in (0, 1):
        end = world.cluster.log("orders", index).end
        assert offsets(read_of_orders, index) == list(range(end))


def test_a_batch_that_is_larger_than_every_limit_is_delivered(world: World) -> None:
    """Java 97, KIP-74."""
    world.cluster.create_topic("large")
    world.cluster.produce("large", 0, bytes(50_000))
    world.cluster.produce("large", 0, b"after")
    consumer = world.consumer(
        "large", auto_offset_reset="earliest", max_partition_fetch_bytes=1000, fetch_max_bytes=1000
    )

    records = read(world, consumer, 2)

    assert [len(one.value) for one in records] == [50_000, 5]


def test_fetch_sessions_that_brokers_refuse_or_forget_lose_nothing(world: World) -> None:
    """Java 93."""
    consumer = a_member(world)
    records = read(world, consumer, 80)

    world.cluster.down()  # forgets all fetch sessions
    world.cluster.fill("orders", 10)
    records += read(world, consumer, 20)
    world.cluster.sessions = False
    world.cluster.fill("orders", 10)
    records += read(world, consumer, 20)

    assert sorted(offsets(records, 0)) == sorted(offsets(records, 1)) == list(range(60))


def test_committed_offsets_that_may_be_read_again_are_asked_for_within_a_second(
    world: World,
) -> None:
    """As kafka-python and Java: the error is raised once for each attempt."""
    world.cluster.fail_next("OffsetFetch", GroupAuthorizationFailedError)
    consumer = a_member(world)

    with pytest.raises(GroupAuthorizationFailedError):
        consumer.poll(timeout_ms=5_000)
    world.sleep(5.0)

    assert len(read(world, consumer, 80)) == 80
