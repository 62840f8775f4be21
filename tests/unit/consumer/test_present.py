"""Why nothing is delivered: a pure function of the picture."""

from __future__ import annotations

import math
import re
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.structs import TopicPartition

from aktor.consumer.core.caller import thread_of
from aktor.consumer.core.partition import Stage
from aktor.consumer.core.rebalancing import UserCode
from aktor.consumer.present import health, picture
from aktor.consumer.present.picture import ApplicationNow, Picture
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.consumer.present.seen import PartitionSeen
from aktor.consumer.present.stack import line_of, stack_of
from aktor.consumer.present.watch import ahead_by
from aktor.events.metadata import Broker, Cluster, PartitionInfo, TopicInfo
from aktor.events.present import (
    BrokerNow,
    CommitsFail,
    CommitsNow,
    CoordinatorNow,
    FetchNow,
    Heard,
    Hindrance,
    MemberNow,
    MetadataNow,
    NetworkNow,
    PositionNow,
    PositionsNow,
    TopicTrouble,
)
from tests.unit.consumer.core.builders import a_consumer

NOW = 1000.0
T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def heard(at: float) -> tuple[Heard, ...]:
    one = Heard()
    one.note(at)
    return (one,)


def a_broker(node: int = 1, *, answered: float = NOW - 0.1, **said: Any) -> BrokerNow:
    known: dict[str, Any] = {
        "node": node,
        "address": f"kafka-{node}:9092",
        "connected": True,
        "connecting_since": None,
        "failing_since": None,
        "failed_at": -math.inf,
        "attempts": 0,
        "error": "",
        "retry_at": -math.inf,
        "refused": False,
        "throttled_since": -math.inf,
        "throttled_until": -math.inf,
        "heard": heard(answered),
    }
    return BrokerNow(**known | said)


def a_dead_broker(node: int = 1, *, since: float = 7.2, **said: Any) -> BrokerNow:
    failing: dict[str, Any] = {
        "connected": False,
        "answered": NOW - since - 0.1,
        "failing_since": NOW - since,
        "failed_at": NOW - 0.2,
        "attempts": 14,
        "error": "Connection refused",
        "retry_at": NOW + 0.3,
    }
    return a_broker(node, **failing | said)


def a_throttling_broker(node: int) -> BrokerNow:
    return a_broker(node, throttled_since=NOW - 2.0, throttled_until=NOW + 3.0)


def trouble(**said: Any) -> MetadataNow:
    return MetadataNow(troubles={"orders": TopicTrouble(**said)})


def network(*brokers: BrokerNow) -> NetworkNow:
    return NetworkNow(brokers={one.node: one for one in brokers})


def a_member(**said: Any) -> MemberNow:
    known: dict[str, Any] = {
        "state": "stable",
        "step": "",
        "since": NOW - 100.0,
        "asked_at": math.inf,
        "answered_at": NOW - 0.5,
        "failing_since": math.inf,
        "failures": 0,
        "session": 6.0,
        "rebalance_until": math.inf,
        "trouble": "",
    }
    return MemberNow(**known | said)


def a_coordinator(**said: Any) -> CoordinatorNow:
    known: dict[str, Any] = {
        "known": True,
        "node": 1,
        "address": "kafka-1:9092",
        "since": -math.inf,
        "asked": 0,
        "trouble": "",
        "retry_at": -math.inf,
        "refused": False,
    }
    return CoordinatorNow(**known | said)


def an_application(**said: Any) -> ApplicationNow:
    known: dict[str, Any] = {
        "polled_at": NOW - 0.2,
        "waits": False,
        "waits_in": "",
        "callback": "",
        "callback_since": -math.inf,
        "line": "",
        "delivered_at": NOW - 10.0,
    }
    return ApplicationNow(**known | said)


def seen(**said: Any) -> PartitionSeen:
    known: dict[str, Any] = {
        "position": 5,
        "end": 5,
        "lag": 0,
        "high_watermark": 5,
        "paused": False,
        "stage": Stage.OWNED,
        "subscribed": True,
        "buffered": 0,
        "arrived": 0,
        "records": 0,
        "next_at": -1,
        "error": "",
        "in_hand": 0,
    }
    return PartitionSeen(**known | said)


def cluster(*leaders: int) -> Cluster:
    """The topic has a partition for each of these leaders."""
    return Cluster(
        version=1,
        brokers={n: Broker(node_id=n, host=f"kafka-{n}", port=9092) for n in (1, 2)},
        topics={
            "orders": TopicInfo(
                topic_id=None,
                partitions={
                    number: PartitionInfo(leader=leader, leader_epoch=1)
                    for number, leader in enumerate(leaders or (2,))
                },
            )
        },
    )


def a_picture(**said: Any) -> Picture:
    """A stable member that owns one partition, led by broker 2; its coordinator is broker 1."""
    known: dict[str, Any] = {
        "now": NOW,
        "wall": 1_700_000_000.0,
        "group_id": "g",
        "in_group": True,
        "subscribed": True,
        "topics": frozenset({"orders"}),
        "cluster": cluster(),
        "session_until": NOW + 5.0,
        "session_timeout": 10.0,
        "max_poll_interval": 300.0,
        "application": an_application(),
        "network": network(a_broker(1), a_broker(2)),
        "coordinator": a_coordinator(),
        "member": a_member(),
        "partitions": {T0: seen()},
        "room": 1000,
    }
    return Picture(**known | said)


def changed(p: Picture, **said: Any) -> Picture:
    return Picture(**{name: getattr(p, name) for name in p.FIELDS} | said)


def wrong(p: Picture) -> str:
    return sentence.wrong(sentence.Findings.of(p))


def waits(p: Picture) -> WaitingFor:
    waiting = of_partitions(p)
    reason = waiting[T0] if waiting else of_consumer(p)
    assert reason is not None
    return reason.waiting_for


def test_the_sentence_for_a_coordinator_that_is_gone_has_all_facts() -> None:
    p = a_picture(
        network=network(a_dead_broker(1), a_broker(2)),
        session_until=NOW - 1.2,
        partitions={T0: seen(records=131, buffered=500, lag=131)},
    )

    assert sentence.why(p) == (
        "Nothing is delivered: the coordinator (broker 1, kafka-1:9092) has not answered for 7.2 s"
        " (Connection refused, 14 attempts). 131 records are buffered and withheld, since the"
        " session (6.0 s) may be over. The next attempt is made in 0.3 s. Not your code: the last"
        " poll was 0.2 s ago."
    )
    assert waits(p) is WaitingFor.SESSION


