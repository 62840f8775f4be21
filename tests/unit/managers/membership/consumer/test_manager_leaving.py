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
    scene = a_static_member() if static else a_member()
    scene.wants_to_join("a")
    if state is not State.JOINING:
        scene.is_told("a-0")
    if state is State.STABLE:
        scene.apply()
        scene.is_told()
    scene.forget()

    scene.leave(ticket=7, operation=operation)

    if epoch is None:
        assert not scene.has_beaten
    else:
        request = scene.beat()
        assert request.body.member_epoch == epoch
        assert request.body.instance_id == ("instance-1" if static else None)
        scene.answer(request, heard(epoch))
    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_the_last_heartbeat_does_not_wait_for_the_one_in_flight() -> None:
    """Scenario 54, KAFKA-16639."""
    scene = a_stable_member()
    in_flight = scene.next_beat()

    scene.leave()
    goodbye = scene.beat()
    scene.answer(in_flight, heard(2, "a-0"))

    assert goodbye.body.member_epoch == -1
    assert scene.state is State.LEAVING
    assert not scene.has_said(AssignPartitions)


def test_who_never_said_that_it_wants_to_join_need_not_say_goodbye() -> None:
    """There is no coordinator, and may never be: `close` does not wait for it."""
    scene = a_member()
    scene.subscribe("a")
    scene.poll()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_who_has_said_goodbye_and_not_joined_again_need_not_say_it_twice() -> None:
    scene = a_stable_member()
    scene.leave(ticket=1)
    scene.answer(scene.beat(), heard(-1))
    scene.tell(LOST)
    scene.subscribe("a")
    scene.poll()
    scene.forget()

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7


