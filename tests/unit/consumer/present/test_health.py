"""Whether a consumer is well, and whether a restart helps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.present import health
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.consumer.present.seen import PartitionSeen
from aktor.events.metadata import Cluster
from aktor.events.present import (
    MetadataNow,
    TopicTrouble,
)
from aktor.values import replace
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    a_dead_broker,
    a_member,
    a_picture,
    an_application,
    cluster,
    network,
    seen,
    trouble,
    wrong,
)


def test_a_consumer_that_is_being_closed_says_so_once() -> None:
    assert sentence.why(a_picture(closing=True)) == (
        "Nothing is delivered: the consumer is being closed."
    )


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


@pytest.mark.parametrize("group", ["g", None])
def test_who_has_subscribed_and_never_polls_is_not_alive_when_polls_are_overdue(
    group: str | None,
) -> None:
    def alive(**said: Any) -> health.Health:
        app = an_application(**{"polled_at": -math.inf, "delivered_at": -math.inf} | said)
        return health.alive(a_picture(group_id=group, in_group=bool(group), application=app))

    assert alive(subscribed_at=NOW - 299.0)
    told = alive(subscribed_at=NOW - 301.0)
    assert told.because == "the application has not polled since it has subscribed, 301 s ago"
    assert alive(subscribed_at=NOW - 301.0, waits=True)
    # A program that polled, subscribed to nothing for an hour, and subscribes again.
    assert alive(polled_at=NOW - 3600.0, subscribed_at=NOW - 1.0)
    assert not alive(polled_at=NOW - 301.0)


def test_who_assigns_by_hand_may_read_on_demand() -> None:
    by_hand = {"group_id": None, "in_group": False, "subscribed": False, "assigned_by_user": True}

    for polled_at in (-math.inf, NOW - 3600.0):
        app = an_application(polled_at=polled_at, subscribed_at=-math.inf)
        assert health.alive(a_picture(**by_hand, application=app))


def test_a_metadata_error_that_may_pass_is_a_fault_after_a_second_and_a_refusal_at_once() -> None:
    def is_wrong(since: float, *, may_pass: bool) -> bool:
        refused = trouble(since=since, error="INVALID_TOPIC_EXCEPTION", may_pass=may_pass)
        return bool(wrong(a_picture(cluster=Cluster(version=1), metadata=refused)))

    assert not is_wrong(NOW - 0.5, may_pass=True)
    assert is_wrong(NOW - 2.0, may_pass=True)
    assert is_wrong(NOW - 0.5, may_pass=False)


@pytest.mark.parametrize("for_good", [True, False])
def test_a_member_that_the_group_refuses_is_alive_if_it_joins_again(for_good: bool) -> None:
    member = a_member(
        state="failed",
        refusal="GROUP_AUTHORIZATION_FAILED: refused",
        refusal_since=NOW - 2.0,
        for_good=for_good,
    )
    p = a_picture(member=member)

    assert health.alive(p).ok is not for_good
    if for_good:
        assert health.alive(p).because.endswith("refused. The member does not join again")
        assert health.healthy(p, of_consumer(p), ()).because == health.alive(p).because
        assert health.alive(replace(p, subscribed=False))


@pytest.mark.parametrize(
    ("partitions", "session_until"),
    [({}, -math.inf), ({}, NOW - 3.0), ({T0: seen()}, -math.inf), ({T0: seen()}, NOW - 3.0)],
)
def test_a_member_that_is_being_started_is_healthy(
    partitions: dict[TopicPartition, PartitionSeen], session_until: float
) -> None:
    """Before the first tick of its actor nothing is known of it. A new consumer was said to be
    restarted, and not to be healthy."""
    p = a_picture(member=None, partitions=partitions, session_until=session_until)

    assert "the member is being started" in sentence.why(p)
    assert bool(wrong(p)) is bool(partitions)
    assert health.healthy(p, of_consumer(p), of_partitions(p).values())


def test_a_member_that_is_started_again_and_again_is_not_healthy_if_its_session_is_over() -> None:
    p = a_picture(member=None, session_until=NOW - 11.0)

    assert not health.healthy(p, of_consumer(p), of_partitions(p).values())


@pytest.mark.parametrize(
    ("handlers", "said"),
    [
        (HandlersNow(), None),
        (
            HandlersNow(88, 2, NOW - 3.0),
            "The handlers of process() have yet to finish 88 delivered records: the first was given"
            " to one 3.0 s ago; 86 wait for one.",
        ),
        (
            HandlersNow(1, 1, NOW - 3.0),
            "The handlers of process() have yet to finish 1 delivered record: the first was given"
            " to one 3.0 s ago.",
        ),
        (
            HandlersNow(2),
            "The handlers of process() have yet to finish 2 delivered records: none is with a"
            " handler.",
        ),
    ],
)
def test_records_that_handlers_hold_are_told(handlers: HandlersNow, said: str | None) -> None:
    why = sentence.why(a_picture(application=an_application(handlers=handlers)))

    assert why.startswith("There is nothing new")
    assert why.endswith(said or "ago).")
