"""A fetch session: what one broker remembers of our last Fetch, so that the next says only news.

KIP-227. The first request of a session is full: it names every partition, and the answer names the
session. The following are incremental: they name what changed and what to forget, and an answer
leaves out the partitions of which there is no news.

A session names all its topics by their ids (KIP-516), or all by their names: by their ids if all
are known. If that changes, or a topic has another id, it is begun anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple
from uuid import UUID

from kafka.structs import TopicPartition

from aktor.protocol.error_codes import Answer, Do, means
from aktor.values import Value

__all__ = ["FetchSession", "Watermarks", "SessionRequest", "Wanted"]

#: The session id and epoch of a request without a session; and the epoch that begins one.
NO_SESSION: Final = 0
SESSIONLESS_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
#: The epoch after this one is 1 again: 0 would begin another session.
LAST_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What a Fetch asks of one partition. `epoch` is our partition epoch (not on the wire).

    `leader_epoch` is the leader's, `last_epoch` that of the record before the offset; -1 unknown.
    `topic_id` is None if it is not known.
    """

    epoch: int
    offset: int
    leader_epoch: int
    max_bytes: int
    last_epoch: int = -1
    topic_id: UUID | None = None


class Watermarks(NamedTuple):
    """The offsets that a broker tells with each answer."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class SessionRequest(Value):
    """The part of a Fetch that depends on the session: its id, what is new, what to forget.

    `forgotten` has what was asked of these partitions before. `by_id` says that the id of each
    topic is known.
    """

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, Wanted]
    forgotten: Mapping[TopicPartition, Wanted] = field(default_factory=dict)
    by_id: bool = False

    @property
    def full(self) -> bool:
        """Whether it names every partition that is wanted."""
        return self.epoch in (FIRST_EPOCH, SESSIONLESS_EPOCH)


class FetchSession:
    """Owns the session with one broker: its id, the next epoch, and what the broker remembers."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._remembered: dict[TopicPartition, Wanted] = {}
        self._watermarks: dict[TopicPartition, Watermarks] = {}
        #: The id of each topic that the session has had, and its name by the bytes of the id.
        self._ids: dict[str, UUID | None] = {}
        self._names: dict[bytes, str] = {}
        self._by_id = False

    def next_request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """How to ask for exactly `wanted`. What is not in it any more will be forgotten."""
        if not self._enabled:
            return self._full(NO_SESSION, SESSIONLESS_EPOCH, wanted)
        before, self._remembered = self._remembered, dict(wanted)
        if self._epoch == FIRST_EPOCH:
            return self._full(self._id, FIRST_EPOCH, wanted)
        news = {tp: asked for tp, asked in wanted.items() if before.get(tp) != asked}
        if not self._fits(news):
            self.restart()
            return self._full(self._id, FIRST_EPOCH, wanted)
        forgotten = {tp: before[tp] for tp in before.keys() - wanted.keys()}
        if forgotten:
            self._forget(forgotten)
        return SessionRequest(
            session_id=self._id,
            epoch=self._epoch,
            partitions=news,
            forgotten=forgotten,
            by_id=self._by_id,
        )

    def _full(
        self, session_id: int, epoch: int, wanted: Mapping[TopicPartition, Wanted]
    ) -> SessionRequest:
        self._watermarks.clear()
        self._ids = {tp.topic: asked.topic_id for tp, asked in wanted.items()}
        self._by_id = None not in self._ids.values()
        self._names = {known.bytes: topic for topic, known in self._ids.items() if known}
        return SessionRequest(
            session_id=session_id, epoch=epoch, partitions=wanted, by_id=self._by_id
        )

    def _fits(self, news: Mapping[TopicPartition, Wanted]) -> bool:
        """Whether the session may go on with these: no topic has another id than it had, and none
        lacks one in a session by ids."""
        ids = self._ids
        for tp, asked in news.items():
            topic, known = tp.topic, asked.topic_id
            if ids.get(topic, self) is known:
                continue
            if ids.setdefault(topic, known) != known or (known is None and self._by_id):
                return False
            # Each new snapshot of the metadata has the id as another, equal object.
            ids[topic] = known
            if known is not None:
                self._names[known.bytes] = topic
        return True

    def _forget(self, forgotten: Mapping[TopicPartition, Wanted]) -> None:
        for tp in forgotten:
            self._watermarks.pop(tp, None)
        topics = {tp.topic for tp in self._remembered}
        self._ids = {topic: known for topic, known in self._ids.items() if topic in topics}
        self._names = {known: topic for known, topic in self._names.items() if topic in topics}

    def name_of(self, topic: str | bytes) -> str | None:
        """The name of a topic as an answer has it (`FetchedPartition.topic`); None: it has an id
        that the last request did not name."""
        return topic if isinstance(topic, str) else self._names.get(topic)

    def answered(self, asked: SessionRequest, session_id: int) -> None:
        """The broker answered `asked` without an error, and keeps `session_id` (0: none)."""
        if not self._enabled:
            return
        if session_id == NO_SESSION:
            # The broker has no room for it, ended it, or is too old (before Fetch v7).
            self._id, self._epoch = NO_SESSION, FIRST_EPOCH
            return
        self._id = session_id
        self._epoch = 1 if asked.full or asked.epoch == LAST_EPOCH else asked.epoch + 1

    def refused(self, error: type[Exception]) -> bool:
        """The broker answered with an error; True if only the session is to blame.

        Then a new one can be begun at once.
        """
        began, meaning = self._epoch != FIRST_EPOCH, means(Answer.FETCH, error)
        if Do.FORGET_FETCH_SESSION in meaning:
            self._id = NO_SESSION
        self.restart()
        return began and Do.RETRY not in meaning

    def restart(self) -> None:
        """Nobody knows what the broker remembers: the next request is full.

        It names the old session, if there is one, so that the broker can drop that.
        """
        self._epoch = FIRST_EPOCH

    # -- what an incremental answer leaves out

    def note_watermarks(self, tp: TopicPartition, watermarks: Watermarks) -> None:
        """The broker told these of a partition, and will again only when they change."""
        if self._enabled:
            self._watermarks[tp] = watermarks

    def watermarks(self, tp: TopicPartition) -> Watermarks | None:
        """The watermarks of a partition that the last answer left out, if they are known."""
        return self._watermarks.get(tp)
