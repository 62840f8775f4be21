"""How the network actor calls the sockets below it. What they report is `events/sockets`.

The sockets are `KafkaNet`; in a simulation, or a test, they are made up. Calls never raise, and
never report before they return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from aktor.actors.runtime.dispatcher import Sleeper
from aktor.events.message import Message

__all__ = ["Net", "NetFactory"]


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
