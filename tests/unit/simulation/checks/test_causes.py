"""The check of `causes` complains of a promise that is broken, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.simulation.checks import causes
from aktor.simulation.history import History
from tests.unit.simulation.checks.builders import Step, Story, history

JOIN = {"api": "JoinGroup"}
ASKED = {"kind": "asked", "attempts": 1}


def commits(future: int | None = None) -> Step:
    return "x", "user.commits", {"future": future}


def is_over(future: int) -> Step:
    return "x", "commit.told", {"future": future}


def told(name: str, seq: int, cause: int | None = None, **values: Any) -> Step:
    led = {} if cause is None else {"cause": cause}
    return "x", name, {"seq": seq, **led, **values}


def complaints(*story: Step) -> list[str]:
    told: History = history(*story)
    return [said for check in causes.CHECKS for said in check(told)]


BROKEN: list[tuple[Story, str]] = [
    (
        [
            told("request.sent", 1, api="Heartbeat"),
            told("chunk.dropped", 2, because="the partition has moved on"),
            told("request.sent", 3, 2, **JOIN),
        ],
        "request.sent was led to by chunk.dropped",
    ),
    (
        [told("records.taken_back", 1), told("membership.moved", 2, 1)],
        "membership.moved was led to by records.taken_back",
    ),
    (
        [told("records.delivered", 1), told("request.sent", 2, 1, api="ConsumerGroupHeartbeat")],
        "request.sent was led to by records.delivered",
    ),
    (
        [told("commit.succeeded", 1), commits(), told("commit.sent", 2, 1, **ASKED)],
        "a commit was led to by commit.succeeded, before it",
    ),
    (
        [
            commits(7),
            told("position.sought", 1),
            is_over(7),
            commits(8),
            commits(),
            told("commit.sent", 2, 1, **ASKED),
        ],
        "a commit was led to by position.sought, before it",
    ),
    (
        [
            told("rebalance.triggered", 1),
            told("partitions.revoking", 2, 1, actor="application"),
            told("rebalance.triggered", 3),
            commits(),
            told("commit.sent", 4, 3, **ASKED),
        ],
        "a commit was led to by rebalance.triggered, before it",
    ),
]

FORGIVEN: list[Story] = [
    [told("request.sent", 1, api="Heartbeat"), told("request.sent", 2, 1, **JOIN)],
    [told("request.sent", 3, 1, **JOIN)],  # what led to it is missing
    [
        told("chunk.dropped", 1, because="it does not continue where the last one ended"),
        told("request.sent", 2, 1, api="Fetch"),
    ],
    [commits(), told("coordinator.found", 1), told("commit.sent", 2, 1, **ASKED)],
    [commits(7), told("commit.succeeded", 1), commits(), told("commit.sent", 2, 1, **ASKED)],
    [told("commit.retried", 1), commits(), told("commit.sent", 2, 1, kind="asked", attempts=2)],
    [told("commit.succeeded", 1), commits(), told("commit.sent", 2, 1, kind="auto", attempts=1)],
    [
        told("membership.moved", 1),
        told("partitions.revoking", 2, 1, actor="application"),
        commits(),  # in the listener
        told("commit.sent", 3, 2, **ASKED),
    ],
    [
        told("rebalance.triggered", 1),
        told("membership.moved", 2, 1),
        told("partitions.revoking", 3, 2, actor="application"),
        commits(),  # in the listener; and the manager is told of the rebalance before it acts
        told("commit.sent", 4, 1, **ASKED),
    ],
    [told("commit.succeeded", 1), told("commit.sent", 2, 1, **ASKED)],  # who asked is not known
    [told("records.delivered", 1), ("y", "request.sent", {"seq": 2, "cause": 1, **JOIN})],
]


@pytest.mark.parametrize(("story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(story: Story, complaint: str) -> None:
    assert any(complaint in one for one in complaints(*story))


@pytest.mark.parametrize("story", FORGIVEN)
def test_what_keeps_the_promise_is_not_complained_about(story: Story) -> None:
    assert complaints(*story) == []
