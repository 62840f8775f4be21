"""What a fault is given: the simulation that it disturbs; and whom of it the fault hits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from aktor.broker.codes import Code
from aktor.simulation.world.host import SimulatedHost
from aktor.simulation.world.member import Member
from aktor.simulation.world.topic import Topic
from aktor.simulation.world.world import Trouble, World

__all__ = [
    "Begin",
    "Disturbed",
    "End",
    "Faults",
    "hosts",
    "nothing",
    "some_broker",
    "some_member",
    "some_partition",
]

#: Ends a fault.
End = Callable[[], object]


class Faults(Trouble, Protocol):
    """The faults of a simulation, as each of them sees them."""

    #: What brokers may say, by API: see `REFUSALS`.
    refusals: Mapping[str, Sequence[Code]]

    def hit(self, what: str, which: str | int) -> None:
        """The fault that begins now concerns only these "members", "brokers", "topics" or
        "partitions"."""


class Disturbed(World, Protocol):
    """The simulation that faults disturb."""

    @property
    def faults(self) -> Faults:
        """What goes wrong."""


#: Begins a fault, and returns what ends it; whom it hits it draws.
Begin = Callable[[Disturbed, random.Random], End]


def nothing() -> None:
    """Ends a fault that has no end, or that found nobody to hit."""


def some_member(sim: Disturbed, draw: random.Random) -> Member | None:
    """One whose process runs; None if there is none."""
    running = [member for member in sim.members if member.running]
    if not running:
        return None
    member = draw.choice(running)
    sim.faults.hit("members", member.name)
    return member


def hosts(sim: Disturbed) -> list[SimulatedHost]:
    """Those of all consumers."""
    return [host for member in sim.members for host in member.hosts]


def some_broker(sim: Disturbed, draw: random.Random) -> int:
    """One that is all that the fault hits: of partitions that it leads, groups it coordinates."""
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.faults.hit("brokers", node)
    return node


def some_partition(sim: Disturbed, topic: Topic, draw: random.Random) -> int:
    """One of a topic that has any."""
    partition = draw.randrange(topic.partitions)
    sim.faults.hit("partitions", f"{topic}-{partition}")
    return partition
