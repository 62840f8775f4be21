"""The classic membership manager: leaving."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from aktor.events.answers import Answered
from aktor.events.membership import AssignPartitions, MemberChanged, MemberState, Operation
from aktor.events.network import Lane
from aktor.managers.membership.classic.states import State
from aktor.values import replace
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    INVALID_GROUP_ID,
    MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER_ID,
    a_member,
    a_static_member,
    join_refused,
    joined,
    left,
    synced,
)
from tests.unit.managers.membership.classic.builders import a_leave


def test_leaving_is_told_to_the_group_and_then_answered() -> None:
    harness = a_member().is_stable()
    harness.tell(a_leave(harness.now + 5))
    assert not harness.has_said(Answered)
    request = harness.sent(LeaveGroupRequest)
    assert request.body.members[0].reason == "close"

    harness.answer(request, left())

    assert harness.said(Answered).ticket == 7
    changed = harness.last_said(MemberChanged)
    assert (changed.member_id, changed.generation) == ("", -1)
    assert changed.state is MemberState.UNJOINED
    assert harness.manager.state is State.UNJOINED


@pytest.mark.parametrize(
    ("static", "operation", "leaves"),
    [
        (False, Operation.DEFAULT, True),
        (False, Operation.LEAVE_GROUP, True),
        (False, Operation.REMAIN_IN_GROUP, False),
        (True, Operation.DEFAULT, False),
        (True, Operation.LEAVE_GROUP, True),
        (True, Operation.REMAIN_IN_GROUP, False),
    ],
)
@pytest.mark.parametrize("when", ["stable", "syncing", "joining"])
def test_whether_a_member_says_goodbye_depends_on_the_operation_and_the_kind_of_member(
    static: bool, operation: Operation, leaves: bool, when: str
) -> None:
    """Scenario 65, KIP-1092."""
    harness = a_static_member() if static else a_member()
    if when == "stable":
        harness.is_stable("a-0")
    elif when == "syncing":
        harness.is_syncing()
    else:
        harness.wants_to_join()
        join = harness.sent(JoinGroupRequest)

    harness.tell(replace(a_leave(harness.now + 10.0, ticket=7), operation=operation))
    if when == "joining" and leaves:
        harness.answer(join, joined(member="m"))

    if leaves:
        (who,) = harness.left_the_group().body.members
        assert who.member_id == "m"
        assert who.group_instance_id == ("instance-1" if static else None)
    assert not harness.has_sent(LeaveGroupRequest)
    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is State.UNJOINED


def test_a_static_member_is_let_go_by_name_which_takes_a_newer_broker() -> None:
    harness = a_static_member().is_stable()

    harness.tell(replace(a_leave(200.0), operation=Operation.LEAVE_GROUP))

    assert harness.sent(LeaveGroupRequest).body._min_version == 3


def test_a_static_member_says_no_goodbye_unless_it_is_asked_to() -> None:
    """Scenario 63."""
    harness = a_static_member().is_stable()

    harness.tell(a_leave(harness.now + 5))

    assert harness.said(Answered).ticket == 7
    assert not harness.has_sent(LeaveGroupRequest)


@pytest.mark.parametrize("how", ["unsubscribed", "late", "refused"])
def test_a_static_member_that_has_kept_its_place_may_still_be_let_go(how: str) -> None:
    """Its partitions would wait for the session's end."""
    harness = a_static_member(max_poll_interval=10.0).is_stable("a-0")
    if how == "unsubscribed":
        harness.tell(a_leave(harness.now + 5))
        harness.said(Answered)
        harness.subscribe()
    elif how == "late":
        harness.after(10)
    else:
        harness.beats(INVALID_GROUP_ID)
    assert not harness.has_sent(LeaveGroupRequest)

    harness.tell(replace(a_leave(harness.now + 5), operation=Operation.LEAVE_GROUP))

    assert harness.left_the_group().body.members[0].member_id == "m"
    assert harness.said(Answered).ticket == 7


