"""The life-cycle conversation: time goes round, and somebody may fall over.

dispatcher ──TickDue──────────▶ Supervisor ──Tick──▶ manager          (one after the other)
                                Supervisor ◀──Ticked── manager
dispatcher ──ActorCrashed─────▶ Supervisor
Supervisor ──ActorsRestarted──▶ who asked one of them, NetworkActor, application
Supervisor ──ConsumerFailed───▶ application                           (the budget is spent)
application ──ReportStatus────▶ Supervisor ──Answered──▶ application
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aktor.events.message import Message
from aktor.events.network import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class TickDue(Message):
    """dispatcher ▶ Supervisor: nothing is left to deliver, or the earliest wake time has come."""

    now: float
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Message):
    """Supervisor ▶ manager: it is `now`; what do you want to send, and when do you wake?

    `jitter` is a fresh random number in [0, 1): managers have no randomness of their own.
    """

    now: float
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked(Message):
    """manager ▶ Supervisor: these requests now, and wake me no later than `wake_at`."""

    actor: str
    incarnation: int
    requests: tuple[Request, ...]
    wake_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCrashed(Message):
    """dispatcher ▶ Supervisor: this incarnation raised while it handled a message."""

    actor: str
    incarnation: int
    handling: str
    error: BaseException
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorsRestarted(Message):
    """Supervisor ▶ who asks one of them: these start afresh; what they were asked is lost."""

    actors: tuple[str, ...]
    because: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFailed(Message):
    """Supervisor ▶ application: an actor crashed too often; fail everything with this error."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStatus(Message):
    """application ▶ Supervisor: who is alive? Answered with a tuple of `ActorStatus`."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatus:
    """One supervised actor: its incarnation (1 + restarts), and what it has counted so far."""

    name: str
    incarnation: int
    dead_letters: int
    counters: Mapping[str, float] = field(default_factory=dict)
