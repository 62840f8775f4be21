"""Bytes in, frames out of them; frames to send, bytes out."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from aktor.broker.connection import Connection, FrameTooLargeError

LARGEST = 1000


class Pair:
    """A connection, and the client at its other end."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.client = socket.create_connection(listener.getsockname())
        self.client.settimeout(5.0)
        sock, _ = listener.accept()
        listener.close()
        self.connection = Connection(sock, number=1, node=1, host="127.0.0.1")

    def arrive(self, data: bytes) -> None:
        """Have these bytes sent and received."""
        self.client.sendall(data)
        before = self.connection.sock
        before.setblocking(True)
        before.recv(len(data), socket.MSG_PEEK | socket.MSG_WAITALL)
        before.setblocking(False)
        assert self.connection.receive()

    def close(self) -> None:
        self.client.close()
        self.connection.sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def test_a_frame_is_there_when_its_last_byte_is(pair: Pair) -> None:
    for byte in frame(b"hello")[:-1]:
        pair.arrive(bytes([byte]))
        assert pair.connection.next_frame(LARGEST) is None

    pair.arrive(b"o")

    assert pair.connection.next_frame(LARGEST) == b"hello"
    assert pair.connection.next_frame(LARGEST) is None


def test_frames_that_came_at_once_are_taken_one_by_one(pair: Pair) -> None:
    pair.arrive(frame(b"a") + frame(b"") + frame(b"b") + frame(b"c")[:3])

    assert [pair.connection.next_frame(LARGEST) for _ in range(4)] == [b"a", b"", b"b", None]


@pytest.mark.parametrize("size", [LARGEST + 1, 2**31 - 1, -1, -(2**31)])
def test_a_frame_of_an_impossible_size_is_refused_before_it_comes(pair: Pair, size: int) -> None:
    pair.arrive(struct.pack(">i", size))

    with pytest.raises(FrameTooLargeError, match=str(size)):
        pair.connection.next_frame(LARGEST)


def test_the_end_of_the_other_side_is_noticed(pair: Pair) -> None:
    assert pair.connection.receive()

    pair.client.close()
    pair.connection.sock.setblocking(True)
    pair.connection.sock.recv(1, socket.MSG_PEEK)

    assert not pair.connection.receive()


def test_what_cannot_be_sent_now_is_kept_and_sent_later(pair: Pair) -> None:
    data = bytes(range(256)) * 64 * 1024
    pair.connection.send(data)
    assert pair.connection.unsent

    received = bytearray()
    while len(received) < len(data):
        received += pair.client.recv(1 << 20)
        pair.connection.flush()

    assert received == data
    assert not pair.connection.unsent


def test_nothing_may_be_handled_while_an_answer_is_due_or_not_sent(pair: Pair) -> None:
    connection = pair.connection
    assert connection.idle

    connection.busy = True
    assert not connection.idle
    connection.busy = False

    connection.send(b"x" * 32 * 1024 * 1024)
    assert connection.unsent
    assert not connection.idle


def test_a_connection_that_is_to_end_handles_nothing_more(pair: Pair) -> None:
    pair.connection.close_when_sent = True

    assert not pair.connection.idle


def test_while_a_request_is_handled_not_much_more_is_read(pair: Pair) -> None:
    connection = pair.connection
    connection.busy = True
    pair.client.setblocking(False)

    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            pair.client.send(b"x" * 100_000)
        if not connection.hungry:
            break
        connection.receive()

    assert not connection.hungry
    connection.busy = False
    assert connection.hungry


def test_a_connection_says_whose_it_is(pair: Pair) -> None:
    assert repr(pair.connection) == "<Connection 1 of 127.0.0.1 to broker 1>"
