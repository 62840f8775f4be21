"""The sockets: requests and answers, and what ends a connection."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time

import pytest
from kafka.errors import (
    KafkaConnectionError,
    UnsupportedVersionError,
)
from kafka.protocol.consumer import (
    JoinGroupRequest,
)
from kafka.protocol.metadata import MetadataRequest

from aktor.errors import FrameError
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from tests.unit.actors.sockets.builders import (
    Names,
    a_fetch,
    a_fetch_response,
    in_silence,
    open_to,
    serve,
)
from tests.unit.actors.sockets.net_client import LIMIT, Client
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Peer,
    ScriptedBroker,
    metadata,
)
from tests.unit.leftovers import open_files


def hang_up(peer: Peer) -> None:
    peer.read()


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


# -- opening and closing


def test_a_refused_connection_names_the_broker_and_the_reason() -> None:
    with socket.socket() as nobody, Client() as client:
        nobody.bind(("127.0.0.1", 0))  # and does not listen: no other test gets the port
        port = nobody.getsockname()[1]
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
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error.__cause__, TypeError)


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
