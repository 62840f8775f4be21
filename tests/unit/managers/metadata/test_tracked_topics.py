"""Which topics are kept fresh: what each owner names, and what its pattern matches."""

from __future__ import annotations

import re

from aktor.events.metadata import TopicInfo, TopicPattern, TrackTopics
from aktor.managers.metadata.tracked_topics import TrackedTopics

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
