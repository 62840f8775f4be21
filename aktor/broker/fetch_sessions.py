"""Fetch sessions: what a client reads, remembered by the broker between its requests (KIP-227)."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from aktor.broker.codes import Code, Refused

__all__ = ["FetchSession", "FetchSessions", "Place", "Wanted"]

_FINAL_EPOCH: Final = -1
_INITIAL_EPOCH: Final = 0
_GREATEST: Final = 2**31 - 1
_ZERO: Final = UUID(int=0)

#: Topic (an id from Fetch v13 on, before that a name), partition.
Place = tuple[str | UUID, int]


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch: what the client asked for, and what it was told last."""

    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    #: Of a topic asked for by id: the name it had when it was last there.
    name: str = ""
    never_told: bool = True
    #: What was read of it when there was nothing to read: see `Fetching`. None after a change here.
    quiet: Any = None


class FetchSession:
    """What one client fetches; `session_id` 0 is none: it is not remembered."""

    __slots__ = ("by_id", "epoch", "incremental", "names", "session_id", "used_at", "wanted")

    def __init__(self, session_id: int, *, by_id: bool, now: float) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = _INITIAL_EPOCH
        self.incremental = False
        self.used_at = now
        self.wanted: OrderedDict[Place, Wanted] = OrderedDict()
        #: The topics by name, with their partitions, as of a version of all topics: see `Fetching`.
        self.names: tuple[int, frozenset[tuple[str, int]]] | None = None

    def update(self, request: Any, version: int) -> None:
        """Take over what this request adds, changes and forgets."""
        for topic in request.topics:
            key = self._key(topic)
            for asked in topic.partitions:
                place = (key, asked.partition)
                found = self.wanted.get(place)
                if found is None:
                    self.names = None
                    self.wanted[place] = Wanted(
                        partition=asked.partition,
                        fetch_offset=asked.fetch_offset,
                        max_bytes=asked.partition_max_bytes,
                        leader_epoch=asked.current_leader_epoch,
                        last_fetched_epoch=asked.last_fetched_epoch,
                    )
                else:
                    found.fetch_offset = asked.fetch_offset
                    found.max_bytes = asked.partition_max_bytes
                    found.leader_epoch = asked.current_leader_epoch
                    found.last_fetched_epoch = asked.last_fetched_epoch
                    found.quiet = None
        for topic in request.forgotten_topics_data or ():
            key = self._key(topic)
            for partition in topic.partitions:
                self.wanted.pop((key, partition), None)
                self.names = None

    def _key(self, topic: Any) -> str | UUID:
        return (topic.topic_id or _ZERO) if self.by_id else topic.topic


class FetchSessions:
    """The sessions of one broker, a bounded number: the longest unused goes for a new one."""

    def __init__(self, *, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: Any, version: int, now: float) -> FetchSession:
        """The session a request belongs to, brought up to date. Raises Refused (FetchManager)."""
        epoch = request.session_epoch
        if epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            new = self._new_id() if epoch == _INITIAL_EPOCH and version >= 7 else 0
            session = FetchSession(new, by_id=version >= 13, now=now)
            session.update(request, version)
            if new:
                self._keep(session)
            return session
        return self._continue(request, version, now)

    def _continue(self, request: Any, version: int, now: float) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refused(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.by_id != (version >= 13):
            raise Refused(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        expected = session.epoch % _GREATEST + 1
        if request.session_epoch != expected:
            raise Refused(Code.INVALID_FETCH_SESSION_EPOCH)
        session.update(request, version)
        session.epoch = expected
        session.incremental = True
        session.used_at = now
        self._sessions.move_to_end(session.session_id)
        if not session.wanted:
            # Nothing is left to read: the client may as well start anew.
            del self._sessions[session.session_id]
            session.session_id = 0
        return session

    def clear(self) -> None:
        """The broker was restarted."""
        self._sessions.clear()

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randint(1, _GREATEST)
            if session_id not in self._sessions:
                return session_id

    def _keep(self, session: FetchSession) -> None:
        while len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        self._sessions[session.session_id] = session
