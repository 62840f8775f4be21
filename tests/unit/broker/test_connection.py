"""The broker's end of a connection, without a socket: bytes in, answers out."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable
from random import Random

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslHandshakeRequest

from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code
from aktor.broker.connection import Connection
from aktor.broker.faults import (
    Action,
    Corrupt,
    Delay,
    Drop,
    FailPartly,
    FailWith,
    Fault,
    Faults,
    Swallow,
    Throttle,
    Truncate,
)
from aktor.broker.sasl import Authentication, Users
from tests.kafka.recorded.messages import request
from tests.unit.broker.raw_client import frame_of, versions_frame

MOST = 100 * 1024 * 1024


class Wire:
    """Notes what it is to carry. `stuck`: nothing goes out."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.stuck = False

    @property
    def unsent(self) -> bool:
        return self.stuck

    def send(self, frame: bytes) -> None:
        if self.closed:
            raise OSError("closed")
        self.sent.append(frame)

    def close(self) -> None:
        self.closed = True

    @property
    def numbers(self) -> list[int]:
        """Which requests were answered, by correlation id."""
        return [struct.unpack_from(">i", frame, 4)[0] for frame in self.sent]


class Cluster:
    """An exchange in front of nothing: requests wait until a test answers."""

    def __init__(self, log_in: Callable[[], Authentication] | None = None) -> None:
        self.faults = Faults()
        self.log_in = log_in
        self.waiting: list[Call] = []
        self.others: list[Connection] = []
        self.ends: list[Connection] = []
        self.noted: list[Action] = []
        self.away: list[Callable[[], None]] | None = None
        self._time = 0.0
        self._agenda: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self._time

    def after(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self._time + delay, act))

    def at_broker(self, node: int, act: Callable[[], None]) -> None:
        if self.away is None:
            act()
        else:
            self.away.append(act)

    def receive(self, call: Call, api: str) -> None:
        self.waiting.append(call)

    def can_go_on(self, connection: Connection) -> None:
        self.others.append(connection)

    def ended(self, connection: Connection) -> None:
        self.ends.append(connection)

    def hindered(self, connection: Connection, api: str, fault: Action) -> None:
        self.noted.append(fault)

    def answer(self) -> None:
        """Answer what has waited longest; the connection goes on."""
        self.waiting.pop(0).reply(ApiVersionsResponse())
        while self.others:
            self.others.pop(0).go_on()

    def pass_time(self, seconds: float) -> None:
        self._time += seconds
        while self._agenda and self._agenda[0][0] <= self._time:
            heapq.heappop(self._agenda)[1]()


class Client:
    """A connection between a wire and a cluster."""

    def __init__(self, log_in: Callable[[], Authentication] | None = None) -> None:
        self.cluster = Cluster(log_in)
        self.wire = Wire()
        self.connection = Connection(self.cluster, self.wire, number=1, node=1, host="127.0.0.1")

    def send(self, *frames: bytes) -> None:
        self.connection.take(b"".join(frames))
        self.connection.go_on()

    def fault(self, action: Action) -> None:
        self.cluster.faults.add(Fault(action=action))


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_request_is_handled_when_its_last_byte_is_there(client: Client) -> None:
    for byte in versions_frame(7):
        assert not client.cluster.waiting
        client.send(bytes([byte]))

    client.cluster.answer()

    assert client.wire.numbers == [7]


def test_requests_are_handled_one_by_one_and_answered_in_order(client: Client) -> None:
    client.send(versions_frame(1), versions_frame(2), versions_frame(3)[:9])
    assert len(client.cluster.waiting) == 1

    client.cluster.answer()
    client.cluster.answer()
    assert client.wire.numbers == [1, 2]
    assert not client.cluster.waiting

    client.send(versions_frame(3)[9:])
    client.cluster.answer()
    assert client.wire.numbers == [1, 2, 3]


@pytest.mark.parametrize("size", [MOST + 1, 2**31 - 1, -1, -(2**31)])
def test_a_request_of_an_impossible_size_ends_it_before_its_bytes_come(
    client: Client, size: int
) -> None:
    client.send(struct.pack(">i", size))

    assert client.wire.closed
    assert client.cluster.ends == [client.connection]


def test_nothing_is_handled_while_an_answer_is_due_or_not_sent(client: Client) -> None:
    assert client.connection.idle
    client.send(versions_frame(1), versions_frame(2))
    assert not client.connection.idle

    client.wire.stuck = True
    client.cluster.answer()

    assert not client.connection.idle
    assert not client.cluster.waiting

    client.wire.stuck = False
    client.connection.go_on()
    assert len(client.cluster.waiting) == 1


def test_while_a_request_is_handled_not_much_more_is_wanted(client: Client) -> None:
    client.send(versions_frame(1))
    assert client.connection.hungry

    client.connection.take(bytes(1024 * 1024))

    assert not client.connection.hungry


def test_it_says_whose_it_is(client: Client) -> None:
    assert repr(client.connection) == "<Connection 1 of 127.0.0.1 to broker 1>"


