"""What passing time does to a classic group: sessions, rebalance timeouts, the initial delay."""

from __future__ import annotations

import math

import pytest

from aktor.broker.codes import Code
from aktor.broker.groups.classic.timers import Timers
from tests.unit.broker.groups.classic.world import ClassicWorld

# Sessions.


def test_a_silent_member_is_put_out_when_its_session_ends() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1, session=10.0)

    world.pass_time(9.9)
    assert member_id in world.group.members
    world.pass_time(0.2)

    assert (world.group.state, world.group.generation) == ("Empty", 2)
    assert world.group.wake_at() == math.inf


def test_heartbeats_keep_a_session() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1, session=10.0)

    for _ in range(10):
        world.pass_time(9.0)
        assert world.heartbeat(member_id, 1) is Code.NONE

    assert world.group.state == "Stable"


def test_the_others_rebalance_when_a_session_ends() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=10.0)
    world.pass_time(6.0)
    world.heartbeat(second, 2)

    world.pass_time(6.0)

    assert list(world.group.members) == [second]
    assert world.heartbeat(second, 2) is Code.REBALANCE_IN_PROGRESS
    assert world.heartbeat(first, 2) is Code.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_a_session() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1, session=10.0)
    world.pass_time(6.0)

    world.group.touch(member_id, world.now)
    world.pass_time(6.0)

    assert world.group.state == "Stable"


def test_who_waits_for_the_others_needs_no_heartbeats() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=10.0, rebalance=300.0)
    waiting = world.join(first, rebalance=300.0)
    for _ in range(10):
        world.pass_time(9.0)
        world.heartbeat(second, 2)
    assert waiting.waits

    world.join(second)

    assert waiting.answer.generation_id == 3


def test_who_waits_for_its_share_needs_no_heartbeats() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=10.0)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)
    for _ in range(5):
        world.pass_time(9.0)
        world.heartbeat(first, 3)

    world.sync(first, 3, {second: b"yours"})
    assert waiting.answer.assignment == b"yours"
    world.pass_time(9.0)

    assert second in world.group.members


def test_a_session_begins_anew_with_a_generation() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=10.0)
    world.pass_time(8.0)
    world.join(first)
    world.join(second)
    world.pass_time(8.0)

    assert world.heartbeat(first, 3) is Code.NONE


def test_an_id_that_is_not_used_lasts_as_long_as_a_session() -> None:
    world = ClassicWorld()
    member_id = world.join(session=10.0).answer.member_id

    world.pass_time(10.0)

    assert world.join(member_id).code is Code.UNKNOWN_MEMBER_ID
    assert world.group.state == "Empty"


def test_a_rebalance_waits_for_those_who_have_an_id_until_it_lapses() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=10.0, rebalance=300.0)
    world.join(session=20.0)
    joins = [world.join(first, rebalance=300.0), world.join(second, rebalance=300.0)]

    world.pass_time(19.9)
    assert all(join.waits for join in joins)
    world.pass_time(0.1)

    assert [join.answer.generation_id for join in joins] == [3, 3]


def test_a_new_members_join_waits_for_five_minutes_at_most() -> None:
    world = ClassicWorld()
    (first,) = world.stable(1, session=1000.0, rebalance=1000.0)
    _, joining = world.enter()

    world.pass_time(299.9)
    assert joining.waits
    world.pass_time(0.1)

    assert joining.code is Code.UNKNOWN_MEMBER_ID
    assert joining.answer.member_id == ""
    assert list(world.group.members) == [first]


# Rebalance timeouts.


def test_who_does_not_rejoin_in_time_is_out() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=1000.0, rebalance=60.0)
    waiting = world.join(first, session=1000.0)

    world.pass_time(59.9)
    assert waiting.waits
    world.pass_time(0.1)

    assert [m.member_id for m in waiting.answer.members] == [first]
    assert world.heartbeat(second, 2) is Code.UNKNOWN_MEMBER_ID


def test_a_rebalance_takes_as_long_as_its_most_patient_member_allows() -> None:
    world = ClassicWorld()
    (first,) = world.stable(1, session=1000.0, rebalance=5.0)
    _, joining = world.enter(rebalance=90.0)

    world.pass_time(89.9)
    assert joining.waits
    world.pass_time(0.1)

    assert joining.answer.generation_id == 2
    assert first not in world.group.members


