"""Commits that fail."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.events.present import (
    CommitsFail,
    CommitsNow,
)
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    a_dead_broker,
    a_picture,
    an_application,
    network,
    seen,
    wrong,
)


def failing(since: float, *, at: float, attempts: int, error: str) -> CommitsNow:
    return CommitsNow(
        fail=CommitsFail(since=NOW - since, at=NOW - at, attempts=attempts, error=error)
    )


def test_commits_that_fail_are_told_after_what_keeps_records_back_and_in_a_sentence() -> None:
    error = "[Error 29] TopicAuthorizationFailedError: topic 'orders'\nand more."
    fail = failing(12.0, at=0.4, attempts=5, error=error)
    told = (
        "Commits have failed for 12.0 s (5 attempts, the last 0.4 s ago):"
        " TopicAuthorizationFailedError: topic 'orders'."
    )

    idle = a_picture(commits=fail)
    behind = {T0: seen(lag=3, buffered=9, records=3)}
    late = a_picture(
        commits=fail, application=an_application(polled_at=NOW - 3.0), partitions=behind
    )
    down = a_picture(commits=fail, network=network(a_dead_broker(1), a_dead_broker(2)))

    assert sentence.why(idle).startswith("There is nothing new: ")
    assert sentence.why(late).startswith("Nothing is delivered: the application has not polled ")
    assert sentence.why(down).startswith("Nothing is delivered: no broker has been reachable ")
    for p in (idle, late, down):
        assert sentence.why(p).endswith(f". {told}")
    assert wrong(idle).startswith("commits have failed for 12.0 s")
    assert wrong(down).startswith("no broker has been reachable")
    assert of_consumer(idle) is None


def test_one_commit_that_failed_says_when_and_a_long_error_is_cut() -> None:
    once = a_picture(commits=failing(7.0, at=7.0, attempts=1, error="it is full. " * 50))

    told = sentence.why(once).partition("A commit failed 7.0 s ago: ")[2]
    assert told.startswith("it is full.")
    assert told.endswith(" ...")
    assert len(told) <= 240


@pytest.mark.parametrize("said", [{"forked": True}, {"commits": None}, {"since": 0.5}])
def test_commits_that_fail_are_not_told_of_a_parent_nor_within_a_second(
    said: dict[str, Any],
) -> None:
    fail = failing(said.pop("since", 12.0), at=0.1, attempts=2, error="it is full")

    assert "ommit" not in sentence.why(a_picture(**{"commits": fail, **said}))
