"""Rules of the network actor: which request waits for which, and which has its own connection."""

from __future__ import annotations

import pytest
from kafka.errors import CoordinatorNotAvailableError, KafkaConnectionError
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest

from aktor.events.coordinator import CoordinatorLost
from aktor.events.network import (
    BrokersLost,
    Rebootstrap,
    RequestFailed,
    ResponseReceived,
)
from aktor.events.sockets import (
    ConnectionClosed,
)
from aktor.values import replace
from tests.unit.actors.network.builders import (
    ANY,
    COORDINATOR,
    FETCH,
    HOLDS,
    NetworkHarness,
    a_cluster,
    a_coordinator,
    a_join,
    a_request,
    answered,
    connected,
)


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
    assert harness.of(BrokersLost)[0].brokers == {2: "b:9092: Connection refused"}
    (told,) = harness.traced("broker.lost")
    assert (told["address"], told["because"]) == ("b:9092", "Connection refused")


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
