"""Rules of the network actor: where requests go, what ends them, when it connects and complains."""

from __future__ import annotations

import importlib
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError, KafkaConnectionError, KafkaTimeoutError
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.network.actor import NetworkActor
from aktor.actors.network.links import TRANSITIONS, ClientRequest, Link, LinkEvent, LinkState
from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.actors.runtime.manager import Backoff
from aktor.errors import ActorRestartedError, AuthenticationError, FrameError
from aktor.events.answers import Answered
from aktor.events.coordinator import CoordinatorFound, CoordinatorLost, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted, Tick, Ticked
from aktor.events.metadata import Broker, Cluster, ClusterChanged
from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersLost,
    BrokersReached,
    BrokersUnreachable,
    Destination,
    ExpectFetches,
    Lane,
    Rebootstrap,
    ReportBootstrap,
    Request,
    RequestFailed,
    ResponseReceived,
    SendRequests,
)
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.settings import Settings
from aktor.state_table import IllegalTransitionError
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


# -- where requests go


def test_a_request_to_a_node_waits_for_the_connection_and_is_sent_when_it_opens() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(1))
    assert harness.addresses == ["a:9092"]
    assert harness.net.sends == []

    harness.open()

    assert len(harness.net.sends) == 1


def test_an_answer_goes_back_with_its_request_the_node_and_the_time() -> None:
    request = a_request(1)
    harness = NetworkHarness().tell(a_cluster(a=1)).send(request).open()
    harness.time.now = 3.0

    harness.answer()

    (received,) = harness.said
    assert isinstance(received, ResponseReceived)
    assert (received.request, received.response) == (request, "answer")
    assert (received.node, received.now) == (1, 3.0)
    assert 0.0 <= received.jitter < 1.0


def test_requests_to_a_node_keep_their_order() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1))
    first, second, third = (a_request(1) for _ in range(3))

    harness.send(first, second).send(third).open()

    assert [body for _, _, body in harness.net.sends] == [first.body, second.body, third.body]


def test_an_unknown_node_fails_at_once_with_a_retriable_error_that_names_it() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(7))

    (failed,) = harness.said
    assert isinstance(failed.error, KafkaConnectionError)
    assert failed.error.retriable
    assert "broker 7" in str(failed.error)
    assert failed.node == 7


def test_the_coordinator_has_a_connection_of_its_own() -> None:
    harness = connected().tell(a_coordinator("a", 1))

    harness.send(a_request(COORDINATOR))

    assert harness.addresses == ["a:9092", "a:9092"]
    assert harness.last_key.startswith("coordinator-1")


def test_what_is_asked_of_a_broker_does_not_wait_behind_its_fetch() -> None:
    harness = connected().send(a_request(1, lane=FETCH)).open()

    harness.send(a_request(1), a_request(ANY))

    ordinary, fetching = (key for key, _ in harness.net.connects)
    assert [key for key, _, _ in harness.net.sends] == [fetching, ordinary, ordinary]
    assert fetching.startswith("1-fetch#")


def test_a_broker_gets_a_connection_for_fetches_when_there_is_one_to_send() -> None:
    harness = connected().send(a_request(1))
    assert harness.addresses == ["a:9092"]

    harness.send(a_request(1, lane=FETCH))

    assert harness.addresses == ["a:9092", "a:9092"]


def test_the_connection_for_fetches_that_are_expected_is_made_before_there_is_one() -> None:
    harness = connected().send(a_request(1)).tell(ExpectFetches(nodes=frozenset({1, 9})))
    assert harness.addresses == ["a:9092", "a:9092"]
    harness.open()

    harness.tell(ExpectFetches(nodes=frozenset({1}))).send(a_request(1, lane=FETCH))

    assert [key for key, _, _ in harness.net.sends][-1] == harness.last_key
    assert len(harness.addresses) == 2


def test_a_connection_that_failed_waits_for_its_backoff_though_fetches_are_expected() -> None:
    harness = connected().tell(ExpectFetches(nodes=frozenset({1}))).refuse()

    harness.tell(ExpectFetches(nodes=frozenset({1})))

    assert len(harness.addresses) == 2
    assert harness.of(RequestFailed) == []


def test_a_fetch_that_is_not_answered_in_time_costs_no_other_request_its_connection() -> None:
    harness = connected().send(a_request(1, lane=FETCH, deadline=5.0)).open()
    fetching = harness.last_key
    other = a_request(1, deadline=10.0)
    harness.at(4.9).send(other)

    harness.at(5.0)

    assert harness.net.closes == [fetching]
    assert [one.request.lane for one in harness.of(RequestFailed)] == [FETCH]
    assert harness.answer().said[-1].request is other


def test_a_join_group_that_is_not_answered_says_nothing_of_its_broker() -> None:
    """The broker may wait for other members, or the connection is half-open."""
    harness = connected().tell(a_coordinator()).send(a_join())
    harness.open_all()
    harness.at(30.0).send(a_join(deadline=60.0))

    assert len(harness.of(RequestFailed)) == 1
    assert harness.open().at(59.9).net.sends[-1][0] == harness.last_key
    assert harness.of(BrokersLost) == []


# -- lanes: what a broker keeps is in front of nothing


@pytest.mark.parametrize("known", [True, False])
def test_a_heartbeat_does_not_wait_for_join_group(known: bool) -> None:
    """Whether or not the metadata has named the coordinator yet."""
    harness = (
        (connected() if known else NetworkHarness()).tell(a_coordinator("b", 2)).send(a_join())
    )
    harness.open_all().send(a_request(COORDINATOR, deadline=3.0))

    (join, beat) = (harness.key_of(JoinGroupRequest), harness.net.sends[-1][0])
    assert (join.partition("#")[0], beat.partition("#")[0]) == ("join-2", "coordinator-2")
    harness.answer()
    assert harness.of(RequestFailed) == []
    assert len(harness.of(ResponseReceived)) == 1


def test_the_connection_for_heartbeats_is_opened_beside_that_for_join_group() -> None:
    harness = NetworkHarness().tell(a_coordinator()).send(a_join())

    assert {one.partition("#")[0] for one in harness.net.attempts} == {"join-1", "coordinator-1"}


def test_without_a_classic_group_there_is_no_connection_for_join_group() -> None:
    harness = NetworkHarness().tell(a_coordinator()).send(a_request(COORDINATOR)).open()

    assert [one.partition("#")[0] for one in harness.net.open] == ["coordinator-1"]


def test_a_join_group_does_not_wait_for_one_that_nobody_waits_for_any_more() -> None:
    """A member that was disowned asks to join anew; the group keeps its former JoinGroup."""
    harness = connected().tell(a_coordinator()).send(a_join()).open_all()
    harness.send(a_join()).open_all()

    first, second = harness.keys_of(JoinGroupRequest)
    assert first != second
    harness.answer()
    assert second in harness.net.open, "the next one takes it"
    harness.answer_to(first)
    assert len([one for one in (first, second) if one in harness.net.open]) == 1
    harness.send(a_join())
    assert harness.keys_of(JoinGroupRequest)[-1] in (first, second)


