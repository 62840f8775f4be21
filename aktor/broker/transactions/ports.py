"""What the transaction coordinator does to partitions and groups, which others own."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Ports"]


class Ports(Protocol):
    """The cluster behind the coordinator. No port calls the coordinator back."""

    def partition_exists(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition, with a leader or without."""

    def write_marker(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now: float,
    ) -> bool:
        """Append a commit or abort marker; False: no leader can now, so ask again later."""

    def end_group_transaction(
        self, group_id: str, producer_id: int, *, commit: bool, now: float
    ) -> None:
        """Let the offsets the producer sent for a group count, or drop them."""
