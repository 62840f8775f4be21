"""Connections over TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any

import pytest

from aktor.errors import AuthenticationError
from aktor.events.sockets import (
    ConnectionFailed,
    RequestAnswered,
)
from tests.unit.actors.sockets.builders import (
    Names,
    a_fetch,
    a_fetch_response,
    open_to,
    serve,
)
from tests.unit.actors.sockets.certificates import Certificates
from tests.unit.actors.sockets.net_client import LIMIT, Client, opened
from tests.unit.actors.sockets.scripted_broker import (
    Peer,
    ScriptedBroker,
)


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