#: What is wrong, what the partition waits for then, and words of the sentence.
INCIDENTS: dict[str, tuple[dict[str, Any], WaitingFor, str]] = {
    "all brokers are down": (
        {"network": network(a_dead_broker(1), a_dead_broker(2))},
        WaitingFor.BROKER,
        "no broker has been reachable for 7.2 s: broker 1, kafka-1:9092 (Connection refused",
    ),
    "the leader is down": (
        {"network": network(a_broker(1), a_dead_broker(2))},
        WaitingFor.BROKER,
        "its leader (broker 2, kafka-2:9092) has not answered for 7.2 s",
    ),
    "the leader accepts no connection and refuses none": (
        {
            "network": network(
                a_broker(1),
                a_broker(2, connected=False, connecting_since=NOW - 4, answered=NOW - 4.5),
            )
        },
        WaitingFor.BROKER,
        "kafka-2:9092) has not answered for 4.0 s",
    ),
    "the leader is down, and some of its records are here": (
        {
            "network": network(a_broker(1), a_dead_broker(2)),
            "partitions": {T0: seen(lag=9, buffered=70, records=9, here_since=NOW - 2.0)},
        },
        WaitingFor.BROKER,
        "Nothing new, but what is buffered, is delivered from orders-0: orders-0: its leader"
        " (broker 2, kafka-2:9092) has not answered for 7.2 s",
    ),
    "all brokers are down, and some records are here": (
        {
            "network": network(a_dead_broker(1), a_dead_broker(2)),
            "partitions": {T0: seen(lag=9, buffered=70, records=9, here_since=NOW - 2.0)},
        },
        WaitingFor.BROKER,
        "Buffered records (9 here) are still delivered, but no broker has been reachable for 7.2 s",
    ),
    "all brokers are down, some records are here, and the application does not poll": (
        {
            "network": network(a_dead_broker(1), a_dead_broker(2)),
            "partitions": {T0: seen(lag=9, buffered=70, records=9)},
            "application": an_application(polled_at=NOW - 8.0),
        },
        WaitingFor.BROKER,
        "Buffered records (9 here) can still be delivered, but no broker has been reachable",
    ),
    "all brokers are down, and the records that are here are withheld": (
        {
            "network": network(a_dead_broker(1), a_dead_broker(2)),
            "session_until": NOW - 1.2,
            "partitions": {T0: seen(lag=9, buffered=70, records=9)},
        },
        WaitingFor.BROKER,
        "Nothing is delivered: no broker has been reachable for 7.2 s",
    ),
    "all brokers are down, and only a paused partition has records here": (
        {
            "network": network(a_dead_broker(1), a_dead_broker(2)),
            "partitions": {T0: seen(lag=9, buffered=70, records=9, paused=True)},
        },
        WaitingFor.BROKER,
        "Nothing is delivered: no broker has been reachable for 7.2 s",
    ),
    "the leader answers no Fetch": (
        {"fetch": FetchNow(late={2: NOW - 3.0})},
        WaitingFor.BROKER,
        "kafka-2:9092) has not answered a Fetch for 3.0 s",
    ),
    "a Fetch to the leader has failed, and it answers other requests": (
        {
            "fetch": FetchNow(late={2: NOW - 25.0}, failed={2: (NOW - 3.0, "Connection refused")}),
            "network": network(a_broker(1), a_broker(2, answered=NOW - 0.5)),
        },
        WaitingFor.BROKER,
        "kafka-2:9092) has not answered a Fetch for 25.0 s; the last one failed 3.0 s ago"
        " (Connection refused), and it answered another request 0.5 s ago.",
    ),
    "a Fetch to the leader has failed, and it has answered nothing since": (
        {
            "fetch": FetchNow(late={2: NOW - 25.0}, failed={2: (NOW - 3.0, "Connection refused")}),
            "network": network(a_broker(1), a_broker(2, answered=NOW - 26.0)),
        },
        WaitingFor.BROKER,
        "has not answered a Fetch for 25.0 s; the last one failed 3.0 s ago (Connection refused).",
    ),
    "the replica that is read answers no Fetch": (
        {"fetch": FetchNow(late={1: NOW - 3.0}, replicas={T0: 1})},
        WaitingFor.BROKER,
        "the replica that is read (broker 1, kafka-1:9092) has not answered a Fetch for 3.0 s",
    ),
    "the replica that is read is down": (
        {
            "network": network(a_dead_broker(3), a_broker(2)),
            "fetch": FetchNow(replicas={T0: 3}),
        },
        WaitingFor.BROKER,
        "the replica that is read (broker 3, kafka-3:9092) has not answered for 7.2 s",
    ),
    "the login is refused": (
        {
            "network": network(
                a_dead_broker(1, refused=True, error="SASL: bad password", answered=-math.inf)
            )
        },
        WaitingFor.REFUSED,
        "broker 1, kafka-1:9092 has refused our login for 7.2 s (SASL: bad password)",
    ),
    "a quota is used up": (
        {
            "network": network(a_broker(1), a_broker(2, throttled_until=NOW + 3.0)),
            "fetch": FetchNow(late={2: NOW - 3.0}),  # the Fetch waits at home
        },
        WaitingFor.THROTTLED,
        "broker 2, kafka-2:9092 has throttled us (a quota is used up); 3.0 s are left",
    ),
    "nobody leads it": (
        {"cluster": cluster(-1)},
        WaitingFor.LEADER,
        "no broker has led it",
    ),
    "nobody leads it, and a broker did that is known": (
        {
            "cluster": cluster(-1),
            "fetch": FetchNow(
                hindered={
                    T0: Hindrance(state="out", since=NOW - 9.0, node=2, until=-math.inf, trouble="")
                }
            ),
        },
        WaitingFor.LEADER,
        "no broker has led it for 9.0 s; broker 2, kafka-2:9092 did before",
    ),
    "the coordinator refuses the login on one connection, and answers on another": (
        {
            "network": network(
                a_broker(
                    1,
                    refused=True,
                    failing_since=NOW - 7.2,
                    failed_at=NOW - 0.2,
                    attempts=14,
                    error="SASL: bad password",
                ),
                a_broker(2),
            ),
            "member": a_member(failing_since=NOW - 7.4, failures=14),
        },
        WaitingFor.RECORDS,
        "the coordinator (broker 1, kafka-1:9092) has refused our login for 7.2 s (SASL: bad"
        " password); no heartbeat has been answered for 7.4 s",
    ),
    "the topic is gone": (
        {"cluster": Cluster(version=1), "metadata": trouble(since=NOW - 3.0)},
        WaitingFor.LEADER,
        "no broker has known the topic 'orders'",
    ),
    "the topic may not be described": (
        {"metadata": trouble(since=NOW - 3.0, error="X", forbidden=True), "cluster": cluster(-1)},
        WaitingFor.REFUSED,
        "this principal has not been allowed to describe the topic 'orders' for 3.0 s",
    ),
    "the topic's name is refused": (
        {"metadata": trouble(since=NOW - 3.0, error="INVALID_TOPIC_EXCEPTION"), "partitions": {}},
        WaitingFor.REFUSED,
        "the topic 'orders' has been refused for 3.0 s (INVALID_TOPIC_EXCEPTION)",
    ),
    "no answer about the topic has come yet": (
        {"cluster": Cluster(version=1)},
        WaitingFor.BROKER,
        "the metadata that is known has no topic 'orders'",
    ),
    "the pattern matches nothing": (
        {
            "topics": frozenset(),
            "pattern": "zz.*",
            "member": a_member(state="unjoined", since=NOW - 99.0),
            "partitions": {},
        },
        WaitingFor.LEADER,
        "no topic that the brokers have reported matches the pattern 'zz.*'",
    ),
    "the process is a fork": (
        {"forked": True},
        WaitingFor.CONSUMER,
        "this process is a fork, and the consumer is that of its parent process",
    ),
    "it is being closed": (
        {"closing": True, "application": an_application(polled_at=NOW - 9.0)},
        WaitingFor.CONSUMER,
        "Nothing is delivered: the consumer is being closed.",
    ),
    "it is being closed while the listener is slow": (
        {
            "closing": True,
            "application": an_application(
                callback="on_partitions_revoked", callback_since=NOW - 4.0
            ),
        },
        WaitingFor.CALLBACK,
        "has not returned for 4.0 s.",
    ),
    "its position waits for the first poll": (
        {
            "application": an_application(polled_at=-math.inf),
            "partitions": {T0: seen(position=None, end=None, lag=None)},
        },
        WaitingFor.APPLICATION,
        "the application has not polled yet; its position is taken over by the next poll",
    ),
    "its position is looked up": (
        {
            "partitions": {T0: seen(position=None, end=None, lag=None)},
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="reset",
                        since=NOW - 4.0,
                        node=2,
                        asked_at=NOW - 4.0,
                        trouble="",
                        retry_at=-math.inf,
                    )
                }
            ),
        },
        WaitingFor.POSITION,
        "broker 2, kafka-2:9092 was asked 4.0 s ago and has not answered",
    ),
    "its position is looked up, and only another connection to the broker works": (
        {
            "network": network(
                a_broker(1), a_broker(2, attempts=17, failed_at=NOW - 8.0, retry_at=NOW + 5.2)
            ),
            "partitions": {T0: seen(position=None, end=None, lag=None)},
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="validation",
                        since=NOW - 4.0,
                        node=2,
                        asked_at=NOW - 4.0,
                        trouble="",
                        retry_at=-math.inf,
                    )
                }
            ),
        },
        WaitingFor.POSITION,
        "(the request to broker 2, kafka-2:9092 is 4.0 s old; a connection to it has failed, the"
        " next attempt is made in 5.2 s)",
    ),
    "its position is looked up, and a quota is used up": (
        {
            "network": network(a_broker(1), a_throttling_broker(2)),
            "partitions": {T0: seen(position=None, end=None, lag=None)},
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="reset",
                        since=NOW - 1.5,
                        node=2,
                        asked_at=NOW - 1.5,
                        trouble="",
                        retry_at=-math.inf,
                    )
                }
            ),
        },
        WaitingFor.THROTTLED,
        "began 1.5 s ago (broker 2, kafka-2:9092 has throttled us for 2.0 s (a quota is used up);"
        " 3.0 s are left)",
    ),
    "it joins, and a quota is used up": (
        {
            "network": network(a_throttling_broker(1), a_broker(2)),
            "member": a_member(state="joining", step="members", since=NOW - 2.5),
            "partitions": {},
        },
        WaitingFor.GROUP,
        "the member has waited 2.5 s to get into its group: the coordinator (broker 1,"
        " kafka-1:9092) has throttled us for 2.0 s (a quota is used up); 3.0 s are left",
    ),
    "a heartbeat waits, since a quota is used up": (
        {
            "network": network(a_throttling_broker(1), a_broker(2)),
            "member": a_member(asked_at=NOW - 1.5),
        },
        WaitingFor.RECORDS,
        "the coordinator (broker 1, kafka-1:9092) has throttled us for 2.0 s (a quota is used up);"
        " 3.0 s are left, and until then a heartbeat waits",
    ),
    "a heartbeat that was sent before a quota was used up": (
        {
            "network": network(a_throttling_broker(1), a_broker(2)),
            "member": a_member(asked_at=NOW - 2.5),
        },
        WaitingFor.RECORDS,
        "has not answered the heartbeat that was sent 2.5 s ago",
    ),
    "its records are here, and the polls give out others first": (
        {
            "application": an_application(delivered_at=NOW - 0.1),
            "partitions": {T0: seen(lag=1, buffered=70, records=1, here_since=NOW - 8.0)},
        },
        WaitingFor.TURN,
        "Records are fetched and delivered: the last ones 0.1 s ago. Some wait for their turn:"
        " orders-0: its records have been here for 8.0 s, and come with one of the next polls.",
    ),
    "its records have just come": (
        {"partitions": {T0: seen(lag=1, buffered=70, records=1, here_since=NOW - 2.0)}},
        WaitingFor.FETCH,
        "Records are being fetched",
    ),
    "what it has read was not told by a poll, and it waits elsewhere": (
        {
            "application": an_application(polled_at=NOW - 8.0, waits=True, waits_in="commit"),
            "crowded": frozenset({T0}),
        },
        WaitingFor.APPLICATION,
        "the application waits in commit, and has not polled for 8.0 s.",
    ),
    "it polls now and then, so enough of it is buffered only for a moment": (
        {"crowded": frozenset({T0})},
        WaitingFor.RECORDS,
        "There is nothing new",
    ),
    "the broker refuses the partition": (
        {
            "fetch": FetchNow(
                hindered={
                    T0: Hindrance(
                        state="failing",
                        since=NOW - 2.0,
                        node=2,
                        until=NOW + 0.5,
                        trouble="KafkaStorageError",
                    )
                }
            )
        },
        WaitingFor.REFUSED,
        "its Fetch has been refused for 2.0 s: KafkaStorageError. The next attempt is made in"
        " 0.5 s.",
    ),
    "its next record cannot be read": (
        {"partitions": {T0: seen(error="the batch at offset 5 is corrupt", lag=3)}},
        WaitingFor.REFUSED,
        "poll raises an error until it is dealt with: the batch at offset 5 is corrupt",
    ),
    "its next record cannot be read for some time": (
        {"partitions": {T0: seen(error="the batch is corrupt", lag=3, failed_at=NOW - 5.0)}},
        WaitingFor.REFUSED,
        "poll raises an error (the first time 5.0 s ago) until it is dealt with: the"
        " batch is corrupt",
    ),
    "the buffer is full of others": (
        {"buffered": 990, "partitions": {T0: seen(lag=10, end=15)}},
        WaitingFor.BUFFER,
        "the buffer is full (990 of 1000 bytes)",
    ),
    "the buffer is full, mostly of paused ones": (
        {"buffered": 990, "buffered_of_paused": 940, "partitions": {T0: seen(lag=0)}},
        WaitingFor.RECORDS,
        "There is nothing new",
    ),
    "a transaction is open": (
        {"isolated": True, "partitions": {T0: seen(high_watermark=9)}},
        WaitingFor.TRANSACTION,
        "4 records after the position belong to an open transaction",
    ),
    "a transaction is open for some time": (
        {"isolated": True, "partitions": {T0: seen(high_watermark=9, open_at=NOW - 7.0)}},
        WaitingFor.TRANSACTION,
        "belong to an open transaction, as its leader said 7.0 s ago",
    ),
    "a rebalance has waited too long": (
        {"member": a_member(rebalance_until=NOW - 1.2), "session_until": NOW - 1.2},
        WaitingFor.SESSION,
        "a rebalance may have waited for this member for max_poll_interval_ms, and the group may"
        " have gone on without it",
    ),
    "the background thread hangs": (
        {"overdue": 12.0, "background_line": "app/log.py:7 emit"},
        WaitingFor.CONSUMER,
        "the background thread has not turned for 12.0 s (it is at app/log.py:7 emit)",
    ),
    "the background thread has ended": (
        {"overdue": math.inf},
        WaitingFor.CONSUMER,
        "the background thread has ended",
    ),
    "the application is slow with what an iteration holds": (
        {
            "application": an_application(polled_at=NOW - 9.0, line="app/bill.py:3 bill"),
            "partitions": {T0: seen(in_hand=9, lag=9)},
        },
        WaitingFor.APPLICATION,
        "the application has not polled for 9.0 s (it is at app/bill.py:3 bill)",
    ),
    "the application is slow": (
        {
            "application": an_application(polled_at=NOW - 9.0, line="app/bill.py:3 bill"),
            "partitions": {T0: seen(buffered=10, lag=3)},
        },
        WaitingFor.APPLICATION,
        "the application has not polled for 9.0 s (it is at app/bill.py:3 bill)",
    ),
    "the group has refused the member for good": (
        {
            "member": a_member(
                state="fatal",
                failures=1,
                refusal="FENCED_INSTANCE_ID: the coordinator refused group 'g'; give each its own",
                refusal_since=NOW - 4.0,
                for_good=True,
            ),
            "partitions": {},
        },
        WaitingFor.REFUSED,
        "the group has refused the member for 4.0 s: FENCED_INSTANCE_ID: the coordinator refused"
        " group 'g'; give each its own. It does not join again: close the consumer and make a new"
        " one.",
    ),
    "heartbeats are refused": (
        {
            "member": a_member(
                failing_since=NOW - 2.0, failures=5, trouble="NOT_COORDINATOR", refused=True
            ),
        },
        WaitingFor.RECORDS,
        "the coordinator (broker 1, kafka-1:9092) has refused the member's heartbeats for 2.0 s (5"
        " attempts, last: NOT_COORDINATOR)",
    ),
    "heartbeats to the coordinator before this one were not answered": (
        {
            "coordinator": a_coordinator(moved_at=NOW - 0.2),
            "member": a_member(failing_since=NOW - 7.0, failures=9, trouble="b2:9092: refused"),
        },
        WaitingFor.RECORDS,
        "no heartbeat has been answered for 7.0 s (9 heartbeats failed, last: b2:9092: refused);"
        " the coordinator has been broker 1, kafka-1:9092 for 0.2 s",
    ),
    "the coordinator that did not answer is another one by now": (
        {
            "coordinator": a_coordinator(moved_at=NOW - 0.2, was="broker 2, kafka-2:9092"),
            "member": a_member(
                failing_since=NOW - 7.0, failures=9, trouble="NOT_COORDINATOR", refused=True
            ),
        },
        WaitingFor.RECORDS,
        "no heartbeat has been answered for 7.0 s (9 attempts, last: NOT_COORDINATOR); the"
        " coordinator was broker 2, kafka-2:9092, and has been broker 1, kafka-1:9092 for 0.2 s",
    ),
    "the coordinator is looked up again while no heartbeat is answered": (
        {
            "coordinator": a_coordinator(known=False, since=NOW - 1.0, asked=9, retry_at=NOW),
            "member": a_member(failing_since=NOW - 7.0, failures=9),
        },
        WaitingFor.RECORDS,
        "the group's coordinator has not been known for 1.0 s (9 look-ups), and no heartbeat has"
        " been answered for 7.0 s",
    ),
    "a heartbeat after those that were refused has no answer": (
        {
            "member": a_member(
                asked_at=NOW - 6.0, failing_since=NOW - 7.7, failures=3, refused=True
            ),
        },
        WaitingFor.RECORDS,
        "has refused the member's heartbeats for 7.7 s (3 attempts); one that was sent 6.0 s ago"
        " has no answer yet",
    ),
    "the coordinator cannot have its JoinGroup yet": (
        {
            "network": network(
                a_broker(1, connected=False, connecting_since=NOW - 0.5), a_broker(2)
            ),
            "member": a_member(state="joining", step="members", since=NOW - 0.5),
            "partitions": {},
        },
        WaitingFor.GROUP,
        "the member has waited 0.5 s for a connection to the coordinator (broker 1, kafka-1:9092)",
    ),
    "the group does not take it in for many short steps": (
        {
            "member": a_member(
                state="joining",
                step="backoff",
                since=NOW - 0.3,
                way_since=NOW - 9.0,
                trouble="COORDINATOR_LOAD_IN_PROGRESS",
            ),
            "partitions": {},
        },
        WaitingFor.GROUP,
        "the member has waited 0.3 s to join again (COORDINATOR_LOAD_IN_PROGRESS); it has been"
        " rebalancing for 9.0 s.",
    ),
    "its Fetch was refused by many words just now": (
        {
            "fetch": FetchNow(
                hindered={
                    T0: Hindrance(
                        state="failing",
                        since=NOW - 0.5,
                        node=2,
                        until=NOW + 0.5,
                        trouble="[Error 29] TopicAuthorizationFailedError: " + "grant it " * 30,
                    )
                }
            )
        },
        WaitingFor.REFUSED,
        "its Fetch has been refused for 0.5 s: TopicAuthorizationFailedError: "
        + "grant it " * 22
        + "grant ...",
    ),
    "no heartbeat was answered since the member joined": (
        {"member": a_member(answered_at=-math.inf, failing_since=NOW - 2.0, failures=2)},
        WaitingFor.RECORDS,
        "has not answered a heartbeat for 2.0 s (2 heartbeats failed)",
    ),
    "the group has given it nothing": (
        {"member": a_member(since=NOW - 5.0), "partitions": {}},
        WaitingFor.GROUP,
        "the group has given this member no partitions for 5.0 s. It gets some when another member"
        " gives some up.",
    ),
    "a committed offset is looked up in vain": (
        {
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="committed",
                        since=NOW - 3.0,
                        node=None,
                        asked_at=math.inf,
                        trouble="",
                        retry_at=NOW,
                    )
                }
            ),
            "commits": CommitsNow(trouble="UNSTABLE_OFFSET_COMMIT"),
            "partitions": {T0: seen(position=None, lag=None)},
        },
        WaitingFor.POSITION,
        "the look-up of its committed offset began 3.0 s ago (last: UNSTABLE_OFFSET_COMMIT)",
    ),
    "a deserializer raises": (
        {"partitions": {T0: seen(error="it cannot be read.", error_is_yours=True, lag=3)}},
        WaitingFor.REFUSED,
        "until it is dealt with: it cannot be read. Your own code has raised it.",
    ),
    "a position that was validated waits for a poll": (
        {
            "application": an_application(polled_at=NOW - 7.5),
            "fetch": FetchNow(
                hindered={
                    T0: Hindrance(
                        state="validated", since=NOW - 7.0, node=2, until=math.inf, trouble=""
                    )
                }
            ),
            "partitions": {T0: seen()},
        },
        WaitingFor.APPLICATION,
        "the application has not polled for 7.5 s; it is fetched after the next poll",
    ),
    "the coordinator is down and no poll takes what is delivered": (
        {
            "application": an_application(polled_at=NOW - 7.5),
            "network": network(a_dead_broker(1), a_broker(2)),
            "session_until": NOW + 9.0,
            "partitions": {T0: seen()},
        },
        WaitingFor.RECORDS,
        "Records can still be delivered, but the coordinator (broker 1",
    ),
    "the application waits in a commit": (
        {
            "application": an_application(polled_at=NOW - 3.0, waits=True, waits_in="commit"),
            "partitions": {T0: seen(buffered=10, lag=3)},
        },
        WaitingFor.APPLICATION,
        "the application waits in commit, and has not polled for 3.0 s",
    ),
    "the listener is slow": (
        {
            "application": an_application(
                callback="on_partitions_revoked",
                callback_since=NOW - 4.0,
                line="app/bill.py:9 on_partitions_revoked",
            )
        },
        WaitingFor.CALLBACK,
        "the listener's on_partitions_revoked has not returned for 4.0 s (app/bill.py:9",
    ),
}


