"""The states of a classic group, and what moves it from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

__all__ = ["State", "TRANSITIONS", "Trigger"]


class State(StrEnum):
    """Where a classic group stands; the values are what DescribeGroups shows.

    EMPTY: there are no members, perhaps offsets. New ones are let in, all else is refused.
    PREPARING_REBALANCE: members are awaited to (re)join. Heartbeats tell them to.
    COMPLETING_REBALANCE: a generation has begun; its leader's assignment is awaited.
    STABLE: every member of the generation can have its assignment.
    DEAD: the group is deleted. Whoever still asks shall look for the coordinator anew.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Trigger(Enum):
    """What can happen to a classic group as a whole."""

    REBALANCE = "who is in it, or what one of them wants, has changed"
    JOINED = "all have joined who will, a generation begins"
    DESERTED = "a rebalance ended with nobody there"
    ASSIGNED = "the leader's assignment is kept"
    REMOVED = "the group is deleted"


#: The whole machine (Kafka's ClassicGroupState). A pair that is not here is a bug in us.
TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    State.EMPTY: {
        Trigger.REBALANCE: State.PREPARING_REBALANCE,
        Trigger.REMOVED: State.DEAD,
    },
    State.PREPARING_REBALANCE: {
        Trigger.JOINED: State.COMPLETING_REBALANCE,
        Trigger.DESERTED: State.EMPTY,
        Trigger.REMOVED: State.DEAD,
    },
    State.COMPLETING_REBALANCE: {
        Trigger.ASSIGNED: State.STABLE,
        Trigger.REBALANCE: State.PREPARING_REBALANCE,
        Trigger.REMOVED: State.DEAD,
    },
    State.STABLE: {
        Trigger.REBALANCE: State.PREPARING_REBALANCE,
        Trigger.REMOVED: State.DEAD,
    },
    State.DEAD: {Trigger.REMOVED: State.DEAD},
}
