"""A world of real consumers in virtual time, on one thread.

    world = World(seed=7)
    world.cluster.create_topic("orders", partitions=4)
    consumer = world.consumer("orders", group_id="g", auto_offset_reset="earliest")
    consumer.poll(timeout_ms=1000)        # blocks in virtual time only

Everything of the consumers is real but the sockets (`net`), the clock, and the thread: whoever
waits for the bell turns all dispatchers of the world, in an order drawn from the seed, until it is
rung or the time has passed. A look at the clock lets the background overtake by a few messages, as
a thread of its own might. What a scenario leaves behind is checked by `World.check`.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import math
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from aktor.actors.runtime.dispatcher import Bell, CooperativeActor, Dispatcher, Seeded, VirtualTime
from aktor.actors.sockets.wire import Net
from aktor.consumer.core.port import ApplicationPort, Port
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.system import HOST, Host
from aktor.events.message import Message
from aktor.events.routes import Routes
from aktor.settings import Settings
from aktor.trace import Trace
from tests.scenarios.cluster import Cluster
from tests.scenarios.net import ScriptedNet

#: More turns than this without the clock moving are a spin.
SPIN = 50_000

#: More virtual seconds than this in one scenario are a hang.
LONGEST = 3600.0

Event = dict[str, Any]


def seeds(count: int) -> range:
    """So many seeds; `AKTOR_SEEDS=20` in the environment takes twenty times as many."""
    return range(count * int(os.environ.get("AKTOR_SEEDS", "1")))


class World(VirtualTime):
    """Owns the time, the cluster, and the consumers' dispatchers; is itself the clock."""

    def __init__(self, seed: int = 0, *, brokers: int = 3) -> None:
        super().__init__(1000.0)
        self.seed = seed
        self.random = random.Random(seed)
        self.cluster = Cluster(self, brokers=brokers)
        self.hosts: list[WorldHost] = []
        #: What all consumers told, in order, each event with its consumer's name as `whose`.
        self.told: list[Event] = []
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._turning = False
        #: Nobody's background overtakes; one that is waited for does.
        self.stand_still = False
        self._still = 0
        self._until = self.now + LONGEST

    # -- consumers

    def consumer(self, *topics: str, **configs: Any) -> KafkaConsumer:
        """A real consumer that lives here; `configs` as for KafkaConsumer. Unless they say so, its
        constructor does not wait: a scenario sets the scene after it."""
        host = WorldHost(self, len(self.hosts))
        self.hosts.append(host)

        usual: dict[str, Any] = {
            "bootstrap_servers": "b1:9092,b2:9092",
            "client_id": host.name,
            "bootstrap_timeout_ms": 0,
        }
        configs = usual | configs
        here = HOST.set(host)
        try:
            host.consumer = KafkaConsumer(*topics, **configs)
        finally:
            HOST.reset(here)
        return host.consumer

    def host(self, consumer: KafkaConsumer) -> WorldHost:
        """What this consumer runs on."""
        return next(one for one in self.hosts if one.consumer is consumer)

    def kill(self, consumer: KafkaConsumer) -> None:
        """The process is gone: its connections break, nobody says good-bye."""
        self.host(consumer).freeze()
        self.host(consumer).cut()

    def freeze(self, consumer: KafkaConsumer) -> None:
        """The process stands still (swapped out, paused with its virtual machine)."""
        self.host(consumer).freeze()

    def thaw(self, consumer: KafkaConsumer) -> None:
        """It goes on as if nothing had been."""
        self.host(consumer).frozen = False

    # -- time

    @property
    def is_turning(self) -> bool:
        """Whether the background runs."""
        return self._turning

    def __call__(self) -> float:
        if not (self._turning or self.stand_still) and self.random.random() < 0.25:
            self._overtake()
        return self.now

    def after(self, delay: float, act: Callable[[], object]) -> None:
        """Call `act` when `delay` seconds have passed; what it raises ends the wait under way."""
        heapq.heappush(self._agenda, (self.now + delay, next(self._numbers), act))

    def sleep(self, seconds: float) -> None:
        """The application does something else for so long; the background goes on."""
        self.turn(seconds, lambda: False)

    def trickle(self, topic: str, batches: int, *, over: float) -> None:
        """Produce so many small batches into partitions drawn at random, over these seconds."""
        for _ in range(batches):
            partition = self.random.choice(list(self.cluster.topics[topic]))
            self.after(
                self.random.uniform(0.0, over), functools.partial(self._produce, topic, partition)
            )

    def _produce(self, topic: str, partition: int) -> None:
        end = self.cluster.log(topic, partition).end
        values = [f"{partition}:{end + i}".encode() for i in range(self.random.randint(1, 8))]
        self.cluster.produce(topic, partition, *values)

    def turn(self, timeout: float, done: Callable[[], bool]) -> bool:
        """Turn everything until `done`, or until `timeout` seconds have passed (False)."""
        until = self.now + max(0.0, timeout)
        self._stir("somebody waits for no time, again and again")
        before, self._turning = self._turning, True
        try:
            while True:
                if done():
                    return True
                wake_at = self._turn_one()
                if wake_at is None:
                    continue
                next_at = self._agenda[0][0] if self._agenda else math.inf
                target = min(wake_at, next_at)
                if target > until or (target == until == self.now and next_at > until):
                    self._move_to(until)
                    return False
                self._move_to(target)
                self._act()
        finally:
            self._turning = before

    def _turn_one(self) -> float | None:
        """One turn of somebody who has something to do, else the earliest wake time."""
        hosts = [one for one in self.hosts if one.running]
        if len(hosts) > 1:
            self.random.shuffle(hosts)
        wake_at = math.inf
        for host in hosts:
            idle_until = host.turn()
            if idle_until is None:
                self._stir("somebody never rests")
                return None
            wake_at = min(wake_at, idle_until)
        return wake_at

    def _stir(self, who: str) -> None:
        self._still += 1
        assert self._still < SPIN, f"the clock stands still at {self.now}: {who}"

    def _move_to(self, now: float) -> None:
        if now > self.now:
            self.now = now
            self._still = 0
            assert now < self._until, "the scenario does not end"

    def _act(self) -> None:
        while self._agenda and self._agenda[0][0] <= self.now:
            _, _, act = heapq.heappop(self._agenda)
            act()

    def _overtake(self) -> None:
        self._turning = True
        try:
            for _ in range(self.random.randrange(12)):
                if self._turn_one() is not None:
                    return
        finally:
            self._turning = False

    # -- the end

    def close(self) -> None:
        """Close every consumer that is still there."""
        for host in self.hosts:
            if host.running:
                host.consumer.close()

    def check(self) -> None:
        """No question is open, nobody was told what they do not know, no chunk went astray."""
        for host in self.hosts:
            if not host.frozen:
                assert host.port.open_questions == 0, f"open questions of {host.consumer}"
            unknown = [
                one for one in host.named("message.dropped") if one.get("because") == "unknown"
            ]
            assert not unknown, unknown
            gaps = [one for one in host.named("chunk.dropped") if one["level"] == "error"]
            assert not gaps, gaps

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            self.check()
        for host in self.hosts:
            host.end()
            host.dispatcher.forget()


