"""Coordinators that do not answer, told also if nothing rebalances and nothing is silent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import read
from aktor.trace.rebalances.lines import HEARTBEAT, Event
from aktor.trace.rebalances.rows import Rebalance, Refusal
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident
from tests.unit.trace.rebalances.told import BEGAN, Member, as_lines, rows_of, thinned

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

#: Where one of them shows nearly all that the other does.
ONE = pytest.mark.parametrize("protocol", all_but_the_first(1, ["consumer", "classic"]))

#: Longer than a coordinator is away.
LONG = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3000}


def outages(lines: Iterable[str]) -> list[Refusal]:
    rows, _ = read(lines)
    return [row for row in rows if isinstance(row, Refusal) and row.refused == "coordinator"]


def a_group(sim: Simulation, protocol: str, **session: Any) -> Incident:
    group = Incident(sim, protocol)
    for _ in range(3):
        group.joins(**session if protocol == "classic" else {})
        sim.run(for_=1)
    sim.run(for_=7)
    return group


@BOTH
def test_a_coordinator_that_dies_without_a_rebalance_is_named_with_its_successor(
    protocol: str,
) -> None:
    with Simulation(1) as sim:
        group = a_group(sim, protocol, **LONG)
        sim.brokers.crash(sim.brokers.coordinator("g"))
        sim.run(for_=30)
        lines = as_lines(group.events())
    rows, _ = read(lines)

    told = outages(lines)

    assert [row for row in rows if isinstance(row, Rebalance) and row.began > BEGAN + 9] == []
    assert sorted(row.consumer or "" for row in told) == ["alice", "bob", "carol"]
    for row in told:
        assert row.began == pytest.approx(BEGAN + 10, abs=0.1)
        assert row.ended == pytest.approx(BEGAN + 19, abs=0.5)
        assert re.fullmatch(
            rf"g: {row.consumer} on host-{row.consumer} had no answer from its coordinator, broker"
            r" 1 at b1:9092, for (8|9)\.\d s, until broker 2 at b2:9092 answered: connection"
            r" refused \(\d+ times\)\. \d+ commits failed meanwhile\.",
            row.sentence,
        )
    # What goes through the sort of Spark is enough.
    for parts in (1, 7, 40):
        assert sorted(outages(thinned(lines, parts)), key=str) == sorted(told, key=str)


def test_partitions_that_were_silent_because_of_it_are_named() -> None:
    with Simulation(1) as sim:
        group = a_group(sim, "classic")  # its session is over before another takes over
        sim.brokers.crash(sim.brokers.coordinator("g"))
        sim.run(for_=30)
        told = outages(as_lines(group.events()))

    silent = ", and nothing was delivered from orders-"
    assert any(silent in row.sentence for row in told)
    for row in told:
        assert row.sentence.endswith("the group might have gone on without the member.") == (
            silent in row.sentence
        )


@ONE
def test_a_coordinator_that_stands_still_is_away_since_the_first_unanswered_heartbeat(
    protocol: str,
) -> None:
    with Simulation(1) as sim:
        group = a_group(sim, protocol, **LONG)
        sim.brokers.crash(sim.brokers.coordinator("g"), silent=True)
        sim.run(for_=40)
        events = group.events()
        told = outages(as_lines(events))
    late = {}
    for event in events:
        if event["event"] == "heartbeat.late":
            late.setdefault(event["consumer"], event["t"] - event["seconds"])

    assert {row.consumer: row.began for row in told} == pytest.approx(late, abs=0.001)
    assert {row.consumer for row in told} == {"alice", "bob", "carol"}


@ONE
def test_a_coordinator_that_moves_in_good_order_is_not_told_to_have_been_away(
    protocol: str,
) -> None:
    with Simulation(1) as sim:
        group = a_group(sim, protocol, **LONG)
        sim.brokers.move_coordinator("g")
        sim.run(for_=30)

        assert outages(as_lines(group.events())) == []


@ONE
def test_a_member_that_joins_meanwhile_is_told_by_its_rebalance_only(protocol: str) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        sim.brokers.crash(sim.brokers.coordinator("g"))
        group.joins()
        sim.run(for_=30)

        assert outages(as_lines(group.events())) == []


# -- by hand


@pytest.fixture
def alice(events: list[Event]) -> Member:
    member = Member(events, "alice")
    member.tells(BEGAN, "membership.moved", before="unsubscribed", after="joining")
    member.tells(BEGAN, "member.epoch", before=0, after=1)
    member.tells(BEGAN, "membership.moved", before="joining", after="stable")
    return member


def answered(member: Member, *times: float, node: int = 1) -> None:
    for t in times:
        member.tells(BEGAN + t, HEARTBEAT, api="ConsumerGroupHeartbeat", node=node, ms=2.0)


def lost(member: Member, t: float, because: str = "connection refused", node: int = 1) -> None:
    where = {"node": node, "address": f"b{node}:9092"}
    member.tells(BEGAN + t, "coordinator.lost", because=because, **where)


def found(member: Member, t: float, node: int) -> None:
    member.tells(BEGAN + t, "coordinator.found", node=node, address=f"b{node}:9092")


def sentences(events: Sequence[Event]) -> list[str]:
    words = "g: alice on host-alice had no answer from its coordinator, broker 1 at b1:9092, for "
    told = [row.sentence for row in rows_of(list(events), Refusal)]
    assert all(one.startswith(words) for one in told)
    return [one.removeprefix(words) for one in told]


def test_a_successor_that_has_yet_to_load_the_group_has_not_answered(
    events: list[Event], alice: Member
) -> None:
    answered(alice, 1.0, 2.0)
    lost(alice, 3.0)
    found(alice, 4.0, 2)
    for t in (4.1, 6.0, 8.0):
        answered(alice, t, node=2)
        alice.tells(BEGAN + t, "heartbeat.failed", because="COORDINATOR_LOAD_IN_PROGRESS")
    answered(alice, 9.0, 12.0, node=2)

    (told,) = sentences(events)

    assert told == (
        "6.0 s, until broker 2 at b2:9092 answered: connection refused. No commit failed meanwhile,"
        " and no delivery waited for it."
    )
    assert [row.ended for row in rows_of(thinned_events(events), Refusal)] == [BEGAN + 9]


def thinned_events(events: list[Event]) -> list[Event]:
    return [{**json.loads(line), "source": "alice"} for line in thinned(as_lines(events), 1)]


def test_a_coordinator_that_is_still_away_at_the_end_is_told_so(
    events: list[Event], alice: Member
) -> None:
    answered(alice, 1.0, 2.0)
    lost(alice, 3.0, "broker b1 closed the connection")
    for t in (4.0, 5.0, 6.0):
        found(alice, t, 1)
        lost(alice, t + 0.01)
        alice.tells(BEGAN + t + 0.01, "commit.failed", kind="auto", because="it did not answer")
    found(alice, 8.0, 1)

    assert sentences(events) == [
        "5.0 s, to the end of its trace: connection refused (3 times). 3 commits failed meanwhile."
    ]


def test_a_trace_without_heartbeats_says_when_the_next_coordinator_was_found(
    events: list[Event], alice: Member
) -> None:
    alice.tells(BEGAN + 1, "heartbeat.late", node=1, address="b1:9092", seconds=1.0)
    lost(alice, 103.0)
    found(alice, 109.0, 2)
    lost(alice, 200.0, node=2)
    found(alice, 200.1, 2)
    alice.tells(BEGAN + 900, "poll.late", because="no poll")

    assert sentences(events) == [
        "6.0 s, until broker 2 at b2:9092 was found: connection refused. No commit failed"
        " meanwhile, and no delivery waited for it."
    ]


def test_who_had_nothing_to_ask_for_a_while_was_not_left_without_an_answer(
    events: list[Event], alice: Member
) -> None:
    answered(alice, 1.0, 2.0)
    lost(alice, 3.0, "NOT_COORDINATOR")
    found(alice, 3.1, 2)
    answered(alice, 7.0, node=2)

    assert sentences(events) == []


def test_records_that_were_withheld_for_less_than_a_second_and_commits_in_vain_are_told(
    events: list[Event], alice: Member
) -> None:
    """No silence was told for that reason: the application had not polled before."""
    answered(alice, 1.0, 2.0)
    lost(alice, 3.0)
    alice.tells(BEGAN + 4.0, "commit.retried", kind="revocation", because="connection refused")
    alice.tells(BEGAN + 5.0, "commit.retried", kind="revocation", because="connection refused")
    alice.tells(BEGAN + 8.0, "session.unconfirmed", seconds=0.2)
    found(alice, 9.0, 2)
    answered(alice, 9.1, 12.0, node=2)
    lost(alice, 23.0, node=2)
    alice.tells(BEGAN + 24.0, "commit.retried", kind="auto", because="connection refused")
    found(alice, 26.0, 1)
    answered(alice, 26.1, 27.0)

    first, second = (
        row.sentence.partition("connection refused. ")[2] for row in rows_of(events, Refusal)
    )

    assert first == (
        "Commits were tried again 2 times meanwhile, and records were withheld, for the group might"
        " have gone on without the member."
    )
    assert second == "Commits were tried again once meanwhile."
