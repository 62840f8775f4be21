"""How a question of the application thread ends: exactly once, by one of these.

A ticket is a number that the application gave out together with a future; the manager keeps it
until it answers. Questions carry an absolute `deadline`: at the deadline a manager ends what is not
answered, saying in a `KafkaTimeoutError` what stood in the way; the application waits a moment
longer than the deadline to hear it.
"""

from __future__ import annotations

from typing import Any

from aktor.events.message import Message


class Answered(Message):
    """supervisor, network, metadata, membership, commits, positions ▶ application: the result of
    the question with this ticket.
    """

    ticket: int
    value: Any = None


class Failed(Message):
    """metadata, commits, positions ▶ application: the question with this ticket ended in a typed
    error.
    """

    ticket: int
    error: Exception
