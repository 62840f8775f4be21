"""The actor system of one consumer: its actors, and the thread that they run on.

A `ConsumerKind` names the children, in the order in which a tick asks them (`kind` has that of a
`KafkaConsumer`). Each class declares which actors it needs and which settings it reads; the routes
say what it hears. `composition` makes the supervisor's children of that. `Host` makes what differs
between a real consumer and a simulated one.
"""

from __future__ import annotations

import base64
import signal
import threading
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from aktor.actors.network.actor import NetworkActor
from aktor.actors.runtime.dispatcher import Bell, CooperativeActor, Dispatcher
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.runtime.supervision import Child
from aktor.actors.runtime.supervisor import Supervisor
from aktor.actors.sockets.kafka_net import KafkaNet
from aktor.actors.sockets.wire import Net
from aktor.consumer.core.core import Wiring
from aktor.consumer.core.port import Port
from aktor.consumer.metrics import Counted
from aktor.events.message import Message
from aktor.events.routes import APPLICATION, NETWORK, Routes
from aktor.records import Deserialize
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import Value

if TYPE_CHECKING:
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["HOST", "ActorSystem", "ActorType", "Consumer", "ConsumerKind", "Host", "composition"]

#: The application's half of a kind of consumer, and its port.
H = TypeVar("H", bound="ApplicationHalf")
P = TypeVar("P", bound=Port)

#: The class of an actor that the supervisor looks after.
ActorType: TypeAlias = type[RequestManager] | type[NetworkActor]


class Consumer(Protocol):
    """What a host is told of the consumer that it works for; see `KafkaConsumer`."""

    @property
    def config(self) -> Mapping[str, object]:
        """The settings, by their names."""


class Host:
    """Makes the threads, the clock and the sockets of a consumer; simulations have another host."""

    def for_consumer(self, consumer: Consumer) -> Host:
        """The host of this new consumer."""
        return self

    def make_bell(self) -> Bell:
        """The bell on which the application thread waits."""
        return Bell()

    def make_dispatcher(self, routes: Routes, port: Port, trace: Trace) -> Dispatcher:
        """The dispatcher of the actors; it delivers the application's messages to the port."""
        dispatcher = Dispatcher(routes, trace=trace)
        dispatcher.connect(APPLICATION, port)
        return dispatcher

    def make_net(
        self, settings: Settings, tell: Callable[[Message], None], clock: Callable[[], float]
    ) -> Net:
        """The sockets of a network actor, which report to `tell`, by the dispatcher's clock."""
        return KafkaNet(settings, tell, clock)

    def make_member_id(self) -> str:
        """A new member id for a KIP-848 group, as Kafka prints a uuid (KIP-1082)."""
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """Start the dispatcher's thread."""
        dispatcher.start_thread(name)

    def start_worker(self, work: Callable[[], None], name: str) -> None:
        """Run `work` on a daemon thread, which does not keep the process from ending."""
        threading.Thread(target=work, name=name, daemon=True).start()

    def on_sigterm(self, act: Callable[[], None]) -> Callable[[], None]:
        """Call `act` on SIGTERM, until the function that is returned is called.

        Nothing is done outside of the main thread, or if the application has a handler of its own.
        """
        before = signal.getsignal(signal.SIGTERM)
        here = threading.current_thread() is threading.main_thread()
        if not here or before is not signal.SIG_DFL:
            return lambda: None
        signal.signal(signal.SIGTERM, lambda _number, _frame: act())

        def restore() -> None:
            signal.signal(signal.SIGTERM, before)

        return restore


#: The host of consumers that are made in this context: a simulation puts its own here.
HOST: Final[ContextVar[Host]] = ContextVar("aktor_host", default=Host())  # noqa: B039  # stateless


class ConsumerKind(Value, Generic[H, P]):
    """What a consumer is made of. A share consumer (KIP-932) would be another value.

    `actors` stand in the order in which a tick asks them. The last is the network actor, which
    takes the requests of all others. `routes` say what each of them hears, and the application;
    `facts`, what an actor that starts afresh is told of it.
    `kept` is given a consumer's host, and makes what an actor is given beside its settings, by the
    actor's name: once, so that a restarted actor is given the same.
    `port` makes what hears the background, `half` the application's half, which has what
    `ApplicationHalf` names: of its wiring, the user's settings, and the deserializers of keys and
    values. `metrics` are what is measured of it.
    """

    actors: tuple[ActorType, ...]
    routes: Routes
    facts: Mapping[type, str]
    kept: Callable[[Host], Mapping[str, Mapping[str, Any]]]
    port: Callable[[Bell, Trace], P]
    half: Callable[[Wiring[P], Mapping[str, Any], Deserialize | None, Deserialize | None], H]
    metrics: Counted[H]


def composition(
    of: ConsumerKind[Any, Any], settings: Settings, host: Host, dispatcher: Dispatcher, trace: Trace
) -> tuple[Child, ...]:
    """All children of a supervisor in tick order, each given the settings that it may see."""
    kinds = of.actors
    everyone = tuple(kind.name for kind in kinds)
    seen = {kind.name: settings.only(kind.name, kind.READS) for kind in kinds}
    net = partial(host.make_net, seen[NETWORK], clock=dispatcher.clock)
    more = {NETWORK: {"net": net}, **of.kept(host)}

    def child(kind: ActorType) -> Child:
        given = {"dispatcher": dispatcher, "trace": trace, **more.get(kind.name, {})}

        def make(incarnation: int) -> CooperativeActor:
            return kind.launch(seen[kind.name], incarnation=incarnation, **given)

        if issubclass(kind, NetworkActor):
            # It ends the requests of actors that start afresh.
            return Child(kind.name, make, needs=kind.NEEDS, asks=everyone, takes_requests=True)
        # Another kind of consumer may not have all actors that this one can mend.
        asks = tuple(name for name in kind.mends() if name in everyone)
        return Child(kind.name, make, needs=kind.NEEDS, asks=asks)

    return tuple(map(child, kinds))


class ActorSystem:
    """Owns the dispatcher. It runs the supervisor, which starts and stops all other actors."""

    def __init__(
        self,
        kind: ConsumerKind[Any, Any],
        settings: Settings,
        port: Port,
        trace: Trace,
        host: Host,
    ) -> None:
        self.dispatcher = host.make_dispatcher(kind.routes, port, trace)
        children = composition(kind, settings, host, self.dispatcher, trace)
        Supervisor.launch(children, dispatcher=self.dispatcher, trace=trace, facts=kind.facts)
