"""Rules of the sockets: each is tried against a small server that does what a script says."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import random
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import (
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    JoinGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.sockets import frames
from aktor.actors.sockets.threads import PATIENCE
from aktor.errors import AuthenticationError, FrameError
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from tests.unit.actors.sockets.certificates import Certificates
from tests.unit.actors.sockets.net_client import LIMIT, Client, opened
from tests.unit.actors.sockets.sasl_broker import give_token, plain, read_token, scram, shake_hands
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Peer,
    Script,
    ScriptedBroker,
    api_versions,
    framed,
    metadata,
)
from tests.unit.leftovers import open_files

SECRET = "hunter2-canary"


@contextlib.contextmanager
def open_to(script: Script, **settings: Any) -> Iterator[tuple[Client, ScriptedBroker]]:
    """A client with an open connection "a" to a broker which greets and then does `script`."""

    def greet_first(peer: Peer) -> None:
        peer.greet()
        script(peer)

    with ScriptedBroker(greet_first) as broker, Client(**settings) as client:
        assert isinstance(client.connect(broker.port), ConnectionOpened)
        yield client, broker
        assert broker.errors == []


def serve(peer: Peer) -> None:
    peer.serve()


def in_silence(peer: Peer) -> None:
    while peer.sock.recv(10_000):
        pass


def hang_up(peer: Peer) -> None:
    peer.read()


def a_fetch() -> Any:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )


def a_fetch_response(version: int, records: bytes) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    return FetchResponse(
        version=version,
        throttle_time_ms=0,
        error_code=0,
        session_id=7,
        responses=[
            topic(
                version=version,
                topic="t",
                partitions=[
                    topic.PartitionData(
                        version=version,
                        partition_index=3,
                        error_code=0,
                        high_watermark=9,
                        last_stable_offset=9,
                        log_start_offset=0,
                        aborted_transactions=None,
                        preferred_read_replica=-1,
                        records=records,
                    )
                ],
            )
        ],
    )


# -- requests and answers


def test_a_request_is_sent_in_the_newest_version_both_speak_and_answered() -> None:
    with open_to(serve) as (client, _):
        request = client.send()
        report = client.next()

    assert isinstance(report, RequestAnswered)
    assert (report.key, report.request_id, report.version) == ("a", request, SPOKEN[3])
    assert report.response.brokers[0].host == "broker.example"


def test_the_same_body_can_be_sent_to_brokers_of_different_versions() -> None:
    def old(peer: Peer) -> None:
        peer.greet({18: 0, 3: 1})
        peer.serve()

    body = MetadataRequest(topics=None)
    with open_to(serve) as (client, _), ScriptedBroker(old) as other:
        assert isinstance(client.connect(other.port, key="b"), ConnectionOpened)
        versions = [client.ask(body, key=key).version for key in "aba"]

    assert versions == [12, 1, 12]


def test_a_request_that_the_broker_does_not_speak_breaks_alone() -> None:
    with open_to(serve) as (client, broker):
        report = client.ask(JoinGroupRequest(group_id="g"))

        assert isinstance(report, RequestBroken)
        assert isinstance(report.error, UnsupportedVersionError)
        assert f"127.0.0.1:{broker.port}" in str(report.error)
        assert isinstance(client.ask(), RequestAnswered)


def test_a_body_that_cannot_be_encoded_breaks_alone() -> None:
    with open_to(serve) as (client, _):
        report = client.ask(MetadataRequest(topics=5))

        assert isinstance(report, RequestBroken)
        assert "MetadataRequest" in str(report.error)
        assert isinstance(client.ask(), RequestAnswered)


def test_a_request_for_a_connection_that_is_gone_breaks() -> None:
    with Client() as client:
        report = client.ask(key="never")

    assert isinstance(report, RequestBroken)
    assert isinstance(report.error, KafkaConnectionError)


def test_reports_tell_the_time_of_the_clock_that_the_net_is_given() -> None:
    with open_to(hang_up) as (client, _):
        client.clock = lambda: 42.0
        client.send(key="gone")
        client.send()
        reports = [client.next(), client.next()]

    assert [(type(one), one.now) for one in reports] == [
        (RequestBroken, 42.0),
        (ConnectionClosed, 42.0),
    ]


def test_a_configured_api_version_is_an_upper_bound() -> None:
    with open_to(serve, connection={"api_version": (1, 0)}) as (client, _):
        assert client.ask().version == 5


def test_a_fetch_is_read_in_place() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.answer(request, a_fetch_response(request.version, bytes(3_000_000)))

    with open_to(script) as (client, _):
        response = client.ask(a_fetch()).response

    (partition,) = response.partitions
    assert response.session_id == 7
    assert partition.records == bytes(3_000_000)
    assert isinstance(partition.records, memoryview)
    assert partition.records.readonly


def test_a_throttling_broker_is_reported_unless_it_is_so_old_that_it_waited_itself() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        response = metadata(request.version)
        response.throttle_time_ms = 250
        peer.answer(request, response)

    with open_to(script, connection={"api_version": (2, 0)}) as (client, _):
        assert client.ask().throttle == 0.25
    with open_to(script, connection={"api_version": (1, 1)}) as (client, _):
        assert client.ask().throttle == 0.0


# -- a broker that hangs up at a version of ApiVersions


class HangsUp:
    """A script: close the connection at versions of ApiVersions above `known`, serve else."""

    def __init__(self, known: int) -> None:
        self.known = known
        self.asked: list[int] = []

    def __call__(self, peer: Peer) -> None:
        request = peer.read()
        self.asked.append(request.version)
        if request.version <= self.known:
            peer.answer(request, api_versions(request.version, SPOKEN | {18: self.known}))
            peer.serve()


@pytest.mark.parametrize(
    ("known", "asked"), [(4, [4]), (3, [4, 3]), (2, [4, 3, 0]), (0, [4, 3, 0])]
)
def test_a_broker_that_hangs_up_at_a_version_is_asked_in_an_older_one(
    known: int, asked: list[int]
) -> None:
    script = HangsUp(known)
    with ScriptedBroker(script) as broker, Client() as client:
        reports = [client.connect(broker.port) for _ in asked]

    assert script.asked == asked
    assert [type(report) for report in reports] == [
        *[ConnectionFailed] * (len(asked) - 1),
        ConnectionOpened,
    ]


def test_the_version_that_a_broker_answered_is_remembered_for_this_broker_only() -> None:
    old, new = HangsUp(3), HangsUp(4)
    with ScriptedBroker(old) as one, ScriptedBroker(new) as other, Client() as client:
        client.connect(one.port)
        for key in ("b", "c"):
            assert isinstance(client.connect(one.port, key=key), ConnectionOpened)
        assert isinstance(client.connect(other.port, key="d"), ConnectionOpened)

    assert (old.asked, new.asked) == ([4, 3, 3], [4])


def test_after_the_oldest_version_the_newest_is_asked_again() -> None:
    script = HangsUp(-1)
    with ScriptedBroker(script) as broker, Client() as client:
        errors = [str(client.connect(broker.port).error) for _ in range(4)]

    assert script.asked == [4, 3, 0, 4]
    assert all("api_version" in error and "expect TLS" in error for error in errors)
    assert "ApiVersions v4" in errors[0]
    assert "older than Kafka 0.10" in errors[2]


def test_an_old_api_version_of_the_settings_is_asked_in_no_newer_one() -> None:
    script = HangsUp(0)
    with (
        ScriptedBroker(script) as broker,
        Client(connection={"api_version": (1, 0)}) as client,
    ):
        assert isinstance(client.connect(broker.port), ConnectionFailed)
        assert isinstance(client.connect(broker.port), ConnectionOpened)

    assert script.asked == [1, 0]


def test_a_hang_up_after_the_versions_changes_nothing() -> None:
    asked: list[int] = []

    def script(peer: Peer) -> None:
        request = peer.read()
        asked.append(request.version)
        peer.answer(request, api_versions(request.version, SPOKEN | {18: 4}))

    with ScriptedBroker(script) as broker, Client() as client:
        for _ in range(2):
            assert isinstance(client.connect(broker.port), ConnectionOpened)
            assert isinstance(client.next(), ConnectionClosed)

    assert asked == [4, 4]


# -- bytes in pieces


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


# -- opening and closing


def test_a_refused_connection_names_the_broker_and_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client() as client:
        report = client.connect(port)

    assert isinstance(report, ConnectionFailed)
    assert str(report.error) == (
        f"KafkaConnectionError: broker 127.0.0.1:{port}: Connection refused"
    )
    assert isinstance(report.error.__cause__, ConnectionRefusedError)


def test_a_broker_that_says_nothing_fails_after_the_timeout() -> None:
    with ScriptedBroker(in_silence) as broker, Client() as client:
        report = client.connect(broker.port, timeout=0.2)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error.__cause__, TimeoutError)
    assert "0.2 s" in str(report.error)


def test_something_that_is_not_kafka_is_called_so() -> None:
    def script(peer: Peer) -> None:
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.read()

    with ScriptedBroker(script) as broker, Client() as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, FrameError)
    assert "HTTP" in str(report.error)


def test_a_listener_that_hangs_up_at_the_first_request_seems_to_expect_a_login() -> None:
    with open_to(hang_up) as (client, _):
        report = client.ask()

    assert isinstance(report, ConnectionClosed)
    assert "login (SASL)" in str(report.error)


def test_a_closed_connection_reports_nothing_more() -> None:
    with open_to(serve) as (client, _):
        client.send()
        client.net.close_connection("a")
        client.idle(0.1)

        assert client.told == []


def test_a_request_that_nobody_waits_for_any_more_never_leaves_the_send_buffer() -> None:
    """As if the link was cut: the broker's machine takes no more, until the client has hung up."""
    closed = threading.Event()
    ends: queue.SimpleQueue[str] = queue.SimpleQueue()

    def script(peer: Peer) -> None:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        closed.wait(LIMIT)
        try:
            peer.read()
            ends.put("the whole request")
        except (EOFError, ConnectionError) as end:
            ends.put(type(end).__name__)

    with open_to(script, connection={"send_buffer_bytes": 1_000_000}) as (client, _):
        topic = MetadataRequest.MetadataRequestTopic(name="t" * 20_000)
        client.send(MetadataRequest(topics=10 * [topic]))
        client.idle(0.05)
        client.net.close_connection("a")
        closed.set()

        assert ends.get(timeout=LIMIT) == "ConnectionResetError"


