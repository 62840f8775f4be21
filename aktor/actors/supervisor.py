"""The supervisor: starts the children, asks them at each tick what to send, restarts what crashes.

Each tick it asks in turn, with one `now`, every manager that was told something or wanted to wake,
what to send and when to wake next; hands the requests to the network actor, which comes last; and
tells the dispatcher how long to sleep. When a child crashes it restarts that child and those that
need it, tells them the facts that they missed, or gives the consumer up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from aktor.actors.handlers import bound, handlers, handles
from aktor.actors.runtime import CooperativeActor, Dispatcher
from aktor.actors.supervision import Child, GiveUp, LastFacts, after_crash, start_order
from aktor.errors import ActorCrashedError
from aktor.events.answers import Answered
from aktor.events.lifecycle import (
    ActorCrashed,
    ActorsRestarted,
    ActorStatus,
    ReportStatus,
    Tick,
    TickDue,
    Ticked,
)
from aktor.events.message import Message
from aktor.events.network import Request, SendRequests
from aktor.events.routes import APPLICATION, FACTS, KEPT, SUPERVISOR
from aktor.trace import Trace, silent

__all__ = ["Supervisor"]


class Supervisor(CooperativeActor):
    """Owns the children, their restart budgets and their incarnation numbers.

    It is given the children in the order in which a tick asks them. The last one takes the requests
    of all others. The order in which they start follows from what they need.
    """

    name = SUPERVISOR
    dispatcher: Dispatcher

    def __init__(
        self, children: Sequence[Child], *, dispatcher: Dispatcher, trace: Trace | None = None
    ) -> None:
        super().__init__(dispatcher=dispatcher)
        takers = [child.name for child in children if child.takes_requests]
        if takers != [children[-1].name]:
            raise ValueError("the last child takes the requests, and no other")
        by_name = {child.name: child for child in children}
        starting = start_order({name: child.needs for name, child in by_name.items()})
        #: In start order.
        self.children = tuple(by_name[name] for name in starting)
        #: The last one takes the requests.
        self._tick_order = tuple(by_name)
        self.facts = LastFacts(FACTS)
        self._table = bound(self, handlers(type(self)))
        self.log = (trace or silent()).bind(actor=self.name, incarnation=1)
        self.incarnations = {child.name: 0 for child in self.children}
        self.restarts = {child.name: 0 for child in self.children}
        self._running: dict[str, CooperativeActor] = {}
        self._crashes: dict[str, list[float]] = {child.name: [] for child in self.children}
        self._tick = Tick(now=-math.inf, jitter=0.0)
        self._to_ask: list[str] = []
        self._requests: list[Request] = []
        #: When each running child wants to be asked again, unless it is told something.
        self._wake_at: dict[str, float] = {}

    def on_start(self) -> None:
        """Start the children in order."""
        self.dispatcher.connect(self.name, self)
        self.dispatcher.connect(KEPT, self.facts)
        for child in self.children:
            self._start_child(child)

    @classmethod
    def understands(cls) -> frozenset[type]:
        """Every message type this actor has a handler for."""
        return frozenset(handlers(cls))

    def on_receive(self, message: Message) -> None:
        """Pykka's hook."""
        handler = self._table.get(type(message))
        if handler is None:
            self.drop(message)
        else:
            handler(message)

    # -- the round

    @handles(TickDue)
    def on_tick_due(self, due: TickDue) -> None:
        """Ask every child that has a reason to be asked, one after the other."""
        self._tick = Tick(now=due.now, jitter=due.jitter)
        self._to_ask = [name for name in self._tick_order if name in self._running]
        self._ask_next()

    def _ask_next(self) -> None:
        """Ask the next actor that was told something, or whose wake time has come."""
        to_ask, requests, now = self._to_ask, self._requests, self._tick.now
        while to_ask:
            name = to_ask[0]
            if requests and name == self._tick_order[-1]:
                self._requests = []
                self.tell(name, SendRequests(requests=tuple(requests), now=now))
            elif not (self.dispatcher.has_news(name) or self._wake_at[name] <= now):
                del to_ask[0]
                continue
            self.tell(name, self._tick)
            return
        self.dispatcher.round_finished(min(self._wake_at.values(), default=math.inf))

    @handles(Ticked)
    def on_ticked(self, ticked: Ticked) -> None:
        """An actor has answered: keep its requests, and ask the next one."""
        expected = self._to_ask[0] if self._to_ask else None
        if ticked.actor != expected or ticked.incarnation != self.incarnations[ticked.actor]:
            # An answer to a round that a crash cut short; its requests are answered as stale.
            self.log.debug("tick.dropped", of=ticked.actor, of_incarnation=ticked.incarnation)
            return
        self._to_ask.pop(0)
        self._requests.extend(ticked.requests)
        self._wake_at[ticked.actor] = ticked.wake_at
        self._ask_next()

    # -- the children

    def _start_child(self, child: Child) -> None:
        self.incarnations[child.name] += 1
        actor = child.make(self.incarnations[child.name])
        self._running[child.name] = actor
        self._wake_at[child.name] = -math.inf
        self.dispatcher.connect(child.name, actor)
        self.log.info("actor.started", started=child.name, as_incarnation=actor.incarnation)

    def _stop_child(self, child: Child) -> None:
        actor = self._running.pop(child.name, None)
        self._wake_at.pop(child.name, None)
        self.dispatcher.disconnect(child.name)
        if actor is not None:
            actor.actor_stopped.set()
            try:
                actor.on_stop()
            except Exception as error:
                self.log.error("actor.stop_failed", stopping=child.name, error=error)

    def on_stop(self) -> None:
        """Stop all children, the last first. Pykka's hook; called when the thread ends."""
        for child in reversed(self.children):
            self._stop_child(child)

    @handles(ActorCrashed)
    def on_crash(self, crash: ActorCrashed) -> None:
        """Restart the crashed actor and those that need it, or give the consumer up."""
        if crash.incarnation != self.incarnations[crash.actor]:
            return  # the crashed incarnation was replaced already
        before = self._crashes[crash.actor]
        decision = after_crash(self.children, crash.actor, before, crash.now)
        before.append(crash.now)
        if isinstance(decision, GiveUp):
            self._give_up(crash)
            return
        names = tuple(child.name for child in decision.children)
        for child in reversed(decision.children):
            self._stop_child(child)
        self._requests = [one for one in self._requests if one.sender not in names]
        self.facts.forget(names)
        for child in decision.children:
            self.restarts[child.name] += 1
            self._start_child(child)
        self._tell_facts(names)
        self.log.warning(
            "actor.restarted", actors=names, because=crash.error, handling=crash.handling
        )
        self._announce(ActorsRestarted(actors=names, because=crash.error))
        self.dispatcher.round_finished(-math.inf)

    @handles(ReportStatus)
    def on_report_status(self, asked: ReportStatus) -> None:
        """Answer with a tuple of `ActorStatus`."""
        self.say(Answered(ticket=asked.ticket, value=self._status()))

    def _status(self) -> tuple[ActorStatus, ...]:
        return tuple(
            ActorStatus(
                name=name,
                incarnation=actor.incarnation,
                dead_letters=actor.dead_letters,
                counters=dict(actor.counters),
            )
            for name, actor in self._running.items()
        )

    def _tell_facts(self, fresh: Sequence[str]) -> None:
        """Tell the actors that start afresh the last facts, as far as the routes name them."""
        for fact in self.facts.known():
            for name in self.dispatcher.receivers_of(type(fact)):
                if name in fresh:
                    self.tell(name, fact)

    def _announce(self, restarted: ActorsRestarted) -> None:
        """Tell the actors whose questions are lost, and the application. The application then tells
        the new actors again what only it knows, with new partition epochs."""
        fallen = frozenset(restarted.actors)
        for child in self.children:
            if child.name not in fallen and not fallen.isdisjoint(child.asks):
                self.tell(child.name, restarted)
        self.tell(APPLICATION, restarted)

    def _give_up(self, crash: ActorCrashed) -> None:
        self.log.error(
            "actor.escalated",
            crashed=crash.actor,
            handling=crash.handling,
            restarts=self.restarts[crash.actor],
            because=crash.error,
        )
        kind = type(crash.error).__name__
        error = ActorCrashedError(
            actor=crash.actor, reason=f"{kind} while handling {crash.handling}"
        )
        error.__cause__ = crash.error
        self.on_stop()
        self.dispatcher.fail(error)
