"""The fetching from one broker: its session, the request in flight, its backoff and bandwidth."""

from __future__ import annotations

import math
from typing import Final

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.present import LastFetch
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.request import Asked
from aktor.managers.fetch.room import FetchBandwidth
from aktor.managers.fetch.session import FetchSession
from aktor.managers.fetch.sessionless import SessionlessFetch

__all__ = ["FetchNode"]

#: The shortest time between two Fetches, in seconds, to a broker that answers at once without
#: records.
EMPTY_PACE: Final = 0.02


class FetchNode:
    """Owns the session with one broker, and what is in flight: at most one Fetch of the session,
    and one beside it."""

    __slots__ = (
        "answered",
        "asked",
        "backoff",
        "bandwidth",
        "brought_nothing",
        "late_at",
        "rest_until",
        "session",
        "sessionless",
        "turn",
    )

    def __init__(self, session: FetchSession, bandwidth: FetchBandwidth, backoff: Backoff) -> None:
        self.session = session
        self.bandwidth = bandwidth
        self.backoff = backoff
        self.asked: Asked | None = None
        #: The last answer to the session's Fetch.
        self.answered = LastFetch()
        #: The Fetch without a session that may be sent beside the session's.
        self.sessionless = SessionlessFetch()
        self.rest_until = -math.inf
        #: The last answer to the session's Fetch had no records.
        self.brought_nothing = False
        #: When the answer to the session's Fetch is late.
        self.late_at = NEVER
        #: The number of its last Fetch, of all that were sent: the lowest number comes first.
        self.turn = 0

    @property
    def busy(self) -> bool:
        """Whether a Fetch to the node has no answer yet."""
        return self.asked is not None or self.sessionless.asked is not None

    def ask(self, asked: Asked, *, turn: int, late_at: float) -> None:
        """The session's Fetch is sent; it covers all partitions that are wanted."""
        self.asked = asked
        self.answered.sent(asked.sent_at, asked.wanted)
        self.turn = turn
        self.late_at = late_at
        self.sessionless.begin()

    def ended(self, asked: Asked) -> None:
        """This Fetch was answered, or has failed."""
        if asked.sessionless:
            self.sessionless.ended()
        else:
            self.asked = None
            self.answered.ended()
            self.sessionless.over()

    def brought(self, size: int, asked: Asked, now: float) -> None:
        """The session's Fetch has brought so many bytes."""
        self.backoff.reset()
        self.answered.note(now, asked.wanted)
        self.bandwidth.brought(size, asked=asked.max_bytes, seconds=now - asked.sent_at)
        self.brought_nothing = not size
        if not size:
            self.rest_until = asked.sent_at + EMPTY_PACE

    def failed(self) -> None:
        """The session's Fetch was not answered: the broker may have closed the session."""
        self.session.restart()
        self.brought_nothing = False

    def wait_until(self, late_at: float) -> None:
        """The answer is late; ask for metadata again at this time if it has not come."""
        self.late_at = late_at

    def covers(self, cursor: FetchCursor) -> bool:
        """Whether the session's Fetch in flight asks for this partition at its present offset."""
        return self.asked is not None and cursor.still_wants(self.asked.wanted.get(cursor.tp))
