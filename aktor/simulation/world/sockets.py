"""Sockets over the simulated network, and a selector that waits in virtual time: for clients that
bring a loop of their own, as kafka-python's.

A socket carries bytes, in order, each piece after a latency; what a link does to it is the
network's. The selector's `select` is where such a client waits, so there others have their turns.
"""

from __future__ import annotations

import math
import selectors
from collections.abc import Callable
from typing import Any, Final

from aktor.broker.connection import Connection
from aktor.simulation.world.network import Network, OneWay
from aktor.simulation.world.scheduler import GLANCE, Scheduler, Task

__all__ = ["SimulatedSelector", "SimulatedSocket"]

#: A loop that looks at its sockets more often than this while the clock stands still takes some
#: time, as one that looks at the clock: kafka-python's goes on and on while it cannot send.
LOOKS: Final = 50

#: A selector always has something to wait for: its bell.
_BELL: Final = "bell"


class SimulatedSocket:
    """One connection of a client to a broker, as far as clients that do not block use sockets."""

    def __init__(
        self, network: Network, member: str, host: str, *, told: Callable[[], None]
    ) -> None:
        """To `host`, as `Network.broker` knows it. `told` hears of all that comes."""
        self.network = network
        self.node = network.broker(host)
        #: Why it is not connected, or not any more.
        self.error: OSError | None = None
        self.connected = False
        self._member = member
        self._told = told
        self._there = OneWay(network, (member, self.node))
        self._back = OneWay(network, (self.node, member))
        self._in = bytearray()
        self._hung_up = False
        #: Whether it is not closed at this end.
        self.open = True
        self._end: Connection | None = None
        if not network.leads_nowhere(host):
            self._there.send(self._reached)

    # -- what a client calls

    @property
    def readable(self) -> bool:
        """Whether `recv` has something to say."""
        return bool(self._in or self._hung_up or self.error)

    @property
    def writable(self) -> bool:
        """Whether `send` has: it is connected, or never will be."""
        return self.connected or self.error is not None

    def recv(self, size: int) -> bytes:
        """So many bytes at most; none if the other end is closed. Raises BlockingIOError if there
        are none yet, ConnectionResetError."""
        if self._in:
            data = bytes(self._in[:size])
            del self._in[:size]
            return data
        if self.error is not None:
            raise self.error
        if self._hung_up:
            return b""
        raise BlockingIOError

    def send(self, data: bytes | memoryview) -> int:
        """All of it, at once. Raises BrokenPipeError, or what `error` is."""
        if self.error is not None:
            raise self.error
        if not (self.open and self.connected):
            raise BrokenPipeError(f"{self} is not connected")
        for delay, piece in self.network.pieces(bytes(data)):
            self._there.send(lambda piece=piece: self._arrived(piece), delay)  # type: ignore[misc]
        return len(data)

    def close(self) -> None:
        """Close this end, orderly: what was sent arrives before the broker hears of that."""
        if self.open:
            self.open = self.connected = False
            self._there.send(self._ended)

    def shutdown(self, _how: int) -> None:
        """Nothing: it is closed right after."""

    def getpeername(self) -> tuple[str, int]:
        """The broker's address."""
        return f"b{self.node}", 9092

    def getsockname(self) -> tuple[str, int]:
        """Whose it is; ports do not matter here."""
        return self._member, 0

    def __str__(self) -> str:
        return f"the connection of {self._member} to broker b{self.node}"

    # -- what happens to it

    def reset(self) -> None:
        """It is broken, and says so."""
        if self.open and self.error is None:
            self.error = ConnectionResetError(f"{self} was reset")
            self.connected = False
            self._there.send(self._ended)
            self._told()

    def swallow(self) -> None:
        """From now on all that is sent vanishes, both ways."""
        self._there.dead = self._back.dead = True

    # -- at the broker's machine

    def _reached(self) -> None:
        network = self.network
        if self.node in network.brokers.running:
            self._end = network.accept(self.node, self._member, _End(self))
            self._back.send(self._opened)
        else:
            self._back.send(lambda: self._failed("refused the connection"))

    def _arrived(self, data: bytes) -> None:
        network, end = self.network, self._end
        if end is not None and end.open:
            end.take(data)
            network.at_broker(self.node, end.go_on)
        elif self.node in network.brokers.running:
            self._back.send(lambda: self._failed("knows no such connection"))

    def _ended(self) -> None:
        if self._end is not None:
            self.network.at_broker(self.node, self._end.close)

    # -- back at the client's

    def _opened(self) -> None:
        if self.open and self.error is None:
            self.connected = True
            self._told()

    def _failed(self, what: str) -> None:
        if self.error is None:
            self.error = ConnectionResetError(f"broker b{self.node} {what}")
            self.connected = False
            self._told()

    def hears(self, data: bytes) -> None:
        """Part of an answer is here."""
        if self.open:
            self._in += data
            self._told()

    def hears_the_end(self) -> None:
        """The broker has closed its end."""
        self._hung_up = True
        self._told()


class _End:
    """What carries a broker's answers to a socket (a `network.BrokersEnd`)."""

    unsent = False

    def __init__(self, socket: SimulatedSocket) -> None:
        self._socket = socket
        self.mute = False

    def send(self, frame: bytes) -> None:
        socket = self._socket
        for delay, piece in socket.network.pieces(frame):
            socket._back.send(lambda piece=piece: socket.hears(piece), delay)  # type: ignore[misc]

    def close(self) -> None:
        if not self.mute:
            self._socket._back.send(self._socket.hears_the_end)


class SimulatedSelector:
    """Owns which sockets a client waits for by `selectors`, and the waiting tasks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self._rung = False
        self._waiter: Task | None = None
        self._looks = 0
        self._looked_at = -math.inf

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Wait for this socket, too."""
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, -1, events, data)
        return key

    modify = register

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Wait for this socket no more. Raises KeyError."""
        return self._keys.pop(fileobj)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """The key with which this socket was registered. Raises KeyError."""
        return self._keys[fileobj]

    def get_map(self) -> dict[Any, Any]:
        """The keys of all registered sockets, and the bell: so it is never empty."""
        return {_BELL: None, **self._keys}

    def ring(self) -> None:
        """Let the waiting task look again."""
        self._rung = True
        if self._waiter is not None:
            self._waiter.wake()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The sockets of which there is news, once there is some, the bell has rung, or `timeout`
        seconds of virtual time have passed."""
        task = self._scheduler.running
        if task is not None:
            # Rounded up to ms, as by `selectors`: else a wait for a moment could come to no end.
            self._wait(task, math.inf if timeout is None else math.ceil(timeout * 1000) / 1000)
        self._rung = False
        return self._ready()

    def close(self) -> None:
        """Wait for nothing."""
        self._keys.clear()

    def _wait(self, task: Task, timeout: float) -> None:
        now = self._scheduler.now
        self._looks = self._looks + 1 if now == self._looked_at else 1
        self._looked_at = now
        if timeout > 0 and not self._rung and not self._ready():
            self._waiter = task
            task.wait(timeout, "its network")
            self._waiter = None
        elif self._looks > LOOKS:
            task.wait(GLANCE, "its network")
        else:
            task.pass_on()

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for socket, key in self._keys.items():
            events = (selectors.EVENT_READ if socket.readable else 0) | (
                selectors.EVENT_WRITE if socket.writable else 0
            )
            if events & key.events:
                found.append((key, events & key.events))
        return found
