"""The commit manager: errors of OffsetCommit."""

from __future__ import annotations

import math

import pytest
from kafka.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

from aktor.events.answers import Answered, Failed
from aktor.events.commits import CommitOffsets
from aktor.events.coordinator import SuspectCoordinator
from aktor.events.membership import ConfirmSession, MemberState
from aktor.events.metadata import Cluster, ClusterChanged
from tests.unit.managers.commits.builders import (
    BAD_CREDENTIALS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    LOAD_IN_PROGRESS,
    LOST,
    METADATA_TOO_LARGE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    T0,
    T1,
    TOPIC_AUTHORIZATION_FAILED,
    U0,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC,
    Turn,
    answer,
    asked_to_commit,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    fail,
    found,
    member,
    succeed,
    tick,
)


@pytest.mark.parametrize("code", [LOAD_IN_PROGRESS, UNKNOWN_TOPIC])
def test_a_refused_commit_is_retried_after_the_backoff_and_not_before(code: int) -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    assert answer(manager, request, committed(request, code), now=1.0) == []

    assert tick(manager, 1.0).wake_at == pytest.approx(1.1)
    assert tick(manager, 1.09).requests == ()
    assert succeed(manager, tick(manager, 1.11)) == [Answered(ticket=1)]


@pytest.mark.parametrize("code", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT])
def test_a_broker_that_is_not_the_coordinator_is_suspected_and_the_next_one_asked(
    code: int,
) -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    (suspect,) = answer(manager, request, committed(request, code))
    held_back = tick(manager, 1.0)
    manager.handle(found(2))

    assert isinstance(suspect, SuspectCoordinator)
    assert suspect.node_id == 1
    assert held_back.requests == ()
    assert succeed(manager, tick(manager, 1.0)) == [Answered(ticket=1)]


@pytest.mark.parametrize("error", [KafkaConnectionError("reset"), KafkaTimeoutError("silent")])
def test_a_silent_coordinator_is_suspected_and_the_commit_retried(error: Exception) -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    (suspect,) = fail(manager, request, error, now=5.0)
    manager.handle(found(2))

    assert isinstance(suspect, SuspectCoordinator)
    assert succeed(manager, tick(manager, 6.0)) == [Answered(ticket=1)]


def test_an_old_coordinators_error_does_not_hurt_the_new_one() -> None:
    manager = committing(T0, node=1)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(LOST)
    manager.handle(found(2))

    said = answer(manager, request, committed(request, NOT_COORDINATOR))

    assert said == []
    assert len(tick(manager, 1.0).requests) == 1


def test_one_attempt_is_shorter_than_the_callers_patience_so_that_there_is_time_to_retry() -> None:
    manager = committing(T0, request_timeout=30.0)
    manager.handle(commit({T0: 10}, deadline=60.0))

    assert tick(manager, 2.0).request.deadline == pytest.approx(12.0)


def test_a_short_deadline_does_not_shorten_the_request() -> None:
    """A request that times out costs the whole group connection."""
    manager = committing(T0)
    manager.handle(commit({T0: 10}, deadline=0.01))

    assert tick(manager, 0.0).request.deadline == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (UNKNOWN_MEMBER_ID, CommitFailedError, ("'g'", "'m'", "5", "t-0")),
        (ILLEGAL_GENERATION, CommitFailedError, ("'g'", "'m'", "5", "t-0")),
        (REBALANCE_IN_PROGRESS, CommitFailedError, ("'g'", "5", "t-0")),
        (FENCED_INSTANCE_ID, FencedInstanceIdError, ("'g'", "group_instance_id")),
        (
            GROUP_AUTHORIZATION_FAILED,
            GroupAuthorizationFailedError,
            ("'g'", "ACL", "broker 1 at b1:9092"),
        ),
        (METADATA_TOO_LARGE, OffsetMetadataTooLargeError, ("t-0", "metadata")),
    ],
)
@pytest.mark.parametrize("wish", [commit({T0: 10}), commit_async({T0: 10})])
def test_what_no_retry_mends_ends_the_commit_in_words(
    wish: CommitOffsets, code: int, kind: type[Exception], words: tuple[str, ...]
) -> None:
    manager = committing(T0)
    manager.handle(wish)
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, code)))

    assert type(error) is kind
    assert all(word in str(error) for word in words)
    assert tick(manager, 1.0).requests == ()


