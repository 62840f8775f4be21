"""kafka-python's `kafka.coordinator.assignors.sticky.sticky_assignor`."""

from __future__ import annotations

from aktor.coordinator.assignors import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