@pytest.mark.parametrize("how", ["a connection that owes nothing", "all of them"])
def test_an_end_without_a_request_to_send_again_is_orderly(how: str) -> None:
    """With its last request, say a LeaveGroup, still on its way when all of them are closed."""
    ends: queue.SimpleQueue[str] = queue.SimpleQueue()

    def script(peer: Peer) -> None:
        try:
            if how == "all of them":
                peer.read()
            peer.read()
        except (EOFError, ConnectionError) as end:
            ends.put(type(end).__name__)

    with open_to(script) as (client, _):
        if how == "all of them":
            client.send()
            client.net.close()
        else:
            client.net.close_connection("a")

        assert ends.get(timeout=LIMIT) == "EOFError"


def test_an_attempt_can_be_given_up() -> None:
    with ScriptedBroker(in_silence) as broker, Client() as client:
        client.net.connect("a", "127.0.0.1", broker.port, LIMIT)
        client.idle(0.05)
        client.net.close_connection("a")
        client.idle(0.05)

        assert client.told == []


def test_a_wait_without_end_is_ended_from_another_thread() -> None:
    with Client() as client:
        threading.Timer(0.05, client.net.wake).start()
        client.net.wait(float("inf"))


def test_waking_a_closed_net_is_harmless() -> None:
    with Client() as client:
        client.net.close()
        client.net.wake()
        client.net.close()


