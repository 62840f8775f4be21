"""What an actor has to say and to send when its handler has returned."""

from __future__ import annotations

from aktor.events.lifecycle import Ticked
from aktor.events.message import Message
from aktor.events.network import Request

__all__ = ["Outgoing"]


class Outgoing:
    """Owns what an actor has to say and, if it is a manager, to send, until it is taken."""

    __slots__ = ("_messages", "_requests", "ticked")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._requests: list[Request] = []
        #: The last answer to a tick: most ticks are answered alike.
        self.ticked: Ticked | None = None

    def say(self, message: Message) -> None:
        """One more to be said."""
        self._messages.append(message)

    def send(self, request: Request) -> None:
        """One more to be sent."""
        self._requests.append(request)

    def messages(self) -> list[Message]:
        """Take what is to be said."""
        if not self._messages:
            return []
        said, self._messages = self._messages, []
        return said

    def requests(self) -> tuple[Request, ...]:
        """Take what is to be sent."""
        if not self._requests:
            return ()
        sent, self._requests = tuple(self._requests), []
        return sent

    def answer_tick(self, ticked: Ticked) -> None:
        """Say it, and keep it."""
        self.ticked = ticked
        self.say(ticked)
