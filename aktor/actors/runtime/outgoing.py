"""The messages and requests of an actor's handler, kept until the handler has returned."""

from __future__ import annotations

from collections.abc import Iterable

from aktor.events.lifecycle import Ticked
from aktor.events.message import Message
from aktor.events.network import Request

__all__ = ["Outgoing"]


class Outgoing:
    """Owns the messages that an actor says and, if it is a manager, the requests that it sends,
    until they are taken."""

    __slots__ = ("requests", "said", "ticked")

    def __init__(self) -> None:
        #: The messages that were said and not taken yet.
        self.said: list[Message] = []
        #: The requests that were sent and not taken yet.
        self.requests: list[Request] = []
        #: The last answer to a tick. Kept, because the next answer is mostly equal.
        self.ticked: Ticked | None = None

    def say(self, message: Message) -> None:
        """Add a message."""
        self.said.append(message)

    def send(self, request: Request) -> None:
        """Add a request."""
        self.requests.append(request)

    def take_messages(self) -> list[Message]:
        """Remove and return the messages."""
        said, self.said = self.said, []
        return said

    def take_requests(self) -> tuple[Request, ...]:
        """Remove and return the requests."""
        sent, self.requests = tuple(self.requests), []
        return sent

    def say_first(self, messages: Iterable[Message]) -> None:
        """Put these messages in front of the others."""
        self.said[:0] = messages

    def answer_tick(self, ticked: Ticked) -> None:
        """Append the answer to the tick, and keep it for the next tick."""
        self.ticked = ticked
        self.said.append(ticked)
