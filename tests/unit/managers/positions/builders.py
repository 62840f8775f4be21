"""A position manager, what it is told and answered, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.commits import StartingOffsetsFound
from aktor.events.metadata import Broker, Cluster, ClusterChanged, PartitionInfo, TopicInfo
from aktor.events.network import Request
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
from tests.unit.managers.builders import T0, T1, T2, topic_id


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


def a_cluster(
    leaders: Mapping[TopicPartition, tuple[int, int]] | None = None, version: int = 1
) -> ClusterChanged:
    """A snapshot in which these lead; by default broker 1 leads t-0, t-1 and t-2 in epoch 5."""
    if leaders is None:
        leaders = {T0: (1, 5), T1: (1, 5), T2: (1, 5)}
    topics: dict[str, dict[int, PartitionInfo]] = {}
    for tp, (leader, epoch) in leaders.items():
        info = PartitionInfo(leader=leader, leader_epoch=epoch)
        topics.setdefault(tp.topic, {})[tp.partition] = info
    return ClusterChanged(
        cluster=Cluster(
            version=version,
            brokers={n: Broker(node_id=n, host=f"b{n}", port=9092) for n in (1, 2, 3)},
            topics={
                name: TopicInfo(topic_id=topic_id(1), partitions=found)
                for name, found in topics.items()
            },
        )
    )


def offsets(
    found: Mapping[TopicPartition, int | tuple[int, int] | None] | None = None,
    *,
    errors: Mapping[TopicPartition, int] | None = None,
    leader_epoch: int = 5,
    version: int = 10,
) -> Any:
    """A ListOffsets answer: {partition: offset, or (offset, timestamp), or None for none}."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    topics: dict[str, list[Any]] = {}
    for tp, one in (found or {}).items():
        offset, timestamp = one if isinstance(one, tuple) else (-1 if one is None else one, -1)
        topics.setdefault(tp.topic, []).append(
            kind.ListOffsetsPartitionResponse(
                partition_index=tp.partition,
                error_code=0,
                timestamp=timestamp,
                offset=offset,
                leader_epoch=leader_epoch if one is not None else -1,
            )
        )
    for tp, code in (errors or {}).items():
        topics.setdefault(tp.topic, []).append(
            kind.ListOffsetsPartitionResponse(
                partition_index=tp.partition,
                error_code=code,
                timestamp=-1,
                offset=-1,
                leader_epoch=-1,
            )
        )
    response = ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[kind(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    return ListOffsetsResponse.decode(response.encode(version=version), version=version)


def epochs(
    found: Mapping[TopicPartition, tuple[int, int]],
    *,
    errors: Mapping[TopicPartition, int] | None = None,
    version: int = 4,
) -> Any:
    """An OffsetForLeaderEpoch answer: {partition: (epoch, its end offset)}."""
    kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    topics: dict[str, list[Any]] = {}
    for tp in (*found, *(errors or {})):
        epoch, end = found.get(tp, (-1, -1))
        topics.setdefault(tp.topic, []).append(
            kind.EpochEndOffset(
                partition=tp.partition,
                error_code=(errors or {}).get(tp, 0),
                leader_epoch=epoch,
                end_offset=end,
            )
        )
    response = OffsetForLeaderEpochResponse(
        throttle_time_ms=0,
        topics=[kind(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )
    encoded = response.encode(version=version)
    return OffsetForLeaderEpochResponse.decode(encoded, version=version)


def asked_of(request: Request) -> dict[TopicPartition, int]:
    """Which timestamps a ListOffsets request asks for."""
    return {
        TopicPartition(topic.name, one.partition_index): one.timestamp
        for topic in request.body.topics
        for one in topic.partitions
    }
