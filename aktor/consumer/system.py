"""The actor system of one consumer: what it is made of, and the thread that it runs on.

`composition` is the one place that names the children, in start order; what each needs, hears and
asks stands with its class and in the routes. `Host` makes what differs between a real consumer and
a simulated one.
"""

from __future__ import annotations

import base64
import signal
import threading
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aktor.actors.kafka_net import KafkaNet
from aktor.actors.manager import RequestManager
from aktor.actors.network import NetworkActor
from aktor.actors.runtime import Bell, Dispatcher
from aktor.actors.supervision import Child
from aktor.actors.supervisor import Supervisor
from aktor.actors.wire import Net
from aktor.consumer.port import ApplicationPort
from aktor.events.message import Message
from aktor.events.routes import ROUTES
from aktor.managers.commits import CommitManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch import FetchManager
from aktor.managers.membership import ClassicMembershipManager
from aktor.managers.metadata import MetadataManager
from aktor.managers.positions import PositionManager
from aktor.settings import Settings
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.facade import KafkaConsumer

__all__ = ["HOST", "ActorSystem", "Host", "composition", "managers"]


def managers(protocol: str) -> tuple[type[RequestManager], ...]:
    """The managers of a consumer with this `group_protocol`, in start order."""
    return (
        CoordinatorManager,
        MetadataManager,
        _membership(protocol),
        CommitManager,
        PositionManager,
        FetchManager,
    )


def _membership(protocol: str) -> type[RequestManager]:
    """The membership manager of this group protocol. To other actors each is "membership".

    Those of KIP-848 are imported when they are used: most consumers speak the classic protocol.
    """
    if protocol == "classic":
        return ClassicMembershipManager
    if protocol == "auto":
        from aktor.managers.auto_membership import AutoMembershipManager

        return AutoMembershipManager
    from aktor.managers.consumer_membership import ConsumerMembershipManager

    return ConsumerMembershipManager


class Host:
    """What a consumer runs on: real threads, clock and sockets here; others in simulations."""

    def for_consumer(self, consumer: KafkaConsumer) -> Host:
        """The host of this new consumer."""
        return self

    def make_bell(self) -> Bell:
        """What the application thread waits on."""
        return Bell()

    def make_dispatcher(self, port: ApplicationPort, trace: Trace) -> Dispatcher:
        """What the actors run on; what they say to the application goes to the port."""
        dispatcher = Dispatcher(ROUTES, trace=trace)
        dispatcher.connect("application", port)
        return dispatcher

    def make_net(self, settings: Settings, tell: Callable[[Message], None]) -> Net:
        """The sockets of a network actor, which report to `tell`."""
        return KafkaNet(settings, tell)

    def make_member_id(self) -> str:
        """A name for a member of a KIP-848 group, as Kafka prints a uuid (KIP-1082)."""
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """Begin to turn."""
        dispatcher.start_thread(name)

    def start_worker(self, work: Callable[[], None], name: str) -> None:
        """Do this beside the application: in a thread that keeps no process from ending."""
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


#: What consumers run on that are made in this context: a simulation puts its own here.
HOST: Final[ContextVar[Host]] = ContextVar("aktor_host", default=Host())  # noqa: B039  # stateless


def composition(
    settings: Settings, host: Host, dispatcher: Dispatcher, trace: Trace
) -> tuple[Child, ...]:
    """All children of a supervisor in start order, each given the settings that it may see."""
    kinds = managers(settings.group_protocol)
    common = {"dispatcher": dispatcher, "trace": trace}
    more: dict[str, dict[str, Any]] = {kind.name: {} for kind in kinds}
    if settings.group_protocol != "classic":
        # Made once: a restarted manager is the same member to its group (KIP-1082).
        more["membership"]["member_id"] = host.make_member_id()
    if settings.group_protocol == "auto":
        from aktor.managers.auto_membership import Choice

        more["membership"]["choice"] = Choice()

    of_network = settings.only(NetworkActor.name, NetworkActor.READS)
    net = partial(host.make_net, of_network)

    def network(incarnation: int) -> NetworkActor:
        return NetworkActor.launch(of_network, net=net, incarnation=incarnation, **common)

    def child(kind: type[RequestManager]) -> Child:
        seen = settings.only(kind.name, kind.READS)

        def make(incarnation: int) -> RequestManager:
            return kind.launch(seen, incarnation=incarnation, **common, **more[kind.name])

        return Child(kind.name, make, needs=kind.NEEDS, asks=kind.mends())

    # The network actor lets go of the requests of whoever starts afresh.
    everyone = tuple(kind.name for kind in kinds)
    return (Child("network", network, asks=everyone), *(child(kind) for kind in kinds))


class ActorSystem:
    """Owns the dispatcher and the supervisor; starts and stops them together."""

    def __init__(self, settings: Settings, port: ApplicationPort, trace: Trace, host: Host) -> None:
        self.dispatcher = host.make_dispatcher(port, trace)
        children = composition(settings, host, self.dispatcher, trace)
        self._supervisor = Supervisor.launch(children, dispatcher=self.dispatcher, trace=trace)
