"""The directory of groups: which kind answers, how groups come, change their kind and go."""

from __future__ import annotations

import math
import random

import pytest

from aktor.broker.codes import Code, Refused
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld

ORDERS_0 = ("orders", 0)


# Groups that are not there.


def test_an_empty_group_id_is_refused_where_members_ask() -> None:
    world = CoordinatorWorld()

    assert world.join("").code is Code.INVALID_GROUP_ID
    assert world.sync("", "m").code is Code.INVALID_GROUP_ID
    assert world.heartbeat("", "m") is Code.INVALID_GROUP_ID
    assert world.leave("", ("m", None)).code is Code.INVALID_GROUP_ID
    assert world.beat("").code is Code.INVALID_REQUEST
    assert world.list() == []


def test_in_an_unknown_group_every_member_is_unknown() -> None:
    world = CoordinatorWorld()

    assert world.join("g", "m").code is Code.UNKNOWN_MEMBER_ID
    assert world.sync("g", "m").code is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat("g", "m") is Code.UNKNOWN_MEMBER_ID
    (left,) = world.leave("g", ("m", "i")).answer.members
    assert (left.error_code, left.member_id) == (Code.UNKNOWN_MEMBER_ID, "m")
    assert left.group_instance_id == "i"
    assert world.list() == []


def test_a_consumer_group_begins_with_a_join_and_not_otherwise() -> None:
    world = CoordinatorWorld()

    refused = world.beat("c", "m", 3)

    assert refused.code is Code.GROUP_ID_NOT_FOUND
    assert refused.answer.error_message == "Consumer group c not found."
    assert world.list() == []


def test_a_session_timeout_out_of_bounds_makes_no_group() -> None:
    world = CoordinatorWorld()

    assert world.join("g", session=0.1).code is Code.INVALID_SESSION_TIMEOUT
    assert world.list() == []


def test_a_first_heartbeat_that_is_refused_makes_no_group() -> None:
    world = CoordinatorWorld()

    assert world.beat("c", topics=None).code is Code.INVALID_REQUEST
    assert world.beat("c", regex="(").code is Code.INVALID_REGULAR_EXPRESSION
    assert world.list() == []
    assert world.journal.texts == {}


# Two kinds of groups.


def test_a_classic_member_of_another_type_does_not_get_into_a_consumer_group() -> None:
    world = CoordinatorWorld()
    world.enter("c")

    refused = world.join("c", protocol_type="connect")

    assert refused.code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("c", "m").code is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat("c", "m") is Code.UNKNOWN_MEMBER_ID
    assert world.list() == [("c", "consumer", "Stable", "consumer")]


def test_a_consumer_does_not_get_into_a_classic_group_of_another_type() -> None:
    world = CoordinatorWorld()
    world.stable("g", protocol_type="connect")

    refused = world.beat("g")

    assert refused.code is Code.GROUP_ID_NOT_FOUND
    assert refused.answer.error_message == (
        "Cannot upgrade classic group g to consumer group because the group does not use the "
        "consumer embedded protocol."
    )
    assert world.list() == [("g", "connect", "Stable", "classic")]


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")
    world.commit("g", member_id=member_id, epoch=1)
    world.leave("g", (member_id, None))

    world.enter("g", "m")
    world.restart()

    assert world.list() == [("g", "consumer", "Stable", "consumer")]
    assert world.fetch("g") == {ORDERS_0: 5}


def test_a_simple_group_becomes_a_consumer_group() -> None:
    world = CoordinatorWorld()
    world.commit("g")

    world.enter("g", "m")

    assert world.list(types=("consumer",)) == [("g", "consumer", "Stable", "consumer")]
    assert world.fetch("g") == {ORDERS_0: 5}


def test_a_refused_consumer_leaves_an_empty_classic_group_as_it_is() -> None:
    world = CoordinatorWorld()
    world.commit("g")

    assert world.beat("g", regex="(").code is Code.INVALID_REGULAR_EXPRESSION
    assert world.beat("g", epoch=3).code is Code.GROUP_ID_NOT_FOUND

    assert world.list() == [("g", "", "Empty", "classic")]
    assert world.commit("g") is Code.NONE


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets() -> None:
    world = CoordinatorWorld()
    epoch = world.enter("c", "m")
    world.commit("c", member_id="m", epoch=epoch)
    world.beat("c", "m", -1)
    assert world.join("c", "unknown").code is Code.UNKNOWN_MEMBER_ID
    assert world.list() == [("c", "consumer", "Empty", "consumer")]

    world.stable("c")
    world.restart()

    assert world.list() == [("c", "consumer", "Stable", "classic")]
    assert world.fetch("c") == {ORDERS_0: 5}


