"""The crash drill: a group goes through all that can happen to it, and an actor crashes.

Three members read a topic. One of them, alice, is asked everything, while members come and go and
the brokers fail; one of her actors crashes over the first (and second) message of a type. From then
on she does nothing but read, the cluster is well, and it is measured how long it takes until all
partitions flow again, she is given records, and her commit succeeds. Then she closes, the others
take over, everything is read, and every promise is checked.

    drill(Point("fetch", Tick), times=2).recovery
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.structs import TopicPartition

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.broker.codes import Code
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.consumer.facade import KafkaConsumer
from aktor.errors import ActorCrashedError, ConsumerClosedError
from aktor.events.lifecycle import ActorsRestarted, Tick
from aktor.events.metadata import NameTopics
from aktor.events.network import ReportBootstrap, SendRequests
from aktor.events.positions import PositionsDiverged, TruncationFound
from aktor.simulation.errors import SimulationError
from aktor.simulation.simulation import Simulation
from aktor.simulation.world.cluster import SETTINGS as CLUSTER
from aktor.simulation.world.crashes import HEARS_OF, Crash, Crashes, Point
from aktor.simulation.world.member import Member

__all__ = ["BROKERS", "CONSUMER_UNREACHED", "UNREACHED", "Drill", "Outcome", "Phase", "drill"]

_NO_UNCLEAN_ELECTION: Final = "no log is truncated here; tests/scenarios/test_crashes.py has that"

#: Points that no drill can reach, with the reason.
UNREACHED: Final[dict[Point, str]] = {
    Point("network", ReportBootstrap): "who has read knows that a broker was reached",
    Point("positions", PositionsDiverged): _NO_UNCLEAN_ELECTION,
    Point("commits", TruncationFound): _NO_UNCLEAN_ELECTION,
    Point("metadata", NameTopics): "only a member of a KIP-848 group asks for names",
}

#: The same where the consumer protocol is spoken.
CONSUMER_UNREACHED: Final[dict[Point, str]] = {
    point: why for point, why in UNREACHED.items() if point.message is not NameTopics
}

PARTITIONS: Final = 6

#: Seconds between two records in each partition.
EVERY: Final = 0.25

#: The settings of all members; short times, so that a drill is short.
SETTINGS: Final[dict[str, Any]] = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 300,
    "heartbeat_interval_ms": 300,
    "session_timeout_ms": 2000,
    "max_poll_interval_ms": 10_000,
    "request_timeout_ms": 3000,
    "default_api_timeout_ms": 3000,
    "metadata_max_age_ms": 2000,
    "max_poll_records": 50,
}

#: The same of members that speak the consumer protocol, and what their brokers decide in turn.
CONSUMER_SETTINGS: Final[dict[str, Any]] = {
    **{
        name: value
        for name, value in SETTINGS.items()
        if name not in ("heartbeat_interval_ms", "session_timeout_ms")
    },
    "group_protocol": "consumer",
}
BROKERS: Final = replace(
    CLUSTER,
    groups=replace(CLUSTER.groups, consumer_heartbeat_interval=0.2, consumer_session_timeout=1.8),
)

#: Seconds within which all must be well again, or taken over by the others.
RECOVERED_WITHIN: Final = 5.0

#: How long close may take.
CLOSE_MS: Final = 3000

#: So often the script is played before a point is taken to be out of reach.
ROUNDS: Final = 3


class Phase(Enum):
    """When an actor may crash."""

    #: Before alice is given her first record.
    JOINING = "joining"
    #: From then on, until she closes.
    READING = "reading"
    CLOSING = "closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a drill; times in seconds.

    happened: how often the actor fell over, in this phase.
    recovery: from the last crash until all was well again; with an `escalation`, until it was
        raised.
    closing: how long closing took.
    taking_over: from then until the others were given records of all partitions.
    escalation: the error that told the application to make a new consumer.
    """

    phase: Phase
    happened: int
    recovery: float
    closing: float
    taking_over: float
    escalation: ActorCrashedError | None = None

    def __str__(self) -> str:
        if not self.happened:
            return "not reached"
        if self.phase is Phase.CLOSING:
            return f"closed after {self.closing:.2f} s"
        kind = "recovered" if self.escalation is None else "escalated"
        return f"{kind} after {self.recovery:.2f} s"

    @property
    def good(self) -> bool:
        """Whether all was well within `RECOVERED_WITHIN`, and closing took no longer than asked."""
        slowest = max(self.recovery, self.taking_over)
        return slowest <= RECOVERED_WITHIN and self.closing <= CLOSE_MS / 1000


