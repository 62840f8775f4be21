"""The commit manager keeps commits in order, ends every question once, and commits nothing lost."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalStateError,
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
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.errors import AuthenticationError
from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    AutoCommitFinished,
    CommitOffsets,
    FindStartingOffsets,
    OffsetsCommitted,
    RevocationCommitted,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.coordinator import (
    CoordinatorLost,
    CoordinatorMissing,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import ConfirmSession, MemberState
from aktor.events.metadata import Broker, Cluster, ClusterChanged
from aktor.events.network import Destination, Lane, Request
from aktor.events.routes import ROUTES
from aktor.managers.commits.consumed import SHORTEST
from aktor.managers.commits.errors import Coordinator, Waited
from aktor.managers.commits.manager import QUEUE_MAX, CommitManager
from aktor.settings import Settings
from aktor.trace import recording
from tests.unit.managers.commits.builders import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    LOAD_IN_PROGRESS,
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
    UNSTABLE_OFFSET_COMMIT,
    Turn,
    answer,
    asked_to_commit,
    asked_to_fetch,
    assigned,
    at_every_version,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    fail,
    fetch,
    fetched,
    found,
    member,
    offsets,
    polled,
    tick,
    topics,
)

LOST = CoordinatorLost(because="it is silent")
REFUSED = CoordinatorRefused(error=GroupAuthorizationFailedError("group 'g'"))
BAD_CREDENTIALS = AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no")


def find(*partitions: TopicPartition) -> FindStartingOffsets:
    return FindStartingOffsets(partitions=frozenset(partitions))


def succeed(manager: CommitManager, turn: Turn, now: float = 0.0) -> list[object]:
    """The broker stores what this turn asked for."""
    return answer(manager, turn.request, committed(turn.request), now=now)


def error_of(said: list[object]) -> Exception:
    """The error of the only answer; the group may be asked about us besides."""
    (failed,) = (one for one in said if not isinstance(one, ConfirmSession))
    assert isinstance(failed, Failed)
    return failed.error


# -- what a commit looks like


def test_a_commit_goes_to_the_coordinator_as_the_member_we_are() -> None:
    manager = committing(T0, U0, generation=5)

    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request

    assert request.to is Destination.COORDINATOR
    assert (request.body.member_id, request.body.generation_id_or_member_epoch) == ("m", 5)
    assert asked_to_commit(request) == {T0: 10, U0: 20}
    assert answer(manager, request, committed(request)) == [Answered(ticket=1)]


def test_partitions_assigned_by_hand_are_committed_without_a_member() -> None:
    manager = committing(T0, generation=None)

    manager.handle(commit({T0: 10}))
    body = tick(manager, 0.0).request.body

    assert (body.member_id, body.generation_id_or_member_epoch) == ("", -1)


def test_a_static_member_commits_under_its_own_name() -> None:
    manager = committing(T0, group_instance_id="me")

    manager.handle(commit({T0: 10}))
    body = tick(manager, 0.0).request.body

    assert {one.group_instance_id for one in at_every_version(body, range(7, 9))} == {"me"}


@pytest.mark.parametrize("metadata", ["note", "", None])
def test_metadata_and_leader_epoch_are_sent_in_every_version(metadata: str | None) -> None:
    """Scenario 22."""
    manager = committing(T0)
    value = {T0: OffsetAndMetadata(10, metadata, 3)}

    manager.handle(CommitOffsets(ticket=1, offsets=value, deadline=9.0, retry=True))
    body = tick(manager, 0.0).request.body

    for version, read in enumerate(at_every_version(body, range(2, 9)), start=2):
        (one,) = read.topics[0].partitions
        assert (one.committed_offset, one.committed_metadata) == (10, metadata)
        assert one.committed_leader_epoch == (3 if version >= 6 else -1)


def test_the_offsets_are_those_of_the_time_of_the_call() -> None:
    """Scenario 29."""
    manager = committing(T0)
    mine = offsets({T0: 10})

    manager.handle(CommitOffsets(ticket=1, offsets=mine, deadline=9.0, retry=True))
    mine.update(offsets({T0: 99, T1: 1}))

    assert asked_to_commit(tick(manager, 0.0).request) == {T0: 10}


def test_nothing_to_commit_is_committed_at_once() -> None:
    manager = committing(T0)

    said = manager.handle(commit({}))

    assert said == [Answered(ticket=1)]
    assert tick(manager, 0.0).requests == ()


def test_without_a_group_there_are_no_commits_and_no_committed_offsets() -> None:
    manager = CommitManager(Settings(group_id=None))

    answers = [manager.handle(commit({T0: 1})), manager.handle(fetch(T0))]

    assert [type(error_of(said)) for said in answers] == [IllegalStateError] * 2
    assert manager.handle(find(T0)) == [StartingOffsetsFound(offsets={T0: None})]
    assert manager.handle(before_revocation({T0: 1})) == [RevocationCommitted(rebalance=7)]


# -- errors


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


@pytest.mark.parametrize("error", [BAD_CREDENTIALS, UnsupportedVersionError("old")])
def test_a_commit_that_cannot_be_sent_at_all_fails_with_the_reason(error: Exception) -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))

    told = error_of(fail(manager, tick(manager, 0.0).request, error))

    assert type(told) is type(error)
    assert str(error.args[0]) in str(told)


# -- deadlines


def test_a_commit_waits_for_the_coordinator_until_its_deadline() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit({T0: 10}, deadline=5.0))

    waiting, late = tick(manager, 0.0), tick(manager, 5.0)

    assert (waiting.requests, waiting.wake_at) == ((), 5.0)
    error = error_of(late.said)
    assert isinstance(error, KafkaTimeoutError)
    assert all(
        word in str(error) for word in ("t-0", "'g'", "5.0 s", "the group's coordinator is not")
    )
    assert late.wake_at == math.inf


def test_the_timeout_says_that_the_group_rebalances() -> None:
    coordinator = Coordinator(
        broker=Broker(node_id=1, host="b1", port=9092), missing="", rebalancing=True
    )
    waited = Waited(
        since=1.0, until=4.0, attempts=1, last_error=None, sent_at=2.0, coordinator=coordinator
    )

    assert str(waited) == (
        "3.0 s (the coordinator, broker 1 at b1:9092, has not answered for 2.0 s, while the group"
        " rebalances)"
    )


@pytest.mark.parametrize(
    ("attempts", "reason"), [(0, "earlier commits were not done"), (1, "it was not answered")]
)
def test_the_timeout_says_whether_the_commit_was_sent(attempts: int, reason: str) -> None:
    coordinator = Coordinator(
        broker=Broker(node_id=1, host="b1", port=9092), missing="", rebalancing=False
    )
    waited = Waited(
        since=1.0,
        until=4.0,
        attempts=attempts,
        last_error=None,
        sent_at=None,
        coordinator=coordinator,
    )

    assert str(waited) == f"3.0 s ({reason})"


def test_the_timeout_says_what_was_heard_of_the_coordinator_last() -> None:
    manager = committing(T0)
    manager.handle(CoordinatorLost(because="it moved"))
    manager.handle(commit({T0: 5}, deadline=0.5))
    tick(manager, 0.0)
    assert "coordinator is not known: it moved" in str(error_of(tick(manager, 0.5).said))

    manager.handle(CoordinatorMissing(because="COORDINATOR_NOT_AVAILABLE"))
    manager.handle(commit({T0: 5}, deadline=1.0))
    tick(manager, 0.6)

    assert "not known: COORDINATOR_NOT_AVAILABLE" in str(error_of(tick(manager, 1.0).said))


def test_a_listener_hears_the_stored_offsets_once_for_each_answer_and_before_the_outcomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of asynchronous commits that share a request the last offset of a partition is stored."""
    monkeypatch.setitem(ROUTES, OffsetsCommitted, ("listener",))
    manager = committing(T0, T1)
    manager.handle(commit_async({T0: 5, T1: 1}, ticket=1))
    manager.handle(commit_async({T0: 6}, ticket=2))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request))

    assert said == [
        OffsetsCommitted(offsets=offsets({T0: 6, T1: 1})),
        Answered(ticket=1),
        Answered(ticket=2),
    ]


