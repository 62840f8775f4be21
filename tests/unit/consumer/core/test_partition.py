"""The table of a partition's stages: whether its records may be given out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.core.partition import EPOCHS_KEPT, STAGES, Partition, Stage, StageEvent
from aktor.events.fetching import Chunk
from aktor.events.positions import Position
from tests.unit.consumer.core.builders_delivery import interrupted_at

HAPPENS: Final[Mapping[StageEvent, Callable[[Partition], None]]] = {
    StageEvent.DELIVERED: Partition.deliver,
    StageEvent.REVOKED: Partition.revoke,
}


def partition_in(stage: Stage) -> Partition:
    partition = Partition(
        TopicPartition("orders", 0), epoch=1, delivering=stage is not Stage.PENDING_CALLBACK
    )
    if stage is Stage.PENDING_REVOCATION:
        partition.revoke()
    assert partition.stage is stage
    return partition


@pytest.mark.parametrize(
    ("stage", "event"), list(itertools.product(Stage, StageEvent)), ids=lambda one: one.name
)
def test_an_event_moves_as_the_table_says(stage: Stage, event: StageEvent) -> None:
    partition = partition_in(stage)

    HAPPENS[event](partition)

    assert partition.stage is STAGES[stage][event]


def test_nothing_leads_back_from_a_revocation() -> None:
    assert set(STAGES[Stage.PENDING_REVOCATION].values()) == {Stage.PENDING_REVOCATION}


def test_what_may_be_given_out_and_fetched_follows_from_the_stage() -> None:
    may = {
        stage: (partition.open, partition.fetchable, partition.is_unwanted)
        for stage in Stage
        for partition in [partition_in(stage)]
    }

    assert may == {
        Stage.PENDING_CALLBACK: (False, True, False),
        Stage.OWNED: (True, True, False),
        Stage.PENDING_REVOCATION: (False, False, True),
    }


# -- where the log of a new leader leaves ours (KIP-320)


def a_partition_read(*steps: tuple[int, int], begin: Position) -> Partition:
    """It was read from `begin` on, in polls that ended at (offset, leader epoch)."""
    partition = Partition(TopicPartition("orders", 0), epoch=1)
    partition.move_to(begin)
    for offset, leader_epoch in steps:
        partition.advance(offset, leader_epoch)
    return partition


def at(offset: int, leader_epoch: int = -1) -> Position:
    return Position(offset=offset, leader_epoch=leader_epoch)


@pytest.mark.parametrize(
    ("end", "common"),
    [
        (at(10, 3), at(10, 3)),  # our last epoch ends before
        (at(20, 3), at(20, 3)),  # only what was fetched ahead is lost
        (at(25, 3), at(20, 3)),
        (at(25, 2), at(14, 2)),  # the leader has none of epoch 3, which we had from 14 on
        (at(16, 2), at(14, 2)),
        (at(12, 2), at(12, 2)),
        (at(25, 1), at(0, 1)),
        (None, None),
    ],
)
def test_reading_goes_on_after_the_last_record_that_both_logs_have(
    end: Position | None, common: Position | None
) -> None:
    partition = a_partition_read((14, 2), (20, 3), begin=at(0))

    assert partition.common_with(end) == common


def test_reading_goes_on_in_the_epoch_of_the_last_record_that_both_logs_have() -> None:
    """We had epochs 3 and 5, the leader has 3 and 4. The leader must be asked where 3 ended: it may
    have ended before the position."""
    partition = a_partition_read((40, 3), (50, 5), begin=at(0))

    assert partition.common_with(at(60, 4)) == at(40, 3)


def test_of_a_position_that_was_looked_up_nothing_before_it_was_read() -> None:
    """Its leader epoch may have been without records, so that the next leader does not know it."""
    partition = a_partition_read(begin=at(20, 5))

    assert partition.common_with(at(20, 3)) == at(20, 3)
    assert partition.common_with(at(25, 3)) == at(20, 3)
    assert partition.common_with(at(15, 3)) == at(15, 3)


def test_what_was_taken_back_was_not_read() -> None:
    partition = a_partition_read((14, 2), begin=at(0))
    before = partition.consumed
    partition.advance(20, 3)
    partition.take_back(before)

    assert partition.common_with(at(25, 2)) == at(14, 2)


def test_a_seek_forgets_what_was_read_before() -> None:
    partition = a_partition_read((14, 2), (20, 3), begin=at(0))
    partition.seek(2, at(18, 3))

    assert partition.common_with(at(25, 2)) == at(18, 2)


def test_a_seek_that_is_interrupted_on_any_line_leaves_no_epochs_of_another_position() -> None:
    for line in range(1, 40):
        partition = a_partition_read((14, 2), (20, 3), begin=at(0))
        with interrupted_at(line, Partition.move_to) as happened:
            partition.seek(2, at(100))
        partition.renew(3)
        if partition.offset == 100:
            assert partition.common_with(at(200, 1)) == at(100, -1)
        if not happened:
            return
    raise AssertionError("it runs more lines")


def test_of_what_is_dropped_no_leader_epoch_is_kept_either() -> None:
    """Reading goes on at the position. Records in the old formats have no leader epoch: with them
    it would move on as if it were in the epoch of records that were never given out."""
    partition = a_partition_read((14, 2), begin=at(0))
    partition.take_up_to(20, 3)

    partition.drop_buffered()

    assert (partition.taken, partition.taken_epoch) == (14, 2)
    partition.take_up_to(16, -1)
    assert (partition.taken, partition.taken_epoch) == (16, 2)


def test_only_so_many_epochs_are_remembered() -> None:
    partition = a_partition_read(*((epoch, epoch) for epoch in range(1, 1000)), begin=at(0))

    assert len(partition.epochs) <= EPOCHS_KEPT + 1
    assert partition.common_with(at(2000, 998)) == at(998, 998)


def test_what_is_not_subscribed_any_more_is_as_what_is_about_to_be_revoked() -> None:
    partition = partition_in(Stage.OWNED)

    partition.follow_subscription(subscribed=False)

    assert (partition.open, partition.fetchable, partition.is_unwanted) == (False, False, True)


def chunk(high_watermark: int, last_stable_offset: int) -> Chunk:
    return Chunk(
        partition=TopicPartition("orders", 0),
        epoch=1,
        offset=0,
        error=None,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )


def test_it_knows_since_when_it_is_paused_and_since_when_a_transaction_is_open() -> None:
    partition = partition_in(Stage.OWNED)
    partition.pause(10.0)
    partition.pause(15.0)
    for now, ends in ((20.0, (7, 7)), (30.0, (9, 7)), (40.0, (12, 7))):
        partition.receive(chunk(*ends), now)

    assert (partition.paused_at, partition.open_at) == (10.0, 30.0)

    partition.receive(chunk(12, 10), 50.0)
    assert partition.open_at == 50.0, "another transaction"
    partition.receive(chunk(12, 12), 60.0)
    assert partition.open_at == -math.inf


def test_it_knows_since_when_its_next_record_cannot_be_read_also_if_that_is_tried_again() -> None:
    partition = partition_in(Stage.OWNED)
    partition.move_to(Position(offset=5, leader_epoch=-1))
    partition.fail(ValueError("corrupt"), 10.0)
    partition.fetch_anew(epoch=2)
    partition.fail(ValueError("corrupt"), 12.0)
    assert partition.failed_at == 10.0

    partition.seek(3, Position(offset=5, leader_epoch=-1))
    assert partition.failed_at == -math.inf
    partition.fail(ValueError("corrupt"), 20.0)
    assert partition.failed_at == 20.0
