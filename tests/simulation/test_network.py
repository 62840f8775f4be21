"""The simulated network keeps TCP's promises, whatever happens to a link."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.sockets.addresses import HEAD_START
from aktor.broker.codes import Code
from aktor.broker.faults import Corrupt, Drop, FailWith, Fault, Swallow, Throttle, Truncate
from aktor.broker.sasl import Authentication, Users
from aktor.errors import AuthenticationError, FrameError
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
)
from aktor.settings import Settings
from aktor.simulation import Simulation
from aktor.simulation.world.connections import SimulatedNet
from aktor.simulation.world.network import NOWHERE


@pytest.mark.parametrize("seed", range(10))
def test_what_was_held_back_on_a_cut_link_is_not_overtaken_by_what_is_under_way(seed: int) -> None:
    """Found by a crash drill: an answer came before the answer to an earlier request."""
    arrived: list[str] = []
    with Simulation(seed) as sim:
        link = ("alice", 1)
        sim.network.cut_link(*link)
        sim.network.carry(link, lambda: arrived.append("held back"))
        sim.scheduler.after(0.0, lambda: sim.network.mend_link(*link))
        sim.scheduler.after(
            0.0, lambda: sim.network.carry(link, lambda: arrived.append("under way"))
        )

        sim.run(for_=1.0)

    assert arrived == ["held back", "under way"]


class Client:
    """One end of the network, by hand."""

    def __init__(self, sim: Simulation, settings: Settings | None = None) -> None:
        self.sim = sim
        self.told: list[Any] = []
        self.net = SimulatedNet(
            sim.network,
            "alice",
            self.told.append,
            consumer="alice",
            settings=settings or Settings(client_id="alice"),
            clock=lambda: sim.scheduler.now,
        )
        self.asked = 0

    def connect(self, key: str, host: str = "b1", timeout: float = 10.0) -> None:
        self.net.connect(key, host, 9092, timeout)
        self.sim.run(for_=0.1)

    def ask(self, key: str, for_: float = 0.1) -> None:
        self.asked += 1
        self.net.send(key, self.asked, MetadataRequest(topics=None))
        self.sim.run(for_=for_)

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.told if isinstance(one, kind)]

    @property
    def answered(self) -> list[int]:
        return [one.request_id for one in self.of(RequestAnswered)]


@pytest.fixture
def client() -> Iterator[Client]:
    with Simulation(seed=1) as sim:
        made = Client(sim)
        made.connect("one")
        yield made


def test_what_is_sent_over_a_link_cut_one_way_is_handled_and_its_answer_comes_late(
    client: Client,
) -> None:
    client.sim.network.cut_way((1, "alice"))
    client.ask("one", for_=2.0)
    assert not client.answered

    client.sim.network.mend_link("alice", 1)
    client.sim.run(for_=0.1)

    assert client.answered == [1]


@pytest.mark.parametrize("orderly", [True, False])
def test_what_was_sent_before_an_orderly_close_arrives_and_what_was_given_up_does_not(
    client: Client, orderly: bool
) -> None:
    client.sim.network.cut_link("alice", 1)
    client.sim.network.disturb(Fault(action=Swallow(), api="Metadata"))
    client.ask("one")
    if orderly:
        client.net.close()
    else:
        client.net.close_connection("one")
    client.sim.run(for_=10.0)

    client.sim.network.mend_link("alice", 1)
    client.sim.run(for_=0.1)

    assert any(client.sim.history.named("request.hindered")) == orderly


def test_a_broker_hears_of_a_reset_that_was_lost_when_it_answers(client: Client) -> None:
    client.sim.network.cut_way((1, "alice"))
    client.ask("one")  # whose answer is held back
    client.sim.network.cut_link("alice", 1)
    client.net.close_connection("one")
    client.sim.run(for_=0.1)
    assert client.sim.network.accepted == 1

    client.sim.network.mend_link("alice", 1)
    client.sim.run(for_=0.1)

    assert client.sim.network.accepted == 0


def test_a_torn_answer_is_heard_of_before_it_is_whole(client: Client) -> None:
    client.sim.network.tearing = 1.0
    heard = []
    for number in range(1, 6):
        client.ask("one", for_=0.0)
        while number not in client.answered:
            client.sim.run(for_=0.01)
            heard.append(client.net.has_heard("one"))

    assert any(heard)


def test_an_answer_that_is_cut_off_ends_with_its_connection(client: Client) -> None:
    client.sim.network.disturb(Fault(action=Truncate(6)))

    client.ask("one")

    assert [one.key for one in client.of(ConnectionClosed)] == ["one"]


def test_an_answer_to_another_request_is_the_end_of_its_connection(client: Client) -> None:
    client.sim.network.disturb(Fault(action=Corrupt(position=0)))

    client.ask("one")

    (closed,) = client.of(ConnectionClosed)
    assert isinstance(closed.error, FrameError)


def test_an_answer_that_never_comes_keeps_what_follows_on_its_connection(client: Client) -> None:
    client.sim.network.disturb(Fault(action=Swallow()))
    client.ask("one")
    client.ask("one")
    client.connect("other")
    client.ask("other")

    assert client.answered == [3]


def test_a_client_that_is_throttled_is_told_for_how_long(client: Client) -> None:
    client.sim.network.disturb(Fault(action=Throttle(2.0)))

    client.ask("one")

    (answer,) = client.of(RequestAnswered)
    assert answer.throttle == 2.0


def test_a_broker_that_hears_nothing_new_says_again_what_it_said(client: Client) -> None:
    client.sim.network.outdated[1] = {}
    client.ask("one")
    client.sim.topic("orders")
    client.ask("one")
    del client.sim.network.outdated[1]
    client.ask("one")

    assert [len(one.response.topics) for one in client.of(RequestAnswered)] == [0, 0, 1]


def test_what_is_advertised_may_lead_nowhere(client: Client) -> None:
    client.connect("lost", NOWHERE, timeout=5.0)
    client.sim.run(for_=5.0)

    assert [one.key for one in client.of(ConnectionFailed)] == ["lost"]
    assert [one.key for one in client.of(ConnectionOpened)] == ["one"]


def test_a_broker_that_has_moved_is_found_at_its_new_address_only(client: Client) -> None:
    client.sim.network.move_broker(1)
    client.connect("old", "b1", timeout=5.0)
    client.connect("new", "b1-1", timeout=5.0)
    client.connect("balanced", "kafka.example", timeout=5.0)
    client.sim.run(for_=5.0)

    assert [one.key for one in client.of(ConnectionFailed)] == ["old"]
    assert [one.key for one in client.of(ConnectionOpened)] == ["one", "new", "balanced"]


# -- names with several addresses


def opens_after(client: Client, key: str, host: str) -> float:
    """Seconds that it takes."""
    sim, began = client.sim, client.sim.now
    client.net.connect(key, host, 9092, 10.0)
    opened = ConnectionOpened(key=key, now=0.0)
    sim.run(until=lambda: opened in client.told, at_most=10.0)
    return sim.now - began


def test_a_name_with_an_address_that_leads_nowhere_is_reached_by_the_other(client: Client) -> None:
    names = client.sim.network.names
    names.addresses, names.dead[2] = 2, 0

    assert HEAD_START < opens_after(client, "two", "b2") < HEAD_START + 0.1
    # What works is known from then on, also to the next connection.
    assert opens_after(client, "three", "b2") < 0.1


def test_who_loses_a_connection_goes_on_with_the_next_address(client: Client) -> None:
    names = client.sim.network.names
    names.addresses = 2
    assert opens_after(client, "two", "b2") < 0.1

    names.dead[2] = 0
    client.net.swallow_what_is_dead()
    client.ask("two")
    assert client.answered == []
    client.net.close_connection("two")
    assert opens_after(client, "again", "b2") < 0.1
    client.ask("again")
    assert client.answered == [2]


def test_a_connection_of_which_a_broker_knows_nothing_is_reset_like_one_that_swallows_all(
    client: Client,
) -> None:
    client.sim.brokers.crash(1, silent=True)
    client.sim.brokers.restart(1)
    client.sim.run(for_=1.0)
    assert client.of(ConnectionClosed) == []

    client.net.break_swallowed()

    assert [one.key for one in client.of(ConnectionClosed)] == ["one"]


def test_an_address_that_answers_after_another_has_is_not_waited_for(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.sim.network.names.addresses = 2
    client.sim.network.slower = 2 * HEAD_START

    client.connect("two", "b2")
    client.sim.run(for_=5.0)

    assert [one.key for one in client.of(ConnectionOpened)] == ["one", "two"]
    assert not caplog.records  # a future would tell of what went wrong behind it


def test_a_broker_that_does_not_run_refuses_at_all_addresses(client: Client) -> None:
    client.sim.network.names.addresses = 2
    client.sim.brokers.crash(2)

    client.connect("two", "b2")

    (failed,) = client.of(ConnectionFailed)
    assert "connection refused" in str(failed.error)


# -- handshakes


def logging_in(sim: Simulation, *, mechanism: str = "PLAIN", password: str = "secret") -> Client:
    """A client of brokers that know one user."""
    users = Users({"reader": "secret"})
    sim.network.with_handshakes = True
    sim.network.log_in = lambda: Authentication(users, rng=random.Random(1))
    settings = Settings(
        client_id="alice",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        connection={"sasl_plain_username": "reader", "sasl_plain_password": password},
    )
    return Client(sim, settings)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_connection_is_open_once_the_client_has_logged_in(mechanism: str) -> None:
    with Simulation(seed=1) as sim:
        client = logging_in(sim, mechanism=mechanism)

        client.connect("one")
        client.ask("one")

        assert client.answered == [1]


def test_a_wrong_password_is_a_connection_that_fails() -> None:
    with Simulation(seed=1) as sim:
        client = logging_in(sim, password="guess")

        client.connect("one")

        (failed,) = client.of(ConnectionFailed)
        assert isinstance(failed.error, AuthenticationError)
        assert "guess" not in str(failed.error)
        assert not client.of(ConnectionOpened)


@pytest.mark.parametrize("api", ["ApiVersions", "SaslHandshake", "SaslAuthenticate"])
@pytest.mark.parametrize(
    "spoiled", [Drop(before=True), Drop(before=False), Truncate(6), Corrupt(position=0)], ids=str
)
def test_a_connection_that_ends_during_its_handshake_has_failed(api: str, spoiled: Any) -> None:
    with Simulation(seed=1) as sim:
        client = logging_in(sim)
        sim.network.disturb(Fault(action=spoiled, api=api))

        client.connect("one")
        client.connect("other")

        assert [one.key for one in client.of(ConnectionFailed)] == ["one"]
        assert [one.key for one in client.of(ConnectionOpened)] == ["other"]


def test_a_handshake_whose_answer_never_comes_takes_its_time_only() -> None:
    with Simulation(seed=1) as sim:
        client = logging_in(sim)
        sim.network.disturb(Fault(action=Swallow(), api="SaslAuthenticate"))

        client.connect("one", timeout=2.0)
        sim.run(for_=2.0)

        assert [one.key for one in client.of(ConnectionFailed)] == ["one"]


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_an_older_one() -> None:
    with Simulation(seed=1) as sim:
        client = logging_in(sim)
        sim.network.disturb(Fault(action=FailWith(Code.UNSUPPORTED_VERSION), api="ApiVersions"))

        client.connect("one")
        client.ask("one")

        assert client.answered == [1]


def test_without_handshakes_a_connection_is_open_at_once() -> None:
    with Simulation(seed=1) as sim:
        sim.network.disturb(Fault(action=Swallow(), api="ApiVersions"))
        client = Client(sim)

        client.connect("one")

        assert client.of(ConnectionOpened)
