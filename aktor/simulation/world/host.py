"""What one consumer of a simulation runs on: its bell, its dispatcher, its end of the network."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, Final

from kafka.structs import TopicPartition

from aktor.actors.network.actor import NetworkActor
from aktor.actors.runtime.dispatcher import Bell, CooperativeActor, Dispatcher, Enveloped
from aktor.actors.sockets.wire import Net
from aktor.consumer.core.partition import Partition
from aktor.consumer.core.port import ApplicationPort, Port
from aktor.consumer.system import Host
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import SessionExtended
from aktor.events.message import Message
from aktor.events.routes import Routes
from aktor.managers.fetch.manager import FetchManager
from aktor.managers.membership.auto import AutoMembershipManager
from aktor.managers.membership.manager import GroupMembershipManager
from aktor.settings import Settings
from aktor.simulation.history import Event
from aktor.simulation.world.connections import SimulatedNet
from aktor.simulation.world.observed import AnyConsumer, Noting, observe, settings_told
from aktor.simulation.world.scheduler import Scheduler, Task
from aktor.simulation.world.surroundings import Process
from aktor.trace import Trace

__all__ = ["SimulatedHost"]

_Mail = tuple[CooperativeActor, Message | Enveloped]

#: Seconds that are lost in sums of floats, and in Kafka's timers.
ROUNDING: Final = 0.001

#: What the background says when it has an error for the user.
_DUE: Final = frozenset(
    {"fetch.refused", "fetch.stopped", "group.failed", "position.failed", "topic.refused"}
)

#: How many messages it may handle before anybody else has a turn, drawn each time.
BURSTS: Final = (1, 1, 2, 4, 8, 16)


class SimulatedHost(Host):
    """One consumer's bell, dispatcher, sockets and trace. Takes turns as its background thread."""

    def __init__(self, member: Process, number: int) -> None:
        self.member = member
        self.name = member.name if number == 1 else f"{member.name}/{number}"
        self.queued = False
        self.started = False
        self.frozen = False
        self.consumer: AnyConsumer
        self.dispatcher: SimulatedDispatcher
        self.port: ApplicationPort
        self._simulation = member.simulation
        self._scheduler: Scheduler = member.simulation.scheduler
        self._seed = f"{member.simulation.seed} {self.name}"
        self._random = random.Random(f"{self._seed} bursts")
        self._mail = _Drawn(self, random.Random(f"{self._seed} order"))
        self._nets: list[SimulatedNet] = []
        self._listening = ExitStack()
        self._wake_number = 0
        self._missed_turn = False

    def __str__(self) -> str:
        return f"the background of {self.name}"

    # -- what the consumer asks of its host

    def make_bell(self) -> Bell:
        """One whose waiter lets others take their turns."""
        return SimulatedBell(self._scheduler)

    def make_dispatcher(self, routes: Routes, port: Port, trace: Trace) -> Dispatcher:
        """With the simulation's clock, and an order of its own."""
        assert isinstance(port, ApplicationPort), "the port of another kind of consumer"
        self.port = port
        self._listening.enter_context(trace.listen(self._note))
        self.dispatcher = SimulatedDispatcher(
            self,
            routes,
            clock=self.now,
            wall=self.wall,
            order=self._mail,
            seed=random.Random(f"{self._seed} jitter").getrandbits(32),
            trace=trace,
        )
        self.dispatcher.connect("application", _Overheard(port, self))
        return self.dispatcher

    def make_net(
        self, settings: Settings, tell: Callable[[Message], None], clock: Callable[[], float]
    ) -> Net:
        """Simulated sockets."""
        net = SimulatedNet(
            self._simulation.network,
            self.member.name,
            tell,
            consumer=self.name,
            settings=settings,
            clock=clock,
        )
        self._nets.append(net)
        return net

    def make_member_id(self) -> str:
        """One that the seed decides."""
        return f"{self.name}-{random.Random(f'{self._seed} member').getrandbits(64):016x}"

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """From now on the dispatcher of this consumer takes turns."""
        if (group := self.consumer.config["group_id"]) is not None:
            self._simulation.learn(group)
        self.note("consumer.made", **settings_told(self.consumer))
        self.started = True
        self._scheduler.can_run(self)

    def start_worker(self, work: Callable[[], None], name: str) -> None:
        """Another thread of the member, in virtual time."""
        self.member.also(work)

    def on_sigterm(self, act: Callable[[], None]) -> Callable[[], None]:
        """The process of the simulation is not the member's: nothing is done."""
        return lambda: None

    def now(self) -> float:
        """The member's clock; whoever looks at it may be overtaken."""
        self._scheduler.overtake()
        return self._scheduler.now + self.member.ahead

    def wall(self) -> float:
        """The time of day, which goes on while the member's machine sleeps; whoever looks at it may
        be overtaken."""
        self._scheduler.overtake()
        return self._scheduler.now

    # -- turns

    def take_turn(self) -> None:
        """As the thread of a real consumer would: a few messages, until others have a turn."""
        if self.frozen:
            self._missed_turn = True
            return
        if not self.started or self.dispatcher.ended:
            return
        dispatcher = self.dispatcher
        for _ in range(BURSTS[int(self._random.random() * len(BURSTS))]):
            wake_at = dispatcher.turn()
            if wake_at is not None or dispatcher.failure is not None:
                break
        if dispatcher.failure is not None:
            dispatcher.stop(0.0)
        elif wake_at is None:
            self._scheduler.can_run(self)
        elif wake_at < math.inf:
            self._wake_number += 1
            number = self._wake_number
            self._scheduler.at(wake_at - self.member.ahead, lambda: self._wake(number))

    def _wake(self, number: int) -> None:
        if number == self._wake_number:
            self._scheduler.can_run(self)

    def mail_came(self) -> None:
        """One of its actors was told a message."""
        if self.started:
            self._scheduler.can_run(self)

    def freeze(self) -> None:
        """The process is paused."""
        self.frozen = True
        for net in self._nets:
            net.freeze()

    def thaw(self) -> None:
        """The process goes on after `freeze`."""
        self.frozen = False
        for net in self._nets:
            net.thaw()
        if self._missed_turn:
            self._missed_turn = False
            self._scheduler.can_run(self)

    def end(self) -> None:
        """Its process is killed: connections break, and no LeaveGroup is sent."""
        self.freeze()
        for net in self._nets:
            net.close()
        self._listening.close()

    def forget(self) -> None:
        """The simulation is over: the consumer can be freed now."""
        if "dispatcher" in vars(self):
            self.dispatcher.forget()

    def break_connections(self, node: int | None = None) -> None:
        """Its connections to this broker, or to all, are reset."""
        for net in self._nets:
            net.break_all(node)

    def swallow(self, name: str) -> None:
        """What is sent on its connections whose names begin so ("coordinator-") vanishes."""
        for net in self._nets:
            for key in net.open_connections:
                if key.startswith(name):
                    net.swallow(key)

    def swallow_what_is_dead(self) -> None:
        """What is sent on its connections to a dead address vanishes."""
        for net in self._nets:
            net.swallow_what_is_dead()

    def break_swallowed(self, node: int | None = None) -> None:
        """Connections (to this broker, or all) on which everything vanishes are reset."""
        for net in self._nets:
            net.break_swallowed(node)

    # -- looking

    @property
    def looks_after(self) -> frozenset[str]:
        """The ids under which its consumer is, or still has to leave, a group; with that under
        which its application will join again if the membership actor was restarted meanwhile."""
        manager = self.dispatcher.receivers.get("membership") if self.started else None
        if manager is None or self.dispatcher.ended:
            return frozenset()
        assert isinstance(manager, GroupMembershipManager | AutoMembershipManager)
        membership = self.port.membership
        return manager.looks_after | membership.leaving | {membership.last_member_id}

    @property
    def closed(self) -> bool:
        """Whether all is closed: its thread has ended, and no connection or question is open."""
        connected = any(net.connected for net in self._nets)
        return self.dispatcher.ended and not connected and self.port.open_questions == 0

    def adopt(self, consumer: AnyConsumer) -> None:
        """This is the consumer: see what it is asked and what it gives."""
        self.consumer = consumer
        observe(consumer, self.note, lambda: self._simulation.now, self._left)

    @property
    def group(self) -> str | None:
        """The group that the consumer wants to be in, if any."""
        engine = self.consumer._engine
        wants = engine.subscription.in_group and not engine.call.closing
        return engine.subscription.group_id if wants else None

    @property
    def subscription(self) -> frozenset[str]:
        """The topics to which its consumer subscribes, as far as it knows their names."""
        return self.consumer._engine.subscription.topics

    def is_in(self, group: str) -> bool:
        """Whether its consumer reads for this group."""
        return self.started and self.consumer.config["group_id"] == group

    @property
    def owned(self) -> Mapping[TopicPartition, Partition]:
        """What is assigned to its consumer."""
        return self.consumer._engine.delivery.partitions if self.started else {}

    @property
    def has_read_all(self) -> bool:
        """Whether its consumer, which has no group, owns all there is, and has come to the ends."""
        brokers, owned = self._simulation.brokers, self.owned
        return self.started and all(
            (owned[partition].offset or 0) >= brokers.last_record(*partition)
            if partition in owned
            else False
            for topic in self._simulation.topics
            for partition in (TopicPartition(topic, number) for number in range(topic.partitions))
        )

    @property
    def is_at_the_end(self) -> bool:
        """Whether its consumer has nothing before it in any partition that it owns."""
        brokers = self._simulation.brokers
        committed = self.started and self.consumer.config["isolation_level"] == "read_committed"
        return self.started and all(
            state.offset == brokers.end(*partition, committed=committed)
            for partition, state in self.owned.items()
        )

    def how_far(self, partition: TopicPartition) -> str:
        """Where its consumer is in a partition that it owns."""
        state = self.consumer._engine.delivery.partitions[partition]
        where = "has no position" if state.offset is None else f"is at {state.offset}"
        return f"{where}{' (paused)' if state.paused else ''}"

    @property
    def asks_for(self) -> tuple[str, Collection[str] | None] | None:
        """Group and topics that its consumer reads for it; None in place of topics: those that a
        pattern matches which the brokers know."""
        group = self.consumer.config["group_id"] if self.started else None
        if group is None:
            return None
        engine = self.consumer._engine
        subscription = engine.subscription
        assigned = {partition.topic for partition in engine.delivery.partitions}
        return group, None if subscription.regex else subscription.topics | assigned

    def note(self, event: str, **values: Any) -> None:
        """Add something to the history. Of a killed process no `finally` runs in earnest."""
        if not self.member.gone:
            self._simulation.history.note(event, self.name, **values)

    def note_status(self) -> None:
        """Note what it says of itself, if it owns anything. (That is no look of the application's:
        nobody is asked for it.)"""
        status = (
            self.consumer._make_status() if self.started and not self.dispatcher.ended else None
        )
        if status is not None and status.partitions:
            waiting = {
                f"{tp.topic}-{tp.partition}": one.waiting_for.value
                for tp, one in status.partitions.items()
            }
            self.note("status.seen", waiting=waiting, healthy=bool(status.healthy), why=status.why)

    def note_books(self) -> None:
        """Note what its consumer counts, if nothing is on its way between its actors."""
        fetch = self.dispatcher.receivers.get("fetch") if self.started else None
        if self.frozen or fetch is None or self.dispatcher.ended:
            return
        engine = self.consumer._engine
        if self._mail.waiting or self.port.events or engine.core.events.taken_over:
            return  # it may have to act on a restart, and be in its listener about that
        assert isinstance(fetch, FetchManager)
        chunks = list(self.port.chunks)
        credit, lender = engine.delivery.credit, fetch.incarnation
        arrived = sum(
            chunk.size
            for chunk in chunks
            if chunk.incarnation == lender and not credit.has_counted(chunk)
        )
        self.note(
            "books.seen",
            reserved=fetch.bytes_reserved,
            asked=fetch.bytes_asked,
            counted=fetch.bytes_buffered,
            held=arrived + credit.outstanding(lender),
            questions=self.port.open_tickets,
            misread=self._misread(fetch),
            unused=self._unused(),
        )

    def _misread(self, fetch: FetchManager) -> list[str]:
        """Partitions that its background takes for what they are not: owned, in another epoch, not
        to be fetched."""
        wanted = {
            partition: (state.fetch_epoch, not state.fetchable)
            for partition, state in self.owned.items()
        }
        differ = {partition for partition, _ in wanted.items() ^ fetch.picture.items()}
        return sorted(f"{partition.topic}-{partition.partition}" for partition in differ)

    def _unused(self) -> list[str]:
        """Connections that its network actor has forgotten and not closed."""
        network = self.dispatcher.receivers["network"]
        assert isinstance(network, NetworkActor)
        known = {link.key for link in network._links()}
        return sorted({key for net in self._nets for key in net.keys} - known)

    def believes_in_session(self, until: float) -> None:
        """The application may give out records until `until`. Note it if the group may go on
        without the member earlier: it may give the partitions to another one then. Nothing is noted
        if it has no partitions, or if the coordinator does not know the member any more."""
        if not self.owned:
            return
        group, member_id = self.consumer.config["group_id"], self.port.membership.member.member_id
        assert group is not None, "a member has a group"
        ends = self._simulation.brokers.kept_until(group, member_id)
        seconds = until - self.member.ahead - ends
        if ROUNDING < seconds < math.inf:
            self.note("session.overrated", member_id=member_id, seconds=round(seconds, 3))

    def has_told_of_restart(self, actors: Collection[str]) -> None:
        """Note a question to one of these actors that will not be answered."""
        for actor in actors:
            if self.port.waits_for(actor):
                self.note("question.forgotten", actor=actor)

    def _left(self) -> None:
        """It should be out of its group: note what the group still has of it. A static member keeps
        its place."""
        settings = self.consumer._settings
        if settings.group_id is None or settings.group_instance_id is not None:
            return
        if left_behind := self._simulation.brokers.members_of(settings.group_id, self.name):
            self.note("group.still_has", group=settings.group_id, member_ids=left_behind)

    def _note(self, event: Event) -> None:
        event.pop("t", None)
        event.pop("mono", None)  # real, as `t` is
        if "member" in event:
            event["member_id"] = event.pop("member")  # `member` is whose event it is
        self._simulation.history.add(self.name, event)
        if event["event"] in _DUE:
            assert isinstance(self.consumer, Noting), "it was adopted"
            self.consumer.error_is_due()
        if event["event"] == "records.delivered":
            self.member.is_given(sum(last - first + 1 for first, last in event["offsets"]))