def test_join_group_and_sync_group_take_one_connection_after_the_other() -> None:
    harness = connected().tell(a_coordinator()).send(a_join()).open_all().answer()
    harness.send(a_join())

    first, second = harness.keys_of(JoinGroupRequest)
    assert first == second


def test_join_group_does_not_overtake_a_commit() -> None:
    """It might begin a generation, and the commit be refused (ILLEGAL_GENERATION)."""
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR)).open().answer()
    harness.send(a_request(COORDINATOR), a_join()).open_all()
    assert harness.keys_of(JoinGroupRequest) == []

    harness.answer()
    assert len(harness.keys_of(JoinGroupRequest)) == 1


def test_join_group_waits_a_second_at_most_for_what_was_asked_before() -> None:
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR)).open()
    harness.send(a_join()).open_all()
    assert (harness.keys_of(JoinGroupRequest), harness.wake_at) == ([], 1.0)

    harness.at(1.0)
    assert len(harness.keys_of(JoinGroupRequest)) == 1


def test_sync_group_does_not_wait_for_what_was_asked_before() -> None:
    """It begins no generation."""
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR)).open()
    harness.send(replace(a_request(COORDINATOR, lane=HOLDS), body=SyncGroupRequest())).open_all()

    assert len(harness.keys_of(SyncGroupRequest)) == 1


def test_what_is_asked_after_join_group_does_not_keep_it_back() -> None:
    harness = connected().tell(a_coordinator()).send(a_join(), a_request(COORDINATOR)).open_all()

    assert len(harness.keys_of(JoinGroupRequest)) == 1


def test_a_coordinator_that_moves_takes_all_its_connections_with_it() -> None:
    harness = connected().tell(a_coordinator()).send(a_join()).open_all()
    harness.tell(a_coordinator("elsewhere")).send(a_join(), a_request(COORDINATOR))

    assert harness.addresses[-2:] == ["elsewhere:9092", "elsewhere:9092"]
    assert [type(one.request.body) for one in harness.of(RequestFailed)] == [JoinGroupRequest]


def test_a_new_coordinator_gets_new_connections_and_a_join_group_may_still_be_answered() -> None:
    harness = connected().tell(a_coordinator()).send(a_join()).open_all()
    old = harness.key_of(JoinGroupRequest)
    harness.tell(a_coordinator("b", 2)).send(a_join())

    harness.answer_to(old)
    assert old in harness.net.closes
    assert [one.node for one in harness.of(ResponseReceived)] == [1]
    assert {one.partition("#")[0] for one in harness.net.attempts} == {"join-2", "coordinator-2"}


def test_a_lost_coordinator_fails_a_join_group_that_was_not_sent() -> None:
    harness = connected().tell(a_coordinator()).send(a_join())
    harness.tell(CoordinatorLost(because="it says that it is not"))

    (failed,) = harness.of(RequestFailed)
    assert isinstance(failed.error, CoordinatorNotAvailableError)


def test_an_unused_connection_for_join_group_is_closed_after_ten_seconds() -> None:
    """A router on the way may have forgotten it at the next rebalance, and nobody would notice for
    30 s: heartbeats, on another connection, are answered meanwhile."""
    harness = connected(connections_max_idle=540.0).tell(a_coordinator()).send(a_join()).open_all()
    harness.answer()
    key = harness.key_of(JoinGroupRequest)
    harness.at(9.9)
    assert key in harness.net.open
    harness.at(10.0)
    assert key not in harness.net.open


def test_a_broker_is_not_lost_while_it_only_keeps_a_join_group() -> None:
    harness = connected().tell(a_coordinator()).send(a_join()).open_all()
    key = harness.key_of(JoinGroupRequest)
    harness.tell(ConnectionClosed(key=key, error=KafkaConnectionError("hung up"), now=0.0))
    harness.at(40.0)
    harness.send(a_join(deadline=100.0)).open_all()

    harness.at(41.0)

    assert harness.of(BrokersLost) == []


def test_a_broker_that_is_needed_is_lost_after_thirty_seconds_though_nothing_else_happens() -> None:
    harness = connected().tell(a_cluster(a=1, b=2)).send(a_request(2, deadline=1e6)).refuse()
    harness.send(a_request(2, deadline=1e6)).sleep_until_it_connects()

    while not harness.of(BrokersLost):
        harness.sleep()

    assert harness.time.now == 30.0
    assert harness.of(BrokersLost)[0].brokers.keys() == {2}


def test_the_broker_with_the_id_0_is_lost_as_any_other() -> None:
    cluster = a_cluster(a=0, b=1)
    harness = connected().tell(cluster).send(a_request(0, deadline=1e6)).refuse()
    harness.send(a_request(0, deadline=1e6)).sleep_until_it_connects()

    while not harness.of(BrokersLost):
        harness.sleep()

    assert harness.of(BrokersLost)[0].brokers.keys() == {0}


def test_both_connections_to_a_broker_go_with_it_to_its_new_address() -> None:
    harness = connected().send(a_request(1, lane=FETCH)).open()
    old = sorted(key for key, _ in harness.net.connects)

    harness.tell(a_cluster(elsewhere=1)).send(a_request(1), a_request(1, lane=FETCH))

    assert sorted(harness.net.closes) == old
    assert harness.addresses[2:] == ["elsewhere:9092"] * 2


def test_both_connections_to_a_broker_that_left_are_closed() -> None:
    harness = connected().send(a_request(1, lane=FETCH)).open().answer()

    harness.tell(a_cluster(b=2))

    assert sorted(harness.net.closes) == sorted(key for key, _ in harness.net.connects)


def test_a_request_to_anybody_never_takes_a_connection_for_fetches() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(1, lane=FETCH)).open()

    harness.send(a_request(ANY)).open()

    assert harness.net.sends[-1][0].startswith("1#")


def test_a_request_to_anybody_opens_a_connection_rather_than_take_one_in_doubt() -> None:
    """The only connection may be to a broker that froze: it failed us on another one."""
    harness = connected().tell(a_cluster(a=1, b=2)).send(a_request(1, lane=FETCH, deadline=5.0))
    harness.open().at(5.0)
    harness.net.sends.clear()

    harness.send(a_request(ANY))
    assert harness.addresses[-1] == "b:9092"
    assert not harness.net.sends
    harness.open()

    assert harness.net.sends[-1][0].startswith("2#")


def test_a_connection_in_doubt_is_taken_where_another_is_not_to_be_had_in_a_second() -> None:
    harness = connected().tell(a_cluster(a=1, b=2)).send(a_request(1, lane=FETCH, deadline=5.0))
    harness.open().at(5.0).send(a_request(ANY))
    harness.net.sends.clear()

    harness.sleep()

    assert harness.time.now == 6.0
    ((key, _, _),) = harness.net.sends
    assert key.startswith("1#")


