"""What the sockets make of bytes that come in pieces, too many, or damaged."""

from __future__ import annotations

import random
import socket
import struct
import threading

import pytest
from kafka.errors import (
    KafkaConnectionError,
)
from kafka.protocol.consumer import (
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.sockets import frames
from aktor.errors import FrameError
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionOpened,
    RequestAnswered,
)
from tests.unit.actors.sockets.builders import (
    a_fetch,
    open_to,
    serve,
)
from tests.unit.actors.sockets.net_client import LIMIT, Client
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Peer,
    ScriptedBroker,
    framed,
    metadata,
)


def test_an_answer_that_drips_byte_by_byte_is_read() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        for byte in framed(request, metadata(request.version)):
            peer.write(bytes([byte]))

    with open_to(script) as (client, _):
        assert isinstance(client.ask(), RequestAnswered)


def test_two_answers_in_one_segment_are_both_read() -> None:
    def script(peer: Peer) -> None:
        requests = peer.read(), peer.read()
        peer.write(b"".join(framed(one, metadata(one.version)) for one in requests))

    with open_to(script) as (client, _):
        first, second = client.send(), client.send()
        assert [client.next().request_id, client.next().request_id] == [first, second]


def test_an_answer_before_the_end_of_the_stream_is_not_lost() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.answer(request, metadata(request.version, nodes=range(20_000)))

    with open_to(script) as (client, _):
        client.send()

        assert len(client.next().response.brokers) == 20_000
        assert isinstance(client.next(), ConnectionClosed)


@pytest.mark.parametrize("length", [-1, -(2**31), 5001, 2**31 - 1])
def test_a_frame_of_an_impossible_length_is_refused_before_its_content(length: int) -> None:
    def script(peer: Peer) -> None:
        peer.read()
        peer.write(struct.pack(">i", length))
        peer.read()

    with open_to(script, connection={"receive_message_max_bytes": 5000}) as (client, _):
        report = client.ask()

    assert isinstance(report, ConnectionClosed)
    assert isinstance(report.error, FrameError)
    assert str(length) in str(report.error)


def test_an_answer_cut_off_at_any_byte_closes_the_connection() -> None:
    """kafka-python raises IndexError at 14 of 78 places, and leaves the connection open."""
    cut = 0

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        whole = framed(request, metadata(request.version))[4:]
        peer.write(struct.pack(">i", cut) + whole[:cut])
        peer.read()

    class Whole:
        correlation_id = 0

    length = len(framed(Whole, metadata(12))) - 4  # type: ignore[arg-type]
    with ScriptedBroker(script) as broker, Client() as client:
        for cut in range(length):  # the script reads it
            assert isinstance(client.connect(broker.port), ConnectionOpened)
            report = client.ask()
            assert isinstance(report, ConnectionClosed), f"cut after {cut} of {length} bytes"
            assert isinstance(report.error, FrameError)
            assert str(broker.port) in report.error.broker


def test_a_cut_off_string_at_the_very_end_is_not_taken_for_a_shorter_one() -> None:
    """kafka-python's decoder slices without looking whether so much is there."""

    def script(peer: Peer) -> None:
        peer.greet({**SPOKEN, 14: 0})
        request = peer.read()
        response = SyncGroupResponse(version=0, error_code=0, assignment=b"ten bytes.")
        whole = framed(request, response)[4:]
        peer.write(struct.pack(">i", len(whole) - 3) + whole[:-3])
        peer.read()

    with ScriptedBroker(script) as broker, Client() as client:
        assert isinstance(client.connect(broker.port), ConnectionOpened)
        report = client.ask(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"))

    assert isinstance(report, ConnectionClosed)
    assert isinstance(report.error, FrameError)


def test_garbage_is_an_answer_or_closes_the_connection() -> None:
    rng = random.Random(7)

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        head = struct.pack(">i", request.correlation_id)
        body = head + rng.randbytes(rng.randrange(200))
        peer.write(struct.pack(">i", len(body)) + body)
        peer.read()

    closed = 0
    with ScriptedBroker(script) as broker, Client() as client:
        for _ in range(100):
            assert isinstance(client.connect(broker.port), ConnectionOpened)
            report = client.ask(rng.choice([MetadataRequest(topics=None), a_fetch()]))
            if isinstance(report, ConnectionClosed):
                closed += 1
                assert isinstance(report.error, FrameError)
            else:
                assert isinstance(report, RequestAnswered)
                client.net.close_connection("a")

    assert closed > 50


def test_an_answer_to_another_request_closes_the_connection() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        request.correlation_id += 1
        peer.answer(request, metadata(request.version))

    with open_to(script) as (client, _):
        report = client.ask()

    assert isinstance(report.error, FrameError)


def test_an_answer_to_no_request_closes_the_connection() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.write(2 * framed(request, metadata(request.version)))
        peer.read()

    with open_to(script) as (client, _):
        assert isinstance(client.ask(), RequestAnswered)
        assert isinstance(client.next().error, FrameError)


def test_a_broker_that_hangs_up_amid_an_answer_closes_the_connection() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.write(framed(request, metadata(request.version))[:20])

    with open_to(script) as (client, _):
        report = client.ask()

    assert isinstance(report, ConnectionClosed)
    assert isinstance(report.error, KafkaConnectionError)


def test_a_peer_that_never_stops_sending_does_not_starve_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once its long answer has begun, the peer always has more than we can take."""
    original = socket.socket.recv_into
    endless, taken = [0], [0]
    received: dict[int, int] = {}

    def recv_into(sock: socket.socket, space: memoryview) -> int:
        peer = sock.getpeername()[1]
        if peer != endless[0]:
            count = original(sock, space)
            received[peer] = received.get(peer, 0) + count
            return count
        count = min(len(space), 4096)  # in small pieces, so that the answer takes its time
        taken[0] += count
        return count

    def script(peer: Peer) -> None:
        peer.greet()
        peer.read()
        peer.write(struct.pack(">i", 99_000_000))
        begun.wait(LIMIT)
        peer.write(bytes(100_000))
        peer.read()

    begun = threading.Event()
    monkeypatch.setattr(socket.socket, "recv_into", recv_into)
    monkeypatch.setattr(frames, "_made", frames.GrowingFrame)  # the other one: see `test_frames`
    with open_to(serve) as (client, _), ScriptedBroker(script) as other:
        assert isinstance(client.connect(other.port, key="flood"), ConnectionOpened)
        before = received[other.port]
        client.send(key="flood")
        while received[other.port] == before:  # until its length is here
            client.net.wait(0.1)
        assert received[other.port] == before + 4
        endless[0] = other.port
        begun.set()

        while not taken[0]:
            client.net.wait(LIMIT)
        assert taken[0] <= 3_000_000
        assert client.ask().key == "a"
