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
from tests.unit.managers.fetch.builders import Around, a_batch, chunks, of, offsets, tp


def asked_about(around: Around) -> dict[TopicPartition, Assigned]:
    """What the position manager was asked to validate."""
    return {
        partition: assigned
        for one in around.said
        if isinstance(one, ValidatePositions)
        for partition, assigned in one.partitions.items()
    }


def diverged(around: Around) -> dict[TopicPartition, Divergence]:
    """What the position manager was told of diverging logs."""
    return {
        partition: found
        for one in around.said
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


def reading_at_10(**settings: Any) -> Around:
    """Partition 0 was read up to offset 10; the last record is of leader epoch 4, the leader of
    epoch 5 has sent it. Nobody validates anything at once."""
    around = Around.reading({0: (1, 5)}, **settings)
    around.validates = False
    around.answer(around.the_request(), of(0, a_batch(0, 10, leader_epoch=4)))
    return around


def test_a_fetch_tells_the_epoch_of_the_last_record() -> None:
    around = Around.reading({0: (1, 5)})
    first = around.the_request()
    batches = a_batch(0, 10, leader_epoch=3) + a_batch(10, 10, leader_epoch=4)
    around.answer(first, of(0, batches))

    assert last_epochs(first) == {0: -1}
    assert last_epochs(around.the_request()) == {0: 4}


@pytest.mark.parametrize("by", ["seek", "assign", "resolve"])
def test_a_position_with_an_epoch_tells_it_in_its_first_fetch(by: str) -> None:
    around = Around.reading({0: (1, 5)})
    at = {tp(0): Assigned(epoch=2, position=Position(offset=7, leader_epoch=5))}
    if by == "seek":
        around.tell(SeekPartitions(partitions=at))
    else:
        around.reset(0, epoch=2)
        around.tell(PositionsResolved(partitions=at))

    assert last_epochs(around.the_request()) == {0: 5}


def test_what_a_leader_has_sent_itself_is_in_its_log() -> None:
    around = reading_at_10()

    assert offsets(around.the_request()) == {0: 10}
    assert asked_about(around) == {}


def test_after_an_election_nothing_is_fetched_before_the_position_is_valid() -> None:
    around = reading_at_10()
    around.cluster({0: (2, 6)})

    assert around.tick() == []
    assert asked_about(around) == {
        tp(0): Assigned(epoch=1, position=Position(offset=10, leader_epoch=4))
    }

    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    request = around.the_request()
    assert (request.to, offsets(request), last_epochs(request)) == (2, {0: 10}, {0: 4})


def test_a_position_is_asked_about_once_for_each_election() -> None:
    around = reading_at_10()
    around.cluster({0: (2, 6)})
    for _ in range(3):
        around.tick(1.0)
    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    around.tick()
    around.cluster({0: (2, 6)}, version=2)
    around.tick(1.0)
    assert sum(isinstance(one, ValidatePositions) for one in around.said) == 1

    around.cluster({0: (1, 7)}, version=3)
    around.tick()
    assert sum(isinstance(one, ValidatePositions) for one in around.said) == 2


def test_an_election_during_a_validation_is_followed_by_another_one() -> None:
    around = reading_at_10()
    around.cluster({0: (2, 6)})
    around.tick()
    around.cluster({0: (3, 7)}, version=2)

    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))

    assert around.tick() == []
    assert sum(isinstance(one, ValidatePositions) for one in around.said) == 2
    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=7)}))
    assert around.the_request().to == 3


def test_records_that_come_from_the_old_leader_during_a_validation_are_dropped() -> None:
    around = reading_at_10()
    old = around.the_request()
    around.cluster({0: (2, 6)})
    around.tick()

    said = around.answer(old, of(0, a_batch(10, 5, leader_epoch=5)))

    assert chunks(said) == []
    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))
    assert offsets(around.the_request()) == {0: 10}


def test_other_partitions_are_fetched_during_a_validation() -> None:
    around = Around.reading({0: (1, 5), 1: (1, 5)})
    around.validates = False
    around.answer(
        around.the_request(),
        of(0, a_batch(0, 10, leader_epoch=4)),
        of(1, a_batch(0, 10, leader_epoch=4)),
    )
    around.cluster({0: (2, 6), 1: (1, 5)})

    assert [(one.to, offsets(one)) for one in around.tick()] == [(1, {1: 10})]


def test_a_paused_partition_is_validated_too() -> None:
    around = reading_at_10()
    around.pause(0)
    around.cluster({0: (2, 6)})

    around.tick()

    assert asked_about(around).keys() == {tp(0)}


def test_a_partition_that_nobody_has_polled_for_is_not_validated_yet() -> None:
    around = Around()
    around.validates = False
    around.cluster({0: (1, 5)})
    around.assign({0: 0}, polled=False)
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=3))
    around.tell(SeekPartitions(partitions={tp(0): at}))

    around.tick()
    assert asked_about(around) == {}

    around.consume({})
    around.tick()
    assert asked_about(around) == {tp(0): at}


@pytest.mark.parametrize("epoch", [-1, 5, 6])
def test_a_position_of_no_epoch_or_of_the_leaders_own_needs_no_question(epoch: int) -> None:
    around = Around.reading({0: (1, 5)})
    around.validates = False
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=epoch))
    around.tell(SeekPartitions(partitions={tp(0): at}))

    assert offsets(around.the_request()) == {0: 7}
    assert asked_about(around) == {}


def test_an_answer_about_an_older_epoch_of_the_partition_does_not_count() -> None:
    around = reading_at_10()
    around.cluster({0: (2, 6)})
    around.tick()
    at = Assigned(epoch=2, position=Position(offset=7, leader_epoch=3))
    around.tell(SeekPartitions(partitions={tp(0): at}))

    around.tell(PositionsValidated(partitions={tp(0): Validated(epoch=1, leader_epoch=6)}))

    assert around.tick() == []
    assert asked_about(around) == {tp(0): at}


def test_a_diverging_answer_stops_the_partition_and_is_told() -> None:
    around = reading_at_10()

    around.answer(around.the_request(), of(0, diverging=(3, 6)))

    assert diverged(around) == {
        tp(0): Divergence(
            epoch=1,
            position=Position(offset=10, leader_epoch=4),
            end=Position(offset=6, leader_epoch=3),
            node=1,
        )
    }
    assert around.tick(5.0) == []


def test_a_diverging_answer_for_another_position_is_dropped() -> None:
    around = reading_at_10()
    old = around.the_request()
    around.seek(0, 3, epoch=2)

    around.answer(old, of(0, diverging=(3, 6)))

    assert diverged(around) == {}
    assert offsets(around.the_request(1.0)) == {0: 3}


def test_a_follower_that_diverges_may_be_behind_so_the_leader_is_asked() -> None:
    around = reading_at_10()
    around.answer(around.the_request(), of(0, preferred_read_replica=3))
    follower = around.the_request()
    assert follower.to == 3

    around.answer(follower, of(0, diverging=(4, 6)))

    assert diverged(around) == {}
    assert around.the_request(1.0).to == 1
