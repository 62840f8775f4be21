"""The consumer protocol's membership manager: thrown out, and each error code of a heartbeat."""

from __future__ import annotations

import itertools

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    TopicAuthorizationFailedError,
    UnreleasedInstanceIdError,
)

from aktor.errors import AuthenticationError
from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation
from aktor.events.coordinator import CoordinatorRefused, SuspectCoordinator
from aktor.events.membership import (
    ConfirmSession,
    GroupFailed,
    Loss,
    MemberChanged,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.events.present import MemberNow
from aktor.managers.membership.consumer.states import State
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID,
    partitions,
)
from tests.unit.managers.membership.consumer.builders import (
    FATAL,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    INVALID_REGULAR_EXPRESSION,
    LOST,
    TOPIC_AUTHORIZATION_FAILED,
    UNRELEASED_INSTANCE_ID,
    ConsumerHarness,
    a_member,
    a_member_in,
    a_stable_member,
    a_static_member,
    heard,
    refused,
    row,
)

NOT_THIS_MEMBER = [FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID]


# -- thrown out


@pytest.mark.parametrize("code", NOT_THIS_MEMBER)
def test_a_fenced_member_releases_everything_and_joins_again_without_a_poll(code: int) -> None:
    """Scenario 66."""
    harness = a_stable_member()
    harness.is_refused(code)
    assert harness.state is State.FENCED
    changed = harness.said(MemberChanged)
    assert (changed.generation, changed.member_id) == (-1, "")

    step = harness.revoke(a=7)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not harness.has_said(CommitBeforeRevocation)
    assert row(harness.beat())[0] == 0


@pytest.mark.parametrize(
    "state", [State.FENCED, State.FATAL, State.STALE], ids=lambda one: one.name
)
def test_partitions_stop_being_delivered_before_their_lost_callback_runs(state: State) -> None:
    """Scenario 69, KAFKA-20321."""
    harness = a_member_in(state)

    step = harness.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not harness.has_said(RunRevokedCallback)


def test_the_same_partitions_are_assigned_again_after_fencing() -> None:
    """Scenario 67."""
    harness = a_stable_member("a-0 a-1")
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.revoke()

    harness.is_told("a-0 a-1", epoch=5)

    assert harness.apply().added == partitions("a-0 a-1")
    assert row(harness.beat()) == (5, -1, None, None, partitions("a-0 a-1"))


def test_a_fenced_member_says_nothing_until_it_has_released_everything() -> None:
    """Scenario 70."""
    harness = a_stable_member()
    harness.is_refused(FENCED_MEMBER_EPOCH)

    for seconds in (0.1, 1.0, 10.0):
        harness.after(seconds)
        harness.poll()
        harness.tell(ConfirmSession())

    assert not harness.has_beaten


def test_a_fenced_member_that_owned_nothing_joins_again_at_once() -> None:
    harness = a_member().is_reconciling("")
    harness.apply()

    harness.answer(harness.beat(), refused(FENCED_MEMBER_EPOCH))

    assert harness.state is State.JOINING
    assert harness.has_beaten


def test_a_member_that_is_fenced_while_it_joins_does_not_ask_without_end() -> None:
    """A coordinator that always answers so would be asked as fast as it answers."""
    harness = a_member()
    harness.wants_to_join("a")
    harness.answer(harness.beat(), refused(FENCED_MEMBER_EPOCH))
    first = harness.now

    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.next_beat()

    assert harness.now - first >= 0.2


@pytest.mark.parametrize("code", NOT_THIS_MEMBER)
def test_who_is_fenced_while_leaving_has_left(code: int) -> None:
    """Scenario 68."""
    harness = a_stable_member()
    harness.leave(ticket=7)

    harness.answer(harness.beat(), refused(code))

    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED
    assert not harness.has_beaten


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_member_that_the_group_does_not_know_leaves_without_telling_anybody(code: int) -> None:
    harness = a_stable_member()
    harness.is_refused(code)

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED
    assert not harness.has_beaten


