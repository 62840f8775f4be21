"""Static members of a classic group (KIP-345): they come back, and are fenced by their doubles."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code
from tests.unit.broker.groups.classic.world import ClassicWorld

BOTH = (("range", b"r"), ("sticky", b"s"))


def test_a_static_member_needs_no_detour_and_is_named_after_its_instance() -> None:
    world = ClassicWorld()

    asked = world.join(instance="a", client_id="app")

    assert asked.code is Code.NONE
    assert asked.answer.member_id.startswith("a-")
    assert asked.answer.members[0].group_instance_id == "a"


def test_a_restarted_follower_takes_its_place_without_a_rebalance() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")

    back = world.join(instance="b")

    assert back.answer.member_id != ids["b"]
    assert (back.answer.generation_id, back.answer.leader) == (2, ids["a"])
    assert back.answer.members == []
    assert world.group.state == "Stable"
    assert world.heartbeat(ids["a"], 2, instance="a") is Code.NONE


def test_a_restarted_follower_finds_its_share() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    back = world.join(instance="b").answer.member_id

    share = world.sync(back, 2, instance="b").answer.assignment

    assert share == b"share of " + ids["b"].encode()


def test_a_restarted_leader_is_told_not_to_assign() -> None:
    world = ClassicWorld()
    world.stable_static("a", "b")

    answer = world.join(instance="a").answer

    assert answer.skip_assignment is True
    assert answer.leader == answer.member_id == world.group.leader_id
    assert len(answer.members) == 2


def test_a_restarted_leader_of_an_older_version_is_not_told_that_it_leads() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", version=8)

    answer = world.join(instance="a", version=8).answer

    assert answer.skip_assignment is False
    assert answer.leader == ids["a"]
    assert answer.members == []
    assert world.group.leader_id == answer.member_id


def test_a_restarted_member_is_written_down_at_once() -> None:
    world = ClassicWorld()
    world.stable_static("a")

    member_id = world.join(instance="a").answer.member_id

    kept = world.kept()
    assert [member["member_id"] for member in kept["members"]] == [member_id]
    assert kept["leader"] == member_id


def test_a_restart_that_changes_the_chosen_protocol_means_a_rebalance() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", protocols=BOTH)

    back = world.join(instance="b", protocols=(("sticky", b"s"),))

    assert back.waits
    assert world.heartbeat(ids["a"], 2, instance="a") is Code.REBALANCE_IN_PROGRESS


def test_a_restart_with_other_metadata_but_the_same_protocol_means_none() -> None:
    world = ClassicWorld()
    world.stable_static("a", "b")

    back = world.join(instance="b", protocols=(("range", b"other topics"),))

    assert back.answer.generation_id == 2
    assert world.group.state == "Stable"


def test_a_restart_while_the_assignment_is_awaited_calls_all_together_again() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    for instance, member_id in ids.items():
        world.join(member_id, instance=instance)
    assert world.group.state == "CompletingRebalance"

    back = world.join(instance="b")

    assert world.group.state == "PreparingRebalance"
    assert back.waits
    assert world.join(ids["a"], instance="a").answer.generation_id == 4


def test_a_restart_while_members_are_joining_completes_the_rebalance() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    world.join(ids["a"], instance="a")

    back = world.join(instance="b")

    assert back.answer.generation_id == 3


def test_the_waiting_join_of_a_double_is_fenced() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    old = world.join(ids["a"], instance="a")

    world.join(instance="a")

    assert old.code is Code.FENCED_INSTANCE_ID
    assert old.answer.member_id == ids["a"]


def test_the_waiting_sync_of_a_double_is_fenced() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    for instance, member_id in ids.items():
        world.join(member_id, instance=instance)
    old = world.sync(ids["b"], 3, instance="b")

    world.join(instance="b")

    assert old.code is Code.FENCED_INSTANCE_ID


def test_all_that_a_fenced_double_asks_is_refused() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    world.join(instance="b")
    old = ids["b"]

    assert world.heartbeat(old, 2, instance="b") is Code.FENCED_INSTANCE_ID
    assert world.join(old, instance="b").code is Code.FENCED_INSTANCE_ID
    assert world.sync(old, 2, instance="b").code is Code.FENCED_INSTANCE_ID
    assert world.leave((old, "b")) == [Code.FENCED_INSTANCE_ID]
    assert world.heartbeat(old, 2) is Code.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_is_an_unknown_member() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)

    assert world.heartbeat(member_id, 1, instance="nobody") is Code.UNKNOWN_MEMBER_ID


def test_a_known_id_that_was_given_to_a_dynamic_member_cannot_become_static() -> None:
    world = ClassicWorld()
    member_id = world.join().answer.member_id

    assert world.join(member_id, instance="a").code is Code.UNKNOWN_SERVER_ERROR


def test_a_static_follower_that_joins_again_with_its_id_changes_nothing() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")

    again = world.join(ids["b"], instance="b")

    assert again.answer.generation_id == 2
    assert world.group.state == "Stable"


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=200.0, rebalance=60.0)
    waiting = world.join(ids["a"], instance="a", session=200.0)

    world.pass_time(60.0)

    assert waiting.answer.generation_id == 3
    assert list(world.group.members) == list(ids.values())
    # It is awaited as all are to sync, and then it is out.
    world.sync(ids["a"], 3, {}, instance="a")
    world.pass_time(60.0)
    assert list(world.group.members) == [ids["a"]]


def test_a_static_leader_that_does_not_rejoin_leads_no_more() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=200.0, rebalance=60.0)
    waiting = world.join(ids["b"], instance="b", protocols=(("range", b"new"),), session=200.0)

    world.pass_time(60.0)

    assert waiting.answer.leader == ids["b"]
    assert len(waiting.answer.members) == 2


def test_a_rebalance_to_which_nobody_comes_waits_on() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", "c", session=200.0, rebalance=60.0)
    world.leave((ids["c"], "c"))

    world.pass_time(150.0)
    assert (world.group.state, world.group.generation) == ("PreparingRebalance", 3)
    back = world.join(ids["b"], instance="b", session=200.0)
    world.pass_time(30.0)

    assert back.answer.leader == ids["b"]
    assert (world.group.state, world.group.generation) == ("CompletingRebalance", 4)


def test_an_administrator_can_remove_static_members_by_their_instances() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")

    codes = world.leave(("", "b"), ("", "nobody"), ("", None))

    assert codes == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID]
    assert list(world.group.members) == [ids["a"]]
    assert world.group.state == "PreparingRebalance"


def test_a_removed_static_member_comes_back_as_a_new_one() -> None:
    world = ClassicWorld()
    world.stable_static("a", "b")
    world.leave(("", "b"))

    back = world.join(instance="b")

    assert back.waits
    assert len(world.group.members) == 2


def test_who_had_not_synced_before_its_restart_costs_a_rebalance_later() -> None:
    # A quirk of Kafka's: the old id goes on being awaited.
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=200.0, rebalance=60.0)
    for instance, member_id in ids.items():
        world.join(member_id, instance=instance, session=200.0)
    world.sync(ids["a"], 3, {}, instance="a")
    back = world.join(instance="b", session=200.0).answer.member_id
    world.sync(back, 3, instance="b")
    assert world.group.state == "Stable"

    world.pass_time(60.0)

    assert world.group.state == "PreparingRebalance"
    assert back in world.group.members


# Faults.


def test_a_fenced_static_member_learns_that_it_has_a_double() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=10.0)

    assert world.group.fence(ids["b"], world.now)

    assert world.group.state == "Stable"
    assert world.heartbeat(ids["b"], 2, instance="b") is Code.FENCED_INSTANCE_ID
    assert world.heartbeat(ids["a"], 2, instance="a") is Code.NONE


def test_the_double_of_a_fenced_member_is_never_heard_of_again() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b", session=10.0)
    world.group.fence(ids["b"], world.now)

    world.pass_time(6.0)
    world.heartbeat(ids["a"], 2, instance="a")
    world.pass_time(6.0)

    assert list(world.group.members) == [ids["a"]]


def test_a_fenced_dynamic_member_is_put_out() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)

    assert world.group.fence(second, world.now)

    assert world.heartbeat(second, 2) is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(first, 2) is Code.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("waits_for", ["join", "sync"])
def test_a_session_can_be_ended_by_command_whatever_the_member_waits_for(waits_for: str) -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    asked = world.join(first)
    if waits_for == "sync":
        world.join(second)
        asked = world.sync(second, 3)
    target = first if waits_for == "join" else second

    assert world.group.expire_session(target, world.now)

    assert asked.code is Code.UNKNOWN_MEMBER_ID
    assert target not in world.group.members


def test_a_stranger_cannot_be_fenced_nor_expired() -> None:
    world = ClassicWorld()
    world.stable(1)

    assert not world.group.fence("stranger", world.now)
    assert not world.group.expire_session("stranger", world.now)
    assert world.group.state == "Stable"
