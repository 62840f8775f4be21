"""Times in pictures: UTC, with their day and their unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aktor.trace.rebalances.holds import seconds

__all__ = ["Window", "clock", "day", "lasting", "milliseconds", "moment"]

#: Of a longer time only a part is drawn member by member: so many seconds.
LONGEST: Final = 1200.0
PART: Final = 600.0


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a picture shows, in seconds since 1970."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.ended - self.began

    def meets(self, began: float, ended: float) -> bool:
        """Whether any of that time is in it."""
        return ended >= self.began and began <= self.ended

    def cut(self, began: float, ended: float) -> tuple[float, float]:
        """As much of that time as is in it."""
        return max(began, self.began), min(ended, self.ended)

    @staticmethod
    def of(times: Iterable[float]) -> Window:
        """All of these times, and a little room."""
        found = list(times) or [0.0]
        began, ended = min(found), max(found)
        room = max(0.02 * (ended - began), 0.005)
        return Window(began - room, ended + room)

    def around(self, began: float, ended: float) -> Window:
        """A part of it, with that time in the middle; all of it if it is short."""
        if self.seconds <= LONGEST:
            return self
        half = max(PART, 1.5 * (ended - began)) / 2
        middle = (began + ended) / 2
        return Window(max(self.began, middle - half), min(self.ended, middle + half))


def milliseconds(at: float) -> float:
    """As Vega has it."""
    return round(at * 1000, 1)


def moment(at: float) -> datetime:
    """As Python has it, in UTC."""
    return datetime.fromtimestamp(at, UTC)


def day(at: float) -> str:
    """The day of a time."""
    return f"{moment(at):%Y-%m-%d}"


def clock(at: float) -> str:
    """The time of day, with milliseconds."""
    return f"{moment(round(at, 3)):%H:%M:%S.%f}"[:-3]


def lasting(began: float, ended: float) -> str:
    """From when to when, and how long."""
    return f"{seconds((ended - began) * 1000)}, from {clock(began)} to {clock(ended)} UTC"
