"""What programs and faults ask of the simulation in which they happen."""

from __future__ import annotations

from random import Random
from typing import Protocol

from aktor.simulation.world.member import Member
from aktor.simulation.world.surroundings import Surroundings

__all__ = ["Trouble", "World"]


class Trouble(Protocol):
    """The faults of a simulation, as programs see them."""

    @property
    def raging(self) -> bool:
        """Whether there are faults, and they are not all healed."""


class World(Surroundings, Protocol):
    """The simulation with its members."""

    random: Random
    members: list[Member]
    #: Each group that a member was ever to read for.
    groups: list[str]

    @property
    def bootstrap_servers(self) -> list[str]:
        """What a member gives its consumer."""

    @property
    def faults(self) -> Trouble:
        """What goes wrong."""

    @property
    def me(self) -> Member:
        """For a member's code: the member whose code it is."""

    def sleep(self, seconds: float) -> None:
        """For a member's code: it is busy for so long, as by `time.sleep`."""

    def replace(self, gone: Member) -> Member:
        """A new process in the place of one that is gone."""
