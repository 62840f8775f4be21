"""The commit manager: committed offsets, and those that a consumer starts from."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata

from aktor.events.answers import Answered
from aktor.events.commits import StartingOffsetsFailed, StartingOffsetsFound
from aktor.events.coordinator import SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.network import Destination
from tests.unit.managers.commits.builders import (
    BAD_CREDENTIALS,
    GROUP_AUTHORIZATION_FAILED,
    LOAD_IN_PROGRESS,
    NOT_COORDINATOR,
    T0,
    T1,
    TOPIC_AUTHORIZATION_FAILED,
    U0,
    UNKNOWN_TOPIC,
    UNSTABLE_OFFSET_COMMIT,
    answer,
    asked_to_commit,
    asked_to_fetch,
    assigned,
    at_every_version,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    fail,
    fetch,
    fetched,
    find,
    found,
    offsets,
    succeed,
    tick,
)

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