class WorldHost(Host):
    """What one consumer of the world runs on: its bell, dispatcher, sockets and trace."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.consumer: KafkaConsumer
        self.dispatcher: WorldDispatcher
        self.port: ApplicationPort
        self.frozen = False
        self.started = False
        #: It takes no turn until then, unless it is woken.
        self.asleep_until = -math.inf
        #: The consumer's trace; "at" is the virtual time.
        self.events: list[Event] = []
        #: Faults: called with (actor, message) before an actor gets a message.
        self.before_each: Callable[[CooperativeActor, object], None] | None = None
        self._nets: list[ScriptedNet] = []
        self._listening = contextlib.ExitStack()

    @property
    def name(self) -> str:
        """Also its client id, unless its settings say otherwise."""
        return f"c{self.number}"

    def tell(self, event: str, **values: Any) -> None:
        """Something that its user saw."""
        self.world.told.append({"event": event, "at": self.world.now, "whose": self.name, **values})

    # -- what the consumer asks of its host

    def make_bell(self) -> Bell:
        """One that turns the world."""
        return WorldBell(self.world)

    def make_dispatcher(self, routes: Routes, port: Port, trace: Trace) -> Dispatcher:
        """With the world's clock and an order of its own."""
        assert isinstance(port, ApplicationPort), "the port of another kind of consumer"
        self.port = port
        self._listening.enter_context(trace.listen(self._note))
        seed = self.world.seed * 1000 + self.number
        self.dispatcher = WorldDispatcher(
            self,
            routes,
            clock=self.world,
            wall=lambda: self.world.now,
            order=Seeded(seed),
            seed=seed,
            trace=trace,
        )
        self.dispatcher.connect("application", port)
        return self.dispatcher

    def make_net(
        self, settings: Settings, tell: Callable[[Message], None], clock: Callable[[], float]
    ) -> Net:
        """Scripted sockets."""
        net = ScriptedNet(self.world, settings.client_id, tell)
        self._nets.append(net)
        return net

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """From now on the world turns it."""
        self.started = True

    # -- turning

    @property
    def running(self) -> bool:
        """Whether the background has something to live for."""
        return self.started and not self.frozen and not self.dispatcher.ended

    def turn(self) -> float | None:
        """As the thread of a real consumer would: what is said without a wake lets it sleep."""
        if self.world.now < self.asleep_until:
            return self.asleep_until
        idle_until = self.dispatcher.turn()
        self.asleep_until = -math.inf if idle_until is None else idle_until
        if self.dispatcher.failure is not None:
            self.dispatcher.stop(0.0)
            return math.inf
        return idle_until

    def freeze(self) -> None:
        """No more turns, until it is thawed."""
        self.frozen = True

    def cut(self) -> None:
        """Break every connection, so that brokers forget what was asked over it."""
        for net in self._nets:
            for node in self.world.cluster.up:
                net.broker_down(node)

    def end(self) -> None:
        """The world is over."""
        self._listening.close()
        self.started = False

    # -- looking

    def _note(self, event: Event) -> None:
        event |= {"at": self.world.now, "whose": self.name}
        self.events.append(event)
        self.world.told.append(event)

    def named(self, *names: str) -> list[Event]:
        """The traced events of these names."""
        return [one for one in self.events if one["event"] in names]

    def recent(self, count: int = 20) -> str:
        """The last traced events, as text."""
        return "\n".join(map(str, self.events[-count:]))

    def crash(self, actor: str, on: type, *, times: int = 1) -> list[float]:
        """Let this actor fall over the next messages of this type; returns when it did."""
        return self.raise_in(actor, on, [Sabotage(f"{actor} on {on.__name__}")] * times)

    def raise_in(self, actor: str, on: type, errors: Iterable[Exception]) -> list[float]:
        """Raise these, one at a time, when this actor gets a message of this type."""
        left = list(errors)
        happened: list[float] = []

        def before(receiver: CooperativeActor, message: object) -> None:
            if left and receiver.name == actor and type(message) is on:
                happened.append(self.world.now)
                raise left.pop()

        self.before_each = before
        return happened