def test_a_listener_hears_nothing_of_offsets_that_are_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ROUTES, OffsetsCommitted, ("listener",))
    manager = committing(T0)
    manager.handle(commit({T0: 5}))
    request = tick(manager, 0.0).request

    assert answer(manager, request, committed(request, LOAD_IN_PROGRESS)) == []


def test_while_nobody_listens_nothing_is_said_of_stored_offsets() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 5}, ticket=1))
    request = tick(manager, 0.0).request

    assert answer(manager, request, committed(request)) == [Answered(ticket=1)]


def test_why_there_is_no_coordinator_is_what_was_heard_last() -> None:
    manager = committing(T0)
    manager.handle(CoordinatorMissing(because="no broker answers"))
    manager.handle(CoordinatorLost(because="it moved"))
    manager.handle(commit({T0: 5}, deadline=1.0))
    tick(manager, 0.6)

    assert "not known: it moved" in str(error_of(tick(manager, 1.0).said))


def test_a_broker_of_node_0_is_a_coordinator_too() -> None:
    manager = committing(T0)
    manager.handle(found(0))
    manager.handle(commit({T0: 5}))

    assert asked_to_commit(tick(manager, 0.0).request) == {T0: 5}


def test_a_search_that_fails_takes_no_coordinator_away() -> None:
    manager = committing(T0)
    manager.handle(CoordinatorMissing(because="no broker answers"))
    manager.handle(commit({T0: 5}))

    assert asked_to_commit(tick(manager, 0.0).request) == {T0: 5}


def test_the_timeout_names_the_last_error_and_the_attempts() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}, deadline=0.5))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=0.45)

    error = error_of(tick(manager, 0.5).said)

    assert "1 attempt, the last that ended failed" in str(error)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(error)


def test_a_deadline_of_zero_still_makes_one_attempt() -> None:
    """Scenario 118."""
    manager = committing(T0)
    manager.handle(commit({T0: 10}, deadline=3.0))

    turn = tick(manager, 3.0)

    assert asked_to_commit(turn.request) == {T0: 10}
    assert isinstance(error_of(turn.said), KafkaTimeoutError)
    assert succeed(manager, turn) == []


def test_a_commit_past_its_deadline_is_not_retried_when_its_attempt_fails() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}, deadline=1.0))
    request = tick(manager, 0.0).request
    assert "may still be" in str(error_of(tick(manager, 1.0).said))

    said = answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=2.0)

    assert said == []
    assert tick(manager, 3.0).requests == ()


def test_a_late_answer_is_dropped_and_the_next_commit_goes() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}, ticket=1, deadline=1.0))
    first = tick(manager, 0.0)
    tick(manager, 1.0)
    manager.handle(commit({T0: 20}, ticket=2))
    assert tick(manager, 1.0).requests == ()

    assert succeed(manager, first, now=2.0) == []

    assert asked_to_commit(tick(manager, 2.0).request) == {T0: 20}


# -- order


def test_a_later_commit_does_not_overtake_an_earlier_one_that_is_retried() -> None:
    """Scenario 27."""
    manager = committing(T0)
    manager.handle(commit({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 20}, ticket=2))
    request = tick(manager, 0.0).request

    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    again = tick(manager, 1.0)

    assert asked_to_commit(again.request) == {T0: 10}
    assert succeed(manager, again) == [Answered(ticket=1)]
    assert asked_to_commit(tick(manager, 1.0).request) == {T0: 20}


def test_asynchronous_commits_that_wait_share_a_request_in_which_the_last_wins() -> None:
    """Scenario 24."""
    manager = committing(T0, T1)
    manager.handle(commit_async({T0: 1}, ticket=1))
    first = tick(manager, 0.0)
    for ticket in range(2, 5):
        manager.handle(commit_async({T0: ticket * 10, T1: 5}, ticket=ticket))

    succeed(manager, first)
    second = tick(manager, 0.0)

    assert asked_to_commit(second.request) == {T0: 40, T1: 5}
    assert succeed(manager, second) == [Answered(ticket=n) for n in (2, 3, 4)]


def test_each_of_the_commits_in_a_shared_request_has_its_own_outcome() -> None:
    manager = committing(T0, U0)
    manager.handle(commit_async({T0: 1}, ticket=1))
    manager.handle(commit_async({U0: 2}, ticket=2))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, {U0: TOPIC_AUTHORIZATION_FAILED}))

    assert said[0] == Answered(ticket=1)
    assert error_of(said[1:]).args[0] == {"u"}


def test_a_commit_that_is_waited_for_does_not_share() -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 1}, ticket=1))
    manager.handle(commit({T0: 2}, ticket=2))
    manager.handle(commit_async({T0: 3}, ticket=3))

    sent = []
    for _ in range(3):
        turn = tick(manager, 0.0)
        sent.append(asked_to_commit(turn.request)[T0])
        succeed(manager, turn)

    assert sent == [1, 2, 3]


def test_the_line_has_a_bound() -> None:
    manager = committing(T0, node=None)
    for ticket in range(QUEUE_MAX):
        assert manager.handle(commit_async({T0: ticket}, ticket=ticket)) == []

    error = error_of(manager.handle(commit_async({T0: 1}, ticket=-1)))

    assert error.retriable  # type: ignore[attr-defined]
    assert "'g'" in str(error)


# -- membership


