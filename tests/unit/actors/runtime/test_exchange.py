"""One outstanding request: when it may be sent again, and whose answer counts."""

from __future__ import annotations

import math

from aktor.actors.runtime.exchange import Exchange
from aktor.settings import Settings


def an_exchange() -> Exchange:
    return Exchange(Settings(retry_backoff=0.1, retry_backoff_max=1.0, request_timeout=30.0))


def test_the_first_attempt_may_be_made_at_once_and_the_next_not_while_it_is_in_flight() -> None:
    exchange = an_exchange()
    assert exchange.due == -math.inf

    exchange.sent()

    assert exchange.due == math.inf


def test_after_a_failure_the_next_attempt_waits_for_the_backoff_which_doubles() -> None:
    exchange = an_exchange()
    waits = []
    for _ in range(6):
        exchange.sent()
        waits.append(round(exchange.failed(5.0, 0.5) - 5.0, 9))

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert exchange.due == 6.0
    assert exchange.failures == 6


def test_an_answer_ends_the_backoff() -> None:
    exchange = an_exchange()
    exchange.failed(5.0, 0.5)
    exchange.sent()

    exchange.answered()

    assert (exchange.due, exchange.failures) == (-math.inf, 0)


def test_an_attempt_that_ended_without_an_outcome_leaves_the_backoff_as_it_was() -> None:
    exchange = an_exchange()
    exchange.failed(5.0, 0.5)
    exchange.sent()

    exchange.ended()

    assert exchange.due == 5.1


def test_the_answer_to_an_attempt_that_was_given_up_does_not_count() -> None:
    exchange = an_exchange()
    first = exchange.sent()
    exchange.abandon()
    second = exchange.sent()

    assert not exchange.expects(first)
    assert exchange.expects(second)
    exchange.ended()
    assert not exchange.expects(second)


def test_the_time_that_an_attempt_may_take_doubles_up_to_the_request_timeout() -> None:
    exchange = an_exchange()
    patience = []
    for _ in range(5):
        patience.append(exchange.patience(3.0))
        exchange.failed(0.0, 0.5)

    assert patience == [3.0, 6.0, 12.0, 24.0, 30.0]
