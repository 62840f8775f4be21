"""Crashes of actors on command: the points at which one can crash, and the crash itself.

An actor can crash at any message that it understands: `POINTS` has all such pairs. The exception
is raised before the actor has looked at the message, as if the first line of its handler were the
bug, or after it has done all, as if the last were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aktor.actors.network import NetworkActor
from aktor.actors.runtime import CooperativeActor
from aktor.consumer.checks import did_you_mean, nearest
from aktor.consumer.system import managers

__all__ = ["ACTORS", "CONSUMER_POINTS", "POINTS", "Crash", "Crashes", "Point"]


class Crash(RuntimeError):
    """The exception by which a simulation crashes an actor."""


class Point(NamedTuple):
    """An actor's name, as in `consumer.status()`, and a type of message that it understands."""

    actor: str
    message: type

    def __str__(self) -> str:
        return f"{self.actor} on {self.message.__name__}"


#: The names of all actors that the supervisor restarts, in start order.
ACTORS: Final[tuple[str, ...]] = ("network", *(kind.name for kind in managers("classic")))


def _points(protocol: str) -> tuple[Point, ...]:
    """Those of consumers with this `group_protocol`."""
    kinds: tuple[Any, ...] = (NetworkActor, *managers(protocol))
    return tuple(
        Point(kind.name, message)
        for kind in kinds
        for message in sorted(kind.understands(), key=lambda one: one.__name__)
    )


#: Whose crash each of these hears of: it lives on, and what it had asked is lost.
HEARS_OF: Final[Mapping[str, str]] = {
    "network": "fetch",
    **{kind.name: kind.mends()[0] for kind in managers("classic") if kind.mends()},
}

#: Every point at which an actor can crash, in the classic and in the consumer protocol.
POINTS: Final[tuple[Point, ...]] = _points("classic")
CONSUMER_POINTS: Final[tuple[Point, ...]] = _points("consumer")
_EVERY_POINT: Final = frozenset(POINTS + CONSUMER_POINTS)


class Crashes:
    """Crashes of one actor over one type of message; `happened` so many times.

    `late`: it handles the message, and says what it has to say, before it crashes.
    `on_crash` is called before each of them is raised. Raises ValueError for what can never happen.
    """

    def __init__(
        self,
        actor: str,
        on: type,
        times: int,
        *,
        late: bool = False,
        on_crash: Callable[[], object] = lambda: None,
    ) -> None:
        if actor not in ACTORS:
            hint = did_you_mean(nearest(actor, ACTORS))
            raise ValueError(f"there is no actor {actor!r}{hint}: {', '.join(ACTORS)}")
        if Point(actor, on) not in _EVERY_POINT:
            name = getattr(on, "__name__", repr(on))
            raise ValueError(f"{actor} does not understand {name}; aktor.simulation.POINTS has all")
        if times < 1:
            raise ValueError(f"times is {times}, but must be 1 or more")
        self.actor = actor
        self.on = on
        self.left = times
        self.happened = 0
        self._late = late
        self._on_crash = on_crash

    def before(self, actor: CooperativeActor, message: object) -> None:
        """Called before an actor gets a message."""
        if self.left > 0 and actor.name == self.actor and type(message) is self.on:
            if self._late:
                actor.on_receive(message)
            self.left -= 1
            self.happened += 1
            self._on_crash()
            raise Crash(f"{actor.name} on {self.on.__name__}")