@pytest.mark.parametrize("known", ["asked", "late", "restarted"])
def test_whom_the_group_may_count_on_says_goodbye_though_no_answer_came(known: str) -> None:
    scene = a_member(incarnation=2 if known == "restarted" else 1)
    if known == "late":
        scene.is_stable()
        scene.tell(LOST)
        scene.after(300.0)
        assert scene.state is State.STALE
        scene.revoke()
        scene.poll()
    elif known == "asked":
        scene.wants_to_join("a")
        scene.tell(LOST)
        scene.forget()
    else:
        scene.subscribe("a")
        scene.poll()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)
    assert not scene.has_said(Answered)
    scene.find_coordinator()

    assert row(scene.beat())[0] == -1


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_who_was_restarted_and_has_not_asked_again_leaves_for_its_predecessor(
    instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    scene = a_member(incarnation=2, group_instance_id=instance)
    scene.find_coordinator()
    scene.subscribe("a")
    assert scene.state is State.UNSUBSCRIBED

    scene.leave(ticket=7)

    goodbye = scene.beat()
    assert row(goodbye)[0] == epoch
    assert not scene.has_said(Answered)
    scene.answer(goodbye, heard(epoch))
    assert scene.said(Answered).ticket == 7
    scene.leave(ticket=8)
    assert scene.said(Answered).ticket == 8


def test_the_failure_of_an_attempt_to_leave_that_was_given_up_does_not_count() -> None:
    """It would have the attempt in flight sent once more beside itself."""
    scene = a_stable_member()
    scene.leave(30.0)
    given_up = scene.beat()
    scene.find_coordinator(OTHER_COORDINATOR)
    in_flight = scene.beat()

    scene.fail(given_up)
    scene.after(2.0)

    assert not scene.requests
    scene.fail(in_flight)
    assert scene.next_beat().body.member_epoch == -1


@pytest.mark.parametrize("answer", [GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID])
def test_whom_the_coordinator_does_not_know_any_more_need_not_leave(answer: int) -> None:
    scene = a_stable_member()
    scene.is_refused(answer)
    scene.tell(LOST)
    scene.revoke()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7


def test_who_was_fenced_and_has_not_joined_again_leaves() -> None:
    """FENCED_MEMBER_EPOCH: the group has the member, with another epoch."""
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.tell(LOST)
    scene.revoke()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert not scene.has_said(Answered)
    scene.find_coordinator()
    assert scene.beat().body.member_epoch == -1


def test_a_heartbeat_of_goodbye_may_not_take_longer_than_there_is_time() -> None:
    scene = a_stable_member()

    scene.leave(0.5)

    assert scene.beat().deadline == scene.now + 0.5


def test_a_goodbye_that_no_broker_understands_is_given_up() -> None:
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.fail(scene.beat(), UnsupportedVersionError("none in common"))

    assert scene.said(Answered).ticket == 7
    assert not scene.has_said(GroupFailed)


def test_whom_the_group_did_not_take_in_has_left_at_once() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    scene.is_refused(GROUP_MAX_SIZE_REACHED)

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert not scene.has_beaten


def test_others_learn_at_once_that_we_are_no_member_any_more() -> None:
    scene = a_stable_member()

    scene.leave()

    changed = scene.said(MemberChanged)
    assert (changed.member_id, changed.generation) == ("", -1)
    assert changed.state is MemberState.UNJOINED


# -- polled too late


def test_a_static_member_that_polls_too_late_keeps_its_place() -> None:
    scene = a_static_member().is_stable()

    misses_its_poll(scene)

    assert scene.beat().body.member_epoch == -2


@pytest.mark.parametrize("has_left", [False, True])
def test_a_static_member_that_polls_too_late_may_leave_before_its_first_heartbeat(
    has_left: bool,
) -> None:
    scene = a_static_member()
    if has_left:
        scene.is_stable()
        scene.leave()
        scene.answer(scene.beat(), heard(-2))
        scene.tell(LOST)
    scene.subscribe("a")
    scene.poll()
    assert scene.state is State.JOINING
    scene.after(300.0)
    assert scene.state is State.STALE

    scene.find_coordinator()
    scene.answer(scene.beat(), heard(-2))

    assert scene.state is State.STALE
    assert not scene.has_beaten


def test_a_stale_member_does_not_join_while_its_goodbye_is_in_flight() -> None:
    """A goodbye that arrived after the new beginning would end it."""
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.revoke()
    scene.poll()
    assert not scene.has_beaten

    scene.answer(goodbye, heard(-1))

    assert scene.state is State.JOINING
    assert scene.beat().body.member_epoch == 0


def test_a_lost_goodbye_is_not_repeated_to_the_member_that_joins_again() -> None:
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.revoke()
    scene.poll()

    scene.fail(goodbye)
    scene.after(5.0)

    assert [one.body.member_epoch for one in scene.requests] == [0]


def test_a_goodbye_of_a_stale_member_is_tried_again_while_nobody_polls() -> None:
    scene = a_member_in(State.STALE)

    scene.fail(scene.beat())

    assert scene.next_beat().body.member_epoch == -1
    assert scene.state is State.STALE


def test_a_late_member_without_a_coordinator_joins_again_without_having_left() -> None:
    scene = a_stable_member()
    scene.tell(LOST)
    misses_its_poll(scene)
    assert scene.state is State.STALE
    scene.revoke()

    scene.poll()
    scene.find_coordinator()

    assert [one.body.member_epoch for one in scene.requests] == [0]


def test_a_member_that_polls_too_late_while_it_reconciles_gives_up_all_it_was_given() -> None:
    scene = a_member(max_poll_interval=30.0).is_reconciling("a-0")
    late = scene.said(AssignPartitions)
    misses_its_poll(scene)
    assert scene.said(RevokePartitions).partitions == partitions("a-0")

    scene.tell(CallbackFinished(rebalance=late.rebalance, assigned=True))

    assert scene.state is State.STALE
    assert scene.traced("step.dropped")


def test_who_comes_back_while_that_goodbye_is_on_its_way_waits_for_its_end() -> None:
    """Sent again after the new beginning, it would end that: others get what we are given."""
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.leave(ticket=7)

    scene.wants_to_join("a")
    assert scene.state is State.UNSUBSCRIBED
    scene.fail(goodbye)
    again = scene.next_beat()
    assert row(again)[0] == -1
    scene.answer(again, heard(-1))

    assert scene.said(Answered).ticket == 7
    assert row(scene.beat())[0] == 0


@pytest.mark.parametrize("told", ["in flight", "answered"])
def test_a_late_static_member_that_is_to_leave_for_good_does(told: str) -> None:
    """It has told the group only that it will be back."""
    scene = a_static_member().is_stable()
    misses_its_poll(scene)
    goodbye = scene.beat()
    assert goodbye.body.member_epoch == -2
    if told == "answered":
        scene.answer(goodbye, heard(-2))

    scene.leave(ticket=7, operation=Operation.LEAVE_GROUP)

    last = scene.beat()
    assert last.body.member_epoch == -1
    assert not scene.has_said(Answered)
    scene.answer(last, heard(-1))
    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_a_static_member_that_has_left_for_good_need_not_leave_again() -> None:
    """It was awaited before (epoch -2), and is not any more."""
    scene = a_static_member().is_stable()
    misses_its_poll(scene)
    scene.answer(scene.beat(), heard(-2))
    scene.leave(ticket=7, operation=Operation.LEAVE_GROUP)
    scene.answer(scene.beat(), heard(-1))
    scene.forget()

    scene.leave(ticket=8, operation=Operation.LEAVE_GROUP)

    assert scene.said(Answered).ticket == 8
    assert not scene.has_beaten


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("operation", [Operation.DEFAULT, Operation.REMAIN_IN_GROUP])
def test_a_late_member_that_closes_otherwise_has_said_its_goodbye(
    static: bool, operation: Operation
) -> None:
    """There is nothing left for it to remain in."""
    scene = (a_static_member() if static else a_member()).is_stable()
    misses_its_poll(scene)
    scene.answer(scene.beat(), heard(-1))

    scene.leave(ticket=7, operation=operation)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


def test_the_poll_timer_does_not_run_for_a_member_that_is_out() -> None:
    scene = a_member_in(State.FENCED)
    waits = scene.wake_at

    scene.after(1_000.0)

    assert waits == float("inf")
    assert scene.state is State.FENCED
