"""The trace of one member of several, alone: it tells its own rebalances, and no more."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import read
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import MemberPart, Rebalance
from tests.unit.trace.rebalances.incidents import Incident, closes, sentences_of
from tests.unit.trace.rebalances.told import STORMS, Member, rows_of, storm_lines, takes

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def a_guest(protocol: str, stay: float) -> list[str]:
    """What the trace of alice tells: bob, who has none, comes and goes."""
    with Simulation(seed=3) as sim:
        incident = Incident(sim, protocol)
        incident.joins()
        sim.run(5)
        bob = incident.joins()
        sim.run(stay)
        closes(sim, bob)
        sim.run(12)
    return sentences_of(event for event in incident.events() if event["consumer"] == "alice")


@BOTH
@pytest.mark.parametrize("stay", [8.0, 20.0])
def test_a_member_without_a_trace_that_comes_and_goes_makes_two_rebalances(
    protocol: str, stay: float
) -> None:
    first, came, went = a_guest(protocol, stay)

    assert all(" ms, " in words.partition(";")[0] for words in (first, came, went))
    if protocol == "classic":
        assert ": a new member, says alice on host-alice, which leads; it has no trace" in came
        assert ": it is gone (it left or was taken out), says alice on host-alice" in went
    else:
        assert "; 3 partitions went to no member with a trace; " in came
        assert "; 3 partitions had no owner with a trace before; " in went


@pytest.mark.parametrize(("away", "count"), [(5.0, 3), (60.0, 4)])
def test_a_partition_that_another_member_has_next_is_handed_over_if_that_was_soon(
    away: float, count: int
) -> None:
    """In a KIP-848 group: else a member without a trace has had it."""
    events: list[Event] = []
    alice, carol = Member(events, "alice"), Member(events, "carol")
    given = "the coordinator assigned other partitions"
    for member, owns in ((alice, ["t-0", "t-1"]), (carol, ["t-2"])):
        takes(member, 0.0, 1, "first join", *owns, joins=True)
    alice.tells(60.0, "membership.moved", before="stable", after="reconciling")
    alice.tells(60.0, "rebalance.triggered", because=given)
    alice.tells(60.1, "partitions.released", partitions={"t-1": 5})
    alice.tells(60.2, "rebalance.completed", generation=1, ms=200)
    alice.tells(60.3, "member.epoch", before=1, after=2)
    takes(carol, 60.2 + away, 3, given, "t-1", joins=False)

    assert len(rows_of(events, Rebalance)) == count - 1


@pytest.mark.parametrize(("seed", "protocol"), STORMS)
def test_a_trace_alone_tells_each_of_its_rebalances_once(seed: int, protocol: str) -> None:
    """No rebalance has a stretch in which its member was done, unless the same epoch goes on."""
    of_trace: defaultdict[str, list[str]] = defaultdict(list)
    for line in storm_lines(seed, protocol):
        of_trace[json.loads(line)["trace"]].append(line)
    for lines in of_trace.values():
        rows, _ = read(lines)
        parts: defaultdict[str, list[MemberPart]] = defaultdict(list)
        for row in rows:
            if isinstance(row, MemberPart):
                parts[row.rebalance].append(row)
        for of_one in parts.values():
            of_one.sort(key=lambda part: part.began)
            for one, following in itertools.pairwise(of_one):
                stable = following.began - one.ended if one.outcome == "completed" else 0.0
                assert stable <= 1.0 or one.generation == following.generation
