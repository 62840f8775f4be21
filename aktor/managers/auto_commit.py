"""The automatic commit's clock: when the positions are to be stored again, and when all of them."""

from __future__ import annotations

from typing import Final

from aktor.actors.manager import Backoff
from aktor.settings import Settings

__all__ = ["REFRESH", "AutoCommitClock"]

#: Committed offsets that nobody commits again expire (`offsets.retention.minutes`, 7 days, counted
#: from the last commit if the group has no members): with auto-commit on, those that have not
#: moved are stored again this often, in seconds.
REFRESH: Final = 3600.0


class AutoCommitClock:
    """Owns the times of the next automatic commit and of the next one that stores everything."""

    def __init__(self, settings: Settings) -> None:
        self._interval = settings.auto_commit_interval
        self._backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._due: float | None = None
        self._refresh_due = 0.0

    def stop(self) -> None:
        """Nothing was assigned: the next `due` starts it anew."""
        self._due = None

    def due(self, now: float) -> float:
        """When the next commit is due; the first question starts the clock."""
        if self._due is None:
            self._due = now + self._interval
            self._refresh_due = now + REFRESH
        return self._due

    def begin(self, now: float) -> bool:
        """The commit that is due is made now; whether it has to store what has not moved, too."""
        self._due = now + self._interval
        refreshes = now >= self._refresh_due
        if refreshes:
            self._refresh_due = now + REFRESH
        return refreshes

    def succeeded(self) -> None:
        """The broker stored one."""
        self._backoff.reset()

    def failed(self, now: float, jitter: float) -> None:
        """The broker did not store one: do not wait the whole interval for the next."""
        retry_at = self._backoff.failed(now, jitter)
        self._due = None if self._due is None else min(self._due, retry_at)
