"""What triggers a rebalance, by the words of the trace."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["Cause", "cause_of", "departure_of"]


class Cause(enum.Enum):
    """Why a rebalance began; the values are in the tables."""

    JOIN = "join"
    LEAVE = "leave"
    SUBSCRIPTION_CHANGE = "subscription_change"
    METADATA_CHANGE = "metadata_change"
    POLL_INTERVAL_EXCEEDED = "poll_interval_exceeded"
    FENCED = "fenced"
    REFUSED = "refused"
    COORDINATOR_MOVED = "coordinator_moved"
    SECOND_ROUND = "second_round"
    PEER = "peer"
    UNKNOWN = "unknown"


#: How `because` of `rebalance.triggered` begins.
_TRIGGERED: Final = (
    ("first join", Cause.JOIN),
    ("the group has taken this member in", Cause.JOIN),
    ("the subscription changed", Cause.SUBSCRIPTION_CHANGE),
    ("the partitions of ", Cause.METADATA_CHANGE),
    ("a topic was deleted and created anew", Cause.METADATA_CHANGE),
    ("no poll for ", Cause.POLL_INTERVAL_EXCEEDED),
    # In the consumer protocol: the member that had left for that comes back.
    ("the application polls again", Cause.POLL_INTERVAL_EXCEEDED),
    ("fenced: ", Cause.FENCED),
    ("after ", Cause.REFUSED),
    ("COORDINATOR_", Cause.COORDINATOR_MOVED),
    ("NOT_COORDINATOR", Cause.COORDINATOR_MOVED),
    ("partitions were handed over: second round", Cause.SECOND_ROUND),
    ("the coordinator said that the group rebalances", Cause.PEER),
    ("the coordinator assigned other partitions", Cause.PEER),
    ("the target is not reached yet", Cause.PEER),
    ("the group rebalances again", Cause.PEER),
)


def cause_of(because: str | None) -> Cause:
    """The cause that `rebalance.triggered` gives."""
    for words, cause in _TRIGGERED:
        if because is not None and because.startswith(words):
            return cause
    return Cause.UNKNOWN


def departure_of(because: str | None) -> Cause:
    """The cause that a member gives to the others by `member.left` or `member.lost`."""
    cause = cause_of(because)
    return cause if cause in (Cause.POLL_INTERVAL_EXCEEDED, Cause.FENCED) else Cause.LEAVE