def test_a_broker_that_has_answered_since_is_not_in_doubt_any_more() -> None:
    harness = connected().tell(a_cluster(a=1, b=2)).send(a_request(1, lane=FETCH, deadline=5.0))
    harness.open().at(5.0).send(a_request(1)).at(5.1).answer()

    harness.send(a_request(ANY))

    assert "b:9092" not in harness.addresses
    assert harness.net.sends[-1][0].startswith("1#")


def test_a_request_to_anybody_avoids_a_broker_that_was_silent_on_another_connection() -> None:
    """Lead 7: where the coordinator is must not be asked of the one that froze."""
    harness = connected().tell(a_cluster(a=1, b=2), a_coordinator("a", 1))
    harness.send(a_request(2)).open().send(a_request(2))  # broker 2 has more to do
    harness.send(a_request(COORDINATOR, deadline=3.0)).open().at(3.0)
    harness.net.sends.clear()

    harness.send(a_request(ANY))

    ((key, _, _),) = harness.net.sends
    assert key.startswith("2#")


def test_without_a_coordinator_its_requests_fail_at_once() -> None:
    harness = connected().send(a_request(COORDINATOR))

    assert isinstance(harness.said[0].error, CoordinatorNotAvailableError)


def test_a_lost_coordinator_fails_what_waits_but_not_what_is_in_flight() -> None:
    harness = connected(max_in_flight=1).tell(a_coordinator())
    in_flight, waiting = a_request(COORDINATOR), a_request(COORDINATOR)
    harness.send(in_flight, waiting).open()

    harness.tell(CoordinatorLost(because="it is elsewhere"))

    assert [one.request for one in harness.said] == [waiting]
    assert isinstance(harness.said[0].error, CoordinatorNotAvailableError)
    assert [one.request for one in harness.answer().of(ResponseReceived)] == [in_flight]


def test_a_coordinator_found_again_at_the_same_place_keeps_its_connection() -> None:
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR)).open().answer()

    harness.tell(CoordinatorLost(because="?"), a_coordinator()).send(a_request(COORDINATOR))

    assert harness.net.closes == []
    assert len(harness.net.sends) == 2


def test_a_new_coordinator_gets_a_new_connection_and_the_old_one_ends_with_its_last_answer() -> (
    None
):
    harness = connected().tell(a_coordinator("a", 1)).send(a_request(COORDINATOR)).open()
    old = harness.last_key

    harness.tell(a_coordinator("b", 2)).send(a_request(COORDINATOR))
    assert harness.addresses[-1] == "b:9092"
    assert old not in harness.net.closes
    harness.tell(answered(old, harness.net.sends[0][1]))

    assert old in harness.net.closes
    assert len(harness.of(ResponseReceived)) == 1


def test_a_request_for_anybody_goes_to_the_connected_node_with_the_fewest_in_flight() -> None:
    harness = (
        NetworkHarness()
        .tell(a_cluster(a=1, b=2))
        .send(a_request(1))
        .open()
        .send(a_request(2))
        .open()
    )
    harness.answer(1)

    harness.send(a_request(ANY))

    busy, idle = (key for key, _ in harness.net.connects)
    assert harness.net.sends[-1][0] == idle != busy


def test_a_request_for_anybody_avoids_a_node_that_owes_an_answer_for_long() -> None:
    """It may be frozen; who has more to do and answers knows better."""
    harness = (
        NetworkHarness()
        .tell(a_cluster(a=1, b=2))
        .send(a_request(1))
        .open()
        .send(a_request(2))
        .open()
    )
    frozen, alive = (key for key, _ in harness.net.connects)
    harness.at(1.1).answer(1).send(a_request(2), a_request(2))

    harness.send(a_request(ANY))

    assert harness.net.sends[-1][0] == alive != frozen


def test_a_request_for_anybody_waits_for_a_connection_under_way_rather_than_open_another() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1, b=2)).send(a_request(1))

    harness.send(a_request(ANY))
    assert len(harness.net.connects) == 1
    harness.open()

    assert len(harness.net.sends) == 2


def test_an_attempt_that_takes_long_does_not_keep_another_broker_from_being_tried() -> None:
    harness = NetworkHarness(bootstrap_servers=(("hole", 1), ("well", 2))).send(a_request(ANY))
    assert len(harness.net.connects) == 1

    harness.sleep()

    assert harness.time.now == 1.0
    assert sorted(harness.addresses) == ["hole:1", "well:2"]


def test_bootstrap_servers_are_tried_one_after_the_other_without_waiting() -> None:
    servers = (("x", 1), ("y", 2), ("z", 3))
    harness = NetworkHarness(bootstrap_servers=servers).send(a_request(ANY))

    harness.refuse().refuse()

    assert sorted(harness.addresses) == ["x:1", "y:2", "z:3"]
    assert harness.time.now == 0.0
    assert harness.of(RequestFailed) == []


def test_known_brokers_are_preferred_to_bootstrap_servers() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(ANY))

    assert harness.addresses == ["a:9092"]


def test_when_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again() -> None:
    """KIP-899."""
    harness = NetworkHarness().tell(a_cluster(a=1, b=2)).send(a_request(ANY))

    harness.refuse().refuse()

    assert sorted(harness.addresses) == ["a:9092", "b:9092", "boot:1"]
    (started,) = harness.traced("bootstrap.started")
    assert started["because"] == "no known broker can be reached"


def test_a_broker_may_send_the_client_back_to_its_bootstrap_servers() -> None:
    """KIP-1102: what is known of the cluster may be another cluster's by now."""
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR)).open()
    harness.send(a_request(1))

    harness.tell(Rebootstrap(because="a test"), a_cluster()).send(a_request(ANY))

    assert len(harness.net.closes) == 2
    assert [str(one.error) for one in harness.of(RequestFailed)] == [
        "KafkaConnectionError: disconnected from broker a:9092: a test"
    ] * 2
    assert harness.addresses[-1] == "boot:1"


def test_known_brokers_that_swallow_everything_do_not_keep_from_the_bootstrap_servers() -> None:
    """Found by a simulation: one of them was being tried at every moment, for minutes."""
    harness = NetworkHarness().tell(a_cluster(a=1, b=2)).send(a_request(ANY, deadline=30.0))

    harness.at(1.1)
    harness.at(2.2)

    assert harness.addresses == ["a:9092", "b:9092", "boot:1"]


def test_a_bootstrap_connection_is_closed_once_a_broker_is_connected() -> None:
    harness = NetworkHarness().send(a_request(ANY)).open().answer()
    boot = harness.last_key
    assert harness.said[-1].node < 0

    harness.tell(a_cluster(a=1)).send(a_request(1))
    assert harness.net.closes == []
    harness.open()

    assert harness.net.closes == [boot]


def test_a_bootstrap_server_that_is_a_broker_lends_its_connection_to_it() -> None:
    harness = (
        NetworkHarness(bootstrap_servers=(("a", 9092),)).send(a_request(ANY), a_request(ANY)).open()
    )
    harness.answer(0)

    harness.tell(a_cluster(a=1)).send(a_request(1)).answer(1).answer(2)

    assert harness.addresses == ["a:9092"]
    assert harness.net.closes == []
    assert [one.node for one in harness.of(ResponseReceived)] == [-1, 1, 1]
    assert len(harness.traced("connection.adopted")) == 1


