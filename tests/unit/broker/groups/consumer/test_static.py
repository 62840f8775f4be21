"""Members with a name that outlives a restart."""

from __future__ import annotations

from aktor.broker.codes import Code
from tests.unit.broker.groups.consumer.world import Client, ConsumerWorld, told
from tests.unit.broker.harness import Topics


def a_pair(world: ConsumerWorld) -> tuple[Client, Client]:
    """A static member and another one, each with its half."""
    alice = world.member("alice-1", topics=["t"], instance_id="alice")
    bob = world.member("bob")
    alice.join()
    bob.join()
    world.settle(alice, bob)
    return alice, bob


def test_a_static_member_that_comes_back_has_what_it_had_and_nobody_else_notices() -> None:
    world = ConsumerWorld()
    alice, bob = a_pair(world)
    had, epoch = alice.partitions, world.group.group_epoch

    answer = alice.leave(epoch=-2)
    assert (answer.member_id, answer.member_epoch) == ("alice-1", -2)
    assert told(bob.beat()) is None
    again = world.member("alice-2", topics=["t"], instance_id="alice")
    again.join()

    assert again.partitions == had
    assert (again.epoch, world.group.group_epoch, world.group.state) == (epoch, epoch, "Stable")
    assert told(bob.beat()) is None
    assert [m.member_id for m in world.group.describe()["members"]] == ["bob", "alice-2"]


def test_a_static_member_that_stays_away_loses_all_when_its_session_ends() -> None:
    world = ConsumerWorld(consumer_session_timeout=30.0)
    alice, bob = a_pair(world)

    alice.leave(epoch=-2)
    world.pass_time(20)
    bob.beat()
    world.pass_time(11)

    assert told(bob.beat()) == [0, 1, 2, 3]
    late = world.member("alice-2", topics=["t"], instance_id="alice")
    assert told(late.join()) == []


def test_a_static_member_that_leaves_for_good_makes_room_at_once() -> None:
    world = ConsumerWorld()
    alice, bob = a_pair(world)

    alice.leave()

    assert told(bob.beat()) == [0, 1, 2, 3]


def test_the_name_of_a_static_member_that_is_there_is_not_free() -> None:
    world = ConsumerWorld()
    a_pair(world)

    answer = world.member("alice-2", topics=["t"], instance_id="alice").join()

    assert answer.error_code == Code.UNRELEASED_INSTANCE_ID
    assert answer.error_message == (
        "Static member alice-2 with instance id alice cannot join the group because the instance "
        "id is owned by alice-1 member."
    )


def test_the_one_whose_name_another_has_taken_over_is_fenced() -> None:
    world = ConsumerWorld()
    alice, _ = a_pair(world)
    epoch = alice.epoch
    alice.leave(epoch=-2)
    world.member("alice-2", topics=["t"], instance_id="alice").join()

    old = world.ask(member_id="alice-1", instance_id="alice", member_epoch=epoch)
    gone = world.ask(member_id="alice-1", member_epoch=epoch)

    assert old.error_code == Code.FENCED_INSTANCE_ID
    assert old.error_message == (
        "Static member alice-1 with instance id alice was fenced by member alice-2."
    )
    assert gone.error_code == Code.UNKNOWN_MEMBER_ID


def test_a_name_that_nobody_has_is_unknown() -> None:
    world = ConsumerWorld()
    a_pair(world)

    beat = world.ask(member_id="x", instance_id="carol", member_epoch=1)
    leave = world.ask(member_id="x", instance_id="carol", member_epoch=-2)

    assert (beat.error_code, leave.error_code) == (Code.UNKNOWN_MEMBER_ID,) * 2
    assert beat.error_message == "Instance id carol is unknown."


def test_a_static_member_back_with_another_subscription_makes_a_rebalance() -> None:
    world = ConsumerWorld(Topics(t=4, u=2))
    alice, bob = a_pair(world)
    epoch = world.group.group_epoch
    alice.leave(epoch=-2)

    again = world.member("alice-2", topics=["u"], instance_id="alice")
    again.join()
    world.settle(again, bob)

    assert world.group.group_epoch == epoch + 1
    assert (again.partitions, bob.partitions) == ({"u": [0, 1]}, {"t": [0, 1, 2, 3]})


def test_who_is_away_for_a_restart_is_not_put_out_for_what_it_had_to_give_up_before() -> None:
    world = ConsumerWorld()
    alice = world.member("alice-1", topics=["t"], instance_id="alice", rebalance_timeout=5.0)
    bob = world.member("bob")
    alice.join()
    bob.join()
    alice.beat()
    alice.leave(epoch=-2)

    world.pass_time(6)

    assert world.member("alice-2", topics=["t"], instance_id="alice").join().error_code == 0
    assert len(world.group.members) == 2


def test_by_range_static_members_have_their_part_by_name_whatever_their_ids() -> None:
    world = ConsumerWorld()
    alice = world.member("z", topics=["t"], instance_id="alice", assignor="range")
    bob = world.member("y", topics=["t"], instance_id="bob", assignor="range")
    carol = world.member("a", topics=["t"], assignor="range")
    for member in (alice, bob, carol):
        member.join()

    world.settle(alice, bob, carol)

    assert [m.partitions for m in (alice, bob, carol)] == [{"t": [0, 1]}, {"t": [2]}, {"t": [3]}]


def test_a_member_that_was_to_give_up_and_is_back_owns_nothing_of_it() -> None:
    world = ConsumerWorld()
    alice = world.member("alice-1", topics=["t"], instance_id="alice")
    bob = world.member("bob")
    alice.join()
    bob.join()
    alice.beat()

    alice.leave(epoch=-2)
    assert told(bob.beat()) == [2, 3]
    again = world.member("alice-2", topics=["t"], instance_id="alice")

    assert told(again.join()) == [0, 1]
