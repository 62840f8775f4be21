"""Downtimes are those that a producer sees by the times at which it wrote."""

from __future__ import annotations

import json

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import Tables, read
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident
from tests.unit.trace.rebalances.told import BEGAN

#: Seconds between two records of a partition.
EVERY = 0.05


@pytest.mark.parametrize("protocol", all_but_the_first(1, ["classic", "consumer"]))
def test_a_downtime_is_how_long_the_first_record_after_it_waited(protocol: str) -> None:
    written: dict[tuple[str, int], float] = {}
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=0)

        def write() -> None:
            for number in range(6):
                value = f"{sim.now}".encode()
                end = sim.brokers.write("orders", number, [value])
                if end is not None:
                    written[f"orders-{number}", end - 1] = sim.now
            if sim.now < 19:
                sim.scheduler.after(EVERY, write)

        sim.scheduler.after(8, write)
        _, bob = group.joins(), group.joins()
        sim.run(for_=10)
        bob.slow_listener = 2.0
        group.joins()
        sim.run(for_=12)
        rows, _ = read(json.dumps(event) for event in group.events())

    long = [row for row in Tables(rows).downtimes if (row.downtime_ms or 0.0) > 500]
    assert long
    for row in long:
        assert row.first_delivered is not None
        assert row.expected_offset is not None
        waited = row.first_delivered - BEGAN - written[row.partition, row.expected_offset]
        assert row.downtime_ms == pytest.approx(1000 * waited, abs=50)
