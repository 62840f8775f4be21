"""The checks of `pace` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.simulation.checks import pace
from tests.unit.simulation.checks.builders import (
    COORDINATED,
    HELD_BACK,
    OWNED,
    Check,
    Step,
    Story,
    back,
    given,
    history,
    later,
    request,
    written,
)


def hindered(how: str = "FailWith", code: str = "") -> Step:
    return "x", "request.hindered", {"api": "JoinGroup", "broker": 1, "how": how, "code": code}


def asks(event: str) -> Step:
    return "x", f"request.{event}", {"api": "JoinGroup", "node": 1}


def refused(waits: float, code: str = "") -> Story:
    """A broker refuses a JoinGroup, which is repeated so many seconds later."""
    return [
        hindered(code=code),
        asks("answered"),
        later(waits - 2.0),
        asks("sent"),
        asks("answered"),
    ]


DELAYED: Step = ("x", "rebalance.delayed", {})


def hits(what: str, which: Any) -> Story:
    """A fault that hits only this."""
    began = "", "fault.began", {"number": 1, "kind": "loss"}
    return [began, ("", "fault.hits", {"number": 1, what: [which]})]


LED: Step = "", "partition.led", {"partition": "a-0", "broker": 1}

HEARTBEAT_FAILED = ("x", "heartbeat.failed", {"because": "ILLEGAL_GENERATION"})

STARTED = ("x", "consumer.made", {"fetch_max_wait_ms": 500, "retry_backoff_ms": 100})

#: Who is looked at has each broker asked, once a second, where logs end.
ENDS: Story = [
    step
    for node in (1, 2, 3)
    for step in (later(-2.0), ("x", "request.sent", {"api": "ListOffsets", "node": node}))
]

LOOKS = ("x", "request.sent", {"api": "Metadata", "node": 1})

FETCHES = ("x", "request.sent", {"api": "Fetch", "node": 1})

REBALANCES = ("x", "rebalance.triggered", {})

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        pace.a_poll_gives_what_there_is,
        [("x", "records.passed_over", {"partitions": ["a-0"]})],
        "was given nothing of ['a-0'], which is here",
    ),
    (pace.an_idle_consumer_is_idle, [later(-2.0), request("x", "sent")] * 37, "in a second"),
    (
        pace.an_idle_consumer_is_idle,
        [later(-3.0), REBALANCES, request("x", "sent")] * 90,
        "in a second",
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), ("x", "user.looks_up", {"what": "topics"})] * 2
        + [later(-2.0), request("x", "sent")] * 53,
        "in a second",
    ),
    (
        pace.an_idle_consumer_is_idle,
        [*[later(-2.0), request("x", "sent")] * 11, later(1.0)] * 5,
        "in half of 5 seconds in which a consumer gave nothing out it sent 11 requests more",
    ),
    (pace.who_owns_records_gives_them_out, [*OWNED, later(70)], "gave nothing of a-0:5 out"),
    *[
        (
            pace.who_owns_records_gives_them_out,
            [*OWNED, LED, COORDINATED, *hits(what, which), later(15)],
            "gave nothing of a-0:5 out",
        )
        for what, which in [("members", "y"), ("partitions", "a-1"), ("brokers", 3)]
    ],
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, DELAYED, DELAYED, ("x", "rebalance.completed", {}), *refused(1.5) * 5],
        "no quarter of them before 1.500 s, the backoff is 0.100 s",
    ),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, *refused(0.0) * 5],
        "half of them before 0.000",
    ),
    (
        pace.a_quiet_consumer_asks_as_often_as_it_must,
        [STARTED, later(8.2), *([later(-1.9), FETCHES] * 4 + [later(0.6)]) * 6],
        "sent 2 requests Fetch more to a broker than must be",
    ),
    (
        pace.a_quiet_consumer_asks_as_often_as_it_must,
        [STARTED, later(8.9), *[later(-1.9), LOOKS] * 4],
        "sent 4 requests Metadata to broker 1",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (
        pace.an_idle_consumer_is_idle,
        [request("x", "sent"), *[later(-2.0), request("x", "sent")] * 9, *ENDS] * 6,
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), written(0, 0)] * 9 + [later(-2.0), request("x", "sent")] * 45,
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), ("x", "user.looks_up", {"what": "topics"})] * 2
        + [later(-2.0), request("x", "sent")] * 52,
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-3.0), REBALANCES, *[later(-2.0), request("x", "sent")] * 40],
    ),
    *[
        (
            pace.who_owns_records_gives_them_out,
            [*OWNED, LED, COORDINATED, *hits(what, which), later(70)],
        )
        for what, which in [("members", "x"), ("partitions", "a-0"), ("brokers", 1), ("brokers", 2)]
    ],
    (
        pace.who_owns_records_gives_them_out,
        [*OWNED, LED, ("x", "request.hindered", {"broker": 1, "how": "Swallow"}), later(40)],
    ),
    (pace.who_owns_records_gives_them_out, [*OWNED, HELD_BACK, later(70)]),
    (pace.requests_are_repeated_at_their_pace, [STARTED, *refused(0.1) * 3, *refused(15.0) * 6]),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, *refused(1.5, "GROUP_AUTHORIZATION_FAILED") * 5],
    ),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, DELAYED, DELAYED, *refused(1.5) * 5],
    ),
    *[
        (
            pace.a_quiet_consumer_asks_as_often_as_it_must,
            [STARTED, later(8.9), *[later(-1.9), LOOKS] * 4, later(-1.9), stirs],
        )
        for stirs in (written(0, 0), given("x", 0, 0), REBALANCES, hindered(), HEARTBEAT_FAILED)
    ],
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(pace.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []


@pytest.mark.parametrize(
    "hindrance",
    [
        ("", "fault.began", {"number": 1}),
        ("x", "member.frozen", {}),
        ("x", "partitions.paused", {"partitions": ["a-0"]}),
        ("x", "consumer.closed", {}),
        ("", "topic.forbidden", {"topic": "a"}),
    ],
)
def test_who_is_hindered_need_not_give_records_out(hindrance: tuple[str, str, Any]) -> None:
    assert pace.who_owns_records_gives_them_out(history(*OWNED, hindrance, later(100))) == []


def test_a_partition_that_starves_is_found_though_others_are_read() -> None:
    other = ("x", "records.delivered", {"partition": "b-0", "offsets": [[0, 0]]})
    busy = [step for _ in range(8) for step in (later(10), other, back("x"))]

    found = pace.who_owns_records_gives_them_out(history(*OWNED, *busy))

    assert "gave nothing of a-0:5 out" in found[0]


@pytest.mark.parametrize(
    "error", ["TopicAuthorizationFailedError({'b'})", "CorruptBatchError('b-0 at offset 7')"]
)
def test_a_partition_that_starves_is_found_though_another_cannot_be_read(error: str) -> None:
    heard = "x", "user.hears", {"error": error}
    busy = [step for _ in range(8) for step in (later(10), heard)]
    fault = ("", "fault.began", {"number": 1}), ("", "fault.hits", {"number": 1, "topics": ["b"]})

    for began in ([("", "topic.forbidden", {"topic": "b"})], fault):
        (found,) = pace.who_owns_records_gives_them_out(history(*OWNED, *began, *busy))
        assert "gave nothing of a-0:5 out" in found
