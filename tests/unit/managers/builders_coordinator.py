"""A coordinator manager."""

from __future__ import annotations

from typing import Any

from aktor.managers.coordinator import CoordinatorManager
from aktor.settings import Settings


def coordinating(**settings: Any) -> CoordinatorManager:
    """A coordinator manager of the group g."""
    return CoordinatorManager(Settings(**{"group_id": "g", **settings}))