def test_closing_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)
    names.gate.clear()
    before = open_files()
    with ScriptedBroker(serve) as broker:
        server = open_files() - before
        client = Client()
        client.connect(broker.port)
        client.net.connect("opening", "127.0.0.1", broker.port, LIMIT)
        client.net.connect("looking", "slow.example", broker.port, LIMIT)
        client.net.close()
        client_side = open_files() - before - server
        # What is left are the broker's ends of up to two connections.
        assert len(client_side) <= 2
    names.gate.set()
    end = time.monotonic() + LIMIT
    while left := open_files() - before:
        assert time.monotonic() < end, f"still open: {left}"
        time.sleep(0.01)


def test_a_forked_child_that_closes_its_copy_does_not_disturb_the_parent() -> None:
    with open_to(serve) as (client, _):
        child = os.fork()
        if child == 0:
            client.net.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

        assert isinstance(client.ask(), RequestAnswered)
        threading.Timer(0.05, client.net.wake).start()
        client.net.wait(float("inf"))


def test_socket_options_and_buffer_sizes_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[tuple[int, ...]] = []
    original = socket.socket.setsockopt

    def noting(sock: socket.socket, *option: int) -> None:
        options.append(option)
        original(sock, *option)

    monkeypatch.setattr(socket.socket, "setsockopt", noting)
    keep_alive = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection = {
        "socket_options": [keep_alive],
        "receive_buffer_bytes": 32768,
        "send_buffer_bytes": -1,
    }
    with open_to(serve, connection=connection):
        pass

    assert keep_alive in options
    assert (socket.SOL_SOCKET, socket.SO_RCVBUF, 32768) in options
    assert not any(option[1] == socket.SO_SNDBUF for option in options)