def test_canonical_names_are_asked_for_bootstrap_servers_only() -> None:
    mode = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    harness = (
        NetworkHarness(connection=mode).send(a_request(ANY)).tell(a_cluster(a=1)).send(a_request(1))
    )

    assert harness.net.canonical == [True, False]


# -- limits


def test_at_most_max_in_flight_requests_are_sent_before_an_answer() -> None:
    harness = connected(max_in_flight=2).send(*(a_request(1) for _ in range(4)))
    assert len(harness.net.sends) == 2

    harness.answer(0)

    assert len(harness.net.sends) == 3


def test_a_broker_that_throttles_is_left_alone_for_that_long() -> None:
    """KIP-219."""
    harness = connected().send(a_request(1))
    harness.tell(answered(*harness.net.sends[0][:2], throttle=0.4))

    harness.send(a_request(1))
    assert len(harness.net.sends) == 1
    harness.sleep()

    assert harness.time.now == pytest.approx(0.4)
    assert len(harness.net.sends) == 2


# -- deadlines


def test_a_request_that_was_never_sent_times_out_at_its_deadline() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(1, deadline=5.0))
    assert harness.wake_at == 5.0

    harness.sleep()

    (failed,) = harness.said
    assert isinstance(failed.error, KafkaTimeoutError)
    assert "a:9092" in str(failed.error)


def test_a_request_for_anybody_times_out_naming_the_last_failure() -> None:
    harness = NetworkHarness().send(a_request(ANY, deadline=0.01)).refuse()

    harness.at(0.01)

    assert isinstance(harness.said[0].error, KafkaTimeoutError)
    assert "Connection refused" in str(harness.said[0].error)


def test_a_broker_that_does_not_answer_in_time_is_hung_up_on() -> None:
    harness = connected()
    late, other, queued = a_request(1, deadline=5.0), a_request(1), a_request(1)
    harness.send(late, other)
    key = harness.last_key

    harness.at(5.0)

    assert harness.net.closes == [key]
    errors = {one.request.context: one.error for one in harness.said}
    assert isinstance(errors[late.context], KafkaTimeoutError)
    assert isinstance(errors[other.context], KafkaConnectionError)
    assert "disconnected" in str(errors[other.context])
    harness.send(queued)
    assert len(harness.net.connects) == 1, "it was not even given the backoff"
    harness.sleep()
    assert len(harness.net.connects) == 2


def test_an_answer_that_is_still_arriving_at_its_deadline_is_waited_for() -> None:
    harness = connected(request_timeout=30.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}

    harness.at(5.0).sleep().answer()

    assert harness.net.closes == []
    assert len(harness.of(ResponseReceived)) == 1


def test_an_answer_that_stopped_arriving_is_given_up_at_the_next_look() -> None:
    harness = connected(request_timeout=30.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}
    harness.at(5.0)
    harness.net.arriving = set()

    harness.sleep()

    assert len(harness.net.closes) == 1
    assert isinstance(harness.said[0].error, KafkaTimeoutError)


def test_an_answer_that_arrives_for_ever_is_given_up_after_the_request_timeout() -> None:
    harness = connected(request_timeout=10.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}

    for _ in range(5):
        harness.sleep()
    assert harness.net.closes == []
    harness.sleep()

    assert harness.time.now == 10.0
    assert len(harness.net.closes) == 1


def test_the_request_timeout_is_not_exceeded_by_the_look_at_an_answer_that_arrives() -> None:
    harness = connected(request_timeout=10.0).send(a_request(1, deadline=5.5))
    harness.net.arriving = {harness.last_key}

    while not harness.net.closes:
        harness.sleep()

    assert harness.time.now == 10.0


def test_a_late_answer_is_dropped_and_traced() -> None:
    harness = connected().send(a_request(1, deadline=5.0)).at(5.0)
    harness.said.clear()

    harness.answer()

    assert harness.said == []
    assert len(harness.traced("answer.dropped")) == 1


# -- failing and trying again


def test_a_failed_attempt_fails_what_was_queued_for_that_node_with_its_reason() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(1), a_request(1))

    harness.refuse()

    assert ["Connection refused" in str(one.error) for one in harness.said] == [True, True]


def test_the_next_attempt_waits_for_the_backoff_and_requests_wait_for_it() -> None:
    harness = NetworkHarness(reconnect_backoff=1.0).tell(a_cluster(a=1)).send(a_request(1)).refuse()
    harness.said.clear()

    harness.send(a_request(1))
    assert len(harness.net.connects) == 1
    assert harness.said == []
    harness.sleep()

    assert 0.8 <= harness.time.now <= 1.2
    assert len(harness.net.connects) == 2


def test_the_backoff_doubles_up_to_its_maximum() -> None:
    harness = connected(reconnect_backoff=1.0, reconnect_backoff_max=4.0).tell(a_cluster(a=1, b=2))
    waits: list[float] = []
    for _ in range(5):
        harness.send(a_request(2, deadline=1e6))
        if waits:
            harness.sleep_until_it_connects()
        before = harness.time.now
        harness.refuse().send(a_request(2, deadline=1e6)).sleep_until_it_connects()
        waits.append(harness.time.now - before)
        harness.refuse()

    assert 0.8 <= waits[0] <= 1.2
    assert all(3.2 <= wait <= 4.8 for wait in waits[2:])


def test_an_answer_ends_the_backoff_and_an_open_connection_does_not() -> None:
    harness = connected(reconnect_backoff=1.0).tell(a_cluster(a=1, b=2)).send(a_request(2)).refuse()
    harness.send(a_request(2)).sleep()
    harness.open()
    began = harness.time.now

    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0)).send(
        a_request(2)
    )
    assert harness.wake_at - began >= 1.6
    harness.sleep().open().answer()
    began = harness.time.now
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0)).send(
        a_request(2)
    )

    assert harness.wake_at - began <= 1.2


def test_a_lost_connection_fails_what_is_in_flight_and_keeps_what_is_queued() -> None:
    harness = connected(max_in_flight=1)
    in_flight, queued = a_request(1), a_request(1)
    harness.send(in_flight, queued)

    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))
    assert [one.request for one in harness.said] == [in_flight]
    harness.sleep().open()

    assert harness.net.sends[-1][2] is queued.body


def test_a_malformed_answer_is_told_as_such() -> None:
    harness = connected().send(a_request(1))

    error = FrameError(broker="a:9092", reason="?")
    harness.tell(ConnectionClosed(key=harness.last_key, error=error, now=0.0))

    assert harness.said[0].error is error


def test_a_request_that_the_broker_does_not_speak_fails_alone() -> None:
    harness = connected()
    broken, other = a_request(1), a_request(1)
    harness.send(broken, other)
    key, request_id, _ = harness.net.sends[0]

    harness.tell(
        RequestBroken(key=key, request_id=request_id, error=ValueError("too old"), now=0.0)
    )
    harness.answer(1)

    assert [one.request for one in harness.of(RequestFailed)] == [broken]
    assert [one.request for one in harness.of(ResponseReceived)] == [other]
    assert harness.net.closes == []