def test_a_lost_member_commits_nothing() -> None:
    manager = committing(T0, generation=5)
    manager.handle(member(-1))
    manager.handle(commit({T0: 10}))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert isinstance(error_of(turn.said), CommitFailedError)
    assert "'g'" in str(error_of(turn.said))


def test_before_the_member_has_joined_a_commit_says_that_polling_helps() -> None:
    manager = committing(generation=None)
    manager.handle(assigned(by_group=True))
    manager.handle(member(-1, MemberState.REBALANCING))
    manager.handle(commit({T0: 10}))

    assert isinstance(error_of(tick(manager, 0.0).said), RebalanceInProgressError)


@pytest.mark.parametrize("code", [22, 25, 27])
def test_a_group_that_refuses_a_commit_is_asked_at_once_whether_we_are_still_in_it(
    code: int,
) -> None:
    manager = committing(T0, generation=5)
    manager.handle(commit_async({T0: 10}))

    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, {T0: code}))

    assert [one for one in said if isinstance(one, ConfirmSession)]


def test_a_commit_in_the_callback_of_a_rebalance_goes_through() -> None:
    """Scenario 5."""
    manager = committing(T0, generation=5)
    manager.handle(member(5, MemberState.REBALANCING))

    manager.handle(commit({T0: 10}))

    assert succeed(manager, tick(manager, 0.0)) == [Answered(ticket=1)]


def test_a_commit_that_waited_while_its_partition_was_taken_away_is_not_sent() -> None:
    manager = committing(T0, T1, generation=5, node=None)
    manager.handle(commit_async({T0: 10}))
    manager.handle(assigned(T1))
    manager.handle(member(6))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert isinstance(error_of(turn.said), CommitFailedError)


def test_the_last_commit_of_what_was_lost_meanwhile_is_not_made_in_the_next_generation() -> None:
    """Found by a simulation (seed 1000765): the partition is another member's by then."""
    manager = committing(T0, generation=5, node=None)
    manager.handle(before_revocation({T0: 10}))
    manager.handle(assigned())
    manager.handle(member(6))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert [type(one) for one in turn.said] == [RevocationCommitted]


def test_a_commit_does_not_survive_a_partition_that_was_away_and_came_back() -> None:
    manager = committing(T0, generation=5, node=None)
    manager.handle(commit_async({T0: 10}))
    manager.handle(assigned())
    manager.handle(assigned(T0))
    manager.handle(found(1))

    assert isinstance(error_of(tick(manager, 0.0).said), CommitFailedError)


def test_after_unsubscribing_partitions_can_be_assigned_by_hand() -> None:
    manager = committing(T0, generation=5)
    manager.handle(member(-1))
    manager.handle(assigned(U0, by_group=False))

    manager.handle(commit({U0: 10}))

    assert tick(manager, 0.0).request.body.generation_id_or_member_epoch == -1


# -- automatic commits


def auto(*partitions: TopicPartition, **kwargs: Any) -> CommitManager:
    """A commit manager whose auto-commit timer runs since 0 and has an interval of 5 s."""
    manager = committing(*partitions, **{"enable_auto_commit": True, **kwargs})
    manager.handle(polled(0.0))
    tick(manager, 0.0)
    return manager


def test_consumed_positions_are_committed_when_the_interval_is_over() -> None:
    """By one long poll, which tells nothing while it waits, as by many."""
    manager = auto(T0)

    manager.handle(polled(1.0, {T0: 10}))
    early = tick(manager, 1.0)
    turn = tick(manager, 5.0)

    assert (early.requests, early.wake_at) == ((), 5.0)
    assert asked_to_commit(turn.request) == {T0: 10}
    assert succeed(manager, turn) == [AutoCommitFinished(offsets=offsets({T0: 10}), error=None)]


def test_no_more_is_committed_than_a_poll_has_told() -> None:
    """KAFKA-18641: only a poll tells that the application is done with what it was given."""
    manager = auto(T0)
    manager.handle(polled(1.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    turn = tick(manager, 10.0)

    assert (turn.requests, turn.wake_at) == ((), 15.0)


def test_an_automatic_commit_does_not_go_back_behind_what_was_asked_for_since_the_last_poll() -> (
    None
):
    """Found by a simulation (seed 53): the application has come further than its last poll told."""
    manager = auto(T0)
    manager.handle(polled(1.0, {T0: 99}))
    manager.handle(commit({T0: 100}))
    succeed(manager, tick(manager, 2.0))

    late = tick(manager, 6.0)
    manager.handle(polled(6.5, {T0: 101}))

    assert (late.requests, late.wake_at) == ((), math.inf)
    assert asked_to_commit(tick(manager, 6.5).request) == {T0: 101}


def test_who_has_no_partitions_waits_for_no_automatic_commit() -> None:
    manager = auto()

    assert tick(manager, 100.0).wake_at == math.inf


@pytest.mark.parametrize(
    "settings", [{"enable_auto_commit": False}, {"auto_commit_interval": 50.0}]
)
def test_no_automatic_commit_when_it_is_off_or_not_due(settings: dict[str, Any]) -> None:
    manager = auto(T0, **settings)

    manager.handle(polled(20.0, {T0: 10}))

    assert tick(manager, 20.0).requests == ()


def test_what_is_committed_already_is_not_committed_again() -> None:
    """Scenario 33: an empty automatic commit leaves nothing in flight."""
    manager = auto(T0, T1)
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(10.0))
    idle = tick(manager, 10.0)
    manager.handle(polled(15.0, {T1: 3}))

    assert idle.requests == ()
    assert asked_to_commit(tick(manager, 15.0).request) == {T1: 3}


def test_what_was_read_of_a_topic_is_not_committed_once_it_is_created_anew() -> None:
    manager = auto(T0)
    manager.handle(topics(**{T0.topic: 1}))
    manager.handle(polled(5.0, {T0: 10}))
    manager.handle(topics())
    manager.handle(topics(**{T0.topic: 2}))

    assert tick(manager, 5.0).requests == ()

    manager.handle(polled(10.0, {T0: 3}))
    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 3}


def test_a_commit_in_line_is_not_stored_for_a_topic_that_was_created_anew_meanwhile() -> None:
    """By name it would be: the new topic would be read from an offset of the old one."""
    manager = committing(T0, U0)
    manager.handle(topics(t=1, u=2))
    manager.handle(CoordinatorLost(because="it moved"))
    manager.handle(commit({T0: 10, U0: 20}))
    manager.handle(commit_async({T0: 11}))
    manager.handle(topics(u=2))
    manager.handle(topics(t=9, u=2))
    manager.handle(found(1))

    turn = tick(manager, 0.0)
    assert asked_to_commit(turn.request) == {U0: 20}
    (failed,) = succeed(manager, turn)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)
    assert "t-0 were not committed" in str(failed.error)

    later = tick(manager, 0.1)
    assert later.requests == ()
    assert [type(one.error) for one in later.said] == [CommitFailedError]


