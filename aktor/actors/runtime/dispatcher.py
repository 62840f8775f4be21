"""The runtime: Pykka actors that take turns on one thread, and the clock they are told.

Pykka gives the actor, its reference, its future and its life-cycle; here are an inbox, a loop and a
future for it (Pykka's hooks `_create_actor_inbox`, `_start_actor_loop`, `_create_future`, and
`_handle_receive`). All actors of a consumer share one `Dispatcher`. In production it runs on a
thread of its own and sleeps in the network's selector; in a test or a simulation the same actors
get a dispatcher with a virtual clock and a seeded order, and no thread at all.

    dispatcher = Dispatcher(ROUTES)             dispatcher = Dispatcher(ROUTES, clock=time,
    dispatcher.start_thread("aktor-worker")                             order=Seeded(7))
                                                run_until(dispatcher, time, 60.0)
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import math
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias

import pykka

from aktor.actors.runtime.handlers import MessageHandler
from aktor.actors.runtime.ticks import CLOCKWORK, Ticks
from aktor.errors import ActorCrashedError, BackgroundThreadError
from aktor.events.lifecycle import ActorCrashed, ConsumerFailed, Tick
from aktor.events.message import Message
from aktor.events.metric import Metric
from aktor.events.routes import SUPERVISOR
from aktor.trace import CALL, Strand, Trace, silent
from aktor.values import Value

__all__ = [
    "Bell",
    "TAKEN_AWAY",
    "CooperativeActor",
    "Dispatcher",
    "InOrder",
    "Order",
    "Receiver",
    "Reply",
    "Seeded",
    "Sleeper",
    "Standstill",
    "VirtualTime",
    "Wake",
    "run_until",
]

#: How long the exit of the program waits for the thread to rest, in seconds. If it does not rest by
#: then it is in a call that takes long (a look-up of a name), where it does no harm.
REST_WAIT: Final = 0.5

#: Why the thread of a dispatcher is gone late in a program.
TAKEN_AWAY: Final = "the interpreter shuts down, and runs no other thread any more"

#: The longest sleep of a thread that is to find out when its process stood still, in seconds. The
#: application of most consumers polls once a second at least, which wakes it anyway.
LONGEST_SLEEP: Final = 1.1

#: Messages delivered between two looks at the sockets.
TURNS_PER_LOOK: Final = 256

#: If so many seconds have passed unforeseen, the process stood still, or its thread had no turn.
#: What has come meanwhile is read before anybody judges by the time who has not answered.
STOOD_STILL: Final = 0.1

#: After a look of the watch that has failed there is another one so many seconds later.
LOOK_AGAIN: Final = 60.0

#: So many unforeseen seconds are told (see `Standstill`).
TOLD_FROM: Final = 0.5

#: The receiver, the message, and the event of the trace that led to it (0: none).
_Mail: TypeAlias = tuple["CooperativeActor", "_Letter", int]


class Enveloped:
    """What came through an actor's Pykka reference. The envelope has `message` and `reply_to`."""

    __slots__ = ("envelope",)

    def __init__(self, envelope: Any) -> None:
        self.envelope = envelope


class Wake(enum.Enum):
    """Whether the thread wakes for the next look of the watch (`watch_by`)."""

    FOR_LOOK = "at its time"
    """Something is late."""

    NOW_AND_THEN = "after the longest sleep"
    """The thread, which sleeps for `LONGEST_SLEEP` seconds at most, notices when a sleep took
    longer: nothing of the process ran."""

    NEVER = "when it turns anyway"
    """There is nothing that could be late."""


class Standstill(NamedTuple):
    """A time in which nothing of the consumer ran, by the dispatcher's clock: its process was
    stopped, or frozen with its machine, or its threads had no turn. It began after `since`, and
    lasted from `due` to `until` at least. `in_turn`: or the thread was busy for so long in one
    turn. (A clock that jumps looks the same.)"""

    since: float
    due: float
    until: float
    in_turn: bool = False


#: A message of another actor, or what came through the actor's Pykka reference.
_Letter: TypeAlias = Message | Enveloped


class Receiver(Protocol):
    """A receiver of messages: an actor's reference, or the application's port."""

    def tell(self, message: Any) -> None:
        """Take the message; never blocks, never raises for the message's content."""


