"""Commits: what is stored, when, and what never is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    RebalanceInProgressError,
)
from kafka.structs import OffsetAndMetadata

from aktor.errors import WakeupError
from tests.gate import all_but_the_first
from tests.scenarios.history import History
from tests.scenarios.reading import T0, T1, a_member, read
from tests.scenarios.world import World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 40 records each; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def test_auto_commit_stores_only_what_the_application_is_finished_with(world: World) -> None:
    """The records of the last poll are not finished with until the next one."""
    consumer = a_member(world, auto_commit_interval_ms=100, max_poll_records=10)
    given = {T0: 0, T1: 0}

    for _ in range(8):
        finished = dict(given)
        for partition, records in consumer.poll(timeout_ms=1000).items():
            given[partition] = records[-1].offset + 1
        world.sleep(0.5)
        for partition in (T0, T1):
            stored = world.cluster.committed("g", *partition) or 0
            assert stored <= max(finished[partition], 0)
    consumer.poll(timeout_ms=10)
    world.sleep(0.5)

    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [40, 40]


def test_an_automatic_commit_is_made_while_a_long_poll_waits_for_records(world: World) -> None:
    """Without a member's heartbeats nothing else wakes anybody. (Java: timeToNextPoll.)"""
    consumer = world.consumer(
        group_id="g", auto_offset_reset="earliest", auto_commit_interval_ms=1000
    )
    consumer.assign([T0])
    for _ in range(20):
        consumer.poll(timeout_ms=10)
    stored: list[int | None] = []
    world.after(2.5, lambda: stored.append(world.cluster.committed("g", *T0)))

    assert consumer.poll(timeout_ms=8000) == {}

    assert stored == [40]


def test_a_long_poll_commits_when_the_interval_is_over_and_not_one_later(world: World) -> None:
    """The interval begins with the assignment, which comes after the poll began."""
    consumer = a_member(world, auto_commit_interval_ms=4_000)
    read(world, consumer, 80)
    stored: list[int | None] = []
    world.after(4.5, lambda: stored.append(world.cluster.committed("g", *T0)))

    assert consumer.poll(timeout_ms=10_000) == {}

    assert stored == [40]


def test_an_automatic_commit_that_is_refused_is_made_again_after_the_backoff(
    world: World,
) -> None:
    """Also while a long poll waits."""
    consumer = a_member(world, auto_commit_interval_ms=4_000)
    read(world, consumer, 80)
    world.cluster.fail_next("OffsetCommit", CoordinatorLoadInProgressError, times=1)
    stored: list[int | None] = []
    world.after(5.0, lambda: stored.append(world.cluster.committed("g", *T0)))

    consumer.poll(timeout_ms=10_000)

    assert stored == [40]


def test_an_orderly_close_commits_what_was_given_out(world: World) -> None:
    """Java 20: testAutoCommitOnClose."""
    consumer = a_member(world, auto_commit_interval_ms=60_000, max_poll_records=7)
    count = len(read(world, consumer, 21))

    consumer.close()

    stored = [world.cluster.committed("g", *one) or 0 for one in (T0, T1)]
    assert sum(stored) == count


def test_a_close_after_a_wakeup_commits_as_well(world: World) -> None:
    """Java 20, 114: testAutoCommitOnCloseAfterWakeup."""
    consumer = a_member(world, auto_commit_interval_ms=60_000)
    read(world, consumer, 80)

    consumer.wakeup()
    consumer.close()

    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [40, 40]


def test_a_last_commit_that_does_not_succeed_leaves_time_for_leaving(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=True, auto_commit_interval_ms=1_000_000)
    read(world, consumer, 80)
    world.cluster.fail_next("OffsetCommit", CoordinatorLoadInProgressError, times=1_000)

    began = world.now
    consumer.close(timeout_ms=8_000)

    assert not world.cluster.group("g").members
    assert world.now - began < 8.0


def test_a_close_without_autocommit_commits_nothing(world: World) -> None:
    consumer = a_member(world, auto_commit_interval_ms=60_000)
    read(world, consumer, 80)

    consumer.close(autocommit=False)

    assert world.cluster.group("g").offsets == {}