def test_a_broker_that_moves_is_connected_to_at_its_new_address() -> None:
    harness = connected(max_in_flight=1)
    in_flight, queued = a_request(1), a_request(1)
    harness.send(in_flight, queued)
    old = harness.last_key

    harness.tell(a_cluster(elsewhere=1))

    assert harness.net.closes == [old]
    assert [one.request for one in harness.said] == [in_flight]
    assert harness.addresses[-1] == "elsewhere:9092"
    assert harness.open().net.sends[-1][2] is queued.body


def test_a_broker_that_left_fails_what_is_queued_and_may_still_answer() -> None:
    harness = connected(max_in_flight=1)
    in_flight, queued = a_request(1), a_request(1)
    harness.send(in_flight, queued)

    harness.tell(a_cluster(b=2))
    assert [one.request for one in harness.said] == [queued]
    harness.answer()

    assert harness.said[-1].request is in_flight
    assert harness.net.closes == [harness.net.connects[0][0]]


def test_an_idle_connection_is_closed_after_a_while_and_opened_when_needed() -> None:
    harness = connected(connections_max_idle=60.0)
    assert harness.wake_at == 60.0

    harness.sleep()
    assert harness.net.closes == [harness.last_key]
    assert harness.wake_at == math.inf
    harness.send(a_request(1, deadline=100.0))

    assert len(harness.net.connects) == 2


def test_a_request_that_waits_for_a_connection_which_is_closed_opens_another_at_once() -> None:
    harness = connected(connections_max_idle=60.0).send(a_request(1))
    key, request_id, _ = harness.net.sends[-1]
    harness.tell(answered(key, request_id, throttle=100.0)).send(a_request(ANY, deadline=200.0))

    harness.sleep()

    assert harness.net.closes == [key]
    assert (harness.time.now, harness.addresses[-1], len(harness.addresses)) == (60.0, "a:9092", 2)


def test_what_a_restarted_actor_had_asked_for_is_not_sent_any_more() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1))
    commit, fetch = a_request(1, sender="commits"), a_request(1, sender="fetch")
    lookup = a_request(ANY, sender="commits")
    harness.send(commit, fetch, lookup)

    harness.tell(ActorsRestarted(actors=("commits",), because=ValueError()))
    assert {one.request.context for one in harness.said} == {commit.context, lookup.context}
    assert all(isinstance(one.error, ActorRestartedError) for one in harness.said)
    harness.open()

    assert [body for _, _, body in harness.net.sends] == [fetch.body]


def test_a_fetch_does_not_wait_behind_the_long_poll_of_an_actor_that_was_restarted() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1))
    before = a_request(1, sender="fetch", lane=FETCH)
    harness.send(before).open()

    harness.tell(ActorsRestarted(actors=("fetch",), because=ValueError()))
    anew = a_request(1, sender="fetch", lane=FETCH)
    harness.send(anew).open()

    assert len(harness.net.closes) == 1
    first, second = harness.net.sends
    assert (first[2], second[2]) == (before.body, anew.body)
    assert first[0] != second[0]


def test_connections_of_others_stay_open_when_an_actor_is_restarted() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1))
    harness.send(a_request(1, sender="fetch", lane=FETCH)).open()

    harness.tell(ActorsRestarted(actors=("commits",), because=ValueError()))

    assert harness.net.closes == []


# -- refused, and nobody there


def wrong_password() -> AuthenticationError:
    return AuthenticationError(broker="boot:1", mechanism="PLAIN", reason="wrong password")


def test_wrong_credentials_fail_what_waits_and_are_told_to_the_application_at_once() -> None:
    harness = NetworkHarness().send(a_request(ANY), a_request(ANY))

    harness.refuse(wrong_password())

    kinds: list[Any] = [type(one) for one in harness.said]
    assert kinds == [RequestFailed, RequestFailed, BrokerRefused]
    assert all(isinstance(one.error, AuthenticationError) for one in harness.said)


def test_a_broker_that_refused_us_is_asked_again_after_a_second_and_not_before() -> None:
    harness = NetworkHarness(reconnect_backoff=0.05).send(a_request(ANY)).refuse(wrong_password())

    harness.send(a_request(ANY)).at(0.99)
    assert len(harness.net.connects) == 1
    harness.sleep()
    assert 1.0 <= harness.time.now <= 1.2
    harness.refuse(wrong_password())

    assert len(harness.of(BrokerRefused)) == 2


def test_refused_credentials_are_never_called_an_unreachable_broker() -> None:
    harness = NetworkHarness(bootstrap_timeout=1.0).send(a_request(ANY, deadline=1e6))
    harness.refuse(wrong_password())

    harness.send(a_request(ANY, deadline=1e6)).at(50.0).at(60.0)

    assert harness.of(BootstrapFailed) == []


def keep_refusing(
    harness: NetworkHarness, until: float, error: Callable[[], Exception] = refused
) -> None:
    """Every attempt fails at once, until this time."""
    while True:
        while harness.net.attempts:
            harness.refuse(error())
        if harness.wake_at > until:
            return
        harness.sleep()


def test_when_all_bootstrap_servers_fail_hard_the_application_hears_it_after_two_seconds() -> None:
    harness = NetworkHarness(bootstrap_servers=(("x", 1), ("y", 2))).send(
        a_request(ANY, deadline=1e6)
    )

    keep_refusing(harness, until=1.99)
    assert harness.of(BootstrapFailed) == []
    keep_refusing(harness, until=2.5)

    (failed,) = harness.of(BootstrapFailed)
    assert failed.error.attempts == {"x:1": "Connection refused", "y:2": "Connection refused"}


def test_it_is_told_again_every_two_seconds_while_it_lasts() -> None:
    harness = NetworkHarness().send(a_request(ANY, deadline=1e6))

    keep_refusing(harness, until=9.9)

    assert len(harness.of(BootstrapFailed)) == 4


@pytest.mark.parametrize(("first", "longest"), [(0.05, 1.2), (5.0, 6.0)])
def test_a_bootstrap_server_that_may_be_starting_is_tried_about_once_a_second(
    first: float, longest: float
) -> None:
    """Unless the user wants longer pauses from the first attempt on."""
    harness = NetworkHarness(reconnect_backoff=first, reconnect_backoff_max=30.0)
    harness.send(a_request(ANY, deadline=1e6))
    times: list[float] = []
    while harness.time.now < 60.0:
        while harness.net.attempts:
            times.append(harness.time.now)
            harness.refuse()
        harness.sleep()

    assert all(after - before <= longest for before, after in itertools.pairwise(times))
    assert len(times) >= 60.0 / longest


def test_a_server_that_swallows_everything_gets_the_whole_bootstrap_timeout() -> None:
    harness = NetworkHarness(bootstrap_timeout=30.0).send(a_request(ANY, deadline=1e6))

    keep_refusing(harness, until=29.9, error=timed_out)
    assert harness.of(BootstrapFailed) == []
    keep_refusing(harness, until=30.0, error=timed_out)

    assert len(harness.of(BootstrapFailed)) == 1


