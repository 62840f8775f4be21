"""What the network actor and the sockets below it say to each other.

    NetworkActor ──connect, send, close_connection──▶ Net (KafkaNet; in a simulation, a made-up one)
    NetworkActor ◀──ConnectionOpened | ConnectionFailed | ConnectionClosed── Net
    NetworkActor ◀──RequestAnswered | RequestBroken── Net

A connection is named by a `key` which is used once: a report about an old connection cannot be
taken for one about its successor. Calls never raise and never report before they return.

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
    """Net ▶ NetworkActor: the open connection has ended; answers due on it will not come."""

    key: str
    error: Exception
    now: float = field(compare=False)


class RequestAnswered(Message):
    """Net ▶ NetworkActor: the answer, in this version of its API.

    The broker wants no request for `throttle` seconds (KIP-219).
    """

    key: str
    request_id: int
    response: Any
    version: int
    now: float = field(compare=False)
    throttle: float = 0.0


class RequestBroken(Message):
    """Net ▶ NetworkActor: this request cannot be sent; the connection is still usable.

    `error` is an `UnsupportedVersionError` if the broker does not speak it.
    """

    key: str
    request_id: int
    error: Exception
    now: float = field(compare=False)


class Net(Sleeper, Protocol):
    """The sockets for the network actor: they do what it says, and report what happened."""

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
        """Send; ends in one report about the request, or in the report of the connection's end."""

    def has_heard(self, key: str) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""

    def close_connection(self, key: str) -> None:
        """Close, or end the attempt. Nothing is reported about it any more. Unanswered requests
        must not arrive at the broker later, after the requests that are sent in their place."""

    def close(self) -> None:
        """Close everything, orderly; no more reports."""


#: Makes a net that reports to the given function.
NetFactory = Callable[[Callable[[Message], None]], Net]