class Sleeper(Protocol):
    """Where the dispatcher sleeps when there is nothing to do: the network's selector."""

    def wait(self, timeout: float) -> None:
        """Do what the sockets ask for, or sleep up to `timeout` seconds until they or `wake` do."""

    def wake(self) -> None:
        """End a `wait` early. From any thread."""

    def prepare_to_rest(self) -> None:
        """The dispatcher rests. What `close` needs may be at hand after that, or never."""


class Bell:
    """The application thread waits on it; it is rung when there may be news for that thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the waiter, or keep the next wait from sleeping. From any thread."""
        with contextlib.suppress(RuntimeError):  # raised if it rings already
            self._lock.release()

    def wait(self, timeout: float) -> bool:
        """Sleep until rung or `timeout` seconds have passed; False if it was not rung."""
        return self._lock.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))


class Reply(pykka.ThreadingFuture[Any]):
    """A Pykka future that can say whether it is done, and rings a bell when it is."""

    def __init__(self, bell: Bell | None = None) -> None:
        super().__init__()
        #: The error, if it ended in one.
        self.error: BaseException | None = None
        self._bell = bell

    @property
    def done(self) -> bool:
        """True once a result or an error was set."""
        return self._result is not None

    def set(self, value: Any = None) -> None:
        """Set the result, wake the waiter."""
        super().set(value)
        if self._bell is not None:
            self._bell.ring()

    def fail(self, error: BaseException) -> None:
        """End in `error`, wake the waiter."""
        self.error = error
        self.set_exception((type(error), error, error.__traceback__))
        if self._bell is not None:
            self._bell.ring()


class Order(Protocol):
    """The order of delivery among actors. The messages of one actor are never reordered."""

    @property
    def waiting(self) -> Sized:
        """Empty if there is nothing to deliver."""

    def put(self, mail: _Mail) -> None:
        """Queue this message. From any thread."""

    def put_all(self, mails: Sequence[_Mail]) -> None:
        """Queue these messages, with no other between them. From any thread."""

    def take(self) -> _Mail:
        """Remove and return the next message to deliver. There must be one."""


class InOrder:
    """First come, first served: the order of production."""

    __slots__ = ("put", "put_all", "take", "waiting")

    def __init__(self) -> None:
        queue: deque[_Mail] = deque()
        # These are in C: each is done at one go, whichever thread calls it.
        self.put, self.put_all, self.take = queue.append, queue.extend, queue.popleft
        self.waiting = queue


class Seeded:
    """A seed chooses the next actor with messages; each actor gets its messages in order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        #: The inbox of each actor that has messages.
        self.waiting: dict[CooperativeActor, deque[_Mail]] = {}

    def put(self, mail: _Mail) -> None:
        """Add to the receiver's inbox."""
        self.waiting.setdefault(mail[0], deque()).append(mail)

    def put_all(self, mails: Sequence[_Mail]) -> None:
        """Add each to its receiver's inbox. Simulations have one thread."""
        for mail in mails:
            self.put(mail)

    def take(self) -> _Mail:
        """Remove and return the oldest message of an actor drawn at random."""
        actor = self._random.choice(list(self.waiting))
        inbox = self.waiting[actor]
        mail = inbox.popleft()
        if not inbox:
            del self.waiting[actor]
        return mail


class _Inbox:
    """Pykka's inbox: hands every envelope on to the dispatcher, which keeps the order."""

    __slots__ = ("_actor",)

    def __init__(self, actor: CooperativeActor) -> None:
        self._actor = actor

    def put(self, envelope: Any) -> None:
        dispatcher = self._actor.dispatcher
        assert dispatcher is not None, "an actor without a dispatcher can be called, not told"
        dispatcher.post((self._actor, Enveloped(envelope), 0))

    def get(self) -> Any:
        raise NotImplementedError("the dispatcher delivers; an actor does not read its inbox")

    def empty(self) -> bool:
        return True