@pytest.mark.parametrize("code", [FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION])
@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_was_refused_but_is_known_to_the_group_says_goodbye(
    code: int, instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    harness = a_stable_member(group_instance_id=instance)
    harness.is_refused(code)

    harness.leave(ticket=7)

    goodbye = harness.beat()
    assert row(goodbye)[0] == epoch
    assert not harness.has_said(Answered)
    harness.answer(goodbye, heard(epoch))
    assert harness.said(Answered).ticket == 7


# -- each error code of a heartbeat


@pytest.mark.parametrize(("code", "error", "remedy"), FATAL)
@pytest.mark.parametrize("state", [State.JOINING, State.STABLE], ids=lambda one: one.name)
def test_an_error_that_only_the_user_can_mend_is_told_and_nothing_more_is_sent(
    code: int, error: type[Exception], remedy: str, state: State
) -> None:
    """Scenario 130."""
    harness = a_member_in(state)
    harness.is_refused(code, "because I say so")
    assert harness.state is State.FATAL
    if state is State.STABLE:
        assert not harness.has_said(GroupFailed)
        assert harness.revoke().loss is Loss.LOST

    told = harness.said(GroupFailed).error
    harness.after(60.0)

    assert isinstance(told, error)
    for word in ("'g'", "broker 1 at kafka-1:9092", "because I say so", remedy):
        assert word in str(told)
    assert not harness.requests
    assert not harness.has_said(GroupFailed)


def test_a_refusal_for_good_is_shown_from_the_first_one_on_with_its_reason() -> None:
    harness = a_member_in(State.JOINING)
    harness.is_refused(GROUP_MAX_SIZE_REACHED)
    refused_at = harness.now
    harness.after(60.0)

    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, MemberNow)
    assert shown.refusal.startswith("GROUP_MAX_SIZE_REACHED: the coordinator, broker 1")
    assert (shown.refusal_since, shown.for_good, shown.refused) == (refused_at, True, True)


def test_who_polls_on_after_a_failure_hears_of_it_again_once_a_second() -> None:
    harness = a_member_in(State.FATAL)
    harness.revoke()
    first = harness.said(GroupFailed).error
    harness.forget()

    harness.poll()
    harness.after(0.9)
    assert not harness.has_said(GroupFailed)
    harness.after(0.1)
    assert harness.said(GroupFailed).error is first

    harness.forget()
    harness.after(60.0)
    assert not harness.has_said(GroupFailed)
    harness.poll()
    assert harness.said(GroupFailed).error is first

    harness.poll()
    harness.leave()
    harness.forget()
    harness.poll()
    harness.after(60.0)
    assert not harness.has_said(GroupFailed)
    assert not harness.requests


def test_a_group_that_does_not_take_the_member_in_is_the_users_concern() -> None:
    harness = a_member_in(State.JOINING)

    harness.is_refused(GROUP_ID_NOT_FOUND, "it is classic")

    told = harness.said(GroupFailed).error
    assert harness.state is State.FATAL
    assert isinstance(told, GroupIdNotFoundError)
    assert "group.consumer.migration.policy" in str(told)


def test_a_member_whose_group_is_gone_joins_a_new_one() -> None:
    """It slept through its session, alone: an empty group without offsets is soon deleted."""
    harness = a_stable_member()

    harness.is_refused(GROUP_ID_NOT_FOUND, "Consumer group g not found.")

    assert harness.state is State.FENCED
    assert harness.revoke().loss is Loss.LOST
    assert not harness.has_said(GroupFailed)
    assert row(harness.beat())[0] == 0


def a_member_whose_name_is_taken() -> ConsumerHarness:
    """A static member that tries to free its name."""
    harness = a_static_member()
    harness.wants_to_join("a")
    harness.answer(harness.beat(), refused(UNRELEASED_INSTANCE_ID, "m has it"))
    return harness


