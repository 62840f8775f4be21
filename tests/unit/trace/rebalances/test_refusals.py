"""Members that brokers refuse: a login, the group, a topic. No rebalance tells of most of them."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code
from aktor.simulation import Simulation
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Rebalance, Refusal
from tests.unit.trace.rebalances.incidents import Incident, tables_of
from tests.unit.trace.rebalances.told import BEGAN, Member, rows_of

LOGIN = (
    "AuthenticationError: authentication with broker b{}:9092 by PLAIN failed: Invalid username or"
    " password."
)
GROUP = (
    "GroupAuthorizationFailedError: the coordinator of group 'g' could not be found"
    " (GROUP_AUTHORIZATION_FAILED), says broker {}"
)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def carol(events: list[Event]) -> Member:
    return Member(events, "carol")


def test_a_member_that_never_gets_in_is_named_with_the_login_that_was_refused(
    events: list[Event], carol: Member
) -> None:
    carol.tells(BEGAN, "connection.failed", because="KafkaConnectionError: connection refused")
    for second in range(3):
        carol.tells(BEGAN + second, "connection.failed", because=LOGIN.format(second))

    (row,) = rows_of(events, Refusal)

    assert (row.consumer, row.refused, row.times) == ("carol", "login", 3)
    assert (row.began, row.ended) == (BEGAN, BEGAN + 2)
    assert row.sentence == (
        "g: carol on host-carol was refused the login 3 times within 2.0 s: AuthenticationError:"
        " authentication with broker b0:9092 by PLAIN failed: Invalid username or password."
    )


@pytest.mark.parametrize("event", ["bootstrap.failed", "brokers.unreachable"])
def test_a_member_that_reaches_no_broker_is_named_though_nothing_is_refused(
    events: list[Event], carol: Member, event: str
) -> None:
    because = "BootstrapError: no Kafka broker could be reached (b1:9092: Connection refused)."
    for second in (2, 4, 6):
        carol.tells(BEGAN + second, event, because=because)

    (row,) = rows_of(events, Refusal)

    assert (row.consumer, row.refused, row.times) == ("carol", "brokers", 3)
    assert row.sentence == (
        "g: carol on host-carol could not reach any broker 3 times within 4.0 s: BootstrapError: no"
        " Kafka broker could be reached (b1:9092: Connection refused)."
    )


def test_another_refusal_and_the_same_after_a_pause_are_rows_of_their_own(
    events: list[Event], carol: Member
) -> None:
    carol.tells(BEGAN, "topic.refused", topics=["t"], because="Metadata for t was refused")
    carol.tells(BEGAN + 1, "topic.refused", topics=["u"], because="the topic u is unknown")
    carol.tells(BEGAN + 100, "topic.refused", topics=["u"], because="the topic u is unknown")
    carol.tells(BEGAN + 101, "group.failed", because="refused")

    rows = rows_of(events, Refusal)

    assert [(row.began - BEGAN, row.refused) for row in rows] == [
        (0, "topic"),
        (1, "topic"),
        (101, "group"),
        (100, "topic"),
    ]


def test_a_coordinator_that_refuses_the_user_is_not_told_to_be_away(
    events: list[Event], carol: Member
) -> None:
    carol.tells(BEGAN, "rebalance.triggered", because="first join", rebalance=1)
    carol.tells(BEGAN, "membership.moved", before="unjoined", after="joining")
    carol.tells(BEGAN + 2, "coordinator.retried", because="FindCoordinator timed out")
    for second in (5, 6, 7, 8):
        carol.tells(BEGAN + second, "coordinator.refused", because=GROUP.format(second))
    carol.tells(BEGAN + 60, "membership.moved", before="joining", after="leaving")

    (row,) = rows_of(events, Rebalance)

    assert (
        "it waited 58.0 s for the coordinator, GroupAuthorizationFailedError: the" in row.sentence
    )
    assert "timed out" not in row.sentence


def test_a_member_whose_heartbeats_are_refused_while_it_joins_says_why(
    events: list[Event], carol: Member
) -> None:
    carol.tells(BEGAN, "rebalance.triggered", because="first join", rebalance=1)
    carol.tells(BEGAN, "membership.moved", before="unsubscribed", after="joining")
    for second in range(1, 5):
        because = "TOPIC_AUTHORIZATION_FAILED (says broker 1); grant this principal READ"
        carol.tells(BEGAN + second, "heartbeat.failed", because=because, state="joining")
    carol.tells(BEGAN + 6, "membership.moved", before="joining", after="leaving")

    (row,) = rows_of(events, Rebalance)

    assert (
        "; the coordinator refused it 4 times or did not answer: TOPIC_AUTHORIZATION_FAILED;"
        in row.sentence
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_join_that_the_group_refuses_is_no_rebalance(protocol: str) -> None:
    api = "JoinGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        group.joins()
        sim.run(for_=10)
        sim.brokers.refuse(api, Code.GROUP_MAX_SIZE_REACHED, client_id="bob", times=100)
        group.joins()
        sim.run(for_=3)
        group.joins()
        sim.run(for_=10)
        tables = tables_of(group.events())

    refused = [row for row in tables.refusals if row.refused == "group"]
    assert {row.consumer for row in refused} == {"bob"}
    assert [(row.initiator, row.trigger) for row in tables.rebalances] == [
        ("alice", "join"),
        ("carol", "join"),
    ]
    assert {row.consumer for row in tables.parts} == {"alice", "carol"}


def test_what_is_refused_to_a_member_is_counted_once(events: list[Event], carol: Member) -> None:
    """A KIP-848 member tells of the heartbeat that was refused, and of what that means to it."""
    carol.tells(BEGAN, "rebalance.triggered", because="first join", rebalance=1, generation=0)
    carol.tells(BEGAN, "membership.moved", before="unsubscribed", after="joining")
    carol.tells(BEGAN + 1, "heartbeat.failed", because="UNRELEASED_INSTANCE_ID", state="joining")
    carol.tells(BEGAN + 2, "member.epoch", before=0, after=1)
    carol.tells(BEGAN + 3, "heartbeat.failed", because="GROUP_AUTHORIZATION_FAILED", state="x")
    because = "GroupAuthorizationFailedError: GROUP_AUTHORIZATION_FAILED"
    carol.tells(BEGAN + 3, "group.failed", because=because)
    carol.tells(BEGAN + 3, "membership.moved", before="joining", after="fatal")

    (row,) = rows_of(events, Rebalance)

    assert f"; the coordinator refused it 2 times or did not answer: {because};" in row.sentence