def test_asynchronous_commits_end_in_their_order_and_the_last_one_wins(world: World) -> None:
    """Java 24, 27."""
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    ended: list[int] = []

    for number in range(1, 11):
        consumer.commit_async(
            {T0: OffsetAndMetadata(number, "", -1)},
            callback=lambda offsets, answer: ended.append(offsets[T0].offset),
        )
    consumer.commit({T1: OffsetAndMetadata(3, "", -1)})

    assert ended == list(range(1, 11))
    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [10, 3]


def test_hundreds_of_commit_callbacks_that_commit_are_not_called_inside_one_another(
    world: World,
) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    inside: list[int] = []
    deepest = 0

    def commit_again(number: int) -> None:
        nonlocal deepest
        inside.append(number)
        deepest = max(deepest, len(inside))
        again.append(consumer.commit_async())
        inside.pop()
        called.append(number)

    called: list[int] = []
    again: list[Any] = []
    futures = [
        consumer.commit_async(callback=lambda *_, number=number: commit_again(number))
        for number in range(300)
    ]
    while not all(future.is_done for future in futures):
        world.sleep(0.1)
    consumer.poll(timeout_ms=100)
    consumer.commit()

    assert called == list(range(300))
    assert deepest == 1
    assert all(future.succeeded() for future in again)


def test_an_asynchronous_commit_is_not_lost_by_a_close_right_after_it(world: World) -> None:
    """Java 27: testCommitAsyncCompletedBeforeConsumerCloses."""
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    told: list[Any] = []

    future = consumer.commit_async(callback=lambda offsets, answer: told.append(answer))
    consumer.close()

    assert future.succeeded()
    assert told == [None]
    assert world.cluster.committed("g", *T0) == 40


def test_a_close_runs_all_callbacks_though_each_raises_and_raises_the_first_error(
    world: World,
) -> None:
    class Counting:
        closed = 0

        def __call__(self, value: bytes) -> bytes:
            return value

        def close(self) -> None:
            self.closed += 1

    deserializer = Counting()
    consumer = a_member(world, enable_auto_commit=False, value_deserializer=deserializer)
    read(world, consumer, 80)
    called: list[int] = []

    def fail(number: int) -> None:
        called.append(number)
        raise LookupError(f"callback {number}")

    for number in range(3):
        consumer.commit_async(callback=lambda *_, number=number: fail(number))
    world.sleep(1.0)

    with pytest.raises(LookupError, match="callback 0"):
        consumer.close()

    assert (called, deserializer.closed) == ([0, 1, 2], 1)
    assert consumer.status().state == "closed"


def test_what_is_added_to_a_future_may_end_in_system_exit(world: World) -> None:
    """It runs on the background thread: no actor crashes by it."""
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)

    for _ in range(10):
        consumer.commit_async().add_callback(lambda _: sys.exit(1))
        world.sleep(0.5)
    consumer.commit()

    assert consumer.status().state == "running"


@pytest.mark.parametrize(
    "error", [NotCoordinatorError, CoordinatorLoadInProgressError], ids=lambda one: one.__name__
)
def test_a_commit_outlives_refusals_that_pass(world: World, error: Any) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    world.cluster.fail_next("OffsetCommit", error, times=3)

    consumer.commit(timeout_ms=5_000)

    assert world.cluster.committed("g", *T0) == 40