def test_the_first_version_of_joins_takes_the_session_for_the_rebalance_timeout() -> None:
    world = ClassicWorld()
    world.stable(1, session=1000.0, rebalance=1.0)
    joining = world.join(version=0, session=20.0, rebalance=-0.001)

    world.pass_time(19.9)
    assert joining.waits
    world.pass_time(0.2)

    assert joining.answer.generation_id == 2


def test_another_member_leads_when_the_leader_does_not_rejoin() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=1000.0)
    waiting = world.join(second, protocols=(("range", b"new"),))

    world.pass_time(60.0)

    assert waiting.answer.leader == second
    assert first not in world.group.members


def test_who_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=1000.0, rebalance=60.0)
    world.join(first, session=1000.0)
    world.join(second, session=1000.0)
    world.sync(first, 3, {})

    world.pass_time(59.9)
    assert world.group.state == "Stable"
    world.pass_time(0.1)

    assert list(world.group.members) == [first]
    assert world.group.state == "PreparingRebalance"


def test_when_the_leader_never_syncs_the_followers_go_on_without_it() -> None:
    world = ClassicWorld()
    first, second = world.stable(2, session=1000.0, rebalance=60.0)
    world.join(first, session=1000.0)
    world.join(second, session=1000.0)
    waiting = world.sync(second, 3)

    world.pass_time(60.0)

    assert waiting.code is Code.REBALANCE_IN_PROGRESS
    assert world.group.leader_id == second


def test_nothing_happens_after_the_timeout_when_all_have_synced() -> None:
    world = ClassicWorld()
    world.stable(2, session=1000.0, rebalance=60.0)

    world.pass_time(500.0)

    assert (world.group.state, world.group.generation) == ("Stable", 2)


def test_a_rebalance_timeout_of_nothing_does_not_hang() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=10.0, rebalance=0.0)
    world.leave((ids["a"], None))

    world.pass_time(15.0)

    assert world.group.state == "Empty"


# The initial delay.


def test_an_empty_group_waits_for_more_members() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    _, first = world.enter()
    _, second = world.enter()

    world.pass_time(2.9)
    assert first.waits
    world.pass_time(3.2)

    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2


def test_without_newcomers_the_delay_is_over_after_one_turn() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    _, first = world.enter()

    world.pass_time(3.0)

    assert first.answer.generation_id == 1


def test_each_turn_with_a_newcomer_brings_another() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    _, first = world.enter()
    for _ in range(3):
        world.pass_time(2.9)
        world.enter()

    world.pass_time(2.9)
    assert first.waits
    world.pass_time(3.1)

    assert len(first.answer.members) == 4


def test_the_delay_is_never_longer_than_the_rebalance_timeout() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    _, first = world.enter(rebalance=7.0)
    waited = 0.0
    while first.waits:
        world.enter(rebalance=7.0)
        world.pass_time(0.5)
        waited += 0.5

    assert waited == pytest.approx(7.0, abs=0.51)


def test_leaving_during_the_delay_does_not_end_it() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    member_id, first = world.enter()
    world.leave((member_id, None))

    assert first.code is Code.UNKNOWN_MEMBER_ID
    assert world.group.state == "PreparingRebalance"
    world.pass_time(3.0)

    assert (world.group.state, world.group.generation) == ("Empty", 1)


def test_a_pending_member_does_not_hold_up_the_first_generation() -> None:
    world = ClassicWorld(initial_rebalance_delay=3.0)
    world.join()
    _, first = world.enter()

    world.pass_time(3.0)

    assert first.answer.generation_id == 1


# Alarms.


def test_alarms_come_in_the_order_of_their_times() -> None:
    timers = Timers()
    timers.set("late", 0.0, 2.0)
    timers.set("early", 0.0, 1.0)

    assert timers.wake_at() == 1.0
    assert [timers.pop(5.0), timers.pop(5.0), timers.pop(5.0)] == ["early", "late", None]


def test_an_alarm_set_again_is_moved() -> None:
    timers = Timers()
    timers.set("it", 0.0, 1.0)
    timers.set("it", 0.5, 1.0)

    assert timers.pop(1.0) is None
    assert timers.pop(1.5) == "it"
    assert timers.wake_at() == math.inf


def test_a_cancelled_alarm_never_comes() -> None:
    timers = Timers()
    timers.set("it", 0.0, 1.0)
    timers.cancel("it")

    assert timers.pop(9.0) is None
