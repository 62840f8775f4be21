"""A member: a process of its own that runs a user's code, with its consumers, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aktor.actors.runtime import CooperativeActor
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.system import HOST, Host
from aktor.simulation.crashes import Crashes
from aktor.simulation.host import Site
from aktor.simulation.scheduler import Task

if TYPE_CHECKING:
    from aktor.simulation.simulation import Simulation

__all__ = ["Member"]


class Member(Host):
    """Owns one application thread and the consumers that it makes."""

    def __init__(self, simulation: Simulation, name: str, work: Callable[[], Any]) -> None:
        self.simulation = simulation
        self.name = name
        self.sites: list[Site] = []
        #: Seconds by which its clock is ahead of the others'.
        self.ahead = 0.0
        #: Killed: its process is gone.
        self.gone = False
        #: What its code is asked to do by a fault: be busy for so long, seek somewhere.
        self.busy_for = 0.0
        self.seeks = False
        self.work = work
        #: Called with (actor, message) before an actor of it gets a message.
        self.before_each: Callable[[CooperativeActor, object], None] | None = None
        self.task: Task = simulation.scheduler.spawn(name, lambda: self._live(work))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Member {self.name}>"

    def _live(self, work: Callable[[], Any]) -> Any:
        HOST.set(self)
        return work()

    def for_consumer(self, consumer: KafkaConsumer) -> Host:
        """A new consumer, made by this member's code."""
        site = Site(self, len(self.sites) + 1)
        self.sites.append(site)
        site.adopt(consumer)
        return site

    @property
    def consumer(self) -> KafkaConsumer:
        """The consumer that it made last."""
        return self.sites[-1].consumer

    @property
    def running(self) -> bool:
        """Whether its process lives and does something."""
        return not self.gone and not self.task.frozen and not self.task.over

    # -- what happens to it

    def crash(self, actor: str, on: type, *, times: int = 1, late: bool = False) -> Crashes:
        """Let this actor of this member fall over the next messages of this type.

        `late`: after it has handled them. Returns what counts how often it happened.
        """
        crashes = Crashes(actor, on, times, late=late)
        self.before_each = crashes.before
        return crashes

    def kill(self) -> None:
        """Its process is gone: connections break, nobody says good-bye."""
        if not self.gone:
            self.gone = True
            self.task.kill()
            for site in self.sites:
                site.end()
            self.simulation.history.note("member.killed", self.name)

    def freeze(self) -> None:
        """Its process stands still (swapped out, or its virtual machine is paused)."""
        if not self.gone:
            self.simulation.history.note("member.frozen", self.name)
            self.task.freeze()
            for site in self.sites:
                site.freeze()

    def thaw(self) -> None:
        """It goes on as if nothing had been."""
        if not self.gone and self.task.frozen:
            self.simulation.history.note("member.thawed", self.name)
            for site in self.sites:
                site.thaw()
            self.task.thaw()