def test_a_commit_outlives_a_move_of_the_coordinator(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    world.after(world.random.uniform(0.0, 0.004), lambda: world.cluster.move_coordinator("g"))

    consumer.commit(timeout_ms=5_000)
    consumer.commit({T0: OffsetAndMetadata(17, "", -1)}, timeout_ms=5_000)

    assert [world.cluster.committed("g", *one) for one in (T0, T1)] == [17, 40]


def test_a_commit_outlives_a_coordinator_that_does_not_answer(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False, request_timeout_ms=60_000)
    read(world, consumer, 80)
    world.cluster.drop_next("OffsetCommit")

    consumer.commit(timeout_ms=60_000)

    assert world.cluster.committed("g", *T0) == 40


def test_a_commit_that_cannot_be_stored_ends_at_its_deadline(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    world.cluster.down(1, 2, 3)

    began = world.now
    with pytest.raises(KafkaError) as raised:
        consumer.commit(timeout_ms=2_000)

    assert isinstance(raised.value, KafkaTimeoutError)
    assert world.now - began == pytest.approx(2.0, abs=0.01)
    world.cluster.back(1, 2, 3)


def test_a_commit_that_is_forbidden_fails_at_once(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    world.cluster.fail_next("OffsetCommit", GroupAuthorizationFailedError)

    began = world.now
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.commit(timeout_ms=10_000)

    assert world.now - began < 0.1


def test_nothing_is_committed_for_partitions_that_were_lost(world: World) -> None:
    history = History(world)
    sleeper = history.reader(
        "orders", group_id="g", auto_commit_interval_ms=200, session_timeout_ms=6_000
    )
    history.drive(2.0)
    heir = history.reader("orders", group_id="g", session_timeout_ms=6_000)
    history.drive(5.0)
    group = world.cluster.group("g")

    world.freeze(sleeper.consumer)
    sleeper.gone = True
    slept = world.now
    history.drive(10.0, heir)
    world.cluster.fill("orders", 10)
    history.drive(2.0, heir)
    expired = [one.member_id for one in group.members.values()]
    world.thaw(sleeper.consumer)
    sleeper.gone = False
    history.drive(6.0)

    by_others = [one for one in group.commits if one[0] > slept and one[1] not in group.members]
    assert expired == [heir.consumer.group_metadata().member_id]
    assert by_others == []
    history.assert_kept("orders", duplicates=True)


def test_a_commit_of_a_member_that_was_thrown_out_says_so(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)
    world.cluster.expire("g", consumer.group_metadata().member_id)

    with pytest.raises((CommitFailedError, RebalanceInProgressError)):
        consumer.commit(timeout_ms=5_000)
    again = read(world, consumer, 80)
    consumer.commit(timeout_ms=5_000)

    assert len(again) == 80
    assert world.cluster.committed("g", *T0) == 40


def test_offsets_committed_before_are_found_by_a_consumer_with_assigned_partitions(
    world: World,
) -> None:
    first = world.consumer(group_id="g", enable_auto_commit=False)
    first.assign([T0])
    first.seek(T0, 0)
    read(world, first, 40)
    first.commit({T0: OffsetAndMetadata(25, "", -1)})

    second = world.consumer(group_id="g", enable_auto_commit=False)
    second.assign([T0])

    assert second.position(T0) == 25
    assert len(read(world, second, 15)) == 15


def test_the_committed_offsets_of_several_partitions_are_a_dict(world: World) -> None:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    consumer.commit({T0: OffsetAndMetadata(25, "half", -1)})

    offsets = consumer.committed([T0, T1])
    whole = consumer.committed({T0}, metadata=True)
    with pytest.raises(TypeError, match=r"not \('orders', 0\)"):
        consumer.committed(("orders", 0))

    assert offsets == {T0: 25, T1: None}
    assert whole[T0].metadata == "half"
    assert consumer.committed([]) == {}


def test_unsubscribing_commits_and_leaves_though_it_is_to_wake_up(world: World) -> None:
    consumer = a_member(world, auto_commit_interval_ms=60_000)
    read(world, consumer, 80)
    consumer.wakeup()

    consumer.unsubscribe()

    assert world.cluster.committed("g", *T0) == 40
    with pytest.raises(WakeupError):
        consumer.poll()


def test_unsubscribing_commits_and_leaves(world: World) -> None:
    """kafka-python commits on unsubscribe with auto-commit on (unlike Java 38)."""
    consumer = a_member(world, auto_commit_interval_ms=60_000)
    read(world, consumer, 80)

    consumer.unsubscribe()
    world.sleep(0.5)

    assert world.cluster.committed("g", *T0) == 40
    assert world.cluster.group("g").members == {}
    assert consumer.assignment() == set()
