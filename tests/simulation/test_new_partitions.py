"""Groups that begin at the end of their topics ("latest"), while these get partitions."""

from __future__ import annotations

import pytest

from aktor.simulation import Simulation
from tests.gate import all_but_the_first

#: Leaders move while a topic grows. No member dies or loses its place in the group before it has
#: committed for a new partition: then records may be lost (the limits in docs/groups.md), as in
#: seed 2 of the consumer protocol if coordinators and brokers fail, too.
STORM = {"topic_grown": 2, "leader_move": 2}


@pytest.mark.parametrize("seed", all_but_the_first(1, range(3)))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("weights", [{"topic_grown": 1}, STORM], ids=["calm", "storm"])
def test_no_record_is_lost_while_a_topic_grows(
    protocol: str, weights: dict[str, float], seed: int
) -> None:
    """KAFKA-12261. The topic is empty when the group begins, so the check that every record is
    finished demands all of them."""
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=1, records=0)
        sim.consumers(
            group="g",
            topics=[orders],
            count=2,
            group_protocol=protocol,
            auto_offset_reset="latest",
        )
        sim.run(for_=15)
        sim.trickle(orders, per_second=20, seconds=60)
        sim.chaos(rate=0.2, for_=60, weights=weights).run(for_=60)
        sim.heal().progress().check()

        assert orders.partitions > 1
