"""Joining, syncing, heartbeats and leaving of a classic group's dynamic members."""

from __future__ import annotations

import math

import pytest
from kafka.protocol.consumer import LeaveGroupRequest

from aktor.broker.call import Call
from aktor.broker.codes import Code
from aktor.broker.groups.classic.answers import leave_unknown_group
from tests.unit.broker.groups.classic.world import ClassicWorld
from tests.unit.broker.harness import NOW

RANGE = (("range", b"r"),)
BOTH = (("range", b"r"), ("sticky", b"s"))
STICKY_FIRST = (("sticky", b"s"), ("range", b"r"))


def test_a_new_member_is_told_its_id_and_joins_with_it() -> None:
    world = ClassicWorld()

    told = world.join(client_id="app")
    asked = world.join(told.answer.member_id, client_id="app")

    assert told.code is Code.MEMBER_ID_REQUIRED
    assert told.answer.member_id.startswith("app-")
    assert asked.code is Code.NONE
    assert asked.answer.member_id == told.answer.member_id


def test_an_old_client_joins_without_the_detour() -> None:
    world = ClassicWorld()

    asked = world.join(version=3)

    assert asked.code is Code.NONE
    assert asked.answer.generation_id == 1


def test_the_first_member_leads_and_is_told_of_all() -> None:
    world = ClassicWorld()

    member_id, asked = world.enter(protocols=BOTH)

    answer = asked.answer
    assert answer.leader == member_id
    assert [(m.member_id, m.metadata) for m in answer.members] == [(member_id, b"r")]
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert answer.generation_id == 1
    assert answer.skip_assignment is False
    assert world.group.state == "CompletingRebalance"


def test_the_leaders_sync_gives_everybody_a_share() -> None:
    world = ClassicWorld()
    (first,) = world.stable(1)
    second, joined = world.enter()
    world.join(first)
    waiting = world.sync(second, 2)

    assert waiting.waits
    leading = world.sync(first, 2, {first: b"mine", second: b"yours"})

    assert joined.answer.members == []
    assert joined.answer.leader == first
    assert (leading.answer.assignment, waiting.answer.assignment) == (b"mine", b"yours")
    assert (waiting.answer.protocol_type, waiting.answer.protocol_name) == ("consumer", "range")
    assert world.group.state == "Stable"


def test_a_follower_that_syncs_late_gets_its_share_at_once() -> None:
    world = ClassicWorld()
    (first,) = world.stable(1)
    second, _ = world.enter()
    world.join(first)
    world.sync(first, 2, {second: b"yours"})

    late = world.sync(second, 2)

    assert late.answer.assignment == b"yours"
    assert world.group.members[first].assignment == b""


def test_a_third_member_makes_the_others_join_again() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)

    third, joined = world.enter()
    assert world.group.state == "PreparingRebalance"
    assert world.heartbeat(first, 2) is Code.REBALANCE_IN_PROGRESS
    assert joined.waits
    world.join(second)
    world.join(first)

    assert joined.answer.generation_id == 3
    assert list(world.group.members) == [first, second, third]


def test_a_sync_is_refused_while_members_are_joining() -> None:
    world = ClassicWorld()
    first, _ = world.stable(2)
    world.enter()

    assert world.sync(first, 2).code is Code.REBALANCE_IN_PROGRESS


def test_a_heartbeat_is_welcome_while_the_assignment_is_awaited() -> None:
    world = ClassicWorld()
    member_id, _ = world.enter()

    assert world.group.state == "CompletingRebalance"
    assert world.heartbeat(member_id, 1) is Code.NONE


def test_a_follower_that_joins_again_unchanged_is_told_the_generation() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)

    again = world.join(second)

    assert (again.answer.generation_id, again.answer.leader) == (2, first)
    assert again.answer.members == []
    assert world.group.state == "Stable"


def test_a_follower_with_new_metadata_means_a_rebalance() -> None:
    world = ClassicWorld()
    _, second = world.stable(2)

    again = world.join(second, protocols=(("range", b"other topics"),))

    assert again.waits
    assert world.group.state == "PreparingRebalance"


def test_a_leader_that_joins_again_always_means_a_rebalance() -> None:
    world = ClassicWorld()
    first, _ = world.stable(2)

    assert world.join(first).waits
    assert world.group.state == "PreparingRebalance"


def test_who_missed_the_answer_of_its_join_is_told_again() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    assert world.group.state == "CompletingRebalance"

    leader, follower = world.join(first), world.join(second)

    assert [m.member_id for m in leader.answer.members] == [first, second]
    assert follower.answer.members == []
    assert leader.answer.generation_id == follower.answer.generation_id == 3
    assert world.group.state == "CompletingRebalance"