def test_what_was_asked_for_behind_an_automatic_commit_does_not_go_back_behind_it() -> None:
    """Found by a simulation (seed 326): it stores the positions of when it is sent."""
    manager = auto(T0, T1, U0)
    manager.handle(commit({U0: 1}))
    in_flight = tick(manager, 4.0)
    manager.handle(polled(5.0, {T0: 10, T1: 1}))
    assert tick(manager, 5.0).requests == ()
    manager.handle(commit_async({T0: 10}))
    manager.handle(polled(5.1, {T0: 12, T1: 2}))
    succeed(manager, in_flight)

    automatic = tick(manager, 5.2)
    assert asked_to_commit(automatic.request) == {T1: 2}
    succeed(manager, automatic)
    asked = tick(manager, 5.2)
    assert asked_to_commit(asked.request) == {T0: 10}
    succeed(manager, asked)

    manager.handle(polled(10.0))
    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 12}


def test_what_the_application_committed_itself_is_not_committed_again() -> None:
    manager = auto(T0)
    manager.handle(commit({T0: 10}))
    succeed(manager, tick(manager, 1.0))

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).requests == ()


def test_where_reading_starts_is_committed_already() -> None:
    manager = auto(T0)
    manager.handle(find(T0))
    answer(manager, tick(manager, 0.0).request, fetched({T0: 10}))

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).requests == ()


def test_a_seek_backwards_is_committed() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(10.0, {T0: 2}))

    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 2}


def test_an_hour_of_silence_is_no_reason_to_let_committed_offsets_expire() -> None:
    manager = auto(T0, T1)
    manager.handle(find(T1))
    answer(manager, tick(manager, 0.0).request, fetched({T1: 7}))
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(3600.0))

    assert asked_to_commit(tick(manager, 3600.0).request) == {T0: 10, T1: 7}


def test_only_one_automatic_commit_is_in_flight() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    tick(manager, 5.0)

    manager.handle(polled(11.0, {T0: 20}))

    assert tick(manager, 11.0).requests == ()


def test_a_retriable_failure_is_told_and_another_commit_is_made_after_the_backoff() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request

    (told,) = answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=5.0)
    waits = tick(manager, 5.0)
    manager.handle(polled(5.5, {T0: 12}))

    assert isinstance(told, AutoCommitFinished)
    assert isinstance(told.error, CoordinatorLoadInProgressError)
    assert (waits.requests, waits.wake_at) == ((), pytest.approx(5.1))
    assert asked_to_commit(tick(manager, 5.5).request) == {T0: 12}


def test_after_a_final_failure_the_next_attempt_waits_for_the_interval() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request
    answer(manager, request, committed(request, REBALANCE_IN_PROGRESS), now=5.0)

    manager.handle(polled(9.9))
    early = tick(manager, 9.9)
    manager.handle(polled(10.0))

    assert early.requests == ()
    assert len(tick(manager, 10.0).requests) == 1


def test_an_automatic_commit_is_made_as_soon_as_there_is_a_coordinator() -> None:
    manager = auto(T0, node=None)
    manager.handle(polled(5.0, {T0: 10}))
    waits = tick(manager, 5.0)
    manager.handle(polled(6.0, {T0: 12}))
    manager.handle(found(1))

    assert (waits.requests, waits.wake_at) == ((), math.inf)
    assert asked_to_commit(tick(manager, 6.0).request) == {T0: 12}


def test_positions_of_partitions_that_are_gone_are_never_committed() -> None:
    """Scenario 38."""
    manager = auto(T0, T1)
    manager.handle(polled(1.0, {T0: 10, T1: 11}))
    manager.handle(assigned(T1))
    manager.handle(polled(2.0, {T0: 99}))
    manager.handle(assigned(T0, T1))

    manager.handle(polled(5.0))

    assert asked_to_commit(tick(manager, 5.0).request) == {T1: 11}


def test_an_automatic_commit_that_waits_behind_another_does_not_commit_what_was_lost() -> None:
    manager = auto(T0, T1)
    manager.handle(commit({T1: 1}))
    first = tick(manager, 4.0)
    manager.handle(polled(5.0, {T0: 10, T1: 11}))
    manager.handle(assigned(T1))

    succeed(manager, first)

    assert asked_to_commit(tick(manager, 5.0).request) == {T1: 11}


def test_a_lost_member_does_not_commit_automatically_until_it_is_one_again() -> None:
    manager = auto(T0, generation=5)
    manager.handle(member(-1, MemberState.REBALANCING))
    manager.handle(polled(5.0, {T0: 10}))
    lost = tick(manager, 5.0)
    manager.handle(member(6))
    manager.handle(polled(6.0))

    turn = tick(manager, 6.0)

    assert lost.requests == ()
    assert turn.request.body.generation_id_or_member_epoch == 6
    assert asked_to_commit(turn.request) == {T0: 10}


def test_partitions_assigned_by_hand_are_committed_automatically() -> None:
    manager = auto(T0, generation=None)

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).request.body.generation_id_or_member_epoch == -1


def test_the_timer_starts_anew_when_the_first_partitions_come_and_only_then() -> None:
    manager = auto()
    manager.handle(polled(60.0))
    manager.handle(assigned(T0))
    manager.handle(polled(61.0, {T0: 1}))
    early = tick(manager, 61.0)
    manager.handle(assigned(T0, T1))

    manager.handle(polled(66.0, {T1: 2}))

    assert early.requests == ()
    assert asked_to_commit(tick(manager, 66.0).request) == {T0: 1, T1: 2}


def test_a_failure_after_the_assignment_was_replaced_does_no_harm() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request
    manager.handle(assigned())
    manager.handle(assigned(U0))

    (told,) = answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=6.0)

    assert isinstance(told, AutoCommitFinished)


# -- before a revocation


def test_the_commit_before_a_revocation_overlaps_an_automatic_one() -> None:
    """Scenario 30."""
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    tick(manager, 5.0)

    manager.handle(before_revocation({T0: 12}))
    turn = tick(manager, 5.0)

    assert asked_to_commit(turn.request) == {T0: 12}
    assert turn.request.body.generation_id_or_member_epoch == 5
    assert succeed(manager, turn) == [RevocationCommitted(rebalance=7)]


def test_the_commit_before_a_revocation_is_retried() -> None:
    """Scenario 31."""
    manager = committing(T0)
    manager.handle(before_revocation({T0: 12}))
    request = tick(manager, 0.0).request

    assert answer(manager, request, committed(request, LOAD_IN_PROGRESS)) == []

    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)
    assert succeed(manager, tick(manager, 0.2)) == [RevocationCommitted(rebalance=7)]


