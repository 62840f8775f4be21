"""Which broker gets a request that any broker may answer, and when to look for one again."""

from __future__ import annotations

import random

import pytest

from aktor.actors.network.bootstrap import Bootstrap
from aktor.actors.network.lanes import Lanes
from aktor.actors.network.least_loaded import PATIENCE, least_loaded
from aktor.actors.network.links import ClientRequest, Link, LinkEvent, LinkState
from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.metadata import Broker
from aktor.events.network import Destination, Request
from tests.gate import all_but_the_first

NOW = 100.0
MAX_IN_FLIGHT = 2
TIMED_OUT = TimeoutError("no answer")


def a_link(name: str, node: int = 1, host: str = "kafka", port: int = 9092) -> Link:
    return Link(name, node, host, port, Backoff(1.0, 1.0))


def a_request(sent_at: float) -> ClientRequest:
    request = Request(body=object(), sender="s", to=Destination.ANY, deadline=NEVER, incarnation=1)
    return ClientRequest(request, int(sent_at * 1e6), sent_at)


def is_connecting(link: Link, since: float) -> Link:
    link.begin(f"{link.name}#1", since)
    return link


def is_ready(link: Link, *, throttle: float = 0.0, in_flight: int = 0, asked: float = NOW) -> Link:
    is_connecting(link, NOW - 50.0).opened(NOW - 50.0)
    link.answered(NOW - 40.0, 0.0)
    link.prove(NOW - 40.0)
    for number in range(in_flight):
        link.sent(a_request(asked + number * 1e-3), asked)
    link.answered(NOW, throttle)
    return link


def has_failed(link: Link, at: float) -> Link:
    is_connecting(link, at).on(LinkEvent.FAILED)
    link.attempts.failed(at, 0.5, TIMED_OUT)
    return link


class Ways:
    """The links to the known brokers and to the bootstrap servers."""

    def __init__(self, brokers: int, servers: int) -> None:
        self.lanes = Lanes(a_link)
        for node in range(1, brokers + 1):
            self.lanes.add(Broker(node_id=node, host="kafka", port=9092, rack=None))
        bootstrap = [a_link(f"bootstrap-{number}", -1 - number) for number in range(servers)]
        self.bootstrap = Bootstrap(bootstrap, patience=30.0)

    @property
    def links(self) -> list[Link]:
        return [*self.lanes.nodes.values(), *self.bootstrap]

    def look(self, now: float = NOW) -> Link | float:
        return least_loaded(self.lanes, self.bootstrap, now, MAX_IN_FLIGHT)


def test_a_throttled_link_is_looked_at_when_the_throttle_is_over() -> None:
    ways = Ways(1, 0)
    (link,) = ways.links
    is_ready(link, throttle=3.0)

    assert ways.look() == NOW + 3.0
    assert ways.look(NOW + 3.0) is link


@pytest.mark.parametrize("in_flight", range(MAX_IN_FLIGHT + 1))
def test_a_full_link_has_room_only_after_an_answer(in_flight: int) -> None:
    ways = Ways(1, 0)
    (link,) = ways.links
    is_ready(link, in_flight=in_flight)
    for number in range(in_flight, MAX_IN_FLIGHT):
        assert ways.look() is link
        link.queue(a_request(NOW + number))

    assert ways.look() == NEVER


def test_a_link_in_its_backoff_is_opened_when_that_is_over() -> None:
    ways = Ways(1, 0)
    (link,) = ways.links
    has_failed(link, NOW)

    assert ways.look() == NOW + 1.0
    assert ways.look(NOW + 1.0) is link


def test_another_link_is_opened_when_an_attempt_takes_too_long() -> None:
    ways = Ways(2, 0)
    first, second = ways.links
    is_connecting(first, NOW)

    assert ways.look() == NOW + PATIENCE
    assert ways.look(NOW + PATIENCE) is second


def put_in_some_state(link: Link, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0:
            has_failed(link, NOW - chance.choice([0.1, 0.5, 0.9, 5.0]))
            if chance.random() < 0.3:
                link.attempts.pause(NOW + chance.uniform(0.0, 20.0))
        case 1:
            is_connecting(link, NOW - chance.choice([0.1, 0.5, 0.9, 5.0]))
        case 2:
            throttle = chance.choice([0.0, 0.3, 2.0])
            asked = NOW - chance.choice([0.1, 0.9, 3.0])
            is_ready(link, throttle=throttle, in_flight=chance.randrange(4), asked=asked)
            if chance.random() < 0.3:
                link.attempts.failed(NOW + 1e-3, 0.5, TIMED_OUT, proven=True)


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", all_but_the_first(40, range(300)))
def test_before_the_time_that_is_told_nothing_can_be_sent_or_opened(seed: int) -> None:
    """If it could, the request would wait although a broker is there; if the time is NEVER, for
    ever."""
    chance = random.Random(seed)
    ways = Ways(chance.randrange(4), chance.randrange(3))
    for link in ways.links:
        put_in_some_state(link, chance)

    now: float = NOW
    for _ in range(20):
        way = ways.look(now)
        if isinstance(way, Link):
            assert way.state is not LinkState.CONNECTING
            return
        assert way > now
        until = min(way, now + 100.0)
        between = [now + (until - now) * step / 200 for step in range(1, 200)]
        assert not [at for at in between if isinstance(ways.look(at), Link)]
        if way == NEVER:
            return
        now = way
    raise AssertionError("the times that are told lead nowhere")
