"""The attempts to reach one broker: when the next one may be made."""

from __future__ import annotations

import math

import pytest
from kafka.errors import KafkaConnectionError

from aktor.actors.network.links import ConnectionAttempts, Link, LinkEvent
from aktor.actors.network.present import network_now
from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.present import Throttle

REFUSED = ConnectionRefusedError("nobody there")


def attempts_that_failed(times: int = 1) -> ConnectionAttempts:
    attempts = ConnectionAttempts(Backoff(1.0, 8.0))
    for _ in range(times):
        attempts.failed(10.0, 0.5, REFUSED)
    return attempts


def test_the_next_attempt_waits_for_the_backoff() -> None:
    assert ConnectionAttempts(Backoff(1.0, 8.0)).retry_at == -math.inf
    assert attempts_that_failed(1).retry_at == 11.0
    assert attempts_that_failed(3).retry_at == 14.0


def test_once_the_broker_has_answered_the_next_attempt_waits_for_nothing() -> None:
    attempts = attempts_that_failed(3)
    attempts.pause(60.0)

    attempts.succeeded()

    assert attempts.retry_at == -math.inf
    assert (attempts.failure, attempts.failing_since) == (None, None)


def test_at_another_address_the_next_attempt_waits_for_nothing() -> None:
    attempts = attempts_that_failed(3)

    attempts.begin_anew()

    assert attempts.retry_at == -math.inf
    assert attempts.failure is REFUSED


def test_if_a_wait_is_ended_the_failures_count_on() -> None:
    attempts = attempts_that_failed(3)

    attempts.end_wait(12.0)
    assert attempts.retry_at == 12.0
    assert attempts.failures == 3
    attempts.end_wait(13.0)
    assert attempts.retry_at == 12.0, "it is over already"

    attempts.failed(13.0, 0.5, REFUSED)
    assert attempts.retry_at == 21.0


def test_a_pause_stands_in_for_the_backoff_until_the_next_failure() -> None:
    attempts = attempts_that_failed()

    attempts.pause(60.0)
    assert attempts.retry_at == 60.0

    attempts.failed(60.0, 0.5, REFUSED)
    assert attempts.retry_at == 62.0


def test_failures_before_a_time_in_which_nobody_needed_the_broker_are_another_row() -> None:
    attempts = attempts_that_failed()

    attempts.begin(20.9)
    assert attempts.failing_since == 10.0

    attempts.begin(21.1)
    assert attempts.failing_since is None
    attempts.failed(21.2, 0.5, REFUSED)
    assert attempts.failing_since == 21.2


def test_of_two_links_the_one_that_nobody_has_needed_for_long_does_not_count() -> None:
    old, new = (Link(name, 1, "kafka-1", 9092, Backoff(1.0, 8.0)) for name in ("1", "1-fetch"))
    old.attempts.failed(10.0, 0.5, REFUSED)
    new.attempts.failed(60.0, 0.5, REFUSED)

    (shown,) = network_now([old, new], []).brokers.values()

    assert (shown.failing_since, shown.attempts, shown.retry_at) == (60.0, 1, 61.0)


def test_a_link_that_no_request_needs_is_not_the_next_attempt() -> None:
    """Both connections broke; only the one for Fetch is tried again since."""
    idle, tried = (Link(name, 1, "kafka-1", 9092, Backoff(1.0, 8.0)) for name in ("1", "1-fetch"))
    idle.attempts.failed(10.0, 0.5, REFUSED)
    tried.attempts.failed(10.0, 0.5, REFUSED)
    tried.attempts.failed(11.2, 0.5, REFUSED)

    (shown,) = network_now([idle, tried], []).brokers.values()

    assert (idle.attempts.retry_at, shown.retry_at) == (11.0, tried.attempts.retry_at)


def test_each_kind_of_connection_to_a_broker_is_throttled_for_itself() -> None:
    ordinary, fetch, own = (
        Link(name, 1, "kafka-1", 9092, Backoff(1.0, 8.0)) for name in ("1", "1-fetch", "own")
    )
    own.answered(10.0, 4.0)
    own.answered(11.0, 4.0)

    now = network_now([own, ordinary, fetch], [], fetching=[fetch], to_coordinator=[own])

    assert now.brokers[1].group_throttle == Throttle(since=10.0, until=15.0)
    assert now.brokers[1].fetch_throttle == now.brokers[1].throttle == Throttle()


def test_nothing_is_guessed_of_the_listener_of_a_broker_that_has_answered_on_another_link() -> None:
    fetch, own = (Link(name, 1, "kafka-1", 9092, Backoff(1.0, 8.0)) for name in ("f", "own"))
    own.heard.note(9.0)
    text = "broker kafka-1: it hung up; its listener seems to expect a login (SASL). It is so"
    fetch.attempts.failed(10.0, 0.5, KafkaConnectionError(text))

    (shown,) = network_now([own, fetch], []).brokers.values()

    assert shown.error == "it hung up"


def test_what_the_bootstrap_server_at_its_address_has_answered_a_broker_has_answered() -> None:
    link = Link("1", 1, "a", 9092, Backoff(1.0, 8.0))
    server = Link("boot", -1, "a", 9092, Backoff(1.0, 8.0))
    other = Link("boot2", -2, "b", 9092, Backoff(1.0, 8.0))
    server.heard.note(7.0)
    other.heard.note(9.0)

    (shown,) = network_now([link], [server, other]).brokers.values()

    assert shown.heard_at == 7.0


def test_a_link_that_took_over_a_connection_which_answers_forgets_its_own_failures() -> None:
    """A broker's own link has failed, and takes over the connection of the bootstrap server at the
    same address. When that is closed because it was idle, the link may connect again at once."""
    link, server = (Link("1", node, "a", 9092, Backoff(1.0, 8.0)) for node in (1, -1))
    link.begin("1#1", 10.0)
    link.on(LinkEvent.FAILED)
    link.attempts.failed(10.0, 0.5, REFUSED)
    server.begin("-1#1", 10.0)
    server.opened(10.0)
    link.adopt(server)
    link.prove(10.0)
    assert link.connect_at == NEVER

    link.on(LinkEvent.DROPPED)

    assert link.connect_at == -math.inf


@pytest.mark.parametrize("has_answered", [False, True])
def test_how_a_connection_ended_is_shown_and_a_guess_only_if_the_broker_never_answered(
    has_answered: bool,
) -> None:
    link = Link("1", 1, "kafka-1", 9092, Backoff(1.0, 8.0))
    if has_answered:
        link.heard.note(9.0)
    text = "broker kafka-1: it hung up; its listener seems to expect a login (SASL). It is so"
    link.attempts.failed(10.0, 0.5, KafkaConnectionError(text), proven=has_answered)

    (shown,) = network_now([link], []).brokers.values()

    assert shown.error == "it hung up" + ("" if has_answered else text.partition("hung up")[2])
    assert (link.attempts.failure is None) is has_answered