class SimulatedDispatcher(Dispatcher):
    """A dispatcher without a thread."""

    #: Members are greenlets of one thread, whose stack is that of whoever has the turn.
    on_threads = False

    def __init__(self, host: SimulatedHost, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ended = False
        #: The receiver of each name.
        self.receivers: dict[str, Any] = {}
        self._host = host
        self.before_each = self._inject_faults
        self._sleeping = True  # always: without a thread it turns only when it was woken

    def _wake_for_mail(self) -> None:
        host = self._host
        if not host.queued:  # most mail comes to one that is: asked here, for speed
            host.mail_came()

    def connect(self, name: str, receiver: Any) -> None:
        """Remember the receiver."""
        self.receivers[name] = receiver
        super().connect(name, receiver)

    def _inject_faults(self, actor: CooperativeActor, message: Message | Enveloped) -> None:
        member = self._host.member
        if member.before_each is not None:
            member.before_each(actor, message)
        for crashes in member.simulation.crashes:
            crashes.before(actor, message)

    def forget(self) -> None:
        """Hold nothing any more. The finalizer of a consumer that was not closed holds this object
        until the consumer is freed; the host, a message, or an error's traceback may hold the
        consumer. So neither would ever be freed."""
        vars(self).clear()
        self.ended = True

    def stop(self, timeout: float) -> bool:
        """What the thread does when it ends."""
        if not self.ended:
            self.ended = True
            super().stop(timeout)
            self.end()
        return True


class _Overheard:
    """The application's port. What it hears of its session and of restarts the simulation hears,
    too."""

    def __init__(self, port: ApplicationPort, host: SimulatedHost) -> None:
        self._port = port
        self._host = host

    def tell(self, message: Message) -> None:
        """Take one message."""
        self._port.tell(message)
        if isinstance(message, SessionExtended):
            self._host.believes_in_session(message.until)
        elif isinstance(message, ActorsRestarted):
            self._host.has_told_of_restart(message.actors)


class SimulatedBell(Bell):
    """A bell whose waiter lets others take their turns."""

    __slots__ = ("_rung", "_scheduler", "_waiter")

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._rung = False
        self._waiter: Task | None = None

    def ring(self) -> None:
        """Wake the waiter."""
        self._rung = True
        if self._waiter is not None:
            self._waiter.wake()

    def wait(self, timeout: float) -> bool:
        """Until rung, or until `timeout` seconds of virtual time have passed."""
        task = self._scheduler.running
        if task is None:
            until = self._scheduler.now + max(0.0, timeout)
            self._scheduler.run(until, lambda: self._rung)
        elif not self._rung and timeout > 0:
            self._waiter = task
            task.wait(timeout, "its consumer")
            self._waiter = None
        elif timeout <= 0:
            task.pass_on()
        rung, self._rung = self._rung, False
        return rung


class _Drawn:
    """Any actor with mail may be next, drawn by a seed; each actor reads its mail in order."""

    def __init__(self, host: SimulatedHost, rng: random.Random) -> None:
        self._host = host
        self._random = rng
        self._inboxes: dict[CooperativeActor, deque[_Mail]] = {}
        #: The actors that have mail.
        self.waiting: list[CooperativeActor] = []

    def put(self, mail: _Mail) -> None:
        """Add to the receiver's inbox."""
        actor = mail[0]
        inbox = self._inboxes.get(actor)
        if inbox is None:
            inbox = self._inboxes[actor] = deque()
        if not inbox:
            self.waiting.append(actor)
        inbox.append(mail)

    def put_all(self, mails: Any) -> None:
        """Add each to its receiver's inbox."""
        for mail in mails:
            self.put(mail)

    def clear(self) -> None:
        """It will not be read."""
        self._inboxes.clear()
        self.waiting.clear()

    def take(self) -> _Mail:
        """Remove and return the oldest message of an actor drawn at random."""
        waiting = self.waiting
        count = len(waiting)
        place = int(self._random.random() * count) if count > 1 else 0
        actor = waiting[place]
        inbox = self._inboxes[actor]
        mail = inbox.popleft()
        if not inbox:
            waiting[place] = waiting[-1]
            waiting.pop()
        return mail
