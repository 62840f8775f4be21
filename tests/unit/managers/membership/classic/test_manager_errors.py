"""The classic membership manager: errors of JoinGroup and SyncGroup."""

from __future__ import annotations

import pytest
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    UnknownError,
    UnsupportedVersionError,
)
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from aktor.errors import AuthenticationError
from aktor.events.coordinator import CoordinatorLost, SuspectCoordinator
from aktor.events.membership import GroupFailed, Loss
from aktor.events.metadata import Broker
from aktor.managers.membership.classic.states import State
from aktor.trace.rebalances.causes import Cause, cause_of
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    a_member,
    a_stable_cooperative_member,
    a_static_member,
    join_refused,
    joined,
    sync_refused,
)
from tests.unit.managers.membership.classic.builders import a_leave


@pytest.mark.parametrize("code", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE])
def test_a_join_sent_to_the_wrong_broker_is_suspicious_and_no_error_for_the_user(code: int) -> None:
    harness = a_member().wants_to_join()

    harness.answer(harness.sent(JoinGroupRequest), join_refused(code))

    assert harness.said(SuspectCoordinator).node_id == 1
    assert not harness.has_said(GroupFailed)
    assert not harness.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("code", [COORDINATOR_LOADING, REBALANCE_IN_PROGRESS, NOT_COORDINATOR])
def test_a_join_refused_for_now_is_repeated_after_the_backoff_and_not_before(code: int) -> None:
    harness = a_member().wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(code))

    harness.after(0.09)
    assert not harness.has_sent(JoinGroupRequest)
    harness.after(0.01)

    assert harness.has_sent(JoinGroupRequest)


def test_a_member_id_unknown_to_the_coordinator_is_forgotten_and_the_join_repeated() -> None:
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe("a", member_id="old")
    harness.poll()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(UNKNOWN_MEMBER_ID))

    harness.after(0.2)

    assert harness.sent(JoinGroupRequest).body.member_id == ""


def test_a_restarted_manager_keeps_its_member_id_if_the_application_subscribes_again() -> None:
    """Else the member would be in the group until its session ends, and nobody would know it."""
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe("a", member_id="old")
    harness.subscribe("a", "b")
    harness.poll()

    assert harness.sent(JoinGroupRequest).body.member_id == "old"


def test_a_sync_that_meets_another_rebalance_joins_again_at_once() -> None:
    harness = a_member().is_syncing()

    harness.answer(harness.sent(SyncGroupRequest), sync_refused(REBALANCE_IN_PROGRESS))

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_a_sync_of_an_illegal_generation_joins_again_with_the_same_member_id() -> None:
    harness = a_member().is_syncing()
    harness.answer(harness.sent(SyncGroupRequest), sync_refused(ILLEGAL_GENERATION))

    harness.after(0.2)

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_a_rebalance_that_sync_begins_anew_names_its_cause() -> None:
    moved = a_member().is_syncing()
    moved.tell(CoordinatorLost(because="NOT_COORDINATOR"))
    moved.find_coordinator()
    refused = a_member().is_syncing()
    refused.answer(refused.sent(SyncGroupRequest), sync_refused(COORDINATOR_LOADING))
    elsewhere = a_member().is_syncing()
    elsewhere.answer(elsewhere.sent(SyncGroupRequest), sync_refused(NOT_COORDINATOR))

    causes = [
        cause_of(harness.traced("rebalance.triggered")[-1]["because"])
        for harness in (moved, refused, elsewhere)
    ]

    assert causes == [Cause.COORDINATOR_MOVED, Cause.SYNC_FAILED, Cause.COORDINATOR_MOVED]


