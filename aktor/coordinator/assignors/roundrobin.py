"""kafka-python's `kafka.coordinator.assignors.roundrobin`."""

from __future__ import annotations

from aktor.coordinator.assignors import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
