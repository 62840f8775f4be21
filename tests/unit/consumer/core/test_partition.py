"""The table of a partition's stages: whether its records may be given out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.core.partition import STAGES, Partition, Stage, StageEvent

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
        stage: (partition.open, partition.fetchable, partition.pending_revocation)
        for stage in Stage
        for partition in [partition_in(stage)]
    }

    assert may == {
        Stage.PENDING_CALLBACK: (False, True, False),
        Stage.OWNED: (True, True, False),
        Stage.PENDING_REVOCATION: (False, False, True),
    }
