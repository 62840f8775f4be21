"""kafka-python's `kafka.coordinator.assignors.abstract`."""

from __future__ import annotations

from aktor.coordinator.assignors import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