# LeaveGroup by an administrator.


def test_members_of_a_consumer_group_can_be_put_out() -> None:
    world = CoordinatorWorld()
    for member_id, instance in (("m", None), ("s", "i"), ("t", "j")):
        world.enter("c", member_id, instance=instance)

    answer = world.leave("c", ("m", None), ("", "i"), ("s", "j"), ("x", None), ("", "k")).answer

    assert [(one.member_id, one.error_code) for one in answer.members] == [
        ("m", Code.NONE),
        ("", Code.NONE),
        ("s", Code.FENCED_INSTANCE_ID),
        ("x", Code.UNKNOWN_MEMBER_ID),
        ("", Code.UNKNOWN_MEMBER_ID),
    ]
    assert [one.member_id for one in world.coordinator.members("c")] == ["t"]


# Faults by command.


def test_members_can_be_found_in_groups_of_both_kinds() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g", instance=None)
    world.enter("c", "m", instance="i")

    (classic,) = world.coordinator.members("g")
    (consumer,) = world.coordinator.members("c")

    assert (classic.member_id, classic.group_instance_id) == (member_id, None)
    assert (consumer.member_id, consumer.group_instance_id) == ("m", "i")
    assert (classic.client_id, consumer.client_id) == ("app", "app")


def test_a_session_can_be_ended_by_command() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")
    epoch = world.enter("c", "m")

    world.coordinator.expire_session("g", member_id, world.now)
    world.coordinator.expire_session("c", "m", world.now)

    assert world.heartbeat("g", member_id) is Code.UNKNOWN_MEMBER_ID
    assert world.beat("c", "m", epoch).code is Code.UNKNOWN_MEMBER_ID


def test_a_member_can_be_fenced_by_command() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")
    epoch = world.enter("c", "m")

    world.coordinator.fence_member("g", member_id, world.now)
    world.coordinator.fence_member("c", "m", world.now)

    assert world.heartbeat("g", member_id) is Code.UNKNOWN_MEMBER_ID
    assert world.beat("c", "m", epoch).code is Code.FENCED_MEMBER_EPOCH


def test_faults_of_those_who_are_not_there_are_refused() -> None:
    world = CoordinatorWorld()
    world.stable("g")
    world.enter("c")

    for group, code in (
        ("g", Code.UNKNOWN_MEMBER_ID),
        ("c", Code.UNKNOWN_MEMBER_ID),
        ("nobody", Code.GROUP_ID_NOT_FOUND),
    ):
        for fault in (world.coordinator.expire_session, world.coordinator.fence_member):
            with pytest.raises(Refused) as refused:
                fault(group, "x", world.now)
            assert refused.value.code is code


# Time.


def test_without_groups_there_is_nothing_to_wake_up_for() -> None:
    world = CoordinatorWorld()

    world.coordinator.tick(world.now)

    assert world.coordinator.wake_at() == math.inf


def test_sessions_end_in_groups_of_both_kinds() -> None:
    world = CoordinatorWorld(consumer_session_timeout=45.0)
    world.stable("g", session=10.0)
    world.enter("c")

    world.pass_time(10.1)
    after_ten = [(group[0], group[2]) for group in world.list()]
    world.pass_time(35.0)

    assert after_ten == [("c", "Stable"), ("g", "Empty")]
    assert [(group[0], group[2]) for group in world.list()] == [("c", "Empty"), ("g", "Empty")]


def test_heartbeats_put_off_what_the_coordinator_wakes_up_for() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g", session=10.0)

    for _ in range(10):
        world.pass_time(9.0)
        assert world.heartbeat("g", member_id) is Code.NONE
    woken = world.coordinator.wake_at()

    assert world.now < woken <= world.now + 10.0 + 0.001


def test_a_join_that_waits_is_answered_when_its_time_has_come() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    asked = world.join("g", version=3)

    world.pass_time(2.9)
    waited = asked.waits
    world.pass_time(0.2)

    assert waited
    assert asked.code is Code.NONE


