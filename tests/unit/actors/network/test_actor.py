"""Rules of the network actor: where requests go, what ends them, and what it does as a whole."""

from __future__ import annotations

import importlib
import math
import random
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from aktor.actors.network.links import TRANSITIONS, ClientRequest, Link, LinkEvent, LinkState
from aktor.actors.runtime.manager import Backoff
from aktor.errors import ActorRestartedError, FrameError
from aktor.events.coordinator import CoordinatorLost
from aktor.events.lifecycle import ActorsRestarted, Tick
from aktor.events.network import (
    BrokersLost,
    ExpectFetches,
    Lane,
    Request,
    RequestFailed,
    ResponseReceived,
    SendRequests,
)
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestBroken,
)
from aktor.state_table import IllegalTransitionError
from tests.gate import all_but_the_first
from tests.unit.actors.network.builders import (
    ANY,
    COORDINATOR,
    FETCH,
    NetworkHarness,
    a_cluster,
    a_coordinator,
    a_join,
    a_request,
    answered,
    connected,
    refused,
    timed_out,
    wrong_password,
)

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


def test_a_request_that_failed_says_whether_it_was_sent() -> None:
    unsent = connected().tell(a_cluster(a=1, b=2)).send(a_request(2)).refuse()
    sent = connected().tell(a_cluster(a=1, b=2)).send(a_request(2)).open()
    sent.tell(ConnectionClosed(key=sent.last_key, error=refused(), now=0.0))

    assert [one.was_sent for one in unsent.of(RequestFailed)] == [False]
    assert [one.was_sent for one in sent.of(RequestFailed)] == [True]


def test_a_join_group_that_is_not_answered_says_nothing_of_its_broker() -> None:
    """The broker may wait for other members, or the connection is half-open."""
    harness = connected().tell(a_coordinator()).send(a_join())
    harness.open_all()
    harness.at(30.0).send(a_join(deadline=60.0))

    assert len(harness.of(RequestFailed)) == 1
    assert harness.open().at(59.9).net.sends[-1][0] == harness.last_key
    assert harness.of(BrokersLost) == []


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


def that_waits_to_fetch() -> NetworkHarness:
    """Broker 1 answers nobody: the connection for Fetches has failed often, and waits long. It is
    the coordinator, too, and a connection to it as such is under way."""
    harness = connected(reconnect_backoff=1.0, reconnect_backoff_max=30.0).tell(a_coordinator())
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))
    for _ in range(6):
        harness.send(a_request(1, lane=FETCH, deadline=1e6))
        if harness.last_key not in harness.net.attempts:
            harness.sleep_until_it_connects()
        harness.refuse()
    return harness.send(
        a_request(1, lane=FETCH, deadline=1e6), a_request(COORDINATOR, deadline=1e6)
    )


def test_a_broker_that_answers_again_is_asked_on_its_other_connections_at_once() -> None:
    harness = that_waits_to_fetch().open()
    before = len(harness.net.connects)

    harness.answer()

    assert [key.split("#")[0] for key, _ in harness.net.connects[before:]] == ["1-fetch"]


def test_a_connection_that_brings_no_answer_ends_no_wait_of_others() -> None:
    harness = that_waits_to_fetch()
    before = len(harness.net.connects)

    harness.open()

    assert len(harness.net.connects) == before


def test_an_answer_of_one_broker_ends_no_wait_for_another() -> None:
    harness = (
        that_waits_to_fetch().tell(a_cluster(a=1, b=2)).send(a_request(2, deadline=1e6)).open()
    )
    before = len(harness.net.connects)

    harness.answer()

    assert len(harness.net.connects) == before


def test_an_attempt_that_began_before_the_broker_was_back_is_made_again_at_once() -> None:
    harness = that_waits_to_fetch()
    coordinator = harness.last_key
    harness.sleep_until_it_connects()
    fetching = harness.last_key
    assert fetching.startswith("1-fetch")
    harness.at(harness.time.now + 1.0).tell(ConnectionOpened(key=coordinator, now=0.0))
    harness.answer_to(coordinator)

    harness.tell(ConnectionFailed(key=fetching, error=timed_out(), now=0.0))
    before = len(harness.net.connects)
    harness.send(a_request(1, lane=FETCH, deadline=1e6))
    assert len(harness.net.connects) == before + 1, "at once"

    harness.refuse().send(a_request(1, lane=FETCH, deadline=1e6))
    assert len(harness.net.connects) == before + 1, "once only: it was tried after the answer"


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


@pytest.mark.parametrize("seed", all_but_the_first(20, range(60)))
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


@pytest.mark.parametrize("seed", all_but_the_first(20, range(60)))
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
