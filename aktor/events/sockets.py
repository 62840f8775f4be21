"""The conversation of the sockets: what they report to the network actor, which calls them as a
`Net` (`actors/sockets/wire`).

A connection is named by a `key` which is used once: a report about an old connection cannot be
taken for one about its successor. Each report says when it was made (`now`, by the dispatcher's
clock), since the actor has no clock.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from aktor.events.message import Message


class ConnectionOpened(Message):
    """sockets ▶ network: connected, versions known, logged in.

    `broker_version` is the broker's version, as kafka-python infers it from its API versions.
    """

    key: str
    broker_version: tuple[int, ...] | None = None
    now: float = field(compare=False)


class ConnectionFailed(Message):
    """sockets ▶ network: this attempt did not become a connection.

    `error` is a `KafkaConnectionError` (`__cause__` is a `TimeoutError` if time ran out), a
    `FrameError` or an `AuthenticationError`.
    """

    key: str
    error: Exception
    now: float = field(compare=False)


class ConnectionClosed(Message):
    """sockets ▶ network: the open connection has ended; answers due on it will not come."""

    key: str
    error: Exception
    now: float = field(compare=False)


class RequestAnswered(Message):
    """sockets ▶ network: the answer, in this version of its API.

    The broker wants no request for `throttle` seconds (KIP-219). `sizes` are those of the request
    and of the answer, in bytes.
    """

    key: str
    request_id: int
    response: Any
    version: int
    now: float = field(compare=False)
    throttle: float = 0.0
    sizes: tuple[int, int] = (0, 0)


class RequestBroken(Message):
    """sockets ▶ network: this request cannot be sent; the connection is still usable.

    `error` is an `UnsupportedVersionError` if the broker does not speak it.
    """

    key: str
    request_id: int
    error: Exception
    now: float = field(compare=False)
