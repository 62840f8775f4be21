"""Whether the group has forgotten a member because it is a group of another cluster: the brokers at
these addresses were replaced, or came back with empty disks."""

from __future__ import annotations

import math

from aktor.events.metadata import Cluster

__all__ = ["Replacement"]


class Replacement:
    """Owns the id of the cluster, and whether that has changed since the group has last confirmed
    the member."""

    __slots__ = ("_at", "_cluster_id", "_words")

    def __init__(self) -> None:
        self._cluster_id: str | None = None
        self._words = ""
        self._at = -math.inf

    def changed(self, cluster: Cluster, now: float) -> None:
        """This is what is known of the cluster from now on."""
        before, after = self._cluster_id, cluster.cluster_id
        if after is None or after == before:
            return
        self._cluster_id = after
        if before is not None:
            self._words, self._at = f"the cluster was replaced ({before}, now {after})", now

    def confirmed(self, asked_at: float) -> None:
        """The group has confirmed the member, in answer to a request sent at this time."""
        if asked_at >= self._at:
            self._words = ""

    @property
    def words(self) -> str:
        """What was replaced since the group has last confirmed the member; "": nothing."""
        return self._words
