"""The time, and by when the application has to poll (KIP-62; Java: `pollTimer`)."""

from __future__ import annotations

import math

from aktor.settings import Settings

__all__ = ["PollTimer"]


class PollTimer:
    """Owns the time that the manager was last told, and when the application has polled last."""

    __slots__ = ("_longest", "_polled_at", "now")

    def __init__(self, settings: Settings) -> None:
        self.now = -math.inf
        self._longest = settings.max_poll_interval
        self._polled_at = math.inf

    def update(self, now: float) -> None:
        """Take over the time now."""
        self.now = now

    def polled(self, now: float) -> None:
        """The application polls; the timer starts again."""
        self.now = now
        self._polled_at = now

    @property
    def expires_at(self) -> float:
        """When the application has not polled for `max_poll_interval_ms`."""
        return self._polled_at + self._longest

    @property
    def elapsed(self) -> float:
        """Seconds since the last poll."""
        return self.now - self._polled_at

    @property
    def late_by(self) -> float:
        """Seconds since it has expired."""
        return self.elapsed - self._longest