@pytest.mark.parametrize("incident", INCIDENTS)
def test_each_incident_has_its_sentence_and_its_value(incident: str) -> None:
    said, value, words = INCIDENTS[incident]
    p = a_picture(**said)

    assert words in sentence.why(p)
    assert waits(p) is value


def two_partitions(first: PartitionSeen, other: PartitionSeen) -> dict[str, Any]:
    """Both led by broker 2."""
    led = {n: PartitionInfo(leader=2, leader_epoch=1) for n in (0, 1)}
    topics = {"orders": TopicInfo(topic_id=None, partitions=led)}
    return {
        "cluster": Cluster(version=1, brokers=cluster().brokers, topics=topics),
        "partitions": {T0: first, TopicPartition("orders", 1): other},
    }


def test_a_partition_that_is_throttled_is_told_of_though_records_of_another_are_here() -> None:
    here = seen(buffered=10, records=1, lag=3, here_since=NOW - 0.5)
    p = a_picture(
        **two_partitions(here, seen(lag=3)), network=network(a_broker(1), a_throttling_broker(2))
    )

    assert sentence.why(p) == (
        "Records are being fetched; the last ones were delivered 10.0 s ago. Nothing from"
        " orders-1: broker 2, kafka-2:9092 has throttled us for 2.0 s (a quota is used"
        " up); 3.0 s are left."
    )


