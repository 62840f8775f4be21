"""Rules of the conversation with a proxy: byte for byte, and through sockets."""

from __future__ import annotations

import base64
import socket
import threading
import time
from typing import Any

import pytest

from aktor.actors.sockets.proxy import ProxyError, parse_proxy, tunnel
from aktor.events.sockets import ConnectionFailed, RequestAnswered
from tests.unit.actors.sockets.net_client import LIMIT, Client, opened
from tests.unit.actors.sockets.scripted_broker import Peer, ScriptedBroker

SECRET = "hunter2-canary"


def converse(url: str, answers: bytes, host: str = "far.example", port: int = 9092) -> bytes:
    """What is sent to a proxy that answers so; all of its answers must be taken."""
    sent, steps = b"", tunnel(parse_proxy(url), host, port)
    received: bytes | None = None
    while True:
        try:
            step = steps.send(received) if received else next(steps)
        except StopIteration:
            assert answers == b""
            return sent
        received = None
        if isinstance(step, bytes):
            sent += step
        else:
            assert len(answers) >= step, "it waits for more than the proxy says"
            received, answers = answers[:step], answers[step:]


NO_LOGIN, PASSWORD, LET_IN = b"\x05\x00", b"\x05\x02", b"\x01\x00"
FROM_IPV4 = b"\x05\x00\x00\x01" + bytes(6)
FROM_IPV6 = b"\x05\x00\x00\x04" + bytes(18)
FROM_NAME = b"\x05\x00\x00\x03\x05proxy\x00\x00"


# -- SOCKS5 (RFC 1928, RFC 1929)


@pytest.mark.parametrize("answer", [FROM_IPV4, FROM_IPV6, FROM_NAME])
def test_socks5_connects_whatever_address_the_proxy_connects_from(answer: bytes) -> None:
    sent = converse("socks5h://p:1080", NO_LOGIN + answer)

    assert sent == b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0bfar.example" + b"\x23\x84"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize(
    ("host", "destination"),
    [
        ("10.0.0.7", b"\x01\x0a\x00\x00\x07"),
        ("2001:db8::1", b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01"),
        ("fe80::1%eth0", b"\x04\xfe\x80" + bytes(13) + b"\x01"),
    ],
)
def test_socks5_sends_an_address_as_an_address(scheme: str, host: str, destination: bytes) -> None:
    sent = converse(f"{scheme}://p:1080", NO_LOGIN + FROM_IPV4, host)

    assert sent == b"\x05\x01\x00" + b"\x05\x01\x00" + destination + b"\x23\x84"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("b\u00fccher.example", b"xn--bcher-kva.example"),
        ("under_score.example", b"under_score.example"),
        ("a" * 60 + "." + "b" * 60 + "." + "c" * 60 + ".example", None),
    ],
)
def test_socks5h_sends_names_as_dns_knows_them(host: str, name: bytes | None) -> None:
    name = name or host.encode()
    sent = converse("socks5h://p:1080", NO_LOGIN + FROM_IPV4, host)

    assert sent == b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x23\x84"


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("alice:secret", "alice", "secret"),
        ("al%40ice:p%3A%2F%23%25", "al@ice", "p:/#%"),
        ("zo\u00eb:p\u00e4ss", "zo\u00eb", "p\u00e4ss"),
        ("zo%C3%AB:p%C3%A4ss", "zo\u00eb", "p\u00e4ss"),
        ("alice:", "alice", ""),
        ("alice", "alice", ""),
        (f"{'u' * 200}:{'p' * 255}", "u" * 200, "p" * 255),
        ("100%:x", "100%", "x"),
    ],
)
def test_socks5_logs_in_with_what_the_address_means(url: str, user: str, password: str) -> None:
    sent = converse(f"socks5h://{url}@p:1080", PASSWORD + LET_IN + FROM_IPV4)

    name, secret = user.encode(), password.encode()
    login = b"\x01" + bytes([len(name)]) + name + bytes([len(secret)]) + secret
    assert sent.startswith(b"\x05\x02\x00\x02" + login + b"\x05\x01\x00\x03")


