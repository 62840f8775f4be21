"""Topics that are deleted and created anew, and partitions that are out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from aktor.events.commits import CommitOffsets
from aktor.events.membership import MemberChanged, MemberState, SessionExtended
from aktor.events.metadata import Cluster, ClusterChanged, PartitionInfo, TopicInfo
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from tests.unit.consumer.core.builders import (
    ORDERS,
    EngineHarness,
    a_consumer,
    a_member,
    an_assignment,
    resolved,
)
from tests.unit.consumer.core.builders_chunks import A, a_chunk, a_refusal

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- topics that are deleted and created anew


def the_topic(number: int | None) -> ClusterChanged:
    """A's topic with this id; None: it is deleted."""
    info = TopicInfo(topic_id=number, partitions={0: PartitionInfo(leader=1, leader_epoch=0)})
    topics = {} if number is None else {A.topic: info}
    return ClusterChanged(cluster=Cluster(topics=topics))


def a_consumer_that_has_read() -> EngineHarness:
    """It has come to offset 7 of a topic that has the id 1."""
    harness = a_consumer()
    harness.hear(the_topic(1))
    harness.engine.seek(A, Position(offset=7))
    harness.poll()
    harness.forget()
    return harness


def test_a_position_in_a_topic_that_was_created_anew_is_reset_by_the_policy() -> None:
    harness = a_consumer_that_has_read()

    harness.hear(the_topic(2))
    harness.poll()
    harness.poll()

    (reset,) = harness.of(ResetPositions)
    assert reset.because == "the topic was deleted and created anew"
    assert [(one.strategy, one.from_offset) for one in reset.partitions.values()] == [(None, 7)]


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({}, ResetStrategy.EARLIEST),
        ({"group_id": None}, ResetStrategy.EARLIEST),
        ({"auto_offset_reset_new_partitions": "latest"}, None),
        ({"auto_offset_reset_out_of_range": "latest"}, None),
        ({"auto_offset_reset": "earliest"}, None),
        ({"auto_offset_reset": "by_duration:PT1H"}, None),
        ({"auto_offset_reset": "none"}, None),
        ({"by_hand": True}, None),
    ],
)
def test_whoever_subscribed_at_latest_reads_a_topic_created_anew_from_its_first_record(
    settings: dict[str, Any], strategy: ResetStrategy | None
) -> None:
    """All of it was written after the subscription."""
    given = {"group_id": "g", "auto_offset_reset": "latest"} | settings
    by_hand = given.pop("by_hand", False)
    harness = EngineHarness(**given)
    harness.hear(the_topic(1))
    if by_hand:
        harness.assign([A])
    else:
        harness.run(harness.engine.subscribe(ORDERS, None))
    if given["group_id"] and not by_hand:
        member = MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE)
        harness.hear(member, SessionExtended(until=145.0), an_assignment(A))
    harness.poll()
    harness.found(offset=7)
    harness.poll()

    harness.hear(the_topic(2))
    harness.poll()

    (reset,) = harness.of(ResetPositions)
    assert [(one.strategy, one.from_offset) for one in reset.partitions.values()] == [(strategy, 7)]


def test_a_reset_in_place_of_another_tells_the_offset_that_the_first_one_came_from() -> None:
    harness = a_consumer_that_has_read()
    epoch = harness.engine.delivery.partitions[A].epoch
    harness.fetched(a_refusal(OffsetOutOfRangeError({A: 7}), epoch=epoch))
    harness.poll()

    harness.hear(the_topic(2))
    harness.poll()

    told = [one.partitions[A].from_offset for one in harness.of(ResetPositions)]
    assert told == [7, 7]


def test_a_reset_that_is_told_again_after_an_interrupt_names_the_same_offset() -> None:
    harness = a_consumer_that_has_read()
    epoch = harness.engine.delivery.partitions[A].epoch
    harness.fetched(a_refusal(OffsetOutOfRangeError({A: 7}), epoch=epoch))
    harness.poll()

    harness.engine.recovery.repair()

    first, again = (told.partitions[A] for told in harness.of(ResetPositions))
    assert (first.from_offset, again.from_offset) == (7, 7)
    assert again.epoch > first.epoch


def test_a_topic_that_was_gone_for_a_while_is_another_one_as_well() -> None:
    harness = a_consumer_that_has_read()

    harness.hear(the_topic(None))
    harness.poll()
    still = not harness.of(ResetPositions)
    harness.hear(the_topic(2))
    harness.poll()

    assert still
    assert harness.of(ResetPositions)


def test_what_was_read_of_the_old_topic_is_not_committed_for_the_new_one() -> None:
    harness = a_consumer_that_has_read()

    harness.hear(the_topic(2))

    assert harness.engine.consumed() == {}


