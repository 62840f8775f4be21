"""The rebalance listener of a consumer that processes: it ends what runs of revoked partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

__all__ = ["RevocationListener"]

Partitions = Collection[TopicPartition]


class RevocationListener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Calls `revoked` or `lost` first, then the user's listener, if there is one; `let_go` last."""

    def __init__(
        self,
        users: Any,
        revoked: Callable[[Partitions], None],
        lost: Callable[[Partitions], None],
        let_go: Callable[[Partitions], None],
    ) -> None:
        self._users = users
        self._revoked = revoked
        self._lost = lost
        self._let_go = let_go

    def on_partitions_assigned(self, assigned: Partitions) -> Any:
        """Call the user's listener: `process` has nothing to do."""
        return self._users and self._users.on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: Partitions) -> Any:
        """Wait for the running handlers and commit; then call the user's listener."""
        self._revoked(revoked)
        return self._tell("on_partitions_revoked", revoked)

    def on_partitions_lost(self, lost: Partitions) -> Any:
        """Another member may own them already: drop their records, call the user's listener."""
        self._lost(lost)
        return self._tell("on_partitions_lost", lost)

    def _tell(self, name: str, partitions: Partitions) -> Any:
        try:
            result = self._users and getattr(self._users, name)(partitions)
        except Exception:
            self._let_go(partitions)
            raise
        self._let_go(partitions)
        return result
