"""What the sockets do with a broker's name: its addresses are tried, and nothing waits for it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    RequestAnswered,
)
from tests.unit.actors.sockets.builders import (
    SECRET,
    Names,
    in_silence,
    open_to,
    serve,
    text_of,
)
from tests.unit.actors.sockets.net_client import LIMIT, Client, opened
from tests.unit.actors.sockets.scripted_broker import (
    Peer,
    ScriptedBroker,
)

# -- names


def greeting_only(peer: Peer) -> None:
    peer.greet()


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
def a_black_hole(address: str, port: int = 0) -> Iterator[int]:
    """A port of this address where packets vanish: its queue of connections is full.

    Who wants the same port at two addresses takes it of 127.0.0.1 first. Other tests have ports
    there, and none at the other addresses.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(3):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_an_address_that_swallows_everything_does_not_keep_the_next_from_being_tried() -> None:
    with (
        ScriptedBroker(serve) as works,
        a_black_hole("127.0.0.2", works.port),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(works.port, "both.example") == opened("a")


def test_an_address_that_swallows_everything_is_said_to_have_opened_no_connection() -> None:
    with a_black_hole("127.0.0.2") as port, Client(resolve=Names("127.0.0.2")) as client:
        # Long enough for the look-up on a busy machine.
        failed = client.connect(port, "one.example", timeout=3.0)

    assert isinstance(failed, ConnectionFailed)
    assert "no answer within 3 s while the connection was opened" in str(failed.error)


def test_an_address_that_connects_and_is_silent_gives_way_to_the_next_at_the_next_attempt() -> None:
    greeted = threading.Event()

    def silent(peer: Peer) -> None:
        peer.sock.recv(1)
        greeted.set()
        in_silence(peer)

    with (
        ScriptedBroker(serve) as works,
        ScriptedBroker(silent, address=("127.0.0.2", works.port)),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        client.clock = lambda: 0.0  # else a busy machine could be later than the head start
        # How long an attempt may take is real time: enough to be greeted on a busy machine.
        client.net.connect("a", "both.example", works.port, 5.0)
        while not greeted.is_set():
            client.net.wait(0.05)
        client.clock = lambda: LIMIT + 1.0
        first = client.next()
        second = client.connect(works.port, "both.example", key="b")

    assert isinstance(first, ConnectionFailed)
    assert second == opened("b")


def test_a_second_connection_begins_with_the_address_that_the_first_one_found() -> None:
    with (
        ScriptedBroker(serve) as works,
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(works.port, "both.example") == opened("a")
        with ScriptedBroker(in_silence, address=("127.0.0.2", works.port)):
            second = client.connect(works.port, "both.example", key="b")

    assert second == opened("b")


def test_after_a_lost_connection_the_next_address_is_tried() -> None:
    with (
        ScriptedBroker(serve) as stays,
        ScriptedBroker(greeting_only, address=("127.0.0.2", stays.port)),
        Client(resolve=Names("127.0.0.2", "127.0.0.1")) as client,
    ):
        assert client.connect(stays.port, "both.example") == opened("a")
        assert isinstance(client.next(), ConnectionClosed)
        client.connect(stays.port, "both.example", key="b")

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
