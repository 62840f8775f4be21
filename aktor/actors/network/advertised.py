"""The addresses that a cluster's brokers advertise, and whether a single one of them answers.

A bootstrap server may be reachable while the addresses that it advertises are not (names of another
network, a container's port). Its answers look as if all were well. So this class notes which
addresses have ever answered. If a cluster that was reached goes down, that is no error: we wait.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from aktor.actors.network.bootstrap import GRACE, REPEAT
from aktor.actors.network.links import Link, LinkState
from aktor.actors.sockets.diagnosis import reason_of
from aktor.errors import AuthenticationError, BrokersUnreachableError

__all__ = ["PROBES", "Advertised"]

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
    """Owns what is known of the advertised addresses, and when the application was told last."""

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
