"""The checks of `automatic_commits` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import automatic_commits
from tests.unit.simulation.checks.builders import (
    COORDINATED,
    FOUND_AT_8,
    FROZEN,
    PAUSED,
    UNANSWERED,
    Check,
    Step,
    Story,
    assigned,
    back,
    given,
    history,
    later,
    released,
    restarted,
    sought,
    to_commit,
)


def polls(seconds: float) -> Step:
    """The user has done nothing but poll for so long."""
    return "x", "loop.polled", {"seconds": seconds}


#: One with an automatic commit each minute, whose user has come back from what is before offset 5.
EACH_MINUTE = {"enable_auto_commit": True, "group_id": "g", "auto_commit_interval_ms": 60_000}

OWES_5 = [
    ("x", "consumer.made", EACH_MINUTE),
    *(COORDINATED, assigned("x"), given("x", 0, 4), back("x")),
]

LONG = later(300)

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    *[
        (
            automatic_commits.automatic_commits_are_not_late,
            [*OWES_5, *story, polls(300)],
            "did not commit a-0:5 from",
        )
        for story in [
            [later(61)],
            [later(61), to_commit("x", 5, "auto")],
            [PAUSED, later(61)],
            [to_commit("x", 4, "asked"), UNANSWERED, later(61)],
            [given("x", 5, 7), back("x"), later(61), to_commit("x", 8, "auto")],
            [("x", "coordinator.lost", {}), COORDINATED, later(61)],
            [restarted("commits"), later(130)],  # a full interval, and no commit in flight
        ]
    ],
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    *[
        (automatic_commits.automatic_commits_are_not_late, [*OWES_5, *story])
        for story in [
            [later(50), polls(300)],
            [later(50), to_commit("x", 5, "auto"), later(50), polls(300)],
            [later(100), polls(50)],  # the user was away before
            [later(50), ("x", "commit.retried", {"wait_ms": 20_000}), later(50), polls(300)],
            [later(50), ("x", "commit.failed", {}), later(50), polls(300)],
            [later(50), restarted("commits"), later(100), polls(300)],
            [sought("x", 0), given("x", 0, 4), later(100), polls(300)],
            [  # storm 5200285: offset 7 is a marker, which is passed over
                *(released("x"), assigned("x"), FOUND_AT_8, sought("x", 0), given("x", 0, 6)),
                *(back("x"), later(100), polls(300)),
            ],
            [
                to_commit("x", 5, "auto"),
                sought("x", 3),
                given("x", 3, 4),
                back("x"),
                LONG,
                polls(400),
            ],
        ]
    ],
    *[
        (automatic_commits.automatic_commits_are_not_late, [*OWES_5, step, later(300), polls(400)])
        for step in [
            FROZEN,
            to_commit("x", 4, "auto"),  # its answer is not there yet
            ("", "fault.began", {"number": 1}),
            ("x", "coordinator.lost", {}),
            ("x", "membership.moved", {"after": "joining"}),
            ("x", "user.commits", {"partitions": ["a-0"], "future": 0}),
            ("x", "user.leaves", {}),
            ("", "topic.removed", {"topic": "a"}),
            sought("x", 0),
            released("x"),
            to_commit("x", 5, "asked"),
        ]
    ],
    (automatic_commits.automatic_commits_are_not_late, [*OWES_5[:-1], later(300), polls(400)]),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(automatic_commits.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
