"""Rules of the way to a first broker: its table, when the application is told, and what."""

from __future__ import annotations

import math

import pytest
from kafka.errors import KafkaConnectionError

from aktor.actors.network.bootstrap import TRANSITIONS, Bootstrap, BootstrapEvent, BootstrapState
from aktor.actors.network.links import Link
from aktor.actors.runtime.manager import Backoff
from aktor.errors import AuthenticationError
from aktor.state_table import IllegalTransitionError

TRIED, ASKED, TOLD, ANSWERED = BootstrapEvent


def a_server(host: str, failure: Exception | None = None) -> Link:
    link = Link(f"bootstrap-{host}", -1, host, 9092, Backoff(0.05, 1.0))
    link.attempts.failure = failure
    return link


def refused() -> Exception:
    error: Exception = KafkaConnectionError("broker a:9092: Connection refused")
    return error


def timed_out() -> Exception:
    error = refused()
    error.__cause__ = TimeoutError()
    return error


def a_bootstrap(*failures: Exception | None) -> Bootstrap:
    """With a server for each of these failures."""
    servers = [a_server(host, one) for host, one in zip("abcd", failures, strict=False)]
    return Bootstrap(servers, patience=30.0)


@pytest.mark.parametrize("state", BootstrapState)
@pytest.mark.parametrize("event", BootstrapEvent)
def test_it_moves_as_its_table_says(state: BootstrapState, event: BootstrapEvent) -> None:
    bootstrap = a_bootstrap(None)
    bootstrap.state = state
    after = TRANSITIONS[state].get(event)
    if after is None:
        with pytest.raises(IllegalTransitionError):
            bootstrap.on(event)
    else:
        assert bootstrap.on(event) is (after is not state)
        assert bootstrap.state is after


def test_every_state_can_be_reached_and_left() -> None:
    moves = {
        (before, after)
        for before, row in TRANSITIONS.items()
        for after in row.values()
        if after is not before
    }
    assert {after for _, after in moves} | {BootstrapState.UNTRIED} == set(BootstrapState)
    assert {before for before, _ in moves} == set(BootstrapState)


def test_the_application_is_told_only_while_no_broker_has_ever_answered() -> None:
    """Else `complaint_due` is never: the table has no pair for it."""
    told = {state for state, row in TRANSITIONS.items() if TOLD in row}
    for state in BootstrapState:
        bootstrap = a_bootstrap(refused())
        bootstrap.tried(0.0)
        bootstrap.state = state
        assert (bootstrap.complaint_due() < math.inf) is (state in told)


def test_an_answer_ends_every_state_that_waits_for_one() -> None:
    waiting = set(BootstrapState) - {BootstrapState.REACHED}
    assert all(TRANSITIONS[one][ANSWERED] is BootstrapState.REACHED for one in waiting)


@pytest.mark.parametrize(
    ("jitter", "order"), [(0.0, "abc"), (0.34, "bca"), (0.67, "cab"), (0.999, "cab")]
)
def test_chance_decides_who_is_first_and_the_others_follow_in_their_order(
    jitter: float, order: str
) -> None:
    bootstrap = a_bootstrap(None, None, None)
    bootstrap.begin_with(jitter)
    assert "".join(one.host for one in bootstrap) == order


def test_without_servers_nothing_is_chosen() -> None:
    bootstrap = a_bootstrap()
    bootstrap.begin_with(0.9)
    assert list(bootstrap) == []


def test_before_anybody_was_tried_there_is_nothing_to_tell() -> None:
    bootstrap = a_bootstrap(refused())
    assert not bootstrap.is_begun
    assert bootstrap.complaint_due() == math.inf


def test_hard_failures_of_all_are_told_after_two_seconds_and_silence_after_its_patience() -> None:
    hard, silent = a_bootstrap(refused(), refused()), a_bootstrap(refused(), timed_out())
    unanswered = a_bootstrap(refused(), None)
    for one in (hard, silent, unanswered):
        one.tried(10.0)
        one.tried(11.0)
    assert (hard.complaint_due(), silent.complaint_due(), unanswered.complaint_due()) == (
        12,
        40,
        40,
    )


def test_it_is_told_again_every_two_seconds() -> None:
    bootstrap = a_bootstrap(refused())
    bootstrap.tried(0.0)
    error = bootstrap.complain(5.0)
    assert error.attempts == {"a:9092": "Connection refused"}
    assert bootstrap.complaint_due() == 7.0
    assert bootstrap.state is BootstrapState.FAILED


def test_the_answer_after_a_complaint_is_told_once() -> None:
    bootstrap = a_bootstrap(refused())
    bootstrap.tried(0.0)
    bootstrap.complain(5.0)
    assert [bootstrap.answered(), bootstrap.answered()] == [True, False]
    assert bootstrap.complaint_due() == math.inf


def test_an_answer_without_a_complaint_is_not_told() -> None:
    bootstrap = a_bootstrap(None)
    bootstrap.tried(0.0)
    assert bootstrap.answered() is False
    assert not bootstrap.is_nobody_there


def test_who_was_reached_once_is_waited_for_quietly_though_the_servers_are_asked_again() -> None:
    bootstrap = a_bootstrap(refused())
    bootstrap.tried(0.0)
    bootstrap.answered()
    assert [bootstrap.on(ASKED), bootstrap.on(ASKED)] == [True, False], "it is begun once"
    assert bootstrap.complaint_due() == math.inf


def test_a_server_that_refuses_our_credentials_is_somebody() -> None:
    wrong = AuthenticationError(broker="a:9092", mechanism="PLAIN", reason="no")
    bootstrap = a_bootstrap(wrong, refused())
    bootstrap.tried(0.0)
    assert not bootstrap.is_nobody_there
    assert bootstrap.complaint_due() == math.inf


def test_what_was_not_answered_yet_is_said_as_such() -> None:
    bootstrap = a_bootstrap(None, refused())
    bootstrap.tried(0.0)
    error = bootstrap.error()
    assert error.attempts == {"a:9092": "no answer yet", "b:9092": "Connection refused"}
