"""One request at one broker: its client, its time, and the way to answer.

The broker's parts are state machines without threads, clocks or sockets. Each handler is given a
`Call`, and sooner or later calls `call.reply(response)`, once. What must wait (a join, a long poll)
keeps the call. Time comes in: `call.now` with a request, `tick(now)` when a timer is due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

__all__ = ["CLOSE", "Call", "Journal", "NoJournal"]

#: In place of an answer: nothing is sent, and the connection is closed.
CLOSE: Final = object()


class Call:
    """A request that waits for its one answer.

    `request` is kafka-python's message object, decoded in `version`. `now` is seconds since the
    epoch and never goes back. `client_host` is as Kafka shows it, "/127.0.0.1". `connection` names
    the connection and is used once.
    """

    __slots__ = (
        "_answer",
        "client_host",
        "client_id",
        "connection",
        "node",
        "now",
        "principal",
        "request",
        "version",
    )

    def __init__(
        self,
        request: Any,
        *,
        answer: Callable[[Any], None],
        version: int,
        now: float,
        node: int = 1,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        principal: str = "User:ANONYMOUS",
        connection: int = 0,
    ) -> None:
        self.request = request
        self.version = version
        self.now = now
        self.node = node
        self.client_id = client_id
        self.client_host = client_host
        self.principal = principal
        self.connection = connection
        self._answer: Callable[[Any], None] | None = answer

    def __repr__(self) -> str:
        state = "waits" if self.waiting else "answered"
        return f"<Call {type(self.request).__name__} v{self.version} {self.client_id!r} {state}>"

    def answered_by(self, answer: Callable[[Any], None]) -> Call:
        """The same call, whose answer is given to this function."""
        return Call(
            self.request,
            answer=answer,
            version=self.version,
            now=self.now,
            node=self.node,
            client_id=self.client_id,
            client_host=self.client_host,
            principal=self.principal,
            connection=self.connection,
        )

    @property
    def waiting(self) -> bool:
        """Whether the answer is still due."""
        return self._answer is not None

    def reply(self, response: Any) -> None:
        """Answer with a message object, which need not know its version; None: nothing is sent."""
        if self._answer is None:
            raise RuntimeError(f"{self!r} is answered a second time")
        answer, self._answer = self._answer, None
        answer(response)


class Journal(Protocol):
    """Keeps the latest value under each key; what was put before an answer outlives a kill -9."""

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        """Keep a value (of JSON types) under (kind, key); None forgets it."""


class NoJournal:
    """In memory only: nothing is kept."""

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        """Forget it at once."""
