"""The supervisor: starts the children, asks them at each tick what to send, restarts what crashes.

Each tick it asks in turn, with one `now`, every manager that was told something or wanted to wake,
what to send and when to wake next; hands the requests to the network actor, which comes last; and
tells the dispatcher how long to sleep. When a child crashes it restarts that child and those that
need it, tells them the facts that they missed, or gives the consumer up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aktor.actors.runtime.dispatcher import CooperativeActor, Dispatcher
from aktor.actors.runtime.handlers import handles
from aktor.actors.runtime.supervision import Child, GiveUp, LastFacts, after_crash, start_order
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
from aktor.events.metric import Metric
from aktor.events.network import SendRequests
from aktor.events.routes import APPLICATION, FACTS, KEPT, SUPERVISOR
from aktor.trace import Trace, silent

__all__ = ["Supervisor"]


class Supervisor(CooperativeActor):
    """Owns the children, their restart budgets and their incarnation numbers.

    It is given the children in the order in which a tick asks them. The last one takes the requests
    of all others. The order in which they start follows from what they need. `facts` are those of
    this kind of consumer, and who tells each (`FACTS` in the routes).
    """

    name = SUPERVISOR
    dispatcher: Dispatcher

    def __init__(
        self,
        children: Sequence[Child],
        *,
        dispatcher: Dispatcher,
        trace: Trace | None = None,
        facts: Mapping[type, str] = FACTS,
    ) -> None:
        super().__init__(dispatcher=dispatcher)
        takers = [child.name for child in children if child.takes_requests]
        if takers != [children[-1].name]:
            raise ValueError("the last child takes the requests, and no other")
        by_name = {child.name: child for child in children}
        starting = start_order({name: child.needs for name, child in by_name.items()})
        for child in children:
            if unknown := set(child.asks) - by_name.keys():
                raise ValueError(f"{child.name} asks {', '.join(unknown)}: there is no such child")
        #: In start order.
        self.children = tuple(by_name[name] for name in starting)
        self.facts = LastFacts(facts)
        self.log = (trace or silent()).of_actor(actor=self.name, incarnation=1)
        self.incarnations = {child.name: 0 for child in self.children}
        self.restarts = {child.name: 0 for child in self.children}
        self._running: dict[str, CooperativeActor] = {}
        self._crashes: dict[str, list[float]] = {child.name: [] for child in self.children}
        #: What earlier incarnations of each actor have counted.
        self._totals: dict[str, dict[Metric, float]] = {child.name: {} for child in self.children}
        self._ticks = dispatcher.ticks
        self._ticks.set_order(tuple(by_name))
        #: What each actor is told in this round.
        self._tick = Tick(now=0.0, jitter=0.0)

    def on_start(self) -> None:
        """Start the children in order."""
        self.dispatcher.connect(self.name, self)
        self.dispatcher.connect(KEPT, self.facts)
        for child in self.children:
            self._start_child(child)

    # -- the round

    @handles(TickDue)
    def on_tick_due(self, due: TickDue) -> None:
        """Ask every child that has a reason to be asked, one after the other."""
        self._tick = Tick(now=due.now, jitter=due.jitter, wall=due.wall)
        self._ticks.begin(due.now)
        self._ask_next()

    def _ask_next(self) -> None:
        """Ask the next one, unless the round is over."""
        ticks = self._ticks
        name = ticks.next()
        if name is None:
            return
        if ticks.requests and (requests := ticks.take_requests_for(name)):
            self.tell(name, SendRequests(requests=requests, now=self._tick.now))
        self.dispatcher.tell(name, self._tick)

    @handles(Ticked)
    def on_ticked(self, ticked: Ticked) -> None:
        """An actor has answered: keep its requests, and ask the next one."""
        known = ticked.incarnation == self.incarnations[ticked.actor]
        if not (known and self._ticks.answered(ticked)):
            # The actor was restarted after it sent this answer. Drop the answer, and the requests
            # in it: the new incarnation asks for what it needs.
            self.log.debug("tick.dropped", child=ticked.actor, of_incarnation=ticked.incarnation)
            return
        self._ask_next()

    # -- the children

    def _start_child(self, child: Child) -> None:
        self.incarnations[child.name] += 1
        actor = child.make(self.incarnations[child.name])
        self._running[child.name] = actor
        self._ticks.started(child.name)
        self.dispatcher.connect(child.name, actor)
        self.log.info("actor.started", child=child.name, of_incarnation=actor.incarnation)

    def _stop_child(self, child: Child) -> None:
        actor = self._running.pop(child.name, None)
        self._ticks.stopped(child.name)
        self.dispatcher.disconnect(child.name)
        if actor is not None:
            actor.actor_stopped.set()
            try:
                actor.on_stop()
            except Exception as error:
                self.log.error("actor.stop_failed", child=child.name, because=error)

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
            self._keep_totals(child.name, crash.now)
            self._stop_child(child)
        self._ticks.forget_requests_of(names)
        self.facts.forget(names)
        for child in decision.children:
            self.restarts[child.name] += 1
            self._start_child(child)
        self._tell_facts(names)
        self.log.warning(
            "actor.restarted", actors=names, because=crash.error, message_type=crash.handling
        )
        self._announce(ActorsRestarted(actors=names, because=crash.error))
        self._ticks.begin_again()

    @handles(ReportStatus)
    def on_report_status(self, asked: ReportStatus) -> None:
        """Answer with a tuple of `ActorStatus`."""
        self._say(Answered(ticket=asked.ticket, value=self._status(asked.now)))

    def _status(self, now: float) -> tuple[ActorStatus, ...]:
        return tuple(
            ActorStatus(
                name=name,
                incarnation=actor.incarnation,
                dead_letters=actor.dead_letters,
                broker_version=actor.broker_version,
                counters=self._measured(name, now),
            )
            for name, actor in self._running.items()
        )

    def _measured(self, name: str, now: float) -> dict[Metric, float]:
        """What this actor has measured; totals go on over its restarts, as in kafka-python, where
        programs compute rates from them."""
        before = self._totals[name]
        measured = self._running[name].measure(now)
        return {metric: value + before.get(metric, 0) for metric, value in measured.items()}

    def _keep_totals(self, name: str, now: float) -> None:
        """This incarnation ends: the next one goes on with its totals."""
        try:
            measured = self._measured(name, now)
        except Exception as error:  # it has crashed: what it counts by may be wrong, too
            self.log.error("actor.stop_failed", child=name, because=error)
            return
        totals = {metric: value for metric, value in measured.items() if metric.kind == "total"}
        self._totals[name] |= totals

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
            child=crash.actor,
            message_type=crash.handling,
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
