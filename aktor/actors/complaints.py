"""What the application is told of brokers that cannot be reached, and when.

Three things are told apart: no bootstrap server answers (`Bootstrap`); a server does, and none of
the addresses that the brokers advertise (`Advertised`); or some brokers that are needed have not
been reached for long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from aktor.actors.advertised import PROBES, Advertised
from aktor.actors.bootstrap import Bootstrap
from aktor.actors.diagnosis import reason_of
from aktor.actors.links import Link, LinkState
from aktor.events.message import Message
from aktor.events.network import BootstrapFailed, BrokersLost, BrokersReached, BrokersUnreachable
from aktor.trace import Trace

__all__ = ["Complaints"]

#: A broker that is needed and could not be reached for so long is named in `status()`.
LOST_AFTER: Final = 30.0


class Complaints:
    """Owns which brokers the application believes to be out of reach."""

    def __init__(self, bootstrap: Bootstrap, log: Trace) -> None:
        self.advertised = Advertised()
        self._bootstrap = bootstrap
        self._log = log
        self._lost: frozenset[int] = frozenset()

    def due(self, links: Collection[Link], now: float, *, anybody: bool) -> Iterator[Message]:
        """What is to be said now. `anybody`: a request that any broker may answer waits."""
        if anybody and now >= self._bootstrap.complaint_due():
            error: Exception = self._bootstrap.complain(now)
            self._log.warning("bootstrap.failed", because=error)
            yield BootstrapFailed(error=error)
        yield from self._unreachable(links, now)
        yield from self._lost_now(links, now)

    def _unreachable(self, all_links: Iterable[Link], now: float) -> Iterator[Message]:
        advertised = self.advertised
        if not (advertised.in_doubt or advertised.told):
            return
        links = _to_brokers(all_links)
        if now >= advertised.due(links, now):
            error = advertised.complain(links, now)
            self._log.warning("brokers.unreachable", because=error)
            yield BrokersUnreachable(error=error)
        elif advertised.found(links):
            self._log.info("brokers.reached", broker=[one.address for one in links if one.is_open])
            yield BrokersReached()

    def _lost_now(self, links: Iterable[Link], now: float) -> Iterator[Message]:
        """Tell of brokers that are needed and have not been reached for long, and when they are."""
        lost: dict[int, str] = {}
        for link in links:
            since = link.attempts.failing_since
            # (Not a link for JoinGroup, which the broker keeps on purpose: the other links to the
            # same broker show whether it can be reached.)
            if since is None or link.node < 0 or link.holds or now < since + LOST_AFTER:
                continue
            if (
                link.attempts.begun_at >= now - LOST_AFTER or link.unsent
            ):  # else no request needs it
                why = reason_of(link.failure) if link.failure else "it hangs up"
                lost[link.node] = f"{link.address}: {why}"
        if lost.keys() == self._lost:
            return
        for node in lost.keys() - self._lost:
            self._log.warning("broker.lost", node=node, broker=lost[node], for_s=LOST_AFTER)
        self._lost = frozenset(lost)
        yield BrokersLost(brokers=lost)

    def to_probe(self, nodes: Collection[Link], now: float) -> list[Link]:
        """Brokers that no request needs. They are tried while no broker has answered."""
        if not self.advertised.in_doubt:
            return []
        room = PROBES - sum(one.state is LinkState.CONNECTING for one in nodes)
        due = [one for one in nodes if now >= self.advertised.probe_at(one)]
        return sorted(due, key=lambda one: one.attempts.begun_at)[: max(0, room)]

    def wake_at(
        self, links: Iterable[Link], nodes: Iterable[Link], now: float, *, anybody: bool
    ) -> float:
        """When something is to be said or tried, if no message comes before."""
        wake = self._bootstrap.complaint_due() if anybody else math.inf
        if not self.advertised.in_doubt:
            return wake
        probes = (self.advertised.probe_at(one) for one in nodes)
        due = self.advertised.due(_to_brokers(links), now)
        return min(wake, due, *(moment for moment in probes if moment > now), math.inf)


def _to_brokers(links: Iterable[Link]) -> list[Link]:
    """Everything that leads to an address which a broker advertises."""
    return [one for one in links if one.node >= 0]
