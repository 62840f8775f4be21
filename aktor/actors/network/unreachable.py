"""Which unreachable brokers the application is told of, and when.

Three cases: no bootstrap server answers (`Bootstrap`); a server answers, but none of the addresses
that the brokers advertise (`Advertised`); or some brokers that are needed have not been reached for
long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from aktor.actors.network.bootstrap import GRACE, REPEAT, Bootstrap
from aktor.actors.network.links import Link, LinkState
from aktor.actors.runtime.manager import NEVER
from aktor.actors.sockets.diagnosis import reason_of
from aktor.errors import AuthenticationError, BrokersUnreachableError
from aktor.events.message import Message
from aktor.events.network import BootstrapFailed, BrokersLost, BrokersReached, BrokersUnreachable
from aktor.events.present import UNUSED_AFTER
from aktor.trace import Trace

__all__ = ["Complaints"]

#: As `GRACE`, if packets get no answer at all: TCP has sent its first packet three times by then
#: (0, 1 and 3 s), so the cause is neither a lost packet nor a slow start.
SILENCE: Final = 5.0

#: If none of the needed brokers has answered for so long, others are tried, too; each of them again
#: after PROBE_REPEAT.
PROBE_AFTER: Final = 1.0
PROBE_REPEAT: Final = 5.0

#: Brokers that are tried at a time, though nobody needs them, to know whether any can be reached.
PROBES: Final = 3


class Advertised:
    """Owns what is known of the addresses that the cluster's brokers advertise, whether one of them
    answers, and when the application was told last.

    A bootstrap server may be reachable while the addresses that it advertises are not (names of
    another network, a container's port). Its answers look as if all were well. So this class notes
    which addresses have ever answered. If a cluster that was reached goes down, that is no error:
    we wait.
    """

    def __init__(self) -> None:
        #: The broker that told us the addresses.
        self.by = ""
        #: One of the advertised addresses has answered.
        self.reached = False
        #: The application was told that none can be reached, and has not heard otherwise.
        self.complained = False
        self._answered: set[str] = set()
        self._addresses: frozenset[str] = frozenset()
        self._since: float | None = None
        self._complained_at = -math.inf
        self._wanted_at = -math.inf

    def told_by(self, address: str) -> None:
        """The broker at this address has answered Metadata: it told us the addresses."""
        self.by = address

    def changed(self, addresses: Iterable[str], *, others: Iterable[str]) -> None:
        """These addresses are advertised now. `others`: bootstrap addresses,
        which may be advertised later."""
        before, self._addresses = self._addresses, frozenset(addresses)
        self._answered &= self._addresses.union(others)
        self.reached = bool(self._answered & self._addresses)
        if before and not before & self._addresses:
            self._since, self._complained_at = None, -math.inf

    def answered(self, address: str, *, as_broker: bool) -> None:
        """A broker answered at this address. `as_broker`: it is an advertised address, even if no
        metadata with it has come yet (the coordinator's)."""
        self._answered.add(address)
        self.reached = self.reached or as_broker or address in self._addresses

    def tried(self, now: float) -> None:
        """A connection to one of the addresses is begun."""
        if self._since is None:
            self._since = now

    def wanted(self, now: float) -> None:
        """There is a request for one of these brokers."""
        self._wanted_at = now

    @property
    def in_doubt(self) -> bool:
        """Some of the addresses were tried, and none has answered yet."""
        return self._since is not None and not self.reached

    def probe_at(self, link: Link) -> float:
        """When to try this broker although no request needs it; inf if a broker was reached."""
        if self.reached or self._since is None or link.state is not LinkState.IDLE or link.unsent:
            return math.inf
        return max(
            self._since + PROBE_AFTER, link.attempts.begun_at + PROBE_REPEAT, link.attempts.retry_at
        )

    def due(self, links: Collection[Link], now: float) -> float:
        """When to tell the application that no broker can be reached; inf while one may be.

        `links` lead to the advertised addresses. The application is not told while it has no
        request for any of these brokers.
        """
        if not self.in_doubt or self._since is None or not self._addresses:
            return math.inf  # only the coordinator is known yet: others may be reached
        if self._wanted_at <= now - REPEAT and not any(link.unsent for link in links):
            return math.inf
        if any(link.is_open or isinstance(link.failure, AuthenticationError) for link in links):
            return math.inf  # a broker is there (if it refused our credentials, that was told)
        failures = {link.address: link.failure for link in links if link.failure is not None}
        enough = min(PROBES, len({link.address for link in links}))
        hard = len(failures) >= enough and not any(
            isinstance(failure.__cause__, TimeoutError) for failure in failures.values()
        )
        return max(self._since + (GRACE if hard else SILENCE), self._complained_at + REPEAT)

    def complain(self, links: Iterable[Link], now: float) -> BrokersUnreachableError:
        """The error to tell the application now."""
        self.complained, self._complained_at = True, now
        attempts: dict[str, str] = {}
        for link in sorted(links, key=lambda link: link.attempts.begun_at):
            if link.failure is not None:
                attempts[link.address] = reason_of(link.failure)
            elif link.state is LinkState.CONNECTING:
                attempts.setdefault(
                    link.address, f"no answer for {now - link.attempts.begun_at:.0f} s"
                )
        untried = len(self._addresses - attempts.keys())
        return BrokersUnreachableError(attempts=attempts, untried=untried, advertised_by=self.by)

    def found(self, links: Iterable[Link]) -> bool:
        """Whether the application is to be told, once, that a broker can be reached after all."""
        if not self.complained or not (self.reached or any(link.is_open for link in links)):
            return False
        self.complained = False
        return True


#: A broker that is needed and could not be reached for so long is named in `status()`.
LOST_AFTER: Final = 30.0


class Complaints:
    """Owns which brokers the application believes to be out of reach."""

    def __init__(self, bootstrap: Bootstrap, log: Trace) -> None:
        self.advertised = Advertised()
        self._bootstrap = bootstrap
        self._log = log
        self._lost: frozenset[int] = frozenset()
        #: Since when a broker, or bootstrap server, has been away, and when something last failed
        #: (perhaps on a connection of which nothing more is known).
        self._away: dict[int, tuple[float, float]] = {}

    def due(
        self, links: Collection[Link], now: float, *, anybody: bool
    ) -> tuple[list[Message], float]:
        """The messages to send now, and when the next one may be due if no message comes before.

        `anybody`: a request that any broker may answer waits.
        """
        said: list[Message] = []
        self._tell_who_returned(links, now)
        again_at = min(
            self._nobody_there(said, now) if anybody else NEVER,
            self._unreachable(said, links, now),
            self._lost_now(said, links, now),
        )
        return said, again_at

    def _tell_who_returned(self, links: Collection[Link], now: float) -> None:
        """Trace which brokers answer again that could not be used, and for how long that was."""
        away = self._away
        links = [link for link in links if not link.holds]  # see `_lost_now`
        for link in links:
            since = _failed_since(link)
            if since is None or (link.node not in away and _is_there(link, links, since)):
                continue
            begun, failed_at = away.get(link.node, (since, -math.inf))
            away[link.node] = begun, max(failed_at, link.attempts.failed_at)
        if not away:
            return
        is_one_open = any(link.is_open and link.node >= 0 for link in links)
        for node in list(away):
            those = [link for link in links if link.node == node]
            if not those or (node < 0 and is_one_open):
                del away[node]  # it left the cluster; or this server is not needed any more
            elif _heard_at(node, those) > away[node][1]:
                begun, failed_at = away.pop(node)
                self._log.info(
                    "broker.returned",
                    node=node,
                    address=those[0].address,
                    seconds=round(now - begun, 3),
                    failed_ago=round(now - failed_at, 3),
                )

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
                "brokers.reached", addresses=[link.address for link in links if link.is_open]
            )
            said.append(BrokersReached())
        return due

    def _lost_now(self, said: list[Message], links: Collection[Link], now: float) -> float:
        """Tell which needed brokers have not been reached for long, also when they are reached
        again."""
        lost: dict[int, tuple[str, str]] = {}
        again_at = NEVER
        for link in links:
            since = link.attempts.failing_since
            # (Not a link for JoinGroup, which the broker keeps on purpose: the other links to the
            # same broker show whether it can be reached.)
            if since is None or link.node < 0 or link.holds:
                continue
            begins = max(since, _heard_at(link.node, links)) + LOST_AFTER
            # A broker that is not tried for so long, though it might be, is one that no request
            # needs: its partitions and groups have gone to others.
            tried_at = max(link.attempts.begun_at, link.attempts.retry_at)
            ends = NEVER if link.unsent else tried_at + UNUSED_AFTER
            if begins <= now < ends:
                why = reason_of(link.failure) if link.failure else "it hangs up"
                lost[link.node] = link.address, why
            if now < ends:
                again_at = min(again_at, begins if now < begins else ends)
        if lost.keys() != self._lost:
            for node in lost.keys() - self._lost:
                address, why = lost[node]
                self._log.warning(
                    "broker.lost", node=node, address=address, seconds=LOST_AFTER, because=why
                )
            self._lost = frozenset(lost)
            told = {node: f"{address}: {why}" for node, (address, why) in lost.items()}
            said.append(BrokersLost(brokers=told))
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


def _failed_since(link: Link) -> float | None:
    """Since when attempts on this link have failed, or an answer was asked for that has not come in
    time; None: neither. (That a broker closes a connection is nothing unusual.)"""
    attempts = link.attempts
    if attempts.failure is None and attempts.silent_since == attempts.failing_since:
        return None
    return attempts.silent_since


def _is_there(failing: Link, links: Iterable[Link], since: float) -> bool:
    """Whether its broker has answered since then, or has another connection to us, though it has
    closed this one."""
    attempts = failing.attempts
    others = [one for one in links if one.node == failing.node and one is not failing]
    if attempts.silent_since == attempts.failing_since and any(one.is_open for one in others):
        return True
    return _heard_at(failing.node, links) > since


def _heard_at(node: int, links: Iterable[Link]) -> float:
    """When this broker has last answered, on any connection."""
    return max([link.heard.at for link in links if link.node == node])
