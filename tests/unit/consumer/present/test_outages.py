"""Brokers that do not answer: since when, and who is told."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aktor.consumer.present import health
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.events.present import (
    BrokerNow,
    FetchNow,
    Heard,
    PositionNow,
    PositionsNow,
)
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    a_broker,
    a_coordinator,
    a_dead_broker,
    a_member,
    a_picture,
    an_application,
    heard,
    network,
    seen,
    wrong,
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


def asked_last(at: float, *, answered: float) -> tuple[Heard, ...]:
    (one,) = heard(answered)
    one.ask(at)
    return (one,)


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [(NOW - 56.0, False), (NOW - 3.0, True)],
    ids=["nobody has asked it since", "it was asked 3 s ago"],
)
def test_an_open_connection_on_which_nobody_asks_does_not_keep_a_failure_alive(
    asked: float, is_told: bool
) -> None:
    """A broker stood still for some seconds. It has been well for long, and is not asked."""
    was_still = {"connected": True, "failed_at": NOW - 55.0, "retry_at": NOW - 54.9}
    coordinator = a_dead_broker(
        1, since=60.0, **was_still, heard=asked_last(asked, answered=NOW - 61.0)
    )
    p = a_picture(network=network(coordinator, a_broker(2)))

    assert ("the coordinator" in wrong(p)) is is_told
    assert bool(health.healthy(p, of_consumer(p), of_partitions(p).values())) is not is_told


def test_brokers_that_nobody_has_asked_are_not_said_to_be_unreachable() -> None:
    stopped = a_dead_broker(1, since=3.2, error="it did not answer Metadata in time")
    p = a_picture(network=network(stopped), partitions={}, topics=frozenset())

    assert "none of the brokers that were asked has been reachable for 3.2 s: broker 1" in wrong(p)


def test_while_all_brokers_refuse_the_login_the_time_is_that_of_the_first_whoever_is_asked() -> (
    None
):
    """Each look found another one to be the last, and healthy changed its mind each time."""
    for last in (1, 2):
        failed = {node: NOW - (0.1 if node == last else 0.9) for node in (1, 2)}
        p = a_picture(
            network=network(
                a_dead_broker(1, since=11.9, refused=True, failed_at=failed[1]),
                a_dead_broker(2, since=6.2, refused=True, failed_at=failed[2]),
            )
        )
        assert "has refused our login for 11.9 s" in wrong(p)
        assert not health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_a_refused_login_counts_from_the_refusal_and_not_from_a_restart_before_it() -> None:
    refused = a_dead_broker(2, since=10.7, refused_since=NOW - 0.2)
    p = a_picture(network=network(a_broker(1), refused), partitions={T0: seen(lag=3)})

    assert "its leader (broker 2, kafka-2:9092) has refused our login for 0.2 s" in wrong(p)
    assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_who_assigns_needs_no_coordinator_to_get_records() -> None:
    """It has no session that could be over."""
    said = {"in_group": False, "subscribed": False, "assigned_by_user": True, "member": None}
    p = a_picture(
        **said,
        network=network(a_dead_broker(1, since=15.9), a_broker(2)),
        session_until=-math.inf,
        partitions={T0: seen(lag=3)},
    )

    assert sentence.why(p).startswith("Records are being fetched")
    assert wrong(p) == ""
    assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_who_assigns_is_told_of_the_coordinator_that_is_asked_for_committed_offsets() -> None:
    said = {"in_group": False, "subscribed": False, "assigned_by_user": True, "member": None}
    look_up = PositionNow(
        stage="committed",
        since=NOW - 8.0,
        node=None,
        asked_at=math.inf,
        trouble="",
        retry_at=-math.inf,
    )
    p = a_picture(
        **said,
        network=network(a_dead_broker(1), a_broker(2)),
        session_until=-math.inf,
        partitions={T0: seen(position=None, lag=None)},
        positions=PositionsNow(waiting={T0: look_up}),
    )

    assert (
        "Nothing is delivered from orders-0: orders-0: the look-up of its committed offset began"
        " 8.0 s ago: the coordinator (broker 1, kafka-1:9092) has not answered for 7.2 s"
    ) in sentence.why(p)


def test_a_leader_that_keeps_a_fetch_is_not_down_though_it_fails_as_the_coordinator() -> None:
    """Only its heartbeats had no answer: that connection was closed. The Fetch waits on another."""
    failed = a_dead_broker(
        2, since=6.0, connected=True, answered=NOW - 1.9, error="it did not answer Heartbeat"
    )
    fetching = {"asked": {2: (NOW - 1.9, (T0,))}, "network": network(a_broker(1), failed)}
    well = a_picture(**fetching)
    late = a_picture(**fetching, fetch=FetchNow(late={2: NOW - 1.2}))
    not_asked = a_picture(network=fetching["network"])

    assert wrong(well) == ""
    assert "its leader (broker 2, kafka-2:9092) has not answered" in wrong(late)
    assert "its leader (broker 2, kafka-2:9092) has not answered" in wrong(not_asked)


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
    "all brokers that were asked": (
        [],
        60.0,
        "none of the brokers that were asked has been reachable for 4.5 s: broker 2",
    ),
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
    ("said", "then"),
    [
        ({"retry_at": NOW + 0.3}, "The next attempt is made in 0.3 s."),
        ({"retry_at": NOW - 0.3}, "The next attempt is made with the next request to it."),
        ({"retry_at": NOW - 0.3, "connecting_since": NOW - 0.1}, "The next attempt is under way."),
        (
            {
                "retry_at": NOW - 6.3,
                "failed_at": NOW - 6.4,
                "connected": True,
                "heard": asked_last(NOW - 6.2, answered=NOW - 8.0),
            },
            "It was asked again 6.2 s ago.",
        ),
    ],
    ids=["it waits", "nothing was asked yet", "it connects", "a request is on its way"],
)
def test_only_an_attempt_that_has_begun_is_under_way(said: dict[str, Any], then: str) -> None:
    p = a_picture(network=network(a_dead_broker(1, **said), a_broker(2)), session_until=NOW - 1.2)

    assert then in sentence.why(p)
