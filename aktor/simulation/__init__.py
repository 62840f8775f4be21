"""Simulation in virtual time: real consumers, a whole cluster and its faults, from one seed.

    with Simulation(seed=7) as sim:
        orders = sim.topic("orders", partitions=4, records=500)
        sim.consumers(group="billing", topics=[orders], count=3)
        sim.chaos(for_=60).run(for_=60)
        sim.heal().progress().check()

Needs greenlet: the extra `simulation`.
"""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
from aktor.simulation.errors import (
    BlockingCallError,
    CheckFailedError,
    DeadlockError,
    MemberFailedError,
    SimulationError,
    SpinError,
    TimeIsUpError,
)
from aktor.simulation.shrink import Shrunk, shrink
from aktor.simulation.simulation import Simulation
from aktor.simulation.sink import Guarantee, Sink
from aktor.simulation.world.crashes import POINTS, Point
from aktor.simulation.world.member import Member
from aktor.simulation.world.stored import Stored
from aktor.simulation.world.topic import Topic

__all__ = [
    "POINTS",
    "BlockingCallError",
    "CheckFailedError",
    "DeadlockError",
    "Guarantee",
    "Member",
    "MemberFailedError",
    "Point",
    "Shrunk",
    "Simulation",
    "Stored",
    "SimulationError",
    "Sink",
    "SpinError",
    "TimeIsUpError",
    "Topic",
    "shrink",
]
