"""A round of ticks: the supervisor asks the actors, one after the other, what they want to send."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Sequence

from aktor.events.lifecycle import Tick, TickDue, Ticked
from aktor.events.network import Request

__all__ = ["TickRound"]


class TickRound:
    """Owns whom the round has yet to ask, the requests that it has collected, and when each running
    actor wants to be asked again.

    `order` names the actors in the order in which they are asked. The last one takes the requests
    of all others, so it is asked whenever there are any. `news` has the actors that were told
    something since they were last asked; others change it while the round goes on.
    """

    __slots__ = ("_asked", "_news", "_order", "_to_come", "_wake_at", "requests", "tick")

    def __init__(self, order: Sequence[str], news: Container[str]) -> None:
        self._order = tuple(order)
        self._news = news
        #: What each actor is told in this round.
        self.tick = Tick(now=-math.inf, jitter=0.0)
        #: The actors whose turn is to come, and the one that has not answered yet.
        self._to_come: Iterator[tuple[str, float]] = iter(())
        self._asked: str | None = None
        #: The requests that the actors have returned so far.
        self.requests: list[Request] = []
        #: When each running actor wants to be asked again, unless it is told something; in order.
        self._wake_at: dict[str, float] = {}

    # -- the actors

    def started(self, actor: str) -> None:
        """This one runs from now on, and is asked in the next round."""
        self._keep(self._wake_at | {actor: -math.inf})

    def stopped(self, actor: str) -> None:
        """This one does not run any more."""
        self._keep({name: at for name, at in self._wake_at.items() if name != actor})

    def _keep(self, wake_at: dict[str, float]) -> None:
        self._wake_at = {name: wake_at[name] for name in self._order if name in wake_at}

    def forget_requests_of(self, actors: Collection[str]) -> None:
        """These start afresh: what they wanted to send is not sent."""
        self.requests = [request for request in self.requests if request.sender not in actors]

    # -- the round

    def begin(self, due: TickDue) -> None:
        """Ask every actor that runs now and has a reason to be asked."""
        self.tick = Tick(now=due.now, jitter=due.jitter)
        self._to_come = iter(self._wake_at.items())
        self._asked = None

    def next(self) -> str | None:
        """The next running actor that was told something, or whose wake time has come; None at the
        end of the round."""
        now, news = self.tick.now, self._news
        taker = self._order[-1] if self.requests else None
        for name, due in self._to_come:
            if due <= now or name in news or name == taker:
                self._asked = name
                return name
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
        self._wake_at[ticked.actor] = ticked.wake_at
        return True

    @property
    def wake_at(self) -> float:
        """When the first of the actors wants to be asked again."""
        return min(self._wake_at.values(), default=math.inf)
