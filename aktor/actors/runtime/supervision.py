"""The supervision policy: data, and functions that read it.

Each child declares the actors whose restart makes its state worthless (`needs`), and those whose
restart it survives but must be told of, because a question was lost (`asks`). `needs` decides in
which order the children start, and which of them start afresh after a crash. The routes decide
which facts (`LastFacts`) a child is told that starts afresh. A child that crashes more often than
its budget allows is given up, and the consumer with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.events.message import Message
from aktor.values import Value

__all__ = ["Child", "GiveUp", "LastFacts", "Restart", "after_crash", "start_order"]

#: Makes and starts a child of this incarnation.
Maker: TypeAlias = Callable[[int], CooperativeActor]


class Child(Value, kw_only=False):
    """One supervised actor: at most `restarts` crashes `within` seconds are mended.

    When an actor in `needs` starts afresh, this one does, too. When one in `asks` starts afresh,
    this one lives on and is told `ActorsRestarted`. `takes_requests`: it is told `SendRequests`,
    with the requests of all others.
    """

    name: str
    make: Maker
    needs: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    takes_requests: bool = False
    restarts: int = 5
    within: float = 60.0


class Restart(Value, kw_only=False):
    """Start these afresh, in this order."""

    children: tuple[Child, ...]


class GiveUp(Value):
    """The budget of the child that crashed is spent."""


def start_order(needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """These actors, each after those that it needs; otherwise they keep their order.

    Raises ValueError if some need each other, or an actor that is not there.
    """
    started: list[str] = []
    while len(started) < len(needs):
        left = [name for name in needs if name not in started]
        ready = [name for name in left if set(started).issuperset(needs[name])]
        if not ready:
            raise ValueError(f"{', '.join(left)} can never start: see what they need")
        started += ready
    return tuple(started)


def after_crash(
    children: Sequence[Child], crashed: str, crashes: Sequence[float], now: float
) -> Restart | GiveUp:
    """What to do after a crash of `crashed` at `now`, given the times of its earlier crashes.

    `children` are in start order: each stands below those that it needs.
    """
    crashing = next(child for child in children if child.name == crashed)
    recent = [then for then in crashes if now - then < crashing.within]
    if len(recent) >= crashing.restarts:
        return GiveUp()
    fallen = {crashed}
    for child in children:
        if not fallen.isdisjoint(child.needs):
            fallen.add(child.name)
    return Restart(tuple(child for child in children if child.name in fallen))


class LastFacts:
    """Owns the last fact of each teller, for actors that start afresh.

    A fact is a message that holds until its teller says the next one (`FACTS` in the routes: type
    -> who tells it). The routes name this class as a receiver of each, and the dispatcher tells it
    at once: a fact that is told between a crash and the restart is not missed. All facts are told
    on the dispatcher's thread.
    """

    def __init__(self, tellers: Mapping[type, str]) -> None:
        self._tellers = tellers
        self._last: dict[str, Message] = {}

    def tell(self, fact: Message) -> None:
        """Take one fact; the runtime's `Receiver`."""
        teller = self._tellers[type(fact)]
        self._last.pop(teller, None)
        self._last[teller] = fact

    def forget(self, tellers: Sequence[str]) -> None:
        """These actors start afresh: the facts that they told do not hold any more."""
        for name in tellers:
            self._last.pop(name, None)

    def known(self) -> tuple[Message, ...]:
        """All facts that hold, in the order in which they were told."""
        return tuple(self._last.values())
