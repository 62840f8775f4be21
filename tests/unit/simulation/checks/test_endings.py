"""The checks of `endings` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import endings
from tests.unit.simulation.checks.builders import (
    A_LONG_TIME,
    FROZEN,
    HELD_BACK,
    OUT_OF_RANGE,
    OWNED,
    PAUSED,
    RESUMED,
    THAWED,
    Check,
    Step,
    Story,
    assigned,
    called_back,
    given,
    history,
    interrupted,
    later,
    released,
    request,
    seen,
    sought,
    starts,
)


def polled(error: str | None = None) -> Step:
    return "x", "user.polled", {"error": error}


def starting(policy: str) -> Step:
    """A consumer with this `auto_offset_reset`."""
    member, event, values = starts(None)
    return member, event, {**values, "auto_offset_reset": policy}


def future(event: str) -> Step:
    """Something becomes of an asynchronous commit."""
    return "x", event, {"future": 0}


def closed() -> Step:
    return "x", "consumer.closed", {"questions": 0}


def looks(event: str) -> Step:
    return "x", f"request.{event}", {"api": "FindCoordinator", "request": 1}


def late(member: str, took: float, allowed: float) -> Step:
    return member, "call.late", {"call": "poll", "took": took, "allowed": allowed}


REFUSED_AT_5: Step = (
    "x",
    "fetch.refused",
    {"partition": "a-0", "offset": 5, "because": "TopicAuthorizationFailedError: a"},
)

NO_RIGHT: Step = (
    "x",
    "position.failed",
    {"partitions": ["a-0"], "because": "GroupAuthorizationFailedError: [Error 30] no"},
)

NO_POSITION: Step = (
    "x",
    "position.failed",
    {"partitions": ["a-0"], "because": "NoOffsetForPartitionError"},
)

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        endings.every_question_ends,
        [seen(questions=[3]), later(80), seen(questions=[3])],
        "asked question 3 by 0.000",
    ),
    (
        endings.every_question_ends,
        [("x", "consumer.closed", {"questions": 1})],
        "closed with 1 open questions",
    ),
    (
        endings.every_question_ends,
        [("x", "question.forgotten", {"actor": "commits"})],
        "waits for commits, which was restarted",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, PAUSED, RESUMED, REFUSED_AT_5, polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, interrupted("_collect"), polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [starting("none"), *OWNED, OUT_OF_RANGE, polled(), polled(), polled()],
        "polled 3 times since fetch.stopped of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [assigned("x"), NO_POSITION, polled(), polled(), polled()],
        "polled 3 times since position.failed of a-0",
    ),
    *[
        (
            endings.errors_that_are_due_are_raised,
            [assigned("x"), *before, polled(), polled(), polled()],
            "polled 3 times since position.failed of a-0",
        )
        for before in (
            [polled("TopicAuthorizationFailedError"), NO_RIGHT],
            [polled("GroupAuthorizationFailedError"), later(1.1), NO_RIGHT],
            [polled("NoOffsetForPartitionError"), NO_POSITION],
        )
    ],
    (endings.calls_end_in_time, [late("x", 2.3, 0.2)], "waited 2.300 s for poll"),
    (endings.every_request_ends_once, [request("x", "answered")], "unasked"),
    (
        endings.every_request_ends_once,
        [request("x", "sent"), request("x", "answered"), request("x", "answered")],
        "answered twice",
    ),
    (
        endings.a_look_for_the_coordinator_is_short,
        [looks("sent"), later(5), looks("answered")],
        "s for FindCoordinator",
    ),
    (endings.every_request_ends_once, [request("x", "sent"), later(100)], "never ended"),
    (
        endings.every_future_ends_once,
        [future("future.given"), future("future.ended"), closed()],
        "never called the callback of future 0",
    ),
    (
        endings.every_future_ends_once,
        [future("future.given"), future("future.ended"), *[called_back()] * 2],
        "callback of future 0 called twice",
    ),
    (endings.every_future_ends_once, [("x", "future.given", {"future": 0}), later(100)], "never"),
    (
        endings.every_future_ends_once,
        [("x", "future.given", {"future": 0}), *[("x", "future.ended", {"future": 0})] * 2],
        "ended twice",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (endings.a_look_for_the_coordinator_is_short, [looks("sent"), later(3), looks("failed")]),
    # Seed 5300051, consumer: a part of the answer had come.
    (endings.a_look_for_the_coordinator_is_short, [looks("sent"), later(4), looks("failed")]),
    (
        endings.a_look_for_the_coordinator_is_short,
        [looks("sent"), later(6), ("x", "member.thawed", {}), looks("answered")],
    ),
    (endings.every_question_ends, [seen(questions=[3]), later(80), seen(questions=[4])]),
    *(
        (endings.every_future_ends_once, [*events, closed()])
        for events in (
            (future("future.given"), future("future.ended"), called_back()),
            (called_back(), future("future.given"), future("future.ended")),
        )
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, polled(), polled(), polled("TopicAuthorizationFailedError")]
        + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, ("x", "user.hears", {"error": "TopicAuthorizationFailedError()"})]
        + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [starting("earliest"), *OWNED, OUT_OF_RANGE, polled(), polled(), polled()],
    ),
    (
        endings.errors_that_are_due_are_raised,
        [assigned("x"), polled("GroupAuthorizationFailedError"), NO_RIGHT] + [polled()] * 3,
    ),
    *[
        (
            endings.errors_that_are_due_are_raised,
            [*OWNED, REFUSED_AT_5, over, polled(), polled(), polled()],
        )
        for over in (sought("x", 7), HELD_BACK, PAUSED, released("x"))
    ],
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, PAUSED, sought("x", 5), REFUSED_AT_5] + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, interrupted("__next__")] + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED[:4], REFUSED_AT_5, polled(), polled(), polled(), given("x", 0, 4)],
    ),
    (
        endings.calls_end_in_time,
        [FROZEN, *A_LONG_TIME, THAWED, late("x", 31.0, 0.2)],
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(endings.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
