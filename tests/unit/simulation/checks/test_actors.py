"""The checks of `actors` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import actors
from tests.unit.simulation.checks.builders import Check, Step, Story, history, later, restarted


def crashed(error: str) -> Step:
    return "x", "actor.crashed", {"child": "fetch", "message_type": "Tick", "because": error}


#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (actors.no_message_vanishes, [("x", "message.dropped", {"because": "unknown"})], "unknown"),
    (actors.no_actor_crashes_by_itself, [crashed("KeyError: 2")], "KeyError: 2"),
    (actors.restart_budgets_are_kept, [restarted("group")] * 6, "group 6 times"),
    (
        actors.restart_budgets_are_kept,
        [
            *[restarted("group")] * 5,
            ("x", "actor.escalated", {"child": "group"}),
            restarted("group"),
        ],
        "after it gave up",
    ),
    (
        actors.restart_budgets_are_kept,
        [*[restarted("group")] * 5, later(61), ("x", "actor.escalated", {"child": "group"})],
        "gave group up too soon",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (actors.no_actor_crashes_by_itself, [crashed("Crash: fetch on Tick")]),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(actors.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []


def test_a_restart_after_a_minute_by_the_members_own_clock_is_within_its_budget() -> None:
    jump = ("x", "clock.jumped", {"seconds": 60.0})

    assert actors.restart_budgets_are_kept(history(*[restarted("group")] * 5, later(61))) == []
    assert (
        actors.restart_budgets_are_kept(
            history(*[restarted("group")] * 5, jump, restarted("group"))
        )
        == []
    )