def test_what_is_raised_while_connecting_is_reported_at_once_whatever_it_is() -> None:
    connection = {"socket_options": [("a", "b", "c")]}
    with ScriptedBroker(in_silence) as broker, Client(connection=connection) as client:
        report = client.connect(broker.port, timeout=1.0)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error.__cause__, TypeError)


# -- names


def greeting_only(peer: Peer) -> None:
    peer.greet()


class Names:
    """A resolver for tests: every name has these addresses, once the gate is open. It asks no DNS,
    which may take longer than any test where there is no network."""

    def __init__(self, *addresses: str) -> None:
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.addresses = addresses

    def __call__(self, host: str, port: int, **more: Any) -> Any:
        if more.get("flags", 0) & socket.AI_NUMERICHOST:
            return socket.getaddrinfo(host, port, **more)
        self.asked.append(host)
        self.gate.wait(LIMIT)
        more.pop("flags", None)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = [one for ip in self.addresses for one in socket.getaddrinfo(ip, port, **more)]
        return [(*one[:3], "canonical.example", one[4]) for one in found]


def test_a_slow_look_up_does_not_block_the_others() -> None:
    names = Names("127.0.0.1")
    names.gate.clear()
    with open_to(serve, resolve=names) as (client, broker):
        client.net.connect("slow", "slow.example", broker.port, LIMIT)
        assert client.ask().key == "a"

        names.gate.set()
        assert client.next() == opened("slow")


def test_a_look_up_that_takes_too_long_ends_with_the_attempt() -> None:
    names = Names("127.0.0.1")
    names.gate.clear()
    with Client(resolve=names) as client:
        report = client.connect(1, "slow.example", timeout=0.1)
        names.gate.set()
        client.idle(0.1)

        assert isinstance(report.error.__cause__, TimeoutError)
        assert client.told == []


def test_a_name_is_looked_up_anew_for_every_attempt() -> None:
    names = Names("127.0.0.1")
    with ScriptedBroker(serve) as broker, Client(resolve=names) as client:
        for key in "ab":
            assert client.connect(broker.port, "moving.example", key=key) == opened(key)

    assert names.asked == ["moving.example", "moving.example"]


def test_all_addresses_of_a_name_are_tried() -> None:
    names = Names("127.0.0.9", "127.0.0.1")
    with ScriptedBroker(serve) as broker, Client(resolve=names) as client:
        assert client.connect(broker.port, "both.example") == opened("a")


