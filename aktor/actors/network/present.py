"""What the network actor publishes of the brokers: `NetworkNow`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aktor.actors.network.links import Link, LinkState
from aktor.actors.sockets.diagnosis import facts_of, reason_of
from aktor.errors import AuthenticationError
from aktor.events.present import BrokerNow, NetworkNow

__all__ = ["network_now"]


def network_now(links: Iterable[Link], servers: Iterable[Link]) -> NetworkNow:
    """The brokers to which these links lead, and the bootstrap servers."""
    by_node: dict[int, list[Link]] = {}
    for link in links:
        by_node.setdefault(link.node, []).append(link)
    servers = list(servers)
    return NetworkNow(
        brokers={
            node: _broker_now(those, [one for one in servers if one.address == those[0].address])
            for node, those in by_node.items()
        },
        servers=tuple(_broker_now([server]) for server in servers),
    )


def _broker_now(links: list[Link], servers: Iterable[Link] = ()) -> BrokerNow:
    """One broker. `servers`: the bootstrap server at its address, if it is one. What that answered,
    this broker has answered."""
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
    throttled = max(links, key=lambda link: link.throttled_until)
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
        error="" if last is None else _how_it_ended(last),
        retry_at=min(due, default=-math.inf),
        refused=any(isinstance(link.failure, AuthenticationError) for link in links),
        throttled_since=throttled.throttled_since,
        throttled_until=throttled.throttled_until,
        heard=tuple(link.heard for link in (*links, *servers)),
    )


def _how_it_ended(link: Link) -> str:
    """How the last attempt or connection ended. What the listener of a broker that has answered us
    expects is known: nothing need be guessed about it."""
    ended = link.attempts.ended
    if ended is None:
        return ""
    return facts_of(ended) if link.heard.at > -math.inf else reason_of(ended)
