"""The checks of `limits` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import limits
from tests.unit.simulation.checks.builders import (
    OWNED,
    PAUSED,
    RESUMED,
    Check,
    Story,
    assigned,
    given,
    history,
    released,
    seen,
)

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (limits.bytes_are_conserved, [seen(reserved=5)], "has reserved 5 bytes, asked are 0"),
    (limits.bytes_are_conserved, [seen(counted=7, held=3)], "has counted 7 bytes, held are 3"),
    (
        limits.the_background_reads_what_is_wanted,
        [seen(misread=["a-0", "a-1"]), seen(misread=["a-0"])],
        "takes a-0 for what it is not",
    ),
    (
        limits.no_connection_is_forgotten,
        [seen(unused=["b1#1.2"]), seen(unused=["b1#1.2"])],
        "has b1#1.2, which it does not know",
    ),
    (limits.buffers_stay_in_bounds, [("x", "buffer.exceeded", {"bytes": 1})], "exceeded"),
    (
        limits.paused_partitions_are_silent,
        [*OWNED, PAUSED, given("x", 5, 5)],
        "a-0, which is paused",
    ),
    (
        limits.limits_are_kept,
        [("x", "limit.exceeded", {"records": 6, "limit": 5})],
        "6 records, 5 are allowed",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (limits.bytes_are_conserved, [seen(reserved=5, asked=5, counted=3, held=3)]),
    (
        limits.the_background_reads_what_is_wanted,
        [seen(misread=["a-0"]), seen(misread=["a-1"]), seen(misread=[]), seen(misread=["a-1"])],
    ),
    (limits.no_connection_is_forgotten, [seen(unused=["b1#1.2"]), seen(unused=["b1#1.3"])]),
    (limits.paused_partitions_are_silent, [*OWNED, PAUSED, RESUMED, given("x", 5, 5)]),
    (
        limits.paused_partitions_are_silent,
        [*OWNED, PAUSED, released("x"), assigned("x"), given("x", 5, 5)],
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(limits.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
