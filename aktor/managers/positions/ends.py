"""Where logs end that somebody looks at: ListOffsets of assigned partitions that are not fetched.

A Fetch tells where a log ends. Of a partition that is paused, or for which there is no room, the
leaders are asked nothing, so its lag would stay what it was. While somebody looks at the consumer,
its leaders are asked where it ends, once a second; who does not look pays nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.message import Message
from aktor.events.metadata import RefreshMetadata
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import EndsListed, LogEnd, ResetStrategy
from aktor.managers.positions.leaders import PATIENCE, Leaders, Send
from aktor.managers.positions.list_offsets import ListedOffsets, list_offsets
from aktor.protocol.error_codes import Answer, Do, means
from aktor.settings import Settings
from aktor.values import Value

__all__ = ["EVERY", "FOLLOWED_FOR", "Ends", "EndsAsked"]

#: Seconds between two requests to one leader.
EVERY: Final = 1.0

#: The longest pause after failures, in seconds.
LONGEST: Final = 10.0

#: For how long after the last look leaders are asked, in seconds. Most who look do so once a
#: minute at least (a scrape of metrics, a probe), and are to find an end that is new.
FOLLOWED_FOR: Final = 90.0

#: In which rows of the error codes it stands what these answers mean.
ANSWER: Final = Answer.LIST_ENDS


class EndsAsked(Value, kw_only=False):
    """Context of a ListOffsets about ends: which, of which leader, and when it was sent."""

    partitions: frozenset[TopicPartition]
    node: int
    at: float


class Ends:
    """Owns which ends are followed, for how long, and what was told of them.

    `send` and `say` are the manager's.
    """

    def __init__(
        self, settings: Settings, leaders: Leaders, *, send: Send, say: Callable[[Message], None]
    ) -> None:
        self._settings = settings
        self._leaders = leaders
        self._send = send
        self._say = say
        #: Those that are followed. It is looked at in each tick, without a call.
        self.followed: frozenset[TopicPartition] = frozenset()
        self._until = NEVER
        self._due = NEVER
        self._asked_at = -NEVER
        #: The leaders that owe an answer: each is asked one request at a time.
        self._in_flight: set[int] = set()
        #: When those that have failed may be asked again.
        self._backoffs: dict[int, Backoff] = {}
        self._told: dict[TopicPartition, LogEnd] = {}

    def follow(self, partitions: frozenset[TopicPartition], now: float) -> None:
        """Somebody looks: of these the ends are wanted, and of no others."""
        self.followed = partitions
        self._until = now + FOLLOWED_FOR
        self._due = max(now, self._asked_at + EVERY)

    def keep(self, assigned: Collection[TopicPartition]) -> None:
        """No others are assigned any more."""
        self.followed = self.followed.intersection(assigned)
        self._told = {tp: end for tp, end in self._told.items() if tp in assigned}

    # -- what is sent

    def ask(self, now: float) -> float:
        """ListOffsets to the leaders of those that are followed; returns when it is due again."""
        if now >= self._until:
            self.followed = frozenset()
            return NEVER
        if now >= self._due:
            self._asked_at, self._due = now, now + EVERY
            by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
            for tp in sorted(self.followed):
                if (info := self._leaders.cluster.leader(*tp)) is not None:
                    by_leader[info.leader].append(tp)
            for node, partitions in by_leader.items():
                self._ask(node, partitions, now)
        return min(self._due, self._until)

    def _ask(self, node: int, partitions: list[TopicPartition], now: float) -> None:
        backoff = self._backoffs.get(node)
        if node in self._in_flight or (backoff is not None and now < backoff.retry_at):
            return
        patience = PATIENCE
        if backoff is not None:
            patience = backoff.doubled(PATIENCE, self._settings.request_timeout)
        epochs = {tp: self._leaders.epoch(tp) for tp in partitions}
        latest = dict.fromkeys(partitions, ResetStrategy.LATEST.value)
        body = list_offsets(latest, epochs, seconds=patience, settings=self._settings)
        context = EndsAsked(frozenset(partitions), node, now)
        self._send(body, to=node, deadline=now + patience, context=context)
        self._in_flight.add(node)

    # -- what is answered

    def answered(self, received: ResponseReceived) -> None:
        """One leader has answered: tell the application where the logs end."""
        asked: EndsAsked = received.request.context
        self._in_flight.discard(asked.node)
        self._backoffs.pop(asked.node, None)
        by = self._leaders.name(received.node)
        found = ListedOffsets.of(ANSWER, received.response, asked.partitions, by)
        for tp, offset in found.offsets.items():
            if offset is not None and tp in self.followed:
                self._told[tp] = LogEnd(offset=offset.offset, at=asked.at)
        self._say(EndsListed(ends=dict(self._told)))
        self._leaders.doubt_epochs(found.troubles, received.now)
        self._refresh_after(found.troubles.values())

    def failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        asked: EndsAsked = failed.request.context
        self._in_flight.discard(asked.node)
        backoff = self._backoffs.setdefault(asked.node, Backoff(EVERY, LONGEST))
        backoff.failed(failed.now, failed.jitter)
        self._refresh_after([failed.error])

    def _refresh_after(self, troubles: Collection[BaseException]) -> None:
        """If nothing is fetched, nobody else would notice that a partition has another leader."""
        stale = [one for one in troubles if Do.REFRESH_METADATA in means(ANSWER, type(one))]
        if stale:
            self._say(RefreshMetadata(because=f"the end of a log was not listed: {stale[0]}"))
