"""Consumer groups under faults by command, restarts and moves of the coordinator."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code, Refused
from tests.unit.broker.groups.consumer.world import Client, ConsumerWorld, told
from tests.unit.broker.harness import Topics


def a_pair(world: ConsumerWorld) -> tuple[Client, Client]:
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    bob.join()
    world.settle(alice, bob)
    return alice, bob


def test_a_member_whose_session_is_ended_by_command_is_unknown() -> None:
    world = ConsumerWorld()
    alice, bob = a_pair(world)

    world.group.expire_session("alice", world.now)

    assert alice.beat().error_code == Code.UNKNOWN_MEMBER_ID
    assert told(bob.beat()) == [0, 1, 2, 3]


def test_a_member_that_is_fenced_by_command_is_told_so_once_and_may_join_again() -> None:
    world = ConsumerWorld()
    alice, bob = a_pair(world)

    world.group.fence("alice", world.now)

    assert told(bob.beat()) == [0, 1, 2, 3]
    assert alice.beat().error_code == Code.FENCED_MEMBER_EPOCH
    assert alice.join().error_code == Code.NONE
    world.settle(alice, bob)
    assert (alice.partitions, bob.partitions) == ({"t": [2, 3]}, {"t": [0, 1]})


def test_faults_for_a_stranger_are_refused() -> None:
    world = ConsumerWorld()

    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        world.group.expire_session("nobody", world.now)
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        world.group.fence("nobody", world.now)


def test_with_another_coordinator_sessions_begin_anew() -> None:
    world = ConsumerWorld(consumer_session_timeout=30.0)
    alice, _ = a_pair(world)
    world.now += 29

    world.group.coordinator_moved(world.now)
    world.pass_time(29)

    assert alice.beat().error_code == Code.NONE


def test_after_a_restart_members_go_on_where_they_were() -> None:
    world = ConsumerWorld(Topics(t=4, u=2))
    alice = world.member("alice", topics=["t"], rebalance_timeout=5.0)
    bob = world.member("bob", topics=["t"], regex="u", assignor="range")
    sam = world.member("sam-1", topics=["t"], instance_id="sam")
    for member in (alice, bob, sam):
        member.join()
    bob.beat()
    alice.beat()
    described = str(world.group.describe())

    world.restart()

    assert str(world.group.describe()) == described
    assert alice.hold().error_code == Code.NONE
    assert [m.beat().error_code for m in (alice, bob, sam)] == [Code.NONE] * 3
    world.settle(alice, bob, sam)
    assert sorted(ps for m in (alice, bob, sam) for ps in m.partitions.get("t", [])) == [0, 1, 2, 3]
    assert bob.partitions["u"] == [0, 1]
    snapshot = world.group.snapshot()
    world.restart()
    assert world.group.snapshot() == snapshot


def test_who_was_to_give_up_before_a_restart_has_its_time_for_it_after_it() -> None:
    world = ConsumerWorld()
    alice, bob = world.member("alice", topics=["t"], rebalance_timeout=5.0), world.member("bob")
    alice.join()
    bob.join()
    alice.beat()
    world.pass_time(4)

    world.restart()

    world.pass_time(4)
    assert alice.hold().error_code == Code.NONE
    world.pass_time(2)
    assert alice.hold().error_code == Code.UNKNOWN_MEMBER_ID


def test_all_that_a_member_was_told_is_kept_before_it_is_told() -> None:
    world = ConsumerWorld()
    alice = world.member("alice")

    alice.join()

    kept = world.kept()
    assert kept is not None
    assert (kept["group_epoch"], kept["assignment_epoch"]) == (2, 2)
    (member,) = kept["members"]
    topic_id = world.topics.topic_id("t")
    assert topic_id is not None
    assert member["assigned"] == {topic_id.hex: [[0, 2], [1, 2], [2, 2], [3, 2]]}


def test_a_refused_heartbeat_is_not_kept() -> None:
    world = ConsumerWorld()

    world.ask(member_id="nobody", member_epoch=3)
    world.group.tick(world.now)

    assert world.journal.puts == 0


def test_a_group_without_members_has_nothing_to_wake_up_for() -> None:
    world = ConsumerWorld(consumer_session_timeout=30.0)
    assert world.group.wake_at() == float("inf")
    alice = world.member("alice")
    alice.join()

    assert world.group.wake_at() == world.now + 30
    alice.leave()
    world.group.tick(world.now + 30)

    assert world.group.wake_at() == float("inf")