def test_a_partition_that_was_refused_just_now_is_not_said_to_be_unaffected() -> None:
    old, young = (
        Hindrance(state="failing", since=at, node=2, until=NOW + 0.5, trouble="not allowed")
        for at in (NOW - 1.0, NOW - 0.9)
    )
    hindered = {T0: old, TopicPartition("orders", 1): young}
    p = a_picture(**two_partitions(seen(), seen()), fetch=FetchNow(hindered=hindered))

    assert sentence.why(p).startswith("Nothing is delivered from orders-0: orders-0: its Fetch")


def test_a_consumer_that_is_being_closed_says_so_once() -> None:
    assert sentence.why(a_picture(closing=True)) == (
        "Nothing is delivered: the consumer is being closed."
    )


@pytest.mark.parametrize(
    "said",
    [
        {"network": network(a_dead_broker(1, since=3.0), a_dead_broker(2, since=3.0))},
        {"coordinator": a_coordinator(known=False, since=NOW - 1.0, asked=9)},
        {"network": network(a_dead_broker(1, since=3.0), a_broker(2))},
    ],
    ids=["no broker", "the coordinator is looked up again", "the coordinator"],
)
def test_an_outage_that_lasts_is_not_over_because_its_words_are_others(
    said: dict[str, Any],
) -> None:
    """For 30 s no heartbeat is answered; what is told first began some seconds ago."""
    p = a_picture(**said, member=a_member(failing_since=NOW - 30.0, failures=9))

    assert not health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_a_broker_that_has_just_answered_something_is_no_outage_of_all() -> None:
    dead = a_dead_broker(1, since=30.0)
    other = a_dead_broker(2, since=20.0, answered=NOW - 0.6, failed_at=NOW - 0.5)
    p = a_picture(network=network(dead, other), group_id=None, in_group=False)

    assert "no broker has been reachable" not in sentence.why(p)


