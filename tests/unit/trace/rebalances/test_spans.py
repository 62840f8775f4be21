"""What each member did, and who owned each partition: from when to when."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.trace.rebalances.assembly import EXPELLED
from aktor.trace.rebalances.rows import OwnedPartition, Span
from tests.unit.trace.rebalances.told import BEGAN, Member, rows_of


@pytest.fixture
def events() -> list[Any]:
    """What all members tell."""
    return []


def spans(events: list[Any], consumer: str) -> list[tuple[str, str, float, float, bool]]:
    """The kind, the name, the beginning and the end of what this member did; and whether its trace
    ends in it."""
    return [
        (row.kind, row.what, row.began - BEGAN, row.ended - BEGAN, row.unfinished)
        for row in sorted(rows_of(events, Span), key=lambda row: row.began)
        if row.consumer == consumer
    ]


def owned(events: list[Any], partition: str) -> list[tuple[Any, ...]]:
    """The owners of this partition: who, since when, until when, and its deliveries."""
    found = [row for row in rows_of(events, OwnedPartition) if row.partition == partition]
    return [
        (
            row.consumer,
            *(
                None if at is None else at - BEGAN
                for at in (row.assigned, row.released, row.first_delivered, row.last_delivered)
            ),
        )
        for row in sorted(found, key=lambda row: row.assigned)
    ]


def test_a_state_lasts_until_the_next_one_and_the_last_one_until_its_trace_ends(
    events: list[Any],
) -> None:
    alice = Member(events, "alice")
    alice.rebalances(BEGAN, BEGAN + 4, 1, because="first join", owns=["t-0"])
    alice.is_given(BEGAN + 9, "t-0", 0, 5)

    assert spans(events, "alice") == [
        ("state", "joining", 0, 2, False),
        ("state", "syncing", 2, 4, False),
        ("state", "stable", 4, 9, True),
    ]


def test_a_trace_that_begins_in_a_state_says_which_when_it_ends(events: list[Any]) -> None:
    alice = Member(events, "alice")
    alice.is_given(BEGAN, "t-0", 0, 5)
    alice.tells(BEGAN + 5, "membership.moved", before="stable", after="joining")

    assert spans(events, "alice")[0] == ("state", "stable", 0, 5, False)


def test_callbacks_and_what_a_member_waited_for_have_their_times(events: list[Any]) -> None:
    alice = Member(events, "alice")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=["t-0"])
    alice.tells(BEGAN + 10, "rebalance.triggered", because="the coordinator said so")
    alice.tells(BEGAN + 10, "membership.moved", before="stable", after="preparing")
    alice.tells(BEGAN + 12, "partitions.held_back")
    alice.tells(BEGAN + 15, "partitions.revoking")
    alice.tells(BEGAN + 19, "callback.finished", callback="on_partitions_revoked", ms=4000)
    alice.tells(BEGAN + 20, "rebalance.completed", generation=2, ms=10000)

    others = [one for one in spans(events, "alice") if one[0] != "state"]
    assert others == [
        ("wait", "poll", 10, 12, False),
        ("wait", "commit", 12, 15, False),
        ("callback", "revoked_callback", 15, 19, False),
    ]


def test_a_coordinator_that_does_not_answer_is_a_wait_until_it_does(events: list[Any]) -> None:
    alice = Member(events, "alice")
    alice.tells(BEGAN, "coordinator.found", node=1, address="b1:9092")
    alice.tells(BEGAN + 1, "coordinator.lost", because="connection refused")
    alice.tells(BEGAN + 8, "coordinator.found", node=2, address="b2:9092")
    alice.tells(BEGAN + 9, "rebalance.joined", generation=1)
    alice.tells(BEGAN + 50, "coordinator.lost", because="timed out")
    alice.tells(BEGAN + 60, "rebalance.triggered", because="first join")

    found = [row for row in rows_of(events, Span) if row.what == "coordinator"]
    assert [(row.began - BEGAN, row.ended - BEGAN, row.unfinished) for row in found] == [
        (1, 8, False),
        (50, 60, True),
    ]
    assert found[0].because == "broker 1 at b1:9092: connection refused"


@pytest.fixture
def killed(events: list[Any]) -> Member:
    """Bob tells nothing after 10 s, and alice is given its partition after 16 s."""
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=["t-0"])
    bob.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=["t-1"])
    bob.is_given(BEGAN + 2, "t-1", 0, 4)
    bob.is_given(BEGAN + 10, "t-1", 5, 9)
    alice.rebalances(BEGAN + 15, BEGAN + 16, 2, owns=["t-1"])
    alice.is_given(BEGAN + 17, "t-1", 10, 11)
    return bob


def test_a_killed_member_is_away_from_its_last_word_until_the_group_goes_on(
    events: list[Any], killed: Member
) -> None:
    *_, stable, away = spans(events, "bob")

    assert stable == ("state", "stable", 1, 10, True)
    assert away == ("away", "away", 10, 16, False)
    assert [row.because for row in rows_of(events, Span) if row.kind == "away"] == [EXPELLED]


def test_a_suspended_member_is_away_until_it_tells_something(
    events: list[Any], killed: Member
) -> None:
    killed.tells(BEGAN + 30, "membership.moved", before="stable", after="unjoined")

    *_, stable, away, _ = spans(events, "bob")
    assert stable == ("state", "stable", 1, 10, False)
    assert away == ("away", "away", 10, 30, False)


def test_a_member_that_goes_on_delivering_is_not_away(events: list[Any], killed: Member) -> None:
    killed.is_given(BEGAN + 18, "t-1", 10, 12)

    assert all(kind != "away" for kind, *_ in spans(events, "bob"))


def test_a_partition_has_its_owners_one_after_the_other(events: list[Any], killed: Member) -> None:
    assert owned(events, "t-1") == [("bob", 1, None, 2, 10), ("alice", 16, None, 17, 17)]


def test_an_owner_that_delivered_nothing_has_no_deliveries_of_the_one_before(
    events: list[Any], killed: Member
) -> None:
    carol = Member(events, "carol")
    carol.rebalances(BEGAN + 40, BEGAN + 41, 3, because="first join", owns=["t-1"])
    carol.leaves(BEGAN + 50, ["t-1"])

    assert owned(events, "t-1")[-1] == ("carol", 41, 50, None, None)


def test_of_two_owners_that_deliver_at_once_the_first_has_no_last_delivery(
    events: list[Any], killed: Member
) -> None:
    killed.is_given(BEGAN + 18, "t-1", 10, 12)

    assert owned(events, "t-1")[0] == ("bob", 1, None, 2, None)


@pytest.mark.parametrize("lives", [("heartbeat.late",), ("request.answered", "heartbeat.late")])
def test_a_trace_that_tells_only_that_its_member_lives_has_no_spans(
    lives: tuple[str, ...], events: list[Any]
) -> None:
    """Of a stable member without records, say, if a log was cut by time or by its size."""
    alice, bob = Member(events, "alice"), Member(events, "bob")
    for number, event in enumerate(lives):
        bob.tells(BEGAN + number, event, api="Heartbeat", seconds=1.0)
    alice.rebalances(BEGAN, BEGAN + 4, 1, because="first join", owns=["t-0"])

    assert spans(events, "bob") == []
    assert [what for _, what, *_ in spans(events, "alice")] == ["joining", "syncing", "stable"]
