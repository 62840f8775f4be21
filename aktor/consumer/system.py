"""The actor system of one consumer: which children there are, in which order, on which thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aktor.actors.kafka_net import KafkaNet
from aktor.actors.manager import RequestManager
from aktor.actors.network import NetworkActor
from aktor.actors.runtime import CooperativeActor, Dispatcher
from aktor.actors.supervision import Child
from aktor.actors.supervisor import Supervisor
from aktor.consumer.port import ApplicationPort
from aktor.events.routes import ROUTES
from aktor.managers.commits import CommitManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch import FetchManager
from aktor.managers.membership import ClassicMembershipManager
from aktor.managers.metadata import MetadataManager
from aktor.managers.positions import PositionManager
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["MANAGERS", "ActorSystem"]

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


class ActorSystem:
    """Owns the dispatcher and the supervisor; starts and stops them together."""

    def __init__(
        self,
        settings: Settings,
        port: ApplicationPort,
        trace: Trace,
        *,
        dispatcher: Dispatcher | None = None,
        make_network: Callable[[int], CooperativeActor] | None = None,
    ) -> None:
        self.settings = settings
        self.trace = trace
        self.dispatcher = dispatcher or Dispatcher(ROUTES, trace=trace)
        self.dispatcher.connect("application", port)
        self._supervisor: Supervisor = _launch(
            Supervisor,
            [
                Child("network", make_network or self._make_network),
                *(Child(kind.name, self._maker(kind)) for kind in MANAGERS),
            ],
            dispatcher=self.dispatcher,
            trace=trace,
        )
        self.dispatcher.on_stopped = self._supervisor.stop_children  # type: ignore[method-assign]

    def _maker(self, kind: type[RequestManager]) -> Callable[[int], CooperativeActor]:
        def make(incarnation: int) -> CooperativeActor:
            return _launch(
                kind,
                self.settings,
                incarnation=incarnation,
                dispatcher=self.dispatcher,
                trace=self.trace,
            )

        return make

    def _make_network(self, incarnation: int) -> CooperativeActor:
        def make_net(tell: Callable[[object], None]) -> KafkaNet:
            net = KafkaNet(self.settings, tell)
            self.dispatcher.sleeper = net
            return net

        return _launch(
            NetworkActor,
            self.settings,
            net=make_net,
            incarnation=incarnation,
            dispatcher=self.dispatcher,
            trace=self.trace,
        )


def _launch(kind: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Start an actor the Pykka way and return the actor itself, for its dispatcher."""
    return kind.start(*args, **kwargs)._actor