@pytest.mark.parametrize("since", [NOW, NOW - 0.5])
def test_a_topic_or_partition_of_which_nothing_was_heard_yet_is_no_fault(since: float) -> None:
    nothing_known = a_picture(cluster=Cluster(version=1))
    just_unknown = a_picture(cluster=Cluster(version=1), metadata=trouble(since=since))
    just_assigned = a_picture(cluster=cluster(-1))

    for p in (nothing_known, just_unknown, just_assigned):
        assert not wrong(p)
        assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_a_topic_that_does_not_exist_is_not_healthy_though_another_is_read() -> None:
    p = a_picture(
        topics=frozenset({"orders", "oders"}),
        metadata=MetadataNow(troubles={"oders": TopicTrouble(since=NOW - 11.0)}),
    )

    assert "There is nothing new" in sentence.why(p)
    assert wrong(p) == "no broker has known the topic 'oders' for 11.0 s"
    assert not health.healthy(p, of_consumer(p), of_partitions(p).values())


@pytest.mark.parametrize("partitions", [{}, {T0: seen(paused=True)}])
def test_a_pattern_without_topics_and_a_close_are_healthy(
    partitions: dict[TopicPartition, PartitionSeen],
) -> None:
    for said in (
        {"pattern": "zz.*", "topics": frozenset(), "member": a_member(state="unjoined", since=0.0)},
        {"closing": True, "application": an_application(polled_at=NOW - 400.0)},
    ):
        p = a_picture(**said | {"partitions": partitions})

        assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def a_hindrance() -> Hindrance:
    return Hindrance(state="out", since=NOW - 4.0, node=None, until=math.inf, trouble="")


#: What else may hinder the only partition while no heartbeat is answered, and how that is told.
ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "nobody leads it": (
        {"cluster": cluster(-1), "fetch": FetchNow(hindered={T0: a_hindrance()})},
        "Nothing is delivered: orders-0: no broker has led it for 4.0 s; and the coordinator",
    ),
    "its position is not known, and no record was ever delivered": (
        {
            "partitions": {T0: seen(position=None)},
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="committed",
                        since=NOW - 4.0,
                        node=1,
                        asked_at=NOW - 3.0,
                        trouble="",
                        retry_at=math.inf,
                    )
                }
            ),
            "application": an_application(delivered_at=-math.inf),
        },
        "Nothing is delivered: orders-0: the look-up of its committed offset began 4.0 s ago",
    ),
    "it is paused": (
        {"partitions": {T0: seen(paused=True, paused_at=NOW - 4.0)}},
        "Nothing is delivered: orders-0: the application has paused it 4.0 s ago; and the",
    ),
    "all of it has long been read": ({}, "Records can still be delivered, but the coordinator"),
    "records of it were delivered just now": (
        {"application": an_application(delivered_at=NOW - 0.3)},
        "Records are still delivered, but the coordinator (broker 1, kafka-1:9092) has not",
    ),
    "the member has left": (
        {
            "member": a_member(failing_since=NOW - 3.0, failures=1, left_late_at=NOW - 2.0),
            "partitions": {T0: seen(), T1: seen()},
        },
        "Nothing is delivered: the member left its group 2.0 s ago, since the application had not",
    ),
}


@pytest.mark.parametrize("hindrance", ELSEWHERE)
def test_records_that_something_else_keeps_back_are_not_delivered_until_the_session_is_over(
    hindrance: str,
) -> None:
    said, begins = ELSEWHERE[hindrance]
    p = a_picture(**{"member": a_member(failing_since=NOW - 3.0, failures=1)} | said)

    assert sentence.why(p).startswith(begins)
    assert "the coordinator (broker 1, kafka-1:9092) has not answered a heartbeat for 3.0 s" in (
        sentence.why(p)
    )