def drill(
    point: Point | None,
    times: int = 1,
    *,
    seed: int = 0,
    phase: Phase = Phase.READING,
    late: bool = False,
    **settings: Any,
) -> Outcome:
    """Let it happen.

    late: the actor crashes when it has handled the message, not before.
    settings: of all three consumers; `group_protocol="consumer"` may be among them.

    Raises SimulationError if the group does not recover, or breaks a promise.
    """
    with Simulation(seed, settings=BROKERS) as sim:
        played = Drill(sim, settings)
        if point is not None:
            played.arm(point, times, phase=phase, late=late)
        return played.run()


class _EnoughError(Exception):
    """What was to happen has happened: no more of the script."""


class Drill:
    """Owns the group, the script, and what is measured."""

    def __init__(
        self,
        sim: Simulation,
        settings: Mapping[str, Any] = MappingProxyType({}),
        *,
        rounds: int = ROUNDS,
    ) -> None:
        self.sim = sim
        self._rounds = rounds
        self.topic = sim.topic("orders", PARTITIONS, records=30)
        sim.groups.append("g")
        self.phase = Phase.JOINING
        #: The points that alice's actors came by.
        self.seen: dict[Phase, set[Point]] = {phase: set() for phase in Phase}
        self._speaks_consumer = settings.get("group_protocol") == "consumer"
        self._settings = {**(CONSUMER_SETTINGS if self._speaks_consumer else SETTINGS), **settings}
        #: How often alice has subscribed: with the consumer protocol by a pattern and by names, in
        #: turns.
        self._subscribed = 0
        self._is_subscribed = False
        #: How many topics have appeared that have no writer.
        self._topics = 0
        self._crashes: Crashes | None = None
        self._times = 0
        self._armed_in = Phase.READING
        self._primed = 0
        #: Connections break just when a request of this kind is to be sent.
        self._breaks_at: type | None = None
        self._crashed_at = 0.0
        self._script_over = False
        self._escalation: ActorCrashedError | None = None
        self._closing = 0.0
        #: What must be given out for all to be well: partition and the first offset that counts.
        self._awaited: dict[int, int] = {}
        self._committed = False
        #: What alice owns, as far as her listener was told.
        self._owned: set[TopicPartition] = set()
        self._leaving: set[Member] = set()
        self._writing = True
        self.bob = sim.member(self._read_on, name="bob")
        self.alice = sim.member(self._go_through_everything, name="alice")
        self.alice.before_each = self._before
        self._consumer: KafkaConsumer

    # -- what happens, from outside

    def arm(self, point: Point, times: int = 1, *, phase: Phase, late: bool = False) -> None:
        """Crash alice's actor at so many messages."""
        self._times, self._armed_in = times, phase
        self._crashes = Crashes(*point, times, late=late, on_crash=self._on_crash)

    def run(self) -> Outcome:
        """Play it; see `drill`."""
        sim = self.sim
        self._write()
        sim.run(until=lambda: self._script_over or self._has_crashed, at_most=120.0)
        if not self._has_crashed:
            self._crashed_at = sim.now
        recovery = self._recover()
        closing = self._close_alice()
        taking_over = self._take_over()
        self._writing = False
        sim.progress(at_most=30.0).check()
        return Outcome(
            phase=self._armed_in,
            happened=self._crashes.happened if self._crashes is not None else 0,
            recovery=recovery,
            closing=closing,
            taking_over=taking_over,
            escalation=self._escalation,
        )

    @property
    def _has_crashed(self) -> bool:
        """As often as was asked for, or too often for the supervisor."""
        spent = self._crashes is not None and not self._crashes.left
        return spent or self._escalation is not None

    def _on_crash(self) -> None:
        self._crashed_at = self.sim.now

    def _recover(self) -> float:
        self._await_everything()
        self.sim.heal()
        self.sim.run(
            until=lambda: self._escalation is not None or (not self._awaited and self._committed),
            at_most=60.0,
        )
        return self.sim.now - self._crashed_at

    def _await_everything(self) -> None:
        brokers = self.sim.brokers
        self._awaited = {
            partition: brokers.end(self.topic, partition) for partition in range(PARTITIONS)
        }
        self._committed = False

    def _close_alice(self) -> float:
        self._leaving.add(self.alice)
        self.sim.run(until=lambda: self.alice.task.over, at_most=60.0)
        for host in self.alice.hosts:
            if not host.closed:
                raise SimulationError(f"{host} is closed, and something of it is still open")
        if self._owned:
            names = ", ".join(
                f"{partition.topic}-{partition.partition}" for partition in sorted(self._owned)
            )
            raise SimulationError(f"alice's listener was never told that {names} are gone")
        return self._closing

    def _take_over(self) -> float:
        began = self.sim.now
        self._await_everything()
        self.sim.run(until=lambda: not self._awaited, at_most=60.0)
        return self.sim.now - began

    def _write(self) -> None:
        if self._writing:
            for partition in range(PARTITIONS):
                self.topic.write(1, partition=partition)
            self.sim.scheduler.after(EVERY, self._write)

    def _before(self, actor: CooperativeActor, message: object) -> None:
        """Called before each message of alice's actors."""
        point = Point(actor.name, type(message))
        self.seen[self.phase].add(point)
        if self._breaks_at is not None and _sends(message, self._breaks_at):
            self._breaks_at = None
            self._break_connections()
        if self._crashes is not None and self.phase is self._armed_in:
            if self._crashes.on is ActorsRestarted:
                self._prime(self._crashes, point)
            self._crashes.before(actor, message)

    def _prime(self, crashes: Crashes, point: Point) -> None:
        """An actor gets ActorsRestarted only after another actor has crashed: crash that one
        first."""
        if point != (HEARS_OF[crashes.actor], Tick):
            return
        if self._primed == crashes.happened < self._times and self._is_assigned:
            self._primed += 1
            raise Crash(f"{point[0]}, so that {crashes.actor} hears of it")

    @property
    def _is_assigned(self) -> bool:
        """Whether alice has partitions, and is not closed."""
        try:
            return bool(self._consumer.assignment())
        except ConsumerClosedError:
            return False

    # -- what members do

    def _begin(self) -> KafkaConsumer:
        sim = self.sim
        consumer = KafkaConsumer(
            bootstrap_servers=sim.bootstrap_servers,
            client_id=sim.me.name,
            bootstrap_timeout_ms=0,  # its errors come from polls, which hear them
            **self._settings,
        )
        self._subscribe(consumer)
        return consumer

    def _subscribe(self, consumer: KafkaConsumer) -> None:
        if self.sim.me is not self.alice:
            consumer.subscribe([str(self.topic)], listener=_Listener(set()))
            return
        listener = _Listener(self._owned)
        by_pattern = self._speaks_consumer and self._subscribed % 2 == 0
        if by_pattern:
            pattern = SubscriptionPattern(f"{self.topic}.*")
            consumer.subscribe(pattern=pattern, listener=listener)
        else:
            consumer.subscribe([str(self.topic)], listener=listener)
        self._subscribed += 1
        self._is_subscribed = True

    def _unsubscribe(self) -> None:
        self._is_subscribed = False
        self._consumer.unsubscribe()

    def _read_on(self) -> None:
        """Bob and carol: the ordinary loop."""
        me, consumer = self.sim.me, self._begin()
        while me not in self._leaving:
            try:
                self._took(consumer.poll(timeout_ms=100))
            except KafkaError as error:
                self._note(error)
        consumer.close(timeout_ms=CLOSE_MS)

    def _took(self, records: dict[Any, list[Any]]) -> bool:
        for partition, some in records.items():
            if some[-1].offset >= self._awaited.get(partition.partition, math.inf):
                del self._awaited[partition.partition]
        if records and self.phase is Phase.JOINING and self.sim.me is self.alice:
            self.phase = Phase.READING
        return bool(records)

    def _note(self, error: KafkaError) -> None:
        self.sim.history.note("user.hears", self.sim.me.name, error=repr(error))
        self.sim.sleep(0.05)

    def _go_through_everything(self) -> None:
        """Alice."""
        try:
            self._consumer = self._begin()
            with contextlib.suppress(_EnoughError):
                self._play()
            self._script_over = True
            self._read_to_the_end()
        except ActorCrashedError as error:
            self._escalation = error
        self.phase, began = Phase.CLOSING, self.sim.now
        self._consumer.close(timeout_ms=CLOSE_MS)
        self._closing = self.sim.now - began

    def _read_to_the_end(self) -> None:
        consumer = self._consumer
        while self.sim.me not in self._leaving:
            try:
                if not self._is_subscribed:
                    self._subscribe(consumer)
                consumer.resume(*sorted(consumer.paused()))
                if self._took(consumer.poll(timeout_ms=100)):
                    consumer.commit()
                    self._committed = True
            except ActorCrashedError:
                raise
            except KafkaError as error:
                self._note(error)

    # -- the script

    def _attempt(self, call: Callable[[], Any]) -> None:
        """A call may end in an error of Kafka's; any other one is a bug."""
        try:
            call()
        except ActorCrashedError:
            raise
        except KafkaError as error:
            self._note(error)
        if self._has_crashed:
            raise _EnoughError

    def _poll(self, seconds: float) -> None:
        until = self.sim.now + seconds
        while self.sim.now < until:
            before = self.sim.now
            self._attempt(lambda: self._took(self._consumer.poll(timeout_ms=100)))
            if self.sim.now == before:
                self.sim.sleep(0.01)

    def _play(self) -> None:
        while self.phase is Phase.JOINING:
            self._poll(0.1)
        if self._armed_in is Phase.READING:
            for _ in range(self._rounds):
                self._play_round()

    def _play_round(self) -> None:
        self._poll(0.4)
        while not self._consumer.assignment():
            self._poll(0.1)
        self._ask_everything()
        if self._speaks_consumer:
            self._let_a_topic_appear()
        self._let_carol_come_and_go()
        self._fail_brokers()
        self._lose_connections()
        self._stand_still()
        self._ask_for_a_position_in_vain()
        self._refuse()
        self._send_back_to_bootstrap()
        self._doubt_leaders()
        self._look_at_what_is_paused()
        self._attempt(self._unsubscribe)
        self._attempt(lambda: self._subscribe(self._consumer))

    def _mine(self) -> list[TopicPartition]:
        return sorted(self._consumer.assignment())

    def _ask_everything(self) -> None:
        consumer, first = self._consumer, TopicPartition(str(self.topic), 0)
        for call in (
            consumer.commit,
            consumer.commit_async,
            lambda: consumer.committed(first),
            lambda: consumer.end_offsets([first]),
            lambda: consumer.offsets_for_times({first: 0}),
            consumer.topics,
            consumer.status,
            lambda: [consumer.seek(partition, 0) for partition in self._mine()[:1]],
            lambda: [consumer.position(partition) for partition in self._mine()[:1]],
            lambda: consumer.pause(*self._mine()),
            lambda: self._poll(0.2),
            lambda: consumer.resume(*sorted(consumer.paused())),
            lambda: consumer.seek_to_beginning(*self._mine()),
            lambda: self._poll(0.3),
        ):
            self._attempt(call)

    def _let_a_topic_appear(self) -> None:
        """It matches the pattern, and its partitions are assigned before anybody knows its name."""
        self._topics += 1
        self.sim.brokers.create_topic(f"{self.topic}.{self._topics}", 1)
        self._poll(0.6)

    def _let_carol_come_and_go(self) -> None:
        carol = self.sim.member(self._read_on)
        self._poll(1.0)
        self._leaving.add(carol)
        self._poll(0.6)

    def _fail_brokers(self) -> None:
        brokers = self.sim.brokers
        for partition in range(PARTITIONS):
            brokers.move_leader(self.topic, partition)
        self._poll(0.3)
        brokers.move_coordinator("g")
        self._poll(0.5)
        node = brokers.coordinator("g")
        brokers.crash(node)  # what it leads it goes on leading, as far as anybody knows
        self._attempt(lambda: self._consumer.commit(timeout_ms=300))
        self._poll(0.5)
        brokers.restart(node)
        self._poll(0.7)  # until everybody knows the coordinator again: what comes next needs it

    def _lose_connections(self) -> None:
        """Nothing arrives for a while; everybody asks something; and then all breaks off."""
        sim, consumer, name = self.sim, self._consumer, self.alice.name
        first = TopicPartition(str(self.topic), 0)
        for node in sim.brokers.model.nodes:
            sim.network.cut_link(name, node)
        for call in (
            lambda: consumer.commit(timeout_ms=50),
            lambda: consumer.committed(first, timeout_ms=50),
            lambda: consumer.end_offsets([first], timeout_ms=50),
        ):
            self._attempt(call)
        self._poll(0.4)  # longer than between two heartbeats
        self._break_connections()
        self._poll(0.1)
        for node in sim.brokers.model.nodes:
            sim.network.mend_link(name, node)
        self._poll(0.5)
        self._breaks_at = FindCoordinatorRequest
        sim.brokers.move_coordinator("g")
        self._poll(0.5)
        self._breaks_at = MetadataRequest
        for partition in range(PARTITIONS):
            sim.brokers.move_leader(self.topic, partition)
        self._poll(0.5)

    def _break_connections(self, node: int | None = None) -> None:
        for host in self.alice.hosts:
            host.break_connections(node)

    def _stand_still(self) -> None:
        """Suspend alice for longer than a session."""
        self.alice.freeze()
        self.sim.scheduler.after(2.3, self.alice.thaw)
        self.sim.sleep(0.01)
        self._poll(0.5)

    def _ask_for_a_position_in_vain(self) -> None:
        """Alice joins anew, and her coordinator does not say yet what is committed."""
        brokers, consumer = self.sim.brokers, self._consumer
        loading = Code.COORDINATOR_LOAD_IN_PROGRESS
        brokers.refuse("OffsetFetch", loading, client_id=self.alice.name, times=1000)
        self._attempt(self._unsubscribe)
        self._attempt(lambda: self._subscribe(consumer))
        while not consumer.assignment():
            self._poll(0.1)
        self._attempt(lambda: [consumer.position(partition) for partition in self._mine()[:1]])
        brokers.refuse_no_more()
        self._poll(0.5)

    def _refuse(self) -> None:
        brokers, name = self.sim.brokers, self.alice.name
        brokers.refuse("FindCoordinator", Code.GROUP_AUTHORIZATION_FAILED, client_id=name)
        brokers.move_coordinator("g")
        self._poll(0.5)
        brokers.refuse("OffsetFetch", Code.GROUP_AUTHORIZATION_FAILED, client_id=name, times=3)
        carol = self.sim.member(self._read_on)
        self._poll(0.8)
        self._leaving.add(carol)

    def _doubt_leaders(self) -> None:
        """A leader does not know the epoch that the metadata told."""
        first = TopicPartition(str(self.topic), 0)
        self.sim.brokers.refuse("ListOffsets", Code.UNKNOWN_LEADER_EPOCH, client_id=self.alice.name)
        self._attempt(lambda: self._consumer.end_offsets([first]))

    def _look_at_what_is_paused(self) -> None:
        """Whose end no Fetch tells, so that its leader is asked for it."""
        consumer = self._consumer
        for _ in range(3):
            self._attempt(lambda: consumer.pause(*self._mine()))
            self._poll(1.1)
            self._attempt(consumer.status)
        self._attempt(lambda: consumer.resume(*sorted(consumer.paused())))
        self._poll(0.3)

    def _send_back_to_bootstrap(self) -> None:
        """A broker answers alice with REBOOTSTRAP_REQUIRED (KIP-1102)."""
        self.sim.brokers.refuse("Metadata", Code.REBOOTSTRAP_REQUIRED, client_id=self.alice.name)
        self._attempt(self._consumer.topics)
        self._poll(0.5)


def _sends(message: object, kind: type) -> bool:
    """Whether the network is told to send a request of this kind."""
    return isinstance(message, SendRequests) and any(
        isinstance(request.body, kind) for request in message.requests
    )


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Keeps account of what is owned."""

    def __init__(self, owned: set[TopicPartition]) -> None:
        self._owned = owned

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._owned |= assigned

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._owned -= revoked