@pytest.mark.parametrize(
    "code",
    [UNKNOWN_TOPIC, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, METADATA_TOO_LARGE],
)
@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.REBALANCING])
def test_a_failed_commit_does_not_hold_up_the_revocation(code: int, state: MemberState) -> None:
    """Scenario 46. A member that revokes partitions is rebalancing, unless it is one of KIP-848."""
    trace, events = recording()
    manager = committing(T0, trace=trace)
    manager.handle(member(5, state, is_revoking=True))
    manager.handle(before_revocation({T0: 12}))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, code))

    expelled = code in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID)
    assert said == [RevocationCommitted(rebalance=7, expelled=expelled)]
    (failed,) = [one for one in events if one["event"] == "commit.failed"]
    assert failed["kind"] == "revocation"


def test_a_revocation_ends_at_its_deadline() -> None:
    manager = committing(T0, node=None)
    manager.handle(before_revocation({T0: 12}, deadline=3.0))

    assert tick(manager, 0.0).wake_at == 3.0

    assert tick(manager, 3.0).said == [RevocationCommitted(rebalance=7)]


def test_a_revocation_of_a_member_that_was_lost_meanwhile_commits_nothing() -> None:
    manager = committing(T0, node=None)
    manager.handle(before_revocation({T0: 12}))
    manager.handle(member(-1))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert turn.said == [RevocationCommitted(rebalance=7)]


def test_a_revocation_that_waited_longer_than_its_member_was_in_the_group_commits_nothing() -> None:
    """As nobody's it could go back behind a new owner's, in a group that is empty by then."""
    manager = committing(T0)
    manager.handle(CoordinatorLost(because="it is silent"))
    manager.handle(before_revocation({T0: 10}))
    tick(manager, 0.0)

    manager.handle(member(-1))
    manager.handle(assigned(by_group=False))
    manager.handle(found())
    turn = tick(manager, 20.0)

    assert not turn.requests
    assert turn.said == [RevocationCommitted(rebalance=7)]


def test_with_an_interval_of_zero_positions_are_stored_as_soon_as_there_was_a_poll() -> None:
    manager = committing(T0, enable_auto_commit=True, auto_commit_interval=0.0)
    assert tick(manager, 0.0).wake_at == SHORTEST

    assert not tick(manager, 1.0).requests
    manager.handle(polled(1.5, {T0: 10}))

    assert tick(manager, 1.5).requests


def test_a_late_answer_does_not_say_what_is_committed_of_a_partition_that_is_ours_anew() -> None:
    """Its new position is stored although it is the one that was stored then."""
    manager = committing(T0, enable_auto_commit=True, auto_commit_interval=5.0)
    manager.handle(polled(0.0, {T0: 10}))
    manager.handle(commit_async({T0: 10}))
    late = tick(manager, 0.0).request
    manager.handle(assigned())
    manager.handle(assigned(T0))

    answer(manager, late, committed(late))
    manager.handle(polled(1.0, {T0: 10}))
    tick(manager, 1.0)
    manager.handle(polled(6.0))

    assert tick(manager, 6.0).requests


@pytest.mark.parametrize("fate", ["given away", "left"])
def test_a_commit_said_to_a_restarted_actor_before_it_heard_what_is_ours_goes_no_further(
    fate: str,
) -> None:
    """Another may own it by the time there is a coordinator, and have read on."""
    manager = CommitManager(Settings(group_id="g"))
    manager.handle(commit_async({T0: 10}))
    manager.handle(member(5))
    manager.handle(assigned(T0))
    tick(manager, 0.0)

    manager.handle(member(6) if fate == "given away" else member(-1))
    manager.handle(assigned(by_group=fate == "given away"))
    manager.handle(found())
    turn = tick(manager, 20.0)

    assert not turn.requests
    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)


def test_a_commit_said_to_a_restarted_actor_is_sent_if_the_partition_is_still_ours() -> None:
    manager = CommitManager(Settings(group_id="g"))
    manager.handle(commit_async({T0: 10}))
    manager.handle(member(5))
    manager.handle(assigned(T0))
    manager.handle(found())

    assert tick(manager, 0.0).requests


REBALANCING = member(5, MemberState.REBALANCING)


@pytest.mark.parametrize("fetch_max_wait", [0.5, 25.0])
def test_what_is_asked_while_the_group_rebalances_has_no_join_group_or_fetch_before_it(
    fetch_max_wait: float,
) -> None:
    """The coordinator answers one connection's requests in order; JoinGroup has another one."""
    manager = committing(T0, fetch_max_wait=fetch_max_wait)
    manager.handle(REBALANCING)
    manager.handle(commit({T0: 10}))
    manager.handle(fetch(T1, ticket=2))

    ways = [(one.to, one.lane) for one in tick(manager, 0.0).requests]
    assert ways == [(Destination.COORDINATOR, Lane.ORDINARY)] * 2


def test_commits_in_flight_go_one_way_lest_one_overtakes_the_other() -> None:
    manager = committing(T0)
    manager.handle(REBALANCING)
    manager.handle(commit_async({T0: 10}))
    first = tick(manager, 0.0).request
    manager.handle(member(6, MemberState.REBALANCING, is_revoking=True))
    manager.handle(before_revocation({T0: 12}))
    second = tick(manager, 0.0).request
    answer(manager, first, committed(first))
    answer(manager, second, committed(second))
    manager.handle(commit({T0: 13}, ticket=2))
    third = tick(manager, 0.0).request

    assert {(one.to, one.lane) for one in (first, second, third)} == {
        (Destination.COORDINATOR, Lane.ORDINARY)
    }


def test_nothing_older_is_committed_after_the_revocation_went_past_it() -> None:
    manager = committing(T0, T1, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 11, T1: 5}, ticket=2))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(found(1))

    first = tick(manager, 0.0)
    said = succeed(manager, first)
    second = tick(manager, 0.0)

    assert asked_to_commit(first.request) == {T0: 12}
    assert said == [Answered(ticket=1), RevocationCommitted(rebalance=7)]
    assert asked_to_commit(second.request) == {T1: 5}
    assert succeed(manager, second) == [Answered(ticket=2)]


def test_what_a_failed_revocation_went_past_is_committed_after_all() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(found(1))
    request = tick(manager, 0.0).request

    answer(manager, request, committed(request, METADATA_TOO_LARGE))

    assert succeed(manager, tick(manager, 0.0)) == [Answered(ticket=1)]


