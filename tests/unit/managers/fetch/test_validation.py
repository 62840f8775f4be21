"""Leaders that may not have what was read: nothing is fetched until it is known (KIP-320)."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.events.positions import (
    Assigned,
    Divergence,
    Position,
    PositionsDiverged,
    PositionsResolved,
    PositionsValidated,
    SeekPartitions,
    Validated,
    ValidatePositions,
)
from tests.unit.managers.fetch.builders import FetchHarness, a_batch, chunks, of, offsets, tp


def asked_about(harness: FetchHarness) -> dict[TopicPartition, Assigned]:
    """What the position manager was asked to validate."""
    return {
        partition: assigned
        for one in harness.said
        if isinstance(one, ValidatePositions)
        for partition, assigned in one.partitions.items()
    }


def diverged(harness: FetchHarness) -> dict[TopicPartition, Divergence]:
    """What the position manager was told of diverging logs."""
    return {
        partition: found
        for one in harness.said
        if isinstance(one, PositionsDiverged)
        for partition, found in one.partitions.items()
    }


def last_epochs(request: Any) -> dict[int, int]:
    """Partition -> epoch of the last record, as the request says it on the wire."""
    return {
        one.partition: one.last_fetched_epoch
        for topic in request.body.topics
        for one in topic.partitions
    }


def reading_at_10(**settings: Any) -> FetchHarness:
    """Partition 0 was read up to offset 10; the last record is of leader epoch 4, the leader of
    epoch 5 has sent it. Nobody validates anything at once."""
    harness = FetchHarness.reading({0: (1, 5)}, **settings)
    harness.validates = False
    harness.answer(harness.the_request(), of(0, a_batch(0, 10, leader_epoch=4)))
    return harness


def test_a_fetch_tells_the_epoch_of_the_last_record() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    first = harness.the_request()
    batches = a_batch(0, 10, leader_epoch=3) + a_batch(10, 10, leader_epoch=4)
    harness.answer(first, of(0, batches))

    assert last_epochs(first) == {0: -1}
    assert last_epochs(harness.the_request()) == {0: 4}


@pytest.mark.parametrize("by", ["seek", "assign", "resolve"])
def test_a_position_with_an_epoch_tells_it_in_its_first_fetch(by: str) -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    at = {tp(0): Assigned(epoch=2, position=Position(offset=7, leader_epoch=5))}
    if by == "seek":
        harness.tell(SeekPartitions(partitions=at))
    else:
        harness.reset(0, epoch=2)
        harness.tell(PositionsResolved(partitions=at))

    assert last_epochs(harness.the_request()) == {0: 5}


def test_what_a_leader_has_sent_itself_is_in_its_log() -> None:
    harness = reading_at_10()

    assert offsets(harness.the_request()) == {0: 10}
    assert asked_about(harness) == {}


def test_after_an_election_nothing_is_fetched_before_the_position_is_valid() -> None:
    harness = reading_at_10()
    harness.cluster({0: (2, 6)})

    assert harness.tick() == []
    assert asked_about(harness) == {
        tp(0): Assigned(epoch=1, position=Position(offset=10, leader_epoch=4))
    }

    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    request = harness.the_request()
    assert (request.to, offsets(request), last_epochs(request)) == (2, {0: 10}, {0: 4})


def test_a_position_is_asked_about_once_for_each_election() -> None:
    harness = reading_at_10()
    harness.cluster({0: (2, 6)})
    for _ in range(3):
        harness.tick(1.0)
    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    harness.tick()
    harness.cluster({0: (2, 6)}, version=2)
    harness.tick(1.0)
    assert sum(isinstance(one, ValidatePositions) for one in harness.said) == 1

    harness.cluster({0: (1, 7)}, version=3)
    harness.tick()
    assert sum(isinstance(one, ValidatePositions) for one in harness.said) == 2


def test_an_election_during_a_validation_is_followed_by_another_one() -> None:
    harness = reading_at_10()
    harness.cluster({0: (2, 6)})
    harness.tick()
    harness.cluster({0: (3, 7)}, version=2)

    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))

    assert harness.tick() == []
    assert sum(isinstance(one, ValidatePositions) for one in harness.said) == 2
    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=7)}))
    assert harness.the_request().to == 3


def test_records_that_come_from_the_old_leader_during_a_validation_are_dropped() -> None:
    harness = reading_at_10()
    old = harness.the_request()
    harness.cluster({0: (2, 6)})
    harness.tick()

    said = harness.answer(old, of(0, a_batch(10, 5, leader_epoch=5)))

    assert chunks(said) == []
    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    assert offsets(harness.the_request()) == {0: 10}


def test_other_partitions_are_fetched_during_a_validation() -> None:
    harness = FetchHarness.reading({0: (1, 5), 1: (1, 5)})
    harness.validates = False
    harness.answer(
        harness.the_request(),
        of(0, a_batch(0, 10, leader_epoch=4)),
        of(1, a_batch(0, 10, leader_epoch=4)),
    )
    harness.cluster({0: (2, 6), 1: (1, 5)})

    assert [(one.to, offsets(one)) for one in harness.tick()] == [(1, {1: 10})]


def test_a_paused_partition_is_validated_too() -> None:
    harness = reading_at_10()
    harness.pause(0)
    harness.cluster({0: (2, 6)})

    harness.tick()

    assert asked_about(harness).keys() == {tp(0)}


def test_a_partition_that_nobody_has_polled_for_is_not_validated_yet() -> None:
    harness = FetchHarness()
    harness.validates = False
    harness.cluster({0: (1, 5)})
    harness.assign({0: 0}, polled=False)
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=3))
    harness.tell(SeekPartitions(partitions={tp(0): at}))

    harness.tick()
    assert asked_about(harness) == {}

    harness.consume({})
    harness.tick()
    assert asked_about(harness) == {tp(0): at}


@pytest.mark.parametrize("epoch", [-1, 5, 6])
def test_a_position_of_no_epoch_or_of_the_leaders_own_needs_no_question(epoch: int) -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    harness.validates = False
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=epoch))
    harness.tell(SeekPartitions(partitions={tp(0): at}))

    assert offsets(harness.the_request()) == {0: 7}
    assert asked_about(harness) == {}


def test_an_answer_about_an_older_epoch_of_the_partition_does_not_count() -> None:
    harness = reading_at_10()
    harness.cluster({0: (2, 6)})
    harness.tick()
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=3))
    harness.tell(SeekPartitions(partitions={tp(0): at}))

    harness.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))

    assert harness.tick() == []
    assert asked_about(harness) == {tp(0): at}


def test_a_diverging_answer_stops_the_partition_and_is_told() -> None:
    harness = reading_at_10()

    harness.answer(harness.the_request(), of(0, diverging=(3, 6)))

    assert diverged(harness) == {
        tp(0): Divergence(
            epoch=1,
            position=Position(offset=10, leader_epoch=4),
            end=Position(offset=6, leader_epoch=3),
            node=1,
        )
    }
    assert harness.tick(5.0) == []


def test_a_diverging_answer_for_another_position_is_dropped() -> None:
    harness = reading_at_10()
    old = harness.the_request()
    harness.seek(0, 3, epoch=2)

    harness.answer(old, of(0, diverging=(3, 6)))

    assert diverged(harness) == {}
    assert offsets(harness.the_request(1.0)) == {0: 3}


def test_a_follower_that_diverges_may_be_behind_so_the_leader_is_asked() -> None:
    harness = reading_at_10()
    harness.answer(harness.the_request(), of(0, preferred_read_replica=3))
    follower = harness.the_request()
    assert follower.to == 3

    harness.answer(follower, of(0, diverging=(4, 6)))

    assert diverged(harness) == {}
    assert harness.the_request(1.0).to == 1
