"""A reconciliation (KIP-848): the way from the partitions that a member owns to its target.

The coordinator's target may change at any time. The member works on one target at a time, and only
on the topics whose names are known: what is owned and not in the target is revoked, then what is
missing is assigned.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kafka.structs import TopicPartition

from aktor.managers.membership.consumer.heartbeats import LocalAssignment
from aktor.state_table import follow
from aktor.values import Value

__all__ = ["STAGES", "Event", "Reconciliation", "ReconciliationStage", "Target"]


class Target(Value, kw_only=False):
    """What the coordinator wants us to own; `number` counts the targets of this member."""

    number: int = 0
    assignment: LocalAssignment = field(default_factory=dict)


class ReconciliationStage(enum.Enum):
    """How far the member is on the way."""

    RESOLVING = "resolving"
    """The member finds out which part of the target it can reach.

    The target has topic ids, and the metadata manager may not have told the names of some of them
    yet.
    """

    LOSING = "losing"
    """A topic that we own partitions of was deleted and created again. The application loses the
    old topic's partitions first: another member may own the new topic's by now."""

    REVOKING = "revoking"
    """Partitions that are not in the target are revoked: delivery stops, their positions are
    committed, the callback runs."""

    ADDING = "adding"
    """Missing partitions are assigned when every heartbeat that did not claim them is answered:
    because of such a heartbeat the coordinator may give them to another member."""

    ASSIGNING = "assigning"
    """The application applies the assignment and runs its assigned callback."""

    REFUSED = "refused"
    """The assigned callback has raised.

    As in the Java client the target is not acknowledged, and no records of the added partitions are
    delivered; at the next poll the callback runs again.
    """


class Event(enum.Enum):
    """What leads from one stage to the next."""

    RECREATED = "a topic was deleted and created anew"
    DIFFERS = "something is to be revoked, or assigned, or the first callback is to be run"
    REVOKED = "the application has released the partitions"
    RETARGETED = "the coordinator has another target by now"
    ASSIGNED = "the application was told"
    SUCCEEDED = "the assigned callback has returned"
    RAISED = "the assigned callback has raised"
    POLLED = "the application has polled"


_S, _E = ReconciliationStage, Event

#: The whole machine.
STAGES: Final[Mapping[ReconciliationStage, Mapping[Event, ReconciliationStage]]] = {
    _S.RESOLVING: {_E.RECREATED: _S.LOSING, _E.DIFFERS: _S.REVOKING},
    _S.LOSING:    {_E.REVOKED: _S.RESOLVING},
    _S.REVOKING:  {_E.REVOKED: _S.ADDING},
    _S.ADDING:    {_E.ASSIGNED: _S.ASSIGNING, _E.RETARGETED: _S.RESOLVING},
    _S.ASSIGNING: {_E.SUCCEEDED: _S.RESOLVING, _E.RAISED: _S.REFUSED},
    _S.REFUSED:   {_E.POLLED: _S.RESOLVING},
}  # fmt: skip


class Reconciliation:
    """Owns the stage, the part of a target that is being reached, and the partitions for which the
    assigned callback has yet to succeed.

    It lives as long as the membership: a member that joins again has another one.
    """

    def __init__(self) -> None:
        self.stage = ReconciliationStage.RESOLVING
        #: The number of the target that is being reached.
        self.of_target = 0
        #: The part of the target whose topics have names: by topic id, and as partitions.
        self.reachable: LocalAssignment = {}
        self.wanted: frozenset[TopicPartition] = frozenset()
        #: The old ids of topics that were created again, while the application gives them up.
        self.losing: frozenset[Any] = frozenset()
        #: Partitions that the application has, but for which no assigned callback has succeeded.
        self._pending: frozenset[TopicPartition] = frozenset()
        #: No assigned callback has succeeded since the member joined.
        self._is_first = True

    def owes_callback(self, *, names_are_awaited: bool) -> bool:
        """Whether the assigned callback is to be called although no partition is missing.

        It is called again if it has raised. As in the Java client it is also called after joining
        if no partition is assigned, but not while the names of assigned topics are awaited.
        """
        return bool(self._pending) or (self._is_first and not names_are_awaited)

    def lose(self, topics: frozenset[Any]) -> None:
        """These topics were deleted and created again: their old partitions are lost first."""
        self.on(Event.RECREATED)
        self.losing = topics

    def begin(
        self, of_target: int, reachable: LocalAssignment, wanted: frozenset[TopicPartition]
    ) -> None:
        """Begin to reach this part of a target: what is not in it is revoked first."""
        self.on(Event.DIFFERS)
        self.of_target = of_target
        self.reachable = reachable
        self.wanted = wanted

    def missing(self, owned: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """The partitions for the assigned callback: those not owned, and those for which the
        callback has raised."""
        return self.wanted - (owned - self._pending)

    def assign(self, added: frozenset[TopicPartition]) -> None:
        """The partitions `added` are assigned to the application."""
        self.on(Event.ASSIGNED)
        self._pending = added

    def succeed(self) -> None:
        """The assigned callback has returned."""
        self.on(Event.SUCCEEDED)
        self._pending, self._is_first = frozenset(), False

    def on(self, event: Event) -> None:
        """The only place where `stage` is assigned again."""
        self.stage = follow(STAGES, self.stage, event)
        if self.stage is not ReconciliationStage.LOSING:
            self.losing = frozenset()
