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
    ConsumerScene,
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
    scene = a_stable_member()
    scene.is_refused(code)
    assert scene.state is State.FENCED
    changed = scene.said(MemberChanged)
    assert (changed.generation, changed.member_id) == (-1, "")

    step = scene.revoke(a=7)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not scene.has_said(CommitBeforeRevocation)
    assert row(scene.beat())[0] == 0


@pytest.mark.parametrize(
    "state", [State.FENCED, State.FATAL, State.STALE], ids=lambda one: one.name
)
def test_partitions_stop_being_delivered_before_their_lost_callback_runs(state: State) -> None:
    """Scenario 69, KAFKA-20321."""
    scene = a_member_in(state)

    step = scene.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not scene.has_said(RunRevokedCallback)


def test_the_same_partitions_are_assigned_again_after_fencing() -> None:
    """Scenario 67."""
    scene = a_stable_member("a-0 a-1")
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.revoke()

    scene.is_told("a-0 a-1", epoch=5)

    assert scene.apply().added == partitions("a-0 a-1")
    assert row(scene.beat()) == (5, -1, None, None, partitions("a-0 a-1"))


def test_a_fenced_member_says_nothing_until_it_has_released_everything() -> None:
    """Scenario 70."""
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)

    for seconds in (0.1, 1.0, 10.0):
        scene.after(seconds)
        scene.poll()
        scene.tell(ConfirmSession())

    assert not scene.has_beaten


def test_a_fenced_member_that_owned_nothing_joins_again_at_once() -> None:
    scene = a_member().is_reconciling("")
    scene.apply()

    scene.answer(scene.beat(), refused(FENCED_MEMBER_EPOCH))

    assert scene.state is State.JOINING
    assert scene.has_beaten


def test_a_member_that_is_fenced_while_it_joins_does_not_ask_without_end() -> None:
    """A coordinator that always answers so would be asked as fast as it answers."""
    scene = a_member()
    scene.wants_to_join("a")
    scene.answer(scene.beat(), refused(FENCED_MEMBER_EPOCH))
    first = scene.now

    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.next_beat()

    assert scene.now - first >= 0.2


@pytest.mark.parametrize("code", NOT_THIS_MEMBER)
def test_who_is_fenced_while_leaving_has_left(code: int) -> None:
    """Scenario 68."""
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.answer(scene.beat(), refused(code))

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_member_that_the_group_does_not_know_leaves_without_telling_anybody(code: int) -> None:
    scene = a_stable_member()
    scene.is_refused(code)

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


