"""The supervision policy: data, and functions that read it.

Each child declares whose restart leaves it with state that is worth nothing (`needs`), and whose
restart it survives but must hear of, because a question of its own was lost (`asks`). From `needs`
follows who starts afresh after a crash; from the routes follows which facts are told to who starts
afresh (`LastFacts`). A child that crashes more often than its budget allows is given up, and the
consumer with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from aktor.actors.runtime import CooperativeActor
from aktor.events.message import Message
from aktor.values import Value

__all__ = ["Child", "GiveUp", "LastFacts", "Restart", "after_crash", "check_order"]

#: Makes and starts a child of this incarnation.
Maker: TypeAlias = Callable[[int], CooperativeActor]


class Child(Value, kw_only=False):
    """One supervised actor: at most `restarts` crashes `within` seconds are mended.

    When an actor in `needs` starts afresh, this one does, too. When one in `asks` starts afresh,
    this one lives on and is told `ActorsRestarted`.
    """

    name: str
    make: Maker
    needs: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    restarts: int = 5
    within: float = 60.0


class Restart(Value, kw_only=False):
    """Start these afresh, in this order."""

    children: tuple[Child, ...]


class GiveUp(Value, kw_only=False):
    """The budget of `child` is spent."""

    child: Child


def check_order(children: Sequence[Child]) -> None:
    """Refuse a list in which a child stands before one that it needs, with ValueError."""
    above: set[str] = set()
    for child in children:
        if missing := set(child.needs) - above:
            raise ValueError(f"{child.name} starts before {', '.join(sorted(missing))}")
        above.add(child.name)


def after_crash(
    children: Sequence[Child], crashed: str, crashes: Sequence[float], now: float
) -> Restart | GiveUp:
    """What a crash of `crashed` at `now` leads to, given the times it crashed before.

    `children` are in start order: each stands below those that it needs.
    """
    child = next(one for one in children if one.name == crashed)
    recent = [then for then in crashes if now - then < child.within]
    if len(recent) >= child.restarts:
        return GiveUp(child)
    fallen = {crashed}
    for one in children:
        if not fallen.isdisjoint(one.needs):
            fallen.add(one.name)
    return Restart(tuple(one for one in children if one.name in fallen))


class LastFacts:
    """Owns the last fact of each actor that tells one, for actors that start afresh.

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
        self._last[self._tellers[type(fact)]] = fact

    def forget(self, tellers: Sequence[str]) -> None:
        """These start afresh: what they told is to be found out again."""
        for name in tellers:
            self._last.pop(name, None)

    def known(self) -> tuple[Message, ...]:
        """All that holds."""
        return tuple(self._last.values())
