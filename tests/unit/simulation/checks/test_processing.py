"""The checks of `processing` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import processing
from tests.unit.simulation.checks.builders import Check, Step, Story, assigned, history


def handler(what: str, offset: int, error: str | None = None) -> Step:
    """In `process`, a handler begins or ends with a record of the key k."""
    of = {"partition": "a-0", "offset": offset, "lane": "a-0/k"}
    return "x", f"handler.{what}", of | ({"error": error} if what == "ended" else {})


HANDED_BACK = (
    "x",
    "callback.finished",
    {"callback": "on_partitions_revoked", "partitions": ["a-0"]},
)

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        processing.records_are_handled_in_order,
        [handler("began", 5), handler("began", 6)],
        "began with a-0/k:6 during 5",
    ),
    (
        processing.records_are_handled_in_order,
        [handler("began", 6), handler("ended", 6), handler("began", 5)],
        "began with a-0/k:5 after 6",
    ),
    (
        processing.nothing_is_finished_twice,
        [handler("began", 5), handler("ended", 5), handler("began", 5)],
        "began with a-0:5 again",
    ),
    (
        processing.nothing_unfinished_is_committed,
        [
            ("x", "user.processes", {"order": "key"}),
            ("x", "records.delivered", {"partition": "a-0", "offsets": [(5, 6)]}),
            handler("ended", 6),
            ("x", "commit.sent", {"offsets": {"a-0": 7}, "kind": "asked"}),
        ],
        "commits a-0:7, unfinished is 5",
    ),
    (
        processing.what_is_handed_back_is_not_handled,
        [
            handler("began", 5),
            ("x", "process.drained", {"left": ["a-0:5"], "ms": 3.0, "allowed_ms": 1000.0}),
            HANDED_BACK,
        ],
        "handed a-0 back and still handles its record 5",
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(processing.CHECKS)


def test_a_handler_that_had_all_the_time_allowed_may_outlive_its_partition() -> None:
    story = [
        handler("began", 5),
        ("x", "process.drained", {"left": ["a-0:5"], "ms": 1000.0, "allowed_ms": 1000.0}),
        HANDED_BACK,
    ]

    assert processing.what_is_handed_back_is_not_handled(history(*story)) == []


def test_a_handler_that_is_cancelled_may_outlive_its_partition() -> None:
    drained = ("x", "process.drained", {"left": ["a-0:5"], "ms": 3.0, "allowed_ms": 1000.0})
    story = [handler("began", 5), drained, HANDED_BACK, handler("ended", 5, "CancelledError")]

    assert processing.what_is_handed_back_is_not_handled(history(*story)) == []


def test_a_handler_that_failed_has_finished_nothing_and_one_of_before_does_not_count() -> None:
    again = [handler("began", 5), handler("ended", 5, "ValueError"), handler("began", 5)]
    before = [handler("began", 6), assigned("x"), handler("ended", 6), handler("began", 6)]

    assert processing.nothing_is_finished_twice(history(*again, *before)) == []
