"""What of a classic group outlives a restart, and what a new coordinator knows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from tests.unit.broker.groups.classic.world import ClassicWorld, subscription, sync_request


def test_a_new_group_is_written_down_with_its_first_join() -> None:
    world = ClassicWorld()
    world.join()

    kept = world.kept()

    assert (kept["generation"], kept["members"]) == (0, [])


def test_a_generation_is_written_down_when_its_leader_has_assigned() -> None:
    world = ClassicWorld()
    member_id, _ = world.enter()
    assert world.kept()["generation"] == 0

    world.settle()

    kept = world.kept()
    assert (kept["generation"], kept["leader"]) == (1, member_id)
    assert kept == world.group.snapshot()


def test_nobody_is_answered_before_the_generation_is_written_down() -> None:
    world = ClassicWorld()
    seen: list[int] = []
    member_id, _ = world.enter()

    def look(_: Any) -> None:
        seen.append(world.kept()["generation"])

    request = sync_request(member_id, 1)
    world.group.sync(Call(request, answer=look, version=5, now=world.now))

    assert seen == [1]


def test_a_stable_group_goes_on_after_a_restart() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)

    world.restart()

    assert (world.group.state, world.group.generation) == ("Stable", 2)
    assert (world.group.leader_id, world.group.protocol_name) == (first, "range")
    assert world.heartbeat(second, 2) is Code.NONE
    assert world.sync(second, 2).answer.assignment == b"share of " + second.encode()


def test_sessions_begin_anew_after_a_restart() -> None:
    world = ClassicWorld()
    world.stable(1, session=10.0)
    world.now += 1000.0
    world.restart()

    world.pass_time(9.9)
    assert world.group.state == "Stable"
    world.pass_time(0.1)

    assert world.group.state == "Empty"


def test_a_restart_in_the_middle_of_a_rebalance_leads_back_to_the_last_generation() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    assert world.group.generation == 3

    world.restart()

    assert (world.group.state, world.group.generation) == ("Stable", 2)
    assert world.heartbeat(first, 3) is Code.ILLEGAL_GENERATION


def test_of_a_members_protocols_only_the_chosen_one_outlives_a_restart() -> None:
    world = ClassicWorld()
    both = (("range", b"r"), ("sticky", b"s"))
    _, second = world.stable(2, protocols=both)
    world.restart()

    again = world.join(second, protocols=both)

    # So to the group its metadata has changed: a rebalance, as in Kafka.
    assert again.waits


def test_a_static_member_is_known_after_a_restart() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", "b")
    world.restart()

    back = world.join(instance="b")

    assert back.answer.generation_id == 2
    assert world.heartbeat(ids["b"], 2, instance="b") is Code.FENCED_INSTANCE_ID


def test_an_empty_group_remembers_its_generation_and_kind() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)
    world.leave((member_id, None))
    world.pass_time(50.0)
    left_at = world.group.state_since
    world.restart()

    assert (world.group.state, world.group.generation) == ("Empty", 2)
    assert world.group.protocol_type == "consumer"
    assert world.group.state_since == left_at
    assert world.join(protocol_type="connect", version=3).answer.generation_id == 3


def test_a_group_that_never_had_members_is_not_written_down() -> None:
    world = ClassicWorld()

    assert world.group.snapshot() is None
    assert world.journal.puts == 0


# Another coordinator.


def test_waiting_joins_are_sent_away_when_the_coordinator_moves() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)

    world.group.coordinator_moved(world.now)

    assert waiting.code is Code.NOT_COORDINATOR
    assert waiting.answer.member_id == first
    assert (world.group.state, world.group.generation) == ("Stable", 2)
    assert world.heartbeat(second, 2) is Code.NONE


def test_waiting_syncs_are_sent_away_when_the_coordinator_moves() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)

    world.group.coordinator_moved(world.now)

    assert waiting.code is Code.NOT_COORDINATOR
    assert world.group.generation == 2


def test_who_joined_since_the_last_generation_is_unknown_to_the_new_coordinator() -> None:
    world = ClassicWorld()
    (first,) = world.stable(1)
    second, joining = world.enter()
    third = world.join().answer.member_id

    world.group.coordinator_moved(world.now)

    assert joining.code is Code.NOT_COORDINATOR
    assert list(world.group.members) == [first]
    assert world.join(second).code is Code.UNKNOWN_MEMBER_ID
    assert world.join(third).code is Code.UNKNOWN_MEMBER_ID


def test_a_deleted_group_stays_dead_when_the_coordinator_moves() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)
    world.leave((member_id, None))
    world.group.remove(world.now)

    world.group.coordinator_moved(world.now)

    assert world.group.state == "Dead"


# Commits.


def refusal(group: ClassicGroup, *args: Any, transactional: bool = False) -> Code | None:
    try:
        group.validate_commit(*args, transactional=transactional)
    except Refused as refused:
        return refused.code
    return None


def test_a_member_of_the_generation_may_commit() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)

    assert refusal(world.group, member_id, None, 1) is None
    assert refusal(world.group, member_id, None, 0) is Code.ILLEGAL_GENERATION
    assert refusal(world.group, "stranger", None, 1) is Code.UNKNOWN_MEMBER_ID
    assert refusal(world.group, member_id, "nobody", 1) is Code.UNKNOWN_MEMBER_ID


def test_members_may_commit_while_they_are_called_together() -> None:
    world = ClassicWorld()
    first, _ = world.stable(2)
    world.enter()

    assert world.group.state == "PreparingRebalance"
    assert refusal(world.group, first, None, 2) is None


def test_no_commit_while_the_assignment_is_awaited_except_in_a_transaction() -> None:
    world = ClassicWorld()
    member_id, _ = world.enter()

    assert refusal(world.group, member_id, None, 1) is Code.REBALANCE_IN_PROGRESS
    assert refusal(world.group, member_id, None, 1, transactional=True) is None


def test_who_is_in_no_group_may_commit_to_an_empty_one_only() -> None:
    world = ClassicWorld()
    assert refusal(world.group, "", None, -1) is None

    world.stable(1)

    assert refusal(world.group, "", None, -1) is Code.UNKNOWN_MEMBER_ID
    assert refusal(world.group, "", None, -1, transactional=True) is None


def test_a_fenced_double_cannot_commit() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a")
    world.join(instance="a")

    assert refusal(world.group, ids["a"], "a", 1) is Code.FENCED_INSTANCE_ID
    assert refusal(world.group, ids["a"], "a", 1, transactional=True) is Code.FENCED_INSTANCE_ID


def test_nobody_commits_to_a_deleted_group() -> None:
    world = ClassicWorld()
    world.group.remove(world.now)

    assert refusal(world.group, "", None, -1) is Code.COORDINATOR_NOT_AVAILABLE


# Topics and descriptions.


def test_the_topics_of_all_members_are_known() -> None:
    world = ClassicWorld()
    assert world.group.subscribed_topics() is None

    (first,) = world.stable(1, protocols=(("range", subscription("a", "b")),))
    world.enter(protocols=(("range", subscription("b", "ç", version=0)),))
    world.join(first, protocols=(("range", subscription("a", "b")),))

    assert world.group.subscribed_topics() == frozenset({"a", "b", "ç"})


def test_an_empty_group_of_consumers_has_no_topics() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1, protocols=(("range", subscription("a")),))
    world.leave((member_id, None))

    assert world.group.subscribed_topics() == frozenset()


@pytest.mark.parametrize(
    "metadata", [b"", b"\0\1", b"\0\1\0\0\0\2\0\1a", b"\0\1\0\0\0\1\0\5a", b"\0\1\0\0\0\1\0\1\xff"]
)
def test_topics_that_cannot_be_read_are_unknown(metadata: bytes) -> None:
    world = ClassicWorld()
    world.stable(1, protocols=(("range", metadata),))

    assert world.group.subscribed_topics() is None


def test_others_than_consumers_have_no_topics() -> None:
    world = ClassicWorld()
    world.enter(protocol_type="connect")

    assert world.group.subscribed_topics() is None


def test_a_stable_group_is_described_with_all_it_is() -> None:
    world = ClassicWorld()
    ids = world.stable_static("a", client_id="app")

    assert world.group.describe() == {
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [
            {
                "member_id": ids["a"],
                "group_instance_id": "a",
                "client_id": "app",
                "client_host": "/127.0.0.1",
                "member_metadata": b"r",
                "member_assignment": b"share of " + ids["a"].encode(),
            }
        ],
    }


def test_of_a_rebalancing_group_the_protocol_is_not_shown() -> None:
    world = ClassicWorld()
    world.stable(2)
    world.enter()

    described = world.group.describe()

    assert (described["state"], described["protocol_data"]) == ("PreparingRebalance", "")
    assert {member["member_metadata"] for member in described["members"]} == {b""}


def test_equal_seeds_make_equal_ids() -> None:
    assert ClassicWorld(seed=5).enter()[0] == ClassicWorld(seed=5).enter()[0]
    assert random.Random(5).getrandbits(128) != random.Random(6).getrandbits(128)
