"""Each incident has its sentence: a pure function of the picture."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.events.metadata import Cluster
from aktor.events.present import (
    CommitsNow,
    FetchNow,
    Hindrance,
    NetworkNow,
    PositionNow,
    PositionsNow,
    Throttle,
)
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    a_broker,
    a_coordinator,
    a_dead_broker,
    a_member,
    a_picture,
    a_throttling_broker,
    an_application,
    cluster,
    network,
    seen,
    trouble,
    waits,
)


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
    "no server was ever reached": (
        {
            "network": NetworkNow(servers=(a_dead_broker(-1, answered=-math.inf),)),
            "unreachable": "no Kafka broker could be reached (kafka--1:9092: Connection refused)",
        },
        WaitingFor.BROKER,
        "no Kafka broker could be reached (kafka--1:9092: Connection refused). It has been so for"
        " 7.2 s (14 attempts). The next attempt is made in 0.3 s.",
    ),
    "it was not started yet": (
        {"started": False, "member": None, "partitions": {}},
        WaitingFor.CONSUMER,
        "Nothing is delivered: the consumer has not been started. Await its start(), or enter it"
        " by `async with`.",
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
    "a broker refuses the login that nobody needs": (
        {"network": network(a_dead_broker(3, refused=True), a_broker(1), a_broker(2))},
        WaitingFor.RECORDS,
        "all records that the brokers have reported are delivered",
    ),
    "its leader refuses the login, and others serve us by an older one": (
        {
            "network": network(
                a_dead_broker(2, refused=True, error="SASL: bad password"), a_broker(1)
            )
        },
        WaitingFor.REFUSED,
        "its leader (broker 2, kafka-2:9092) has refused our login for 7.2 s (SASL: bad password)",
    ),
    "a quota is used up": (
        {
            "network": network(a_broker(1), a_broker(2, fetch_throttle=Throttle(until=NOW + 3.0))),
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
                    refused_since=NOW - 7.2,
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
        "its Fetch has been refused for 2.0 s: KafkaStorageError. The next attempt, at broker 2,"
        " kafka-2:9092, is made in 0.5 s.",
    ),
    "its next record cannot be read": (
        {"partitions": {T0: seen(error="the batch at offset 5 is corrupt", lag=3)}},
        WaitingFor.REFUSED,
        "poll raises an error until it is dealt with: the batch at offset 5 is corrupt",
    ),
    "its next record cannot be read for some time": (
        {"partitions": {T0: seen(error="the batch is corrupt", lag=3, failed_at=NOW - 5.0)}},
        WaitingFor.REFUSED,
        "poll raises an error until it is dealt with (it came 5.0 s ago): the batch is corrupt",
    ),
    "the buffer is full of others": (
        {"buffered": 990, "partitions": {T0: seen(lag=10, end=15)}},
        WaitingFor.BUFFER,
        "the buffer is full (990 of 1000 bytes)",
    ),
    "a poll decodes": (
        {
            "application": an_application(polled_at=NOW - 3.0, in_poll=True, line="app.py:3 slow"),
            "partitions": {T0: seen(buffered=9, records=1, lag=1)},
        },
        WaitingFor.APPLICATION,
        "a poll of the application has not returned for 3.0 s (it is at app.py:3 slow)",
    ),
    "nearly full, so that it is not fetched before a poll that is late": (
        {
            "buffered": 800,
            "application": an_application(polled_at=NOW - 3.0),
            "partitions": {T0: seen(lag=0)},
        },
        WaitingFor.APPLICATION,
        "the application has not polled for 3.0 s; it is fetched after the next poll",
    ),
    "nearly full, and a Fetch for it is with its leader": (
        {
            "buffered": 800,
            "application": an_application(polled_at=NOW - 3.0),
            "partitions": {T0: seen(lag=0)},
            "asked": {2: (NOW - 1.0, {T0})},
        },
        WaitingFor.RECORDS,
        "There is nothing new",
    ),
    "the buffer is full, mostly of paused ones": (
        {"buffered": 990, "buffered_of_paused": 940, "partitions": {T0: seen(lag=0)}},
        WaitingFor.RECORDS,
        "There is nothing new",
    ),
    "a transaction is open": (
        {"isolated": True, "partitions": {T0: seen(high_watermark=9)}},
        WaitingFor.TRANSACTION,
        "4 records after the position wait for the end of a transaction",
    ),
    "a transaction is open for some time": (
        {"isolated": True, "partitions": {T0: seen(high_watermark=9, open_at=NOW - 7.0)}},
        WaitingFor.TRANSACTION,
        "wait for the end of a transaction, which has been open for 7.0 s at least",
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
    "the group has refused the member, which waits a second": (
        {
            "member": a_member(
                state="unjoined",
                step="backoff",
                since=NOW - 0.3,
                joining_since=NOW - 0.3,
                refusal="GROUP_AUTHORIZATION_FAILED: the coordinator refused group 'g'",
                refusal_since=NOW - 0.4,
                joins_at=NOW + 0.6,
            ),
            "partitions": {},
        },
        WaitingFor.REFUSED,
        "the group has refused the member for 0.4 s: GROUP_AUTHORIZATION_FAILED: the coordinator"
        " refused group 'g'. It joins again in 0.6 s.",
    ),
    "the group has refused the member, which has partitions yet": (
        {
            "member": a_member(
                state="losing",
                step="callback",
                refusal="GROUP_AUTHORIZATION_FAILED: the coordinator refused group 'g'",
                refusal_since=NOW - 2.0,
            ),
            "partitions": {T0: seen(stage=Stage.PENDING_REVOCATION)},
        },
        WaitingFor.GROUP,
        "It joins again once the application has given up its partitions, and polls.",
    ),
    "the group has refused the member, which asks again": (
        {
            "member": a_member(
                state="joining",
                step="members",
                since=NOW - 3.9,
                joining_since=NOW - 3.9,
                refusal="GROUP_AUTHORIZATION_FAILED: the coordinator refused group 'g'",
                refusal_since=NOW - 4.9,
            ),
            "partitions": {},
        },
        WaitingFor.GROUP,
        "the coordinator (broker 1, kafka-1:9092) has not answered the member's JoinGroup for 3.9"
        " s: it does when every member has joined; the group refused the member 4.9 s ago:"
        " GROUP_AUTHORIZATION_FAILED: the coordinator refused group 'g'.",
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
                joining_since=NOW - 9.0,
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
        " gives some up, or more partitions match.",
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
        "the look-up of its committed offset began 3.0 s ago (it is asked of the coordinator,"
        " broker 1, kafka-1:9092; last: UNSTABLE_OFFSET_COMMIT)",
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
