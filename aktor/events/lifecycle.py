"""The life-cycle conversation: who is asked when, and what follows after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from aktor.events.message import Message
from aktor.events.metric import Metric
from aktor.events.network import Request
from aktor.values import Value


class TickDue(Message):
    """dispatcher ▶ supervisor: nothing is left to deliver, and either something has happened since
    the last round, or the earliest wake time has come.
    """

    now: float
    jitter: float
    wall: float = 0.0


class Tick(Message):
    """supervisor ▶ the actor that is asked: it is `now`; what do you want to send, and when do you
    wake?

    `jitter` is a fresh random number in [0, 1): managers have no randomness of their own. `wall` is
    the time in seconds since the epoch, for the timestamps of records.
    """

    now: float
    jitter: float
    wall: float = 0.0


class Ticked(Message):
    """every manager, network ▶ supervisor: these requests now, and wake me no later than
    `wake_at`.
    """

    actor: str
    incarnation: int
    requests: tuple[Request, ...]
    wake_at: float


class ActorCrashed(Message):
    """dispatcher ▶ supervisor: this incarnation raised while it handled a message."""

    actor: str
    incarnation: int
    handling: str
    error: BaseException
    now: float


class ActorsRestarted(Message):
    """supervisor ▶ the actors that ask one of them, application: these actors were restarted;
    questions to them are lost.
    """

    actors: tuple[str, ...]
    because: BaseException


class ConsumerFailed(Message):
    """dispatcher ▶ application: an actor crashed too often; fail everything with this error."""

    error: BaseException


class ReportStatus(Message):
    """application ▶ supervisor: who is alive? Answered with a tuple of `ActorStatus`, measured as
    of `now`."""

    ticket: int
    now: float


class ActorStatus(Value):
    """One supervised actor: its incarnation (1 + restarts), and what it has measured so far.

    `broker_version` is what the network actor has heard of the brokers, as (4, 1): kafka-python
    infers it from their API versions. None: nothing yet, or another actor.
    """

    name: str
    incarnation: int
    dead_letters: int
    broker_version: tuple[int, ...] | None = None
    counters: Mapping[Metric, float] = field(default_factory=dict)
