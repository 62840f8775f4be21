"""Which unreachable brokers the application is told of, and when.

Three cases: no bootstrap server answers (`Bootstrap`); a server answers, but none of the addresses
that the brokers advertise (`Advertised`); or some brokers that are needed have not been reached for
long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from aktor.actors.network.advertised import PROBES, Advertised
from aktor.actors.network.bootstrap import Bootstrap
from aktor.actors.network.links import Link, LinkState
from aktor.actors.runtime.manager import NEVER
from aktor.actors.sockets.diagnosis import reason_of
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

    def due(
        self, links: Collection[Link], now: float, *, anybody: bool
    ) -> tuple[list[Message], float]:
        """The messages to send now, and when the next one may be due if no message comes before.

        `anybody`: a request that any broker may answer waits.
        """
        said: list[Message] = []
        again_at = min(
            self._nobody_there(said, now) if anybody else NEVER,
            self._unreachable(said, links, now),
            self._lost_now(said, links, now),
        )
        return said, again_at

    def _nobody_there(self, said: list[Message], now: float) -> float:
        if now >= self._bootstrap.complaint_due():
            error: Exception = self._bootstrap.complain(now)
            self._log.warning("bootstrap.failed", because=error)
            said.append(BootstrapFailed(error=error))
        return self._bootstrap.complaint_due()

    def _unreachable(self, said: list[Message], all_links: Iterable[Link], now: float) -> float:
        advertised = self.advertised
        if not (advertised.in_doubt or advertised.complained):
            return NEVER
        links = [link for link in all_links if link.node >= 0]  # those to advertised addresses
        due = advertised.due(links, now)
        if now >= due:
            error = advertised.complain(links, now)
            self._log.warning("brokers.unreachable", because=error)
            said.append(BrokersUnreachable(error=error))
            return advertised.due(links, now)
        if advertised.found(links):
            self._log.info(
                "brokers.reached", broker=[link.address for link in links if link.is_open]
            )
            said.append(BrokersReached())
        return due

    def _lost_now(self, said: list[Message], links: Iterable[Link], now: float) -> float:
        """Tell which needed brokers have not been reached for long, also when they are reached
        again."""
        lost: dict[int, str] = {}
        again_at = NEVER
        for link in links:
            since = link.attempts.failing_since
            # (Not a link for JoinGroup, which the broker keeps on purpose: the other links to the
            # same broker show whether it can be reached.)
            if since is None or link.node < 0 or link.holds:
                continue
            begins = since + LOST_AFTER
            # A broker that is not tried for so long is one that no request needs.
            ends = NEVER if link.unsent else link.attempts.begun_at + LOST_AFTER
            if begins <= now < ends:
                why = reason_of(link.failure) if link.failure else "it hangs up"
                lost[link.node] = f"{link.address}: {why}"
            if now < ends:
                again_at = min(again_at, begins if now < begins else ends)
        if lost.keys() != self._lost:
            for node in lost.keys() - self._lost:
                self._log.warning("broker.lost", node=node, broker=lost[node], for_s=LOST_AFTER)
            self._lost = frozenset(lost)
            said.append(BrokersLost(brokers=lost))
        return again_at

    def to_probe(self, nodes: Collection[Link], now: float) -> tuple[list[Link], float]:
        """Brokers that no request needs, to be tried now while no broker has answered; and when
        there may be others, if no message comes before."""
        if not self.advertised.in_doubt:
            return [], NEVER
        moments = {node: self.advertised.probe_at(node) for node in nodes}
        due = [link for link, moment in moments.items() if moment <= now]
        due.sort(key=lambda link: link.attempts.begun_at)
        # If there is no room for a broker that is due, it waits until an attempt ends: a message
        # tells that.
        room = max(0, PROBES - sum(node.state is LinkState.CONNECTING for node in nodes))
        later = (moment for moment in moments.values() if moment > now)
        return due[:room], min(later, default=NEVER)
