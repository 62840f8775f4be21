"""The actor system of one consumer: its actors, and the thread that they run on.

`actors` is the one place that names the children, in the order in which a tick asks them. Each
class declares which actors it needs and which settings it reads; the routes say what it hears.
`composition` makes the supervisor's children of that. `Host` makes what differs between a real
consumer and a simulated one.
"""

from __future__ import annotations

import base64
import signal
import threading
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aktor.actors.network.actor import NetworkActor
from aktor.actors.runtime.dispatcher import Bell, CooperativeActor, Dispatcher
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.runtime.supervision import Child
from aktor.actors.runtime.supervisor import Supervisor
from aktor.actors.sockets.kafka_net import KafkaNet
from aktor.actors.sockets.wire import Net
from aktor.consumer.core.port import ApplicationPort
from aktor.events.message import Message
from aktor.events.routes import APPLICATION, MEMBERSHIP, NETWORK, ROUTES
from aktor.managers.commits.manager import CommitManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch.manager import FetchManager
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.positions import PositionManager
from aktor.settings import Settings
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.facade import KafkaConsumer

__all__ = ["HOST", "ActorSystem", "Host", "actors", "composition"]

#: The class of an actor that the supervisor looks after.
ActorType: TypeAlias = type[RequestManager] | type[NetworkActor]


def actors(protocol: str) -> tuple[ActorType, ...]:
    """The actors of a consumer with this `group_protocol`, in the order in which a tick asks them.

    It is the order of the Java client's `RequestManagers`, and then the network actor, which takes
    the requests of all others. In which order they start follows from `NEEDS` (`start_order`).
    """
    return (
        CoordinatorManager,
        CommitManager,
        _membership(protocol),
        PositionManager,
        MetadataManager,
        FetchManager,
        NetworkActor,
    )


def _membership(protocol: str) -> type[RequestManager]:
    """The membership manager of this group protocol. To other actors each is "membership".

    Those of KIP-848 are imported when they are used: most consumers speak the classic protocol.
    """
    if protocol == "classic":
        return ClassicMembershipManager
    if protocol == "auto":
        from aktor.managers.membership.auto import AutoMembershipManager

        return AutoMembershipManager
    from aktor.managers.membership.consumer.manager import ConsumerMembershipManager

    return ConsumerMembershipManager


class Host:
    """Makes the threads, the clock and the sockets of a consumer; simulations have another host."""

    def for_consumer(self, consumer: KafkaConsumer) -> Host:
        """The host of this new consumer."""
        return self

    def make_bell(self) -> Bell:
        """The bell on which the application thread waits."""
        return Bell()

    def make_dispatcher(self, port: ApplicationPort, trace: Trace) -> Dispatcher:
        """The dispatcher of the actors; it delivers the application's messages to the port."""
        dispatcher = Dispatcher(ROUTES, trace=trace)
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


def composition(
    settings: Settings, host: Host, dispatcher: Dispatcher, trace: Trace
) -> tuple[Child, ...]:
    """All children of a supervisor in tick order, each given the settings that it may see."""
    kinds = actors(settings.group_protocol)
    everyone = tuple(kind.name for kind in kinds)
    seen = {kind.name: settings.only(kind.name, kind.READS) for kind in kinds}
    more: dict[str, dict[str, Any]] = {name: {} for name in everyone}
    more[NETWORK]["net"] = partial(host.make_net, seen[NETWORK], clock=dispatcher.clock)
    if settings.group_protocol != "classic":
        # Made once: a restarted manager is the same member to its group (KIP-1082).
        more[MEMBERSHIP]["member_id"] = host.make_member_id()
    if settings.group_protocol == "auto":
        from aktor.managers.membership.consumer.manager import ProtocolChoice

        more[MEMBERSHIP]["choice"] = ProtocolChoice()

    def child(kind: ActorType) -> Child:
        given = {"dispatcher": dispatcher, "trace": trace, **more[kind.name]}

        def make(incarnation: int) -> CooperativeActor:
            return kind.launch(seen[kind.name], incarnation=incarnation, **given)

        if issubclass(kind, NetworkActor):
            # It ends the requests of actors that start afresh.
            return Child(kind.name, make, needs=kind.NEEDS, asks=everyone, takes_requests=True)
        return Child(kind.name, make, needs=kind.NEEDS, asks=kind.mends())

    return tuple(map(child, kinds))


class ActorSystem:
    """Owns the dispatcher. It runs the supervisor, which starts and stops all other actors."""

    def __init__(self, settings: Settings, port: ApplicationPort, trace: Trace, host: Host) -> None:
        self.dispatcher = host.make_dispatcher(port, trace)
        children = composition(settings, host, self.dispatcher, trace)
        Supervisor.launch(children, dispatcher=self.dispatcher, trace=trace)
