"""What the network actor and the sockets below it say to each other.

    NetworkActor ──connect, send, close_connection──▶ Net (KafkaNet; in a simulation, a made-up one)
    NetworkActor ◀──ConnectionOpened | ConnectionFailed | ConnectionClosed── Net
    NetworkActor ◀──RequestAnswered | RequestBroken── Net

A connection is named by a `key` which is used once: what is said about an old one cannot be taken
for news of its successor. Calls never raise and never report before they return.

Each report says when it was made (`now`, by the dispatcher's clock), since the actor has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from aktor.actors.runtime import Sleeper
from aktor.events.message import Message

__all__ = [
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionOpened",
    "Net",
    "NetFactory",
    "RequestAnswered",
    "RequestBroken",
]


class ConnectionOpened(Message):
    """Net ▶ NetworkActor: connected, versions known, logged in."""

    key: str
    now: float = field(compare=False)


class ConnectionFailed(Message):
    """Net ▶ NetworkActor: this attempt did not become a connection.

    `error` is a `KafkaConnectionError` (`__cause__` is a `TimeoutError` if time ran out), a
    `FrameError` or an `AuthenticationError`.
    """

    key: str
    error: Exception
    now: float = field(compare=False)


class ConnectionClosed(Message):
    """Net ▶ NetworkActor: the open connection is gone, and every answer still due on it."""

    key: str
    error: Exception
    now: float = field(compare=False)


class RequestAnswered(Message):
    """Net ▶ NetworkActor: the answer, in this version of its API.

    The broker wants to be sent nothing for `throttle` seconds (KIP-219).
    """

    key: str
    request_id: int
    response: Any
    version: int
    now: float = field(compare=False)
    throttle: float = 0.0


class RequestBroken(Message):
    """Net ▶ NetworkActor: this request was not sent and cannot be; the connection is well.

    `error` is an `UnsupportedVersionError` if the broker does not speak it.
    """

    key: str
    request_id: int
    error: Exception
    now: float = field(compare=False)


class Net(Sleeper, Protocol):
    """Mechanism without policy: does what it is told and reports what happened."""

    def connect(
        self,
        key: str,
        host: str,
        port: int,
        timeout: float,
        *,
        canonical: bool = False,
        jitter: float = 0.5,
    ) -> None:
        """Open a connection within `timeout` seconds; ends in one report, Opened or Failed.

        `canonical`: ask the resolver for the host's full name and use that (for Kerberos).
        `jitter`: random in [0, 1), for the moment at which its login is renewed.
        """

    def send(self, key: str, request_id: int, body: Any) -> None:
        """Send; ends in one report, unless the connection ends first (then in that)."""

    def has_heard(self, key: str) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""

    def close_connection(self, key: str) -> None:
        """Close, or end the attempt. Nothing is reported about it any more, and requests that are
        not answered arrive now or never: not after what is sent in their place."""

    def close(self) -> None:
        """Close everything, orderly; no more reports."""


#: Makes a net that reports to the given function.
NetFactory = Callable[[Callable[[Message], None]], Net]
