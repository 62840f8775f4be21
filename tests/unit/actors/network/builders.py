"""A network actor with a net that notes what it is told, and what such tests tell it."""

from __future__ import annotations

import itertools
import math
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.protocol.consumer import JoinGroupRequest
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.network.actor import NetworkActor
from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.errors import AuthenticationError
from aktor.events.coordinator import CoordinatorFound
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.metadata import Broker, Cluster, ClusterChanged
from aktor.events.network import (
    Destination,
    Lane,
    Request,
    SendRequests,
)
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
)
from aktor.settings import Settings
from aktor.trace import recording
from aktor.values import replace

ANY, COORDINATOR = Destination.ANY, Destination.COORDINATOR


FETCH, HOLDS = Lane.FETCH, Lane.HOLDS


class FakeNet:
    """The net as a list of what it was told to do."""

    def __init__(self) -> None:
        self.connects: list[tuple[str, str]] = []
        self.sends: list[tuple[str, int, Any]] = []
        self.closes: list[str] = []
        self.canonical: list[bool] = []
        self.attempts: list[str] = []
        self.open: list[str] = []
        self.closed = False
        self.arriving: set[str] = set()

    def connect(
        self,
        key: str,
        host: str,
        port: int,
        timeout: float,
        *,
        canonical: bool = False,
        jitter: float = 0.5,
    ) -> None:
        self.connects.append((key, f"{host}:{port}"))
        self.canonical.append(canonical)
        self.attempts.append(key)

    def send(self, key: str, request_id: int, body: Any) -> None:
        self.sends.append((key, request_id, body))

    def has_heard(self, key: str) -> bool:
        return key in self.arriving

    def close_connection(self, key: str) -> None:
        self.closes.append(key)
        self.note_end(key)

    def note_end(self, key: str) -> None:
        self.attempts = [one for one in self.attempts if one != key]
        self.open = [one for one in self.open if one != key]

    def wait(self, timeout: float) -> None:
        raise AssertionError("the actor never waits")

    def wake(self) -> None:
        raise AssertionError("the actor never wakes")

    def prepare_to_rest(self) -> None:
        raise AssertionError("the actor never rests")

    def close(self) -> None:
        self.closed = True


class NetworkHarness:
    """An actor, its net, its clock, and what it has said so far."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("bootstrap_servers", (("boot", 1),))
        self.net = FakeNet()
        self.time = VirtualTime()
        self.trace, self.events = recording()
        self.said: list[Any] = []
        self.wake_at = math.inf
        self.actor = NetworkActor(
            Settings(**settings),
            net=lambda tell: self.net,
            trace=self.trace,
        )

    def tell(self, *messages: object) -> NetworkHarness:
        """Deliver the messages, as of now, then the tick that follows them."""
        for told in (*messages, Tick(now=self.time(), jitter=0.5)):
            message = replace(told, now=self.time()) if hasattr(told, "now") else told
            if isinstance(message, ConnectionOpened | ConnectionFailed | ConnectionClosed):
                self.net.note_end(message.key)
            if isinstance(message, ConnectionOpened):
                self.net.open.append(message.key)
            for said in self.actor.handle(message):
                if isinstance(said, Ticked):
                    self.wake_at = said.wake_at
                else:
                    self.said.append(said)
        return self

    def send(self, *requests: Request) -> NetworkHarness:
        return self.tell(SendRequests(requests=requests, now=0.0))

    def at(self, now: float) -> NetworkHarness:
        self.time.now = now
        return self.tell()

    def sleep(self) -> NetworkHarness:
        """Let time pass until the actor wants to be woken."""
        assert self.time.now < self.wake_at < math.inf, "it would sleep for ever, or not at all"
        return self.at(self.wake_at)

    def sleep_until_it_connects(self) -> NetworkHarness:
        """It may wake before, to tell the application of the broker."""
        before = len(self.net.connects)
        while len(self.net.connects) == before:
            self.sleep()
        return self

    def open(self) -> NetworkHarness:
        """The last attempt succeeds."""
        return self.tell(ConnectionOpened(key=self.last_key, now=0.0))

    def open_all(self) -> NetworkHarness:
        """All attempts succeed."""
        for key in list(self.net.attempts):
            self.tell(ConnectionOpened(key=key, now=0.0))
        return self

    def keys_of(self, kind: type) -> list[str]:
        """The connections over which requests of this kind were sent."""
        return [key for key, _, body in self.net.sends if isinstance(body, kind)]

    def key_of(self, kind: type) -> str:
        """The connection over which the one request of this kind was sent."""
        (key,) = self.keys_of(kind)
        return key

    def answer_to(self, key: str) -> NetworkHarness:
        """The last request that was sent over this connection is answered."""
        numbers = [number for one, number, _ in self.net.sends if one == key]
        return self.tell(answered(key, numbers[-1]))

    def refuse(self, error: Exception | None = None) -> NetworkHarness:
        """The last attempt fails."""
        return self.tell(ConnectionFailed(key=self.last_key, error=error or refused(), now=0.0))

    def answer(self, index: int = -1) -> NetworkHarness:
        """The request sent at this index is answered."""
        key, request_id, _ = self.net.sends[index]
        return self.tell(answered(key, request_id))

    @property
    def last_key(self) -> str:
        return self.net.connects[-1][0]

    @property
    def addresses(self) -> list[str]:
        return [address for _, address in self.net.connects]

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.said if isinstance(one, kind)]

    def traced(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == name]


_numbers = itertools.count()


def a_request(
    to: Any = ANY,
    *,
    deadline: float = 30.0,
    sender: str = "metadata",
    lane: Lane = Lane.ORDINARY,
) -> Request:
    return Request(
        body=MetadataRequest(topics=None),
        to=to,
        deadline=deadline,
        sender=sender,
        incarnation=1,
        context=next(_numbers),
        lane=lane,
    )


def a_join(deadline: float = 30.0) -> Request:
    request = a_request(COORDINATOR, lane=HOLDS, deadline=deadline)
    return replace(request, body=JoinGroupRequest(), in_order_for=1.0)


def answered(key: str, request_id: int, throttle: float = 0.0) -> RequestAnswered:
    return RequestAnswered(
        key=key, request_id=request_id, response="answer", version=12, throttle=throttle, now=0.0
    )


def refused() -> Exception:
    error: Exception = KafkaConnectionError("broker boot:1: Connection refused")
    return error


def timed_out() -> Exception:
    error: Exception = KafkaConnectionError("broker boot:1: no answer within 10 s")
    error.__cause__ = TimeoutError()
    return error


def a_cluster(**brokers: int) -> ClusterChanged:
    """a_cluster(a=1, b=2): broker 1 at a:9092, broker 2 at b:9092."""
    return ClusterChanged(
        cluster=Cluster(
            version=1,
            brokers={
                node: Broker(node_id=node, host=host, port=9092) for host, node in brokers.items()
            },
        )
    )


def a_coordinator(host: str = "a", node: int = 1) -> CoordinatorFound:
    return CoordinatorFound(broker=Broker(node_id=node, host=host, port=9092))


def connected(**settings: Any) -> NetworkHarness:
    """Broker 1 is connected and has answered once; the bootstrap connection is history."""
    harness = NetworkHarness(**settings).tell(a_cluster(a=1)).send(a_request(1)).open().answer()
    harness.said.clear()
    harness.net.sends.clear()
    return harness


def wrong_password() -> AuthenticationError:
    return AuthenticationError(broker="boot:1", mechanism="PLAIN", reason="wrong password")