def test_a_sync_that_breaks_joins_again_after_the_backoff() -> None:
    harness = a_member().is_syncing()
    harness.fail(harness.sent(SyncGroupRequest))
    assert harness.said(SuspectCoordinator).node_id == 1
    assert not harness.has_sent(JoinGroupRequest)

    harness.after(0.1)

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_a_coordinator_lost_while_the_member_joins_is_asked_again_when_it_is_found() -> None:
    """Scenario 136."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    request = harness.sent(JoinGroupRequest)
    harness.tell(CoordinatorLost(because="disconnected"))
    harness.fail(request)
    assert not harness.has_sent(JoinGroupRequest)

    harness.find_coordinator(Broker(node_id=2, host="kafka-2", port=9092))

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_a_late_answer_of_a_join_that_was_given_up_is_dropped() -> None:
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    old = harness.sent(JoinGroupRequest)
    harness.tell(CoordinatorLost(because="disconnected"))
    harness.find_coordinator()
    assert harness.has_sent(JoinGroupRequest)

    harness.answer(old, joined(generation=9))

    assert harness.manager.state is State.JOINING
    assert harness.traced("answer.dropped")
    assert not harness.has_sent(LeaveGroupRequest)


def test_a_late_first_join_that_made_a_member_nobody_wants_is_taken_back() -> None:
    harness = a_member().wants_to_join()
    old = harness.sent(JoinGroupRequest)
    harness.tell(CoordinatorLost(because="disconnected"))
    harness.find_coordinator()

    harness.answer(old, join_refused(MEMBER_ID_REQUIRED, "ghost"))

    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "ghost"


def test_a_coordinator_lost_while_the_member_syncs_is_joined_again_when_found() -> None:
    harness = a_member().is_syncing()
    harness.sent(SyncGroupRequest)
    harness.tell(CoordinatorLost(because="disconnected"))
    assert harness.manager.state is State.JOINING

    harness.find_coordinator()

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


FATAL = [
    (GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, "grant"),
    (INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocolError, "group_protocol to 'consumer'"),
    (INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocolError, "partition_assignment_strategy"),
    (INVALID_SESSION_TIMEOUT, InvalidSessionTimeoutError, "session_timeout_ms"),
    (INVALID_GROUP_ID, InvalidGroupIdError, "group_id"),
    (GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError, "group.max.size"),
    (FENCED_INSTANCE_ID, FencedInstanceIdError, "group_instance_id"),
    (-1, UnknownError, "broker's log"),
]


@pytest.mark.parametrize(("code", "kind", "remedy"), FATAL, ids=lambda one: str(one))
def test_a_join_refused_for_good_is_told_with_the_group_the_broker_the_member_and_the_remedy(
    code: int, kind: type, remedy: str
) -> None:
    """Scenarios 129 and 130."""
    harness = a_member().wants_to_join()

    harness.answer(harness.sent(JoinGroupRequest), join_refused(code))

    error = harness.said(GroupFailed).error
    assert type(error) is kind
    assert "'g'" in str(error)
    assert "broker 1 at kafka-1:9092" in str(error)
    assert "not joined yet" in str(error)
    assert remedy in str(error)


def test_after_a_fatal_error_the_group_is_tried_again_when_the_user_polls_again() -> None:
    harness = a_member().wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(GROUP_AUTHORIZATION_FAILED))
    harness.after(60)
    assert not harness.has_sent(JoinGroupRequest)

    harness.poll()

    assert harness.has_sent(JoinGroupRequest)


def test_after_a_fatal_error_the_group_is_tried_no_faster_than_once_a_second() -> None:
    harness = a_member().wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(GROUP_AUTHORIZATION_FAILED))
    harness.poll()

    harness.after(0.9)
    assert not harness.has_sent(JoinGroupRequest)
    harness.after(0.1)

    assert harness.has_sent(JoinGroupRequest)


def test_what_was_owned_is_lost_before_a_fatal_error_is_told() -> None:
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.answer(harness.sent(JoinGroupRequest), join_refused(INCONSISTENT_GROUP_PROTOCOL))
    assert not harness.has_said(GroupFailed)

    assert harness.revoke().loss is Loss.LOST

    assert harness.has_said(GroupFailed)


def test_who_leaves_before_a_fatal_error_is_told_is_not_told_it_as_a_later_member() -> None:
    harness = a_member().is_stable("a-0")
    harness.beats(GROUP_AUTHORIZATION_FAILED)
    harness.tell(a_leave(harness.now + 5))
    harness.now += 60.0
    harness.is_stable("a-0")

    harness.beats(UNKNOWN_MEMBER_ID)
    harness.revoke()

    assert not harness.has_said(GroupFailed)


def test_a_broker_that_is_too_old_fails_the_group() -> None:
    harness = a_static_member().wants_to_join()
    request = harness.sent(JoinGroupRequest)
    assert request.body.group_instance_id == "instance-1"

    harness.fail(request, UnsupportedVersionError("JoinGroup v5"))

    assert "too old" in str(harness.said(GroupFailed).error)


def test_refused_credentials_are_retried_with_backoff_and_say_nothing_of_the_coordinator() -> None:
    """KAFKA-20253: no spin, and the member joins again when the credentials are good."""
    harness = a_member().wants_to_join()
    error = AuthenticationError(broker="kafka-1:9092", mechanism="PLAIN", reason="expired")

    harness.fail(harness.sent(JoinGroupRequest), error)
    assert not harness.has_said(SuspectCoordinator)
    harness.after(0.1)

    assert harness.has_sent(JoinGroupRequest)
