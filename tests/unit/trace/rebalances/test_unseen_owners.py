"""A pause between two owners may be none: somebody without a trace had the partition meanwhile."""

from __future__ import annotations

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import Tables
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Downtime, Rebalance
from tests.unit.trace.rebalances.incidents import Incident, closes, tables_of
from tests.unit.trace.rebalances.told import Member, rows_of

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

SAID = "a member without a trace may have had the partition"


def after_a_visit(protocol: str, *, seen: bool, **configs: object) -> Tables:
    """Alice and bob read; carol joins, and closes her consumer 20 s later. `seen`: her trace is
    there."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=70.0)
        for _ in range(2):
            group.joins(**configs)
        sim.run(for_=10)
        carol = group.joins(**configs)
        sim.run(for_=20)
        closes(sim, carol)
        sim.run(for_=30)
        events = group.events()
    return tables_of([one for one in events if seen or one["consumer"] != "carol"])


@BOTH
def test_a_partition_that_a_member_without_a_trace_had_was_perhaps_not_silent(
    protocol: str,
) -> None:
    tables = after_a_visit(protocol, seen=False)

    visited = [row for row in tables.downtimes if row.unseen_owner]
    assert {row.downtime_ms > 15_000 for row in visited if row.downtime_ms} == {True}
    assert len(visited) == 2
    assert not any(row.unseen_owner for row in tables.downtimes if (row.downtime_ms or 0) < 15_000)
    assert all((row.repeated or 0) < 0 for row in visited)
    (sentence,) = [row.sentence for row in tables.rebalances if SAID in row.sentence]
    assert f"(in 2 of them {SAID})" in sentence


@BOTH
def test_if_all_traces_are_there_nobody_unseen_is_told_of(protocol: str) -> None:
    tables = after_a_visit(protocol, seen=True)

    assert tables.downtimes
    assert not any(row.unseen_owner for row in tables.downtimes)


def test_the_second_round_of_a_cooperative_rebalance_is_no_stranger() -> None:
    configs = {"partition_assignment_strategy": ["cooperative-sticky"]}
    seen = after_a_visit("classic", seen=True, **configs)
    unseen = after_a_visit("classic", seen=False, **configs)

    assert not any(row.unseen_owner for row in seen.downtimes)
    assert sum(row.unseen_owner for row in unseen.downtimes) == 2


def test_generations_in_which_it_had_an_owner_are_none_of_somebody_else() -> None:
    events: list[Event] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(0.0, 1.0, 1, because="first join", owns=["t-0"], members=1)
    for generation in (2, 3, 4):
        began = 10.0 * generation
        alice.tells(began, "rebalance.triggered", because="x", generation=generation - 1)
        alice.rebalances(began, began + 1, generation, owns=["t-0"], gives_up=["t-0"], members=1)
    bob.tells(50.0, "rebalance.triggered", because="first join", generation=-1)

    assert not any(row.unseen_owner for row in rows_of(events, Downtime))
    assert not any(SAID in row.sentence for row in rows_of(events, Rebalance))


@pytest.mark.parametrize("seen", [False, True])
def test_who_was_out_of_its_group_for_a_while_had_its_partitions_read_by_others(
    seen: bool,
) -> None:
    """Nobody tells of the generations in between, but offsets are passed over."""
    with Simulation(1) as sim:
        group = Incident(sim, "classic", seconds=70.0)
        _, bob = (group.joins(max_poll_interval_ms=4000) for _ in range(2))
        sim.run(for_=10)
        bob.busy_for = 20.0
        sim.run(for_=40)
        events = [one for one in group.events() if seen or one["consumer"] == "bob"]

    rows = tables_of(events).downtimes

    long = [row for row in rows if (row.downtime_ms or 0) > 15_000]
    assert len(long) == (0 if seen else 3)
    assert all(row.unseen_owner and (row.repeated or 0) < 0 for row in long)
    assert [row.unseen_owner for row in rows].count(True) == len(long)
