"""Times by which something must have happened, each under a key."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

__all__ = ["Deadlines"]

K = TypeVar("K")


class Deadlines(Generic[K]):
    """Cheap to postpone: `next_at` may be too early, never too late, and `due` puts it right."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._next_at = math.inf

    @property
    def next_at(self) -> float:
        """When to ask `due` again."""
        return self._next_at

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def at(self, key: K) -> float:
        """When this key is due; math.inf if it is not."""
        return self._at.get(key, math.inf)

    def set(self, key: K, at: float) -> None:
        """From now on this key is due then, not when it was before."""
        self._at[key] = at
        if at < self._next_at:
            self._next_at = at

    def drop(self, key: K) -> None:
        """The key is no longer due."""
        self._at.pop(key, None)

    def clear(self) -> None:
        """Nothing is due any more."""
        self._at.clear()
        self._next_at = math.inf

    def due(self, now: float) -> list[K]:
        """Take out what is due, the earliest first."""
        if now < self._next_at:
            return []
        due = sorted((at, place) for place, at in enumerate(self._at.values()) if at <= now)
        keys = list(self._at)
        found = [keys[place] for _, place in due]
        for key in found:
            del self._at[key]
        self._next_at = min(self._at.values(), default=math.inf)
        return found
