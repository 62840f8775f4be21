"""Each check complains about a history in which its promise is broken, and not about a good one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import checks
from aktor.simulation.history import History

Check = Callable[[History], list[str]]
Story = list[tuple[str, str, dict[str, Any]]]


def history(*story: tuple[str, str, dict[str, Any]]) -> History:
    """One event a second: (member, event, values)."""
    told = History(lambda: float(len(told.events)), 0.0)
    for member, event, values in story:
        told.note(event, member, **{"group": "g", "level": "info", **values})
    return told


def written(first: int, last: int) -> tuple[str, str, dict[str, Any]]:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last}


def synced(member: str, generation: int) -> tuple[str, str, dict[str, Any]]:
    return member, "rebalance.synced", {"generation": generation}


def assigned(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.assigned", {"partitions": ["a-0"], "by_group": True}


def going(member: str, loss: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.going", {"partitions": ["a-0"], "loss": loss}


def released(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.released", {"partitions": ["a-0"]}


def resolved(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "position.resolved", {"partitions": {"a-0": offset}}


def sought(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "position.sought", {"partition": "a-0", "offset": offset}


def given(member: str, first: int, last: int) -> tuple[str, str, dict[str, Any]]:
    return member, "records.delivered", {"partition": "a-0", "offsets": [[first, last]]}


def back(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "user.returned", {}


def commits(member: str, offset: int, kind: str) -> tuple[str, str, dict[str, Any]]:
    return member, "commit.sent", {"offsets": {"a-0": offset}, "kind": kind}


def committed(offset: int) -> tuple[str, str, dict[str, Any]]:
    return "", "offset.committed", {"partition": "a-0", "offset": offset}


def reset(member: str, because: str) -> tuple[str, str, dict[str, Any]]:
    return member, "position.reset", {"partitions": {"a-0": 0}, "because": because}


def dropped(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "chunk.dropped", {"partition": "a-0", "offset": offset}


def late(member: str, took: float, allowed: float) -> tuple[str, str, dict[str, Any]]:
    return member, "call.late", {"call": "poll", "took": took, "allowed": allowed}


def leaves(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "request.sent", {"api": "LeaveGroup", "request": 9, "incarnation": 1}


def request(member: str, event: str) -> tuple[str, str, dict[str, Any]]:
    return member, f"request.{event}", {"api": "Fetch", "request": 1, "incarnation": 1}


NOTHING_COMMITTED = "no offset is committed"
UNSUBSCRIBED = ("x", "user.unsubscribed", {})
HELD_BACK = ("x", "partitions.held_back", {"partitions": ["a-0"]})
A_LONG_TIME = [("", "fault.began", {"number": one}) for one in range(30)]
KNOWN = ("x", "coordinator.found", {"node": 1})
CLOSING, CLOSED = ("x", "consumer.closing", {}), ("x", "consumer.closed", {})
FROZEN, THAWED = ("x", "member.frozen", {}), ("x", "member.thawed", {})

ALL = ("", "progress.demanded", {})

#: Two members, one after the other, as it should be.
GOOD = [
    written(0, 9),
    synced("x", 1),
    assigned("x"),
    resolved("x", 0),
    given("x", 0, 4),
    back("x"),
    commits("x", 5, "revocation"),
    committed(5),
    going("x", "revoked"),
    released("x"),
    synced("y", 2),
    assigned("y"),
    resolved("y", 5),
    given("y", 5, 9),
    back("y"),
    commits("y", 10, "auto"),
    committed(10),
    ALL,
]

OWNED = [written(0, 9), synced("x", 1), assigned("x"), resolved("x", 0), given("x", 0, 4)]

BROKEN: list[tuple[Check, Story, str]] = [
    (
        checks.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 4, 6)],
        "a-0:4 again",
    ),
    (
        checks.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 6, 7)],
        "skips from 5",
    ),
    (
        checks.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, sought("x", 8), resolved("x", 0), given("x", 0, 1)],
        "a-0:0 again",
    ),
    (
        checks.only_owners_are_given_records,
        [*OWNED, released("x"), given("x", 5, 5)],
        "does not own",
    ),
    (
        checks.only_owners_are_given_records,
        [*OWNED, synced("y", 2), assigned("y"), given("x", 5, 5)],
        "which y owns by now",
    ),
    (
        checks.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, given("x", 5, 5)],
        "which is going",
    ),
    (
        checks.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), *A_LONG_TIME, written(10, 10), dropped("x", 10)],
        "had a-0:10 fetched",
    ),
    (
        checks.nobody_is_told_that_nothing_is_committed,
        [committed(5), assigned("x"), reset("x", NOTHING_COMMITTED)],
        "takes a-0 for never committed",
    ),
    (
        checks.nobody_is_told_that_nothing_is_committed,
        [committed(5), ("x", "user.finds_nothing_committed", {"partition": "a-0", "seconds": 0.5})],
        "is told that a-0 was never committed",
    ),
    (checks.calls_end_in_time, [late("x", 2.3, 0.2)], "waited 2.300 s for poll"),
    (
        checks.nothing_is_assigned_after_unsubscribing,
        [synced("x", 1), UNSUBSCRIBED, assigned("x")],
        "the group that it had left",
    ),
    (
        checks.committed_offsets_never_go_back,
        [
            *OWNED,
            sought("x", 2),
            released("x"),
            commits("x", 2, "asked"),
            committed(5),
            committed(2),
        ],
        "2 after 5",
    ),
    (
        checks.who_closes_tells_the_group,
        [KNOWN, *OWNED, CLOSING, CLOSED],
        "did not leave its group",
    ),
    (
        checks.partitions_are_handed_over_in_order,
        [*OWNED, synced("x", 2), synced("y", 2), assigned("y"), going("x", "revoked")],
        "gave it up",
    ),
    (checks.every_record_is_finished, [*OWNED, ALL], "never finished a-0"),
    (
        checks.no_commit_above_what_was_finished,
        [*OWNED, commits("x", 5, "auto")],
        "commits a-0:5, finished is 0",
    ),
    (
        checks.no_commit_above_what_was_finished,
        [*OWNED, back("x"), commits("x", 6, "asked")],
        "commits a-0:6, finished is 5",
    ),
    (checks.only_owners_commit, [*OWNED, released("x"), commits("x", 5, "auto")], "does not own"),
    (checks.committed_offsets_never_go_back, [committed(5), committed(4)], "4 after 5"),
    (checks.every_request_ends_once, [request("x", "answered")], "unasked"),
    (
        checks.every_request_ends_once,
        [request("x", "sent"), request("x", "answered"), request("x", "answered")],
        "answered twice",
    ),
    (checks.no_message_vanishes, [("x", "message.dropped", {"because": "unknown"})], "unknown"),
    (checks.buffers_stay_in_bounds, [("x", "buffer.exceeded", {"bytes": 1})], "exceeded"),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_every_check_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(checks.CHECKS)


def test_a_good_history_is_not_complained_about() -> None:
    assert checks.broken_promises(history(*GOOD)) == []


def test_who_is_expelled_for_no_reason_may_not_know_it_yet() -> None:
    expelled = ("", "session.expired", {"client_id": "x"})
    story = [*OWNED, expelled, synced("y", 2), assigned("y"), given("x", 5, 5)]

    assert checks.only_owners_are_given_records(history(*story)) == []


def test_a_seek_excuses_a_commit_that_goes_back() -> None:
    assert (
        checks.committed_offsets_never_go_back(
            history(*OWNED, committed(5), sought("x", 2), commits("x", 4, "auto"), committed(4))
        )
        == []
    )


FORGIVEN: list[tuple[Check, Story]] = [
    (
        checks.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, released("x"), assigned("x"), given("x", 5, 5)],
    ),
    (
        checks.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), written(10, 10), dropped("x", 10)],
    ),
    (
        checks.nobody_is_told_that_nothing_is_committed,
        [assigned("x"), committed(5), reset("x", NOTHING_COMMITTED)],
    ),
    (
        checks.calls_end_in_time,
        [FROZEN, *A_LONG_TIME, THAWED, late("x", 31.0, 0.2)],
    ),
    (checks.who_closes_tells_the_group, [KNOWN, *OWNED, CLOSING, leaves("x"), CLOSED]),
    (checks.who_closes_tells_the_group, [*OWNED, CLOSING, CLOSED]),
    (
        checks.nothing_is_assigned_after_unsubscribing,
        [UNSUBSCRIBED, synced("x", 1), assigned("x")],
    ),
]


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
