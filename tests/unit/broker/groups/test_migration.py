"""A group changes its kind while it works (KIP-848): what its members see, and what is kept."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld
from tests.unit.broker.groups.migration_world import (
    GROUP,
    Classic,
    Client,
    Consumer,
    described,
    settle,
    state,
)

ORDERS = {("orders", 0), ("orders", 1), ("orders", 2)}


def a_mixed_group(
    world: CoordinatorWorld, *, session: float = 10.0, rebalance: float = 60.0
) -> tuple[Classic, Consumer]:
    """One member of each protocol, settled; the classic one was there first."""
    one = Classic(world, session=session, rebalance=rebalance)
    two = Consumer(world, "two")
    settle(one)
    settle(one, two)
    assert state(world) == ("consumer", "Stable")
    return one, two


def shares(*clients: Client) -> list[int]:
    """How many partitions each owns; fails unless each partition has one owner."""
    owned = [place for client in clients for place in client.owned]
    assert sorted(owned) == sorted(ORDERS)
    return [len(client.owned) for client in clients]


# There and back.


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_classic_group_takes_in_a_consumer_and_shares_with_it(cooperative: bool) -> None:
    world = CoordinatorWorld()
    one, two = Classic(world, cooperative=cooperative), Consumer(world, "two")
    settle(one)
    assert state(world) == ("classic", "Stable")

    settle(one, two)

    assert state(world) == ("consumer", "Stable")
    assert described(world) == {one.member_id: (2, 0), "two": (2, 1)}
    assert shares(one, two) == [2, 1]


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_consumer_group_takes_in_a_classic_member_and_shares_with_it(cooperative: bool) -> None:
    world = CoordinatorWorld()
    one, two = Consumer(world, "one"), Classic(world, cooperative=cooperative)
    settle(one)

    settle(one, two)

    assert described(world) == {"one": (3, 1), two.member_id: (3, 0)}
    assert shares(one, two) == [2, 1]


def test_without_consumers_it_is_a_classic_group_that_rebalances() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)
    three = Classic(world)
    settle(one, two, three)
    assert shares(one, two, three) == [1, 1, 1]

    assert two.leave().answer.member_epoch == -1
    told = state(world)
    settle(one, three)

    assert told == ("classic", "PreparingRebalance")
    assert state(world) == ("classic", "Stable")
    assert sorted(shares(one, three)) == [1, 2]
    assert one.generation == three.generation == 4


def test_the_consumer_that_left_makes_it_a_consumer_group_when_it_comes_again() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)
    two.leave()
    settle(one)

    again = Consumer(world, "again")
    settle(one, again)

    assert state(world) == ("consumer", "Stable")
    assert shares(one, again) == [2, 1]


def test_offsets_outlive_both_changes() -> None:
    world = CoordinatorWorld()
    one = Classic(world)
    settle(one)
    world.commit(GROUP, member_id=one.member_id, epoch=one.generation)

    two = Consumer(world, "two")
    settle(one, two)
    as_consumer = world.fetch(GROUP)
    two.leave()

    assert as_consumer == world.fetch(GROUP) == {("orders", 0): 5}


def test_who_waits_in_a_rebalance_is_called_again_when_the_group_is_converted() -> None:
    world = CoordinatorWorld()
    one, two = Classic(world), Classic(world)
    settle(one)
    for _ in range(3):
        two.step()
    assert two.joining is not None
    assert two.joining.waits

    Consumer(world, "three").step()

    assert two.joining.code is Code.REBALANCE_IN_PROGRESS
    assert described(world)[two.member_id] == (1, 0)


# What refuses to be converted.


def test_a_consumer_that_is_refused_leaves_the_classic_group_as_it_was() -> None:
    world = CoordinatorWorld()
    one = Classic(world)
    settle(one)
    kept = dict(world.journal.texts)

    assert Consumer(world, "two", regex="(").beat().code is Code.INVALID_REGULAR_EXPRESSION
    assert Consumer(world, "two").beat(epoch=1).code is Code.GROUP_ID_NOT_FOUND

    assert state(world) == ("classic", "Stable")
    assert world.journal.texts == kept
    assert one.beat() is Code.NONE


def test_who_waits_in_a_rebalance_is_called_again_even_if_the_consumer_is_refused() -> None:
    world = CoordinatorWorld()
    one, two = Classic(world), Classic(world)
    settle(one)
    for _ in range(3):
        two.step()
    waiting = two.joining

    assert Consumer(world, "three", regex="(").beat().code is Code.INVALID_REGULAR_EXPRESSION

    assert waiting is not None
    assert waiting.code is Code.REBALANCE_IN_PROGRESS
    settle(one, two)
    assert state(world) == ("classic", "Stable")
    assert sorted(shares(one, two)) == [1, 2]


def test_a_group_that_is_too_large_for_consumers_stays_classic() -> None:
    world = CoordinatorWorld(consumer_max_size=1)
    one, two = Classic(world), Classic(world)
    settle(one, two)

    refused = Consumer(world, "three").beat()

    assert refused.code is Code.GROUP_ID_NOT_FOUND
    assert refused.answer.error_message == (
        "Cannot upgrade classic group g to consumer group because the group size exceeds the "
        "consumer group maximum size."
    )
    assert state(world) == ("classic", "Stable")


def test_a_group_that_is_full_for_consumers_stays_classic() -> None:
    world = CoordinatorWorld(consumer_max_size=1)
    one = Classic(world)
    settle(one)

    assert Consumer(world, "two").beat().code is Code.GROUP_MAX_SIZE_REACHED
    assert state(world) == ("classic", "Stable")
    assert one.beat() is Code.NONE


def test_a_group_whose_first_members_still_join_is_not_converted() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    one = Classic(world)
    settle(one, rounds=3)

    assert Consumer(world, "two").beat().code is Code.UNKNOWN_SERVER_ERROR

    assert state(world) == ("classic", "PreparingRebalance")
    settle(one, rounds=2)
    world.pass_time(3.0)
    settle(one)
    assert one.owned == ORDERS


def test_a_group_that_is_too_large_for_the_classic_protocol_stays_a_consumer_group() -> None:
    world = CoordinatorWorld(max_size=1)
    one, two = a_mixed_group(world)
    three = Classic(world)
    settle(one, two, three)

    two.leave()
    settle(one, three)

    # Only a consumer or a join makes it assign anew what the consumer had.
    assert state(world) == ("consumer", "Assigning")
    assert one.beat() is Code.NONE


# Time.


def test_a_classic_member_that_does_not_rejoin_in_time_is_out() -> None:
    world = CoordinatorWorld()
    one, two = Classic(world, session=600.0, rebalance=60.0), Consumer(world, "two")
    settle(one)
    two.step()

    assert one.beat() is Code.REBALANCE_IN_PROGRESS
    world.pass_time(30.0)
    two.step()
    assert one.beat() is Code.REBALANCE_IN_PROGRESS
    world.pass_time(29.9)
    two.step()
    assert set(described(world)) == {one.member_id, "two"}

    world.pass_time(0.2)
    assert set(described(world)) == {"two"}


def test_a_classic_member_that_does_not_sync_in_time_is_out() -> None:
    world = CoordinatorWorld()
    two = Consumer(world, "two")
    settle(two)
    one = Classic(world, session=600.0, rebalance=20.0)
    one.member_id = one.join().answer.member_id
    assert one.join().code is Code.NONE

    world.pass_time(19.9)
    two.step()
    assert set(described(world)) == {one.member_id, "two"}

    world.pass_time(0.2)
    assert set(described(world)) == {"two"}


def test_a_classic_member_that_syncs_lives_as_long_as_its_own_session() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world, session=10.0, rebalance=5.0)

    world.pass_time(9.0)
    assert one.beat() is Code.NONE
    world.pass_time(9.9)
    two.step()
    assert set(described(world)) == {one.member_id, "two"}

    world.pass_time(0.2)
    assert set(described(world)) == {"two"}
    assert one.beat() is Code.UNKNOWN_MEMBER_ID


def test_the_session_of_the_last_consumer_ends_and_the_others_are_classic_again() -> None:
    world = CoordinatorWorld(consumer_session_timeout=30.0)
    one, _ = a_mixed_group(world, session=600.0)

    world.pass_time(29.9)
    assert state(world) == ("consumer", "Stable")

    world.pass_time(0.2)
    assert state(world) == ("classic", "PreparingRebalance")
    settle(one)
    assert one.owned == ORDERS


def test_members_whose_sessions_end_at_once_leave_no_trace() -> None:
    world = CoordinatorWorld(consumer_session_timeout=30.0)
    a_mixed_group(world, session=30.0)

    world.now += 40.0
    world.coordinator.tick(world.now)
    world.pass_time(100.0)

    assert state(world)[1] == "Empty"


def test_between_two_assignments_classic_members_are_not_called() -> None:
    world = CoordinatorWorld(consumer_assignment_interval=10.0)
    two = Consumer(world, "two")
    settle(two)
    one = Classic(world, session=600.0)
    settle(one, two)
    assert (described(world)[one.member_id], one.owned) == ((2, 0), set())
    assert one.beat() is Code.NONE

    world.pass_time(10.0)
    two.step()

    assert one.beat() is Code.REBALANCE_IN_PROGRESS
    settle(one, two)
    assert shares(one, two) == [1, 2]


# What is kept.


def test_a_mixed_group_outlives_a_restart() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)
    before = described(world)

    world.pass_time(9.0)
    world.restart()
    world.pass_time(9.0)

    assert described(world) == before
    assert (one.beat(), two.beat().code) == (Code.NONE, Code.NONE)
    world.pass_time(10.1)
    assert set(described(world)) == {"two"}


def test_a_restart_in_the_middle_of_a_change_loses_nothing() -> None:
    world = CoordinatorWorld()
    one, two = Classic(world, cooperative=True), Consumer(world, "two")
    settle(one)
    two.step()
    for _ in range(3):
        one.step()

    world.restart()
    settle(one, two)

    assert shares(one, two) == [2, 1]


def test_a_group_that_is_classic_again_has_after_a_restart_what_was_kept_of_it() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)
    two.leave()

    # As in Kafka a rebalance that was to begin is not kept: the next one to join begins it.
    world.restart()
    assert state(world) == ("classic", "Stable")
    assert one.beat() is Code.NONE
    three = Classic(world)
    settle(one, three)

    assert sorted(shares(one, three)) == [1, 2]


def test_of_a_group_that_was_becoming_classic_the_consumer_group_is_found() -> None:
    world = CoordinatorWorld()
    _, two = a_mixed_group(world)
    consumer = world.journal.texts["consumer-group", (GROUP,)]
    two.leave()

    world.journal.texts["consumer-group", (GROUP,)] = consumer  # died before this was forgotten
    world.restart()

    assert state(world) == ("consumer", "Stable")
    assert two.leave().code is Code.NONE
    world.restart()
    assert state(world)[0] == "classic"


# Commands.


def test_a_consumer_can_be_put_out_by_command_and_the_group_is_classic() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)

    world.coordinator.expire_session(GROUP, "two", world.now)

    assert state(world) == ("classic", "PreparingRebalance")
    assert two.beat().code is Code.GROUP_ID_NOT_FOUND
    settle(one)
    assert one.owned == ORDERS


def test_a_classic_member_that_is_fenced_by_command_comes_again_as_a_new_one() -> None:
    world = CoordinatorWorld()
    one, two = a_mixed_group(world)
    fenced = one.member_id

    world.coordinator.fence_member(GROUP, fenced, world.now)

    assert one.beat() is Code.UNKNOWN_MEMBER_ID
    settle(one, two)
    assert one.member_id != fenced
    assert sorted(shares(one, two)) == [1, 2]


def test_members_of_both_protocols_are_found() -> None:
    world = CoordinatorWorld()
    one, _ = a_mixed_group(world)

    found = {member.member_id for member in world.coordinator.members(GROUP)}

    assert found == {one.member_id, "two"}
