"""A reason: what the next record waits for, and what is told of it."""

from __future__ import annotations

import enum
from typing import Final

from aktor.values import Value

__all__ = ["FAULT_AFTER", "LATELY", "LONG_AGO", "Reason", "WaitingFor"]

#: A failure that is younger, in seconds, is one of those that pass: a connection that the broker
#: has closed and that is opened again. It is no reason yet.
FAULT_AFTER: Final = 1.0


#: While nothing new may come, records are "still" delivered if some were within so many seconds.
LATELY: Final = 1.0

#: Of records that were delivered so many seconds ago nobody says that they are being delivered.
LONG_AGO: Final = 3.0


class WaitingFor(enum.Enum):
    """What the next record of a partition waits for."""

    # One of some thousand partitions may be looked up; Enum.__hash__ is Python code.
    __hash__ = object.__hash__

    RECORDS = "nothing new"
    """All that was written has been delivered, as far as the leader has told."""

    FETCH = "fetch"
    """It is being fetched, or delivered: nothing hinders it."""

    BYTES = "more bytes"
    """Records are there, and the leader keeps them until they are `fetch_min_bytes`, or
    `fetch_max_wait_ms` are over."""

    APPLICATION = "application"
    """Records are here, or could be. The application has not polled for a second or more, or its
    `process` waits for the handlers."""

    TURN = "its turn"
    """Its next records have been here for three seconds. The application polls, and is given those
    of other partitions first, or only few with each poll."""

    CALLBACK = "callback"
    """A method of the rebalance listener has not returned."""

    PAUSED = "paused"
    """The user has paused the partition."""

    BUFFER = "buffer full"
    """The buffer (`max_buffered_bytes`) is full of other partitions' records."""

    TRANSACTION = "open transaction"
    """With read_committed: what follows waits for the end of a transaction that is open."""

    SESSION = "session unconfirmed"
    """The session may be over, so another member may own the partition. What is buffered is
    withheld until a heartbeat is answered."""

    GROUP = "group"
    """The member has no partitions yet, or gives this one up: a rebalance is under way."""

    COORDINATOR = "coordinator"
    """The group's coordinator is not known, or does not answer."""

    POSITION = "position"
    """Its position is being looked up or validated."""

    LEADER = "no leader"
    """No broker leads the partition, or the topic does not exist."""

    BROKER = "broker"
    """The broker that leads it cannot be reached, or does not answer."""

    THROTTLED = "throttled"
    """The broker wants no request before some time: a quota is used up."""

    REFUSED = "refused"
    """The broker refuses it, or its next record cannot be read: `poll` raises the error."""

    SUBSCRIPTION = "subscription"
    """Nothing is subscribed to or assigned."""

    CONSUMER = "consumer"
    """The consumer is closed or has failed, or its background thread does not turn. In a stall: its
    process stood still."""


class Reason(Value, kw_only=False):
    """Why something is not delivered. `text` is a clause without a stop; `since` is when it began,
    by the consumer's clock (-inf: not known). A `fault` is nothing that the application has asked
    for, and nothing usual. `then`: what happens next, as a sentence, or "". `yours`: the
    application's own code is the cause. `only_new`: it keeps only new records from coming; those
    that are buffered are delivered."""

    waiting_for: WaitingFor
    text: str
    since: float
    fault: bool
    then: str = ""
    yours: bool = False
    only_new: bool = False
