"""The consumer protocol's membership manager: patterns that the brokers evaluate."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import UnsupportedVersionError

from aktor.errors import InvalidRegularExpressionError
from aktor.events.membership import GroupFailed
from aktor.events.metadata import TrackTopics
from tests.unit.managers.membership.builders import UNKNOWN_MEMBER_ID
from tests.unit.managers.membership.consumer.builders import (
    FENCED_MEMBER_EPOCH,
    INVALID_REGULAR_EXPRESSION,
    ConsumerHarness,
    a_member,
    a_stable_member,
    heard,
    refused,
    row,
)


def a_member_with(regex: str) -> ConsumerHarness:
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe_to(regex)
    harness.poll()
    return harness


def test_a_pattern_is_said_once_with_no_names_and_needs_version_1() -> None:
    """Scenario 78."""
    harness = a_member_with("a.*")
    join = harness.beat()
    harness.answer(join, heard(1, "a-0"))
    harness.apply()

    later = harness.beat()

    assert row(join) == (0, 300_000, [], "a.*", frozenset())
    assert join.body._min_version == 1
    assert (later.body.subscribed_topic_names, later.body.subscribed_topic_regex) == (None, None)


def test_a_subscription_to_topics_takes_the_pattern_back() -> None:
    """Scenarios 74 and 78."""
    harness = a_member_with("a.*")
    harness.is_told("a-0")
    harness.apply()
    harness.is_told()

    harness.subscribe("b")

    body = harness.next_beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")


def test_a_pattern_takes_the_place_of_topics() -> None:
    """Scenario 74."""
    harness = a_stable_member()

    harness.subscribe_to("b.*")

    body = harness.beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == ([], "b.*")


def test_another_pattern_is_said_alone() -> None:
    harness = a_member_with("a.*")
    harness.is_told("a-0")
    harness.apply()
    harness.is_told()

    harness.subscribe_to("b.*")

    body = harness.next_beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (None, "b.*")


def test_a_pattern_that_was_to_be_taken_back_is_taken_back_after_the_answer_was_lost() -> None:
    """Null would leave it in place: nobody knows what has arrived."""
    harness = a_member_with("a.*")
    harness.is_told("a-0")
    harness.apply()
    harness.is_told()
    harness.subscribe("b")
    harness.fail(harness.next_beat())

    body = harness.next_beat().body

    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")


def test_a_member_that_joins_again_with_topics_takes_back_the_pattern_it_had() -> None:
    """The coordinator may still have it: a member that is known there is not made anew."""
    harness = a_member_with("a.*")
    harness.is_told("a-0")
    harness.apply()
    harness.is_told()
    harness.subscribe("b")
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.revoke()

    body = harness.next_beat().body

    assert (body.member_epoch, body.subscribed_topic_regex) == (0, "")


@pytest.mark.parametrize(
    "who", [{"incarnation": 2}, {"group_instance_id": "i"}], ids=["restarted", "static"]
)
def test_a_pattern_of_who_was_here_before_is_taken_back(who: dict[str, Any]) -> None:
    """The coordinator keeps what it is not told otherwise; one without patterns has none."""
    harness = a_member(**who)
    harness.wants_to_join("b")

    body = harness.beat().body

    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")
    assert not body._min_version


def test_who_never_had_a_pattern_can_speak_to_a_broker_without_them() -> None:
    harness = a_member()
    harness.wants_to_join("a")

    body = harness.beat().body

    assert (body._min_version or 0, body.subscribed_topic_regex) == (0, None)


def test_a_pattern_that_brokers_cannot_read_is_the_users_error() -> None:
    """Scenario 73."""
    harness = a_member_with("a(")

    harness.is_refused(INVALID_REGULAR_EXPRESSION, "missing )")

    error = harness.said(GroupFailed).error
    assert isinstance(error, InvalidRegularExpressionError)
    assert "missing )" in str(error)
    assert "RE2" in str(error)
    assert "a new consumer" in str(error)  # to subscribe again would not help this one


def test_a_broker_without_patterns_is_an_error_that_names_the_remedy() -> None:
    """Scenario 77: the connection refuses to write the request."""
    harness = a_member_with("a.*")

    harness.fail(harness.beat(), UnsupportedVersionError("no version in common"))

    told = str(harness.said(GroupFailed).error)
    assert "'a.*' takes brokers that evaluate it" in told
    assert "a pattern of Python's re" in told
    assert "set group_protocol" not in told


def test_topics_that_a_pattern_found_are_kept_fresh() -> None:
    harness = a_member_with("a.*")
    harness.is_told("a-0 b-0")

    assert harness.last_said(TrackTopics) == TrackTopics(
        owner="membership", topics=frozenset({"a", "b"})
    )


def test_topics_that_a_pattern_found_are_kept_fresh_until_the_application_lets_go() -> None:
    """Without their leaders who still fetches them would ask for metadata again and again."""
    harness = a_member_with("a.*")
    harness.is_told("a-0 b-0")
    harness.apply()

    harness.answer(harness.beat(), refused(UNKNOWN_MEMBER_ID))
    assert harness.last_said(TrackTopics).topics == {"a", "b"}

    harness.revoke()
    assert harness.last_said(TrackTopics).topics == frozenset()
