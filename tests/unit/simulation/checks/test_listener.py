"""The checks of `listener` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import listener
from tests.unit.simulation.checks.builders import (
    Check,
    Step,
    Story,
    assigned,
    given,
    history,
    interrupted,
    leaves,
    out,
    released,
    synced,
    told,
)

LISTENS = ("x", "user.subscribed", {"listener": True})

HEEDED = assigned("x")

TARGET = ("x", "rebalance.target", {"generation": 3})

STUMBLED = (
    "x",
    "callback.failed",
    {"callback": "on_partitions_assigned", "partitions": ["a-0"]},
)

REVOKED_WELL = (
    "x",
    "callback.finished",
    {"callback": "on_partitions_revoked", "partitions": ["a-0"]},
)

#: And created anew before this member's metadata knew of it again.
DELETED = ("x", "topic.deleted", {"topic": "a"})

INTERRUPTED = interrupted("poll")

NO_MEMBER: Step = (
    "x",
    "commit.failed",
    {"kind": "revocation", "because": "CommitFailedError: group 'g' does not know member 'x'"},
)

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        listener.the_listener_hears_the_right_word,
        [NO_MEMBER, told("revoked")],
        "knew by its last commit that it is no member",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, given("x", 0, 0)],
        "a-0 before it was told",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [TARGET, LISTENS, HEEDED, told("assigned"), STUMBLED, given("x", 0, 0)],
        "was given a-0, told of it in vain",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), released("x")],
        "gave a-0 up without a word",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), told("assigned")],
        "told twice that a-0 is assigned",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), told("revoked"), told("lost")],
        "told lost: a-0, not its own",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            *[LISTENS, HEEDED, told("assigned"), told("revoked")],
            *[REVOKED_WELL, INTERRUPTED, told("revoked")],
        ],
        "told revoked: a-0, not its own",
    ),
    (
        listener.the_listener_hears_the_right_word,
        [LISTENS, HEEDED, out("lost"), told("revoked")],
        "told revoked",
    ),
    (
        listener.the_listener_hears_the_right_word,
        [LISTENS, HEEDED, told("lost")],
        "told lost",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    (
        listener.the_listener_hears_the_right_word,
        [NO_MEMBER, out("lost"), told("lost"), synced("x", 2), LISTENS, HEEDED, told("revoked")],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            LISTENS,
            assigned("x"),
            *[told("assigned"), told("revoked"), INTERRUPTED, told("revoked")],
        ],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            *[LISTENS, assigned("x"), told("assigned")],
            *[leaves(), told("revoked"), REVOKED_WELL, INTERRUPTED],
            *[leaves(), told("revoked"), released("x")],
        ],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), STUMBLED, given("x", 0, 0), told("assigned")],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [TARGET, LISTENS, HEEDED, told("assigned"), STUMBLED, told("assigned"), given("x", 0, 0)],
    ),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, told("revoked"), out("lost")]),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, out("lost"), told("lost")]),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, DELETED, told("lost")]),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(listener.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
