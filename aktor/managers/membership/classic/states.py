"""The states of a member of a classic consumer group, and the one table of how they follow.

`docs/state_machines.md` has the table drawn.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

__all__ = ["IN_GROUP", "TRANSITIONS", "State", "Trigger"]


class State(enum.Enum):
    """How far the member is: between no group and a stable member that owns its partitions."""

    # Enum.__hash__ is Python code that hashes the constant's name. Hash by identity instead: it is
    # faster for each look-up in a set or a table.
    __hash__ = object.__hash__

    UNJOINED = "unjoined"
    """In no group, with nothing owned. Nothing is sent, except a LeaveGroup that has no answer yet
    (after a late poll or an error).

    Left for JOINING when three conditions hold: there is a subscription; the retry time has come;
    and the application has polled, since the subscription changed and since the last late poll or
    fatal error. Left for LEAVING if the application leaves while that LeaveGroup is open.
    """

    PREPARING = "preparing"
    """Partitions are revoked before the member joins again: all of them under the eager protocol,
    those of topics it no longer subscribes to under the cooperative one. Heartbeats go on.

    Left for JOINING when the revoked callback has returned.
    """

    JOINING = "joining"
    """JoinGroup is sent as soon as the coordinator is known, and again after each retriable error;
    the coordinator keeps it until every member has joined.

    Heartbeats of the previous generation go on beside it, over another connection. Left for SYNCING
    with the new generation.
    """

    SYNCING = "syncing"
    """A leader waits for the metadata of the group's topics (not long) and assigns; then everybody
    sends SyncGroup, which the coordinator keeps until it has the leader's.

    Left for ASSIGNING, for REVOKING if owned partitions are not in the assignment, or for PREPARING
    or JOINING when the group rebalances again.
    """

    REVOKING = "revoking"
    """Cooperative only: what the new assignment lacks is revoked, while the application goes on
    with the rest. Heartbeats go on. Left for ASSIGNING when the revoked callback has returned."""

    ASSIGNING = "assigning"
    """The application applies the assignment and runs its assigned callback. Heartbeats go on. Left
    for STABLE when the callback has returned."""

    STABLE = "stable"
    """A member with its partitions. Only heartbeats are sent.

    Left for PREPARING or JOINING when the group rebalances, the subscription changed, partitions
    were added (leader), or a cooperative rebalance has its second round.
    """

    LOSING = "losing"
    """The group goes on without this member (fenced, late, refused), which may not commit any more.
    The application gives up what it owned and runs its lost callback. No heartbeats.

    Left for UNJOINED.
    """

    LEAVING = "leaving"
    """The application wants to leave and owns nothing any more. LeaveGroup is sent until it is
    answered or past its deadline. Left for UNJOINED."""


class Trigger(enum.Enum):
    """What moves a member from one state to the next."""

    PREPARE = "prepare"
    """A rebalance begins, and something has to be revoked first."""
    JOIN = "join"
    """A rebalance begins, and nothing has to be revoked (any more)."""
    JOINED = "joined"
    """JoinGroup succeeded: there is a new generation."""
    REVOKE = "revoke"
    """SyncGroup succeeded, and the assignment lacks partitions that are owned."""
    ASSIGN = "assign"
    """SyncGroup succeeded, and nothing has to be revoked (any more)."""
    APPLIED = "applied"
    """The application has applied the assignment."""
    LOSE = "lose"
    """The membership is over while partitions are owned."""
    FORGET = "forget"
    """The membership is over and nothing is owned (any more)."""
    LEAVE = "leave"
    """The application asked to leave."""
    LEFT = "left"
    """The group was told, or could not be told in time."""


_S: Final = State
_T: Final = Trigger
_OUT: Final = {_T.LOSE: _S.LOSING, _T.FORGET: _S.UNJOINED, _T.LEAVE: _S.LEAVING}
_AGAIN: Final = {_T.PREPARE: _S.PREPARING, _T.JOIN: _S.JOINING}

#: The whole machine.
TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    _S.UNJOINED:  {_T.JOIN: _S.JOINING, _T.LEAVE: _S.LEAVING},
    _S.PREPARING: {_T.JOIN: _S.JOINING, **_OUT},
    _S.JOINING:   {_T.JOINED: _S.SYNCING, **_OUT},
    _S.SYNCING:   {_T.ASSIGN: _S.ASSIGNING, _T.REVOKE: _S.REVOKING, **_AGAIN, **_OUT},
    _S.REVOKING:  {_T.ASSIGN: _S.ASSIGNING, **_OUT},
    _S.ASSIGNING: {_T.APPLIED: _S.STABLE, **_OUT},
    _S.STABLE:    {**_AGAIN, **_OUT},
    _S.LOSING:    {_T.FORGET: _S.UNJOINED, _T.LEAVE: _S.LEAVING},
    _S.LEAVING:   {_T.LEFT: _S.UNJOINED},
}  # fmt: skip

#: States in which the group counts on this member: its poll timer runs, and heartbeats are sent.
IN_GROUP: Final = frozenset(State) - {State.UNJOINED, State.LOSING, State.LEAVING}
