"""What is said of partitions: what each waits for."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.consumer.present.seen import PartitionSeen
from aktor.events.metadata import Cluster, PartitionInfo, TopicInfo
from aktor.events.present import (
    FetchNow,
    Hindrance,
    Throttle,
)
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    T1,
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
    waits,
)


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


def test_what_a_transaction_holds_back_is_told_beside_what_the_application_has_paused() -> None:
    behind = seen(high_watermark=9, open_at=NOW - 7.0)
    paused = seen(paused=True, paused_at=NOW - 3.0)
    p = a_picture(**two_partitions(behind, paused), isolated=True)

    assert sentence.why(p) == (
        "Nothing is delivered from orders-1: the application has paused reading 3.0 s ago. Nothing"
        " from orders-0: 4 records after the position wait for the end of a transaction, which has"
        " been open for 7.0 s at least."
    )


def test_each_leader_that_is_down_is_named() -> None:
    p = a_picture(
        cluster=cluster(1, 2),
        coordinator=a_coordinator(node=3),
        partitions={T0: seen(lag=3), T1: seen(lag=3)},
        network=network(a_dead_broker(1), a_dead_broker(2), a_broker(3)),
    )

    assert re.match(
        r"Nothing is delivered from orders-0, orders-1: orders-0: its leader \(broker 1, .*;"
        r" orders-1: its leader \(broker 2, .*\)\. The next attempt is made in 0.3 s\.",
        sentence.why(p),
    )


def test_a_leader_that_is_down_is_told_though_the_coordinator_does_not_answer_either() -> None:
    p = a_picture(
        partitions={T0: seen(lag=3), T1: seen(lag=3)},
        member=a_member(asked_at=NOW - 2.0),
        network=network(a_broker(1), a_dead_broker(2)),
        cluster=cluster(1, 2),
    )

    assert re.match(
        r"Records can still be delivered, but the coordinator .* has not answered the heartbeat"
        r" .*\."
        r" Nothing from orders-1: its leader \(broker 2, kafka-2:9092\) has not answered",
        sentence.why(p),
    )


def test_a_throttle_of_the_groups_coordinator_holds_no_partition_up() -> None:
    throttled = a_broker(2, group_throttle=Throttle(since=NOW - 2.0, until=NOW + 3.0))
    p = a_picture(network=network(a_broker(1), throttled), partitions={T0: seen(lag=9)})

    assert waits(p) is not WaitingFor.THROTTLED


@pytest.mark.parametrize("ago", [0.1, 2.0])
def test_a_fetch_that_was_throttled_is_late_only_after_the_throttle(ago: float) -> None:
    throttle = Throttle(since=NOW - 6.0, until=NOW - ago)
    p = a_picture(
        network=network(a_broker(1), a_broker(2, fetch_throttle=throttle)),
        fetch=FetchNow(late={2: NOW - 5.0}),
        partitions={T0: seen(lag=9)},
    )

    assert (f"has not answered a Fetch for {ago:.1f} s" in sentence.why(p)) is (ago > 1.0)


@pytest.mark.parametrize("ago", [0.1, 2.0])
def test_a_fetch_is_not_late_for_a_time_in_which_the_process_stood_still(ago: float) -> None:
    p = a_picture(
        fetch=FetchNow(late={2: NOW - 16.0}),
        partitions={T0: seen(lag=9)},
        awake_since=NOW - ago,
    )

    assert (f"has not answered a Fetch for {ago:.1f} s" in sentence.why(p)) is (ago > 1.0)


def test_a_partition_that_was_refused_just_now_is_not_said_to_be_unaffected() -> None:
    old, young = (
        Hindrance(state="failing", since=at, node=2, until=NOW + 0.5, trouble="not allowed")
        for at in (NOW - 1.0, NOW - 0.9)
    )
    hindered = {T0: old, TopicPartition("orders", 1): young}
    p = a_picture(**two_partitions(seen(), seen()), fetch=FetchNow(hindered=hindered))

    assert sentence.why(p).startswith("Nothing is delivered from orders-0: orders-0: its Fetch")


def test_several_partitions_that_are_paused_are_told_apart() -> None:
    other = TopicPartition("orders", 1)
    p = a_picture(partitions={T0: seen(paused=True, paused_at=NOW - 2.0), other: seen(paused=True)})

    assert sentence.why(p) == (
        "Nothing is delivered from orders-0, orders-1:"
        " orders-0: the application has paused reading 2.0 s ago."
    )


def test_what_process_has_paused_waits_for_its_handlers_and_not_for_the_user() -> None:
    busy = HandlersNow(21, 2, NOW - 7.0, frozenset({T0}))
    of_user = TopicPartition("orders", 1)
    p = a_picture(
        application=an_application(handlers=busy),
        partitions={tp: seen(paused=True, paused_at=NOW - 6.0) for tp in (T0, of_user)},
    )

    assert {tp: one.waiting_for for tp, one in of_partitions(p).items()} == {
        T0: WaitingFor.APPLICATION,
        of_user: WaitingFor.PAUSED,
    }
    assert sentence.why(p) == (
        "Nothing is delivered: the handlers of process() have yet to finish 21 delivered records:"
        " the first was given to one 7.0 s ago; 19 wait for one."
    )


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            {"paused": True, "paused_at": NOW - 2.0},
            ": the application has paused reading 2.0 s ago.",
        ),
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


def test_a_consumer_without_a_group_that_was_never_polled_does_not_say_that_nothing_is_new() -> (
    None
):
    nobody = an_application(polled_at=-math.inf, delivered_at=-math.inf)
    p = a_picture(group_id=None, in_group=False, member=None, partitions={}, application=nobody)

    assert sentence.why(p) == (
        "Nothing is delivered: the application has not polled yet; the first poll assigns the"
        " partitions."
    )
