"""The sockets of the scripted world: a `wire.Net` below the real network actor, in virtual time.

As with real brokers, one connection's requests are answered in order, so that a parked JoinGroup
keeps what is behind it waiting. Bodies and answers cross in encoded form, in the newest version
that kafka-python speaks: a field that this version lacks is lost here, too.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.events.message import Message
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.protocol.fetch import FetchResponse
from tests.scenarios.cluster import Cluster
from tests.scenarios.group import Timeline

#: What the brokers speak.
VERSIONS = BrokerVersionData((4, 0))

#: One way, in seconds.
FASTEST = 0.0005
SLOWEST = 0.003


class NetWorld(Timeline, Protocol):
    """What the net needs of the world."""

    cluster: Cluster
    random: random.Random


class ScriptedNet:
    """Owns the connections of one consumer."""

    def __init__(self, world: NetWorld, client_id: str, tell: Callable[[Message], None]) -> None:
        self._world = world
        self._client_id = client_id
        self._tell = tell
        self._connections: dict[str, _Connection] = {}
        world.cluster.on_down.append(self.broker_down)

    # -- what the network actor calls

    def connect(
        self,
        key: str,
        host: str,
        port: int,
        timeout: float,
        *,
        canonical: bool = False,
        jitter: float = 0.5,
    ) -> None:
        """Broker n is the host "b<n>", or as it advertises."""
        connection = _Connection(key, self._world.cluster.node_at(host))
        self._connections[key] = connection
        unreachable = self._world.cluster.unreachable
        if unreachable.get(host, "") is None:
            reason, after = f"not connected within {timeout:g} s", timeout
        else:
            reason, after = unreachable.get(host), self._latency()
        self._world.after(after, lambda: self._connected(connection, host, reason))

    def _connected(self, connection: _Connection, host: str, reason: str | None) -> None:
        if self._connections.get(connection.key) is not connection:
            return
        if reason is not None:
            del self._connections[connection.key]
            error = KafkaConnectionError(f"broker {host}: {reason}")
            if reason.startswith("not connected"):
                error.__cause__ = TimeoutError()
            self._tell(ConnectionFailed(key=connection.key, error=error, now=self._world.now))
        elif self._world.cluster.up.get(connection.node):
            self._tell(ConnectionOpened(key=connection.key, now=self._world.now))
        else:
            del self._connections[connection.key]
            error = KafkaConnectionError(f"broker b{connection.node}: connection refused")
            self._tell(ConnectionFailed(key=connection.key, error=error, now=self._world.now))

    def send(self, key: str, request_id: int, body: Any) -> None:
        """Into the queue of the broker's end of the connection."""
        connection = self._connections.get(key)
        if connection is None:
            error = KafkaConnectionError(f"connection {key} is closed")
            self._tell(
                RequestBroken(key=key, request_id=request_id, error=error, now=self._world.now)
            )
            return
        kind = type(body)
        if kind.name.removesuffix("Request") in self._world.cluster.too_old_for:
            old = IncompatibleBrokerVersion(f"broker b{connection.node} is too old for {kind.name}")
            self._tell(
                RequestBroken(key=key, request_id=request_id, error=old, now=self._world.now)
            )
            return
        version = VERSIONS.api_version(body)
        frame = body.encode(version=version)

        def arrive() -> None:
            connection.queue.append((request_id, version, kind.decode(frame, version=version)))
            self._serve(connection)

        self._in_order(connection, arrive)

    def has_heard(self, key: str) -> bool:
        """Answers arrive whole here."""
        return False

    def close_connection(self, key: str) -> None:
        """No more reports about it."""
        self._connections.pop(key, None)

    def close(self) -> None:
        """Close everything."""
        self._connections.clear()
        self._world.cluster.on_down.remove(self.broker_down)

    def wait(self, timeout: float) -> None:
        """The world does the waiting."""

    def wake(self) -> None:
        """The world is awake."""

    def prepare_to_rest(self) -> None:
        """There is no thread that rests."""

    # -- what the world calls

    def broker_down(self, node: int) -> None:
        """Every connection to this broker ends."""
        for connection in [one for one in self._connections.values() if one.node == node]:
            del self._connections[connection.key]
            error = KafkaConnectionError(f"broker b{node} closed the connection")
            self._tell(ConnectionClosed(key=connection.key, error=error, now=self._world.now))

    # -- the brokers' end

    def _serve(self, connection: _Connection) -> None:
        """One request after the other: the next is looked at when this one is answered."""
        if connection.busy or not connection.queue:
            return
        if self._connections.get(connection.key) is not connection:
            return
        connection.busy = True
        request_id, version, body = connection.queue.popleft()

        def reply(response: Any) -> None:
            connection.busy = False
            self._in_order(connection, lambda: self._answer(connection, request_id, response))
            self._serve(connection)

        self._world.cluster.handle(connection.node, body, self._client_id, _encoded(reply, version))

    def _answer(self, connection: _Connection, request_id: int, answer: tuple[Any, int]) -> None:
        if self._connections.get(connection.key) is not connection:
            return
        response, version = answer
        self._tell(
            RequestAnswered(
                key=connection.key,
                request_id=request_id,
                response=response,
                version=version,
                now=self._world.now,
            )
        )

    def _in_order(self, connection: _Connection, act: Callable[[], None]) -> None:
        """After the latency, and not before what was sent the same way earlier."""
        now = self._world.now
        connection.busy_until = max(now + self._latency(), connection.busy_until)
        self._world.after(connection.busy_until - now, act)

    def _latency(self) -> float:
        return self._world.random.uniform(FASTEST, SLOWEST)


class _Connection:
    """One connection and the requests that wait at its far end."""

    def __init__(self, key: str, node: int) -> None:
        self.key = key
        self.node = node
        self.queue: deque[tuple[int, int, Any]] = deque()
        self.busy = False
        self.busy_until = 0.0


def _encoded(reply: Callable[[tuple[Any, int]], None], version: int) -> Callable[[Any], None]:
    def through_the_wire(response: Any) -> None:
        if not isinstance(response, FetchResponse):
            kind = type(response)
            response = kind.decode(response.encode(version=version), version=version)
        reply((response, version))

    return through_the_wire
