"""When, and why, the metadata manager asks for a new snapshot of the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.settings import Settings

__all__ = ["Refresh"]


class _Reason(NamedTuple):
    """A reason for a request, and the time from which the request is due."""

    due: float
    because: str


class Refresh:
    """Owns the request for the snapshot, of which one is in flight at a time, and its reasons."""

    def __init__(self, settings: Settings, *, answered_at: float) -> None:
        self.exchange = Exchange(settings)
        # (Java: Metadata.timeToNextUpdate.) With a `metadata_max_age_ms` of 0 each answer would be
        # old when it comes.
        self._max_age = max(settings.metadata_max_age, settings.retry_backoff)
        self._retry_backoff = settings.retry_backoff
        self._answered_at = answered_at
        self._at_once: str | None = None
        self._soon: str | None = None
        #: How soon to ask again while a topic is unknown or a partition has no leader.
        self._unresolved = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._is_unresolved = False

    @property
    def due(self) -> float:
        """When the next request is to be sent, if nothing is heard before."""
        return NEVER if self.exchange.in_flight else self._first_reason.due

    @property
    def because(self) -> str:
        """The reason for that request."""
        return self._first_reason.because

    @property
    def _first_reason(self) -> _Reason:
        return min(self._reasons(), key=lambda reason: reason.due)

    def _reasons(self) -> Iterator[_Reason]:
        """The reasons for a request. Of two with the same due time the more precise is first.

        While requests fail, only the backoff counts.
        """
        if self.exchange.failures:
            yield _Reason(self.exchange.retry_at, "the last request failed")
            return
        if self._at_once is not None:
            yield _Reason(-math.inf, self._at_once)
        if self._soon is not None:
            yield _Reason(self._answered_at + self._retry_backoff, self._soon)
        if self._is_unresolved:
            because = "a topic is unknown or a partition has no leader"
            yield _Reason(self._unresolved.retry_at, because)
        is_first = self._answered_at == -math.inf
        because = "the consumer starts" if is_first else "the snapshot is old"
        yield _Reason(self._answered_at + self._max_age, because)

    def at_once(self, because: str) -> None:
        """A topic is needed that no request has named: an answer on its way will not have it."""
        self._at_once = because

    def soon(self, because: str) -> None:
        """The snapshot is stale. If a request is in flight, its answer may be stale, too: ask again
        after that answer."""
        self._soon = because

    def forget_unresolved(self) -> None:
        """New topics are tracked: ask without the backoff that earlier unknown topics had
        reached."""
        self._unresolved.reset()

    def sent(self) -> None:
        """The request is on its way."""
        self._at_once = self._soon = None
        self.exchange.sent()

    def answered(self, now: float) -> None:
        """There is a new snapshot."""
        self.exchange.answered()
        self._answered_at = now

    def lacks_something(self, lacks: bool) -> None:
        """Whether the snapshot lacks what another answer may have: a topic, a leader."""
        self._is_unresolved = lacks

    def back_off(self, now: float, jitter: float) -> None:
        """After an answer: wait longer each time that it still lacks something."""
        if self._is_unresolved:
            self._unresolved.failed(now, jitter)
        else:
            self._unresolved.reset()
