"""kafka-python's `kafka.coordinator.assignors.cooperative_sticky`."""

from __future__ import annotations

from aktor.coordinator.assignors import CooperativeStickyAssignor

__all__ = ["CooperativeStickyAssignor"]