@pytest.mark.parametrize("is_async", [False, True])
def test_offsets_that_the_application_names_are_of_the_topic_that_it_was_given_records_of(
    *, is_async: bool
) -> None:
    """It handles records of the old one when the topic is another; what it names next is not."""
    harness = a_consumer_that_has_read()
    harness.hear(the_topic(2))

    for _ in range(2):
        named = {A: OffsetAndMetadata(8, "", -1)}
        if is_async:
            harness.run(harness.engine.commit_async(named, lambda *_: None))
        else:
            with pytest.raises(KafkaTimeoutError):
                harness.run(harness.engine.commit(named, 0.0))

    assert [one.topic_ids for one in harness.of(CommitOffsets)] == [{A.topic: 1}, {A.topic: 2}]


@pytest.mark.parametrize("end", ["commit", "assign", "unsubscribe", "poll"])
def test_whoever_tells_positions_says_of_which_topics_they_are(end: str) -> None:
    harness = EngineHarness(group_id="g", enable_auto_commit=True)
    harness.assign([A])
    harness.hear(the_topic(1))
    harness.engine.seek(A, Position(offset=7))
    harness.poll()
    calls: dict[str, Callable[[], Any]] = {
        "commit": lambda: harness.engine.commit_async(None, lambda *_: None),
        "assign": lambda: harness.engine.assign([]),
        "unsubscribe": lambda: harness.engine.unsubscribe(0.0),
    }
    if end in calls:
        harness.run(calls[end]())

    told = [*harness.of(CommitOffsets), *harness.of(Poll)]
    assert (end == "poll") or any(isinstance(one, CommitOffsets) for one in told)
    assert told[0].topic_ids == {A.topic: 1}


@pytest.mark.parametrize("by", ["assign", "subscribe", "a group"])
def test_a_topic_is_known_from_the_moment_that_its_partitions_are_owned(by: str) -> None:
    """The metadata may be older than that, and stay as it is until the topic is another."""
    harness = EngineHarness(group_id="g" if by == "a group" else None)
    harness.hear(the_topic(1))
    harness.poll()
    if by == "assign":
        harness.assign([A])
    else:
        harness.run(harness.engine.subscribe(ORDERS, None))
    if by == "a group":
        member = MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE)
        harness.hear(member, SessionExtended(until=145.0), an_assignment(A))
    harness.poll()
    harness.found(offset=7)
    harness.poll()

    harness.hear(the_topic(2))
    harness.poll()

    assert harness.of(ResetPositions)


def test_a_seek_after_the_topic_was_created_anew_wins() -> None:
    harness = a_consumer_that_has_read()

    harness.hear(the_topic(2))
    harness.engine.seek(A, Position(offset=3))
    harness.poll()

    assert isinstance(harness.said[0], ResetPositions)
    assert isinstance(harness.said[1], SeekPartitions)
    assert len(harness.of(ResetPositions)) == 1
    assert harness.engine.consumed()[A].offset == 3


def test_a_member_of_a_kip_848_group_is_assigned_the_new_topic_by_its_coordinator() -> None:
    harness = a_member()
    known = MemberChanged(
        member_id="m-1", generation=1, state=MemberState.STABLE, protocol="consumer"
    )
    harness.hear(known, the_topic(1))
    harness.poll()

    harness.hear(the_topic(2))
    harness.poll()

    assert not harness.of(ResetPositions)


# -- out of range, gaps


def test_an_offset_out_of_range_is_reset_by_the_policy_and_raises_nothing() -> None:
    harness = a_consumer()
    harness.fetched(a_refusal(OffsetOutOfRangeError({A: 0})))

    assert harness.poll() == {}

    (told,) = harness.of(ResetPositions)
    assert told.partitions == {A: Reset(epoch=2, from_offset=0)}
    harness.hear(resolved(epoch=2, offset=70))
    harness.fetched(a_chunk(offset=70, epoch=2))
    assert harness.poll() == {A: [70, 71, 72]}


def test_what_was_out_of_range_before_a_seek_resets_nothing() -> None:
    harness = a_consumer()
    harness.fetched(a_refusal(OffsetOutOfRangeError({A: 0}), epoch=1))
    harness.engine.seek(A, Position(offset=5))

    harness.poll()

    assert harness.of(ResetPositions) == []
    assert harness.position(A, harness.clock.now) == 5


def test_a_gap_in_the_buffer_is_fetched_anew_from_the_position() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=2), a_chunk(offset=5))
    assert harness.poll() == {A: [0, 1]}

    assert harness.poll() == {}

    position = Position(offset=2, leader_epoch=5)
    assert harness.of(SeekPartitions) == [
        SeekPartitions(partitions={A: Assigned(epoch=2, position=position)})
    ]
    harness.fetched(a_chunk(offset=2, epoch=2))
    assert harness.poll() == {A: [2, 3, 4]}


def test_what_an_interrupt_took_from_us_is_fetched_anew_from_the_position() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(A, 0, b"0", b"interrupt", b"2"))

    with pytest.raises(KeyboardInterrupt):
        harness.poll()
    harness.engine.recovery.repair()

    told = harness.of(AssignmentChanged)[-1]
    assert told.partitions[A].position == Position(offset=0)
    assert harness.of(Poll) == []
    assert harness.engine.delivery.credit.unreported > 0
    harness.fetched(a_chunk(epoch=told.partitions[A].epoch))
    assert harness.poll() == {A: [0, 1, 2]}