def test_new_metadata_while_the_assignment_is_awaited_calls_all_together_again() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)

    world.join(first, protocols=(("range", b"other"),))

    assert waiting.code is Code.REBALANCE_IN_PROGRESS
    assert world.group.state == "PreparingRebalance"


def test_a_second_join_on_a_new_connection_ends_the_first() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    lost = world.join(first)

    found = world.join(first)
    world.join(second)

    assert lost.code is Code.REBALANCE_IN_PROGRESS
    assert found.answer.generation_id == 3


def test_a_second_sync_on_a_new_connection_ends_the_first() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    lost = world.sync(second, 3)

    found = world.sync(second, 3)
    world.sync(first, 3, {second: b"yours"})

    assert lost.code is Code.REBALANCE_IN_PROGRESS
    assert found.answer.assignment == b"yours"


# Refusals.


@pytest.mark.parametrize("session", [0.4, 1800.1])
def test_a_session_too_short_or_too_long_is_refused(session: float) -> None:
    world = ClassicWorld()

    asked = world.join("somebody", session=session)

    assert asked.code is Code.INVALID_SESSION_TIMEOUT
    assert asked.answer.member_id == "somebody"
    assert world.journal.puts == 0


@pytest.mark.parametrize("session", [0.5, 1800.0])
def test_the_bounds_of_a_session_are_allowed(session: float) -> None:
    assert ClassicWorld().join(session=session).code is Code.MEMBER_ID_REQUIRED


def test_a_member_unknown_to_the_group_is_refused() -> None:
    world = ClassicWorld()
    world.stable(1)

    assert world.join("stranger").code is Code.UNKNOWN_MEMBER_ID
    assert world.sync("stranger", 1).code is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat("stranger", 1) is Code.UNKNOWN_MEMBER_ID


def test_an_empty_group_knows_no_member() -> None:
    world = ClassicWorld()

    assert world.join("ghost").code is Code.UNKNOWN_MEMBER_ID
    assert world.sync("ghost", 0).code is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat("ghost", 0) is Code.UNKNOWN_MEMBER_ID
    assert world.leave(("ghost", None)) == [Code.UNKNOWN_MEMBER_ID]
    assert world.group.state == "Empty"


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_refused(generation: int) -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)

    assert world.heartbeat(member_id, generation) is Code.ILLEGAL_GENERATION
    assert world.sync(member_id, generation).code is Code.ILLEGAL_GENERATION


def test_an_unknown_member_is_noticed_before_its_generation() -> None:
    world = ClassicWorld()
    world.stable(1)

    assert world.heartbeat("stranger", 77) is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", (("sticky", b""),)), ("consumer", ())],
)
def test_who_has_no_protocol_in_common_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    world = ClassicWorld()
    world.stable(1)

    asked = world.join(protocol_type=protocol_type, protocols=protocols)

    assert asked.code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert asked.answer.protocol_name is None


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_the_first_member_must_name_a_protocol(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    asked = ClassicWorld().join(protocol_type=protocol_type, protocols=protocols)

    assert asked.code is Code.INCONSISTENT_GROUP_PROTOCOL


def test_before_version_7_a_missing_protocol_name_is_an_empty_string() -> None:
    world = ClassicWorld()

    assert world.join(version=6).answer.protocol_name == ""
    assert world.join(version=7).answer.protocol_name is None


@pytest.mark.parametrize(
    ("version", "protocol_type", "protocol_name", "code"),
    [
        (5, "consumer", "range", Code.NONE),
        (5, "consumer", None, Code.INCONSISTENT_GROUP_PROTOCOL),
        (5, None, "range", Code.INCONSISTENT_GROUP_PROTOCOL),
        (5, "connect", "range", Code.INCONSISTENT_GROUP_PROTOCOL),
        (5, "consumer", "sticky", Code.INCONSISTENT_GROUP_PROTOCOL),
        (4, None, None, Code.NONE),
    ],
)
def test_a_sync_must_name_the_groups_protocol(
    version: int, protocol_type: str | None, protocol_name: str | None, code: Code
) -> None:
    world = ClassicWorld()
    member_id, _ = world.enter()

    asked = world.sync(
        member_id, 1, protocol_type=protocol_type, protocol_name=protocol_name, version=version
    )

    assert asked.code is code


def test_the_protocol_with_most_votes_among_those_all_have_is_chosen() -> None:
    world = ClassicWorld()
    world.stable(1, protocols=BOTH)

    for _ in range(2):
        world.enter(protocols=(*STICKY_FIRST, ("own", b"")))
    assert world.group.leader_id is not None
    world.join(world.group.leader_id, protocols=BOTH)

    assert world.group.protocol_name == "sticky"


# Size.


def test_a_full_group_takes_nobody_more() -> None:
    world = ClassicWorld(max_size=1)
    (first,) = world.stable(1)

    late = world.join()

    assert late.code is Code.GROUP_MAX_SIZE_REACHED
    assert late.answer.member_id == ""
    assert world.heartbeat(first, 1) is Code.NONE


def test_one_too_many_who_had_got_an_id_loses_it() -> None:
    world = ClassicWorld(max_size=1, initial_rebalance_delay=3.0)
    ids = [world.join().answer.member_id for _ in range(2)]
    world.join(ids[0])

    assert world.join(ids[1]).code is Code.GROUP_MAX_SIZE_REACHED
    assert not world.group.pending_members


def test_of_a_shrunk_group_the_last_to_rejoin_is_put_out() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.settings = type(world.settings)(max_size=1)
    world.restart()
    assert world.group.state == "PreparingRebalance"

    kept = world.join(first)
    late = world.join(second)

    assert late.code is Code.GROUP_MAX_SIZE_REACHED
    world.pass_time(60.0)
    assert kept.answer.generation_id == 3
    assert list(world.group.members) == [first]


# Leaving.


def test_who_leaves_makes_the_others_rebalance() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)

    assert world.leave((first, None)) == [Code.NONE]

    assert world.group.leader_id == second
    assert world.heartbeat(first, 2) is Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(second, 2) is Code.REBALANCE_IN_PROGRESS


