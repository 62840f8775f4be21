"""What every test of a manager needs: a tick, an answer, a failure; partitions and error codes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import RequestManager
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.network import Request, RequestFailed, ResponseReceived

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
T2 = TopicPartition("t", 2)

#: Error codes of the protocol.
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
OFFSET_NOT_AVAILABLE = 78


@dataclass(frozen=True)
class Turn:
    """What a tick led to."""

    requests: tuple[Request, ...]
    wake_at: float
    said: list[object]

    @property
    def request(self) -> Request:
        """The only request."""
        (one,) = self.requests
        return one


def tick(manager: RequestManager, now: float, wall: float = 0.0) -> Turn:
    """It is `now`, `wall` seconds after the epoch."""
    said = manager.handle(Tick(now=now, jitter=0.5, wall=wall))
    (ticked,) = (one for one in said if isinstance(one, Ticked))
    return Turn(ticked.requests, ticked.wake_at, [one for one in said if one is not ticked])


def answer(
    manager: RequestManager, request: Request, response: Any, now: float = 0.0
) -> list[object]:
    """A broker answers."""
    return manager.handle(
        ResponseReceived(request=request, response=response, node=1, now=now, jitter=0.5)
    )


def fail(
    manager: RequestManager, request: Request, error: Exception, now: float = 0.0
) -> list[object]:
    """No broker answers."""
    return manager.handle(RequestFailed(request=request, error=error, node=1, now=now, jitter=0.5))


def topic_id(number: int) -> uuid.UUID:
    """A topic's id."""
    return uuid.UUID(int=number)
