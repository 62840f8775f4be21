"""What the engine asks the background for, and what a commit without offsets commits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from aktor.consumer.core.commits import Completion
from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets, FetchCommittedOffsets
from aktor.events.metadata import DescribeTopics
from aktor.events.positions import ListOffsets, ResetStrategy
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk


def answering(harness: EngineHarness, kind: type, answer: Callable[[Any], Any]) -> EngineHarness:
    """The background answers each question of this kind."""

    def hear(message: Any) -> None:
        if isinstance(message, kind):
            ticket = message.ticket  # type: ignore[attr-defined]
            harness.hear(Answered(ticket=ticket, value=answer(message)))

    harness.on_said = hear
    return harness


def a_consumer_that_has_read() -> EngineHarness:
    """It was given the records 0, 1, 2 of A, and its commits are answered."""
    harness = answering(a_consumer(), CommitOffsets, lambda _: None)
    harness.fetched(a_chunk(count=3))
    assert harness.poll() == {A: [0, 1, 2]}
    return harness


# -- commits


def test_a_commit_without_offsets_is_one_of_all_consumed_positions() -> None:
    harness = a_consumer_that_has_read()

    harness.run(harness.engine.commit(None, 130.0))
    harness.run(harness.engine.commit_async(None, lambda _value, _error: None))

    assert [one.offsets[A].offset for one in harness.of(CommitOffsets)] == [3, 3]


def test_a_commit_of_named_offsets_is_one_of_these() -> None:
    harness, named = a_consumer_that_has_read(), {A: OffsetAndMetadata(1, "", -1)}

    harness.run(harness.engine.commit(named, 130.0))
    harness.run(harness.engine.commit_async(named, lambda _value, _error: None))

    assert [one.offsets for one in harness.of(CommitOffsets)] == [named, named]


def test_a_callback_is_called_by_what_notes_that_it_begins() -> None:
    """An interrupt in a function of ours in between would lose the call."""
    harness, callers = a_consumer_that_has_read(), []

    def callback(_offsets: Any, _error: Any) -> None:
        callers.append(sys._getframe(1).f_code)

    harness.run(harness.engine.commit_async(None, lambda _value, _error: None, callback))
    harness.poll()

    assert callers == [Completion.run.__code__]


def test_what_another_thread_was_given_counts_as_finished_once_this_one_commits() -> None:
    harness = answering(a_consumer(), CommitOffsets, lambda _: None)
    harness.fetched(a_chunk(count=3))
    with ThreadPoolExecutor(1) as another:
        assert another.submit(harness.poll).result() == {A: [0, 1, 2]}
        harness.engine.begin_call()
        assert harness.engine.in_hand.given

        harness.run(harness.engine.commit(None, 130.0))

        assert not harness.engine.in_hand.given


# -- look-ups


def test_each_partition_that_is_asked_for_has_a_committed_offset_or_none() -> None:
    found = OffsetAndMetadata(7, "", -1)
    harness = answering(a_consumer(), FetchCommittedOffsets, lambda _: {A: found})

    assert harness.run(harness.engine.questions.committed([A, B], 130.0)) == {A: found, B: None}


def test_edges_are_plain_offsets_of_the_partitions_that_have_an_answer() -> None:
    end = OffsetAndTimestamp(3, -1, None)
    harness = answering(a_consumer(), ListOffsets, lambda _: {A: end, B: None})

    edges = harness.engine.questions.edges([A, B], ResetStrategy.LATEST, 130.0)

    assert harness.run(edges) == {A: 3}
    (asked,) = harness.of(ListOffsets)
    assert asked.timestamps == dict.fromkeys([A, B], ResetStrategy.LATEST.value)


def test_about_no_partition_nobody_is_asked() -> None:
    harness = a_consumer()
    questions = harness.engine.questions

    assert harness.run(questions.committed([], 130.0)) == {}
    assert harness.run(questions.edges([], ResetStrategy.LATEST, 130.0)) == {}
    assert harness.run(questions.offsets({}, 130.0)) == {}
    assert harness.said == []


def test_a_cluster_that_is_known_is_asked_for_only_if_it_is_to_be_refreshed() -> None:
    harness = answering(a_consumer(), DescribeTopics, lambda _: {})
    questions = harness.engine.questions

    harness.run(questions.reach_cluster(130.0))
    assert harness.of(DescribeTopics) == []
    harness.run(questions.reach_cluster(130.0, refresh=True))

    assert [one.topics for one in harness.of(DescribeTopics)] == [frozenset()]


# -- what is subscribed to


def test_a_consumer_without_a_subscription_has_no_subscribed_topics() -> None:
    assert a_consumer().engine.subscribed_topics is None


def test_subscribed_topics_are_those_that_were_named() -> None:
    harness = EngineHarness(group_id="group")

    harness.run(harness.engine.subscribe(frozenset(["orders", "bills"]), None))

    assert harness.engine.subscribed_topics == {"orders", "bills"}


def test_of_the_topics_that_the_brokers_match_those_are_known_that_are_assigned() -> None:
    harness = EngineHarness(group_id="group")
    harness.run(harness.engine.subscribe(frozenset(), None, regex="orders.*"))
    assert harness.engine.subscribed_topics == set()

    harness.engine.delivery.assign([A], {})

    assert harness.engine.subscribed_topics == {A.topic}


def test_columns_have_the_topics_in_one_order_whichever_were_assigned_first() -> None:
    harness = EngineHarness()
    last, first = TopicPartition("z", 0), TopicPartition("a", 0)

    harness.assign([last, first])
    assert harness.engine.topics_in_order == ["a", "z"]

    harness = EngineHarness(group_id="group")
    harness.run(harness.engine.subscribe(frozenset(["z", "m", "a"]), None))
    assert harness.engine.topics_in_order == ["a", "m", "z"]
