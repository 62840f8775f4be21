"""The way to a first broker: the bootstrap servers, and whether any broker has answered yet.

Metadata names the brokers, and a first broker has to be asked for it. When no broker that it named
can be reached any more, the bootstrap servers are asked again (KIP-899). While no broker has ever
answered, an application that waits is told so, again and again.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aktor.actors.network.links import Link
from aktor.actors.sockets.diagnosis import reason_of
from aktor.errors import AuthenticationError, BootstrapError
from aktor.state_table import follow

__all__ = ["GRACE", "PAUSE", "REPEAT", "Bootstrap", "BootstrapEvent", "BootstrapState"]

#: How long hard failures (connection refused, an unknown name) may last before the application is
#: told that no server can be reached; a broker that is just starting gets this time.
GRACE: Final = 2.0

#: The longest pause before a bootstrap server is tried again, in seconds, unless the user's
#: `reconnect_backoff_ms` is longer. With the 30 s of `reconnect_backoff_max_ms` a program that is
#: started 13 s before its Kafka would wait for it for 26 s. Java's default for all connections.
PAUSE: Final = 1.0

#: While no server can be reached, the application is told once in this many seconds.
REPEAT: Final = 2.0


class BootstrapState(enum.Enum):
    """Whether a broker has answered, and which servers are asked for the brokers."""

    UNTRIED = "untried"
    """No connection was begun, because there was no request."""

    TRYING = "trying"
    """Connections were begun to known brokers, not to bootstrap servers; none has answered yet."""

    ASKING = "asking"
    """The bootstrap servers are asked; none has answered yet."""

    FAILED = "failed"
    """As ASKING, for so long that the application was told."""

    REACHED = "reached"
    """A broker has answered."""

    ASKING_AGAIN = "asking again"
    """A broker has answered before, but none that is known can be reached now: the bootstrap
    servers are asked again (KIP-899)."""


class BootstrapEvent(enum.Enum):
    """What moves the bootstrap from one state to the next."""

    TRIED = "tried"
    """A connection is begun, to a server or to a broker."""
    ASKED = "asked"
    """A bootstrap server is asked, because no broker is known that can be reached."""
    TOLD = "told"
    """The application is told that no broker has answered."""
    ANSWERED = "answered"
    """A broker has answered."""


_S, _E = BootstrapState, BootstrapEvent

#: The whole machine. A pair that is not here is a bug in us.
TRANSITIONS: Final[Mapping[BootstrapState, Mapping[BootstrapEvent, BootstrapState]]] = {
    _S.UNTRIED: {_E.TRIED: _S.TRYING, _E.ASKED: _S.ASKING, _E.ANSWERED: _S.REACHED},
    _S.TRYING: {
        _E.TRIED: _S.TRYING,
        _E.ASKED: _S.ASKING,
        _E.TOLD: _S.FAILED,
        _E.ANSWERED: _S.REACHED,
    },
    _S.ASKING: {
        _E.TRIED: _S.ASKING,
        _E.ASKED: _S.ASKING,
        _E.TOLD: _S.FAILED,
        _E.ANSWERED: _S.REACHED,
    },
    _S.FAILED: {
        _E.TRIED: _S.FAILED,
        _E.ASKED: _S.FAILED,
        _E.TOLD: _S.FAILED,
        _E.ANSWERED: _S.REACHED,
    },
    _S.REACHED: {
        _E.TRIED: _S.REACHED,
        _E.ASKED: _S.ASKING_AGAIN,
        _E.ANSWERED: _S.REACHED,
    },
    _S.ASKING_AGAIN: {
        _E.TRIED: _S.ASKING_AGAIN,
        _E.ASKED: _S.ASKING_AGAIN,
        _E.ANSWERED: _S.REACHED,
    },
}


class Bootstrap:
    """Owns the bootstrap servers, and what the application was told of them.

    `patience`: how long to wait for servers that send no answer (`bootstrap_timeout_ms`).
    """

    def __init__(self, servers: Sequence[Link], *, patience: float) -> None:
        self.state = BootstrapState.UNTRIED
        self._servers = list(servers)
        self._patience = patience
        #: When the first connection was begun, and when the application was told last.
        self._began_at = math.inf
        self._told_at = -math.inf

    def __iter__(self) -> Iterator[Link]:
        return iter(self._servers)

    @property
    def is_begun(self) -> bool:
        """Whether a connection was begun, to any broker."""
        return self.state is not BootstrapState.UNTRIED

    @property
    def is_nobody_there(self) -> bool:
        """No broker has answered, and none has refused our credentials (the application was told of
        a refusal at once)."""
        reached = self.state in (BootstrapState.REACHED, BootstrapState.ASKING_AGAIN)
        refused = any(isinstance(server.failure, AuthenticationError) for server in self._servers)
        return not reached and not refused

    def begin_with(self, jitter: float) -> None:
        """Choose the server to ask first by chance, so that not all clients ask the same one."""
        start = int(jitter * len(self._servers))
        self._servers = self._servers[start:] + self._servers[:start]

    def on(self, event: BootstrapEvent) -> bool:
        """The only place where `state` is assigned; returns whether it changed."""
        before = self.state
        self.state = follow(TRANSITIONS, before, event)
        return self.state is not before

    def tried(self, now: float) -> None:
        """A connection is begun, to a server or to a broker."""
        self._began_at = min(self._began_at, now)
        self.on(BootstrapEvent.TRIED)

    def answered(self) -> bool:
        """A broker has answered. Returns whether the application was told that none did."""
        told = self.state is BootstrapState.FAILED
        self.on(BootstrapEvent.ANSWERED)
        return told

    def complaint_due(self) -> float:
        """When to tell the application that no broker can be reached; inf if one can."""
        if not self.is_begun or not self.is_nobody_there:
            return math.inf
        failures = [server.failure for server in self._servers]
        hard = all(failure is not None and not _ran_out_of_time(failure) for failure in failures)
        return max(self._began_at + (GRACE if hard else self._patience), self._told_at + REPEAT)

    def complain(self, now: float) -> BootstrapError:
        """The error to tell the application now."""
        self._told_at = now
        self.on(BootstrapEvent.TOLD)
        return self.error()

    def error(self) -> BootstrapError:
        """An error that says how the attempts so far have ended."""
        attempts = {
            server.address: reason_of(server.failure) if server.failure else "no answer yet"
            for server in self._servers
        }
        return BootstrapError(attempts=attempts)


def _ran_out_of_time(error: Exception) -> bool:
    return isinstance(error.__cause__, TimeoutError)