def test_a_static_member_that_the_group_has_forgotten_has_nothing_to_say() -> None:
    harness = a_static_member().is_stable("a-0")
    harness.beats(UNKNOWN_MEMBER_ID)

    harness.tell(replace(a_leave(harness.now + 5), operation=Operation.LEAVE_GROUP))

    assert not harness.has_sent(LeaveGroupRequest)
    assert harness.said(Answered).ticket == 7


def test_leaving_cancels_the_rebalance_and_late_answers_are_dropped() -> None:
    """Scenarios 48, 57 and 111; KAFKA-20428."""
    harness = a_member().is_syncing()
    sync = harness.sent(SyncGroupRequest)
    harness.tell(a_leave(harness.now + 5))
    assert (sync.lane, harness.sent(LeaveGroupRequest).lane) == (Lane.HOLDS, Lane.ORDINARY)

    harness.answer(sync, synced("a-0"))

    assert not harness.has_said(AssignPartitions)
    assert harness.manager.state is State.LEAVING


def test_leaving_before_the_first_join_is_answered_waits_to_learn_who_it_is() -> None:
    """A pending member that nobody looks after would hold the others' rebalance up."""
    harness = a_member().wants_to_join()
    join = harness.sent(JoinGroupRequest)
    harness.tell(a_leave(harness.now + 5))
    assert not harness.has_said(Answered)

    harness.answer(join, join_refused(MEMBER_ID_REQUIRED, "pending"))

    assert harness.left_the_group().body.members[0].member_id == "pending"
    assert harness.said(Answered).ticket == 7


@pytest.mark.parametrize("outcome", ["refused", "broken"])
def test_leaving_before_a_first_join_that_comes_to_nothing_is_answered(outcome: str) -> None:
    harness = a_member().wants_to_join()
    join = harness.sent(JoinGroupRequest)
    harness.tell(a_leave(harness.now + 5))

    if outcome == "refused":
        harness.answer(join, join_refused(COORDINATOR_LOADING))
    else:
        harness.fail(join)

    assert harness.said(Answered).ticket == 7


def test_a_member_that_left_can_subscribe_and_join_again() -> None:
    """Scenario 48."""
    harness = a_member().is_stable()
    harness.tell(a_leave(harness.now + 5))
    harness.subscribe("b")
    harness.poll()
    assert not harness.has_sent(JoinGroupRequest)

    harness.left_the_group()

    assert harness.sent(JoinGroupRequest).body.member_id == ""


def test_leaving_while_losing_completes() -> None:
    """Scenario 68."""
    harness = a_member().is_stable()
    harness.beats(UNKNOWN_MEMBER_ID)

    harness.tell(a_leave(harness.now + 5))

    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is State.UNJOINED


def test_who_was_late_joined_anew_and_leaves_waits_until_both_are_gone() -> None:
    """Found by a simulation (seed 7700008): the first goodbye was to be repeated."""
    harness = a_member(max_poll_interval=10.0).is_stable("a-0")
    harness.after(10)
    harness.answer(harness.sent(LeaveGroupRequest), left(COORDINATOR_LOADING))
    harness.revoke()
    harness.poll()
    harness.answer(harness.sent(JoinGroupRequest), joined(member="m2"))

    harness.tell(a_leave(harness.now + 5))
    first = harness.left_the_group().body.members[0].member_id
    assert not harness.has_said(Answered)
    harness.after(1.0)
    second = harness.left_the_group().body.members[0].member_id

    assert (first, second) == ("m2", "m")
    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is State.UNJOINED


def test_after_leaving_nothing_is_sent_any_more() -> None:
    harness = a_member().is_stable()
    harness.tell(a_leave(harness.now + 5))
    harness.left_the_group()

    harness.poll()
    harness.after(100)

    assert not harness.requests
    assert harness.wake_at == float("inf")
