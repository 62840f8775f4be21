"""A socket as the wire of a connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from aktor.broker.stream import Stream


class Pair:
    """A stream, and the client at its other end."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.client = socket.create_connection(listener.getsockname())
        self.client.settimeout(30.0)
        sock, _ = listener.accept()
        listener.close()
        self.closed: list[Stream] = []
        self.stream = Stream(sock, self.closed.append)

    def arrived(self, count: int) -> None:
        """Wait until so many bytes, or the end, are here."""
        sock = self.stream.sock
        sock.setblocking(True)
        sock.recv(count, socket.MSG_PEEK | socket.MSG_WAITALL)
        sock.setblocking(False)

    def close(self) -> None:
        self.client.close()
        self.stream.sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_what_has_come_is_received(pair: Pair) -> None:
    assert pair.stream.receive() is None

    pair.client.sendall(b"hello")
    pair.arrived(5)

    assert pair.stream.receive() == b"hello"


def test_the_end_of_the_other_side_is_noticed(pair: Pair) -> None:
    pair.client.close()
    pair.arrived(1)

    assert pair.stream.receive() == b""


def test_what_cannot_be_sent_now_is_kept_and_sent_later(pair: Pair) -> None:
    data = bytes(range(256)) * 64 * 1024
    pair.stream.send(data)
    assert pair.stream.unsent

    received = bytearray()
    while len(received) < len(data):
        received += pair.client.recv(1 << 20)
        pair.stream.flush()

    assert received == data
    assert not pair.stream.unsent


def test_who_watches_the_socket_is_told_before_it_is_closed(pair: Pair) -> None:
    pair.stream.close()

    assert pair.closed == [pair.stream]
    assert pair.client.recv(1) == b""
