"""The time, and the time by which the application must poll (KIP-62; Java: `pollTimer`)."""

from __future__ import annotations

import math

from aktor.settings import Settings

__all__ = ["PollTimer"]


class PollTimer:
    """Owns the last time that a message or a tick brought, and the time of the last `Poll`."""

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
        """When the timer expires: `max_poll_interval_ms` after the last `Poll`."""
        return self._polled_at + self._longest

    @property
    def elapsed(self) -> float:
        """Seconds since the last poll."""
        return self.now - self._polled_at

    @property
    def late_by(self) -> float:
        """Seconds since the timer expired."""
        return self.elapsed - self._longest
