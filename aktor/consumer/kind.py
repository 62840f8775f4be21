"""What a `KafkaConsumer` is made of, as a value: its actors, who hears what, the application's
half, and what is measured of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aktor.actors.network.actor import NetworkActor
from aktor.actors.runtime.manager import RequestManager
from aktor.consumer.core.core import Core, Wiring
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.core.rows import reader_maker
from aktor.consumer.metrics import OF_ENGINE
from aktor.consumer.system import ConsumerKind, Host
from aktor.events.routes import FACTS, MEMBERSHIP, ROUTES
from aktor.managers.commits.manager import CommitManager
from aktor.managers.coordinator import CoordinatorManager
from aktor.managers.fetch.manager import FetchManager
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.positions.manager import PositionManager
from aktor.protocol.group_protocols import AUTO, CLASSIC
from aktor.records import Deserialize

__all__ = ["kind_of"]


def kind_of(protocol: str) -> ConsumerKind[Engine, ApplicationPort]:
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
        facts=FACTS,
        kept=lambda host: {MEMBERSHIP: kept(host)},
        port=ApplicationPort,
        half=_engine,
        metrics=OF_ENGINE,
    )


def _engine(
    wiring: Wiring[ApplicationPort],
    config: Mapping[str, Any],
    key: Deserialize | None,
    value: Deserialize | None,
) -> Engine:
    core = Core.of(
        wiring,
        make_reader=reader_maker(wiring.settings, key, value),
        deserializes=not (key is None and value is None),
    )
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
