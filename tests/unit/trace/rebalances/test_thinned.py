"""What Spark leaves out of a file (`Deliveries`) changes no row of any table, in how many parts it
may read the file, whatever happened to the members."""

from __future__ import annotations

import json
from functools import cache

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import read
from tests.unit.trace.rebalances.incidents import Incident, without_a_group
from tests.unit.trace.rebalances.told import STORMS, storm_lines, thinned

#: Seconds between what befalls the members: at other times within the spans of `Deliveries`.
OFTEN = (2.3, 5.9, 11.0)


@cache
def of_a_tried_group(protocol: str, often: float) -> tuple[str, ...]:
    """Members are taken out of their group while they are given records, and stand still."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=80.0)
        members = [group.joins() for _ in range(3)]
        sim.run(for_=8)
        for number in range(4):
            sim.brokers.expire("g", members[number % 3].name)
            sim.run(for_=often)
            still = members[(number + 1) % 3]
            still.freeze()
            sim.run(for_=often / 2)
            sim.brokers.expire("g", still.name)
            sim.run(for_=often / 2)
            still.thaw()
            sim.run(for_=0.4 * often)
        return tuple(json.dumps(event) for event in group.events())


def assert_the_same(lines: list[str], parts: int) -> None:
    taken = thinned(lines, parts)
    assert len(taken) < len(lines)
    assert len(set(taken)) == len(taken)

    assert sorted(map(repr, read(taken)[0])) == sorted(map(repr, read(lines)[0]))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("often", OFTEN)
def test_members_that_are_taken_out_while_they_read(protocol: str, often: float) -> None:
    for parts in (1, 3):
        assert_the_same(list(of_a_tried_group(protocol, often)), parts)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("seed", "protocol"), STORMS)
def test_storms(seed: int, protocol: str, parts: int) -> None:
    assert_the_same(list(storm_lines(seed, protocol)), parts)


def test_consumers_without_a_group() -> None:
    assert_the_same([json.dumps(event) for event in without_a_group()], 2)
