"""The group's coordinator, as the messages of the coordinator manager say."""

from __future__ import annotations

from aktor.events.metadata import Broker
from aktor.managers.commits.errors import Coordinator
from aktor.protocol.refusals import named_node

__all__ = ["KnownCoordinator"]


class KnownCoordinator:
    """Owns which broker is the group's coordinator, or why none is known."""

    def __init__(self) -> None:
        self._broker: Broker | None = None
        #: The last reason why no coordinator was known.
        self._missing = ""

    @property
    def node_id(self) -> int | None:
        """The coordinator's node; None while no coordinator is known."""
        return None if self._broker is None else self._broker.node_id

    def named(self, node: int) -> str:
        """The node that has answered as the coordinator, as an error names it."""
        known = {} if self._broker is None else {self._broker.node_id: self._broker}
        return f"the coordinator, {named_node(node, known)}"

    def found(self, broker: Broker) -> None:
        """This broker is the coordinator."""
        self._broker = broker

    def lost(self, because: str) -> None:
        """The broker is not the coordinator any more, or cannot be asked."""
        self._broker = None
        self._missing = because

    def not_found(self, because: str) -> None:
        """FindCoordinator is repeated; `because`: why the last attempt failed."""
        self._missing = because

    def refused(self) -> None:
        """We may not use the group, so we have no coordinator."""
        self._broker = None

    def as_told(self, *, rebalancing: bool) -> Coordinator:
        """The coordinator as an error names it; `rebalancing`: the group rebalances."""
        return Coordinator(broker=self._broker, missing=self._missing, rebalancing=rebalancing)
