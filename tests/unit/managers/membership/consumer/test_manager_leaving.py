"""The consumer protocol's membership manager: leaving, and polling too late.

Scenarios are those of the Java client's `ConsumerMembershipManagerTest` and
`ConsumerHeartbeatRequestManagerTest`.
"""

from __future__ import annotations

import pytest
from kafka.errors import UnsupportedVersionError

from aktor.events.answers import Answered
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    GroupFailed,
    MemberChanged,
    MemberState,
    Operation,
    RevokePartitions,
)
from aktor.managers.membership.consumer.states import State
from tests.unit.managers.membership.builders import (
    GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID,
    partitions,
)
from tests.unit.managers.membership.consumer.builders import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    LOST,
    OTHER_COORDINATOR,
    a_member,
    a_member_in,
    a_stable_member,
    a_static_member,
    heard,
    misses_its_poll,
    row,
)

# -- leaving


@pytest.mark.parametrize(
    ("static", "operation", "epoch"),
    [
        (False, Operation.DEFAULT, -1),
        (False, Operation.LEAVE_GROUP, -1),
        (False, Operation.REMAIN_IN_GROUP, None),
        (True, Operation.DEFAULT, -2),
        (True, Operation.LEAVE_GROUP, -1),
        (True, Operation.REMAIN_IN_GROUP, -2),
    ],
)
@pytest.mark.parametrize(
    "state", [State.JOINING, State.RECONCILING, State.STABLE], ids=lambda one: one.name
)
def test_what_the_last_heartbeat_says_depends_on_the_operation_and_the_kind_of_member(
    static: bool, operation: Operation, epoch: int | None, state: State
) -> None:
    """Scenario 65, KIP-1092."""
    harness = a_static_member() if static else a_member()
    harness.wants_to_join("a")
    if state is not State.JOINING:
        harness.is_told("a-0")
    if state is State.STABLE:
        harness.apply()
        harness.is_told()
    harness.forget()

    harness.leave(ticket=7, operation=operation)

    if epoch is None:
        assert not harness.has_beaten
    else:
        request = harness.beat()
        assert request.body.member_epoch == epoch
        assert request.body.instance_id == ("instance-1" if static else None)
        harness.answer(request, heard(epoch))
    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED


def test_the_last_heartbeat_does_not_wait_for_the_one_in_flight() -> None:
    """Scenario 54, KAFKA-16639."""
    harness = a_stable_member()
    in_flight = harness.next_beat()

    harness.leave()
    goodbye = harness.beat()
    harness.answer(in_flight, heard(2, "a-0"))

    assert goodbye.body.member_epoch == -1
    assert harness.state is State.LEAVING
    assert not harness.has_said(AssignPartitions)


def test_who_never_said_that_it_wants_to_join_need_not_say_goodbye() -> None:
    """There is no coordinator, and may never be: `close` does not wait for it."""
    harness = a_member()
    harness.subscribe("a")
    harness.poll()
    assert harness.state is State.JOINING

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED


def test_who_has_said_goodbye_and_not_joined_again_need_not_say_it_twice() -> None:
    harness = a_stable_member()
    harness.leave(ticket=1)
    harness.answer(harness.beat(), heard(-1))
    harness.tell(LOST)
    harness.subscribe("a")
    harness.poll()
    harness.forget()

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7