@contextlib.contextmanager
def a_black_hole(address: str) -> Iterator[int]:
    """A port of this address where packets vanish: its queue of connections is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, 0))
        listener.listen(0)
        for _ in range(3):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_an_address_that_swallows_everything_does_not_keep_the_next_from_being_tried() -> None:
    with (
        a_black_hole("127.0.0.2") as port,
        ScriptedBroker(serve, address=("127.0.0.1", port)),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(port, "both.example") == opened("a")


def test_an_address_that_swallows_everything_is_said_to_have_opened_no_connection() -> None:
    with a_black_hole("127.0.0.2") as port, Client(resolve=Names("127.0.0.2")) as client:
        failed = client.connect(port, "one.example", timeout=0.3)

    assert isinstance(failed, ConnectionFailed)
    assert "no answer within 0.3 s while the connection was opened" in str(failed.error)


def test_an_address_that_connects_and_is_silent_gives_way_to_the_next_at_the_next_attempt() -> None:
    with (
        ScriptedBroker(in_silence, address=("127.0.0.2", 0)) as silent,
        ScriptedBroker(serve, address=("127.0.0.1", silent.port)),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        first = client.connect(silent.port, "both.example", timeout=0.5)
        second = client.connect(silent.port, "both.example", key="b")

    assert isinstance(first, ConnectionFailed)
    assert second == opened("b")


def test_a_second_connection_begins_with_the_address_that_the_first_one_found() -> None:
    with (
        ScriptedBroker(serve) as works,
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(works.port, "both.example") == opened("a")
        with ScriptedBroker(in_silence, address=("127.0.0.2", works.port)):
            second = client.connect(works.port, "both.example", key="b", timeout=0.5)

    assert second == opened("b")


def test_after_a_lost_connection_the_next_address_is_tried() -> None:
    with (
        ScriptedBroker(greeting_only, address=("127.0.0.2", 0)) as leaves,
        ScriptedBroker(serve, address=("127.0.0.1", leaves.port)),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(leaves.port, "both.example") == opened("a")
        assert isinstance(client.next(), ConnectionClosed)
        client.connect(leaves.port, "both.example", key="b")

        assert isinstance(client.ask(key="b"), RequestAnswered)


def test_a_name_that_does_not_exist_is_called_so() -> None:
    with Client(resolve=Names()) as client:
        report = client.connect(9092, "no-such-name.invalid")

    assert isinstance(report, ConnectionFailed)
    assert "no-such-name.invalid:9092" in str(report.error)
    assert isinstance(report.error.__cause__, socket.gaierror)


# -- proxies


def test_an_http_proxy_is_gone_through() -> None:
    lines: list[bytes] = []

    def script(peer: Peer) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += peer.sock.recv(1000)
        lines.append(data.split(b"\r\n")[0])
        peer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        peer.serve()

    with ScriptedBroker(script) as proxy:
        connection = {"proxy_url": f"http://127.0.0.1:{proxy.port}"}
        with Client(connection=connection) as client:
            assert client.connect(9092, "far.example") == opened("a")
            assert isinstance(client.ask(), RequestAnswered)

    assert lines == [b"CONNECT far.example:9092 HTTP/1.1"]


def test_a_bad_proxy_address_is_not_quoted_since_it_may_hold_a_password() -> None:
    with Client(connection={"proxy_url": f"user:{SECRET}@nowhere"}) as client:
        report = client.connect(9092)

    assert isinstance(report, ConnectionFailed)
    assert SECRET not in text_of(report.error)


# -- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def tls(certificates: Certificates, **more: Any) -> dict[str, Any]:
    connection = {"ssl_cafile": str(certificates.ca_file), **more}
    return {"security_protocol": "SSL", "connection": connection}


def test_answers_of_any_size_come_through_tls(certificates: Certificates) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        while True:
            request = peer.read()
            peer.answer(request, a_fetch_response(request.version, bytes(5_000_000)))

    broker = ScriptedBroker(script, tls=certificates.server("broker"))
    with broker, Client(**tls(certificates)) as client:
        assert client.connect(broker.port) == opened("a")
        first, second = client.send(a_fetch()), client.send(a_fetch())
        answers = [client.next(), client.next()]

    assert [one.request_id for one in answers] == [first, second]
    assert all(len(one.response.partitions[0].records) == 5_000_000 for one in answers)


class Renegotiating:
    """A socket under TLS as it looks when the broker begins another handshake: nothing can be sent
    until what the broker says next has been read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.must_hear = False
        self.attempts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def do_handshake(self) -> None:
        """It is done."""

    def send(self, data: Any) -> int:
        if self.must_hear:
            self.attempts += 1
            raise ssl.SSLWantReadError
        return self._sock.send(data)

    def recv_into(self, buffer: Any, *more: Any) -> int:
        if self.must_hear:
            self._sock.recv(1)
            self.must_hear = False
            raise ssl.SSLWantReadError
        return self._sock.recv_into(buffer, *more)


