"""A position manager, what it is told, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.commits import StartingOffsetsFound
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    PositionsFailed,
    PositionsResolved,
)
from aktor.managers.positions.manager import PositionManager
from aktor.settings import Settings
from aktor.trace import Trace
from tests.unit.managers.builders_positions import a_cluster


def a_manager(*, knows: Any = None, trace: Trace | None = None, **settings: Any) -> PositionManager:
    """A manager of a group member that knows the cluster; with jitter 0.5 backoffs are nominal."""
    manager = PositionManager(Settings(**{"group_id": "g", **settings}), trace=trace)
    manager.handle(a_cluster() if knows is None else knows)
    return manager


def assign(manager: PositionManager, *partitions: TopicPartition, epoch: int = 1) -> list[object]:
    """Exactly these are assigned, all in one epoch, without a position."""
    return manager.handle(
        AssignmentChanged(partitions={tp: Assigned(epoch=epoch) for tp in partitions})
    )


def commits_say(
    manager: PositionManager, found: Mapping[TopicPartition, int | None]
) -> list[object]:
    """The commit manager has found these committed offsets (leader epoch 3)."""
    return manager.handle(
        StartingOffsetsFound(
            offsets={
                tp: None if offset is None else OffsetAndMetadata(offset, "", 3)
                for tp, offset in found.items()
            }
        )
    )


def a_manager_resetting(*partitions: TopicPartition, **settings: Any) -> PositionManager:
    """A manager of these partitions, none of which has a committed offset."""
    manager = a_manager(**settings)
    assign(manager, *partitions)
    commits_say(manager, dict.fromkeys(partitions))
    return manager


def resolved_in(said: list[object]) -> dict[TopicPartition, Assigned]:
    """All positions that were told."""
    return {
        tp: one
        for message in said
        if isinstance(message, PositionsResolved)
        for tp, one in message.partitions.items()
    }


def failure_in(said: list[object]) -> PositionsFailed:
    """The one failure that was told."""
    (failure,) = (one for one in said if isinstance(one, PositionsFailed))
    return failure


def at(offset: int, *, leader_epoch: int = 5, epoch: int = 1) -> Assigned:
    return Assigned(epoch=epoch, position=Position(offset=offset, leader_epoch=leader_epoch))
