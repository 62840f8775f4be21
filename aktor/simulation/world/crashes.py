"""Crashes of actors on command: the points at which one can crash, and the crash itself.

An actor can crash at any message that it handles: `POINTS` has all pairs of actor and message. The
exception is raised before the handler runs (as if its first line had the bug), or after it has run
and its messages were sent (as if its last line had the bug).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.runtime.supervision import start_order
from aktor.consumer.configuration.checks import did_you_mean, nearest
from aktor.consumer.kind import kind_of
from aktor.consumer.system import ActorType

__all__ = ["ACTORS", "CONSUMER_POINTS", "POINTS", "Crash", "Crashes", "Point"]


class Crash(RuntimeError):
    """The exception by which a simulation crashes an actor."""


class Point(NamedTuple):
    """An actor's name, as in `consumer.status()`, and a type of message that it understands."""

    actor: str
    message: type

    def __str__(self) -> str:
        return f"{self.actor} on {self.message.__name__}"


def in_start_order(protocol: str) -> tuple[ActorType, ...]:
    """The actors that the supervisor of such a consumer restarts."""
    kinds = {kind.name: kind for kind in kind_of(protocol).actors}
    order = start_order({name: kind.NEEDS for name, kind in kinds.items()})
    return tuple(kinds[name] for name in order)


#: The names of all actors that the supervisor restarts, in start order.
ACTORS: Final[tuple[str, ...]] = tuple(kind.name for kind in in_start_order("classic"))


def _points(protocol: str) -> tuple[Point, ...]:
    """The points of consumers with this `group_protocol`."""
    return tuple(
        Point(kind.name, message)
        for kind in in_start_order(protocol)
        for message in sorted(kind.understands(), key=lambda message: message.__name__)
    )


#: These actors are told of the crash of another one: they go on, and their questions are lost.
HEARS_OF: Final[Mapping[str, str]] = {
    "network": "fetch",
    **{
        kind.name: kind.mends()[0]
        for kind in in_start_order("classic")
        if issubclass(kind, RequestManager) and kind.mends()
    },
}

#: Every point at which an actor can crash, in the classic and in the consumer protocol.
POINTS: Final[tuple[Point, ...]] = _points("classic")
CONSUMER_POINTS: Final[tuple[Point, ...]] = _points("consumer")
_EVERY_POINT: Final = frozenset(POINTS + CONSUMER_POINTS)


class Crashes:
    """Crashes of one actor over one type of message; `happened` so many times.

    `late`: the actor handles the message, and its messages are sent, before it crashes.
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
