"""kafka-python's `KafkaProducer` in a simulation: its own code, over simulated sockets.

A producer that a member's code makes is the real one: batches, sequence numbers, retries and
transactions are kafka-python's. Its sender, a thread otherwise, is a task that takes turns; its
loop waits in virtual time; its latches let others take theirs. Producers that anybody else makes
meanwhile notice nothing.
"""

from __future__ import annotations

import itertools
import random
import threading
from types import ModuleType
from typing import Any, Final

import kafka.cluster
import kafka.net.compat
import kafka.net.connection
import kafka.net.manager
import kafka.partitioner.default
import kafka.partitioner.sticky
import kafka.producer.future
import kafka.producer.kafka
import kafka.producer.transaction_manager
from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.selector import Task as Step
from kafka.net.transport import KafkaTCPTransport
from kafka.producer.record_accumulator import IncompleteProducerBatches, RecordAccumulator
from kafka.producer.sender import Sender
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest

from aktor.consumer.system import HOST
from aktor.simulation.world import virtual
from aktor.simulation.world.observed import names_of
from aktor.simulation.world.scheduler import Scheduler, Task
from aktor.simulation.world.sockets import SimulatedSelector, SimulatedSocket
from aktor.simulation.world.surroundings import Process

__all__ = ["Producers"]

#: Who waits without a limit looks again after so many seconds: its producer's sender may wake it.
LOOK_AGAIN: Final = 60.0


class Producers:
    """Owns the producers of one member: their senders and their connections."""

    def __init__(self, member: Process) -> None:
        self.member = member
        self.scheduler: Scheduler = member.simulation.scheduler
        self.random = random.Random(f"{member.simulation.seed} {member.name} producers")
        #: All of them, for as long as the simulation lives: a finalizer would close them at any
        #: moment, in anybody's turn.
        self._producers: list[KafkaProducer] = []
        self._sockets: list[SimulatedSocket] = []

    # -- what a producer asks of it

    def adopt(self, producer: KafkaProducer, configs: dict[str, Any]) -> None:
        """This new producer lives here."""
        self._producers.append(producer)
        configs["kafka_client"] = self._make_client
        if configs.get("client_id") is None:
            configs["client_id"] = f"kafka-python-producer-{len(self._producers)}"
        _really_init(producer, **configs)

    def _make_client(self, **configs: Any) -> KafkaNetClient:
        loop = _Loop(self, **configs)
        manager = _Manager(loop, **configs)
        cluster = manager.cluster
        # A set of names is in another order in each process.
        cluster.partitions_for_broker = lambda node: sorted(
            type(cluster).partitions_for_broker(cluster, node) or ()
        )
        return KafkaNetClient(net=loop, manager=manager, **configs)

    def start(self, sender: Sender) -> None:
        """Let it take turns."""
        ended = sender.simulated_end = _Latch(self.scheduler)

        def run() -> None:
            sender.run()
            ended.set()

        sender.simulated_task = self.member.also(run)

    def connect(self, host: str, selector: SimulatedSelector) -> SimulatedSocket:
        """A connection to a broker."""
        self._sockets = [socket for socket in self._sockets if socket.open]
        network, name = self.member.simulation.network, self.member.name
        socket = SimulatedSocket(network, name, host, told=selector.ring)
        self._sockets.append(socket)
        return socket

    # -- what happens to it

    def end(self) -> None:
        """Its process is killed: its connections break."""
        for socket in self._sockets:
            socket.close()

    def forget(self) -> None:
        """The simulation is over: there is nothing left to close."""
        for producer in self._producers:
            producer._closed = True
            producer._unregister_cleanup()
        self._producers.clear()

    @property
    def connected(self) -> bool:
        """Whether there is any connection."""
        return any(socket.open for socket in self._sockets)

    def break_connections(self, node: int | None = None) -> None:
        """Connections to this broker, or to all, are reset."""
        for socket in self._sockets:
            if node is None or socket.node == node:
                socket.reset()

    def swallow(self, node: int) -> None:
        """What is sent on the connections to this broker that are there vanishes."""
        for socket in self._sockets:
            if socket.node == node:
                socket.swallow()


class _Loop(NetworkSelector):  # type: ignore[misc]
    """A producer's loop: it waits in virtual time, and is woken by its sockets."""

    def __init__(self, producers: Producers, **configs: Any) -> None:
        self._producers = producers
        self._bell = SimulatedSelector(producers.scheduler)
        self._numbers = itertools.count()
        super().__init__(**{**configs, "selector": lambda: self._bell})
        self._bell.close()
        for end in (self._wakeup_r, self._wakeup_w):
            end.close()

    def connect(self, host: str) -> SimulatedSocket:
        """A socket that will be connected to this host, or have an `error`."""
        return self._producers.connect(host, self._bell)

    def wakeup(self) -> None:
        self._bell.ring()

    def call_at(self, when: float, task: Any) -> Any:
        return super().call_at(when, self._numbered(task))

    def call_later(self, delay: float, task: Any) -> Any:
        return super().call_later(delay, self._numbered(task))

    def call_soon(self, task: Any) -> Any:
        return super().call_soon(self._numbered(task))

    def _numbered(self, step: Any) -> Step:
        return step if isinstance(step, Step) else _Numbered(step, next(self._numbers))


