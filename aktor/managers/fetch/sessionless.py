"""The sessionless Fetch: for partitions that the session's Fetch, in its long poll, does not cover.

A broker answers the requests of a connection in order, and the session's Fetch waits there for up
to `fetch_max_wait`, or `fetch_idle_wait`. A partition that was sought, assigned or resumed
meanwhile is asked for beside it: over the ordinary connection, without a session, and without
waiting for data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.request import Asked
from aktor.managers.fetch.session import FetchSession, Wanted

__all__ = ["SessionlessFetch"]

#: After this wait a partition that had no records is asked for again. The wait doubles up to the
#: longest one.
FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 0.5

#: A sessionless Fetch is answered at once. The session's next Fetch is held back until that answer,
#: so long at most (in seconds): then it need not ask for the same records.
SHORTLY: Final = 0.1

#: It may ask for a part of the bytes that the connection can bring in time, because requests behind
#: it on the same connection wait for its answer. At first one 64th; after each answer that was full
#: twice as much, up to a quarter: there is a backlog, perhaps of a partition that was sought back.
FIRST_DIVISOR: Final = 64
LEAST_DIVISOR: Final = 4

#: Whether the session's Fetch in flight asks for a partition at its present offset.
Covered = Callable[[FetchCursor], bool]


class SessionlessFetch:
    """Owns the sessionless Fetch to one broker: at most one is in flight."""

    __slots__ = (
        "_again_at",
        "_everything",
        "_news",
        "_tried",
        "_wait",
        "asked",
        "divisor",
        "session",
    )

    def __init__(self) -> None:
        #: Not a session of the broker's: each request names all its partitions (KIP-227, session
        #: id 0, epoch -1), and the broker remembers nothing.
        self.session = FetchSession(enabled=False)
        self.asked: Asked | None = None
        #: Partitions that may have to be asked for. If `_everything` is set: all that are ready.
        self._news: dict[TopicPartition, None] = {}
        self._everything = True
        self._tried: dict[TopicPartition, Wanted] = {}
        self._wait = FIRST_WAIT
        self._again_at = NEVER
        #: The Fetch asks for the bytes that the connection can bring in time, divided by this.
        self.divisor = FIRST_DIVISOR

    def begin(self) -> None:
        """The session's Fetch was sent now: it covers all wanted partitions."""
        self._everything = False
        self._news.clear()
        self._tried.clear()
        self._wait = FIRST_WAIT
        self._again_at = NEVER
        self.divisor = FIRST_DIVISOR

    def brought(self, size: int, *, asked: int) -> None:
        """An answer brought `size` bytes; the Fetch asked for `asked` bytes."""
        if 2 * size >= asked:
            self.divisor = max(LEAST_DIVISOR, self.divisor // 2)

    def over(self) -> None:
        """The session's Fetch has ended: no partition is covered until the next one is sent."""
        self._everything = True

    def want(self, tp: TopicPartition) -> None:
        """This partition became ready while the session's Fetch was in flight."""
        self._news[tp] = None

    def pending(self, now: float) -> bool:
        """Whether a sessionless Fetch may be due."""
        return self.asked is None and (
            self._everything or bool(self._news) or now >= self._again_at
        )

    def due(
        self, ready: Mapping[TopicPartition, FetchCursor], covered: Covered, now: float
    ) -> list[FetchCursor]:
        """The partitions of `ready` to ask for now: those that were not asked for since the
        session's Fetch was sent; when the wait is over, also those that brought nothing. The Fetch
        for them must be sent at once."""
        again = now >= self._again_at
        tried = {} if again else self._tried
        candidates: Iterable[TopicPartition] = ready
        if not self._everything:
            candidates = {**self._tried, **self._news} if again else self._news
        found = [
            cursor
            for tp in candidates
            if (cursor := ready.get(tp)) is not None
            and not cursor.buffered
            and not covered(cursor)
            and not cursor.still_wants(tried.get(tp))
        ]
        self._everything = False
        self._news.clear()
        if again:
            self._asks_again(found, now)
        return found

    def _asks_again(self, found: list[FetchCursor], now: float) -> None:
        """The wait is over: all partitions that still have no records are asked for again."""
        if found:
            self._wait = min(2 * self._wait, LONGEST_WAIT)
            self._again_at = now + self._wait
        else:
            self._tried.clear()
            self._again_at = NEVER

    def sent(self, asked: Asked) -> None:
        """This Fetch was sent."""
        self.asked = asked
        self._tried.update(asked.wanted)
        if self._again_at == NEVER:
            self._again_at = asked.sent_at + self._wait

    def ended(self) -> None:
        """The Fetch was answered, or has failed."""
        self.asked = None

    @property
    def again_at(self) -> float:
        """When partitions that had no records are asked for again."""
        return NEVER if self.asked is not None else self._again_at

    def answers_until(self, now: float) -> float:
        """The time until which the session's Fetch waits for the answer."""
        return now if self.asked is None else self.asked.sent_at + SHORTLY
