"""kafka-python's `kafka.coordinator.assignors.range`."""

from __future__ import annotations

from aktor.coordinator.assignors import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