def test_a_retried_commit_that_a_revocation_overtook_sends_only_the_rest() -> None:
    manager = committing(T0, T1)
    manager.handle(commit({T0: 10, T1: 5}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    manager.handle(before_revocation({T0: 12}))
    succeed(manager, tick(manager, 0.01))

    turn = tick(manager, 1.0)

    assert asked_to_commit(turn.request) == {T1: 5}
    assert succeed(manager, turn) == [Answered(ticket=1)]


def test_a_commit_that_a_revocation_overtook_wholly_is_done() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    manager.handle(before_revocation({T0: 12}))

    said = succeed(manager, tick(manager, 0.01))

    assert said == [Answered(ticket=1), RevocationCommitted(rebalance=7)]
    assert tick(manager, 1.0).requests == ()


def test_an_overtaken_commit_whose_attempt_fails_later_is_done_and_not_repeated() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    slow = tick(manager, 0.0).request
    manager.handle(before_revocation({T0: 12}))
    succeed(manager, tick(manager, 0.01))

    said = answer(manager, slow, committed(slow, LOAD_IN_PROGRESS), now=1.0)

    assert said == [Answered(ticket=1)]
    assert tick(manager, 2.0).requests == ()


def test_what_a_revocation_without_an_answer_went_past_is_not_committed() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(before_revocation({T0: 12}, deadline=1.0))
    manager.handle(found(1))
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"), now=0.5)

    failed, ended = tick(manager, 1.0).said

    assert ended == RevocationCommitted(rebalance=7)
    assert isinstance(error_of([failed]), CommitFailedError)


def test_a_commit_that_is_newer_than_a_late_revocation_is_sent_after_it() -> None:
    """Such as one made in `on_partitions_revoked`, when the revocation was not waited for."""
    manager = committing(T0)
    manager.handle(before_revocation({T0: 12}, deadline=1.0))
    slow = tick(manager, 0.0)
    assert tick(manager, 1.0).said == [RevocationCommitted(rebalance=7)]
    manager.handle(commit({T0: 15}))
    held_back = tick(manager, 1.0)

    assert succeed(manager, slow, now=2.0) == []

    assert held_back.requests == ()
    assert asked_to_commit(tick(manager, 2.0).request) == {T0: 15}


def test_two_revocations_are_answered_each() -> None:
    manager = committing(T0, T1)
    manager.handle(before_revocation({T0: 1}, rebalance=1))
    manager.handle(before_revocation({T1: 2}, rebalance=2))

    requests = tick(manager, 0.0).requests

    said = [answer(manager, one, committed(one)) for one in requests]
    assert said == [[RevocationCommitted(rebalance=1)], [RevocationCommitted(rebalance=2)]]


def test_nothing_to_commit_before_a_revocation_is_done_at_once() -> None:
    assert committing(T0).handle(before_revocation({})) == [RevocationCommitted(rebalance=7)]


# -- committed offsets


@pytest.mark.parametrize("version", range(2, 9))
def test_committed_offsets_of_every_version_are_understood(version: int) -> None:
    """Scenarios 22 and 23: metadata comes back, and nothing committed is None."""
    manager = committing(T0)
    manager.handle(fetch(T0, T1))
    request = tick(manager, 0.0).request

    values = {T0: OffsetAndMetadata(10, "note", 3), T1: -1}
    said = answer(manager, request, fetched(values, version=version))

    epoch = 3 if version >= 5 else -1
    value = {T0: OffsetAndMetadata(10, "note", epoch), T1: None}
    assert said == [Answered(ticket=1, value=value)]


def test_every_version_of_the_look_up_names_the_group_and_the_partitions() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, U0))
    request = tick(manager, 0.0).request

    old = at_every_version(request.body, range(1, 8))
    (new,) = at_every_version(request.body, range(8, 9))

    assert request.to is Destination.COORDINATOR
    assert {(one.group_id, len(one.topics)) for one in old} == {("g", 2)}
    assert new.groups[0].group_id == "g"
    assert [one.require_stable for one in (old[-1], new)] == [True, True]


def test_no_partitions_have_no_committed_offsets() -> None:
    assert committing(T0).handle(fetch()) == [Answered(ticket=1, value={})]


@pytest.mark.parametrize("code", [LOAD_IN_PROGRESS, NOT_COORDINATOR])
@pytest.mark.parametrize("of_group", [True, False])
def test_a_look_up_is_retried_after_the_backoff(code: int, of_group: bool) -> None:
    manager = committing(T0)
    manager.handle(fetch(T0))
    request = tick(manager, 0.0).request

    response = fetched({}, group_code=code) if of_group else fetched({}, codes={T0: code})
    said = answer(manager, request, response)
    manager.handle(found(1))

    assert [type(one) for one in said] == [SuspectCoordinator] * (code == NOT_COORDINATOR)
    assert tick(manager, 0.09).requests == ()
    assert len(tick(manager, 0.11).requests) == 1


def test_a_disconnected_coordinator_is_suspected_and_the_look_up_retried() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0))

    said = fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"))
    manager.handle(found(2))

    assert [type(one) for one in said] == [SuspectCoordinator]
    assert len(tick(manager, 0.2).requests) == 1


def test_only_unstable_partitions_are_asked_for_again() -> None:
    manager = committing(T0, T1)
    manager.handle(fetch(T0, T1))
    request = tick(manager, 0.0).request

    said = answer(manager, request, fetched({T0: 10}, codes={T1: UNSTABLE_OFFSET_COMMIT}))
    again = tick(manager, 1.0).request

    assert said == []
    assert asked_to_fetch(again) == {T1}
    value = {T0: OffsetAndMetadata(10, "", -1), T1: OffsetAndMetadata(20, "", -1)}
    assert answer(manager, again, fetched({T1: 20})) == [Answered(ticket=1, value=value)]


def test_a_topic_that_stays_unknown_has_no_committed_offset_when_no_time_is_left() -> None:
    """Scenario 23 (KAFKA-20165)."""
    manager = committing(T0)
    manager.handle(fetch(T0, U0, deadline=0.25))
    first = tick(manager, 0.0).request
    unknown = fetched({T0: 10}, codes={U0: UNKNOWN_TOPIC})

    assert answer(manager, first, unknown, now=0.0) == []
    said = answer(manager, tick(manager, 0.11).request, unknown, now=0.2)

    value = {T0: OffsetAndMetadata(10, "", -1), U0: None}
    assert said == [Answered(ticket=1, value=value)]
    assert tick(manager, 1.0).wake_at == math.inf


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (fetched({}, group_code=GROUP_AUTHORIZATION_FAILED), GroupAuthorizationFailedError),
        (fetched({T0: 1}, codes={T1: TOPIC_AUTHORIZATION_FAILED}), TopicAuthorizationFailedError),
    ],
)
def test_forbidden_committed_offsets_are_refused(response: Any, kind: type[Exception]) -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, T1))

    error = error_of(answer(manager, tick(manager, 0.0).request, response))

    assert isinstance(error, kind)
    assert "'g'" in str(error) or error.args[0] == {"t"}
    assert tick(manager, 1.0).requests == ()