class CooperativeActor(MessageHandler, pykka.Actor):
    """A Pykka actor that runs on a `Dispatcher` instead of a thread of its own.

    Made without a dispatcher it is an ordinary object whose handlers can be called.
    """

    name: ClassVar[str] = "actor"
    dead_letters = 0
    #: See `ActorStatus`.
    broker_version: tuple[int, ...] | None = None
    #: What the actor knows of the present, for `status()` and `why()`: a frozen value, which the
    #: actor replaces as a whole. Any thread may read it. None: it has not had a tick yet.
    present: Value | None = None

    def measure(self, now: float) -> Mapping[Metric, float]:
        """What the actor has measured, for `metrics()`; empty for an actor without metrics."""
        return {}

    @property
    def sleeper(self) -> Sleeper | None:
        """Where the thread sleeps while this actor is connected; None if this actor has no say."""
        return None

    def __init__(self, *, dispatcher: Dispatcher | None = None, incarnation: int = 1) -> None:
        self.dispatcher = dispatcher
        self.incarnation = incarnation
        #: The event of the trace that led to what the actor will do at its next tick (0: none), and
        #: whether the actor has told that event itself.
        self.cause = 0
        self.has_told_cause = False
        MessageHandler.__init__(self)
        pykka.Actor.__init__(self)

    @classmethod
    def launch(cls, *args: Any, **kwargs: Any) -> Self:
        """Start, and return the actor itself where Pykka's `start` returns its reference.

        Pykka's references are weak: it is the dispatcher that keeps an actor alive.
        """
        actor = cls(*args, **kwargs)
        actor._start_actor_loop()
        return actor

    def _create_actor_inbox(self) -> _Inbox:  # type: ignore[override]  # Pykka calls it on self
        return _Inbox(self)

    @staticmethod
    def _create_future() -> Reply:
        return Reply()

    def _start_actor_loop(self) -> None:
        # Pykka's registry is global: a user's `ActorRegistry.stop_all()` must not stop a consumer.
        with contextlib.suppress(Exception):  # of a log handler: Pykka logs this, when it is done
            pykka.ActorRegistry.unregister(self.actor_ref)
        self.on_start()

    def receive(self, envelope: Any) -> None:
        """Handle one envelope. An exception is a crash, also if Pykka's `ask` sent it."""
        try:
            response = self._handle_receive(envelope.message)
        except BaseException:
            if envelope.reply_to is not None:
                envelope.reply_to.set_exception()
            raise
        if envelope.reply_to is not None:
            envelope.reply_to.set(response)

    def on_receive(self, message: Any) -> None:
        """Pykka's hook, for each message: handle, then say. A program may put another in its place,
        here or in a subclass, to look at messages.
        """
        # (As `handle` does it. To call that would cost a fortieth of a round of ticks.)
        (self._handler_of(type(message)) or self.drop)(message)
        if self._outgoing.said:
            for said in self._outgoing.take_messages():
                self.say(said)

    def note_cause(self, kind: type, carried: int, last: int) -> None:
        """The actor was given a message of this type, to which the trace event `carried` had led;
        `last` is the last event that was told when the actor had handled the message.

        If the two differ, the actor has told `last` itself. It is then the cause of what the actor
        does, until the next tick; an event that only led to a message does not replace it. A call
        of the application replaces everything: with it another chain begins.
        """
        if kind is Tick:
            self.has_told_cause = False
        elif last == CALL:
            self.has_acted()
            self.cause = CALL
        elif last != carried:
            self.cause, self.has_told_cause = last, True
        elif not self.has_told_cause:
            self.cause = last

    def has_acted(self) -> None:
        """It has done what it was led to: what it does later has another cause."""
        self.cause, self.has_told_cause = 0, False

    def drop(self, message: Message) -> None:
        """Count the dead letter, too."""
        self.count_dead_letter()
        super().drop(message)

    def count_dead_letter(self) -> None:
        """A message for this actor is dropped: it has no handler for it, or was restarted."""
        self.dead_letters += 1

    def say(self, message: Message) -> None:
        """Tell the message to each receiver that the routes name for its type."""
        dispatcher = self.dispatcher
        assert dispatcher is not None, "an actor without a dispatcher has nobody to talk to"
        dispatcher.publish(message, dispatcher.strand.last)

    def tell(self, name: str, message: Message) -> None:
        """Tell one actor by name."""
        dispatcher = self.dispatcher
        assert dispatcher is not None, "an actor without a dispatcher has nobody to talk to"
        dispatcher.tell(name, message, dispatcher.strand.last)


