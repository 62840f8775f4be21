"""The commit manager shows which commits failed, and were not made good."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.events.present import CommitsFail, CommitsNow
from aktor.managers.commits.manager import CommitManager
from tests.unit.managers.commits.builders import (
    LOAD_IN_PROGRESS,
    T0,
    T1,
    answer,
    assigned,
    commit,
    commit_async,
    committed,
    committing,
    succeed,
    tick,
)

#: TOPIC_AUTHORIZATION_FAILED
FORBIDDEN = 29


def shown(manager: CommitManager) -> CommitsFail | None:
    return manager.present.fail if isinstance(manager.present, CommitsNow) else None


def commits(manager: CommitManager, values: Any, codes: Any, now: float) -> None:
    """A commit of these is answered with these codes."""
    manager.handle(commit_async(values))
    request = tick(manager, now).request
    answer(manager, request, committed(request, codes), now=now)
    tick(manager, now)


def test_commits_that_are_refused_are_counted_until_one_is_stored() -> None:
    manager = committing(T0)

    commits(manager, {T0: 10}, FORBIDDEN, now=1.0)
    commits(manager, {T0: 20}, FORBIDDEN, now=5.0)

    fail = shown(manager)
    assert fail is not None
    assert (fail.since, fail.at, fail.attempts) == (1.0, 5.0, 2)
    assert "TopicAuthorizationFailedError" in fail.error
    tick(manager, 9.0)
    assert shown(manager) == fail

    commits(manager, {T0: 30}, 0, now=10.0)
    assert shown(manager) is None

    commits(manager, {T0: 40}, FORBIDDEN, now=20.0)
    again = shown(manager)
    assert again is not None
    assert (again.since, again.at, again.attempts) == (20.0, 20.0, 1)


def test_what_a_commit_stores_of_one_topic_does_not_hide_what_is_refused_of_another() -> None:
    manager = committing(T0, T1)

    for now in (1.0, 2.0, 3.0):
        commits(manager, {T0: 10, T1: 10}, {T1: FORBIDDEN}, now=now)
        commits(manager, {T0: 10}, 0, now=now)

    fail = shown(manager)
    assert fail is not None
    assert (fail.since, fail.at, fail.attempts) == (1.0, 3.0, 3)
    assert "t-1" in fail.error or "'t'" in fail.error


def test_a_commit_that_is_sent_again_counts_its_attempts_and_is_made_good() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    turn = tick(manager, 1.0)
    answer(manager, turn.request, committed(turn.request, LOAD_IN_PROGRESS), now=1.0)
    tick(manager, 1.0)

    fail = shown(manager)
    assert fail is not None
    assert fail.attempts == 1

    succeed(manager, tick(manager, 3.0), now=3.0)
    tick(manager, 3.0)
    assert shown(manager) is None


def test_a_commit_that_ends_at_its_deadline_without_an_attempt_is_a_failure() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit({T0: 10}, deadline=5.0))
    tick(manager, 0.0)

    tick(manager, 5.0)

    fail = shown(manager)
    assert fail is not None
    assert (fail.since, fail.attempts) == (5.0, 1)


@pytest.mark.parametrize(("left", "told"), [((), False), ((T0,), True), ((T1,), False)])
def test_of_partitions_that_are_given_up_no_failure_is_told(left: Any, told: bool) -> None:
    manager = committing(T0)
    commits(manager, {T0: 10}, FORBIDDEN, now=1.0)

    manager.handle(assigned(*left))
    tick(manager, 2.0)

    assert (shown(manager) is not None) is told


def test_a_commit_of_partitions_that_are_gone_is_no_failure_that_lasts() -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 10}))
    turn = tick(manager, 1.0)
    manager.handle(assigned())

    answer(manager, turn.request, committed(turn.request, FORBIDDEN), now=2.0)
    tick(manager, 2.0)

    assert shown(manager) is None