def test_socks5_does_not_log_in_where_the_proxy_wants_none() -> None:
    sent = converse("socks5h://alice:secret@p:1080", NO_LOGIN + FROM_IPV4)

    assert b"alice" not in sent


@pytest.mark.parametrize(
    ("url", "answers", "said"),
    [
        ("p:1080", b"HT", "no SOCKS5 proxy"),
        ("p:1080", b"\x05\xff", "wants a user name and password"),
        ("p:1080", PASSWORD, "wants a user name and password"),
        (f"a:{SECRET}@p:1080", b"\x05\xff", "no login that we know"),
        (f"a:{SECRET}@p:1080", PASSWORD + b"\x01\x01", "refuses the user name or password"),
        (f"a:{SECRET * 30}@p:1080", PASSWORD, "more than 255 bytes"),
        ("p:1080", NO_LOGIN + b"\x05\x05\x00\x01", "connection refused"),
        ("p:1080", NO_LOGIN + b"\x05\x02\x00\x01", "not allowed"),
        ("p:1080", NO_LOGIN + b"\x05\x63\x00\x01", "reply 99"),
        ("p:1080", NO_LOGIN + b"\x05\x00\x00\x09", "unknown type of address"),
    ],
)
def test_socks5_says_why_the_proxy_does_not_connect(url: str, answers: bytes, said: str) -> None:
    with pytest.raises(ProxyError, match=said) as refused:
        converse(f"socks5h://{url}", answers)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("host", ["a" * 256, "\u00fc" * 70 + ".example"])
def test_socks5_refuses_a_name_that_cannot_be_sent(host: str) -> None:
    with pytest.raises(ProxyError, match="name"):
        converse("socks5h://p:1080", NO_LOGIN, host)


# -- HTTP CONNECT (RFC 9110, section 9.3.6)


OK = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("far.example", "far.example:9092"),
        ("10.0.0.7", "10.0.0.7:9092"),
        ("2001:db8::1", "[2001:db8::1]:9092"),
        ("b\u00fccher.example", "xn--bcher-kva.example:9092"),
    ],
)
def test_connect_names_the_broker_as_http_does(host: str, target: str) -> None:
    sent = converse("http://p:3128", OK, host)

    assert sent.decode() == f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("alice:secret", "alice:secret"),
        ("al%40ice:p%3A%2F", "al@ice:p:/"),
        ("zo%C3%AB:p\u00e4ss", "zo\u00eb:p\u00e4ss"),
        ("alice:", "alice:"),
    ],
)
def test_connect_logs_in_with_what_the_address_means(url: str, login: str) -> None:
    sent = converse(f"http://{url}@p:3128", OK)

    encoded = base64.b64encode(login.encode()).decode()
    assert f"\r\nProxy-Authorization: Basic {encoded}\r\n" in sent.decode()


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nVia: x\r\n\r\n",
        b"HTTP/1.1  200  \r\n\r\n",
    ],
)
def test_any_status_of_success_connects(answer: bytes) -> None:
    assert converse("http://p:3128", answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "another user name or password"),
        (b"HTTP/1.1 403 say 200 \r\n\r\n", "403 say 200"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "502 Bad Gateway"),
        (b"HTTP/1.1 2000 What\r\n\r\n", "2000 What"),
        (b"HTTP/1.1\r\n\r\n", "it answers"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "no HTTP proxy"),
        (b"HTTP/1.1 200 " + b"x" * 70_000, "no end"),
    ],
)
def test_an_http_proxy_that_does_not_connect_is_told_with_its_reason(
    answer: bytes, said: str
) -> None:
    with pytest.raises(ProxyError, match=said):
        converse(f"http://alice:{SECRET}@p:3128", answer)