class _Thread(threading.Thread):
    """The thread of a dispatcher. Owns whether it rests (see `Dispatcher.rest`)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._rests_now = threading.Event()
        self._has_begun = self._has_ended = False
        #: It has begun, has not ended, and was never told to rest. Each call of the application
        #: reads this, and looks more closely only if it is False (`Dispatcher.runs_elsewhere`).
        self.runs = False
        self._changes = threading.Lock()

    def run(self) -> None:
        """On this thread: run, and note that it has ended."""
        self._has_begun = True
        with self._changes:
            self.runs = not self.rests
        try:
            super().run()
        finally:
            self.runs = False
            self._has_ended = True
            self._rests_now.set()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or never began to run.

        `Thread.is_alive` must not be asked of a thread that has begun: if Ctrl-C comes into it,
        Python 3.11 and 3.12 take the running thread for a stopped one (`_wait_for_tstate_lock`).
        """
        return self._has_ended or not (self._has_begun or self.is_alive())

    @property
    def rests(self) -> bool:
        """Whether it is to do nothing."""
        return not self._may_go_on.is_set()

    def rest(self) -> None:
        """From any thread: do nothing more until `go_on`. From now on each call looks closely: the
        program exits, and there may be another rest."""
        with self._changes:
            self._may_go_on.clear()
            self.runs = False

    def go_on(self) -> None:
        """From any thread: end the rest."""
        self._may_go_on.set()

    @property
    def rests_now(self) -> bool:
        """Whether it stands still, and nothing of the actors is half done."""
        return self._rests_now.is_set()

    def wait_until_it_rests(self, timeout: float) -> None:
        """From another thread, after `rest`: wait until it does nothing more, or has ended."""
        self._rests_now.wait(timeout)

    def wait_until_it_may_go_on(self) -> None:
        """On this thread: rest."""
        self._rests_now.set()
        self._may_go_on.wait()
        self._rests_now.clear()


