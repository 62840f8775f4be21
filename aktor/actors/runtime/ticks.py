"""Ticks: when the supervisor asks the actors what they want to send, and which of them.

A round is due when something has happened since the last one, or when the earliest time has come at
which an actor wants to be asked. The dispatcher then says `TickDue`. The supervisor asks one actor
after the other, each when the one before has answered.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from aktor.events.lifecycle import Tick, TickDue, Ticked
from aktor.events.network import Request, SendRequests

__all__ = ["CLOCKWORK", "Ticks"]

#: The messages of a round. Their delivery is no reason for another round.
CLOCKWORK: Final = frozenset({TickDue, Tick, Ticked, SendRequests})


class Ticks:
    """Owns the time of the next round and the randomness in it; which actors have news; and of the
    round under way whom it has yet to ask, and the requests that it has collected.

    The dispatcher tells it to whom it delivers, and asks whether a round is due. The supervisor
    asks it for the next actor, and tells it the answers.
    """

    __slots__ = (
        "_asked",
        "_due",
        "_has_work",
        "_now",
        "_order",
        "_random",
        "_to_come",
        "_wall",
        "asked",
        "is_on",
        "news",
        "requests",
        "wake_at",
    )

    def __init__(self, seed: int | None = None, wall: Callable[[], float] = time.time) -> None:
        self._random = random.Random(seed)
        #: The seconds since the epoch.
        self._wall = wall
        #: Whether a message was delivered since the last round began.
        self._has_work = True
        #: Whether a round is under way.
        self.is_on = False
        #: When the next round is due if nothing happens before.
        self.wake_at = -math.inf
        #: The actors that were given a message since they were last asked.
        self.news: set[str] = set()
        #: Called with the name of an actor that is given its Tick: it has no news any more.
        self.asked: Callable[[str], None] = self.news.discard
        #: The actors in the order in which they are asked.
        self._order: tuple[str, ...] = ()
        #: When each running actor wants to be asked again, unless it is told something; in order.
        self._due: dict[str, float] = {}
        #: The time of this round, the actors whose turn is to come, and the one that has not
        #: answered yet.
        self._now = -math.inf
        self._to_come: Iterator[tuple[str, float]] = iter(())
        self._asked: str | None = None
        #: The requests that the actors have returned so far.
        self.requests: list[Request] = []

    # -- the actors

    def set_order(self, order: Sequence[str]) -> None:
        """Ask the actors in this order. The last one takes the requests of all others, so it is
        asked whenever there are any."""
        self._order = tuple(order)

    def started(self, actor: str) -> None:
        """This one runs from now on, and is asked in the next round."""
        self._keep(self._due | {actor: -math.inf})

    def stopped(self, actor: str) -> None:
        """This one does not run any more."""
        self._keep({name: at for name, at in self._due.items() if name != actor})

    def _keep(self, due: dict[str, float]) -> None:
        self._due = {name: due[name] for name in self._order if name in due}

    def forget_requests_of(self, actors: Collection[str]) -> None:
        """These start afresh: what they wanted to send is not sent."""
        self.requests = [request for request in self.requests if request.sender not in actors]

    # -- when a round is due

    def told(self, actor: str) -> None:
        """This actor is given a message that is not of a round: news for it."""
        self._has_work = True
        self.news.add(actor)

    def due(self, now: float) -> TickDue | None:
        """The message that begins a round, if one is due."""
        if not self._has_work and now < self.wake_at:
            return None
        self._has_work = False
        self.is_on = True
        return TickDue(now=now, jitter=self._random.random(), wall=self._wall())

    def begin_again(self) -> None:
        """An actor of this round has crashed, so that the round does not end: another is due."""
        self.is_on = False
        self._has_work = True

    def stop(self) -> None:
        """The consumer has failed: a message is no reason for a round any more."""
        self._has_work = False

    # -- the round

    def begin(self, now: float) -> None:
        """Ask every actor that runs now and has a reason to be asked."""
        self._now = now
        self._to_come = iter(self._due.items())
        self._asked = None

    def next(self) -> str | None:
        """The next running actor that was told something, or whose wake time has come. None: the
        round is over, and the next is due when the first of the actors wants to be asked."""
        now, news = self._now, self.news
        taker = self._order[-1] if self.requests else None
        for name, due in self._to_come:
            if due <= now or name in news or name == taker:
                self._asked = name
                return name
        self.is_on = False
        self.wake_at = min(self._due.values(), default=math.inf)
        return None

    def take_requests_for(self, name: str) -> tuple[Request, ...]:
        """What this actor is to send: nothing, unless it is the last one."""
        if name != self._order[-1]:
            return ()
        requests, self.requests = tuple(self.requests), []
        return requests

    def answered(self, ticked: Ticked) -> bool:
        """An actor has answered: keep its requests. False: it is not the one that was asked."""
        if ticked.actor != self._asked:
            return False
        self._asked = None
        if ticked.requests:
            self.requests += ticked.requests
        self._due[ticked.actor] = ticked.wake_at
        return True
