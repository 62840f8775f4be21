"""The states of a member of a KIP-848 consumer group, and the one table of how they follow.

`docs/state_machines.md` has the table drawn.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

__all__ = ["IN_GROUP", "TRANSITIONS", "State", "Trigger"]


class State(enum.Enum):
    """How far the member is: between no group and a stable member that owns its partitions. The
    names are those of the Java client's `MemberState`, but for FREEING_INSTANCE_ID, and LEAVING,
    which is two states there."""

    # Enum.__hash__ is Python code that hashes the constant's name. Hash by identity instead: it is
    # faster for each look-up in a set or a table.
    __hash__ = object.__hash__

    UNSUBSCRIBED = "unsubscribed"
    """In no group, with nothing owned. Nothing is sent, except a leave heartbeat that has no answer
    yet.

    Left for JOINING when that heartbeat has ended, there is a subscription, and the application has
    polled since the subscription changed.
    """

    JOINING = "joining"
    """A heartbeat with epoch 0 and all that the coordinator must know is sent as soon as the
    coordinator is known, and again after each error that passes.

    Left with the first answer, which has the member's epoch and its first target.
    """

    FREEING_INSTANCE_ID = "freeing instance id"
    """The group has a member of our `group_instance_id`, and that may be this very consumer: the
    answer to an earlier heartbeat was lost, or this actor was restarted.

    A leave heartbeat is sent in place of one that joins (epoch -2). Left for JOINING when the
    coordinator has accepted it, which it does from the owner of the id only; for FATAL when another
    consumer has the id.
    """

    RECONCILING = "reconciling"
    """The target differs from what is owned: what it lacks is revoked (stopped, committed, and the
    revoked callback run), what it adds is assigned (applied, and the assigned callback run).

    Heartbeats go on and say nothing of it. Left for ACKNOWLEDGING when both callbacks have
    returned; for STABLE (SETTLE) when the application has exactly the target already, so that no
    callback runs. A target that changes while partitions are being assigned waits until that is
    done. Partitions of topics whose names are not known yet wait here until the metadata names the
    topics; meanwhile the member acknowledges the rest, once for each target.
    """

    ACKNOWLEDGING = "acknowledging"
    """The next heartbeat, which is sent at once, says what is owned now.

    Left for STABLE when that heartbeat has been sent; or for RECONCILING, if the target has changed
    or was not reached entirely. If the heartbeat gets lost, the next one says everything again.
    """

    STABLE = "stable"
    """A member that owns its target. Heartbeats are sent at the coordinator's interval, with what
    has changed: the subscription.

    Left for RECONCILING when an answer has another target, or when the metadata shows that a topic
    of the member was deleted and created again.
    """

    FENCED = "fenced"
    """The coordinator does not know this member or its epoch any more. No heartbeats.

    The application gives up what it owned and runs its lost callback; then the member joins again,
    with the same id.
    """

    LEAVING = "leaving"
    """The application wants to leave, and has released all partitions.

    The leave heartbeat (epoch -1, or -2 of a static member that will be back) is sent as soon as
    the coordinator is known, and again if it gets lost: `Leaves` has it. Left for UNSUBSCRIBED with
    its answer, or when there is no time left. (In Java it is PREPARE_LEAVING before the heartbeat
    is sent.)
    """

    STALE = "stale"
    """Out of the group because the application polled too late. The leave heartbeat is sent as in
    LEAVING, but nobody waits for its answer.

    The application gives up what it owned, runs its lost callback, and with its next poll the
    member joins again, unless the leave heartbeat is in flight: one that arrived after the
    heartbeat that joins would end the new membership.
    """

    FATAL = "fatal"
    """Refused in a way that only the user can mend. The application gives up what it owned and is
    told the reason.

    There is no way out: a new consumer is needed.
    """


class Trigger(enum.Enum):
    """What moves a member from one state to the next."""

    JOIN = "join"
    """There is a subscription, and the application polls."""
    RECONCILE = "reconcile"
    """The member has joined, or has a target that it does not own yet."""
    ACKNOWLEDGE = "acknowledge"
    """The application owns all of the target that it may own now."""
    SETTLE = "settle"
    """The target is owned, and a heartbeat was sent that says so (or an earlier one has said it).

    The answer to it is not waited for: if the heartbeat gets lost, the next one says everything
    again.
    """
    TAKEN = "taken"
    """The group has a member of our `group_instance_id`: UNRELEASED_INSTANCE_ID."""
    FREED = "freed"
    """The group has no member of that id any more."""
    FENCE = "fence"
    """The coordinator does not know this member, or not with this epoch."""
    REJOIN = "rejoin"
    """The application has given up what it owned, and the member may join again."""
    FAIL = "fail"
    """The coordinator refused the member, or the application may not use the group."""
    DEPART = "depart"
    """The application wants to leave."""
    EXPIRE = "expire"
    """The application has not polled for `max_poll_interval_ms`."""
    LEFT = "left"
    """The group was told, could not be told in time, or need not be told."""


_S: Final = State
_T: Final = Trigger
_OUT: Final = {_T.DEPART: _S.LEAVING, _T.EXPIRE: _S.STALE, _T.FAIL: _S.FATAL}
_FENCED: Final = {_T.FENCE: _S.FENCED, **_OUT}

#: The whole machine.
TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    _S.UNSUBSCRIBED:  {_T.JOIN: _S.JOINING},
    _S.JOINING:       {_T.RECONCILE: _S.RECONCILING, _T.TAKEN: _S.FREEING_INSTANCE_ID, **_OUT},
    _S.FREEING_INSTANCE_ID: {_T.FREED: _S.JOINING, **_OUT},
    _S.RECONCILING:   {_T.ACKNOWLEDGE: _S.ACKNOWLEDGING, _T.SETTLE: _S.STABLE, **_FENCED},
    _S.ACKNOWLEDGING: {_T.SETTLE: _S.STABLE, _T.RECONCILE: _S.RECONCILING, **_FENCED},
    _S.STABLE:        {_T.RECONCILE: _S.RECONCILING, **_FENCED},
    _S.FENCED:        {_T.REJOIN: _S.JOINING, _T.LEFT: _S.UNSUBSCRIBED},
    _S.LEAVING:       {_T.LEFT: _S.UNSUBSCRIBED},
    _S.STALE:         {_T.REJOIN: _S.JOINING, _T.LEFT: _S.UNSUBSCRIBED},
    _S.FATAL:         {},
}  # fmt: skip

#: States in which the coordinator counts on this member: its poll timer runs, and it heartbeats.
IN_GROUP: Final = frozenset(
    {_S.JOINING, _S.FREEING_INSTANCE_ID, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE}
)