class Dispatcher:
    """Delivers messages to the actors of one consumer, one at a time, and keeps their time.

    Owns the clock, the randomness and the order of delivery. `routes` maps message types to
    receivers' names. Any thread may call `post`, `publish`, `tell`, `stop`; the rest belongs to
    the dispatching thread.
    """

    #: Whether calls of the application run on threads of their own, whose stacks can be shown.
    on_threads: ClassVar[bool] = True

    def __init__(
        self,
        routes: Mapping[type, tuple[str, ...]],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        order: Order | None = None,
        seed: int | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.clock = clock
        self.wall = wall
        #: The sleeper of the actor that was connected last and has one; None if there was none.
        self.sleeper: Sleeper | None = None
        self.log = (trace or silent()).of_actor(actor="dispatcher")
        self._aside = self.log.aside()
        #: What led to the message that is being handled.
        self.strand = self.log.strand
        self.dead_letters = 0
        self.failure: BaseException | None = None
        self._routes = routes
        #: The receivers whose messages are queued, and those that are told at once. There are two
        #: tables, because `isinstance` is slow for Pykka's actors (an abstract class).
        self._actors: dict[str, CooperativeActor] = {}
        self._others: dict[str, Receiver] = {}
        self._order: Order = order or InOrder()
        #: The rounds in which the supervisor asks the actors.
        self.ticks = Ticks(seed, wall)
        #: Called before an actor is given a message: what it raises is a crash of that actor. For
        #: simulations, which inject faults.
        self.before_each: Callable[[CooperativeActor, _Letter], None] | None = None
        self._sleeping = False
        #: While the thread sleeps: until when. Else when it last came back from a sleep. From
        #: then on it is late. One slot, since any thread may ask while this one goes to sleep or
        #: wakes.
        self._late_from = -math.inf
        #: Of a dispatcher without a thread of its own: when it had nothing more to do, and by when
        #: it turns again.
        self._idle_since, self._turns_by = -math.inf, math.inf
        #: The last time in which nothing ran; None: none was found.
        self.standstill: Standstill | None = None
        #: Called with the time about once a second, while the thread turns; it returns when to call
        #: it again, and whether to wake for that. See `watch_by`.
        self._watch: Callable[[float], tuple[float, Wake]] | None = None
        self._watch_at = math.inf
        self._wakes = Wake.NEVER
        self._stopping = False
        #: The program exits: outside of calls the thread rests.
        self.exits = False
        self._thread: _Thread | None = None
        self._thread_id: int | None = None

    # -- the receivers

    def connect(self, name: str, receiver: Receiver | CooperativeActor) -> None:
        """From now on `name` is this receiver."""
        if isinstance(receiver, CooperativeActor):
            self._actors[name] = receiver
            self.sleeper = receiver.sleeper or self.sleeper
        else:
            self._others[name] = receiver

    def disconnect(self, name: str) -> None:
        """Messages to `name` are dropped until it is connected again."""
        self._actors.pop(name, None)
        self._others.pop(name, None)

    def receivers_of(self, kind: type) -> tuple[str, ...]:
        """The names of the receivers of this type of message."""
        return self._routes.get(kind, ())

    def present_of(self, name: str) -> Value | None:
        """What this actor knows of the present; None: it is not running, or has had no tick yet.
        From any thread."""
        actor = self._actors.get(name)
        return None if actor is None else actor.present

    @property
    def running(self) -> tuple[CooperativeActor, ...]:
        """The actors that run now. From any thread."""
        return tuple(self._actors.copy().values())

    # -- talking (any thread). `cause` is given by position: each message comes through here, and
    # Python takes longer to call a function by keywords.

    def publish(self, message: Message, cause: int = 0, wake: bool = True) -> None:
        """Tell each receiver of this type; with `wake=False` a sleeping dispatcher is not woken.
        `cause`: the event of the trace that has led to the message."""
        names = self._routes.get(type(message), ())
        if len(names) == 1 and (actor := self._actors.get(names[0])) is not None:
            # As `tell` does it. Most messages come here, and to call it would cost as much again.
            self._order.put((actor, message, cause))
            if wake and self._sleeping:
                self._wake_for_mail()
        else:
            self._tell_all(names, message, wake, cause)

    def publisher(self, strand: Strand) -> Callable[..., None]:
        """`publish` for another thread, whose messages carry what this strand says."""

        def publish(message: Message, *, wake: bool = True) -> None:
            self.publish(message, wake=wake, cause=strand.take())

        return publish

    def _tell_all(self, names: Sequence[str], message: Message, wake: bool, cause: int) -> None:
        if not names and type(message) not in self._routes:
            self._drop(message, because="nobody is named for it", cause=cause)
        # All are queued at one go. Otherwise, when another thread publishes, the first receiver may
        # handle the message and tell the second one something before the second has the message.
        mails: list[_Mail] = []
        for name in names:
            actor = self._actors.get(name)
            if actor is not None:
                mails.append((actor, message, cause))
            else:
                self.tell(name, message, wake=wake, cause=cause)
        if mails:
            self._order.put_all(mails)
            if wake and self._sleeping:
                self._wake_for_mail()

    def tell(self, name: str, message: Message, cause: int = 0, wake: bool = True) -> None:
        """Tell the receiver called `name`."""
        actor = self._actors.get(name)
        if actor is not None:
            self._order.put((actor, message, cause))
            if wake and self._sleeping:
                self._wake_for_mail()
            return
        receiver = self._others.get(name)
        if receiver is None:
            self._drop(message, because=f"there is no {name}", cause=cause)
        else:
            receiver.tell(message)

    def post(self, mail: _Mail) -> None:
        """Queue one message for one actor."""
        self._order.put(mail)
        if self._sleeping:
            self._wake_for_mail()

    def _wake_for_mail(self) -> None:
        # The caller reads `_sleeping` after it has put the message: either it sees that the
        # dispatcher sleeps, or the dispatcher sees the message (see `_sleep`).
        if threading.get_ident() != self._thread_id:
            self._wake()

    def _wake(self) -> None:
        if self.sleeper is not None:
            self.sleeper.wake()

    def _drop(self, message: _Letter, *, because: str, cause: int = 0) -> None:
        self.dead_letters += 1
        if isinstance(message, Enveloped):
            asked, message = message.envelope.reply_to, message.envelope.message
            if asked is not None:  # who asks waits for an end
                error = pykka.ActorDeadError(because)
                asked.set_exception((pykka.ActorDeadError, error, None))
        self._aside.warning(
            "message.dropped", message_type=type(message).__name__, because=because, cause=cause
        )

    # -- turning

    def turn(self) -> float | None:
        """Deliver one message, or start the tick that is due.

        Returns None if something was done, else the time to sleep until.
        """
        order = self._order
        if order.waiting:
            self._deliver(order.take())
            return None
        ticks = self.ticks
        if ticks.is_on:
            # No message of this round is left, so an actor of it has crashed.
            if SUPERVISOR not in self._actors:
                return ticks.wake_at
            ticks.begin_again()
            return None
        now = self.clock()
        if now - self._turns_by >= TOLD_FROM:
            self.standstill = Standstill(self._idle_since, self._turns_by, now)
            self._turns_by = now
        # (A process that stood still does first what was due: so it finds out that it did.)
        if self._watch_at <= now <= ticks.wake_at + STOOD_STILL:
            self._look(now)
        due = ticks.due(now)
        if due is None:
            wake_at = ticks.wake_at
            if self._wakes is Wake.FOR_LOOK:
                wake_at = min(wake_at, self._watch_at)
            elif self._wakes is Wake.NOW_AND_THEN:
                wake_at = min(wake_at, now + LONGEST_SLEEP)
            if self._thread is None:
                self._idle_since, self._turns_by = now, max(now, wake_at)
            return wake_at
        self.publish(due)
        return None

    def watch_by(self, watch: Callable[[float], tuple[float, Wake]]) -> None:
        """From now on `watch` is called, about once a second, between two turns of the thread; for
        the first time in a second, since nothing was late for a second before."""
        self._watch = watch
        self._watch_at = self.clock() + 1.0

    def _look(self, now: float) -> None:
        assert self._watch is not None, "there is a time for it"
        try:
            self._watch_at, self._wakes = self._watch(now)
        except Exception as error:
            # It only looks: that must not end a consumer. What it lacked (a file that it may open,
            # memory) may be there later.
            self._watch_at, self._wakes = now + LOOK_AGAIN, Wake.NOW_AND_THEN
            self.log.error("watch.failed", because=error)

    def _deliver(self, mail: _Mail) -> None:
        actor: CooperativeActor
        message: Any
        actor, message, cause = mail
        if actor.actor_stopped.is_set():
            if self._is_connected(actor):
                self._stopped_by_others(actor, message)
            actor.count_dead_letter()
            self._drop(message, because=f"{actor.name} was restarted", cause=cause)
            return
        kind = type(message)
        if kind not in CLOCKWORK:
            self.ticks.told(actor.name)
        elif kind is Tick:
            self.ticks.asked(actor.name)
            cause = actor.cause  # what it was told since it acted last
        if cause:
            self.strand.follow(cause)
        try:
            if self.before_each is not None:
                self.before_each(actor, message)
            if kind is Enveloped:
                actor.receive(message.envelope)
                if actor.actor_stopped.is_set() and self._is_connected(actor):
                    self._stopped_by_others(actor, message)
            else:
                actor.on_receive(message)
        except BaseException as error:
            self._crashed(actor, message, error)
        if last := self.strand.last:
            actor.note_cause(kind, cause, last)
            self.strand.follow(0)  # what comes from outside has no cause of ours

    def _is_connected(self, actor: CooperativeActor) -> bool:
        return self._actors.get(actor.name) is actor

    def _stopped_by_others(self, actor: CooperativeActor, message: _Letter) -> None:
        """The actor has stopped, and is still connected: its supervisor has not stopped it, and it
        has not crashed. Pykka's `stop()` was called. Nobody would restart it or say that it is
        gone, and the consumer would go silent: treat it as a crash."""
        text = f"the {actor.name} actor was stopped by Pykka's stop(), not by its supervisor"
        self._crashed(actor, message, pykka.ActorDeadError(text))

    def _crashed(self, actor: CooperativeActor, message: _Letter, error: BaseException) -> None:
        handled = message.envelope.message if isinstance(message, Enveloped) else message
        handling = type(handled).__name__
        self.log.error(
            "actor.crashed",
            child=actor.name,
            of_incarnation=actor.incarnation,
            message_type=handling,
            because=error,
        )
        actor.actor_stopped.set()
        if actor.name == SUPERVISOR:
            reason = f"{type(error).__name__} while handling {handling}"
            self.fail(_caused(ActorCrashedError(actor=actor.name, reason=reason), error))
        else:
            self.disconnect(actor.name)
            self.publish(
                ActorCrashed(
                    actor=actor.name,
                    incarnation=actor.incarnation,
                    handling=handling,
                    error=error,
                    now=self.clock(),
                ),
                cause=self.strand.last,
            )

    def fail(self, error: BaseException) -> None:
        """The consumer has failed: tell the application, deliver nothing more."""
        self.failure = error
        self._stopping = True
        self.ticks.stop()
        self.publish(ConsumerFailed(error=error), cause=self.strand.last)

    # -- the thread

    def start_thread(self, name: str) -> None:
        """Turn on a daemon thread of this name until `stop`."""
        self._thread = _Thread(target=self._run, name=name, daemon=True)
        self._late_from = self.clock()
        # The first look loads what `status` and `why` need: of a consumer that is idle, too.
        self._wakes = Wake.FOR_LOOK
        try:
            self._thread.start()
        except RuntimeError:  # no more threads are to be had
            self._thread = None
            self.end()
            raise
        atexit.register(self.rest)

    @property
    def alive(self) -> bool:
        """True while the thread turns."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """By what Python knows the thread; None before it runs."""
        return self._thread_id

    @property
    def turns_here(self) -> bool:
        """Whether the caller runs on the dispatching thread, which must not wait for an answer."""
        thread = self._thread
        # The id of a thread that has ended may be that of a new one.
        return (
            thread is not None and self._thread_id == threading.get_ident() and not thread.is_gone
        )

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the thread runs, and is not the caller's. If so, a call may begin. If not, it has
        to ask `turns_here` and `fail_if_gone`; to ask these in each call would cost a tenth of a
        poll that finds nothing."""
        thread = self._thread
        return (
            thread is not None
            and thread.runs
            and self._thread_id != threading.get_ident()
            and not sys.is_finalizing()
        )

    def overdue(self, now: float) -> float:
        """For how many seconds the thread has done nothing though it should: it is in one turn, or
        has overslept. inf: it has ended. From any thread.

        A dispatcher without a thread of its own (a simulation) is never late.
        """
        thread = self._thread
        if thread is None or thread.rests:
            return 0.0
        if thread.is_gone:
            return math.inf
        return max(0.0, now - self._late_from)

    @property
    def is_taken_away(self) -> bool:
        """Whether the interpreter, which shuts down, has taken the thread away while it rested."""
        thread = self._thread
        return (
            thread is not None and sys.is_finalizing() and thread.rests_now and not self._stopping
        )

    def turn_until_rung(self, bell: Bell, timeout: float) -> bool:
        """If the thread `is_taken_away`: turn on the calling thread until the bell has rung, or
        `timeout` seconds have passed; False if it was not rung."""
        until = self.clock() + timeout
        while not (rung := bell.wait(0.0)) and self.clock() < until:
            self._sleep(min(until, self._turn_a_while()))
        return rung

    def stop(self, timeout: float) -> bool:
        """End the thread and wait for it; False if it did not end in time."""
        self._stopping = True
        self._wake()
        waits = not self.turns_here and not sys.is_finalizing()  # see `fail_if_gone`
        if self._thread is not None:
            self._thread.go_on()
            if self.alive and waits:
                self._thread.join(timeout)
        return not self.alive

    def check(self) -> None:
        """`fail_if_gone`, at little cost while the thread runs."""
        if not self.runs_elsewhere:
            self.fail_if_gone()

    def fail_if_gone(self) -> BackgroundThreadError | None:
        """Fail if the thread has ended without a word. Returns the error if it was found now.

        Each call of the consumer begins with this, unless the thread `runs_elsewhere`. The
        interpreter takes its daemon threads away after the functions of `atexit`: they do not run
        any more then, though `is_alive` stays True. Code that runs later (`__del__` of an object
        that a module keeps) would wait for them in vain. Only `close` turns the actors itself then
        (`is_taken_away`): much of what they import may be gone at any moment.
        """
        thread = self._thread
        if thread is None or self._stopping:
            return None
        if sys.is_finalizing():
            reason = TAKEN_AWAY
        elif not thread.is_gone:
            if thread.rests:
                thread.go_on()
            return None
        else:
            reason = "it is not known why"
        error = BackgroundThreadError(reason=reason)
        self.fail(error)
        if thread.is_gone:  # so it has closed nothing
            self.end()
        return error

    def rest(self) -> None:
        """The program exits: the thread does nothing more until a call comes, if one comes. At the
        end of the call this is called again.

        It is not ended: functions of `atexit` that were registered earlier run later, and may use
        the consumer. It should not run on either: the interpreter takes it away on any line, and
        aborts if it writes to a log just then.
        """
        self.exits = True
        if self._thread is not None and not self._stopping:
            self._thread.rest()
            self._wake()
            if not self.turns_here:
                self._thread.wait_until_it_rests(REST_WAIT)

    def _run(self) -> None:
        thread = self._thread
        assert thread is not None, "it has just begun"
        self._thread_id = threading.get_ident()
        try:
            while not self._stopping:
                self._sleep(self._turn_a_while())
                if thread.rests and not self._stopping:
                    self._prepare_to_rest()
                    thread.wait_until_it_may_go_on()
                    self._late_from = self.clock()
        except BaseException as error:
            self._fail_by(error)
        finally:
            atexit.unregister(self.rest)
            self.end()

    def _prepare_to_rest(self) -> None:
        assert self.sleeper is not None, "a dispatcher on a thread sleeps in the network"
        self.sleeper.prepare_to_rest()
        if self._watch is not None:
            self._look(self.clock())  # it loads what it needs: later no module can be imported

    def _turn_a_while(self) -> float:
        """Turn until there is nothing to do, or it is time to look at the sockets; returns the time
        to sleep until."""
        for _ in range(TURNS_PER_LOOK):
            wake_at = self.turn()
            if wake_at is not None:
                return wake_at
            if self._stopping or self.clock() > self._late_from + STOOD_STILL:
                break
        return -math.inf

    def _fail_by(self, error: BaseException) -> None:
        """The loop has ended by this error, which is none of an actor."""
        failure = BackgroundThreadError(reason=f"{type(error).__name__} in its loop")
        self.fail(_caused(failure, error))
        self.log.error("dispatcher.failed", because=error)

    def end(self) -> None:
        """No message is delivered any more: the supervisor, if there is one, stops all children."""
        supervisor = self._actors.get(SUPERVISOR)
        if supervisor is not None:
            supervisor.on_stop()

    def _sleep(self, wake_at: float) -> None:
        assert self.sleeper is not None, "a dispatcher on a thread sleeps in the network"
        if self._stopping:
            return
        began, since = self.clock(), self._late_from
        if began - since >= TOLD_FROM and since > -math.inf:
            self.standstill = Standstill(since, since, began, in_turn=True)
        self._sleeping = True
        try:
            if self._order.waiting:
                # A message came after the last look at the queue: its sender may not have seen that
                # this thread sleeps, and has not woken it. Deliver the message now.
                self._sleeping = False
                self._deliver(self._order.take())
                self.sleeper.wait(0.0)
                return
            self._late_from = max(since, wake_at)
            self.sleeper.wait(max(0.0, wake_at - began))
            # (Who is stopped in a wait, and continued, comes back from it with nothing once its
            # time has passed, whatever there is to be read: PEP 475.)
            woken, due = self.clock(), max(wake_at, began)
            if woken > due + STOOD_STILL:
                self.sleeper.wait(0.0)
                if woken - due >= TOLD_FROM:
                    self.standstill = Standstill(began, due, woken)
        finally:
            self._late_from = self.clock()
            self._sleeping = False


def _caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


class VirtualTime:
    """A clock that moves when told to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def jump_to(self, when: float) -> None:
        """Set the clock to this time, unless it shows a later one."""
        self.now = max(self.now, when)


def run_until(
    dispatcher: Dispatcher,
    clock: VirtualTime,
    until: float,
    *,
    on_idle: Callable[[], Iterable[float] | None] | None = None,
) -> None:
    """Turn the dispatcher in virtual time until the clock reads `until`.

    When nothing is left to do the clock jumps to the next wake time. `on_idle` is called before
    each jump (a scripted broker answers there); it returns times that must not be jumped over, or
    None after having said something, and then there is no jump.
    """
    while dispatcher.failure is None:
        wake_at = dispatcher.turn()
        if wake_at is None:
            continue
        stops: Iterable[float] | None = () if on_idle is None else on_idle()
        if stops is None:
            continue
        target = min((wake_at, until, *stops))
        if target >= until:
            clock.jump_to(until)
            return
        clock.jump_to(target)
