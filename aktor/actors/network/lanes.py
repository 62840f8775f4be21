"""The lanes to each broker: which connections there are, and which one a request takes.

A broker answers the requests of one connection in order, so a request that is answered at once must
not wait behind a request that the broker keeps:

    to a broker         ordinary   Metadata, ListOffsets, requests that any broker may answer
                        fetch      a Fetch, which the broker keeps until there is data
    to the coordinator  its own    Heartbeat, OffsetCommit, OffsetFetch, LeaveGroup
                        holding    JoinGroup and SyncGroup, which the coordinator keeps until the
                                   other members have sent theirs: a connection for each of them

Each is opened when there is something to send on it. This module knows which links there are; the
network actor decides what is sent on them, and when they are opened and closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aktor.actors.network.links import Link, LinkState
from aktor.events.metadata import Broker
from aktor.events.network import Lane

__all__ = ["Lanes"]

#: Makes the link of this name to a node, host and port.
_Make = Callable[[str, int, str, int], Link]


class Lanes:
    """Owns the links: to each broker that is known, to the coordinator, and to former ones whose
    last answers are still to come."""

    def __init__(self, make: _Make) -> None:
        self._make = make
        #: By node: the ordinary link to each broker, and the link for Fetches if one was needed.
        self.nodes: dict[int, Link] = {}
        self.fetching: dict[int, Link] = {}
        #: The coordinator's own link. It stays when the coordinator is lost: FindCoordinator may
        #: find the same broker again.
        self.coordinator: Link | None = None
        self.is_coordinator_known = False
        #: The links for JoinGroup and SyncGroup. There is a second one only while the coordinator
        #: still keeps a JoinGroup whose answer this member does not wait for any more.
        self.holding: list[Link] = []
        #: Brokers to which Fetches follow shortly.
        self._expected: frozenset[int] = frozenset()
        #: Links to former brokers or coordinators: they get no new requests, and are closed when
        #: their last answer has come.
        self.retired: list[Link] = []
        self._by_key: dict[str, Link] = {}

    def retire(self, link: Link) -> None:
        """Send nothing more on this link; close it when its last request was answered."""
        self.retired.append(link)

    def take_retired(self) -> list[Link]:
        """Remove and return the retired links that have no request in flight."""
        done = [link for link in self.retired if not link.in_flight]
        self.retired = [link for link in self.retired if link.in_flight]
        return done

    def opened(self, link: Link) -> None:
        """The link has another connection now, whose reports come with `link.key`."""
        self._by_key[link.key] = link

    def of_key(self, key: str) -> Link | None:
        """The link that has this connection; None if that was closed."""
        return self._by_key.get(key)

    def closed(self, key: str) -> Link | None:
        """Forget this connection; returns the link that had it."""
        return self._by_key.pop(key, None)

    def all(self) -> list[Link]:
        """Every link there is, the coordinator's first."""
        own = [self.coordinator] if self.coordinator is not None else []
        nodes = (*self.nodes.values(), *self.fetching.values())
        return [*own, *self.holding, *nodes, *self.retired]

    def to_node(self, node: int, lane: Lane) -> Link:
        """The link to a known broker for this lane; one for Fetches is made if there is none."""
        ordinary = self.nodes[node]
        if lane is not Lane.FETCH:
            return ordinary
        link = self.fetching.get(node)
        if link is None:
            link = self._make(f"{node}-fetch", node, ordinary.host, ordinary.port)
            self.fetching[node] = link
        return link

    def to_coordinator(self, lane: Lane) -> Link:
        """The coordinator's own link; for JoinGroup and SyncGroup one that has no request on it."""
        own = self.coordinator
        assert own is not None, "requests for the coordinator fail while none is known"
        if lane is not Lane.HOLDS:
            return own
        for link in self.holding:
            if not link.busy:
                return link
        link = self._make(f"join-{own.node}", own.node, own.host, own.port)
        link.keep_for_joins()
        self.holding.append(link)
        return link

    def in_order_at(self, link: Link) -> float:
        """When the first request in the link's queue may be sent, although earlier ones to the
        coordinator, on its own link, may not be answered yet."""
        own = self.coordinator
        if not (link.unsent and link.unsent[0].request.in_order_for) or own is None:
            return -math.inf
        first = link.unsent[0]
        before = any(
            waiting.request_id < first.request_id
            for waiting in (*own.unsent, *own.in_flight.values())
        )
        return first.came_at + first.request.in_order_for if before else -math.inf

    def of_node(self, node: int) -> list[Link]:
        """The links to this broker, without those to it as the coordinator."""
        return [lane[node] for lane in (self.nodes, self.fetching) if node in lane]

    def of_coordinator(self) -> list[Link]:
        """The links to the coordinator, without the ordinary one to the same broker."""
        return [self.coordinator, *self.holding] if self.coordinator is not None else []

    def add(self, broker: Broker) -> Link:
        """Make the link to a broker that was not known before."""
        link = self._make(str(broker.node_id), broker.node_id, broker.host, broker.port)
        self.nodes[broker.node_id] = link
        return link

    def remove(self, node: int) -> list[Link]:
        """The broker left the cluster; returns the links to it."""
        gone = self.of_node(node)
        self.nodes.pop(node, None)
        self.fetching.pop(node, None)
        return gone

    def coordinator_found(self) -> None:
        """The coordinator is known; it may be the same broker as before."""
        self.is_coordinator_known = True

    def coordinator_lost(self) -> None:
        """Nothing more is sent to the coordinator; answers may still come."""
        self.is_coordinator_known = False

    def expect(self, nodes: frozenset[int]) -> None:
        """Fetches to these brokers follow shortly."""
        self._expected |= nodes

    def take_expected(self) -> list[int]:
        """The known brokers among those to which Fetches follow; forgets all of them."""
        found, self._expected = sorted(self._expected & self.nodes.keys()), frozenset()
        return found

    def coordinator_is(self, broker: Broker) -> list[Link]:
        """Another broker is the coordinator; returns the links to the former one."""
        gone, self.holding = self.of_coordinator(), []
        self.coordinator = self._make(
            f"coordinator-{broker.node_id}", broker.node_id, broker.host, broker.port
        )
        return gone

    def take_spare(self) -> list[Link]:
        """Forget the links for JoinGroup that are not needed any more, and return them: one link
        without a request is kept."""
        free = [link for link in self.holding if not link.busy]
        free.sort(key=lambda link: link.state is not LinkState.READY)
        spare = free[1:]
        self.holding = [link for link in self.holding if link not in spare]
        return spare
