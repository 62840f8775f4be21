"""Which broker gets a request that any broker may answer: the least loaded one that can be reached.

As `NetworkClient.leastLoadedNode` in the Java client. But a broker whose last request or connection
failed, or that has not answered for long, is not chosen if there is another: it may be frozen.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from aktor.actors.network.bootstrap import Bootstrap
from aktor.actors.network.lanes import Lanes
from aktor.actors.network.links import Link, LinkState
from aktor.actors.runtime.manager import NEVER

__all__ = ["least_loaded"]

#: If a connection attempt takes longer, another one is begun beside it: a bootstrap server that
#: drops all packets must not cost the whole connection timeout.
PATIENCE: Final = 1.0

#: A broker that has not answered a request for so many seconds is not chosen if there is another:
#: it may be frozen.
SLOW: Final = 1.0


def least_loaded(
    lanes: Lanes, bootstrap: Bootstrap, now: float, max_in_flight: int
) -> Link | float:
    """A ready link: send on it. An idle link: open it. A time: there is no link now; look again at
    that time, if no message comes before."""
    way = _best(lanes, bootstrap, now, max_in_flight)
    if way is not None:
        return way
    # `_best` compares `now` with these times of a link and with no others: else a moment would be
    # missed. One in the past belongs to a link that may be opened already, but is not, because the
    # attempt on another link has not ended yet. No moment is needed for an answer that gets late
    # (`owes_since`): it matters only where a link is ready, and makes that one less wanted.
    moments = [
        moment
        for link in (*lanes.nodes.values(), *bootstrap)
        for moment in (link.free_at(max_in_flight), link.connect_at, _trying_until(link))
        if moment > now
    ]
    return min(moments, default=NEVER)


def _best(lanes: Lanes, bootstrap: Bootstrap, now: float, max_in_flight: int) -> Link | None:
    nodes = lanes.nodes.values()
    ready = [link for link in (*nodes, *bootstrap) if link.free_at(max_in_flight) <= now]
    if not ready:
        return _to_open(nodes, bootstrap, now)
    failed = _failed_nodes((*lanes.all(), *bootstrap))
    best: Link = min(
        ready, key=lambda link: (link.node in failed, link.owes_since(now - SLOW), link.load)
    )
    if best.node in failed or best.owes_since(now - SLOW):
        others = [link for link in nodes if link.node not in failed]
        if any(link.state is LinkState.CONNECTING for link in others):
            return None if any(now < _trying_until(link) for link in others) else best
        return _longest_untried(others, now) or best
    return best


def _to_open(nodes: Collection[Link], bootstrap: Bootstrap, now: float) -> Link | None:
    if any(
        link.state is LinkState.READY or now < _trying_until(link) for link in (*nodes, *bootstrap)
    ):
        return None  # one of them will have room soon
    # Known brokers come first. If all have failed, or do not answer, bootstrap servers are tried
    # one after the other, even if they do not answer either.
    return _longest_untried(nodes, now) or _longest_untried(bootstrap, now)


def _longest_untried(links: Iterable[Link], now: float) -> Link | None:
    able = [link for link in links if link.connect_at <= now]
    return min(able, key=lambda link: link.attempts.begun_at, default=None)


def _trying_until(link: Link) -> float:
    """Until when no other link is tried beside this link's attempt; -inf if it makes none."""
    trying = link.state is LinkState.CONNECTING
    return link.attempts.begun_at + PATIENCE if trying else -math.inf


def _failed_nodes(links: Iterable[Link]) -> frozenset[int]:
    """Brokers with a failure on any connection and no answer since: they may be frozen, even if
    their other connections look sound."""
    heard: dict[int, float] = {}
    failed: dict[int, float] = {}
    for link in links:
        heard[link.node] = max(heard.get(link.node, -math.inf), link.heard.at)
        failed[link.node] = max(failed.get(link.node, -math.inf), link.attempts.failed_at)
    return frozenset(node for node, moment in failed.items() if moment > heard[node])
