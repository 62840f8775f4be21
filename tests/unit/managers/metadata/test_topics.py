"""Topics that are tracked, and topics that brokers do not know or refuse."""

from __future__ import annotations

import re

from kafka.errors import InvalidTopicError, TopicAuthorizationFailedError

from aktor.events.metadata import TopicInfo, TopicPattern, TrackTopics
from aktor.events.present import TopicTrouble
from aktor.managers.metadata.topics import (
    GONE_KEPT,
    UNKNOWN_SECONDS,
    FormerIds,
    MissingTopics,
    TrackedTopics,
)
from aktor.protocol.error_codes import error_of


def test_a_topic_is_unknown_from_the_second_answer_in_a_row_that_does_not_know_it() -> None:
    missing = MissingTopics()
    first = missing.count_unknown("a", 1.0)
    missing.not_unknown("a")
    again = missing.count_unknown("a", 2.0)

    assert [first, again] == [False, False]
    assert missing.count_unknown("a", 2.0)
    assert missing.unknown == {"a"}


def test_a_topic_that_was_described_has_existed_and_so_may_one_that_is_unknown_for_a_moment() -> (
    None
):
    missing = MissingTopics()
    missing.described("old")
    for topic in ("old", "new"):
        missing.count_unknown(topic, 1.0)

    assert not missing.never_existed("new", 1.0 + UNKNOWN_SECONDS - 0.1)
    assert missing.never_existed("new", 1.0 + UNKNOWN_SECONDS)
    assert not missing.never_existed("old", 1.0 + UNKNOWN_SECONDS)


def test_a_refusal_is_told_once_until_it_is_forgotten_or_the_topic_described() -> None:
    missing = MissingTopics()
    kind = TopicAuthorizationFailedError

    assert [missing.refuse("a", kind, 1.0), missing.refuse("a", kind, 1.0)] == [True, False]
    assert missing.forget_refusals({"a", "b"})
    assert not missing.forget_refusals({"a", "b"})
    assert missing.refuse("a", kind, 1.0)
    missing.described("a")
    assert missing.refuse("a", kind, 1.0)


def test_a_right_may_be_granted_and_a_name_does_not_become_valid() -> None:
    missing = MissingTopics()
    missing.refuse("secret", TopicAuthorizationFailedError, 1.0)
    missing.refuse("no topic", InvalidTopicError, 1.0)

    assert missing.forbidden == {"secret"}
    assert missing.invalid == {"no topic"}
    assert [missing.may_appear(one) for one in ("secret", "no topic", "new")] == [True, False, True]


def test_of_a_topic_that_nobody_wants_nothing_is_kept() -> None:
    missing = MissingTopics()
    missing.described("a")
    missing.count_unknown("a", 1.0)
    missing.refuse("a", InvalidTopicError, 1.0)

    missing.forget({"a"})
    missing.count_unknown("a", 1.0)

    assert missing.never_existed("a", 10.0)
    assert missing.may_appear("a")
    assert not missing.forget_refusals({"a"})


PATTERN = TopicPattern(pattern=re.compile("order"))
ORDERS = TopicInfo(topic_id=None, partitions={})


def track(tracked: TrackedTopics, owner: str, *topics: str, by: TopicPattern | None = None) -> None:
    tracked.track(TrackTopics(owner=owner, topics=frozenset(topics), pattern=by))


def test_a_topic_is_tracked_until_the_last_owner_that_names_it_drops_it() -> None:
    tracked = TrackedTopics()
    track(tracked, "application", "a", "b")
    track(tracked, "membership", "b", "c")
    both = tracked.named

    track(tracked, "application", "a")
    one_is_left = tracked.named
    track(tracked, "membership")

    assert both == one_is_left == {"a", "b", "c"}
    assert tracked.named == tracked.named_by("application") == {"a"}
    assert tracked.named_by("membership") == frozenset()


def test_a_pattern_is_given_up_with_the_next_message_of_its_owner_that_has_none() -> None:
    tracked = TrackedTopics()
    track(tracked, "application", by=PATTERN)
    track(tracked, "membership", "orders")
    before = tracked.is_matched("orders", ORDERS)

    track(tracked, "application", "orders")

    assert before
    assert not tracked.is_matched("orders", ORDERS)
    assert not tracked.has_pattern
    assert tracked.pattern_of("application") is None


def test_a_pattern_names_no_topic() -> None:
    tracked = TrackedTopics()
    track(tracked, "application", by=PATTERN)

    assert tracked.named == frozenset()
    assert tracked.has_pattern


def test_only_so_many_topics_that_are_gone_are_remembered() -> None:
    former = FormerIds()
    for number in range(GONE_KEPT + 1):
        former.left(str(number), TopicInfo(topic_id=None, partitions={}))

    assert former.returned("0", None) is None
    assert former.returned("1", None) is not None


def test_a_topic_that_is_not_described_is_shown_with_its_reason_and_since_when() -> None:
    missing = MissingTopics()
    assert missing.troubles() == {}

    missing.count_unknown("a", 3.0)
    missing.count_unknown("a", 4.0)
    missing.refuse("secret", TopicAuthorizationFailedError, 5.0)
    missing.refuse("secret", TopicAuthorizationFailedError, 6.0)
    assert missing.troubles() == {
        "a": TopicTrouble(since=3.0),
        "secret": TopicTrouble(since=5.0, error="TOPIC_AUTHORIZATION_FAILED", forbidden=True),
    }

    missing.not_unknown("a")
    missing.described("secret")
    assert missing.troubles() == {}


def test_an_error_that_may_pass_is_shown_with_its_code_until_the_topic_is_described() -> None:
    missing = MissingTopics()
    missing.fails("a", error_of(999), 3.0)
    missing.fails("a", error_of(998), 4.0)
    shown = {"a": TopicTrouble(since=3.0, error="error code 998", may_pass=True)}
    assert missing.troubles() == shown

    missing.forget(("b",))
    assert missing.troubles() == shown

    missing.described("a")
    assert missing.troubles() == {}
    missing.fails("a", error_of(999), 5.0)
    missing.forget(("a",))
    assert missing.troubles() == {}
