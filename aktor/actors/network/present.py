"""What the network actor publishes of the brokers: `NetworkNow`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aktor.actors.network.links import Link, LinkState
from aktor.actors.sockets.diagnosis import reason_of, without_guess
from aktor.events.present import BrokerNow, NetworkNow, Throttle

__all__ = ["network_now"]


def network_now(
    links: Iterable[Link],
    servers: Iterable[Link],
    *,
    fetching: Iterable[Link] = (),
    to_coordinator: Iterable[Link] = (),
) -> NetworkNow:
    """The brokers to which these links lead, and the bootstrap servers. Some of the links are for
    Fetches, some lead to the coordinator; the others are for ordinary requests."""
    apart = frozenset(fetching), frozenset(to_coordinator)
    by_node: dict[int, list[Link]] = {}
    for link in links:
        by_node.setdefault(link.node, []).append(link)
    servers = list(servers)
    return NetworkNow(
        brokers={
            node: _broker_now(
                those, [one for one in servers if one.address == those[0].address], *apart
            )
            for node, those in by_node.items()
        },
        servers=tuple(_broker_now([server]) for server in servers),
    )


def _broker_now(
    links: list[Link],
    servers: Iterable[Link] = (),
    fetching: frozenset[Link] = frozenset(),
    to_coordinator: frozenset[Link] = frozenset(),
) -> BrokerNow:
    """One broker. `servers`: the bootstrap server at its address, if it is one. What that answered,
    this broker has answered."""
    heard = tuple(link.heard for link in (*links, *servers))
    has_answered = any(one.at > -math.inf for one in heard)
    failing = [link for link in links if link.attempts.failing_since is not None]
    if len(links) > 1 and failing:
        # What a link tells that nobody has needed for long is out of date if another one has been
        # tried since.
        tried_at = max([max(one.attempts.begun_at, one.attempts.failed_at) for one in links])
        failing = [link for link in failing if not link.attempts.was_unused(tried_at)]
    last = max(failing, key=lambda link: link.attempts.failed_at, default=None)
    failed_at = -math.inf if last is None else last.attempts.failed_at
    # (A link that was due before another one failed is one that no request needs.)
    due = [one.attempts.retry_at for one in failing if one.attempts.retry_at >= failed_at]
    begun = [link.attempts.begun_at for link in links if link.state is LinkState.CONNECTING]
    return BrokerNow(
        node=links[0].node,
        address=links[0].address,
        connected=any(link.state is LinkState.READY for link in links),
        connecting_since=min(begun, default=None),
        failing_since=min(
            (link.attempts.silent_since or -math.inf for link in failing), default=None
        ),
        failed_at=failed_at,
        attempts=sum(link.attempts.failures for link in failing),
        error="" if last is None else _how_it_ended(last, has_answered),
        retry_at=min(due, default=-math.inf),
        refused_since=min(
            [at for link in links if (at := link.attempts.refused_since) is not None],
            default=None,
        ),
        throttle=_throttle(set(links) - fetching - to_coordinator),
        fetch_throttle=_throttle(fetching.intersection(links)),
        group_throttle=_throttle(to_coordinator.intersection(links)),
        heard=heard,
    )


def _throttle(links: Iterable[Link]) -> Throttle:
    """That which ends last."""
    return max((link.throttle for link in links), key=lambda one: one.until, default=Throttle())


def _how_it_ended(link: Link, has_answered: bool) -> str:
    """How the last attempt or connection ended."""
    ended = link.attempts.ended
    if ended is None:
        return ""
    return reason_of(without_guess(ended) if has_answered else ended)
