"""What a member, its consumers and its producers ask of the simulation in which they live."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.simulation.history import History
from aktor.simulation.world.cluster import Brokers
from aktor.simulation.world.crashes import Crashes
from aktor.simulation.world.network import Network
from aktor.simulation.world.scheduler import Scheduler, Task
from aktor.simulation.world.topic import Topic

__all__ = ["Process", "Surroundings"]


class Surroundings(Protocol):
    """The simulation, as its members see it; see `World` for what programs and faults see."""

    seed: int
    scheduler: Scheduler
    history: History
    brokers: Brokers
    network: Network
    topics: list[Topic]
    #: Crashes that were asked for of any member.
    crashes: list[Crashes]

    @property
    def now(self) -> float:
        """Seconds since the beginning."""

    def learn(self, group: str, topics: Collection[str] | None = ()) -> None:
        """There is this group, and it reads these topics, too; None: those of a pattern."""


class Process(Protocol):
    """A member, as its consumers and producers see it."""

    name: str
    simulation: Surroundings
    #: Killed: nothing that its code still does is part of the history.
    gone: bool
    #: Called with (actor, message) before an actor of it gets a message.
    before_each: Callable[[CooperativeActor, object], None] | None

    @property
    def ahead(self) -> float:
        """Seconds by which its monotonic clock is ahead of the others'."""

    def also(self, work: Callable[[], Any]) -> Task:
        """Run this, too, in another thread of it."""

    def is_given(self, records: int) -> None:
        """A consumer of it gives so many records out."""

    def note(self, event: str, **values: Any) -> None:
        """Add something to the history, of each of its consumers."""
