"""Brokers that go, stay silent or move: the consumer ends its calls in time, and goes on after."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaStorageError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    UnknownError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

from aktor.errors import BootstrapError
from aktor.events.network import ReportBootstrap
from tests.gate import all_but_the_first
from tests.scenarios.history import History
from tests.scenarios.reading import T0, T1, a_member, read
from tests.scenarios.world import World, seeds

APIS = (
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetFetch",
    "OffsetCommit",
    "ListOffsets",
    "Fetch",
    "Metadata",
)


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 40 records each; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def test_with_all_brokers_down_a_poll_ends_in_time_and_reading_goes_on_when_they_are_back(
    world: World,
) -> None:
    """Java 139."""
    consumer = a_member(world)
    read(world, consumer, 80)
    world.cluster.down(1, 2, 3)

    for _ in range(20):
        began = world.now
        assert consumer.poll(timeout_ms=1000) == {}
        assert world.now - began == pytest.approx(1.0, abs=0.01)
    world.cluster.back(1, 2, 3)
    world.cluster.fill("orders", 10)

    assert len(read(world, consumer, 20, within=40.0)) == 20


def test_with_all_brokers_down_a_close_ends_within_its_time(world: World) -> None:
    """Java 110: ConsumerBounceTest testClose, cluster down."""
    consumer = a_member(world)
    read(world, consumer, 80)
    world.cluster.down(1, 2, 3)

    began = world.now
    consumer.close(timeout_ms=3_000)

    assert world.now - began <= 3.01


def test_a_close_ends_within_its_time_when_the_coordinator_says_nothing(world: World) -> None:
    """Java 110, 28."""
    consumer = a_member(world)
    read(world, consumer, 80)
    for api in ("OffsetCommit", "LeaveGroup", "Heartbeat"):
        world.cluster.drop_next(api, times=20)

    began = world.now
    consumer.close(timeout_ms=3_000)

    assert world.now - began <= 3.01


def test_a_cluster_that_is_not_there_is_reported_and_waited_for(world: World) -> None:
    world.cluster.down(1, 2, 3)
    consumer = a_member(world)

    with pytest.raises(BootstrapError, match="b1:9092"):
        consumer.poll(timeout_ms=60_000)
    world.cluster.back(1, 2, 3)
    for _ in range(10):
        try:
            records = read(world, consumer, 80, within=30.0)
            break
        except BootstrapError:
            continue

    assert len(records) == 80


def test_a_constructor_waits_for_the_first_answer_of_a_broker_and_no_longer(world: World) -> None:
    began = world.now
    a_member(world, bootstrap_timeout_ms=30_000)

    assert world.now - began < 0.5


def test_a_constructor_waits_for_a_cluster_that_is_starting(world: World) -> None:
    world.cluster.down(1, 2, 3)
    world.after(5.0, lambda: world.cluster.back(1, 2, 3))

    consumer = a_member(world, bootstrap_timeout_ms=30_000)

    assert len(read(world, consumer, 80)) == 80


def test_a_constructor_whose_cluster_is_not_there_raises_in_time_and_its_background_ends(
    world: World,
) -> None:
    world.cluster.down(1, 2, 3)
    began = world.now

    with pytest.raises(BootstrapError, match="b1:9092"):
        world.consumer("orders", bootstrap_timeout_ms=3_000)

    assert world.now - began == pytest.approx(3.0, abs=0.2)
    assert not any(host.running for host in world.hosts)


@pytest.mark.parametrize("timeout_ms", [100, 1000, 5000])
def test_an_iteration_over_a_cluster_that_is_down_does_not_end_as_if_it_were_empty(
    world: World, timeout_ms: int
) -> None:
    world.cluster.down(1, 2, 3)
    consumer = world.consumer("orders", consumer_timeout_ms=timeout_ms)

    for _ in range(3):
        with pytest.raises(BootstrapError, match="b1:9092"):
            list(consumer)


def test_an_actor_that_falls_over_the_question_what_came_of_the_attempts_ends_no_poll(
    world: World,
) -> None:
    world.cluster.down(1, 2, 3)
    consumer = a_member(world)
    fell = world.host(consumer).crash("network", ReportBootstrap, times=2)

    for _ in range(2):
        assert consumer.poll(timeout_ms=1000) == {}
    with pytest.raises(BootstrapError, match="b1:9092"):
        consumer.poll(timeout_ms=5000)

    assert len(fell) == 2


def test_an_iteration_goes_on_when_the_cluster_comes_up_and_ends_when_it_is_read(
    world: World,
) -> None:
    world.cluster.down(1, 2, 3)
    world.after(3.5, lambda: world.cluster.back(1, 2, 3))
    consumer = world.consumer("orders", auto_offset_reset="earliest", consumer_timeout_ms=1000)

    records: list[Any] = []
    errors = 0
    while not records:
        try:
            records += consumer
        except BootstrapError:
            errors += 1
    world.cluster.down(1, 2, 3)

    assert errors >= 3
    assert len(records) == 80
    assert list(consumer) == []


def test_one_broker_down_costs_nothing_but_a_moment(world: World) -> None:
    """Java 136, 137: no partition is given up for it."""
    history = History(world)
    reader = history.reader("orders", group_id="g")
    world.trickle("orders", 100, over=30.0)
    history.drive(3.0)

    for node in (1, 2, 3):
        world.cluster.down(node)
        history.drive(5.0)
        world.cluster.back(node)
        history.drive(5.0)
    history.drive(5.0)

    history.assert_kept("orders")
    assert [call for call, _ in reader.calls] == ["assigned"]


def test_leaders_that_move_are_followed(world: World) -> None:
    history = History(world)
    history.reader("orders", group_id="g")
    world.trickle("orders", 100, over=8.0)

    for at in range(1, 8):
        world.after(at, lambda: world.cluster.move_leader("orders", world.random.randrange(2)))
    history.drive(12.0)

    history.assert_kept("orders")


def test_leaders_that_brokers_name_are_followed_without_new_metadata(world: World) -> None:
    """KIP-951."""
    world.cluster.names_leaders = True
    history = History(world)
    history.reader("orders", group_id="g", metadata_max_age_ms=300_000)
    world.trickle("orders", 100, over=8.0)
    history.drive(0.9)
    asked = world.cluster.asked["Metadata"]

    for at in range(1, 8):
        world.after(at, lambda: world.cluster.move_leader("orders", world.random.randrange(2)))
    history.drive(12.0)

    history.assert_kept("orders")
    assert world.cluster.asked["Metadata"] == asked


def test_a_coordinator_that_moves_again_and_again_costs_no_partition(world: World) -> None:
    history = History(world)
    readers = [history.reader("orders", group_id="g") for _ in range(2)]
    history.drive(4.0)
    calls = [list(one.calls) for one in readers]
    world.trickle("orders", 100, over=8.0)

    for at in range(1, 8):
        world.after(at, lambda: world.cluster.move_coordinator("g"))
    history.drive(12.0)

    history.assert_kept("orders")
    assert [one.calls for one in readers] == calls


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_never_comes_is_noticed_and_asked_for_again(world: World, api: str) -> None:
    consumer = a_member(
        world,
        auto_commit_interval_ms=500,
        request_timeout_ms=10_000,
        session_timeout_ms=20_000,
        max_poll_interval_ms=20_000,
        metadata_max_age_ms=1_000,
    )
    world.cluster.drop_next(api)

    records = read(world, consumer, 80, within=60.0)
    world.cluster.fill("orders", 10)
    records += read(world, consumer, 20, within=60.0)
    read(world, consumer, 1, within=15.0)

    assert len({(one.partition, one.offset) for one in records}) == len(records) == 100
    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [50, 50]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", CoordinatorNotAvailableError),
        ("JoinGroup", NotCoordinatorError),
        ("JoinGroup", UnknownMemberIdError),
        ("SyncGroup", NotCoordinatorError),
        ("Heartbeat", NotCoordinatorError),
        ("OffsetFetch", NotCoordinatorError),
        ("OffsetCommit", NotCoordinatorError),
        ("ListOffsets", NotLeaderForPartitionError),
        ("Fetch", KafkaStorageError),
        ("Fetch", UnknownError),
        ("Metadata", CoordinatorNotAvailableError),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_refusals_that_pass_are_retried_and_nobody_hears_of_them(
    world: World, api: str, error: Any
) -> None:
    consumer = a_member(world, auto_commit_interval_ms=500, heartbeat_interval_ms=500)
    world.cluster.fail_next(api, error, times=3)

    records = read(world, consumer, 80, within=30.0)
    read(world, consumer, 1, within=6.0)

    assert len({(one.partition, one.offset) for one in records}) == len(records) == 80
    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [40, 40]


def test_a_group_that_may_not_be_used_is_reported_and_used_once_it_may(world: World) -> None:
    consumer = a_member(world)
    world.cluster.fail_next("FindCoordinator", GroupAuthorizationFailedError, times=2)

    with pytest.raises(GroupAuthorizationFailedError, match="'g'"):
        consumer.poll(timeout_ms=30_000)
    while True:
        try:
            records = read(world, consumer, 80, within=20.0)
            break
        except GroupAuthorizationFailedError:
            continue

    assert len(records) == 80


@pytest.mark.parametrize("api", [one for one in APIS if one != "OffsetCommit"])
def test_brokers_that_are_too_old_for_a_request_are_reported_until_they_are_newer(
    world: World, api: str
) -> None:
    world.cluster.too_old_for.add(api)
    consumer = a_member(world)

    for _ in range(2):
        with pytest.raises(UnsupportedVersionError):
            read(world, consumer, 81, within=10.0)
    world.cluster.too_old_for.clear()

    records: list[Any] = []
    while len(records) < 80:
        with contextlib.suppress(UnsupportedVersionError):
            records += read(world, consumer, 80 - len(records), within=1.0)
    assert len(records) == 80


def test_a_consumer_that_stood_still_asks_the_group_before_it_gives_anything_out(
    world: World,
) -> None:
    """The zombie: its buffer is full, its session is over, and it cannot know."""
    consumer = a_member(world, session_timeout_ms=6_000, enable_auto_commit=False)
    read(world, consumer, 1, max_records=1)
    world.sleep(1.0)

    world.freeze(consumer)
    world.sleep(20.0)
    assert world.cluster.group("g").members == {}
    world.thaw(consumer)
    lost_at = len(world.host(consumer).events)
    taken = consumer.poll(timeout_ms=0)
    records = read(world, consumer, 80)

    assert taken == {}
    assert len(records) == 80  # from the beginning: nothing was committed
    since = world.host(consumer).events[lost_at:]
    assert [one["event"] for one in since if one["event"] == "session.unconfirmed"]


@pytest.mark.parametrize("stopped", [8.0, 20.0])
def test_a_stall_that_is_told_when_a_process_goes_on_says_that_it_stood_still(
    world: World, stopped: float
) -> None:
    consumer = a_member(world, session_timeout_ms=6_000, enable_auto_commit=False)
    read(world, consumer, 1, max_records=1)
    world.sleep(1.0)

    world.freeze(consumer)
    world.sleep(stopped)
    world.thaw(consumer)
    goes_on = len(world.host(consumer).events)
    read(world, consumer, 80)

    since = world.host(consumer).events[goes_on:]
    stalls = [one["because"] for one in since if one["event"] == "delivery.stalled"]
    assert stalls
    for because in stalls:
        assert re.search(r": the process stood still for at least \d+\.\d s, or its", because)
        assert "coordinator" not in because
    assert "heartbeat.late" not in {one["event"] for one in since}


@pytest.mark.parametrize("commits", [False, True])
def test_a_consumer_that_nobody_closed_can_be_dropped(world: World, commits: bool) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    host = world.host(consumer)
    if commits:  # its answer is still to come
        consumer.commit_async(callback=lambda offsets, answer: None)

    host.consumer = None  # type: ignore[assignment]
    del consumer
    gc.collect()

    assert host.dispatcher.ended
    world.hosts.remove(host)
