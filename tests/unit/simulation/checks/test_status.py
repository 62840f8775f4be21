"""The checks of `status` complain of what is not true, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import status
from tests.unit.simulation.checks.builders import (
    Check,
    Step,
    Story,
    assigned,
    history,
    later,
    starts,
    written,
)

#: The reader owns a partition, and has come to offset 5; more records are written.
BEHIND: Story = [
    starts(None),
    assigned("x"),
    ("x", "position.resolved", {"partitions": {"a-0": 5}}),
    written(5, 6),
]

#: No fault of before is felt any more.
LONG_AFTER: Step = later(60)

FAULT: Step = ("", "fault.began", {"number": 1})
HITS_2: Step = ("", "fault.hits", {"number": 1, "brokers": [2]})
GIVEN: Step = ("x", "records.delivered", {"partition": "a-0", "offsets": [[5, 6]]})
PAUSED: Step = ("x", "partitions.paused", {"partitions": ["a-0"]})

FROZEN: Step = ("x", "member.frozen", {})


def thawed(*, asleep: bool = False) -> Step:
    return "x", "member.thawed", {"asleep": asleep}


def stood_still(seconds: float) -> Step:
    return "x", "process.stood_still", {"seconds": seconds}


STALLED: Step = ("x", "delivery.stalled", {"partition": "a-0", "reason": "callback"})

#: What the consumer says if it blames a broker.
BLAMES_2 = "its leader (broker 2, b2:9092) has not answered for 7.0 s"


def resumed(seconds: float, ended_ago: float = 0.0) -> Step:
    values = {"partition": "a-0", "reason": "throttled", "seconds": seconds, "ended_ago": ended_ago}
    return "x", "delivery.resumed", values


@pytest.mark.parametrize(
    ("told", "complains"),
    [
        (resumed(14.0), True),
        (resumed(4.0, ended_ago=10.0), False),
        (resumed(10.0), False),
        (resumed(11.0, ended_ago=1.0), True),
    ],
)
def test_who_gave_out_a_record_during_a_stall_tells_a_false_one(
    told: Step, *, complains: bool
) -> None:
    """The record was given out ten seconds before the stall was told to be over."""
    found = status.no_record_is_given_out_during_a_stall(
        history(*BEHIND, later(20), GIVEN, later(8), told)
    )
    assert bool(found) is complains


@pytest.mark.parametrize("what", ["clock.jumped", "member.thawed"])
def test_how_long_a_stall_was_while_a_clock_jumped_or_stood_is_not_judged(what: str) -> None:
    jumped: Step = ("x", what, {"seconds": 60.0})
    story = *BEHIND, later(20), GIVEN, jumped, later(8), resumed(14.0)
    assert status.no_record_is_given_out_during_a_stall(history(*story)) == []


def says(waiting_for: str, why: str = "There is nothing new.") -> Step:
    values = {"waiting": {"a-0": waiting_for}, "healthy": True, "why": why}
    return "x", "status.seen", values


SILENT = status.who_is_silent_does_not_say_that_nothing_is_wrong
STILL = status.who_stood_still_says_so_and_nobody_else
UNTOLD = status.who_is_silent_for_long_tells_of_a_stall
BLAME = status.why_blames_only_brokers_to_which_something_has_happened

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    *[
        (SILENT, [*BEHIND, later(6), *[says(well)] * status.OFTEN], f"x said {well!r} of a-0")
        for well in ("nothing new", "fetch")
    ],
    (SILENT, [*BEHIND, GIVEN, written(7, 7), later(6), *[says("fetch")] * status.OFTEN], "of a-0"),
    (STILL, [*BEHIND, FROZEN, later(3), thawed(), later(3), says("fetch")], "had not said so"),
    (STILL, [*BEHIND, later(3), stood_still(2.5)], "it did so for 0.000"),
    (STILL, [*BEHIND, FROZEN, later(3), thawed(), stood_still(9.0)], "it did so for "),
    (UNTOLD, [*BEHIND, later(6), *[says("callback")] * status.OFTEN], "has told of no stall"),
    (
        UNTOLD,
        [*BEHIND, STALLED, later(6), resumed(6.0), *[says("application")] * status.OFTEN],
        "x said 'application' of a-0, of which it was given nothing",
    ),
    (
        BLAME,
        [LONG_AFTER, *BEHIND, later(6), says("broker", BLAMES_2)],
        "blamed brokers that are well",
    ),
    (
        BLAME,
        [
            LONG_AFTER,
            *BEHIND,
            FAULT,
            ("", "fault.hits", {"number": 1, "brokers": [3]}),
            later(6),
            says("broker", BLAMES_2),
        ],
        BLAMES_2,
    ),
    (
        status.no_record_is_given_out_during_a_stall,
        [*BEHIND, GIVEN, later(8), resumed(14.0)],
        "gave out some at",
    ),
]

#: What is true.
FORGIVEN: list[tuple[Check, Story]] = [
    *[
        (BLAME, [LONG_AFTER, *BEHIND, later(6), says("refused", why)])
        for why in (
            "The next attempt, at broker 2, b2:9092, is made in 0.5 s.",
            "it is asked of the coordinator, broker 2, b2:9092",
        )
    ],
    (SILENT, [*BEHIND, says("fetch"), says("fetch")]),
    (SILENT, [*BEHIND, later(6), says("broker"), says("broker")]),
    (SILENT, [*BEHIND, later(6), *[says("fetch"), says("fetch"), says("broker")] * 2]),
    (SILENT, [*BEHIND, GIVEN, later(60), *[says("nothing new")] * status.OFTEN]),
    (SILENT, [*BEHIND, later(6), ("x", "user.subscribed", {}), *[says("fetch")] * status.OFTEN]),
    (SILENT, [*BEHIND, PAUSED, later(60), *[says("nothing new")] * status.OFTEN]),
    (
        SILENT,
        [
            *BEHIND,
            later(6),
            *[says("fetch", "Nothing is delivered: it has not polled.")] * status.OFTEN,
        ],
    ),
    (STILL, [*BEHIND, FROZEN, later(3), thawed(), stood_still(2.5), later(3), says("fetch")]),
    (STILL, [*BEHIND, FROZEN, later(3), thawed(asleep=True), later(3), says("fetch")]),
    (STILL, [*BEHIND, FROZEN, thawed(), later(3), says("fetch")]),
    (STILL, [*BEHIND, ("x", "clock.jumped", {"seconds": 60.0}), stood_still(60.0)]),
    (
        STILL,
        [*BEHIND, FROZEN, later(3), thawed(), ("x", "member.killed", {}), later(3), says("fetch")],
    ),
    (UNTOLD, [*BEHIND, STALLED, later(6), *[says("callback")] * status.OFTEN]),
    (UNTOLD, [*BEHIND, later(6), *[says("callback"), says("callback"), says("fetch")] * 2]),
    (UNTOLD, [*BEHIND, later(6), *[says("paused")] * status.OFTEN]),
    (BLAME, [*BEHIND, FAULT, HITS_2, later(6), says("broker", BLAMES_2)]),
    (BLAME, [*BEHIND, FAULT, later(6), says("broker", BLAMES_2)]),
    (BLAME, [*BEHIND, later(6), says("nothing new")]),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(status.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_is_true_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