@pytest.mark.parametrize("code", [FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION])
@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_was_refused_but_is_known_to_the_group_says_goodbye(
    code: int, instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    scene = a_stable_member(group_instance_id=instance)
    scene.is_refused(code)

    scene.leave(ticket=7)

    goodbye = scene.beat()
    assert row(goodbye)[0] == epoch
    assert not scene.has_said(Answered)
    scene.answer(goodbye, heard(epoch))
    assert scene.said(Answered).ticket == 7


# -- each error code of a heartbeat


@pytest.mark.parametrize(("code", "error", "remedy"), FATAL)
@pytest.mark.parametrize("state", [State.JOINING, State.STABLE], ids=lambda one: one.name)
def test_an_error_that_only_the_user_can_mend_is_told_and_nothing_more_is_sent(
    code: int, error: type[Exception], remedy: str, state: State
) -> None:
    """Scenario 130."""
    scene = a_member_in(state)
    scene.is_refused(code, "because I say so")
    assert scene.state is State.FATAL
    if state is State.STABLE:
        assert not scene.has_said(GroupFailed)
        assert scene.revoke().loss is Loss.LOST

    told = scene.said(GroupFailed).error
    scene.after(60.0)

    assert isinstance(told, error)
    for word in ("'g'", "broker 1 at kafka-1:9092", "because I say so", remedy):
        assert word in str(told)
    assert not scene.requests
    assert not scene.has_said(GroupFailed)


def test_who_polls_on_after_a_failure_hears_of_it_again_once_a_second() -> None:
    scene = a_member_in(State.FATAL)
    scene.revoke()
    first = scene.said(GroupFailed).error
    scene.forget()

    scene.poll()
    scene.after(0.9)
    assert not scene.has_said(GroupFailed)
    scene.after(0.1)
    assert scene.said(GroupFailed).error is first

    scene.forget()
    scene.after(60.0)
    assert not scene.has_said(GroupFailed)
    scene.poll()
    assert scene.said(GroupFailed).error is first

    scene.poll()
    scene.leave()
    scene.forget()
    scene.poll()
    scene.after(60.0)
    assert not scene.has_said(GroupFailed)
    assert not scene.requests


def test_a_group_that_does_not_take_the_member_in_is_the_users_concern() -> None:
    scene = a_member_in(State.JOINING)

    scene.is_refused(GROUP_ID_NOT_FOUND, "it is classic")

    told = scene.said(GroupFailed).error
    assert scene.state is State.FATAL
    assert isinstance(told, GroupIdNotFoundError)
    assert "group.consumer.migration.policy" in str(told)


def test_a_member_whose_group_is_gone_joins_a_new_one() -> None:
    """It slept through its session, alone: an empty group without offsets is soon deleted."""
    scene = a_stable_member()

    scene.is_refused(GROUP_ID_NOT_FOUND, "Consumer group g not found.")

    assert scene.state is State.FENCED
    assert scene.revoke().loss is Loss.LOST
    assert not scene.has_said(GroupFailed)
    assert row(scene.beat())[0] == 0


def a_member_whose_name_is_taken() -> ConsumerScene:
    """A static member that tries to free its name."""
    scene = a_static_member()
    scene.wants_to_join("a")
    scene.answer(scene.beat(), refused(UNRELEASED_INSTANCE_ID, "m has it"))
    return scene


@pytest.mark.parametrize("code", [0, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_static_member_whose_name_is_taken_by_itself_frees_it_and_joins(code: int) -> None:
    """The answer to its joining was lost: to the coordinator it is a second one of that name."""
    scene = a_member_whose_name_is_taken()
    request = scene.beat()
    assert (request.body.member_epoch, request.body.instance_id) == (-2, "instance-1")
    assert request.body.member_id == "m"

    scene.answer(request, refused(code))

    assert scene.state is State.JOINING
    assert row(scene.beat()) == (0, 300_000, ["a"], "", frozenset())
    assert not scene.has_said(GroupFailed)


def test_a_static_member_whose_name_is_taken_by_another_is_told_so() -> None:
    """Scenarios 64 and 130: the newcomer is refused."""
    scene = a_member_whose_name_is_taken()

    scene.answer(scene.beat(), refused(FENCED_INSTANCE_ID, "it is another's"))

    error = scene.said(GroupFailed).error
    assert isinstance(error, UnreleasedInstanceIdError)
    for word in ("m has it", "'g'", "close that one first"):
        assert word in str(error)
    assert scene.state is State.FATAL


@pytest.mark.parametrize("failure", ["loading", "disconnect", "coordinator lost"])
def test_freeing_the_name_is_tried_again(failure: str) -> None:
    scene = a_member_whose_name_is_taken()
    request = scene.beat()

    if failure == "loading":
        scene.answer(request, refused(COORDINATOR_LOADING))
    elif failure == "disconnect":
        scene.fail(request)
    else:
        scene.tell(LOST)
        scene.find_coordinator()

    assert scene.next_beat().body.member_epoch == -2


def test_a_member_that_has_joined_cannot_lose_its_name_to_itself() -> None:
    scene = a_static_member().is_stable()

    scene.is_refused(UNRELEASED_INSTANCE_ID)

    assert scene.state is State.FATAL


def test_who_leaves_while_its_name_is_taken_joins_later_as_usual() -> None:
    scene = a_member_whose_name_is_taken()
    scene.leave()
    scene.requests.clear()
    scene.after(10.0)

    scene.subscribe("a")
    scene.poll()

    assert scene.beat().body.member_epoch == 0


def test_a_coordinator_that_loads_is_asked_again_after_a_growing_backoff() -> None:
    """Scenario 130."""
    scene = a_stable_member()
    times = []
    for _ in range(4):
        scene.is_refused(COORDINATOR_LOADING)
        times.append(scene.now)
    scene.next_beat()
    times.append(scene.now)

    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert scene.state is State.STABLE


def test_a_forbidden_topic_is_told_once_and_the_member_stays_until_it_is_allowed() -> None:
    """Scenario 130."""
    scene = a_stable_member()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(scene.said(GroupFailed).error, TopicAuthorizationFailedError)
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert not scene.has_said(GroupFailed)
    assert not scene.has_said(RevokePartitions)

    scene.is_told()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert scene.has_said(GroupFailed)
    assert scene.state is State.STABLE


def test_a_forbidden_topic_is_told_again_to_who_subscribes_again() -> None:
    scene = a_stable_member()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    scene.forget()

    scene.subscribe("b")
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert scene.has_said(GroupFailed)


def test_a_group_that_was_never_made_has_been_left() -> None:
    """Scenario 130: GROUP_ID_NOT_FOUND is no failure of a leave."""
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.answer(scene.beat(), refused(GROUP_ID_NOT_FOUND))

    assert scene.said(Answered).ticket == 7
    assert not scene.has_said(GroupFailed)


def test_bad_credentials_are_no_reason_to_suspect_the_coordinator() -> None:
    scene = a_stable_member()
    error = AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no")

    scene.fail(scene.next_beat(), error)

    assert not scene.has_said(SuspectCoordinator)
    assert scene.state is State.STABLE


def test_the_application_hears_of_a_failure_before_its_leave_is_answered() -> None:
    """Scenario 131."""
    scene = a_stable_member()
    scene.is_refused(GROUP_MAX_SIZE_REACHED)
    scene.revoke()
    scene.leave(ticket=7)
    scene.answer(scene.beat(), refused(GROUP_MAX_SIZE_REACHED))

    kinds = [type(one) for one in scene.messages]
    assert kinds.index(GroupFailed) < kinds.index(Answered)


def test_who_subscribes_again_after_a_failure_is_told_the_reason_again() -> None:
    scene = a_member_in(State.FATAL)
    scene.revoke()
    scene.forget()

    scene.subscribe("a")
    scene.poll()

    assert isinstance(scene.said(GroupFailed).error, GroupAuthorizationFailedError)
    assert scene.state is State.FATAL


def test_that_no_coordinator_may_be_asked_for_is_told_and_the_member_stays_what_it_is() -> None:
    scene = a_member_in(State.STABLE)
    scene.tell(LOST)
    error = GroupAuthorizationFailedError("no")

    scene.tell(CoordinatorRefused(error=error))

    assert scene.said(GroupFailed).error is error
    assert scene.state is State.STABLE
    scene.find_coordinator()
    assert scene.beat()