@pytest.mark.parametrize("known", ["asked", "late", "restarted"])
def test_whom_the_group_may_count_on_says_goodbye_though_no_answer_came(known: str) -> None:
    harness = a_member(incarnation=2 if known == "restarted" else 1)
    if known == "late":
        harness.is_stable()
        harness.tell(LOST)
        harness.after(300.0)
        assert harness.state is State.STALE
        harness.revoke()
        harness.poll()
    elif known == "asked":
        harness.wants_to_join("a")
        harness.tell(LOST)
        harness.forget()
    else:
        harness.subscribe("a")
        harness.poll()
    assert harness.state is State.JOINING

    harness.leave(ticket=7)
    assert not harness.has_said(Answered)
    harness.find_coordinator()

    assert row(harness.beat())[0] == -1


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_who_was_restarted_and_has_not_asked_again_leaves_for_its_predecessor(
    instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    harness = a_member(incarnation=2, group_instance_id=instance)
    harness.find_coordinator()
    harness.subscribe("a")
    assert harness.state is State.UNSUBSCRIBED

    harness.leave(ticket=7)

    goodbye = harness.beat()
    assert row(goodbye)[0] == epoch
    assert not harness.has_said(Answered)
    harness.answer(goodbye, heard(epoch))
    assert harness.said(Answered).ticket == 7
    harness.leave(ticket=8)
    assert harness.said(Answered).ticket == 8


def test_the_failure_of_an_attempt_to_leave_that_was_given_up_does_not_count() -> None:
    """It would have the attempt in flight sent once more beside itself."""
    harness = a_stable_member()
    harness.leave(30.0)
    given_up = harness.beat()
    harness.find_coordinator(OTHER_COORDINATOR)
    in_flight = harness.beat()

    harness.fail(given_up)
    harness.after(2.0)

    assert not harness.requests
    harness.fail(in_flight)
    assert harness.next_beat().body.member_epoch == -1


@pytest.mark.parametrize("answer", [GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID])
def test_whom_the_coordinator_does_not_know_any_more_need_not_leave(answer: int) -> None:
    harness = a_stable_member()
    harness.is_refused(answer)
    harness.tell(LOST)
    harness.revoke()
    assert harness.state is State.JOINING

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7


def test_who_was_fenced_and_has_not_joined_again_leaves() -> None:
    """FENCED_MEMBER_EPOCH: the group has the member, with another epoch."""
    harness = a_stable_member()
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.tell(LOST)
    harness.revoke()
    assert harness.state is State.JOINING

    harness.leave(ticket=7)

    assert not harness.has_said(Answered)
    harness.find_coordinator()
    assert harness.beat().body.member_epoch == -1


def test_a_heartbeat_of_goodbye_may_not_take_longer_than_there_is_time() -> None:
    harness = a_stable_member()

    harness.leave(0.5)

    assert harness.beat().deadline == harness.now + 0.5


def test_a_goodbye_that_no_broker_understands_is_given_up() -> None:
    harness = a_stable_member()
    harness.leave(ticket=7)

    harness.fail(harness.beat(), UnsupportedVersionError("none in common"))

    assert harness.said(Answered).ticket == 7
    assert not harness.has_said(GroupFailed)


def test_whom_the_group_did_not_take_in_has_left_at_once() -> None:
    harness = a_member()
    harness.wants_to_join("a")
    harness.is_refused(GROUP_MAX_SIZE_REACHED)

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7
    assert not harness.has_beaten


def test_others_learn_at_once_that_we_are_no_member_any_more() -> None:
    harness = a_stable_member()

    harness.leave()

    changed = harness.said(MemberChanged)
    assert (changed.member_id, changed.generation) == ("", -1)
    assert changed.state is MemberState.UNJOINED


# -- polled too late


def test_a_static_member_that_polls_too_late_keeps_its_place() -> None:
    harness = a_static_member().is_stable()

    misses_its_poll(harness)

    assert harness.beat().body.member_epoch == -2


@pytest.mark.parametrize("has_left", [False, True])
def test_a_static_member_that_polls_too_late_may_leave_before_its_first_heartbeat(
    has_left: bool,
) -> None:
    harness = a_static_member()
    if has_left:
        harness.is_stable()
        harness.leave()
        harness.answer(harness.beat(), heard(-2))
        harness.tell(LOST)
    harness.subscribe("a")
    harness.poll()
    assert harness.state is State.JOINING
    harness.after(300.0)
    assert harness.state is State.STALE

    harness.find_coordinator()
    harness.answer(harness.beat(), heard(-2))

    assert harness.state is State.STALE
    assert not harness.has_beaten


def test_a_stale_member_does_not_join_while_its_goodbye_is_in_flight() -> None:
    """A goodbye that arrived after the new beginning would end it."""
    harness = a_member_in(State.STALE)
    goodbye = harness.beat()
    harness.revoke()
    harness.poll()
    assert not harness.has_beaten

    harness.answer(goodbye, heard(-1))

    assert harness.state is State.JOINING
    assert harness.beat().body.member_epoch == 0


def test_a_lost_goodbye_is_not_repeated_to_the_member_that_joins_again() -> None:
    harness = a_member_in(State.STALE)
    goodbye = harness.beat()
    harness.revoke()
    harness.poll()

    harness.fail(goodbye)
    harness.after(5.0)

    assert [one.body.member_epoch for one in harness.requests] == [0]


def test_a_goodbye_of_a_stale_member_is_tried_again_while_nobody_polls() -> None:
    harness = a_member_in(State.STALE)

    harness.fail(harness.beat())

    assert harness.next_beat().body.member_epoch == -1
    assert harness.state is State.STALE


def test_a_late_member_without_a_coordinator_joins_again_without_having_left() -> None:
    harness = a_stable_member()
    harness.tell(LOST)
    misses_its_poll(harness)
    assert harness.state is State.STALE
    harness.revoke()

    harness.poll()
    harness.find_coordinator()

    assert [one.body.member_epoch for one in harness.requests] == [0]


def test_a_member_that_polls_too_late_while_it_reconciles_gives_up_all_it_was_given() -> None:
    harness = a_member(max_poll_interval=30.0).is_reconciling("a-0")
    late = harness.said(AssignPartitions)
    misses_its_poll(harness)
    assert harness.said(RevokePartitions).partitions == partitions("a-0")

    harness.tell(CallbackFinished(rebalance=late.rebalance, assigned=True))

    assert harness.state is State.STALE
    assert harness.traced("step.dropped")


def test_who_comes_back_while_that_goodbye_is_on_its_way_waits_for_its_end() -> None:
    """Sent again after the new beginning, it would end that: others get what we are given."""
    harness = a_member_in(State.STALE)
    goodbye = harness.beat()
    harness.leave(ticket=7)

    harness.wants_to_join("a")
    assert harness.state is State.UNSUBSCRIBED
    harness.fail(goodbye)
    again = harness.next_beat()
    assert row(again)[0] == -1
    harness.answer(again, heard(-1))

    assert harness.said(Answered).ticket == 7
    assert row(harness.beat())[0] == 0


@pytest.mark.parametrize("told", ["in flight", "answered"])
def test_a_late_static_member_that_is_to_leave_for_good_does(told: str) -> None:
    """It has told the group only that it will be back."""
    harness = a_static_member().is_stable()
    misses_its_poll(harness)
    goodbye = harness.beat()
    assert goodbye.body.member_epoch == -2
    if told == "answered":
        harness.answer(goodbye, heard(-2))

    harness.leave(ticket=7, operation=Operation.LEAVE_GROUP)

    last = harness.beat()
    assert last.body.member_epoch == -1
    assert not harness.has_said(Answered)
    harness.answer(last, heard(-1))
    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED


def test_a_static_member_that_has_left_for_good_need_not_leave_again() -> None:
    """It was awaited before (epoch -2), and is not any more."""
    harness = a_static_member().is_stable()
    misses_its_poll(harness)
    harness.answer(harness.beat(), heard(-2))
    harness.leave(ticket=7, operation=Operation.LEAVE_GROUP)
    harness.answer(harness.beat(), heard(-1))
    harness.forget()

    harness.leave(ticket=8, operation=Operation.LEAVE_GROUP)

    assert harness.said(Answered).ticket == 8
    assert not harness.has_beaten


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("operation", [Operation.DEFAULT, Operation.REMAIN_IN_GROUP])
def test_a_late_member_that_closes_otherwise_has_said_its_goodbye(
    static: bool, operation: Operation
) -> None:
    """There is nothing left for it to remain in."""
    harness = (a_static_member() if static else a_member()).is_stable()
    misses_its_poll(harness)
    harness.answer(harness.beat(), heard(-1))

    harness.leave(ticket=7, operation=operation)

    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED
    assert not harness.has_beaten


def test_the_poll_timer_does_not_run_for_a_member_that_is_out() -> None:
    harness = a_member_in(State.FENCED)
    waits = harness.wake_at

    harness.after(1_000.0)

    assert waits == float("inf")
    assert harness.state is State.FENCED
