"""What a rebalance waits for at a member's side: `Waits`."""

from __future__ import annotations

import math

from aktor.managers.membership.waits import Waits
from aktor.settings import Settings

REVOKED = "on_partitions_revoked"
ASSIGNED = "on_partitions_assigned"


def waits(*steps: tuple[str, float], ran: float = 0.0, since: float = 0.0) -> Waits:
    """These steps begin at these times; the listener ran for so long in the first. A rebalance
    waits for 20 s."""
    told = Waits(Settings(max_poll_interval=20.0))
    for number, (step, at) in enumerate(steps):
        told.note(step, at, since)
        if not number:
            told.ran(ran)
    return told


def test_what_of_a_callback_was_no_callback_was_a_wait_for_the_poll_that_ran_it() -> None:
    told = waits((REVOKED, 1.0), ("", 25.0), ran=15.0)

    assert told.words(since=1.0, now=26.0) == (
        "the rebalance had waited 9.0 s for a poll, 15.0 s for on_partitions_revoked"
        " (max_poll_interval_ms: it waits for 20.0 s at most)"
    )


def test_of_a_callback_that_began_before_the_rebalance_only_the_rest_counts() -> None:
    told = waits((ASSIGNED, 0.0), (REVOKED, 30.0), ("", 40.0), ran=30.0, since=15.0)

    assert told.words(since=15.0, now=41.0).startswith(
        "the rebalance had waited 10.0 s for a poll, 15.0 s for on_partitions_assigned ("
    )


def test_the_rebalance_may_have_begun_before_the_member_heard_of_it() -> None:
    told = waits((REVOKED, 5.0), ran=0.0)

    assert told.words(since=1.0, now=23.0) == (
        "the rebalance had waited 18.0 s for on_partitions_revoked to end (or a poll to begin it)"
        " (max_poll_interval_ms: it waits for 20.0 s at most, and may have begun 4.0 s before the"
        " member heard of it)"
    )


def test_who_is_done_before_the_time_is_over_is_not_to_blame() -> None:
    told = waits((REVOKED, 1.0), ("", 20.9), ran=19.9)

    assert told.words(since=1.0, now=30.0) == ""


def test_nor_who_is_at_it_when_the_time_is_not_over() -> None:
    assert waits((REVOKED, 1.0)).words(since=1.0, now=20.9) == ""
    assert waits((REVOKED, 1.0)).words(since=math.inf, now=100.0) == ""


def test_what_was_over_before_any_rebalance_waited_is_forgotten() -> None:
    told = waits((REVOKED, 1.0), ("", 25.0), ran=24.0)
    told.note("", 26.0, math.inf)

    assert told.words(since=1.0, now=26.0) == ""


def test_who_was_only_a_moment_at_it_when_the_time_was_over_is_not_to_blame() -> None:
    """It was said that the rebalance had waited, and not for what."""
    told = waits((REVOKED, 20.98), ("", 21.02), ran=0.02)

    assert told.words(since=1.0, now=30.0) == ""