def test_several_partitions_that_are_paused_are_told_apart() -> None:
    other = TopicPartition("orders", 1)
    p = a_picture(partitions={T0: seen(paused=True, paused_at=NOW - 2.0), other: seen(paused=True)})

    assert sentence.why(p) == (
        "Nothing is delivered from orders-0, orders-1:"
        " orders-0: the application has paused it 2.0 s ago."
    )


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ({"paused": True, "paused_at": NOW - 2.0}, ": the application has paused them 2.0 s ago."),
        ({"position": None}, ": orders-0: its position is being looked up."),
    ],
)
def test_of_several_partitions_no_sentence_says_it(one: dict[str, Any], said: str) -> None:
    p = a_picture(partitions={T0: seen(**one), T1: seen(**one)}, cluster=cluster(2, 2))

    assert sentence.why(p) == f"Nothing is delivered from orders-0, orders-1{said}"


def test_what_was_answered_is_never_said_not_to_have_been() -> None:
    for refused in (
        a_member(failures=3, failing_since=NOW - 5.0, trouble="NOT_COORDINATOR", refused=True),
        a_member(failures=3, failing_since=NOW - 5.0, refusal="GROUP_MAX_SIZE_REACHED"),
    ):
        assert "not answered" not in sentence.why(a_picture(member=refused))


def test_what_waits_for_the_next_poll_is_here_and_not_fetched() -> None:
    p = a_picture(partitions={T0: seen(buffered=10, lag=3)})

    (reason,) = of_partitions(p).values()
    assert reason.text == "its records are here for the next poll"


def test_a_member_that_left_since_nobody_polled_is_not_said_to_wait_for_a_heartbeat() -> None:
    p = a_picture(
        max_poll_interval=4.0,
        application=an_application(polled_at=NOW - 7.0, line="app.py:3 work"),
        session_until=NOW - 2.0,
        partitions={T0: seen(lag=3)},
    )

    for reason in of_partitions(p).values():
        assert reason.waiting_for is WaitingFor.APPLICATION
        assert reason.text == "the application has not polled for 7.0 s (it is at app.py:3 work)"


def test_records_of_a_member_that_left_since_nobody_polled_do_not_wait_for_its_session() -> None:
    p = a_picture(
        max_poll_interval=4.0,
        application=an_application(polled_at=NOW - 7.0),
        session_until=NOW - 2.0,
        partitions={T0: seen(records=131, buffered=500, lag=131)},
    )

    assert "131 records are buffered and withheld, since the member has not polled for" in (
        sentence.why(p)
    )
    assert "session" not in sentence.why(p)


@pytest.mark.parametrize("state", ["fenced", "losing"])
@pytest.mark.parametrize("left", [-1.0, 40.0])
def test_a_member_that_was_fenced_says_so_however_long_its_session_is(
    state: str, left: float
) -> None:
    """The heartbeat was answered, and none is due."""
    because = "UNKNOWN_MEMBER_ID"
    fenced: dict[str, Any] = {"state": state, "step": "callback", "trouble": because}
    member = a_member(**fenced, since=NOW - 1.2, failing_since=NOW - 1.3, failures=1, refused=True)
    said: dict[str, Any] = {
        "session_until": NOW + left,
        "member": member,
        "partitions": {T0: seen(records=131, buffered=500, lag=131)},
    }
    text = (
        "the group has fenced the member 1.2 s ago (UNKNOWN_MEMBER_ID): another one may own its"
        " partitions by now"
    )

    p = a_picture(**said, application=an_application(polled_at=NOW, waits=True))
    (reason,) = of_partitions(p).values()
    assert (reason.waiting_for, reason.text) == (WaitingFor.SESSION, text)
    assert sentence.why(p) == (
        f"Nothing is delivered: {text}. 131 records are buffered and withheld, since the member was"
        " fenced. It joins again once a poll has given them up. Not your code: a poll is waiting."
    )


def test_a_member_that_left_since_nobody_polled_says_so_too_when_the_application_polls_again() -> (
    None
):
    """No heartbeat was due, so none was not answered."""
    said: dict[str, Any] = {
        "max_poll_interval": 6.0,
        "session_until": NOW - 4.9,
        "member": a_member(state="stale", step="callback", left_late_at=NOW - 5.0),
        "partitions": {T0: seen(records=131, buffered=500, lag=131)},
    }
    text = (
        "the member left its group 5.0 s ago, since the application had not polled for"
        " max_poll_interval_ms"
    )

    p = a_picture(**said, application=an_application(polled_at=NOW, waits=True))
    (reason,) = of_partitions(p).values()
    assert (reason.waiting_for, reason.text) == (WaitingFor.APPLICATION, text)
    assert sentence.why(p) == (
        f"Nothing is delivered: {text}. 131 records are buffered and withheld, since the member had"
        " not polled for max_poll_interval_ms. It joins again, now that the application polls."
    )

    commits = an_application(polled_at=NOW - 11.0, waits=True, waits_in="commit")
    assert "joins again with the next poll" in sentence.why(a_picture(**said, application=commits))


def test_a_consumer_without_a_group_that_was_never_polled_does_not_say_that_nothing_is_new() -> (
    None
):
    nobody = an_application(polled_at=-math.inf, delivered_at=-math.inf)
    p = a_picture(group_id=None, in_group=False, member=None, partitions={}, application=nobody)

    assert sentence.why(p) == (
        "Nothing is delivered: the application has not polled yet; the first poll assigns the"
        " partitions."
    )


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("poll", "the member has waited 3.0 s for the next poll, by which it joins its group"),
        ("coordinator", "the member has waited 3.0 s for the group's coordinator to be found"),
        (
            "callback",
            "the rebalance has waited 3.0 s for the application (a poll, or its listener)",
        ),
        ("backoff", "the member has waited 3.0 s to join again (refused)"),
        ("", "the member has waited 3.0 s to get into its group"),
    ],
)
def test_a_member_on_its_way_says_for_how_long_it_has_waited_and_for_what(
    step: str, words: str
) -> None:
    member = a_member(state="joining", step=step, trouble="refused", since=NOW - 3.0)

    assert words in sentence.why(a_picture(member=member, partitions={}))


def test_a_leader_that_is_down_counts_though_its_records_are_still_delivered() -> None:
    """By the rule of docs/operate.md: new ones would not come."""
    p = a_picture(
        network=network(a_broker(1), a_dead_broker(2, since=11.0)),
        partitions={T0: seen(lag=9, buffered=70, records=9, here_since=NOW - 2.0)},
    )

    assert wrong(p).startswith("nothing new from orders-0 is delivered: its leader (broker 2")
    assert not health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_a_broker_that_never_answered_is_told_with_its_first_attempt() -> None:
    dead = a_dead_broker(2, answered=-math.inf, failing_since=NOW - 7.2)

    assert (
        "its leader (broker 2, kafka-2:9092) has not answered yet; the first attempt was 7.2 s ago"
        " (Connection refused, 14 attempts)"
    ) in sentence.why(a_picture(network=network(a_broker(1), dead)))