@pytest.mark.parametrize(
    "url", ["p:1080", "https://p:1", "socks5://p", "socks5://:1", "socks4://p:1", "socks5://p:x"]
)
def test_an_address_that_cannot_be_used_is_not_quoted(url: str) -> None:
    with pytest.raises(ProxyError) as refused:
        parse_proxy(url.replace("p", f"a:{SECRET}@p", 1))

    assert SECRET not in str(refused.value)


def test_a_proxy_shows_no_password() -> None:
    assert SECRET not in repr(parse_proxy(f"socks5://a:{SECRET}@p:1080"))


# -- through sockets


def socks5(peer: Peer) -> None:
    """The proxy's side, in pieces, and then the broker's."""
    peer._read_exactly(3)
    for byte in NO_LOGIN:
        peer.write(bytes([byte]))
    destination = peer._read_exactly(4)
    size = {1: 4, 4: 16}.get(destination[3]) or peer._read_exactly(1)[0]
    peer._read_exactly(size + 2)
    for byte in FROM_IPV6:
        peer.write(bytes([byte]))
    peer.serve()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_broker_is_reached_through_a_socks5_proxy(scheme: str) -> None:
    with ScriptedBroker(socks5) as proxy:
        connection = {"proxy_url": f"{scheme}://localhost:{proxy.port}"}
        with Client(connection=connection) as client:
            assert client.connect(9092, "127.0.0.7") == opened("a")
            assert isinstance(client.ask(), RequestAnswered)
        assert proxy.errors == []


def test_all_addresses_of_a_proxy_are_tried() -> None:
    def resolve(host: str, port: int, *, type: int, flags: int) -> list[Any]:
        tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        assert host == "proxy.example"
        return [(*tcp, ("127.0.0.9", port)), (*tcp, ("127.0.0.1", port))]

    with ScriptedBroker(socks5) as proxy:
        connection = {"proxy_url": f"socks5h://proxy.example:{proxy.port}"}
        with Client(connection=connection, resolve=resolve) as client:
            for key in "abcdef":
                report = client.connect(9092, "far.example", key=key)
                assert report == opened(key)


def test_while_a_proxy_takes_its_time_the_thread_sleeps() -> None:
    """As long as the proxy connects to a broker that does not answer."""
    asked, go = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer._read_exactly(3)
        asked.set()
        go.wait(LIMIT)
        peer.write(b"\x05\xff")

    with ScriptedBroker(script) as proxy:
        connection = {"proxy_url": f"socks5h://127.0.0.1:{proxy.port}"}
        with Client(connection=connection) as client:
            client.net.connect("a", "far.example", 9092, LIMIT)
            while not asked.is_set():  # the proxy is a thread, which may get no time for long
                client.idle(0.01)
            began = time.monotonic()
            client.net.wait(0.5)
            slept = time.monotonic() - began
            go.set()
            report = client.next()

    assert slept > 0.4
    assert isinstance(report, ConnectionFailed)
    assert "the proxy 127.0.0.1" in str(report.error)


@pytest.mark.parametrize("says", [b"", b"\x05", b"\x05\x00\x05\x00"])
def test_a_proxy_that_hangs_up_is_called_so(says: bytes) -> None:
    def script(peer: Peer) -> None:
        peer._read_exactly(3)
        peer.write(says)

    with ScriptedBroker(script) as proxy:
        connection = {"proxy_url": f"socks5h://127.0.0.1:{proxy.port}"}
        with Client(connection=connection) as client:
            report = client.connect(9092, "far.example")

    assert isinstance(report, ConnectionFailed)
    assert f"the proxy 127.0.0.1:{proxy.port}" in str(report.error)


def test_a_proxy_that_cannot_be_reached_is_called_so() -> None:
    with Client(connection={"proxy_url": "http://127.0.0.1:1"}) as client:
        report = client.connect(9092, "far.example")

    assert isinstance(report, ConnectionFailed)
    assert "the proxy 127.0.0.1:1: Connection refused" in str(report.error)
