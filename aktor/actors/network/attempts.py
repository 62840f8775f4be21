"""How the attempts to reach one broker ended, and when the next one may be made."""

from __future__ import annotations

import math

from aktor.actors.runtime.manager import Backoff

__all__ = ["Attempts"]


class Attempts:
    """Owns the backoff of one link, and why its last attempt failed.

    An attempt has succeeded when the broker has answered a request. An open connection is not
    enough: a listener that wants a login accepts each connection and closes it at the first
    request, again and again.
    """

    __slots__ = ("_backoff", "begun_at", "failed_at", "failing_since", "failure")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.begun_at = -math.inf
        #: When an attempt, a connection or an answer last failed.
        self.failed_at = -math.inf
        #: When the first of the failures in a row was; None once the broker has answered again.
        self.failing_since: float | None = None
        #: How the last attempt ended, until one succeeds.
        self.failure: Exception | None = None

    @property
    def retry_at(self) -> float:
        """No attempt may be begun before this time."""
        return self._backoff.retry_at

    def begin(self, now: float) -> None:
        """An attempt begins."""
        self.begun_at = now

    def failed(self, now: float, jitter: float, failure: Exception | None) -> None:
        """The attempt has failed; with None: a connection was lost on which the broker had answered
        before."""
        self.failure = failure
        if self.failing_since is None:
            self.failing_since = now
        self.failed_at = now
        self._backoff.failed(now, jitter)

    def succeeded(self) -> None:
        """The broker has answered."""
        self.failure = self.failing_since = None
        self._backoff.reset()

    def pause(self, until: float) -> None:
        """Begin no attempt before `until`, whatever the backoff says."""
        self._backoff.pause(until)

    def begin_anew(self) -> None:
        """Forget the failures: the next attempt may be begun at once (it is to another address)."""
        self._backoff.reset()
