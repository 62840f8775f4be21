"""What may lead to a rebalance: what a member did, and what became of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aktor.trace.rebalances.causes import Cause

__all__ = ["REACH", "Departure", "Resized"]

#: A member that left or was lost so many seconds before explains a rebalance: the other members
#: learn of it by a heartbeat.
REACH: Final = 30.0


@dataclass(frozen=True, slots=True)
class Departure:
    """A member left its group, or was lost."""

    at: float
    cause: Cause
    because: str | None
    name: tuple[str | None, str | None]
    #: Whose trace tells it. (A name is that of each process that is started again under it.)
    source: str | None = None
    #: The last generation of a classic group that had this member.
    generation: int | None = None
    #: Whose traces say that they were not in the group then: they did not rebalance for it.
    outside: frozenset[str] = frozenset()
    #: The first generation or epoch in which the group had this member again; of one that stayed,
    #: the first that may be of something later.
    back_in: int | None = None

    @property
    def by(self) -> object:
        """Whose deed it was: one of these is told. (What the brokers have changed each member
        tells.)"""
        return Cause.METADATA_CHANGE if self.cause is Cause.METADATA_CHANGE else self.source


@dataclass(frozen=True, slots=True)
class Resized:
    """A topic has another number of partitions, as a member heard of it at this time. It was
    deleted (it has None now), or created anew (it had None)."""

    topic: str
    at: float
    before: object = None
    now: object = None

    @property
    def because(self) -> str:
        """That, for people."""
        if self.now is None:
            return f"the topic {self.topic} was deleted"
        if self.before is None:
            return f"the topic {self.topic} was created anew"
        return f"the partitions of {self.topic} changed ({self.before}, now {self.now})"

    def is_the_same(self, other: Resized) -> bool:
        """Whether this is what another member has told not long before."""
        same = (self.topic, self.before, self.now) == (other.topic, other.before, other.now)
        return same and self.at <= other.at + REACH

    def has_brought(self, partition: str) -> bool:
        """Whether the partition is one of those that the topic did not have before."""
        topic, _, number = partition.rpartition("-")
        if topic != self.topic or self.now is None:
            return False
        if self.before is None:
            return True
        return isinstance(self.before, int) and number.isdigit() and int(number) >= self.before
