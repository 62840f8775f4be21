"""The actor system of one consumer: which children there are, in which order, on which thread."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from aktor.actors.kafka_net import KafkaNet
from aktor.actors.manager import RequestManager
from aktor.actors.network import NetworkActor
from aktor.actors.runtime import Bell, CooperativeActor, Dispatcher
from aktor.actors.supervision import Child
from aktor.actors.supervisor import Supervisor
from aktor.consumer.port import ApplicationPort
from aktor.events.routes import ROUTES
from aktor.managers.auto_membership import AutoMembershipManager, Choice
from aktor.managers.commits import CommitManager
from aktor.managers.consumer_membership import ConsumerMembershipManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch import FetchManager
from aktor.managers.membership import ClassicMembershipManager
from aktor.managers.metadata import MetadataManager
from aktor.managers.positions import PositionManager
from aktor.settings import Settings
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.facade import KafkaConsumer

__all__ = ["HOST", "MANAGERS", "ActorSystem", "Host"]

#: In start order: an actor may depend only on those above it, so when one crashes it and everyone
#: below start afresh. Above them all stands the network.
MANAGERS: tuple[type[RequestManager], ...] = (
    CoordinatorManager,
    ClassicMembershipManager,
    CommitManager,
    MetadataManager,
    PositionManager,
    FetchManager,
)


#: Who speaks which group protocol; to all others it is the actor "membership".
MEMBERSHIPS: Final[Mapping[str, type[RequestManager]]] = {
    "classic": ClassicMembershipManager,
    "consumer": ConsumerMembershipManager,
    "auto": AutoMembershipManager,
}


class Host:
    """What a consumer runs on: real threads, clock and sockets here; others in simulations."""

    def for_consumer(self, consumer: KafkaConsumer) -> Host:
        """The host of this new consumer."""
        return self

    def make_bell(self) -> Bell:
        """What the application thread waits on."""
        return Bell()

    def make_dispatcher(self, trace: Trace) -> Dispatcher:
        """What the actors run on."""
        return Dispatcher(ROUTES, trace=trace)

    def make_network(
        self, settings: Settings, dispatcher: Dispatcher, trace: Trace, incarnation: int
    ) -> CooperativeActor:
        """The network actor, with its sockets."""

        def make_net(tell: Callable[[object], None]) -> KafkaNet:
            net = KafkaNet(settings, tell)
            dispatcher.sleeper = net
            return net

        return NetworkActor.launch(
            settings,
            net=make_net,
            incarnation=incarnation,
            dispatcher=dispatcher,
            trace=trace,
        )

    def make_member_id(self) -> str:
        """A name for a member of a KIP-848 group, as Kafka prints a uuid (KIP-1082)."""
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """Begin to turn."""
        dispatcher.start_thread(name)


#: What consumers run on that are made in this context: a simulation puts its own here.
HOST: Final[ContextVar[Host]] = ContextVar("aktor_host", default=Host())  # noqa: B039  # stateless


class ActorSystem:
    """Owns the dispatcher and the supervisor; starts and stops them together."""

    def __init__(self, settings: Settings, port: ApplicationPort, trace: Trace, host: Host) -> None:
        self.settings = settings
        self.trace = trace
        self.host = host
        self.dispatcher = host.make_dispatcher(trace)
        self.dispatcher.connect("application", port)
        self._member_id = host.make_member_id()
        self._supervisor: Supervisor = Supervisor.launch(
            [
                Child("network", self._make_network),
                *(Child(kind.name, self._maker(kind)) for kind in MANAGERS),
            ],
            dispatcher=self.dispatcher,
            trace=trace,
        )
        self.dispatcher.on_stopped = self._supervisor.stop_children

    def _maker(self, kind: type[RequestManager]) -> Callable[[int], CooperativeActor]:
        more: dict[str, Any] = {}
        if kind is ClassicMembershipManager:
            kind = MEMBERSHIPS[self.settings.group_protocol]
            if kind is not ClassicMembershipManager:
                more["member_id"] = self._member_id
            if kind is AutoMembershipManager:
                more["choice"] = Choice()

        def make(incarnation: int) -> CooperativeActor:
            return kind.launch(
                self.settings,
                incarnation=incarnation,
                dispatcher=self.dispatcher,
                trace=self.trace,
                **more,
            )

        return make

    def _make_network(self, incarnation: int) -> CooperativeActor:
        return self.host.make_network(self.settings, self.dispatcher, self.trace, incarnation)
