"""Patterns of topic names: those of the brokers, and those that the application evaluates."""

from __future__ import annotations

import re
from typing import Any

import pytest

import aktor
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    LeaveGroup,
    Loss,
    Operation,
    RevokePartitions,
    SubscriptionChanged,
)
from aktor.events.metadata import Cluster, ClusterChanged, TopicInfo, TopicPattern, TrackTopics
from tests.unit.consumer.core.builders import EngineHarness, a_member, an_assignment
from tests.unit.consumer.core.builders_chunks import A

ORDERS = TopicPattern(pattern=re.compile("orders.*"))


def topics(*names: str) -> ClusterChanged:
    return ClusterChanged(
        cluster=Cluster(
            topics={
                name: TopicInfo(topic_id=None, partitions={}, internal=name.startswith("__"))
                for name in names
            }
        )
    )


def a_consumer(*known: str, pattern: TopicPattern = ORDERS, **settings: Any) -> EngineHarness:
    """A group member that subscribes to a pattern, and knows these topics already."""
    harness = EngineHarness(**{"group_id": "g", **settings})
    harness.hear(topics(*known))
    harness.run(harness.engine.subscribe(frozenset(), None, pattern=pattern))
    return harness


# -- SubscriptionPattern


def test_a_pattern_for_the_brokers_is_public_and_reads_as_itself() -> None:
    pattern = aktor.SubscriptionPattern("orders-(eu|us)")

    assert pattern == SubscriptionPattern("orders-(eu|us)")
    assert str(pattern) == "orders-(eu|us)"


def test_it_is_not_compiled_here() -> None:
    """Python's syntax is not that of RE2: only a broker can tell."""
    assert SubscriptionPattern("(").pattern == "("


@pytest.mark.parametrize(
    ("given", "error"), [("", ValueError), (None, TypeError), (re.compile("a"), TypeError)]
)
def test_what_is_no_pattern_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        SubscriptionPattern(given)


def test_the_engine_tells_the_group_and_tracks_nothing_itself() -> None:
    harness = EngineHarness(group_id="g")

    harness.run(harness.engine.subscribe(frozenset(), None, regex="orders.*"))

    assert harness.of(SubscriptionChanged) == [
        SubscriptionChanged(topics=frozenset(), regex="orders.*")
    ]
    assert harness.of(TrackTopics) == [TrackTopics(owner="application")]
    assert harness.engine.subscription.in_group


def test_a_restarted_membership_is_told_the_pattern_again() -> None:
    harness = EngineHarness(group_id="g")
    harness.run(harness.engine.subscribe(frozenset(), None, regex="orders.*"))
    harness.forget()

    harness.hear(ActorsRestarted(actors=("membership",), because=ZeroDivisionError("a bug")))
    harness.poll()

    (again,) = harness.of(SubscriptionChanged)
    assert again.regex == "orders.*"


def test_topics_take_the_place_of_a_pattern_for_the_brokers() -> None:
    harness = EngineHarness(group_id="g")
    harness.run(harness.engine.subscribe(frozenset(), None, regex="orders.*"))

    harness.run(harness.engine.subscribe(frozenset({"a"}), None))

    assert harness.of(SubscriptionChanged)[-1] == SubscriptionChanged(topics=frozenset({"a"}))
    assert harness.of(TrackTopics)[-1] == TrackTopics(owner="application", topics=frozenset({"a"}))


# -- a pattern that we evaluate


def test_the_subscription_is_what_matches_of_the_topics_known() -> None:
    harness = a_consumer("orders", "orders-eu", "payments", "__orders")

    matching = frozenset({"orders", "orders-eu"})
    assert harness.of(SubscriptionChanged) == [SubscriptionChanged(topics=matching)]
    assert harness.of(TrackTopics) == [TrackTopics(owner="application", pattern=ORDERS)]
    assert harness.engine.subscription.topics == matching


def test_topics_that_come_and_go_change_the_subscription() -> None:
    """Scenario 76."""
    harness = a_consumer("orders")

    harness.hear(topics("orders-eu", "payments"))
    harness.poll()

    assert harness.of(SubscriptionChanged)[-1].topics == {"orders-eu"}


def test_it_is_told_only_when_other_topics_match() -> None:
    """Scenario 79."""
    harness = a_consumer("orders")
    harness.forget()

    harness.hear(topics("orders", "payments"))
    harness.poll()

    assert not harness.of(SubscriptionChanged)


def test_a_pattern_that_matches_nothing_yet_is_a_subscription() -> None:
    harness = a_consumer()

    assert harness.engine.subscription.is_subscribed
    assert harness.engine.subscription.topics == frozenset()


@pytest.mark.parametrize("how", ["topics", "leave"])
def test_a_pattern_that_was_given_up_finds_nothing_any_more(how: str) -> None:
    harness = a_consumer("orders")
    if how == "topics":
        harness.run(harness.engine.subscribe(frozenset({"a"}), None))
    else:
        harness.leave(harness.clock.now, because="unsubscribe")
    harness.forget()

    harness.hear(topics("orders", "orders-eu"))
    harness.poll()

    assert not harness.of(SubscriptionChanged)


# -- what becomes of the membership


def test_an_operation_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="'stay', but must be one of 'default', 'leave_group', 'r"):
        Operation.named("stay")
    assert Operation.named("LEAVE_GROUP") is Operation.LEAVE_GROUP


@pytest.mark.parametrize("operation", Operation)
def test_the_group_is_told_what_becomes_of_the_membership(operation: Operation) -> None:
    harness = a_member()

    harness.leave(harness.clock.now, because="close", operation=operation)

    (leave,) = harness.of(LeaveGroup)
    assert leave.operation is operation


def test_unsubscribing_does_with_the_membership_what_is_usual() -> None:
    harness = a_member()

    harness.leave(harness.clock.now, because="unsubscribe")

    assert harness.of(LeaveGroup)[0].operation is Operation.DEFAULT


# -- partitions that were lost before they were taken on


def test_partitions_that_were_lost_meanwhile_are_not_taken_on() -> None:
    """The application was busy while the member was assigned partitions, and fenced."""
    harness = EngineHarness(group_id="g")
    harness.run(harness.engine.subscribe(frozenset({"orders"}), None))
    lost = RevokePartitions(
        rebalance=2, partitions=frozenset({A}), loss=Loss.LOST, because="fenced"
    )
    harness.hear(an_assignment(A, rebalance=1), lost)

    harness.poll()

    assert not harness.engine.delivery.partitions
    assert not harness.of(CallbackFinished)


def test_partitions_that_nothing_follows_are_taken_on() -> None:
    harness = EngineHarness(group_id="g")
    harness.run(harness.engine.subscribe(frozenset({"orders"}), None))
    owned = frozenset({A})
    harness.hear(
        AssignPartitions(rebalance=1, assigned=owned, added=owned, generation=1, must_succeed=True)
    )

    harness.poll()

    assert set(harness.engine.delivery.partitions) == {A}
    assert harness.of(CallbackFinished) == [CallbackFinished(rebalance=1, assigned=True)]
