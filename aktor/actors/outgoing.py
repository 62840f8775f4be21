"""What an actor has to say and to send when its handler has returned."""

from __future__ import annotations

from collections.abc import Iterable

from aktor.events.lifecycle import Ticked
from aktor.events.message import Message
from aktor.events.network import Request

__all__ = ["Outgoing"]


class Outgoing:
    """Owns what an actor has to say and, if it is a manager, to send, until it is taken."""

    __slots__ = ("_requests", "said", "ticked")

    def __init__(self) -> None:
        #: What is to be said.
        self.said: list[Message] = []
        self._requests: list[Request] = []
        #: The last answer to a tick: most ticks are answered alike.
        self.ticked: Ticked | None = None

    def say(self, message: Message) -> None:
        """One more to be said."""
        self.said.append(message)

    def send(self, request: Request) -> None:
        """One more to be sent."""
        self._requests.append(request)

    def messages(self) -> list[Message]:
        """Take what is to be said."""
        said, self.said = self.said, []
        return said

    def requests(self) -> tuple[Request, ...]:
        """Take what is to be sent."""
        if not self._requests:
            return ()
        sent, self._requests = tuple(self._requests), []
        return sent

    def say_first(self, messages: Iterable[Message]) -> None:
        """These are to be said before all others."""
        self.said[:0] = messages

    def answer_tick(self, ticked: Ticked) -> None:
        """The answer to the tick is said last, and kept."""
        self.ticked = ticked
        self.said.append(ticked)