class RenegotiatingContext:
    """Makes such sockets."""

    def wrap_socket(self, sock: socket.socket, **_: Any) -> Renegotiating:
        self.sock = Renegotiating(sock)
        return self.sock


def test_what_tls_cannot_send_before_it_has_heard_waits_for_that_without_spinning() -> None:
    context, go = RenegotiatingContext(), threading.Event()

    def script(peer: Peer) -> None:
        go.wait(LIMIT)
        peer.write(b"!")
        peer.serve()

    settings = {"security_protocol": "SSL", "connection": {"ssl_context": context}}
    with open_to(script, **settings) as (client, _):
        context.sock.must_hear = True
        client.send()
        client.send()
        client.idle(0.2)
        assert context.sock.attempts == 1

        go.set()
        answers = [client.next(), client.next()]

    assert [type(one) for one in answers] == [RequestAnswered] * 2


@pytest.mark.parametrize(
    ("certificate", "settings", "reason"),
    [
        ("expired", {}, "certificate has expired"),
        ("elsewhere", {}, "not valid for '127.0.0.1'"),
        ("broker", {"ssl_cafile": None}, "self-signed certificate|unable to get local issuer"),
        ("broker", {"ssl_cafile": "/no/such/file"}, "certificate settings cannot be used"),
    ],
)
def test_a_certificate_that_does_not_hold_is_an_authentication_error_with_the_reason(
    certificates: Certificates, certificate: str, settings: dict[str, Any], reason: str
) -> None:
    broker = ScriptedBroker(serve, tls=certificates.server(certificate))
    with broker, Client(**tls(certificates, **settings)) as client:
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error, AuthenticationError)
    assert report.error.mechanism == "SSL"
    with pytest.raises(AuthenticationError, match=reason):
        raise report.error


def test_a_canonical_name_is_the_one_that_certificates_are_checked_against(
    certificates: Certificates,
) -> None:
    broker = ScriptedBroker(serve, tls=certificates.server("broker"))
    with broker, Client(**tls(certificates), resolve=Names("127.0.0.1")) as client:
        report = client.connect(broker.port, "alias.example", canonical=True)

    assert "not valid for 'canonical.example'" in str(report.error)


def test_a_host_name_is_not_checked_if_that_is_asked_for(certificates: Certificates) -> None:
    broker = ScriptedBroker(serve, tls=certificates.server("elsewhere"))
    with broker, Client(**tls(certificates, ssl_check_hostname=False)) as client:
        assert client.connect(broker.port) == opened("a")


