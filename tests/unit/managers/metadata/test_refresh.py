"""When the snapshot of the cluster is asked for again, and why: the two are of the same reason."""

from __future__ import annotations

import math

from aktor.managers.metadata.refresh import Refresh
from aktor.settings import Settings


def refreshing(answered_at: float = 10.0) -> Refresh:
    """A snapshot that was answered then; it is old after 100 s, and the backoff is 1 s."""
    settings = Settings(metadata_max_age=100.0, retry_backoff=1.0, retry_backoff_max=1.0)
    return Refresh(settings, answered_at=answered_at)


def next_of(refresh: Refresh) -> tuple[float, str]:
    return refresh.due, refresh.because


def test_a_snapshot_is_asked_for_at_the_start_and_when_it_is_old() -> None:
    assert next_of(refreshing(-math.inf)) == (-math.inf, "the consumer starts")
    assert next_of(refreshing()) == (110.0, "the snapshot is old")


def test_what_is_stale_is_asked_for_after_the_backoff_and_what_is_new_at_once() -> None:
    refresh = refreshing()

    refresh.soon("not the leader")
    stale = next_of(refresh)
    refresh.at_once("new topics are tracked")

    assert stale == (11.0, "not the leader")
    assert next_of(refresh) == (-math.inf, "new topics are tracked")


def test_at_the_start_the_topics_are_the_reason_that_is_told() -> None:
    refresh = refreshing(-math.inf)
    refresh.at_once("new topics are tracked")

    assert next_of(refresh) == (-math.inf, "new topics are tracked")


def test_the_first_of_several_reasons_is_told() -> None:
    refresh = refreshing()
    refresh.lacks_something(True)
    refresh.back_off(9.0, 0.5)
    refresh.soon("not the leader")

    assert next_of(refresh) == (10.0, "a topic is unknown or a partition has no leader")


def test_after_a_failure_the_backoff_counts_and_is_the_reason_even_if_topics_are_new() -> None:
    refresh = refreshing()
    refresh.sent()
    refresh.exchange.failed(20.0, 0.5)

    refresh.at_once("new topics are tracked")

    assert next_of(refresh) == (21.0, "the last request failed")


def test_one_request_is_in_flight_at_a_time() -> None:
    refresh = refreshing()
    refresh.sent()

    refresh.at_once("new topics are tracked")

    assert refresh.due == math.inf