class Sabotage(RuntimeError):
    """What a test makes an actor fall over."""


class WorldDispatcher(Dispatcher):
    """A dispatcher without a thread: the world turns it."""

    def __init__(self, host: WorldHost, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.host = host
        self.ended = False
        self.before_each = self._inject_faults
        self._sleeping = True  # always: without a thread it turns only when it was woken

    def _wake_for_mail(self) -> None:
        self.host.asleep_until = -math.inf

    def _inject_faults(self, actor: CooperativeActor, message: Any) -> None:
        if self.host.before_each is not None:
            self.host.before_each(actor, message)

    def stop(self, timeout: float) -> bool:
        """What the thread does when it ends."""
        if not self.ended:
            self.ended = True
            super().stop(timeout)
            self.end()
        return True

    def forget(self) -> None:
        """The world is over. The consumer's finalizer holds this, and this the world with the
        consumer: none of them would ever be freed."""
        vars(self).clear()
        self.ended = True


class WorldBell(Bell):
    """A bell whose waiter turns the world."""

    __slots__ = ("_rung", "_world")

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._rung = False

    def ring(self) -> None:
        """Wake the waiter."""
        self._rung = True

    def wait(self, timeout: float) -> bool:
        """Turn the world until rung, or until `timeout` seconds of its time have passed."""
        self._world.turn(timeout, lambda: self._rung)
        rung, self._rung = self._rung, False
        return rung
