"""The supervision policy: data, and one pure function that reads it.

A child may depend only on those above it in the list, so when one crashes it and everyone below
start afresh (Erlang's rest_for_one). A child that crashes more often than its budget allows is
given up, and the consumer with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aktor.actors.runtime import CooperativeActor

__all__ = ["Child", "GiveUp", "Restart", "after_crash"]

#: Makes and starts a child of this incarnation.
Maker: TypeAlias = Callable[[int], CooperativeActor]


@dataclass(frozen=True, slots=True)
class Child:
    """One supervised actor: at most `restarts` crashes `within` seconds are mended."""

    name: str
    make: Maker
    restarts: int = 5
    within: float = 60.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start these afresh, in this order."""

    children: tuple[Child, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The budget of `child` is spent."""

    child: Child


def after_crash(
    children: Sequence[Child], crashed: str, crashes: Sequence[float], now: float
) -> Restart | GiveUp:
    """What a crash of `crashed` at `now` leads to, given the times it crashed before."""
    names = [child.name for child in children]
    at = names.index(crashed)
    child = children[at]
    recent = [then for then in crashes if now - then < child.within]
    if len(recent) >= child.restarts:
        return GiveUp(child)
    return Restart(tuple(children[at:]))