def test_a_failure_of_long_ago_says_nothing_of_a_broker_that_nobody_has_needed_since() -> None:
    """It was down when another member read from it. Now this member is given the partition."""
    idle = a_dead_broker(2, since=55.1, failed_at=NOW - 55.0, retry_at=NOW - 54.9)
    p = a_picture(network=network(a_broker(1), idle))

    assert wrong(p) == ""
    assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_records_that_were_delivered_long_ago_are_not_said_to_be_delivered() -> None:
    for ago, words in (
        (0.5, "Records are fetched and delivered: the last ones 0.5 s ago."),
        (11.3, "Records are being fetched; the last ones were delivered 11.3 s ago."),
    ):
        application = an_application(delivered_at=NOW - ago)
        p = a_picture(partitions={T0: seen(lag=3)}, application=application)
        assert sentence.why(p) == words


def test_a_failure_of_less_than_a_second_is_nothing_to_tell() -> None:
    young = a_dead_broker(2, since=0.5)

    assert wrong(a_picture(network=network(a_broker(1), young))) == ""


def test_a_broker_that_has_answered_since_its_last_failure_is_not_down() -> None:
    mended = a_dead_broker(2, answered=NOW - 0.1)

    assert wrong(a_picture(network=network(a_broker(1), mended))) == ""


def test_an_outage_of_ten_seconds_is_not_healthy_and_no_reason_for_a_restart() -> None:
    def looked(since: float) -> tuple[bool, bool]:
        p = a_picture(network=network(a_dead_broker(1, since=since), a_dead_broker(2, since=since)))
        found = of_partitions(p).values()
        return (
            bool(health.alive(p)),
            bool(health.healthy(p, of_consumer(p), found)),
        )

    assert looked(9.0) == (True, True)
    assert looked(11.0) == (True, False)


#: Nobody had asked for long; what fails now, and words of the sentence.
AFTER_IDLENESS: dict[str, tuple[dict[str, Any], str]] = {
    "all brokers": (
        {
            "network": network(
                *(a_dead_broker(node, since=3.0, answered=NOW - 60) for node in (1, 2))
            )
        },
        "no broker has been reachable for 3.0 s",
    ),
    "all brokers, one since long before": (
        {
            "network": network(
                a_dead_broker(3, since=99.0),
                *(a_dead_broker(node, since=3.0, answered=NOW - 60) for node in (1, 2)),
            )
        },
        "no broker has been reachable for 3.0 s",
    ),
    "the leader": (
        {"network": network(a_broker(1), a_dead_broker(2, since=3.0, answered=NOW - 60))},
        "kafka-2:9092) has not answered for 3.0 s",
    ),
    "the coordinator": (
        {"network": network(a_dead_broker(1, since=3.0, answered=NOW - 60), a_broker(2))},
        "kafka-1:9092) has not answered for 3.0 s",
    ),
    "heartbeats, of which one is sent each twenty seconds": (
        {"member": a_member(answered_at=NOW - 23.0, failing_since=NOW - 3.0, failures=1)},
        "kafka-1:9092) has not answered a heartbeat for 3.0 s",
    ),
}


@pytest.mark.parametrize("what", AFTER_IDLENESS)
def test_an_outage_counts_from_its_first_failure_and_not_from_the_last_answer(what: str) -> None:
    said, words = AFTER_IDLENESS[what]
    p = a_picture(**said)

    assert words in sentence.why(p)
    assert health.healthy(p, of_consumer(p), of_partitions(p).values())


#: A Fetch has been on its way for 4.5 s, and Metadata that was asked for later has failed; who else
#: is there, when it last answered anything, and words of the sentence.
FETCH_IS_OLDER: dict[str, tuple[list[BrokerNow], float, str]] = {
    "the leader": ([a_broker(1)], 60.0, "kafka-2:9092) has not answered for 4.5 s (it did"),
    "all brokers": ([], 60.0, "no broker has been reachable for 4.5 s"),
    "it has answered something since": ([a_broker(1)], 4.2, "has not answered for 4.2 s (it did"),
    "another has answered since": (
        [a_dead_broker(1, since=3.0, answered=NOW - 4.2)],
        60.0,
        "no broker has been reachable for 4.0 s",
    ),
}


@pytest.mark.parametrize("what", FETCH_IS_OLDER)
def test_an_outage_counts_from_a_fetch_that_is_older_than_what_failed_first(what: str) -> None:
    others, answered, words = FETCH_IS_OLDER[what]
    stopped = a_dead_broker(
        2,
        since=4.0,
        answered=NOW - answered,
        error="it did not answer Metadata in time",
    )
    fetch = FetchNow(late={2: NOW - 4.5})

    assert words in sentence.why(a_picture(network=network(*others, stopped), fetch=fetch))


@pytest.mark.parametrize(
    "said",
    [
        {"closed": True},
        {"failure": "an actor crashed"},
        {"forked": True},
        {"overdue": 11.0},
        {"application": an_application(polled_at=NOW - 301.0)},
    ],
    ids=["closed", "failed", "forked", "hangs", "does not poll"],
)
def test_a_restart_helps_only_against_these(said: dict[str, Any]) -> None:
    p = a_picture(**said)

    assert not health.alive(p)
    assert health.alive(p).because
    assert not health.healthy(p, of_consumer(p), ())


def failing(since: float, *, at: float, attempts: int, error: str) -> CommitsNow:
    return CommitsNow(
        fail=CommitsFail(since=NOW - since, at=NOW - at, attempts=attempts, error=error)
    )


def test_commits_that_fail_are_told_after_what_keeps_records_back_and_in_a_sentence() -> None:
    error = "[Error 29] TopicAuthorizationFailedError: topic 'orders'\nand more."
    fail = failing(12.0, at=0.4, attempts=5, error=error)
    told = (
        "Commits have failed for 12.0 s (5 attempts, the last 0.4 s ago):"
        " TopicAuthorizationFailedError: topic 'orders'."
    )

    idle = a_picture(commits=fail)
    behind = {T0: seen(lag=3, buffered=9, records=3)}
    late = a_picture(
        commits=fail, application=an_application(polled_at=NOW - 3.0), partitions=behind
    )
    down = a_picture(commits=fail, network=network(a_dead_broker(1), a_dead_broker(2)))

    assert sentence.why(idle).startswith("There is nothing new: ")
    assert sentence.why(late).startswith("Nothing is delivered: the application has not polled ")
    assert sentence.why(down).startswith("Nothing is delivered: no broker has been reachable ")
    for p in (idle, late, down):
        assert sentence.why(p).endswith(f". {told}")
    assert wrong(idle).startswith("commits have failed for 12.0 s")
    assert wrong(down).startswith("no broker has been reachable")
    assert of_consumer(idle) is None


def test_one_commit_that_failed_says_when_and_a_long_error_is_cut() -> None:
    once = a_picture(commits=failing(7.0, at=7.0, attempts=1, error="it is full. " * 50))

    told = sentence.why(once).partition("A commit failed 7.0 s ago: ")[2]
    assert told.startswith("it is full.")
    assert told.endswith(" ...")
    assert len(told) <= 240


@pytest.mark.parametrize("said", [{"forked": True}, {"commits": None}, {"since": 0.5}])
def test_commits_that_fail_are_not_told_of_a_parent_nor_within_a_second(
    said: dict[str, Any],
) -> None:
    fail = failing(said.pop("since", 12.0), at=0.1, attempts=2, error="it is full")

    assert "ommit" not in sentence.why(a_picture(**{"commits": fail, **said}))