def test_a_refusal_names_the_member_that_the_commit_was_sent_for() -> None:
    """The member may have heard meanwhile, by a heartbeat, that it is none: it has no id then."""
    manager = committing(T0, generation=5)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(member(-1))

    error = error_of(answer(manager, request, committed(request, UNKNOWN_MEMBER_ID)))

    assert "does not know member 'm' of group 'g' in generation 5 (any more)" in str(error)


def test_who_commits_without_being_a_member_is_told_that_the_group_has_members() -> None:
    """No member id was sent that the coordinator could know."""
    manager = committing(T0, generation=None)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, UNKNOWN_MEMBER_ID)))

    assert isinstance(error, CommitFailedError)
    assert "takes commits to group 'g' from its members only" in str(error)
    assert "Give it a group_id that no group uses." in str(error)


def test_while_the_member_rejoins_a_refused_asynchronous_commit_says_that_polling_helps() -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(member(5, MemberState.REBALANCING))

    error = error_of(answer(manager, request, committed(request, ILLEGAL_GENERATION)))

    assert isinstance(error, RebalanceInProgressError)
    assert "poll()" in str(error)


@pytest.mark.parametrize("code", [ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS])
def test_a_commit_that_is_refused_while_its_member_rejoins_waits_for_the_new_generation(
    code: int,
) -> None:
    """Its refusal may be here before the news of the generation that it was too late for."""
    manager = committing(T0, generation=5)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(member(5, MemberState.REBALANCING))

    assert answer(manager, request, committed(request, code)) == [ConfirmSession()]
    manager.handle(member(6, MemberState.REBALANCING))

    assert tick(manager, 1.0).request.body.generation_id_or_member_epoch == 6


@pytest.mark.parametrize("code", [ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS])
def test_a_commit_in_the_revoked_callback_does_not_wait_for_the_generation_that_waits_for_it(
    code: int,
) -> None:
    """A cooperative leader whose SyncGroup was lost begins anew with a smaller subscription."""
    manager = committing(T0, generation=5)
    manager.handle(member(5, MemberState.REBALANCING, is_revoking=True))
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, code)))

    assert isinstance(error, RebalanceInProgressError)
    assert tick(manager, 1.0).requests == ()


def test_a_commit_that_waits_for_a_generation_that_never_comes_ends_at_its_deadline() -> None:
    manager = committing(T0, generation=5)
    manager.handle(commit({T0: 10}, deadline=3.0))
    manager.handle(member(5, MemberState.REBALANCING))
    now = 0.0
    while (turn := tick(manager, now)).requests:
        answer(manager, turn.request, committed(turn.request, REBALANCE_IN_PROGRESS), now=now)
        now += 1.5

    error = error_of(turn.said)
    assert isinstance(error, KafkaTimeoutError)
    assert "rebalanc" in str(error).lower()


def test_a_commit_follows_its_member_into_the_next_generation() -> None:
    manager = committing(T0, generation=5)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(member(6))

    assert answer(manager, request, committed(request, ILLEGAL_GENERATION)) == [ConfirmSession()]

    assert tick(manager, 1.0).request.body.generation_id_or_member_epoch == 6


@pytest.mark.parametrize("code", [ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS])
def test_a_commit_of_what_was_given_away_before_does_not_follow_its_member(code: int) -> None:
    """By the next generation another member may have committed more of it."""
    manager = committing(T1, generation=5)
    manager.handle(member(5, MemberState.REBALANCING))
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, code)))

    assert isinstance(error, RebalanceInProgressError)
    manager.handle(member(6))
    assert tick(manager, 1.0).requests == ()


def test_forbidden_topics_are_named_and_the_others_are_stored() -> None:
    manager = committing(T0, T1, U0, generation=5)
    manager.handle(commit({T0: 10, T1: 11, U0: 12}))
    request = tick(manager, 0.0).request

    codes = {T0: TOPIC_AUTHORIZATION_FAILED, T1: TOPIC_AUTHORIZATION_FAILED}
    error = error_of(answer(manager, request, committed(request, codes)))

    assert isinstance(error, TopicAuthorizationFailedError)
    assert error.args[0] == {"t"}


def test_a_commit_for_a_topic_that_was_deleted_gives_up_once_the_brokers_say_so() -> None:
    manager = committing(T0, U0)
    manager.handle(commit({T0: 10, U0: 12}))
    request = tick(manager, 0.0).request
    unknown = committed(request, {U0: UNKNOWN_TOPIC})

    said = answer(manager, request, unknown)
    gone = ClusterChanged(cluster=Cluster(unknown=frozenset({U0.topic})))
    manager.handle(gone)
    again = tick(manager, 1.0).request
    error = error_of(answer(manager, again, committed(again, {U0: UNKNOWN_TOPIC})))

    assert said == []
    assert asked_to_commit(again) == {U0: 12}
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert "if it was deleted, leave it out" in str(error)