def test_when_the_last_leaves_the_group_is_empty_in_a_new_generation() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)

    assert world.leave_alone(member_id) is Code.NONE

    group = world.group
    assert (group.state, group.generation) == ("Empty", 2)
    assert (group.protocol_type, group.protocol_name, group.leader_id) == ("consumer", None, None)
    assert world.kept()["members"] == []


def test_an_old_clients_leave_says_its_error_itself() -> None:
    world = ClassicWorld()
    world.stable(1)

    assert world.leave_alone("stranger") is Code.UNKNOWN_MEMBER_ID


def test_several_may_leave_at_once_and_each_has_its_outcome() -> None:
    world = ClassicWorld()
    first, second, third = world.stable(3)

    codes = world.leave((first, None), ("stranger", None), (second, None))

    assert codes == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.NONE]
    assert list(world.group.members) == [third]
    assert world.group.state == "PreparingRebalance"


def test_who_leaves_has_its_waiting_calls_answered() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    joining = world.join(first)
    world.leave((first, None))
    assert joining.code is Code.UNKNOWN_MEMBER_ID

    world.join(second)
    third, _ = world.enter()
    world.join(second)
    syncing = world.sync(third, world.group.generation)
    world.leave((third, None))

    assert syncing.code is Code.UNKNOWN_MEMBER_ID


def test_the_rebalance_ends_when_the_missing_one_leaves() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)

    world.leave((second, None))

    assert waiting.answer.generation_id == 3


def test_who_has_but_an_id_may_leave() -> None:
    world = ClassicWorld()
    member_id = world.join().answer.member_id

    assert world.leave((member_id, None)) == [Code.NONE]

    assert world.group.state == "Empty"
    assert world.join(member_id).code is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [2, 5])
def test_a_coordinator_without_the_group_says_that_nobody_is_known(version: int) -> None:
    request = LeaveGroupRequest(
        group_id="gone",
        member_id="m",
        members=[LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id=None)],
    )

    answer = leave_unknown_group(Call(request, answer=print, version=version, now=NOW))

    codes = [member.error_code for member in answer.members] or [answer.error_code]
    assert codes == [Code.UNKNOWN_MEMBER_ID]
    assert bool(answer.members) == (version >= 3)


# A deleted group.


def test_a_deleted_group_sends_everybody_to_look_for_the_coordinator() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1)
    world.leave((member_id, None))
    world.group.remove(world.now)

    assert world.group.state == "Dead"
    assert world.join().code is Code.COORDINATOR_NOT_AVAILABLE
    assert world.join(member_id).code is Code.COORDINATOR_NOT_AVAILABLE
    assert world.sync(member_id, 1).code is Code.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(member_id, 1) is Code.COORDINATOR_NOT_AVAILABLE
    assert world.leave_alone(member_id, version=5) is Code.COORDINATOR_NOT_AVAILABLE
    assert world.kept() is None
    assert world.group.wake_at() == math.inf


def test_the_time_of_the_state_is_known() -> None:
    world = ClassicWorld()
    (member_id,) = world.stable(1, session=100.0)
    world.pass_time(7.0)
    world.leave((member_id, None))

    assert world.group.state_since == NOW + 7.0