def test_a_listener_that_hangs_up_at_the_first_request_is_nobody_too() -> None:
    """As one that expects a login does with a client that does not log in."""
    harness = NetworkHarness().send(a_request(ANY))
    for _ in range(8):
        harness.open()
        error = KafkaConnectionError("broker boot:1: hung up; it expects a login")
        harness.tell(ConnectionClosed(key=harness.last_key, error=error, now=0.0))
        harness.send(a_request(ANY, deadline=1e6))
        while not harness.net.attempts:
            harness.sleep()

    (*_, failed) = harness.of(BootstrapFailed)
    assert "expects a login" in str(failed.error)


def reported(harness: NetworkHarness) -> Any:
    harness.tell(ReportBootstrap(ticket=7))
    return harness.of(Answered)[-1].value


def test_who_asks_hears_at_once_what_came_of_the_attempts_so_far() -> None:
    harness = NetworkHarness(bootstrap_servers=(("x", 1), ("y", 2))).send(
        a_request(ANY, deadline=1e6)
    )
    assert reported(harness).attempts == {"x:1": "no answer yet", "y:2": "no answer yet"}

    keep_refusing(harness, until=0.5)

    assert reported(harness).attempts == {"x:1": "Connection refused", "y:2": "Connection refused"}


def test_who_asks_hears_nothing_if_nobody_was_to_be_reached_or_somebody_was() -> None:
    assert reported(NetworkHarness()) is None
    assert reported(NetworkHarness().send(a_request(ANY)).open().answer()) is None


def test_who_asks_hears_nothing_of_a_broker_that_refused_us_which_was_said() -> None:
    harness = NetworkHarness().send(a_request(ANY, deadline=1e6))
    keep_refusing(
        harness,
        until=0.5,
        error=lambda: AuthenticationError(broker="b:1", mechanism="", reason="no"),
    )

    assert reported(harness) is None


def test_once_a_broker_has_answered_the_application_is_not_told_of_a_failed_bootstrap() -> None:
    harness = NetworkHarness().send(a_request(ANY)).open().answer()
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))

    harness.send(a_request(ANY, deadline=1e6))
    harness.sleep()
    keep_refusing(harness, until=60.0)

    assert harness.of(BootstrapFailed) == []


# -- the brokers at their advertised addresses


def refuse_all(harness: NetworkHarness, error: Callable[[], Exception] = refused) -> None:
    """Every attempt under way fails."""
    for key in list(harness.net.attempts):
        harness.tell(ConnectionFailed(key=key, error=error(), now=0.0))


def stranded(
    *, until: float, error: Callable[[], Exception] = refused, **brokers: int
) -> NetworkHarness:
    """A bootstrap server has named these brokers; every attempt to reach one fails until then."""
    harness = NetworkHarness().send(a_request(ANY)).open().answer().tell(a_cluster(**brokers))
    while True:
        for node in brokers.values():
            harness.send(a_request(node, deadline=1e6))
        refuse_all(harness, error)
        if min(harness.wake_at, harness.time.now + 0.1) > until:
            return harness
        harness.at(min(harness.wake_at, harness.time.now + 0.1))


def test_when_no_advertised_address_can_be_reached_the_application_hears_it_again_and_again() -> (
    None
):
    assert stranded(a=1, b=2, until=1.99).of(BrokersUnreachable) == []

    harness = stranded(a=1, b=2, until=9.9)

    assert len(harness.of(BrokersUnreachable)) == 4
    error = harness.of(BrokersUnreachable)[0].error
    assert error.attempts == {"a:9092": "Connection refused", "b:9092": "Connection refused"}
    assert error.advertised_by == "boot:1"
    assert len(harness.traced("brokers.unreachable")) == 4


def test_where_packets_are_swallowed_the_application_hears_it_after_five_seconds() -> None:
    assert stranded(a=1, until=4.99, error=timed_out).of(BrokersUnreachable) == []
    harness = NetworkHarness().send(a_request(ANY)).open().answer().tell(a_cluster(a=1))
    harness.send(a_request(1, deadline=1e6))

    harness.at(4.9)
    assert harness.of(BrokersUnreachable) == []
    assert harness.wake_at <= 5.0
    harness.at(5.0)

    (said,) = harness.of(BrokersUnreachable)
    assert said.error.attempts == {"a:9092": "no answer for 5 s"}


def test_brokers_that_nobody_needs_are_tried_before_all_are_called_unreachable() -> None:
    harness = (
        NetworkHarness()
        .send(a_request(ANY))
        .open()
        .answer()
        .tell(a_cluster(a=1, b=2, c=3, d=4, e=5))
    )
    harness.send(a_request(1, deadline=1e6)).refuse()
    assert harness.addresses == ["boot:1", "a:9092"]

    harness.at(1.0)

    assert harness.addresses[2:] == ["b:9092", "c:9092", "d:9092"]
    harness.open()
    harness.send(a_request(1, deadline=1e6)).at(10.0)
    assert harness.of(BrokersUnreachable) == []


def test_who_asks_nothing_of_the_brokers_is_not_told_that_they_are_unreachable() -> None:
    harness = NetworkHarness().send(a_request(ANY)).open().answer().tell(a_cluster(a=1))
    harness.send(a_request(1)).refuse()

    for second in range(1, 60):
        refuse_all(harness.at(float(second)))

    assert harness.of(BrokersUnreachable) == []


def test_before_the_metadata_is_known_a_coordinator_that_cannot_be_reached_is_one_of_several() -> (
    None
):
    """As after a restart of this actor: a bootstrap server answers, and nobody knows the others."""
    harness = NetworkHarness().send(a_request(ANY)).open().answer()
    harness.tell(CoordinatorFound(broker=Broker(node_id=1, host="a", port=9092)))
    for second in range(10):
        harness.send(a_request(COORDINATOR, deadline=1e6)).at(float(second))
        refuse_all(harness)
    assert harness.of(BrokersUnreachable) == []

    harness.tell(a_cluster(a=1))
    harness.send(a_request(COORDINATOR, deadline=1e6)).at(11.0)
    refuse_all(harness)
    harness.send(a_request(COORDINATOR, deadline=1e6)).at(13.0)

    assert harness.of(BrokersUnreachable) != []


def test_when_a_broker_can_be_reached_after_all_the_application_is_told_once() -> None:
    harness = stranded(a=1, until=4.5)
    while not harness.net.attempts:
        harness.sleep()

    harness.open().answer()

    assert len(harness.of(BrokersReached)) == 1
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))
    harness.send(a_request(1, deadline=1e6)).at(100.0)
    assert len(harness.of(BrokersReached)) == 1


def test_brokers_that_were_reached_once_are_waited_for_quietly() -> None:
    harness = connected()
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))

    for second in range(60):
        harness.send(a_request(1, deadline=1e6)).at(float(second))
        refuse_all(harness)

    assert harness.of(BrokersUnreachable) == []


