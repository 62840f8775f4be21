"""An application's side of kafka_net: what it sends, and what it hears."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

from kafka.protocol.metadata import MetadataRequest

from aktor.actors.sockets.addresses import Resolver
from aktor.actors.sockets.kafka_net import KafkaNet
from aktor.events.sockets import ConnectionOpened
from aktor.settings import Settings

#: However a test fails, it fails within this time.
LIMIT = 30.0


def opened(key: str) -> ConnectionOpened:
    """That this connection is open, whichever version the broker has, and whenever it was."""
    return ConnectionOpened(key=key, broker_version=ANY, now=ANY)


class Client:
    """A KafkaNet and what it has reported."""

    def __init__(self, *, resolve: Resolver = socket.getaddrinfo, **settings: Any) -> None:
        self.told: list[Any] = []
        self.clock: Callable[[], float] = time.monotonic
        self.net = KafkaNet(
            Settings(**settings), self.told.append, lambda: self.clock(), resolve=resolve
        )
        self.ids = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.net.close()

    def connect(self, port: int, host: str = "127.0.0.1", *, key: str = "a", **more: Any) -> Any:
        """Connect; returns the report."""
        self.net.connect(key, host, port, more.pop("timeout", LIMIT), **more)
        return self.next()

    def send(self, body: Any = None, *, key: str = "a") -> int:
        self.ids += 1
        self.net.send(key, self.ids, body or MetadataRequest(topics=None))
        return self.ids

    def ask(self, body: Any = None, *, key: str = "a") -> Any:
        """Send; returns the report."""
        self.send(body, key=key)
        return self.next()

    def next(self) -> Any:
        """The next report."""
        end = time.monotonic() + LIMIT
        while not self.told:
            assert time.monotonic() < end, "no report came"
            self.net.wait(0.1)
        return self.told.pop(0)

    def idle(self, seconds: float) -> None:
        """Turn the loop for this long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.net.wait(0.01)