def test_a_look_up_ends_at_its_deadline_and_says_why() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, deadline=0.5))
    request = tick(manager, 0.0).request
    answer(manager, request, fetched({}, codes={T0: UNSTABLE_OFFSET_COMMIT}), now=0.45)

    waiting, late = tick(manager, 0.46), tick(manager, 0.5)

    assert waiting.wake_at == 0.5
    error = error_of(late.said)
    assert isinstance(error, KafkaTimeoutError)
    assert all(word in str(error) for word in ("t-0", "'g'", "0.5 s", "UNSTABLE"))
    assert late.wake_at == math.inf


def test_an_answer_after_the_deadline_is_dropped() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, deadline=0.5))
    request = tick(manager, 0.0).request
    tick(manager, 0.5)

    assert answer(manager, request, fetched({T0: 10}), now=0.6) == []


def test_equal_questions_share_a_look_up_in_flight() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, ticket=1))
    request = tick(manager, 0.0).request
    manager.handle(fetch(T0, ticket=2))

    nothing_new = tick(manager, 0.0)
    said = answer(manager, request, fetched({T0: 10}))

    value = {T0: OffsetAndMetadata(10, "", -1)}
    assert nothing_new.requests == ()
    assert said == [Answered(ticket=1, value=value), Answered(ticket=2, value=value)]


def test_a_question_never_joins_a_look_up_that_is_over() -> None:
    """Scenario 32 (KAFKA-20765)."""
    manager = committing(T0)
    manager.handle(fetch(T0, ticket=1))
    answer(manager, tick(manager, 0.0).request, fetched({T0: 10}))

    manager.handle(fetch(T0, ticket=2))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T0}


def test_a_question_after_a_commit_is_not_answered_by_an_older_look_up() -> None:
    manager = committing(T0)
    manager.handle(fetch(T0, ticket=1))
    tick(manager, 0.0)
    manager.handle(commit({T0: 20}, ticket=2))
    succeed(manager, tick(manager, 0.0))

    manager.handle(fetch(T0, ticket=3))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T0}


# -- starting offsets


def test_starting_offsets_are_told_as_they_are_found() -> None:
    manager = committing(T0, T1, U0)
    manager.handle(find(T0, T1, U0))
    request = tick(manager, 0.0).request

    first = answer(manager, request, fetched({T0: 10, T1: -1}, codes={U0: UNSTABLE_OFFSET_COMMIT}))
    again = tick(manager, 1.0).request
    second = answer(manager, again, fetched({U0: 5}))

    told = {T0: OffsetAndMetadata(10, "", -1), T1: None}
    assert first == [StartingOffsetsFound(offsets=told)]
    assert asked_to_fetch(again) == {U0}
    assert second == [StartingOffsetsFound(offsets=offsets({U0: 5}))]


def test_starting_offsets_are_looked_up_until_they_are_found() -> None:
    manager = committing(T0)
    manager.handle(find(T0))

    now = 0.0
    for _ in range(20):
        request = tick(manager, now).request
        assert answer(manager, request, fetched({}, group_code=LOAD_IN_PROGRESS), now=now) == []
        now = tick(manager, now).wake_at

    said = answer(manager, tick(manager, now).request, fetched({T0: 10}))
    assert said == [StartingOffsetsFound(offsets=offsets({T0: 10}))]
    assert 10.0 < now < 30.0


def test_asking_again_for_what_is_being_looked_up_asks_only_for_the_rest() -> None:
    manager = committing(T0, T1)
    manager.handle(find(T0))
    tick(manager, 0.0)

    manager.handle(find(T0, T1))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T1}


def test_a_partition_that_was_away_is_looked_up_anew_and_the_older_answer_dropped() -> None:
    manager = committing(T0)
    manager.handle(find(T0))
    older = tick(manager, 0.0).request
    manager.handle(assigned())
    manager.handle(assigned(T0))
    manager.handle(find(T0))
    newer = tick(manager, 0.0).request

    stale = answer(manager, older, fetched({T0: 10}))
    said = answer(manager, newer, fetched({T0: 90}))

    assert stale == []
    assert said == [StartingOffsetsFound(offsets=offsets({T0: 90}))]


def test_an_answer_for_a_partition_that_was_lost_meanwhile_is_dropped() -> None:
    manager = committing(T0, T1)
    manager.handle(find(T0, T1))
    request = tick(manager, 0.0).request
    manager.handle(assigned(T1))

    said = answer(manager, request, fetched({T0: 10, T1: 20}))

    assert said == [StartingOffsetsFound(offsets=offsets({T1: 20}))]


def test_a_partition_that_is_ours_anew_is_looked_up_when_our_commits_of_it_are_answered() -> None:
    manager = committing(T0, generation=None)
    manager.handle(commit_async({T0: 5}))
    first = tick(manager, 0.0).request
    manager.handle(commit_async({T0: 9}, ticket=2))
    manager.handle(assigned(by_group=False))
    manager.handle(assigned(T0, by_group=False))
    manager.handle(find(T0))
    assert tick(manager, 0.0).requests == ()

    answer(manager, first, committed(first))
    second = tick(manager, 1.0).request
    assert asked_to_commit(second) == {T0: 9}
    answer(manager, second, committed(second))

    assert asked_to_fetch(tick(manager, 2.0).request) == {T0}


def test_a_look_up_waits_for_a_commit_no_longer_than_an_attempt_may_take() -> None:
    manager = committing(T0, generation=None)
    manager.handle(commit_async({T0: 5}))
    tick(manager, 0.0)
    manager.handle(assigned(by_group=False))
    manager.handle(assigned(T0, by_group=False))
    manager.handle(find(T0))

    assert tick(manager, 1.0).wake_at == 11.0
    assert asked_to_fetch(tick(manager, 11.0).request) == {T0}


def test_a_look_up_does_not_wait_for_a_commit_that_was_refused_and_is_tried_again() -> None:
    manager = committing(T0, generation=None)
    manager.handle(commit({T0: 5}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    manager.handle(find(T0))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T0}


def test_partitions_that_were_lost_are_not_looked_up_any_longer() -> None:
    manager = committing(T0, T1, node=None)
    manager.handle(find(T0, T1))
    manager.handle(assigned(T1))
    manager.handle(found(1))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T1}

    manager.handle(assigned())
    assert tick(manager, 1.0).wake_at == math.inf


def test_forbidden_starting_offsets_fail_and_the_others_are_found() -> None:
    manager = committing(T0, U0)
    manager.handle(find(T0, U0))
    request = tick(manager, 0.0).request

    response = fetched({T0: 10}, codes={U0: TOPIC_AUTHORIZATION_FAILED})
    good, bad = answer(manager, request, response)

    assert good == StartingOffsetsFound(offsets=offsets({T0: 10}))
    assert isinstance(bad, StartingOffsetsFailed)
    assert bad.partitions == {U0}
    assert bad.error.args[0] == {"u"}