#: (An owner may publish something after the picture's `now` was read: 3 ms ahead of it.)
TIMES = st.sampled_from(
    [-math.inf, NOW - 400.0, NOW - 3.0, NOW - 0.1, NOW, NOW + 0.003, NOW + 3.0, math.inf]
)
MAYBE = st.one_of(st.none(), TIMES)
#: When something last happened; -inf: never.
PAST = TIMES.filter(lambda at: at < math.inf)
BROKERS = st.builds(
    a_broker,
    st.sampled_from([1, 2]),
    connected=st.booleans(),
    connecting_since=MAYBE,
    failing_since=MAYBE,
    failed_at=TIMES,
    attempts=st.integers(0, 3),
    error=st.sampled_from(["", "Connection refused"]),
    retry_at=TIMES,
    refused=st.booleans(),
    throttled_since=TIMES,
    throttled_until=TIMES,
    answered=TIMES,
)
MEMBERS = st.builds(
    a_member,
    state=st.sampled_from(["stable", "joining", "unjoined"]),
    step=st.sampled_from(["", "poll", "members", "callback", "commit", "answer", "other"]),
    since=TIMES,
    asked_at=TIMES,
    answered_at=TIMES,
    failing_since=TIMES,
    failures=st.integers(0, 2),
    trouble=st.sampled_from(["", "it hung up"]),
)
SEEN = st.builds(
    seen,
    position=st.one_of(st.none(), st.integers(0, 9)),
    lag=st.one_of(st.none(), st.integers(0, 9)),
    high_watermark=st.one_of(st.none(), st.integers(0, 9)),
    paused=st.booleans(),
    stage=st.sampled_from(Stage),
    subscribed=st.booleans(),
    buffered=st.integers(0, 9),
    records=st.integers(0, 9),
    error=st.sampled_from(["", "refused"]),
)
PICTURES = st.builds(
    a_picture,
    closed=st.booleans(),
    forked=st.booleans(),
    closing=st.booleans(),
    pattern=st.sampled_from(["", "o.*"]),
    topics=st.sampled_from([frozenset(), frozenset({"orders"}), frozenset({"orders", "oders"})]),
    metadata=st.builds(trouble, since=PAST, error=st.sampled_from(["", "REFUSED"])),
    failure=st.sampled_from(["", "an actor crashed"]),
    overdue=st.sampled_from([0.0, 3.0, math.inf]),
    group_id=st.sampled_from([None, "g"]),
    in_group=st.booleans(),
    subscribed=st.booleans(),
    unreachable=st.sampled_from(["", "no server"]),
    cluster=st.sampled_from([Cluster(), Cluster(version=1), cluster(), cluster(-1)]),
    session_until=TIMES,
    application=st.builds(
        an_application,
        polled_at=TIMES,
        waits=st.booleans(),
        callback=st.sampled_from(["", "on_partitions_lost"]),
        callback_since=TIMES,
        delivered_at=PAST,
    ),
    network=st.builds(network, BROKERS, BROKERS),
    coordinator=st.one_of(
        st.none(),
        st.builds(a_coordinator, known=st.booleans(), since=TIMES, retry_at=TIMES),
    ),
    member=st.one_of(st.none(), MEMBERS),
    partitions=st.one_of(st.just({}), st.builds(lambda one: {T0: one}, SEEN)),
)


@settings(max_examples=400, deadline=None)
@given(PICTURES)
def test_whatever_is_known_there_is_a_sentence(p: Picture) -> None:
    said = sentence.why(p)

    assert said[0].isupper()
    assert said.endswith((".", ")"))
    assert "nan" not in said
    assert "inf " not in said
    assert "-0.0 s" not in said
    assert re.search(r"-[0-9.]+ s", said) is None
    waiting = of_partitions(p)
    assert waiting.keys() == p.partitions.keys()
    health.healthy(p, of_consumer(p), waiting.values())


@settings(max_examples=1000, deadline=None)
@given(PICTURES, PICTURES, st.sampled_from([math.inf, NOW - 3.0]))
def test_records_are_still_delivered_only_if_some_were_lately_and_some_can_be_now(
    p: Picture, other: Picture, unanswered: float
) -> None:
    p = changed(p, session_until=NOW + 3.0, in_group=True, group_id="g", subscribed=True)
    p = changed(p, member=a_member(failing_since=unanswered), coordinator=a_coordinator())
    p = changed(p, partitions={**p.partitions, T1: other.partitions.get(T0, seen())})

    said = sentence.why(p)

    kinds = {one.waiting_for for one in of_partitions(p).values()}
    if said.startswith("Records are still delivered"):
        assert p.now - p.application.delivered_at < 3.0
    if said.startswith("Records "):
        assert kinds & {
            WaitingFor.RECORDS,
            WaitingFor.FETCH,
            WaitingFor.TURN,
            WaitingFor.APPLICATION,
        }


@settings(max_examples=200, deadline=None)
@given(PICTURES)
def test_while_no_broker_has_answered_for_a_second_it_never_says_that_all_is_well(
    p: Picture,
) -> None:
    p = changed(p, network=network(a_dead_broker(1), a_dead_broker(2)))

    assert p.closed or wrong(p)
    assert "There is nothing new" not in sentence.why(p)


def test_a_thread_that_stands_still_between_two_clocks_says_nothing_of_them() -> None:
    """A consumer on a busy machine said that the clock was set by a second, and then back."""
    times = [5.0]

    def wall() -> float:
        times.append(times[-1] + stands_still)
        return 1000.0 + times[-1]

    stands_still = 0.01
    assert ahead_by(lambda: times[-1], wall) == pytest.approx(1000.0, abs=0.02)
    stands_still = 1.03
    assert ahead_by(lambda: times[-1], wall) is None


def test_the_background_thread_says_nothing_of_the_line_at_which_it_looks_itself() -> None:
    line_of = picture._line_of

    assert line_of(threading.get_ident(), 12.0) == ""
    assert line_of(threading.main_thread().ident, 0.0) == ""


def test_no_line_is_named_of_a_thread_that_has_ended_since_another_may_have_its_id() -> None:
    harness = a_consumer()
    in_callback = UserCode()

    def polls_and_calls_back() -> None:
        harness.clock.now += 100.0
        harness.poll()
        in_callback.begin("on_partitions_revoked", 0.0)

    thread = threading.Thread(target=polls_and_calls_back)
    thread.start()
    thread.join()

    assert in_callback.running is not None
    for caller in (harness.engine.poll_heartbeat.caller, in_callback.running[2]):
        assert thread_of(caller) is None
    assert line_of(None) == ""
    assert stack_of(None) == ()


def test_the_line_of_the_thread_that_polls_is_named() -> None:
    harness = a_consumer()
    harness.clock.now += 100.0
    harness.poll()

    assert "test_present.py" in line_of(thread_of(harness.engine.poll_heartbeat.caller))


def test_a_metadata_error_that_may_pass_is_a_fault_after_a_second_and_a_refusal_at_once() -> None:
    def is_wrong(since: float, *, may_pass: bool) -> bool:
        refused = trouble(since=since, error="INVALID_TOPIC_EXCEPTION", may_pass=may_pass)
        return bool(wrong(a_picture(cluster=Cluster(version=1), metadata=refused)))

    assert not is_wrong(NOW - 0.5, may_pass=True)
    assert is_wrong(NOW - 2.0, may_pass=True)
    assert is_wrong(NOW - 0.5, may_pass=False)