def test_a_bootstrap_server_that_is_a_broker_at_its_advertised_address_was_reached() -> None:
    harness = NetworkHarness(bootstrap_servers=(("a", 9092),)).send(a_request(ANY)).open().answer()
    harness.tell(
        ConnectionClosed(key=harness.last_key, error=refused(), now=0.0),
        a_cluster(a=1, b=2),
    )

    for second in range(20):
        harness.send(a_request(2, deadline=1e6)).at(float(second))
        refuse_all(harness)

    assert harness.of(BrokersUnreachable) == []


def test_brokers_that_moved_to_addresses_which_cannot_be_reached_are_told() -> None:
    harness = connected().tell(a_cluster(elsewhere=1))
    harness.send(a_request(1, deadline=1e6))

    assert len(harness.at(5.0).of(BrokersUnreachable)) == 1


def test_a_coordinator_that_answered_was_reached_though_the_metadata_is_yet_to_come() -> None:
    """A restarted actor hears of the coordinator first, and then of another one."""
    harness = (
        NetworkHarness()
        .tell(a_coordinator("a", node=1))
        .send(a_request(COORDINATOR))
        .open()
        .answer()
    )

    harness.at(10.0).tell(a_coordinator("b", node=2)).send(a_request(COORDINATOR))

    assert harness.of(BrokersUnreachable) == []
    for second in range(11, 30):
        refuse_all(harness.at(float(second)))
    assert harness.of(BrokersUnreachable) == []


def test_refused_credentials_are_never_called_unreachable_brokers() -> None:
    harness = stranded(a=1, until=20.0, error=wrong_password)

    assert harness.of(BrokersUnreachable) == []


def test_the_end_of_a_failed_bootstrap_is_told_once() -> None:
    harness = NetworkHarness().send(a_request(ANY, deadline=1e6))
    keep_refusing(harness, until=4.5)
    while not harness.net.attempts:
        harness.sleep()

    harness.open().answer()

    assert len(harness.of(BrokersReached)) == 1


# -- the whole


def test_nothing_to_do_means_no_wake_up() -> None:
    assert NetworkHarness().tell().wake_at == math.inf
    assert connected(connections_max_idle=math.inf).wake_at == math.inf


def test_stopping_closes_the_net() -> None:
    harness = NetworkHarness()

    harness.actor.on_stop()

    assert harness.net.closed


@pytest.mark.parametrize("module", ["actor", "links", "bootstrap", "unreachable"])
def test_what_decides_about_connections_has_no_clock_and_no_chance(module: str) -> None:
    source = importlib.import_module(f"aktor.actors.network.{module}")
    assert not {"time", "random", "socket", "threading"} & set(vars(source))


def test_an_answer_carries_the_time_of_its_report_and_a_jitter_of_its_own() -> None:
    harness = connected().send(a_request(1), a_request(1), a_request(1))
    harness.time.now = 7.0
    harness.tell(*(answered(key, number) for key, number, _ in harness.net.sends))

    got = harness.of(ResponseReceived)
    assert [one.now for one in got] == [7.0] * 3
    jitters = sorted(one.jitter for one in got)
    assert 0.0 <= jitters[0] < jitters[2] < 1.0
    assert min(jitters[1] - jitters[0], jitters[2] - jitters[1]) > 0.2


def test_a_report_that_was_held_up_does_not_turn_the_time_back() -> None:
    harness = connected().at(9.0).send(a_request(1))
    harness.actor.handle(answered(*harness.net.sends[-1][:2]))
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0)).send(
        a_request(1)
    )

    assert harness.wake_at > 9.0


def test_the_bootstrap_server_to_begin_with_is_drawn_from_the_first_jitter() -> None:
    def first(jitter: float) -> str:
        harness = NetworkHarness(bootstrap_servers=(("a", 1), ("b", 2)))
        harness.actor.handle(SendRequests(requests=(a_request(),), now=0.0))
        harness.actor.handle(Tick(now=0.0, jitter=jitter))
        return harness.addresses[0]

    assert [first(0.1), first(0.9)] == ["a:1", "b:2"]


def test_an_unknown_message_is_counted_and_traced() -> None:
    harness = NetworkHarness().tell("what?")

    assert harness.actor.dead_letters == 1
    assert harness.traced("message.dropped")


def test_requests_and_connections_are_traced_with_their_names_and_reasons() -> None:
    harness = connected().send(a_request(1)).answer()
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))

    (sent, *_) = harness.traced("request.sent")
    (got, *_) = harness.traced("request.answered")
    assert (sent["api"], sent["node"], sent["request"]) == ("Metadata", 1, got["request"])
    assert (got["api_version"], got["ms"]) == (12, 0.0)
    assert harness.traced("connection.opened")[0]["address"] == "a:9092"
    assert "Connection refused" in harness.traced("connection.closed")[0]["because"]


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("event", LinkEvent)
def test_a_link_moves_as_its_table_says_or_refuses(state: LinkState, event: LinkEvent) -> None:
    link = Link("1", 1, "a", 9092, Backoff(1.0, 1.0))
    link.state = state

    if event in TRANSITIONS[state]:
        link.on(event)
        assert link.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransitionError):
            link.on(event)


@pytest.mark.parametrize(
    ("of", "taken"),
    [
        (None, ["fetch", "commits"]),
        (frozenset({"fetch"}), ["fetch"]),
        (frozenset(), []),
    ],
)
def test_of_a_links_queue_the_requests_of_some_senders_are_taken(of: Any, taken: list[str]) -> None:
    link = Link("1", 1, "a", 9092, Backoff(1.0, 1.0))
    for number, sender in enumerate(("fetch", "commits")):
        link.unsent.append(ClientRequest(a_request(sender=sender), number, 0.0))

    assert [one.request.sender for one in link.take_unsent(of)] == taken
    assert len(link.unsent) == 2 - len(taken)


