"""The sessionless Fetch: for partitions that the session's Fetch, in its long poll, does not cover.

A broker answers the requests of a connection in order, and the session's Fetch waits there for up
to `fetch_max_wait`. A partition that was sought, assigned or resumed meanwhile is asked for beside
it: over the ordinary connection, without a session, and without waiting for data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka.structs import TopicPartition

from aktor.actors.manager import NEVER
from aktor.managers.fetch_cursor import FetchCursor
from aktor.managers.fetch_request import Asked
from aktor.managers.fetch_session import FetchSession, Wanted

__all__ = ["FetchAside"]

#: How soon a partition of which there was nothing is asked for again, and at the latest.
FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 0.5

#: It is answered at once, and then the session's Fetch need not ask for the same: so long does
#: that one wait for the answer.
SHORTLY: Final = 0.1

#: What it may bring, as a part of what the line can bring in time: requests behind it wait.
SHARE_OF_LINE: Final = 64


class FetchAside:
    """Owns the sessionless Fetch to one broker: at most one is in flight."""

    __slots__ = ("_again_at", "_tried", "_wait", "asked", "session")

    def __init__(self) -> None:
        #: One that is none: a sessionless request says everything, and the broker keeps nothing.
        self.session = FetchSession(enabled=False)
        self.asked: Asked | None = None
        self._tried: dict[TopicPartition, Wanted] = {}
        self._wait = FIRST_WAIT
        self._again_at = NEVER

    def begin(self) -> None:
        """The session's Fetch was sent just now: it covers all that is wanted."""
        self._tried.clear()
        self._wait = FIRST_WAIT
        self._again_at = NEVER

    def due(self, uncovered: Iterable[FetchCursor], now: float) -> list[FetchCursor]:
        """Which of these to ask for now: those that were not asked for, and now and then all."""
        if self.asked is not None:
            return []
        again = now >= self._again_at
        return [one for one in uncovered if again or not one.still_wants(self._tried.get(one.tp))]

    def sent(self, asked: Asked) -> None:
        """This was asked."""
        self.asked = asked
        self._tried.update(asked.wanted)
        if self._again_at == NEVER:
            self._again_at = asked.sent_at + self._wait
        elif asked.sent_at >= self._again_at:
            self._wait = min(2 * self._wait, LONGEST_WAIT)
            self._again_at = asked.sent_at + self._wait

    @property
    def again_at(self) -> float:
        """When those of which there was nothing are asked for again."""
        return NEVER if self.asked is not None else self._again_at

    def answers_until(self, now: float) -> float:
        """How long the session's Fetch waits for the answer."""
        return now if self.asked is None else self.asked.sent_at + SHORTLY
