"""Rules of the network actor: when it says that brokers refuse us, or that nobody is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from aktor.errors import AuthenticationError
from aktor.events.answers import Answered
from aktor.events.coordinator import CoordinatorFound, SuspectCoordinator
from aktor.events.metadata import Broker
from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersLost,
    BrokersReached,
    BrokersUnreachable,
    Lane,
    ReportBootstrap,
    RequestFailed,
)
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
)
from tests.unit.actors.network.builders import (
    ANY,
    COORDINATOR,
    NetworkHarness,
    a_cluster,
    a_coordinator,
    a_request,
    connected,
    refused,
    timed_out,
    wrong_password,
)

# -- refused, and nobody there


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


# -- a broker that is back


def fail_until(harness: NetworkHarness, until: float, node: int = 1) -> NetworkHarness:
    """Broker `node` is needed, and every attempt to reach a broker fails until then."""
    while harness.time.now < until:
        harness.send(a_request(node, deadline=1e6))
        refuse_all(harness)
        harness.at(min(harness.wake_at, harness.time.now + 0.5))
    harness.send(a_request(node, deadline=1e6))
    while not harness.net.attempts:
        harness.sleep()
    return harness


def returned(harness: NetworkHarness) -> list[tuple[Any, ...]]:
    told = harness.traced("broker.returned")
    return [(one["node"], one["address"], one["seconds"]) for one in told]


def test_a_broker_that_was_lost_and_is_back_is_one_line_with_how_long_that_was() -> None:
    harness = connected().at(10.0)
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))
    fail_until(harness, 15.0)
    assert harness.traced("broker.returned") == []

    harness.open().answer()
    harness.send(a_request(1)).answer()

    ((node, address, seconds),) = returned(harness)
    assert (node, address) == (1, "a:9092")
    assert seconds == pytest.approx(harness.time.now - 10.0, abs=0.001)


def test_its_next_outage_is_told_again() -> None:
    harness = connected()
    for begin in (10.0, 50.0):
        harness.at(begin)
        harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))
        fail_until(harness, begin + 5.0).open().answer()

    assert [node for node, *_ in returned(harness)] == [1, 1]
    assert all(5.0 <= seconds < 20.0 for *_, seconds in returned(harness))


def test_a_broker_that_hung_is_back_when_it_answers() -> None:
    harness = connected().at(10.0).send(a_request(1, deadline=12.0)).at(12.0)
    harness.send(a_request(1)).sleep_until_it_connects()

    harness.open().answer()

    ((node, _, seconds),) = returned(harness)
    assert node == 1
    assert seconds == pytest.approx(harness.time.now - 10.0, abs=0.001)


def test_a_connection_that_the_broker_closed_and_that_is_opened_again_is_no_outage() -> None:
    harness = connected().at(10.0)
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=0.0))

    harness.send(a_request(1)).sleep_until_it_connects().open().answer()

    assert returned(harness) == []


def test_a_broker_with_another_connection_to_us_is_not_away_though_it_refuses_this_one() -> None:
    harness = connected()
    for moment in range(10, 20):
        harness.at(float(moment)).send(a_request(1, lane=Lane.FETCH, deadline=1e6))
        refuse_all(harness)
        harness.send(a_request(1)).answer()

    assert returned(harness) == []


def test_a_broker_that_is_away_is_not_back_because_another_one_is_the_coordinator() -> None:
    """Its connection as the coordinator, which failed, is forgotten then."""
    harness = NetworkHarness().tell(a_cluster(a=1, b=2), a_coordinator()).send(a_request(1))
    harness.open_all().answer().send(a_request(COORDINATOR, deadline=10.0)).open_all()
    harness.at(10.0)

    harness.tell(a_coordinator("b", 2)).at(11.0)
    assert returned(harness) == []

    harness.at(12.0).send(a_request(1)).answer()
    assert returned(harness) == [(1, "a:9092", pytest.approx(12.0, abs=0.001))]


def test_nothing_is_guessed_of_a_broker_that_has_answered_when_it_closes_another_connection() -> (
    None
):
    guess = KafkaConnectionError("broker a:9092: it hung up; its listener seems to want a login")
    harness = connected().send(a_request(1, lane=Lane.FETCH)).refuse(guess)

    (failed,) = harness.of(RequestFailed)
    assert str(failed.error).endswith("broker a:9092: it hung up")


def test_a_broker_that_answers_others_is_not_away_though_one_request_has_no_answer() -> None:
    harness = connected().at(10.0).send(a_request(1, lane=Lane.FETCH, deadline=13.0)).open_all()
    harness.at(12.0).send(a_request(1)).answer()

    harness.at(13.0).at(13.5).send(a_request(1)).answer()

    assert returned(harness) == []


def test_the_first_server_that_answers_after_others_failed_is_told_and_no_server_later() -> None:
    harness = NetworkHarness(bootstrap_servers=(("x", 1), ("y", 2)))
    harness.send(a_request(ANY, deadline=1e6))
    keep_refusing(harness, until=8.0)
    harness.sleep()

    harness.open().answer().tell(a_cluster(a=1)).send(a_request(1)).open().answer()

    assert [node < 0 for node, *_ in returned(harness)] == [True]


def test_a_broker_that_answers_on_another_connection_is_not_lost() -> None:
    """After an outage each connection has a backoff of its own."""
    harness = connected().send(a_request(1, lane=Lane.FETCH)).refuse()
    while harness.time.now < 45.0:
        harness.at(harness.time.now + 1.0)
        harness.send(a_request(1), a_request(1, lane=Lane.FETCH, deadline=1e6))
        for key in list(harness.net.attempts):
            harness.tell(ConnectionFailed(key=key, error=refused(), now=0.0))
        harness.answer()

    assert harness.of(BrokersLost) == []


def test_a_broker_that_nobody_has_needed_for_long_is_not_lost() -> None:
    """It died, and others lead its partitions since."""
    harness = connected().tell(a_cluster(a=1, b=2)).send(a_request(2, deadline=1e6)).refuse()
    while harness.time.now < 9.0:
        now = harness.time.now + 1.0
        harness.at(now).send(a_request(2, deadline=now + 0.5))
        for key in list(harness.net.attempts):
            harness.tell(ConnectionFailed(key=key, error=refused(), now=0.0))

    while harness.time.now < 60.0:
        harness.at(harness.time.now + 1.0)

    assert harness.of(BrokersLost) == []
    assert harness.traced("broker.lost") == []
