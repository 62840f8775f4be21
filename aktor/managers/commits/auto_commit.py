"""When automatic commits are due: of positions that moved, and once an hour of all positions."""

from __future__ import annotations

from typing import Final

from aktor.actors.runtime.manager import Backoff
from aktor.settings import Settings

__all__ = ["REFRESH", "SHORTEST", "AutoCommitClock"]

#: Committed offsets that nobody commits again expire (`offsets.retention.minutes`, 7 days, counted
#: from the last commit if the group has no members): with auto-commit on, positions that have not
#: moved are committed again this often, in seconds.
REFRESH: Final = 3600.0

#: The shortest interval, in seconds. With an `auto_commit_interval_ms` of 0 a commit would be due
#: again as soon as one was made, and the manager would never come to rest.
SHORTEST: Final = 0.01


class AutoCommitClock:
    """Owns the times of the next automatic commit and of the next one that stores all positions."""

    def __init__(self, settings: Settings) -> None:
        self._interval = max(settings.auto_commit_interval, SHORTEST)
        self._backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._due: float | None = None
        self._refresh_due = 0.0

    def stop(self) -> None:
        """No partition was assigned until now: the next call of `due` starts a new interval."""
        self._due = None

    def due(self, now: float) -> float:
        """When the next commit is due; the first call starts the interval."""
        if self._due is None:
            self._due = now + self._interval
            self._refresh_due = now + REFRESH
        return self._due

    def begin(self, now: float) -> bool:
        """The commit that is due is made now. Returns True if it must also store positions that
        have not moved."""
        self._due = now + self._interval
        refreshes = now >= self._refresh_due
        if refreshes:
            self._refresh_due = now + REFRESH
        return refreshes

    def succeeded(self) -> None:
        """The broker stored an automatic commit: the next failure begins with the first backoff."""
        self._backoff.reset()

    def failed(self, now: float, jitter: float) -> None:
        """The broker did not store an automatic commit: make the next one after the backoff, if
        that is sooner than the interval."""
        retry_at = self._backoff.failed(now, jitter)
        self._due = None if self._due is None else min(self._due, retry_at)