def test_a_thousand_idle_groups_are_not_looked_at_at_each_event() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    for number in range(1000):
        world.commit(f"idle-{number}")
    world.join("g", version=3)

    world.now = world.coordinator.wake_at()
    world.coordinator.tick(world.now)

    # What is due next is the one group's session or assignment, none of the idle ones'.
    assert world.now < world.coordinator.wake_at() <= world.now + 60.0


# Another coordinator, another process.


def test_when_its_coordinator_moves_a_group_knows_what_was_kept() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    member_id = world.join("a", version=3)
    world.pass_time(4.0)
    world.sync("a", member_id.answer.member_id)
    waiting = {group: world.join(group, version=3) for group in ("b", "c")}
    epoch = world.enter("k", "m")

    world.coordinator.coordinator_moved(lambda group: group != "c", world.now)

    assert waiting["b"].code is Code.NOT_COORDINATOR
    assert waiting["c"].waits
    assert world.heartbeat("a", member_id.answer.member_id) is Code.NONE
    assert world.beat("k", "m", epoch).code is Code.NONE


def test_groups_of_both_kinds_outlive_a_restart() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g", session=10.0)
    epoch = world.enter("c", "m")
    world.commit("s")
    before = world.list()

    world.pass_time(9.0)
    world.restart()
    world.pass_time(9.0)

    assert world.list() == before
    assert world.heartbeat("g", member_id) is Code.NONE
    assert world.beat("c", "m", epoch).code is Code.NONE


def test_sessions_end_after_a_restart_too() -> None:
    world = CoordinatorWorld()
    world.stable("g", session=10.0)

    world.restart()
    world.pass_time(10.1)

    assert world.list() == [("g", "consumer", "Empty", "classic")]


def test_of_a_group_that_was_becoming_another_kind_the_consumer_group_is_the_newer() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")
    world.leave("g", (member_id, None))
    classic = world.journal.texts["classic-group", ("g",)]
    world.enter("g", "m")

    world.journal.texts["classic-group", ("g",)] = classic  # died before this was forgotten
    world.restart()
    listed = world.list()
    world.beat("g", "m", -1)
    world.delete("g")
    world.restart()

    assert listed == [("g", "consumer", "Stable", "consumer")]
    assert world.list() == []


# Topics.


def test_members_of_consumer_groups_get_new_partitions() -> None:
    world = CoordinatorWorld()
    epoch = world.enter("c", "m", topics=("orders", "later"))

    world.topics.create("later", 1)
    world.coordinator.topics_changed(world.now)
    answer = world.beat("c", "m", epoch).answer

    assert answer.member_epoch > epoch
    got = {topic.topic_id for topic in answer.assignment.topic_partitions}
    assert got == {world.topics.topic_id("orders"), world.topics.topic_id("later")}


# At random.


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_asked_all_are_answered_and_a_restart_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    world = CoordinatorWorld(seed=seed)
    groups = ["a", "b", "c"]
    members: dict[str, str] = {}
    epochs: dict[str, int] = {}
    waiting = []

    for _ in range(120):
        group = rng.choice(groups)
        member_id, epoch = members.get(group, ""), epochs.get(group, 0)
        match rng.randrange(10):
            case 0:
                asked = world.join(group, member_id if rng.random() < 0.5 else "", version=3)
                waiting.append(asked)
                if not asked.waits:
                    members[group] = asked.answer.member_id or member_id
            case 1:
                waiting.append(world.sync(group, member_id, rng.randrange(1, 4)))
            case 2:
                waiting.append(world.beat(group, "m", rng.choice((0, 0, epoch, epoch, -1))))
                epochs[group] = max(waiting[-1].answer.member_epoch, 0)
            case 3:
                world.leave(group, (member_id, None))
            case 4:
                world.commit(
                    group, member_id=rng.choice(("", member_id)), epoch=rng.choice((-1, 1))
                )
            case 5:
                world.commit_in_transaction(group, producer_id=rng.randrange(3))
            case 6:
                world.end(group, rng.randrange(3), commit=rng.random() < 0.5)
            case 7:
                world.delete(group)
            case 8:
                world.coordinator.coordinator_moved(group.__eq__, world.now)
            case _:
                world.pass_time(rng.choice((1.0, 12.0, 100.0)))

    world.pass_time(400.0)
    assert not any(asked.waits for asked in waiting)
    offsets = {group: world.fetch(group) for group in groups}
    listed = world.list()
    world.restart()
    assert {group: world.fetch(group) for group in groups} == offsets
    assert world.list() == listed
