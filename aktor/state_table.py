"""A state machine that is one table: which trigger leads from which state to which."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["IllegalTransitionError", "follow", "mermaid"]

S = TypeVar("S", bound=enum.Enum)
K = TypeVar("K", bound=enum.Enum | type)


class IllegalTransitionError(RuntimeError):
    """A trigger came in a state that does not know it: a bug in us."""


def follow(table: Mapping[S, Mapping[K, S]], before: S, trigger: K) -> S:
    """The state that follows; raises `IllegalTransitionError` if the table has none.

    A trigger is a member of an enum, or the type of a message.
    """
    # Without `try`: a signal handler may raise a KeyError here, which is not ours to catch.
    after = table[before].get(trigger)
    if after is None:
        name = trigger.name if isinstance(trigger, enum.Enum) else trigger.__name__
        raise IllegalTransitionError(f"{name} while {before.name}")
    return after


def mermaid(table: Mapping[S, Mapping[K, S]]) -> str:
    """The table as a Mermaid state diagram; its first state is where all begins."""
    first = next(iter(table))
    edges = [(a, t, b) for a, row in table.items() for t, b in row.items()]
    lines = [f"    {a.name} --> {b.name}: {_label(t)}" for a, t, b in edges]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first.name}", *lines])


def _label(trigger: enum.Enum | type) -> str:
    return str(trigger.value) if isinstance(trigger, enum.Enum) else trigger.__name__