def test_a_broker_that_wants_a_client_certificate_refuses_one_without(
    certificates: Certificates,
) -> None:
    context = certificates.server("broker")
    context.load_verify_locations(certificates.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    broker = ScriptedBroker(serve, tls=context)
    own = {"ssl_certfile": str(certificates.file("broker"))}
    with broker, Client(**tls(certificates)) as without, Client(**tls(certificates, **own)) as well:
        report = without.connect(broker.port)
        assert well.connect(broker.port) == opened("a")

    assert isinstance(report.error, AuthenticationError)
    assert "certificate required" in str(report.error)


def test_plain_text_to_a_tls_listener_is_called_so(certificates: Certificates) -> None:
    broker = ScriptedBroker(serve, tls=certificates.server("broker"))
    with broker, Client() as client:
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert "expect TLS" in str(report.error)


@pytest.mark.parametrize("says", [b"", b"whatever is not TLS"])
def test_tls_to_a_plain_listener_is_called_so(certificates: Certificates, says: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(10_000)
        peer.write(says)

    with ScriptedBroker(script) as broker, Client(**tls(certificates)) as client:
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert "not to use TLS" in str(report.error)


# -- logging in


def sasl(mechanism: str = "PLAIN", **connection: Any) -> dict[str, Any]:
    connection.setdefault("sasl_plain_username", "alice")
    connection.setdefault("sasl_plain_password", SECRET)
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "connection": connection,
    }


def text_of(error: BaseException) -> str:
    """Everything that is printed of an error: its text, its causes, its traceback."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


LOGINS = {"PLAIN": plain, "SCRAM-SHA-256": scram}


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_right_password_opens(mechanism: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, SECRET)
        peer.serve()

    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        assert client.connect(broker.port) == opened("a")
        assert isinstance(client.ask(), RequestAnswered)
        assert broker.errors == []


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_wrong_password_is_an_authentication_error(mechanism: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, "another")

    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error, AuthenticationError)
    assert isinstance(report.error, SaslAuthenticationFailedError)
    assert report.error.mechanism == mechanism
    assert report.error.broker == f"127.0.0.1:{broker.port}"


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("password", [SECRET, "another"])
def test_the_password_is_in_no_log_and_no_error(
    mechanism: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python logs it at DEBUG: the request's repr, and the bytes sent."""

    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, password)
        peer.read()
        peer.write(b"\0\0\0\4junk")

    caplog.set_level(1)
    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        reports = [client.connect(broker.port)]
        if isinstance(reports[0], ConnectionOpened):
            reports.append(client.ask())

    assert reports[-1].error is not None
    shown = caplog.text + repr(reports) + text_of(reports[-1].error)
    assert "canary" not in shown
    assert repr(SECRET.encode())[2:-1] not in shown


def test_a_mechanism_that_the_broker_does_not_offer_is_refused_with_what_it_offers() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "SCRAM-SHA-512", "GSSAPI", error_code=33)

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "it offers SCRAM-SHA-512, GSSAPI" in str(report.error)


def test_a_listener_without_logins_is_called_so() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, error_code=34)

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "not to use SASL" in str(report.error)


def test_a_broker_before_1_0_gets_bare_tokens_and_says_no_by_hanging_up() -> None:
    def script(peer: Peer) -> None:
        peer.greet({**SPOKEN, 17: 0})
        shake_hands(peer, "PLAIN")
        if peer.read_token().endswith(SECRET.encode()):
            peer.write(struct.pack(">i", 0))
            peer.serve()

    wrong = sasl(sasl_plain_password="x")
    with ScriptedBroker(script) as broker, Client(**sasl()) as alice, Client(**wrong) as eve:
        assert alice.connect(broker.port) == opened("a")
        assert isinstance(alice.ask(), RequestAnswered)
        report = eve.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)


class Token(AbstractTokenProvider):
    """Gives out what it was made with, or raises it, once its gate is open."""

    def __init__(self, given: str | BaseException) -> None:
        self.given = given
        self.calls = 0
        self.asked = threading.Event()
        self.answered = False
        self.gate = threading.Event()
        self.gate.set()

    def token(self) -> str:
        self.calls += 1
        self.asked.set()
        self.gate.wait(LIMIT)
        self.answered = True
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


def test_a_token_that_takes_its_time_does_not_block_the_others() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        request, token = read_token(peer)
        assert b"auth=Bearer t0ken" in token
        give_token(peer, request)
        peer.serve()

    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        client.net.connect("a", "127.0.0.1", broker.port, LIMIT)
        while not provider.asked.is_set():
            client.net.wait(0.1)
        client.idle(0.1)
        assert not provider.answered, "who waits for a token turns the loop meanwhile"
        provider.gate.set()

        assert client.next() == opened("a")
        assert broker.errors == []


