"""Groups of consumers: who owns what when members come, go, fall over and come back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import TopicPartition

from tests.gate import all_but_the_first
from tests.scenarios.history import History
from tests.scenarios.world import World, seeds

PARTITIONS = 6

EAGER = RangePartitionAssignor
COOPERATIVE = CooperativeStickyAssignor


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with six partitions in a world of each seed; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=PARTITIONS)
        yield world


@pytest.fixture(params=[EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def group(request: Any) -> dict[str, Any]:
    """The settings of a member."""
    return {
        "group_id": "g",
        "partition_assignment_strategy": [request.param],
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 1_000,
        "auto_commit_interval_ms": 500,
    }


def test_a_lone_member_reads_everything_and_the_next_one_goes_on_exactly_there(
    world: World, group: dict[str, Any]
) -> None:
    history = History(world)
    world.cluster.fill("orders", 50)
    first = history.reader("orders", **group)

    history.drive(2.0)
    first.close()
    world.cluster.fill("orders", 20)
    history.reader("orders", **group)
    history.drive(2.0)

    history.assert_kept("orders")
    assert sum(map(len, history.read.values())) == PARTITIONS * 70


def test_members_that_join_one_after_the_other_share_without_loss_or_duplicate(
    world: World, group: dict[str, Any]
) -> None:
    history = History(world)
    world.trickle("orders", 200, over=8.0)

    for _ in range(3):
        history.reader("orders", **group)
        history.drive(3.0)
    history.drive(3.0)

    history.assert_kept("orders")
    assert sorted(len(one.consumer.assignment()) for one in history.readers) == [2, 2, 2]


def test_members_that_leave_hand_over_without_loss_or_duplicate(
    world: World, group: dict[str, Any]
) -> None:
    history = History(world)
    readers = [history.reader("orders", **group) for _ in range(3)]
    world.trickle("orders", 200, over=10.0)
    history.drive(4.0)

    readers[0].close()
    history.drive(3.0)
    readers[1].close()
    history.drive(5.0)

    history.assert_kept("orders")
    assert len(readers[2].consumer.assignment()) == PARTITIONS


def test_a_killed_members_partitions_are_read_on_from_the_last_commit(
    world: World, group: dict[str, Any]
) -> None:
    """Java 10: survivors take over."""
    history = History(world)
    victim = history.reader("orders", **group)
    survivor = history.reader("orders", **group)
    world.trickle("orders", 200, over=15.0)
    history.drive(4.0)

    victim.kill()
    history.drive(15.0)

    history.assert_kept("orders", duplicates=True)
    assert len(survivor.consumer.assignment()) == PARTITIONS


def test_a_member_that_slept_through_its_session_gives_out_nothing_of_what_others_own(
    world: World, group: dict[str, Any]
) -> None:
    """Java 66, 69: the partitions of a fenced member are lost, not revoked."""
    history = History(world)
    sleeper = history.reader("orders", **group)
    other = history.reader("orders", **group)
    world.cluster.fill("orders", 2000)
    history.drive(4.0, poll=0.01)
    owned = set(sleeper.consumer.assignment())

    world.freeze(sleeper.consumer)
    sleeper.gone = True
    history.drive(20.0)
    world.thaw(sleeper.consumer)
    sleeper.gone = False
    history.drive(10.0)

    history.assert_kept("orders", duplicates=True)
    assert ("lost", owned) in sleeper.calls
    assert sorted(len(one.consumer.assignment()) for one in (sleeper, other)) == [3, 3]


def test_a_member_that_the_coordinator_forgot_comes_back(
    world: World, group: dict[str, Any]
) -> None:
    history = History(world)
    readers = [history.reader("orders", **group) for _ in range(2)]
    world.trickle("orders", 200, over=12.0)
    history.drive(4.0)
    owned = set(readers[0].consumer.assignment())

    world.cluster.expire("g", readers[0].consumer.group_metadata().member_id)
    readers[0].gone = True  # until it hears of it, the group may give its partitions away
    history.drive(0.5, readers[1])
    history.drive(10.0, *readers)

    assert history.lost("orders") == {}
    assert ("lost", owned) in readers[0].calls
    assert sorted(len(one.consumer.assignment()) for one in readers) == [3, 3]


def test_who_was_expelled_commits_in_transactions_as_who_it_was(
    world: World, group: dict[str, Any]
) -> None:
    """A group refuses what an expelled member commits; what nobody commits it takes (KIP-447).
    Found by a simulation: an order that was billed twice."""
    history = History(world)
    readers = [history.reader("orders", **group) for _ in range(2)]
    history.drive(4.0)
    consumer = readers[0].consumer
    before = consumer.group_metadata()

    world.cluster.expire("g", before.member_id)
    readers[0].gone = True  # its user is busy with what it was given
    history.drive(3.0, readers[1])

    assert consumer.status().generation == -1  # it has heard of it
    busy = consumer.group_metadata()
    assert (busy.generation_id, busy.member_id) == (before.generation_id, before.member_id)
    history.drive(5.0, *readers)
    again = consumer.group_metadata()
    assert again.generation_id > before.generation_id
    assert again.member_id == consumer.status().member_id
    consumer.unsubscribe()
    left = consumer.group_metadata()
    assert (left.generation_id, left.member_id) == (-1, "")


def test_who_learns_by_its_last_commit_that_it_was_expelled_is_told_lost(
    world: World, group: dict[str, Any]
) -> None:
    """Found by a simulation: a machine that slept cannot tell by its clock."""
    history = History(world)
    reader = history.reader("orders", **{**group, "enable_auto_commit": True})
    world.cluster.fill("orders", 10)
    history.drive(4.0)
    owned = set(reader.consumer.assignment())

    world.cluster.expire("g", reader.consumer.group_metadata().member_id)
    world.cluster.fill("orders", 10)
    reader.poll(0.5)
    reader.consumer.unsubscribe()

    assert reader.calls[-1] == ("lost", owned)


def test_members_that_come_and_go_at_random_lose_nothing(
    world: World, group: dict[str, Any]
) -> None:
    """Java 140: the totals equal what was produced."""
    history = History(world)
    world.trickle("orders", 300, over=30.0)
    killed = False

    for _ in range(10):
        living = [one for one in history.readers if not one.gone]
        choice = world.random.choice(["join", "join", "leave", "kill", "stay"])
        if choice == "join" and len(living) < 4:
            history.reader("orders", **group)
        elif choice == "leave" and len(living) > 1:
            world.random.choice(living).close()
        elif choice == "kill" and len(living) > 1:
            world.random.choice(living).kill()
            killed = True
        if history.readers:
            history.drive(world.random.uniform(0.1, 4.0))
        else:
            world.sleep(1.0)
    if all(one.gone for one in history.readers):
        history.reader("orders", **group)
    history.drive(25.0)

    history.assert_kept("orders", duplicates=killed)


def test_an_unchanged_partition_stays_with_its_owner_under_the_cooperative_protocol(
    world: World,
) -> None:
    history = History(world)
    settings = {"group_id": "g", "partition_assignment_strategy": [COOPERATIVE]}
    first = history.reader("orders", **settings)
    history.drive(3.0)

    history.reader("orders", **settings)
    history.drive(5.0)

    revoked = [partitions for call, partitions in first.calls if call == "revoked"]
    assert [len(one) for one in revoked] == [3]
    assert len(first.consumer.assignment()) == 3


def test_what_on_partitions_revoked_commits_is_where_the_next_owner_begins(world: World) -> None:
    """Java 5, 121: a commit inside the callback works."""
    history = History(world)
    settings = {"group_id": "g", "enable_auto_commit": False}
    world.cluster.fill("orders", 30)
    first = history.reader("orders", **settings)
    told = first.on_partitions_revoked
    first.on_partitions_revoked = lambda revoked: (first.consumer.commit(), told(revoked))  # type: ignore[method-assign,assignment]
    history.drive(3.0)

    history.reader("orders", **settings)
    history.drive(3.0)
    world.cluster.fill("orders", 10)
    history.drive(2.0)

    history.assert_kept("orders")


def test_a_member_that_polls_too_late_leaves_at_once_and_comes_back(world: World) -> None:
    """Java 4, 71: overrun of max_poll_interval_ms: lost, left, joined again."""
    history = History(world)
    late = history.reader("orders", group_id="g", max_poll_interval_ms=5_000)
    history.drive(2.0)
    world.cluster.fill("orders", 10)

    world.sleep(5.5)
    members = dict(world.cluster.group("g").members)
    world.cluster.fill("orders", 10)
    history.drive(3.0)

    assert members == {}
    assert [call for call, _ in late.calls] == ["assigned", "lost", "assigned"]
    history.assert_kept("orders", duplicates=True)


@pytest.mark.parametrize("interval", [200, 5_000])
def test_a_long_poll_is_a_poll(world: World, interval: int) -> None:
    """Java 7: a poll that waits for longer than max_poll_interval_ms does not expire itself."""
    history = History(world)
    reader = history.reader("orders", group_id="g", max_poll_interval_ms=interval)

    reader.poll(30.0)

    assert [call for call, _ in reader.calls] == ["assigned"]
    assert len(world.cluster.group("g").members) == 1


def test_added_partitions_are_noticed_and_read_from_their_beginning(world: World) -> None:
    """Java 87: with auto_offset_reset=earliest nothing of a new partition is missed."""
    history = History(world)
    world.cluster.fill("orders", 5)
    reader = history.reader("orders", group_id="g", metadata_max_age_ms=2_000)
    history.drive(2.0)

    world.cluster.create_topic("orders", partitions=PARTITIONS + 2)
    world.cluster.fill("orders", 5)
    history.drive(6.0)

    history.assert_kept("orders")
    assert TopicPartition("orders", PARTITIONS + 1) in reader.consumer.assignment()


def test_a_changed_subscription_gives_up_the_old_topic_and_takes_the_new_one(
    world: World, group: dict[str, Any]
) -> None:
    """Java 56."""
    history = History(world)
    world.cluster.create_topic("bills", partitions=2)
    world.cluster.fill("bills", 10)
    reader = history.reader("orders", **group)
    history.drive(3.0)

    reader.consumer.subscribe(["bills"], listener=reader)
    history.drive(5.0)

    assert {one.topic for one in reader.consumer.assignment()} == {"bills"}
    history.assert_kept("bills")


def test_a_close_in_the_middle_of_a_rebalance_ends_in_time_and_leaves(
    world: World, group: dict[str, Any]
) -> None:
    """Java 111."""
    history = History(world)
    leaver = history.reader("orders", **group)
    stayer = history.reader("orders", **group)
    leaver.poll(world.random.uniform(0.0, 0.2))
    stayer.poll(world.random.uniform(0.0, 0.2))

    began = world.now
    leaver.consumer.close(timeout_ms=5_000)
    leaver.gone = True
    took = world.now - began
    world.cluster.fill("orders", 10)
    history.drive(5.0)

    assert took < 5.0
    assert len(world.cluster.group("g").members) == 1
    history.assert_kept("orders")


def test_commits_go_round_a_join_that_waits_for_a_member_that_died(world: World) -> None:
    """A broker answers one connection's requests in order, and who is kept waiting reads on."""
    history = History(world)
    settings = {
        "group_id": "g",
        "partition_assignment_strategy": [COOPERATIVE],
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 1_000,
        "auto_commit_interval_ms": 500,
    }
    first = history.reader("orders", **settings)
    second = history.reader("orders", **settings)
    history.drive(6.0)
    world.freeze(second.consumer)
    history.reader("orders", **settings)
    world.trickle("orders", 100, over=30.0)
    history.drive(30.0)

    mine = world.host(first.consumer)
    assert not mine.named("coordinator.lost")
    first.consumer.commit(timeout_ms=2_000)


def test_a_member_whose_join_group_is_lost_gives_nothing_out_when_its_group_goes_on(
    world: World,
) -> None:
    """Found by a simulation: its heartbeats were answered, on another connection, until the
    coordinator had waited for it for the rebalance timeout."""
    history = History(world)
    settings = {
        "group_id": "g",
        "partition_assignment_strategy": [COOPERATIVE],
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 6_000,
    }
    history.reader("orders", **settings)
    history.drive(5.0)
    world.trickle("orders", 500, over=20.0)
    history.reader("orders", **settings)
    while world.cluster.group("g").state != "PreparingRebalance":
        history.drive(0.05)

    world.cluster.drop_next("JoinGroup")  # that of the first member
    history.drive(30.0)

    history.assert_kept("orders", duplicates=True)