@pytest.mark.parametrize("code", [0, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_static_member_whose_name_is_taken_by_itself_frees_it_and_joins(code: int) -> None:
    """The answer to its joining was lost: to the coordinator it is a second one of that name."""
    harness = a_member_whose_name_is_taken()
    request = harness.beat()
    assert (request.body.member_epoch, request.body.instance_id) == (-2, "instance-1")
    assert request.body.member_id == "m"

    harness.answer(request, refused(code))

    assert harness.state is State.JOINING
    assert row(harness.beat()) == (0, 300_000, ["a"], "", frozenset())
    assert not harness.has_said(GroupFailed)


def test_a_static_member_whose_name_is_taken_by_another_is_told_so() -> None:
    """Scenarios 64 and 130: the newcomer is refused."""
    harness = a_member_whose_name_is_taken()

    harness.answer(harness.beat(), refused(FENCED_INSTANCE_ID, "it is another's"))

    error = harness.said(GroupFailed).error
    assert isinstance(error, UnreleasedInstanceIdError)
    for word in ("m has it", "'g'", "close that one first"):
        assert word in str(error)
    assert harness.state is State.FATAL


@pytest.mark.parametrize("failure", ["loading", "disconnect", "coordinator lost"])
def test_freeing_the_name_is_tried_again(failure: str) -> None:
    harness = a_member_whose_name_is_taken()
    request = harness.beat()

    if failure == "loading":
        harness.answer(request, refused(COORDINATOR_LOADING))
    elif failure == "disconnect":
        harness.fail(request)
    else:
        harness.tell(LOST)
        harness.find_coordinator()

    assert harness.next_beat().body.member_epoch == -2


def test_a_member_that_has_joined_cannot_lose_its_name_to_itself() -> None:
    harness = a_static_member().is_stable()

    harness.is_refused(UNRELEASED_INSTANCE_ID)

    assert harness.state is State.FATAL


def test_who_leaves_while_its_name_is_taken_joins_later_as_usual() -> None:
    harness = a_member_whose_name_is_taken()
    harness.leave()
    harness.requests.clear()
    harness.after(10.0)

    harness.subscribe("a")
    harness.poll()

    assert harness.beat().body.member_epoch == 0


def test_a_coordinator_that_loads_is_asked_again_after_a_growing_backoff() -> None:
    """Scenario 130."""
    harness = a_stable_member()
    times = []
    for _ in range(4):
        harness.is_refused(COORDINATOR_LOADING)
        times.append(harness.now)
    harness.next_beat()
    times.append(harness.now)

    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert harness.state is State.STABLE


def test_a_forbidden_topic_is_told_once_and_the_member_stays_until_it_is_allowed() -> None:
    """Scenario 130."""
    harness = a_stable_member()
    harness.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(harness.said(GroupFailed).error, TopicAuthorizationFailedError)
    harness.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert not harness.has_said(GroupFailed)
    assert not harness.has_said(RevokePartitions)

    harness.is_told()
    harness.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert harness.has_said(GroupFailed)
    assert harness.state is State.STABLE


def test_a_forbidden_topic_is_told_again_to_who_subscribes_again() -> None:
    harness = a_stable_member()
    harness.is_refused(TOPIC_AUTHORIZATION_FAILED)
    harness.forget()

    harness.subscribe("b")
    harness.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert harness.has_said(GroupFailed)


def test_a_group_that_was_never_made_has_been_left() -> None:
    """Scenario 130: GROUP_ID_NOT_FOUND is no failure of a leave."""
    harness = a_stable_member()
    harness.leave(ticket=7)

    harness.answer(harness.beat(), refused(GROUP_ID_NOT_FOUND))

    assert harness.said(Answered).ticket == 7
    assert not harness.has_said(GroupFailed)


def test_bad_credentials_are_no_reason_to_suspect_the_coordinator() -> None:
    harness = a_stable_member()
    error = AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no")

    harness.fail(harness.next_beat(), error)

    assert not harness.has_said(SuspectCoordinator)
    assert harness.state is State.STABLE


def test_the_application_hears_of_a_failure_before_its_leave_is_answered() -> None:
    """Scenario 131."""
    harness = a_stable_member()
    harness.is_refused(GROUP_MAX_SIZE_REACHED)
    harness.revoke()
    harness.leave(ticket=7)
    harness.answer(harness.beat(), refused(GROUP_MAX_SIZE_REACHED))

    kinds = [type(one) for one in harness.messages]
    assert kinds.index(GroupFailed) < kinds.index(Answered)


def test_who_subscribes_again_after_a_failure_is_told_the_reason_again() -> None:
    harness = a_member_in(State.FATAL)
    harness.revoke()
    harness.forget()

    harness.subscribe("a")
    harness.poll()

    assert isinstance(harness.said(GroupFailed).error, GroupAuthorizationFailedError)
    assert harness.state is State.FATAL


def test_that_no_coordinator_may_be_asked_for_is_told_and_the_member_stays_what_it_is() -> None:
    harness = a_member_in(State.STABLE)
    harness.tell(LOST)
    error = GroupAuthorizationFailedError("no")

    harness.tell(CoordinatorRefused(error=error))

    assert harness.said(GroupFailed).error is error
    assert harness.state is State.STABLE
    harness.find_coordinator()
    assert harness.beat()
