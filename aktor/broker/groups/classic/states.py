"""The states of a classic group, and its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

__all__ = ["State", "TRANSITIONS", "Trigger"]


class State(StrEnum):
    """The state of a classic group; the values are what DescribeGroups shows."""

    EMPTY = "Empty"
    """The group has no members, perhaps offsets. New members may join; Heartbeat, SyncGroup and
    LeaveGroup of members are refused."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for all members to join. Heartbeats tell them so."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; the group waits for the leader's assignment."""

    STABLE = "Stable"
    """SyncGroup gives each member of the generation its assignment."""

    DEAD = "Dead"
    """The group is deleted. Clients must look for the coordinator anew."""


class Trigger(Enum):
    """What can happen to a classic group as a whole."""

    REBALANCE = "a member joined, left or changed its metadata"
    JOINED = "the first half of a rebalance ended, and a generation begins"
    DESERTED = "a rebalance ended without members"
    ASSIGNED = "the leader's assignment has come"
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
