"""A request manager: an actor that holds rules of Kafka and decides what to send and when.

A handler takes one message. What depends on the time is a duty: a method that does what is due, and
returns when it is due next. Both say messages by `_say` and send requests by `send`; the manager
collects these. In a consumer, each `Tick` runs the duties, and the manager answers it by `Ticked`:
the collected requests, and the time of the next tick that the manager needs. In a test, `handle`
returns the messages of a handler; `poll` runs the duties as a tick does, and returns the messages,
the requests and that time. A manager has no clock, socket, thread or randomness, so a test calls
these methods and reads the result:

    manager = CommitManager(Settings(group_id="g"))
    said = manager.handle(CoordinatorFound(broker=...))
    result = manager.poll(now=0.0, jitter=0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from aktor.actors.runtime.dispatcher import CooperativeActor, Dispatcher
from aktor.actors.runtime.handlers import handles, mending
from aktor.events.lifecycle import ActorsRestarted, Tick, Ticked
from aktor.events.message import Message
from aktor.events.network import Destination, Lane, Request, RequestFailed, ResponseReceived
from aktor.settings import Settings
from aktor.trace import Trace, silent

__all__ = [
    "AGAIN",
    "NEVER",
    "REFUSED_PAUSE",
    "Backoff",
    "Duty",
    "PollResult",
    "RequestManager",
    "stretched",
]

#: The due time of a duty that waits for a message only.
NEVER: Final = math.inf

#: A duty returns AGAIN when all duties are to be done again at once. AGAIN is -inf, and so is
#: `Exchange.due` of a request that was never sent. So a duty may return that time only after it has
#: sent the request or changed a state; else the loop never ends (RuntimeError after `ROUNDS`).
AGAIN: Final = -math.inf

#: Called with `now` and `jitter` (random in [0, 1)): does what is due, and returns when it is due
#: next if no message comes before.
Duty: TypeAlias = Callable[[float, float], float]

#: A request that a broker refused for good is repeated no sooner than this, in seconds: the user
#: may mend the cause from outside (new credentials, an ACL).
REFUSED_PAUSE: Final = 1.0

#: More rounds than any work takes. A duty that is still due after them would never end.
ROUNDS: Final = 1000


class PollResult(NamedTuple):
    """The requests and messages of a manager, and the time at which it needs the next tick."""

    requests: tuple[Request, ...] = ()
    wake_at: float = NEVER
    said: tuple[Message, ...] = ()


def stretched(seconds: float, jitter: float) -> float:
    """This time or up to 20 % more, so that many clients do not come back at the same moment."""
    return seconds * (1.0 + 0.2 * jitter)


class Backoff:
    """When a retry is due: exponential with jitter, as `ExponentialBackoff` in the Java client.

    The n-th failure in a row waits `first * 2**(n-1)`, at most `longest`, plus or minus 20 %.
    """

    __slots__ = ("_first", "_longest", "failures", "retry_at")

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0
        self.retry_at = -math.inf

    def failed(self, now: float, jitter: float) -> float:
        """Note a failure at `now`; returns the time of the next attempt (also `retry_at`)."""
        wait = self.doubled(self._first, self._longest)
        self.failures += 1
        self.retry_at = now + wait * (0.8 + 0.4 * jitter)
        return self.retry_at

    def doubled(self, first: float, longest: float) -> float:
        """`first`, doubled by each failure in a row, at most `longest`."""
        return min(first * 2.0 ** min(self.failures, 30), longest)

    def pause(self, until: float) -> None:
        """Make no attempt before `until`: the broker would refuse an earlier one again."""
        self.retry_at = until

    def reset(self) -> None:
        """Forget the failures: the next attempt may be made at once."""
        self.failures = 0
        self.retry_at = -math.inf


class RequestManager(CooperativeActor):
    """Base of the managers. Subclasses set `name`, `NEEDS`, `READS`, `duties`, and have handlers.

    `@handles(Type)` stands above the handler of a message, `@answers_to(RequestType)` above the
    handler of the response to a protocol request, and `@failure_of(RequestType)` above the handler
    of a request that gets no response. Every request that it sends needs both of these. Any other
    message is a dead letter.

    `NEEDS` names the actors whose restart makes this one's state worthless: it starts afresh with
    them. `@after_restart_of("actor")` stands above a handler without arguments that is called if
    this one lives on after a restart of that actor. Its questions to that actor are lost then, and
    so are those which that actor had asked. Facts (`FACTS` in the routes) need no such handler: the
    supervisor tells them to each actor that starts afresh.

    `READS` names the settings that it reads, with those that its parts read. In a consumer it is
    given no others (`Settings.only`); a test may give it all.
    """

    name: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    READS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        settings: Settings,
        *,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(dispatcher=dispatcher, incarnation=incarnation)
        self.settings = settings
        #: The time of the last tick, in seconds since the epoch. It may jump.
        self.wall = 0.0
        self.log = (trace or silent()).of_actor(actor=self.name, incarnation=incarnation)

    @classmethod
    def understands(cls) -> frozenset[type]:
        """Every message type this manager has a handler for."""
        unheard = frozenset() if cls.mends() else {ActorsRestarted}
        return super().understands() - unheard

    @classmethod
    def mends(cls) -> tuple[str, ...]:
        """The actors of whose restart it must be told: it lives on, but its questions are lost."""
        return tuple(mending(cls))

    # -- what subclasses write

    def duties(self) -> tuple[Duty, ...]:
        """The duties, in the order in which they are done. Read once."""
        return ()

    def note_present(self, now: float) -> None:
        """Replace `present`, if what it tells has changed. Called after the duties of each tick."""

    # -- what they call

    def send(self, request: Request) -> None:
        """Send this request at the end of this tick; outside of a tick, at the end of the next."""
        self._outgoing.send(request)

    def request(
        self,
        body: Any,
        *,
        to: int | Destination,
        deadline: float,
        context: Any = None,
        lane: Lane = Lane.ORDINARY,
        in_order_for: float = 0.0,
        number: int | None = None,
    ) -> Request:
        """A request of this manager's, to be sent by `send`. `number`: one that `log.number` gave,
        if an event has named the request already."""
        return Request(
            body=body,
            to=to,
            deadline=deadline,
            sender=self.name,
            incarnation=self.incarnation,
            context=context,
            lane=lane,
            in_order_for=in_order_for,
            number=self.log.number() if number is None else number,
            cause=self.log.strand.last,
        )

    # -- the tick; `poll` is for tests and for `managers/membership/auto`

    def poll(self, now: float, jitter: float, wall: float = 0.0) -> PollResult:
        """Do what a tick does; returns the requests and messages. `jitter` is random in [0, 1)."""
        self.wall = wall or self.wall
        wake_at, outgoing = self._do_duties(now, jitter), self._outgoing
        return PollResult(outgoing.take_requests(), wake_at, tuple(outgoing.take_messages()))

    def _do_duties(self, now: float, jitter: float) -> float:
        """Do what is due at `now`; returns when something is due next.

        It calls all duties again until none of them returns `AGAIN`.
        """
        for _ in range(ROUNDS):
            wake_at = NEVER
            for duty in self._handlers.duties:
                due = duty(now, jitter)
                if due < wake_at:
                    wake_at = due
            # A due time of `now` (a backoff of 0) is left to the next tick.
            if wake_at != AGAIN:
                return wake_at
        raise RuntimeError(f"{self.name} has something to do at once, and never does it")

    @handles(Tick)
    def _on_tick(self, tick: Tick) -> None:
        self.wall = tick.wall
        wake_at = self._do_duties(tick.now, tick.jitter)
        self.note_present(tick.now)
        outgoing = self._outgoing
        if outgoing.requests or outgoing.said:
            self.has_acted()
        if not outgoing.repeat_answer(wake_at):
            outgoing.answer_tick(
                Ticked(
                    actor=self.name,
                    incarnation=self.incarnation,
                    requests=outgoing.take_requests(),
                    wake_at=wake_at,
                )
            )

    @handles(ActorsRestarted)
    def _on_restarted(self, restarted: ActorsRestarted) -> None:
        for actor, handler in mending(type(self)).items():
            if actor in restarted.actors:
                getattr(self, handler)()

    def _is_stale(self, request: Request) -> bool:
        if request.incarnation == self.incarnation:
            return False
        self.log.info(
            "answer.dropped",
            api=type(request.body).__name__,
            because="it was asked by an earlier incarnation",
            of_incarnation=request.incarnation,
        )
        return True

    @handles(ResponseReceived)
    def _on_response(self, received: ResponseReceived) -> None:
        if not self._is_stale(received.request):
            self._handlers.of_response(received.request)(received)

    @handles(RequestFailed)
    def _on_failure(self, failed: RequestFailed) -> None:
        if not self._is_stale(failed.request):
            self._handlers.of_failure(failed.request)(failed)
