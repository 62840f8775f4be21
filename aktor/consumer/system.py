"""The actor system of one consumer: its actors, and the thread that they run on.

`kind_of` is the one place that names the children, in the order in which a tick asks them. Each
class declares which actors it needs and which settings it reads; the routes say what it hears.
`composition` makes the supervisor's children of that. `Host` makes what differs between a real
consumer and a simulated one.
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
from aktor.consumer.core.core import Core
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.port import ApplicationPort
from aktor.events.message import Message
from aktor.events.routes import APPLICATION, MEMBERSHIP, NETWORK, ROUTES, Routes
from aktor.managers.commits.manager import CommitManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch.manager import FetchManager
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.positions.manager import PositionManager
from aktor.protocol.group_protocols import AUTO, CLASSIC
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import Value

if TYPE_CHECKING:
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["HOST", "ActorSystem", "Consumer", "ConsumerKind", "Host", "composition", "kind_of"]

#: The application's half of a kind of consumer.
C = TypeVar("C", bound="ApplicationHalf")

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

    def make_dispatcher(self, routes: Routes, port: ApplicationPort, trace: Trace) -> Dispatcher:
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


class ConsumerKind(Value, Generic[C]):
    """What a consumer is made of. A share consumer (KIP-932) would be another value.

    `actors` stand in the order in which a tick asks them. The last is the network actor, which
    takes the requests of all others. `routes` say what each of them hears, and the application.
    `kept` is given a consumer's host, and makes what an actor is given beside its settings, by the
    actor's name: once, so that a restarted actor is given the same. `core` makes the application's
    half, which has what `ApplicationHalf` names, of its surroundings and the user's settings.
    """

    actors: tuple[ActorType, ...]
    routes: Routes
    kept: Callable[[Host], Mapping[str, Mapping[str, Any]]]
    core: Callable[[Core, Mapping[str, Any]], C]


def kind_of(protocol: str) -> ConsumerKind[Engine]:
    """A `KafkaConsumer` that speaks this `group_protocol`.

    A tick asks its actors in the order of the Java client's `RequestManagers`. In which order they
    start follows from `NEEDS` (`start_order`).
    """
    membership, kept = _membership(protocol)
    return ConsumerKind(
        actors=(
            CoordinatorManager,
            CommitManager,
            membership,
            PositionManager,
            MetadataManager,
            FetchManager,
            NetworkActor,
        ),
        routes=ROUTES,
        kept=lambda host: {MEMBERSHIP: kept(host)},
        core=_engine,
    )


def _engine(core: Core, config: Mapping[str, Any]) -> Engine:
    return Engine(core, on_auto_commit=config["default_offset_commit_callback"])


def _membership(
    protocol: str,
) -> tuple[type[RequestManager], Callable[[Host], Mapping[str, Any]]]:
    """The membership manager of this group protocol, and what is made once for it. To other actors
    each is "membership".

    Those of KIP-848 are imported when they are used: most consumers speak the classic protocol. A
    restarted manager of KIP-848 is the same member to its group (KIP-1082).
    """
    if protocol == CLASSIC:
        return ClassicMembershipManager, lambda _host: {}
    from aktor.managers.membership.consumer.manager import ConsumerMembershipManager, ProtocolChoice

    if protocol == AUTO:
        from aktor.managers.membership.auto import AutoMembershipManager

        return AutoMembershipManager, lambda host: {
            "member_id": host.make_member_id(),
            "choice": ProtocolChoice(),
        }
    return ConsumerMembershipManager, lambda host: {"member_id": host.make_member_id()}


def composition(
    of: ConsumerKind[Any], settings: Settings, host: Host, dispatcher: Dispatcher, trace: Trace
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
        return Child(kind.name, make, needs=kind.NEEDS, asks=kind.mends())

    return tuple(map(child, kinds))


class ActorSystem:
    """Owns the dispatcher. It runs the supervisor, which starts and stops all other actors."""

    def __init__(
        self,
        kind: ConsumerKind[Any],
        settings: Settings,
        port: ApplicationPort,
        trace: Trace,
        host: Host,
    ) -> None:
        self.dispatcher = host.make_dispatcher(kind.routes, port, trace)
        children = composition(kind, settings, host, self.dispatcher, trace)
        Supervisor.launch(children, dispatcher=self.dispatcher, trace=trace)
