"""The standard simulation: a group that reads while everything goes wrong, drawn from one seed.

First a phase with faults, in which nothing may be done wrong; then everything is healed, and all
must be read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from aktor.simulation.chaos import REFUSALS, WEIGHTS
from aktor.simulation.errors import SimulationError
from aktor.simulation.reader import KINDS
from aktor.simulation.simulation import Simulation, Topic

__all__ = ["FAULTY", "Outcome", "run_storm", "shrink"]

#: Virtual seconds with faults, and how long the group may take afterwards.
FAULTY: Final = 60.0
AT_MOST: Final = 180.0

#: How long a member may need to be in the group again: a JoinGroup on a half-open connection is
#: waited for as long as the slowest member may take (`max_poll_interval_ms`, and five seconds).
IN_BY: Final = 330.0

#: A topic does not grow beyond this.
MOST_PARTITIONS: Final = 8

#: How often a group that is well is shaken once more.
AFTERSHOCKS: Final = 2


class Outcome:
    """What became of one seed: `error` is None if all promises were kept."""

    def __init__(self, simulation: Simulation, error: SimulationError | None) -> None:
        self.seed = simulation.seed
        self.error = error
        self.virtual = simulation.now
        self.history = simulation.history
        self.faults = list(simulation.faults.faults)


def run_storm(
    seed: int, *, without: Collection[int] = (), weights: Mapping[str, float] = WEIGHTS
) -> Outcome:
    """One storm. `without` leaves out faults by their numbers."""
    with Simulation(seed, without=without) as sim:
        draw = sim.random
        orders = sim.topic("orders", partitions=draw.randint(2, 6), records=100)
        sim.consumers(
            group="g",
            topics=[orders],
            count=draw.randint(2, 4),
            kind=draw.choice(KINDS),
            **_settings(sim),
        )
        sim.trickle(orders, per_second=10.0, seconds=FAULTY)
        sim.chaos(rate=draw.choice([0.1, 0.4, 1.0]), for_=FAULTY, weights=weights)
        try:
            sim.run(for_=FAULTY)
            sim.heal()
            _recover(sim)
            for _ in range(AFTERSHOCKS):
                _shake(sim, orders)
                _recover(sim)
            sim.check()
        except SimulationError as error:
            return Outcome(sim, error)
        return Outcome(sim, None)


def _recover(sim: Simulation) -> None:
    """Everything is read, and everybody is in the group."""
    sim.progress(at_most=AT_MOST).run(until=sim.everybody_is_in, at_most=IN_BY)


def _shake(sim: Simulation, topic: Topic) -> None:
    """One rebalance in which every API refuses one request, perhaps over a partition that not
    everybody knows: no later trouble may help out."""
    if 0 < topic.partitions < MOST_PARTITIONS and sim.random.random() < 0.5:
        sim.brokers.grow_topic(topic, topic.partitions + 1)
    for group in sim.groups:
        sim.brokers.expire_somebody(group, sim.random)
    for api, codes in sorted(REFUSALS.items()):
        sim.network.refusals[api] = [sim.random.choice(codes)]
    topic.write(20)


def _settings(sim: Simulation) -> dict[str, Any]:
    draw = sim.random
    assignor = draw.choice([RangePartitionAssignor, CooperativeStickyAssignor])
    return {
        "partition_assignment_strategy": [assignor],
        "session_timeout_ms": draw.choice([6000, 10_000]),
        "heartbeat_interval_ms": draw.choice([500, 2000]),
        "max_poll_interval_ms": draw.choice([10_000, 300_000]),
        "max_poll_records": draw.choice([5, 500]),
        "enable_auto_commit": draw.random() < 0.6,
    }


def shrink(outcome: Outcome) -> Outcome:
    """Leave out faults as long as the same check fails; the smallest storm that still does."""
    assert outcome.error is not None, "there is nothing to shrink"
    without: set[int] = set()
    best = outcome
    size = max(1, len(outcome.faults) // 2)
    while True:
        left = [one.number for one in outcome.faults if one.number not in without]
        parts = [left[at : at + size] for at in range(0, len(left), size)]
        for part in parts:
            tried = run_storm(outcome.seed, without=without | set(part))
            if type(tried.error) is type(outcome.error):
                without |= set(part)
                best = tried
        if size == 1:
            break
        size //= 2
    best.faults = [one for one in best.faults if one.number not in without]
    return best
