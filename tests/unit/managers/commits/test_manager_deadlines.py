"""The commit manager: deadlines."""

from __future__ import annotations

import math

import pytest
from kafka.errors import KafkaTimeoutError

from aktor.events.answers import Answered
from aktor.events.commits import OffsetsCommitted
from aktor.events.coordinator import CoordinatorLost, CoordinatorMissing
from aktor.events.metadata import Broker
from aktor.managers.commits.errors import Coordinator, Waited
from tests.unit.managers.commits.builders import (
    LOAD_IN_PROGRESS,
    T0,
    T1,
    answer,
    asked_to_commit,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    found,
    offsets,
    said_to_all,
    succeed,
    tick,
)


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


def test_the_stored_offsets_are_said_once_for_each_answer_and_before_the_outcomes() -> None:
    """Of asynchronous commits that share a request the last offset of a partition is stored."""
    manager = committing(T0, T1)
    manager.handle(commit_async({T0: 5, T1: 1}, ticket=1))
    manager.handle(commit_async({T0: 6}, ticket=2))
    request = tick(manager, 0.0).request

    said = said_to_all(manager, request, committed(request))

    assert said == [
        OffsetsCommitted(offsets=offsets({T0: 6, T1: 1})),
        Answered(ticket=1),
        Answered(ticket=2),
    ]


def test_nothing_is_said_of_offsets_that_are_not_stored() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 5}))
    request = tick(manager, 0.0).request

    assert said_to_all(manager, request, committed(request, LOAD_IN_PROGRESS)) == []


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