def test_many_partition_errors_are_one_failed_attempt_and_only_these_are_sent_again() -> None:
    """Scenario 35."""
    manager = committing(T0, T1, U0)
    manager.handle(commit({T0: 10, T1: 11, U0: 12}))
    request = tick(manager, 0.0).request

    answer(manager, request, committed(request, {T0: UNKNOWN_TOPIC, U0: LOAD_IN_PROGRESS}))

    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)
    assert asked_to_commit(tick(manager, 0.2).request) == {T0: 10, U0: 12}


@pytest.mark.parametrize("passing", [LOAD_IN_PROGRESS, NOT_COORDINATOR])
def test_a_fatal_partition_error_wins_over_one_that_could_be_retried(passing: int) -> None:
    manager = committing(T0, T1)
    manager.handle(commit({T0: 10, T1: 11}))
    request = tick(manager, 0.0).request

    codes = {T0: passing, T1: METADATA_TOO_LARGE}
    error = error_of(answer(manager, request, committed(request, codes)))

    assert isinstance(error, OffsetMetadataTooLargeError)


def test_a_partition_missing_in_the_answer_is_not_taken_for_committed() -> None:
    manager = committing(T0, T1)
    manager.handle(commit({T0: 10}, ticket=1))
    small = tick(manager, 0.0).request
    succeed(manager, Turn((small,), math.inf, []))
    manager.handle(commit({T0: 11, T1: 11}, ticket=2))

    said = answer(manager, tick(manager, 1.0).request, committed(small))

    assert "t-1" in str(error_of(said))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (LOAD_IN_PROGRESS, CoordinatorLoadInProgressError),
        (UNKNOWN_TOPIC, UnknownTopicOrPartitionError),
    ],
)
def test_an_asynchronous_commit_has_one_attempt(code: int, kind: type[Exception]) -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 10}))
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, code)))

    assert isinstance(error, kind)
    assert kind.retriable  # type: ignore[attr-defined]
    assert tick(manager, 1.0).requests == ()


@pytest.mark.parametrize("code", [NOT_COORDINATOR, REQUEST_TIMED_OUT])
def test_an_asynchronous_commit_suspects_the_coordinator_as_well(code: int) -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 10}))
    request = tick(manager, 0.0).request

    suspect, failed = answer(manager, request, committed(request, code))

    assert isinstance(suspect, SuspectCoordinator)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, (NotCoordinatorError, RequestTimedOutError))


def test_a_disconnected_coordinator_ends_an_asynchronous_commit_in_a_retriable_error() -> None:
    """Scenario 37."""
    manager = committing(T0)
    manager.handle(commit_async({T0: 10}))

    _, failed = fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"))

    assert isinstance(failed, Failed)
    assert isinstance(failed.error, KafkaConnectionError)
    assert failed.error.retriable
    assert "t-0" in str(failed.error)


@pytest.mark.parametrize("error", [KafkaConnectionError("refused"), KafkaTimeoutError("late")])
def test_it_is_unknown_whether_a_commit_was_done_only_if_it_was_sent(error: Exception) -> None:
    said = {}
    for was_sent in (True, False):
        manager = committing(T0)
        manager.handle(commit_async({T0: 10}))
        request = tick(manager, 0.0).request
        _, failed = fail(manager, request, error, was_sent=was_sent)
        assert isinstance(failed, Failed)
        said[was_sent] = str(failed.error)

    assert "it is unknown whether the offsets of t-0 were committed in group" in said[True]
    assert "the offsets of t-0 were not committed in group" in said[False]
    assert f"no request could be sent to the coordinator ({error}). Commit again." in said[False]


def test_a_commit_of_which_one_attempt_was_sent_may_be_done_though_the_last_was_not() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}, deadline=3.0))
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"))
    manager.handle(found())
    request = tick(manager, 1.0).request
    fail(manager, request, KafkaConnectionError("refused"), now=1.0, was_sent=False)

    told = error_of(tick(manager, 3.0).said)

    assert "They may still be." in str(told)


@pytest.mark.parametrize("error", [BAD_CREDENTIALS, UnsupportedVersionError("old")])
def test_a_commit_that_cannot_be_sent_at_all_fails_with_the_reason(error: Exception) -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))

    told = error_of(fail(manager, tick(manager, 0.0).request, error))

    assert type(told) is type(error)
    assert str(error.args[0]) in str(told)
