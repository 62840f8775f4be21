"""Groups that begin at the end of their topics ("latest"), while these get partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aktor.simulation import Simulation
from aktor.simulation.faults.chaos import SURVIVABLE
from tests.gate import all_but_the_first

CALM = {"topic_grown": 1}

#: Everything that a group survives, mostly growth: its members die, are replaced and expelled
#: before they have committed for a new partition.
STORM = {**SURVIVABLE, "topic_grown": 20, "member_killed": 6, "session_expired": 4}

#: The traced one: the first owner of a new partition loses its coordinator and is replaced, the
#: topic grows again, and the partition's next owner has not seen it come.
FOUND = {"topic_grown": 2, "leader_move": 2, "coordinator_move": 1, "broker_crash": 1}


def go_through(
    protocol: str, weights: Mapping[str, float], seed: int, *, rate: float, **settings: Any
) -> Simulation:
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
            **settings,
        )
        sim.run(for_=15)
        sim.trickle(orders, per_second=20, seconds=60)
        sim.chaos(rate=rate, for_=60, weights=weights).run(for_=60)
        sim.heal().progress().check()

        assert orders.partitions > 1
        return sim


@pytest.mark.parametrize("seed", all_but_the_first(1, range(2)))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("weights", "rate"),
    [
        pytest.param(STORM, 0.3, id="storm"),
        pytest.param(CALM, 0.2, id="calm", marks=pytest.mark.gate),
    ],
)
def test_no_record_is_lost_while_a_topic_grows(
    protocol: str, weights: Mapping[str, float], rate: float, seed: int
) -> None:
    go_through(protocol, weights, seed, rate=rate)


def test_the_next_owner_of_a_new_partition_reads_what_the_first_one_did_not_commit() -> None:
    sim = go_through("consumer", FOUND, 2, rate=0.2)

    judged = {
        partition: (event["new"], event["because"])
        for event in sim.history.named("partition.judged")
        for partition in event["partitions"]
    }
    assert judged.pop("orders-0") == (False, "it is the first partition of its topic")
    assert (True, "its topic had 1 partitions when the group began to follow it") in judged.values()
    assert all(new for new, _ in judged.values())
