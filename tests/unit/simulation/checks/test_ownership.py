"""The checks of `ownership` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import ownership
from tests.unit.simulation.checks.builders import (
    A_LONG_TIME,
    HELD_BACK,
    OWNED,
    Check,
    Step,
    Story,
    assigned,
    given,
    going,
    history,
    in_group,
    released,
    synced,
    written,
)


def dropped(member: str, offset: int) -> Step:
    return member, "chunk.dropped", {"partition": "a-0", "offset": offset}


UNSUBSCRIBED = ("x", "user.unsubscribed", {})

CONVERTED = ("", "group.converted", {})

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        ownership.only_owners_are_given_records,
        [*OWNED, released("x"), given("x", 5, 5)],
        "does not own",
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, synced("y", 2), assigned("y"), given("x", 5, 5)],
        "which y owns by now",
    ),
    (
        ownership.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, given("x", 5, 5)],
        "which is going",
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), *A_LONG_TIME, written(10, 10), dropped("x", 10)],
        "had a-0:10 fetched",
    ),
    (
        ownership.nothing_is_assigned_after_unsubscribing,
        [synced("x", 1), UNSUBSCRIBED, assigned("x")],
        "the group that it had left",
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [
            *(*OWNED, in_group("h", CONVERTED), synced("y", 1), assigned("y")),
            *(going("x", "revoked"), released("x")),
        ],
        "gave it up",
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, in_group("h", CONVERTED), synced("y", 2), assigned("y"), given("x", 5, 5)],
        "which y owns by now",
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [*OWNED, synced("x", 2), synced("y", 2), assigned("y"), going("x", "revoked")],
        "gave it up",
    ),
    (
        ownership.nothing_is_given_after_its_callback,
        [
            *OWNED,
            ("x", "callback.finished", {"callback": "on_partitions_lost", "partitions": ["a-0"]}),
            given("x", 5, 5),
        ],
        "after its listener was told",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (
        ownership.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, released("x"), assigned("x"), given("x", 5, 5)],
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), written(10, 10), dropped("x", 10)],
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [
            *OWNED,
            released("x"),
            *A_LONG_TIME,
            ("", "topic.removed", {"topic": "a"}),
            written(0, 9),
            dropped("x", 10),
        ],
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, CONVERTED, synced("y", 2), assigned("y"), given("x", 5, 5)],
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [*OWNED, CONVERTED, synced("y", 2), assigned("y"), going("x", "revoked"), released("x")],
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [
            *(*OWNED, in_group("h", synced("y", 2)), in_group("h", assigned("y"))),
            *(going("x", "revoked"), released("x")),
        ],
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, in_group("h", synced("y", 2)), in_group("h", assigned("y")), given("x", 5, 5)],
    ),
    (
        ownership.nothing_is_assigned_after_unsubscribing,
        [UNSUBSCRIBED, synced("x", 1), assigned("x")],
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(ownership.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []


def test_who_is_expelled_for_no_reason_may_not_know_it_yet() -> None:
    expelled = ("", "session.expired", {"consumer": "x"})
    story = [*OWNED, expelled, synced("y", 2), assigned("y"), given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []


def test_who_was_expelled_during_a_slow_callback_is_not_blamed_when_it_revokes_the_next_time() -> (
    None
):
    story = [
        *(*OWNED, going("x", "revoked"), synced("y", 2), assigned("y"), released("x")),
        *(going("y", "lost"), released("y"), synced("x", 3), assigned("x"), going("x", "revoked")),
    ]

    assert ownership.partitions_are_handed_over_in_order(history(*story)) == []


def test_who_slept_may_not_know_that_it_was_expelled() -> None:
    asleep = ("x", "member.frozen", {}), ("x", "member.thawed", {"asleep": True})
    story = [*OWNED, synced("y", 2), assigned("y"), *asleep, given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []


def test_an_answer_that_waited_while_its_member_slept_tells_of_a_generation_that_is_over() -> None:
    asleep = ("x", "member.frozen", {}), ("x", "member.thawed", {"asleep": True})
    story = [*OWNED, synced("y", 3), assigned("y"), *asleep, synced("x", 2), given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []
