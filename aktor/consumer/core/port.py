"""The application's port: where the background's messages wait for the application thread.

The dispatcher's thread puts in, the application thread takes out. Nothing here needs a lock: each
deque has one writer and one reader, and each snapshot is replaced as a whole and by one thread
only. Both threads touch the open questions (`_open`), each time by one operation on the dict, which
Python does at once: so each ticket is popped once, and its question ends once.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from aktor.actors.runtime.dispatcher import Bell, Reply
from aktor.actors.runtime.handlers import MessageHandler, handles
from aktor.consumer.core.views import ConnectionView, MembershipView
from aktor.errors import ActorRestartedError, ConsumerClosedError
from aktor.events.answers import Answered, Failed
from aktor.events.commits import AutoCommitFinished
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.fetching import Chunk, RecordsFetched
from aktor.events.lifecycle import ActorsRestarted, ConsumerFailed
from aktor.events.membership import (
    AssignPartitions,
    GroupFailed,
    Loss,
    MemberChanged,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
    Step,
)
from aktor.events.message import Message
from aktor.events.metadata import Cluster, ClusterChanged, TopicsRefused
from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersLost,
    BrokersReached,
    BrokersUnreachable,
)
from aktor.events.positions import (
    EndsListed,
    LogEnd,
    LogsTruncated,
    PositionsFailed,
    PositionsResolved,
)
from aktor.events.routes import APPLICATION, MEMBERSHIP, NETWORK
from aktor.structs import TopicPartition
from aktor.trace import Trace

__all__ = ["ApplicationPort", "Event", "EventQueue", "Port", "Publish", "Settle"]

#: A message on which `poll` must act.
Event: TypeAlias = (
    Step
    | ActorsRestarted
    | AutoCommitFinished
    | ClusterChanged
    | CoordinatorRefused
    | GroupFailed
    | TopicsRefused
)

_T = TypeVar("_T")

#: Of so many messages it is remembered what led to them.
CAUSES: Final = 64

#: Tells the background a message; `wake=False`: the background reads it at its next turn.
Publish = Callable[..., None]

#: Called once with (value, None) or (None, error) when a question ends.
Settle = Callable[[Any, BaseException | None], None]


class Port(MessageHandler):
    """Owns what any kind of consumer hears of its background: the messages on which a call must act
    and that the application has not read yet, its open questions, the cluster, and whether the
    background has failed.

    A kind of consumer has a subclass, with a handler for each message that its routes send to the
    application besides.
    """

    def __init__(self, bell: Bell, trace: Trace) -> None:
        super().__init__()
        self.bell = bell
        self.log = trace.bind(actor=APPLICATION)
        self._aside = self.log.aside()
        #: Messages on which `poll` must act, in order: rebalance steps, errors, restarts, outcomes
        #: of automatic commits, changes of the cluster. (Others may look into the deques of a port,
        #: but only the port changes them.)
        self.events: deque[Any] = deque()
        self.cluster = Cluster()
        self.connections = ConnectionView()
        self.failure: BaseException | None = None
        self._watches_cluster = False
        #: What led to the last events, by the trace; while nobody listens there is nothing here.
        self._causes: deque[tuple[Message, int]] = deque(maxlen=CAUSES)
        self._tickets = itertools.count(1)
        self._open: dict[int, tuple[str, Settle]] = {}

    # -- the background's side

    def tell(self, message: Message) -> None:
        """Take one message; the runtime's `Receiver`."""
        self.handle(message)

    def _add_event(self, event: Message) -> None:
        if cause := self.log.background.last:
            self._causes.append((event, cause))
        self.events.append(event)
        self.bell.ring()

    @handles(ClusterChanged)
    def _on_cluster(self, changed: ClusterChanged) -> None:
        is_first = self.cluster.version <= 0
        self.cluster = changed.cluster
        if is_first:
            self.bell.ring()  # the constructor waits for it
        self.connections.on_answer()
        if self._watches_cluster:
            self._add_event(changed)

    @handles(BrokerRefused)
    def _on_refused(self, refused: BrokerRefused) -> None:
        self.connections.on_refused(refused)
        self.bell.ring()

    @handles(BootstrapFailed, BrokersUnreachable)
    def _on_unreachable(self, failed: BootstrapFailed | BrokersUnreachable) -> None:
        self.connections.on_unreachable(failed)
        self.bell.ring()

    @handles(BrokersReached)
    def _on_brokers_reached(self, _reached: BrokersReached) -> None:
        self.connections.on_reached()

    @handles(BrokersLost)
    def _on_brokers_lost(self, lost: BrokersLost) -> None:
        self.connections.on_lost(lost)

    @handles(ActorsRestarted)
    def _on_restarted(self, restarted: ActorsRestarted) -> None:
        for ticket, (actor, _) in list(self._open.items()):
            if actor in restarted.actors:
                error = ActorRestartedError(actor=actor)
                error.__cause__ = restarted.because
                self._settle(ticket, None, error)
        if NETWORK in restarted.actors:
            self.connections.on_restarted()
        self._add_event(restarted)

    @handles(ConsumerFailed)
    def _on_consumer_failed(self, failed: ConsumerFailed) -> None:
        self.fail(failed.error)

    def fail(self, error: BaseException) -> None:
        """End everything: each open question, and each later call, with this error."""
        self.failure = error
        for ticket in list(self._open):
            self._settle(ticket, None, error)
        self.bell.ring()

    @handles(Answered)
    def _on_answered(self, answer: Answered) -> None:
        self._settle(answer.ticket, answer.value, None)

    @handles(Failed)
    def _on_failed(self, answer: Failed) -> None:
        self._settle(answer.ticket, None, answer.error)

    def _settle(self, ticket: int, value: Any, error: BaseException | None) -> None:
        _, settle = self._open.pop(ticket, (None, None))
        if settle is None:
            self._aside.debug(
                "answer.dropped", ticket=ticket, because="nobody waits for it any more"
            )
            return
        settle(value, error)
        self.bell.ring()  # a waiting poll has a callback to run

    # -- the application's side

    def cause_of(self, event: Message) -> int:
        """The event of the trace that led to this message; 0: none is known."""
        return next((cause for known, cause in tuple(self._causes) if known is event), 0)

    def take_events(self, take: Callable[[Any], None]) -> None:
        """Give the messages on which `poll` must act to `take`, in order."""
        _take_all(self.events, take)

    def open(self, actor: str, settle: Settle, asked: list[int] | None = None) -> int:
        """A new ticket for a question to `actor`; `settle` is called once, on either thread.

        The ticket is added to `asked` first, so that a call that is interrupted can give it up.
        """
        ticket = next(self._tickets)
        if asked is not None:
            asked.append(ticket)
        self._open[ticket] = (actor, settle)
        if self.failure is not None:
            self._settle(ticket, None, self.failure)
        return ticket

    def ask(
        self, actor: str, bell: Bell | None = None, asked: list[int] | None = None
    ) -> tuple[int, Reply]:
        """A new ticket and the future of its answer, which rings `bell` (default: the port's)."""
        reply = Reply(bell or self.bell)

        def settle(value: Any, error: BaseException | None) -> None:
            if error is None:
                reply.set(value)
            else:
                reply.fail(error)

        return self.open(actor, settle, asked), reply

    def forget(self, ticket: int) -> None:
        """The caller does not wait for this answer any more."""
        self._open.pop(ticket, None)

    @property
    def open_tickets(self) -> list[int]:
        """The questions that have no answer yet."""
        return list(self._open)

    @property
    def open_questions(self) -> int:
        """How many questions have no answer yet."""
        return len(self._open)

    def waits_for(self, actor: str) -> bool:
        """Whether a question to this actor has no answer yet."""
        return any(name == actor for name, _ in list(self._open.values()))

    def watch_cluster(self, *, wanted: bool) -> None:
        """Set whether changes of the cluster become events: some subscriptions depend on them."""
        self._watches_cluster = wanted

    def close(self) -> None:
        """End every open question: the consumer is closed."""
        error = ConsumerClosedError()
        for ticket in list(self._open):
            self._settle(ticket, None, error)


class ApplicationPort(Port):
    """What a `KafkaConsumer` hears besides: owns the position outcomes, the fetch buffer, and what
    is seen of its membership."""

    events: deque[Event]

    def __init__(self, bell: Bell, trace: Trace) -> None:
        super().__init__(bell, trace)
        #: Position outcomes, read also by `position()`.
        self.positions: deque[PositionsResolved | PositionsFailed | LogsTruncated] = deque()
        #: The fetch buffer.
        self.chunks: deque[Chunk] = deque()
        self.membership = MembershipView()
        #: Where logs end that are not fetched, if somebody looks.
        self.ends: Mapping[TopicPartition, LogEnd] = {}

    @handles(EndsListed)
    def _on_ends(self, told: EndsListed) -> None:
        self.ends = told.ends

    @handles(RecordsFetched)
    def _on_records(self, fetched: RecordsFetched) -> None:
        self.chunks.extend(fetched.chunks)
        self.bell.ring()

    @handles(PositionsResolved, PositionsFailed, LogsTruncated)
    def _on_positions(self, outcome: PositionsResolved | PositionsFailed | LogsTruncated) -> None:
        self.positions.append(outcome)
        self.bell.ring()

    @handles(RevokePartitions, RunRevokedCallback, AssignPartitions)
    def _on_step(self, step: Step) -> None:
        self._add_event(step)

    @handles(TopicsRefused, CoordinatorRefused, GroupFailed)
    def _on_failure(self, failure: TopicsRefused | CoordinatorRefused | GroupFailed) -> None:
        self._add_event(failure)

    @handles(AutoCommitFinished)
    def _on_auto_commit(self, finished: AutoCommitFinished) -> None:
        self._add_event(finished)

    @handles(SessionExtended)
    def _on_session(self, extended: SessionExtended) -> None:
        self.membership.on_session(extended)
        self.bell.ring()

    @handles(MemberChanged)
    def _on_member(self, changed: MemberChanged) -> None:
        self.membership.on_member(changed)

    @handles(ActorsRestarted)
    def _on_restarted(self, restarted: ActorsRestarted) -> None:
        if MEMBERSHIP in restarted.actors:
            self.membership.on_restarted()
        super()._on_restarted(restarted)

    # -- the application's side

    def take_positions(
        self, take: Callable[[PositionsResolved | PositionsFailed | LogsTruncated], None]
    ) -> None:
        """Give the position outcomes to `take`, in order."""
        _take_all(self.positions, take)

    def take_chunks(self, take: Callable[[Chunk], None]) -> None:
        """Give the fetched chunks to `take`, in order."""
        _take_all(self.chunks, take)