def test_who_hangs_up_is_answered_no_more(client: Client) -> None:
    client.send(versions_frame(1))
    client.connection.close()

    client.cluster.waiting.pop().reply(ApiVersionsResponse())

    assert not client.wire.sent
    assert len(client.cluster.ends) == 1


def test_the_cluster_may_hang_up(client: Client) -> None:
    client.send(versions_frame(1))

    client.cluster.waiting.pop().reply(CLOSE)

    assert client.wire.closed


def test_a_broker_that_does_nothing_answers_when_it_does_something_again(client: Client) -> None:
    client.send(versions_frame(1))
    client.cluster.away = []
    client.cluster.answer()
    assert not client.wire.sent

    acts, client.cluster.away = client.cluster.away, None
    for act in acts:
        act()

    assert client.wire.numbers == [1]


# Faults.


def test_a_connection_may_end_instead_of_a_request(client: Client) -> None:
    client.fault(Drop())
    client.send(versions_frame(1))

    assert client.wire.closed
    assert not client.cluster.waiting
    assert client.cluster.noted == [Drop()]


def test_a_connection_may_end_instead_of_an_answer(client: Client) -> None:
    client.fault(Drop(before=False))
    client.send(versions_frame(1))
    assert not client.wire.closed

    client.cluster.answer()

    assert client.wire.closed
    assert not client.wire.sent


def test_an_answer_may_never_come_and_nothing_that_follows_is_handled(client: Client) -> None:
    client.fault(Swallow())
    client.send(versions_frame(1), versions_frame(2))

    client.cluster.answer()

    assert client.connection.open
    assert not client.wire.sent
    assert not client.cluster.waiting


def test_an_answer_may_come_late_and_what_follows_waits_for_it(client: Client) -> None:
    client.fault(Delay(5.0))
    client.send(versions_frame(1), versions_frame(2))
    client.cluster.answer()
    client.cluster.pass_time(4.0)
    assert not client.wire.sent

    client.cluster.pass_time(1.0)
    client.connection.go_on()
    client.cluster.answer()

    assert client.wire.numbers == [1, 2]


def test_an_answer_may_be_cut_off_and_then_the_connection_ends(client: Client) -> None:
    client.fault(Truncate(9))
    client.send(versions_frame(1), versions_frame(2))

    client.cluster.answer()

    assert [len(frame) for frame in client.wire.sent] == [9]
    assert client.wire.closed


def test_an_answer_may_have_other_bytes(client: Client) -> None:
    client.fault(Corrupt(position=0))
    client.send(versions_frame(1))

    client.cluster.answer()

    assert client.wire.numbers == [1 - 2**24]


def test_a_client_may_be_throttled_and_what_it_sends_all_the_same_waits(client: Client) -> None:
    client.fault(Throttle(2.0))
    client.send(frame_of(request("ApiVersions"), 1, 1), versions_frame(2))

    client.cluster.answer()

    (frame,) = client.wire.sent
    assert struct.unpack(">i", frame[-4:]) == (2000,)
    assert not client.cluster.waiting
    client.cluster.pass_time(2.0)
    client.connection.go_on()
    assert len(client.cluster.waiting) == 1


def test_an_answer_without_a_throttle_time_is_as_it_was_and_what_follows_waits() -> None:
    client = Client(log_in=lambda: Authentication(Users({}), rng=Random(1)))
    client.fault(Throttle(2.0))

    client.send(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1), versions_frame(2))

    assert client.wire.numbers == [1]
    assert client.connection.busy


def test_api_versions_refused_for_its_version_is_answered_in_version_0(client: Client) -> None:
    client.fault(FailWith(Code.UNSUPPORTED_VERSION))

    client.send(frame_of(request("ApiVersions"), 3, 1))

    (frame,) = client.wire.sent
    answer = ApiVersionsResponse[0].decode(frame[8:])
    assert (answer.error_code, answer.api_keys) == (Code.UNSUPPORTED_VERSION, [])


def test_a_part_of_an_answer_may_be_a_refusal_after_the_request_was_handled(
    client: Client,
) -> None:
    client.fault(FailPartly(Code.UNKNOWN_SERVER_ERROR))
    client.send(versions_frame(1))

    client.cluster.answer()

    (frame,) = client.wire.sent
    assert struct.unpack_from(">h", frame, 8) == (Code.UNKNOWN_SERVER_ERROR,)


def test_a_request_may_be_refused_unhandled(client: Client) -> None:
    client.fault(FailWith(Code.UNKNOWN_SERVER_ERROR))

    client.send(versions_frame(1))

    assert client.wire.numbers == [1]
    assert not client.cluster.waiting


# Logging in.


def test_before_the_login_nothing_is_asked() -> None:
    users = Users({"alice": "secret"})
    client = Client(lambda: Authentication(users, rng=Random(1)))
    client.send(versions_frame(1))
    client.cluster.answer()
    assert client.wire.numbers == [1]

    metadata = struct.pack(">hhih", 3, 1, 2, -1) + struct.pack(">i", 0)
    client.send(struct.pack(">i", len(metadata)) + metadata)

    assert client.wire.closed