def test_bad_credentials_end_calls_but_not_the_search_for_starting_offsets() -> None:
    manager = committing(T0)
    manager.handle(find(T0))
    manager.handle(fetch(T0))
    request = tick(manager, 0.0).request

    error = error_of(fail(manager, request, BAD_CREDENTIALS))
    said = answer(manager, tick(manager, 1.0).request, fetched({T0: 10}))

    assert error is BAD_CREDENTIALS
    assert said == [StartingOffsetsFound(offsets=offsets({T0: 10}))]


def test_a_restarted_position_manager_is_not_told_what_it_did_not_ask() -> None:
    manager = committing(T0)
    manager.handle(find(T0))
    request = tick(manager, 0.0).request

    manager.handle(ActorsRestarted(actors=("positions", "fetch"), because=ValueError()))
    dropped = answer(manager, request, fetched({T0: 10}))
    manager.handle(find(T0))

    assert dropped == []
    assert asked_to_fetch(tick(manager, 1.0).request) == {T0}


# -- the coordinator


def test_what_waits_goes_when_the_coordinator_is_found() -> None:
    manager = committing(T0, T1, node=None)
    manager.handle(commit({T0: 10}))
    manager.handle(find(T1))
    before = tick(manager, 0.0)

    manager.handle(found(1))

    assert before.requests == ()
    assert len(tick(manager, 0.0).requests) == 2


def test_a_lost_coordinator_holds_back_what_was_not_sent() -> None:
    manager = committing(T0)
    manager.handle(LOST)

    manager.handle(commit({T0: 10}))

    assert tick(manager, 0.0).requests == ()


def test_a_refusing_coordinator_ends_everything_that_waits() -> None:
    """Scenario 34."""
    manager = committing(T0, node=None)
    manager.handle(commit({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 11}, ticket=2))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(fetch(T1, ticket=3))
    manager.handle(find(T0))

    said = manager.handle(REFUSED)

    error = REFUSED.error
    assert said == [
        RevocationCommitted(rebalance=7),
        Failed(ticket=1, error=error),
        Failed(ticket=2, error=error),
        Failed(ticket=3, error=error),
        StartingOffsetsFailed(partitions=frozenset({T0}), error=error),
    ]
    assert tick(manager, 0.0).wake_at == math.inf


def test_what_is_in_flight_ends_by_its_own_answer_after_a_refusal() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    turn = tick(manager, 0.0)

    assert manager.handle(REFUSED) == []

    assert succeed(manager, turn) == [Answered(ticket=1)]


def test_an_idle_manager_sleeps() -> None:
    manager = auto(T0)
    manager.handle(fetch(T0))
    answer(manager, tick(manager, 0.0).request, fetched({T0: 10}))

    turn = tick(manager, 1.0)

    assert (turn.requests, turn.wake_at, turn.said) == ((), 5.0, [])


def test_a_commit_is_traced_from_sending_to_success() -> None:
    trace, events = recording()
    manager = committing(T0, trace=trace)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=0.5)

    succeed(manager, tick(manager, 1.0), now=1.25)

    story = [one["event"] for one in events]
    assert story == ["commit.sent", "commit.retried", "commit.sent", "commit.succeeded"]
    assert events[0]["offsets"] == {"t-0": 10}
    assert (events[-1]["ms"], events[-1]["attempts"]) == (250, 2)


# -- everything at once


class Storm:
    """Random questions, answers and troubles; a broker that stores in the order of sending."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.manager = auto(T0, T1, U0)
        self.now = 0.0
        self.value = self.position = 0
        self.asked: set[tuple[str, int]] = set()
        self.answered: list[tuple[str, int]] = []
        self.stored: dict[TopicPartition, int] = {}
        self.in_flight: list[tuple[Request, int]] = []

    def hear(self, said: list[object]) -> None:
        for one in said:
            if isinstance(one, (Answered, Failed)):
                self.answered.append(("ticket", one.ticket))
            elif isinstance(one, RevocationCommitted):
                self.answered.append(("rebalance", one.rebalance))

    def ask(self) -> None:
        self.value += 1
        some = self.random.sample([T0, U0], self.random.randint(1, 2))
        values = dict.fromkeys(some, self.value)
        deadline = self.now + self.random.choice([0.0, 0.5, 5.0, 60.0])
        message, name = self.random.choice(
            [
                (commit(values, ticket=self.value, deadline=deadline), "ticket"),
                (commit_async(values, ticket=self.value), "ticket"),
                (fetch(*some, ticket=self.value, deadline=deadline), "ticket"),
                (
                    before_revocation(
                        values | {T1: self.position}, rebalance=self.value, deadline=deadline
                    ),
                    "rebalance",
                ),
            ]
        )
        self.asked.add((name, self.value))
        self.hear(self.manager.handle(message))

    def disturb(self) -> None:
        trouble: Any = self.random.choice([LOST, found(1), found(2), find(T0, U0), None])
        if trouble is None:
            self.position += 1
            trouble = polled(self.now, {T1: self.position})
        self.hear(self.manager.handle(trouble))

    def turn(self) -> None:
        turn = tick(self.manager, self.now)
        self.hear(turn.said)
        assert turn.requests or turn.said or turn.wake_at > self.now
        for request in turn.requests:
            code = self.random.choice([0, 0, LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_TOPIC])
            if isinstance(request.body, OffsetCommitRequest) and code == 0:
                for one, value in asked_to_commit(request).items():
                    assert value >= self.stored.get(one, 0), "a committed offset went back"
                    self.stored[one] = value
            self.in_flight.append((request, code))

    def reply(self, *, calm: bool = False) -> None:
        if not self.in_flight:
            return
        request, code = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        if not calm and self.random.random() < 0.2:
            self.hear(fail(self.manager, request, KafkaConnectionError("reset"), now=self.now))
        elif isinstance(request.body, OffsetCommitRequest):
            self.hear(answer(self.manager, request, committed(request, code), now=self.now))
        else:
            response = fetched(dict.fromkeys(asked_to_fetch(request), 1), group_code=code)
            self.hear(answer(self.manager, request, response, now=self.now))

    def settle(self) -> None:
        """The cluster recovers and time passes."""
        for _ in range(200):
            self.now += 5.0
            self.manager.handle(found(1))
            self.turn()
            while self.in_flight:
                self.reply(calm=True)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_each_question_ends_once_and_no_committed_offset_goes_back(
    seed: int,
) -> None:
    storm = Storm(seed)

    for _ in range(80):
        storm.random.choice([storm.ask, storm.disturb, storm.reply, storm.reply])()
        storm.turn()
        storm.now += storm.random.choice([0.0, 0.01, 0.2, 3.0])
    storm.settle()

    assert sorted(storm.answered) == sorted(storm.asked)
    storm.manager.handle(assigned())
    assert tick(storm.manager, storm.now).wake_at == math.inf
