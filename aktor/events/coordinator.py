"""The coordinator conversation: which broker looks after our group."""

from __future__ import annotations

from aktor.events.message import Message
from aktor.events.metadata import Broker


class CoordinatorFound(Message):
    """coordinator ▶ network, membership, commits: group requests go to this broker."""

    broker: Broker


class CoordinatorLost(Message):
    """coordinator ▶ network, membership, commits: hold group requests back."""

    because: str


class SuspectCoordinator(Message):
    """network, membership, commits ▶ coordinator: `node_id` did not act as our coordinator.

    Ignored if the coordinator is another node by now. The network says it as soon as a connection
    to it is refused or closed; `retry_at` is then when the next one may be tried, else None.
    """

    node_id: int
    because: str
    retry_at: float | None = None


class CoordinatorMissing(Message):
    """coordinator ▶ commits: an attempt to find it failed; it is repeated."""

    because: str


class CoordinatorRefused(Message):
    """coordinator ▶ membership, commits, application: we may not use this group.

    `error` is a `GroupAuthorizationFailedError`, an `InvalidGroupIdError` or alike, naming the
    group. Everything that waits for the coordinator fails with it; the look-up goes on at the
    longest backoff, so that a right granted later is noticed.
    """

    error: Exception
