"""A round of ticks: the supervisor asks the actors, one after the other, what they want to send."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from aktor.events.lifecycle import Tick, TickDue, Ticked
from aktor.events.network import Request

__all__ = ["TickRound"]


class TickRound:
    """Owns whom the round has yet to ask, the requests that it has collected, and when each running
    actor wants to be asked again.

    `order` names the actors in the order in which they are asked. The last one takes the requests
    of all others, so it is asked whenever there are any.
    """

    __slots__ = ("_order", "_requests", "_to_ask", "_wake_at", "tick")

    def __init__(self, order: Sequence[str]) -> None:
        self._order = tuple(order)
        #: What each actor is told in this round.
        self.tick = Tick(now=-math.inf, jitter=0.0)
        self._to_ask: list[str] = []
        self._requests: list[Request] = []
        #: When each running actor wants to be asked again, unless it is told something.
        self._wake_at: dict[str, float] = {}

    # -- the actors

    def started(self, actor: str) -> None:
        """This one runs from now on, and is asked in the next round."""
        self._wake_at[actor] = -math.inf

    def stopped(self, actor: str) -> None:
        """This one does not run any more."""
        self._wake_at.pop(actor, None)

    def forget_requests_of(self, actors: Collection[str]) -> None:
        """These start afresh: what they wanted to send is not sent."""
        self._requests = [one for one in self._requests if one.sender not in actors]

    # -- the round

    def begin(self, due: TickDue) -> None:
        """Ask every running actor that has a reason to be asked."""
        self.tick = Tick(now=due.now, jitter=due.jitter)
        self._to_ask = [name for name in self._order if name in self._wake_at]

    def next(self, has_news: Callable[[str], bool]) -> str | None:
        """The next actor that was told something (`has_news`), or whose wake time has come; None at
        the end of the round."""
        to_ask, now = self._to_ask, self.tick.now
        while to_ask:
            name = to_ask[0]
            if self._has_requests_for(name) or has_news(name) or self._wake_at[name] <= now:
                return name
            del to_ask[0]
        return None

    def take_requests_for(self, name: str) -> tuple[Request, ...]:
        """What this actor is to send: nothing, unless it is the last one."""
        if not self._has_requests_for(name):
            return ()
        requests, self._requests = tuple(self._requests), []
        return requests

    def _has_requests_for(self, name: str) -> bool:
        return bool(self._requests) and name == self._order[-1]

    def expects(self, actor: str) -> bool:
        """Whether it is this one that was asked last, and has not answered."""
        return bool(self._to_ask) and self._to_ask[0] == actor

    def answered(self, ticked: Ticked) -> None:
        """The actor that was asked last has answered: keep its requests."""
        self._to_ask.pop(0)
        self._requests.extend(ticked.requests)
        self._wake_at[ticked.actor] = ticked.wake_at

    @property
    def wake_at(self) -> float:
        """When the first of the actors wants to be asked again."""
        return min(self._wake_at.values(), default=math.inf)
