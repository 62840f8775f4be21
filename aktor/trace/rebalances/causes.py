"""What triggers a rebalance, by the words of the trace."""

from __future__ import annotations

import enum
from typing import Final

from aktor.trace import reasons

__all__ = ["OF_OTHERS", "STAYS", "Cause", "cause_of", "departure_of", "was_replaced"]


class Cause(enum.Enum):
    """Why a rebalance began; the values are in the tables."""

    JOIN = "join"
    LEAVE = "leave"
    SUBSCRIPTION_CHANGE = "subscription_change"
    METADATA_CHANGE = "metadata_change"
    POLL_INTERVAL_EXCEEDED = "poll_interval_exceeded"
    #: Nothing in a member's process ran.
    STOOD_STILL = "stood_still"
    FENCED = "fenced"
    REFUSED = "refused"
    #: The coordinator took a member out of the group that had said nothing.
    EXPELLED = "expelled"
    COORDINATOR_MOVED = "coordinator_moved"
    SYNC_FAILED = "sync_failed"
    SECOND_ROUND = "second_round"
    PEER = "peer"
    UNKNOWN = "unknown"


#: Who tells the group one of these stays in it.
STAYS: Final = frozenset({Cause.SUBSCRIPTION_CHANGE, Cause.METADATA_CHANGE})


#: How `because` of `rebalance.triggered` begins.
_TRIGGERED: Final = {
    reasons.FIRST_JOIN: Cause.JOIN,
    reasons.TAKEN_IN: Cause.JOIN,
    reasons.SUBSCRIPTION_CHANGED: Cause.SUBSCRIPTION_CHANGE,
    reasons.PARTITIONS_OF: Cause.METADATA_CHANGE,
    reasons.TOPIC_RECREATED: Cause.METADATA_CHANGE,
    reasons.NO_POLL_FOR: Cause.POLL_INTERVAL_EXCEEDED,
    reasons.STOOD_STILL: Cause.STOOD_STILL,
    reasons.POLLS_AGAIN: Cause.POLL_INTERVAL_EXCEEDED,
    reasons.FENCED: Cause.FENCED,
    reasons.AFTER: Cause.REFUSED,
    reasons.COORDINATOR_LOST: Cause.COORDINATOR_MOVED,
    reasons.SYNC_FAILED: Cause.SYNC_FAILED,
    reasons.SECOND_ROUND: Cause.SECOND_ROUND,
    reasons.GROUP_REBALANCES: Cause.PEER,
    reasons.REBALANCES_AGAIN: Cause.PEER,
    reasons.ASSIGNED_ANEW: Cause.PEER,
    reasons.TARGET_NOT_REACHED: Cause.PEER,
}

#: A part with one of these causes did not trigger the rebalance: another member or the first round
#: did, or its trace does not say why it began.
OF_OTHERS: Final = frozenset({Cause.PEER, Cause.SECOND_ROUND, Cause.UNKNOWN})

#: Causes of a departure that a member did not want.
_DEPARTURES: Final = (Cause.POLL_INTERVAL_EXCEEDED, Cause.STOOD_STILL, Cause.FENCED)


def cause_of(because: str | None) -> Cause:
    """The cause that `rebalance.triggered` gives."""
    for words, cause in _TRIGGERED.items():
        if because is not None and because.startswith(words):
            return cause
    return Cause.UNKNOWN


def was_replaced(because: str | None) -> bool:
    """Whether `member.lost` says that another consumer came with the same static id: it was given
    the member's place, and the group does not rebalance for that."""
    return because == f"{reasons.AFTER}FencedInstanceIdError"


def departure_of(because: str | None) -> Cause:
    """The cause that a member gives to the others by `member.left` or `member.lost`."""
    cause = cause_of(because)
    return cause if cause in _DEPARTURES else Cause.LEAVE