def _take_all(waiting: deque[_T], take: Callable[[_T], None]) -> None:
    """Give each to `take`, and let go of it after that: if an interrupt comes between, the next
    call gives it once more, and it is not lost."""
    while waiting:
        take(waiting[0])
        waiting.popleft()


class EventQueue:
    """Owns the events that were taken over from the port.

    An event leaves the queue when it was acted on: after an interrupt the next call finds it again.
    Only `taken_over` may be searched and changed: the background thread adds to the port's deque.
    """

    __slots__ = ("_port", "arrived", "taken_over")

    def __init__(self, port: ApplicationPort) -> None:
        self._port = port
        #: The port's deque: messages of the background that `poll` has not looked at.
        self.arrived = port.events
        #: Messages taken over from it that were not acted on yet.
        self.taken_over: deque[Event] = deque()

    def __bool__(self) -> bool:
        return bool(self.arrived or self.taken_over)

    def gather(self) -> deque[Event]:
        """Take over new messages; returns all that were not acted on yet."""
        self._port.take_events(self._take_over)
        return self.taken_over

    def _take_over(self, event: Event) -> None:
        # After an interrupt the port may give an event again that was taken over already.
        if not self.taken_over or self.taken_over[-1] is not event:
            self.taken_over.append(event)

    def next(self) -> Event:
        """The event to act on now. There must be one."""
        self.gather()
        return self.taken_over[0]

    def done_with(self, event: Event) -> None:
        """The event was acted on: take it out, unless it was forgotten meanwhile."""
        if self.taken_over and self.taken_over[0] is event:
            self.taken_over.popleft()

    def take_out(self, event: Event) -> None:
        """The event was acted on: take it out, wherever it stands."""
        self.taken_over = deque(waiting for waiting in self.taken_over if waiting is not event)

    def forget_steps(self) -> None:
        """Forget the steps of a rebalance that is abandoned: they are not answered any more."""
        self.taken_over = deque(event for event in self.gather() if not isinstance(event, Step))

    def forget_group(self) -> None:
        """Forget the steps and errors of a membership that ends: the next one must not see them."""
        self.forget_steps()
        refused = GroupFailed | TopicsRefused
        self.taken_over = deque(
            event for event in self.taken_over if not isinstance(event, refused)
        )

    def holds(self, event: Event) -> bool:
        """Whether the event was not acted on yet."""
        return event in self.taken_over

    def has_step_besides(self, event: Event) -> bool:
        """Whether another step of a rebalance was taken over."""
        return any(isinstance(waiting, Step) for waiting in self.taken_over if waiting is not event)

    def says_lost(self) -> bool:
        """Whether a message of the membership manager says that partitions are lost."""
        return any(
            isinstance(event, RevokePartitions | RunRevokedCallback) and event.loss is Loss.LOST
            for event in self.gather()
        )

    def restarts(self) -> list[ActorsRestarted]:
        """Restarts of actors on which the application has not acted yet."""
        return [event for event in self.gather() if isinstance(event, ActorsRestarted)]