class _Numbered(Step):  # type: ignore[misc]
    """A step of a loop. Of two that are due at the same moment the older one is first."""

    def __init__(self, coro: Any, number: int) -> None:
        super().__init__(coro)
        self.number = number

    def __lt__(self, other: Any) -> bool:
        return bool(self.number < other.number)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """A producer's connections, over simulated sockets. Nobody listens in there: no TLS."""

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        # Made of sets, whose order is another one in each process.
        if isinstance(request, AddPartitionsToTxnRequest):
            request.v3_and_below_topics.sort(key=lambda topic: topic.name)
            for topic in request.v3_and_below_topics:
                topic.partitions.sort()
        elif isinstance(request, MetadataRequest):
            request.topics = request.topics and sorted(request.topics, key=lambda topic: topic.name)
        return super().send(request, *args, **kwargs)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        socket = self._net.connect(node.host)
        try:
            await self._net.wait_write(socket, timeout_at=timeout_at)
        except KafkaTimeoutError:
            socket.close()
            raise KafkaConnectionError(f"{socket}: no answer in time") from None
        if socket.error is not None:
            raise KafkaConnectionError(str(socket.error))
        transport = KafkaTCPTransport(self._net, socket, host=node.host)
        await transport.handshake()
        return transport


class _Latch:
    """A `threading.Event` whose waiter lets others take their turns."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for task in self._waiters:
            task.wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        task, clock = self._scheduler.running, self._scheduler
        until = None if timeout is None else clock.now + timeout
        while not self._set and task is not None:
            left = LOOK_AGAIN if until is None else until - clock.now
            if left <= 0:
                break
            self._waiters.append(task)
            task.wait(left, "its producer")
            self._waiters.remove(task)
        return self._set


# -- functions of kafka-python that are replaced while a simulation lives. Code that runs in no
#    member of the simulation still gets kafka-python's own behaviour.


def _here() -> Producers | None:
    """The producers of the member whose code is running; None outside of a member."""
    producers: Producers | None = getattr(HOST.get(), "producers", None)
    return producers


_really_init: Final = KafkaProducer.__init__


def _init(producer: KafkaProducer, **configs: Any) -> None:
    here = _here()
    if here is None:
        _really_init(producer, **configs)
    else:
        here.adopt(producer, configs)


def _start(sender: Sender) -> None:
    here = _here()
    if here is None:
        threading.Thread.start(sender)
    else:
        here.start(sender)


def _is_alive(sender: Sender) -> bool:
    ended: _Latch | None = getattr(sender, "simulated_end", None)
    return threading.Thread.is_alive(sender) if ended is None else not ended.is_set()


def _join(sender: Sender, timeout: float | None = None) -> None:
    ended: _Latch | None = getattr(sender, "simulated_end", None)
    here = _here()
    if ended is None:
        threading.Thread.join(sender, timeout)
    elif here is not None and here.scheduler.running is not sender.simulated_task:
        ended.wait(timeout)  # who closes it in a callback does not wait for itself


_really_send_offsets: Final = KafkaProducer.send_offsets_to_transaction


def _send_offsets(producer: KafkaProducer, offsets: Any, *args: Any, **kwargs: Any) -> None:
    here = _here()
    if here is not None:  # as `consumer.commit(offsets)`: what it was given is finished
        here.member.note("user.commits", partitions=names_of(offsets))
    _really_send_offsets(producer, offsets, *args, **kwargs)


_really_append: Final = RecordAccumulator.append


def _append(
    self: RecordAccumulator, tp: Any, timestamp_ms: int | None, *args: Any, **kw: Any
) -> Any:
    here = _here()
    if timestamp_ms is None and here is not None:  # else it has put the real clock aside
        timestamp_ms = int(here.scheduler.now * 1000)
    return _really_append(self, tp, timestamp_ms, *args, **kw)


_really_all: Final = IncompleteProducerBatches.all


def _all(self: IncompleteProducerBatches) -> list[Any]:
    found: list[Any] = _really_all(self)
    return sorted(found, key=lambda batch: (batch.topic_partition, batch.created))


class _Threading:
    """The module `threading`, where a member's code waits by a latch of the simulation."""

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Event(self) -> Any:
        here = _here()
        return threading.Event() if here is None else _Latch(here.scheduler)


class _Dice:
    """The module `random`, where a member's code draws what the seed decides."""

    def __getattr__(self, name: str) -> Any:
        here = _here()
        return getattr(random if here is None else here.random, name)


_WAIT: Final[tuple[ModuleType, ...]] = (
    kafka.producer.kafka,
    kafka.producer.future,
    kafka.producer.transaction_manager,
)
_DRAW: Final[tuple[ModuleType, ...]] = (
    kafka.cluster,
    kafka.net.compat,
    kafka.net.connection,
    kafka.net.manager,
    kafka.partitioner.default,
    kafka.partitioner.sticky,
)

virtual.replace_too(KafkaProducer, "__init__", _init)
virtual.replace_too(KafkaProducer, "send_offsets_to_transaction", _send_offsets)
virtual.replace_too(IncompleteProducerBatches, "all", _all)
virtual.replace_too(RecordAccumulator, "append", _append)
virtual.replace_too(Sender, "start", _start)
virtual.replace_too(Sender, "is_alive", _is_alive)
virtual.replace_too(Sender, "join", _join)
for _module in _WAIT:
    virtual.replace_too(_module, "threading", _Threading())
for _module in _DRAW:
    virtual.replace_too(_module, "random", _Dice())