def test_a_token_provider_that_raises_is_an_authentication_error_with_its_cause() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    failure = LookupError("no token today")
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(failure))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "no token today" in str(report.error)
    assert report.error.__cause__ is failure


def test_what_a_token_provider_quotes_of_its_tokens_is_in_no_error_text() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    failure = RuntimeError(f"the token was {SECRET}: https://idp/token?client_secret={SECRET}")
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(failure))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "RuntimeError: the token was ***" in str(report.error)
    assert "canary" not in str(report.error) + repr(report)
    assert report.error.__cause__ is failure


def test_a_token_provider_that_exits_fails_the_attempt_at_once() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(SystemExit("no token")))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "SystemExit: no token" in str(report.error)


def logs_in(peer: Peer) -> None:
    peer.greet()
    shake_hands(peer, "OAUTHBEARER")
    request, _ = read_token(peer)
    give_token(peer, request)
    peer.serve()


def test_attempts_leave_one_thread_behind_while_a_token_provider_hangs() -> None:
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        for _ in range(3):
            assert isinstance(client.connect(broker.port, timeout=0.3), ConnectionFailed)
        assert provider.calls == 1

        provider.gate.set()
        assert isinstance(client.connect(broker.port), ConnectionOpened)
    assert provider.calls == 2


def test_several_connections_ask_for_their_tokens_side_by_side() -> None:
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        for key in "ab":
            client.net.connect(key, "127.0.0.1", broker.port, LIMIT)
        while provider.calls < 2:
            client.net.wait(0.1)
        provider.gate.set()

        assert {client.next().key, client.next().key} == {"a", "b"}


def test_a_call_that_never_ends_does_not_stop_all_logins() -> None:
    """Another one is begun after a while."""
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    calls = []
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        for now in (0.0, 1.0, PATIENCE, PATIENCE + 1.0, PATIENCE + 2.0, 2 * PATIENCE + 1.0):
            client.clock = lambda now=now: now  # type: ignore[misc]
            assert isinstance(client.connect(broker.port, timeout=0.3), ConnectionFailed)
            calls.append(provider.calls)
        provider.gate.set()
        assert isinstance(client.connect(broker.port), ConnectionOpened)

    assert calls == [1, 1, 1, 2, 2, 2]


def test_a_token_provider_that_never_answers_is_named_when_the_time_is_over() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        client.net.connect("a", "127.0.0.1", broker.port, 0.5)
        report = client.next()
        provider.gate.set()

    assert isinstance(report, ConnectionFailed)
    assert "no answer from the token provider" in str(report.error)
    assert "within 0.5 s" in str(report.error)


def test_a_login_is_renewed_before_it_ends_and_requests_wait_for_it() -> None:
    """KIP-368."""
    logins = []

    def script(peer: Peer) -> None:
        peer.greet()
        plain(peer, SECRET, lifetime_ms=1000)
        logins.append(time.monotonic())
        plain(peer, SECRET)
        logins.append(time.monotonic())
        peer.serve()

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        assert client.connect(broker.port, jitter=0.0) == opened("a")
        while len(logins) < 2:
            client.net.wait(0.05)
        assert isinstance(client.ask(), RequestAnswered)
        assert broker.errors == []

    assert logins[1] - logins[0] > 0.5, "not before it is time"


def test_a_login_that_cannot_be_renewed_ends_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        plain(peer, SECRET, lifetime_ms=1000)
        plain(peer, "changed meanwhile")

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        assert client.connect(broker.port) == opened("a")
        report = client.next()

    assert isinstance(report, ConnectionClosed)
    assert "could not be renewed" in str(report.error)


# -- the log


def test_lost_and_refused_connections_are_not_logged_a_second_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are reported, and the network actor traces them."""
    caplog.set_level(logging.DEBUG)
    with open_to(hang_up) as (client, _):
        assert isinstance(client.ask(), ConnectionClosed)
        assert isinstance(client.connect(1, key="refused"), ConnectionFailed)

    assert [one for one in caplog.records if one.name.startswith("kafka")] == []