class Chance:
    """Brokers come, go, move, refuse, swallow, and send half an answer."""

    def __init__(self, seed: int, harness: NetworkHarness) -> None:
        self.sent: list[Request] = []
        self._random = random.Random(seed)
        self._harness = harness

    def strike(self) -> None:
        """Something happens, at once or a little later."""
        chance, harness = self._random, self._harness
        event = self._a_report() if chance.random() < 0.3 else self._an_event()
        harness.net.arriving = set(harness.net.open) if chance.random() < 0.5 else set()
        harness.time.now += chance.choice([0.0, 0.0, 0.1])
        harness.tell(*([event] if event is not None else []))

    def before(self, moment: float) -> float:
        """Between now and then, and not far away."""
        now = self._harness.time.now
        ahead = self._random.random() * min(moment - now, self._random.choice([1.0, 30.0]))
        return min(now + ahead, math.nextafter(moment, now))

    def often(self) -> bool:
        """Whether to do something that is done every other time."""
        return self._random.random() < 0.5

    def _an_event(self) -> object:
        chance, net = self._random, self._harness.net
        key = chance.choice([key for key, _ in net.connects] or ["nobody"])
        requests = [one for one in net.sends if one[0] == key]
        request_id = chance.choice(requests)[1] if requests else 0
        match chance.randrange(10):
            case 0 | 1 | 2:
                to = chance.choice([ANY, COORDINATOR, 1, 2, 3])
                lane = chance.choice([*Lane])
                late = self._harness.time.now + chance.uniform(0.0, 3.0)
                self.sent.append(a_request(to, deadline=late, lane=lane))
                return SendRequests(requests=(self.sent[-1],), now=0.0)
            case 3 | 4 | 5:
                return answered(key, request_id, throttle=chance.choice([0.0, 0.0, 0.5]))
            case 6:
                nodes = chance.sample([1, 2, 3], 2)
                return a_cluster(**{f"h{chance.randrange(3)}-{node}": node for node in nodes})
            case 7:
                return a_coordinator(chance.choice("ab"), chance.choice([1, 2]))
            case 8:
                return CoordinatorLost(because="chance")
        return RequestBroken(key=key, request_id=request_id, error=refused(), now=0.0)

    def _a_report(self) -> object | None:
        """Connections end as connections can: opened or failed first, closed after opened."""
        chance, net = self._random, self._harness.net
        if not net.attempts + net.open:
            return None
        key = chance.choice(net.attempts + net.open)
        if key in net.open:
            return ConnectionClosed(key=key, error=refused(), now=0.0)
        if chance.random() < 0.5:
            return ConnectionOpened(key=key, now=0.0)
        errors: list[Exception] = [refused(), timed_out(), wrong_password()]
        return ConnectionFailed(key=key, error=chance.choice(errors), now=0.0)


@pytest.mark.parametrize("seed", range(150))
def test_every_request_gets_exactly_one_answer_whatever_happens(seed: int) -> None:
    harness = NetworkHarness(max_in_flight=2, bootstrap_servers=(("x", 1), ("y", 2)))
    chance = Chance(seed, harness)

    for _ in range(200):
        chance.strike()
        assert harness.wake_at > harness.time.now, "it would spin"
    harness.net.arriving = set()
    harness.at(harness.time.now + 10.0)

    ended = [
        one.request.context
        for one in harness.said
        if isinstance(one, RequestFailed | ResponseReceived)
    ]
    assert sorted(ended) == sorted(one.context for one in chance.sent)


@pytest.mark.parametrize("seed", range(150))
def test_before_it_wants_to_wake_there_is_nothing_to_do(seed: int) -> None:
    """Else what is done and the wake time disagree: it would be done late, or never."""
    harness = NetworkHarness(
        max_in_flight=2,
        bootstrap_servers=(("x", 1), ("y", 2)),
        request_timeout=5.0,
        connections_max_idle=6.0,
    )
    chance = Chance(seed, harness)

    def done() -> list[object]:
        net = harness.net
        return [*net.connects, *net.sends, *net.closes, *harness.said]

    for _ in range(200):
        chance.strike()
        before, wake_at = done(), harness.wake_at
        harness.at(chance.before(wake_at))
        assert done() == before
        assert harness.wake_at >= wake_at
        if chance.often() and harness.wake_at < math.inf:
            harness.sleep()
            assert harness.wake_at > harness.time.now, "it would spin"


# -- what is counted


def measured(harness: NetworkHarness) -> dict[str, float]:
    """By name; those of single nodes are left out."""
    counters = harness.actor.measure(harness.time.now)
    return {metric.name: value for metric, value in counters.items() if "node" not in metric.group}


def test_connections_are_counted_as_they_open_and_close_from_either_side() -> None:
    harness = connected()
    before = measured(harness)
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=harness.time.now))

    after = measured(harness)
    assert before["connection-count"] == 1
    assert before["connection-close-rate"] == 0
    assert after["connection-count"] == 0
    assert after["connection-close-rate"] > 0
    assert after["connection-creation-rate"] > 0


def test_answers_are_counted_and_their_times_metered() -> None:
    harness = connected()
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    heartbeat = replace(a_request(1), body=body)
    harness.send(heartbeat)
    harness.time.now += 0.010
    harness.answer().send(heartbeat)
    harness.time.now += 0.030
    harness.answer()

    counters = measured(harness)
    assert counters["heartbeat-total"] == 2
    assert counters["last-heartbeat-seconds-ago"] == pytest.approx(0.030)
    assert counters["last-heartbeat-response-seconds-ago"] == 0.0
    assert counters["heartbeat-response-time-avg"] == pytest.approx(20.0)
    assert counters["heartbeat-response-time-max"] == pytest.approx(30.0)
    assert counters["request-total"] == counters["response-total"] == 3


# -- a coordinator that refuses or closes connections


def coordinated(**settings: Any) -> NetworkHarness:
    """An actor whose coordinator is broker 1 and has answered a request."""
    harness = connected(**settings).tell(a_coordinator()).send(a_request(COORDINATOR)).open()
    return harness.answer()


@pytest.mark.parametrize("idle", [True, False])
def test_a_coordinator_that_closes_a_connection_is_suspected_at_once(idle: bool) -> None:
    harness = coordinated()
    if not idle:
        harness.send(a_request(COORDINATOR))
    harness.said.clear()

    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))

    suspicion = harness.said[0]
    assert isinstance(suspicion, SuspectCoordinator), "before its requests fail"
    assert suspicion.node_id == 1
    assert suspicion.retry_at is not None
    assert harness.time() < suspicion.retry_at <= harness.time() + 0.06


def test_a_coordinator_that_refuses_a_connection_is_suspected_at_once() -> None:
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR))
    harness.said.clear()

    harness.refuse()

    assert [type(one) for one in harness.said] == [SuspectCoordinator, RequestFailed]


def test_a_coordinator_is_tried_again_within_about_a_second_however_often_it_has_refused() -> None:
    harness = connected(reconnect_backoff_max=30.0).tell(a_coordinator())
    pauses = []
    for _ in range(12):
        harness.send(a_request(COORDINATOR))
        if pauses:
            harness.sleep_until_it_connects()
        harness.refuse()
        pauses.append(harness.of(SuspectCoordinator)[-1].retry_at - harness.time())

    assert pauses[:3] == pytest.approx([0.05, 0.1, 0.2], rel=0.2)
    assert 1.0 <= pauses[-1] <= 1.2


def test_other_connections_to_its_broker_say_nothing_of_the_coordinator() -> None:
    harness = coordinated()
    harness.send(a_request(1))
    (ordinary,) = {key for key, _, _ in harness.net.sends} - {harness.last_key}
    harness.said.clear()

    harness.tell(ConnectionClosed(key=ordinary, error=refused(), now=0.0))

    assert [type(one) for one in harness.said] == [RequestFailed]


def test_a_refused_login_does_not_make_another_broker_the_coordinator() -> None:
    harness = connected().tell(a_coordinator()).send(a_request(COORDINATOR))
    error = AuthenticationError(broker="a:9092", mechanism="PLAIN", reason="no")

    harness.refuse(error)

    assert harness.of(SuspectCoordinator) == []
