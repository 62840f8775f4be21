"""Builders for the tests of the metadata and the position manager: all that is irrelevant there."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse
from kafka.protocol.metadata import MetadataResponse
from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import RequestManager
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.metadata import Broker, Cluster, ClusterChanged, PartitionInfo, TopicInfo
from aktor.events.network import Request, RequestFailed, ResponseReceived

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
T2 = TopicPartition("t", 2)

#: Error codes of the protocol.
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
OFFSET_NOT_AVAILABLE = 78


@dataclass(frozen=True)
class Turn:
    """What a tick led to."""

    requests: tuple[Request, ...]
    wake_at: float
    said: list[object]

    @property
    def request(self) -> Request:
        """The only request."""
        (one,) = self.requests
        return one


def tick(manager: RequestManager, now: float, wall: float = 0.0) -> Turn:
    """It is `now`, `wall` seconds after the epoch."""
    said = manager.handle(Tick(now=now, jitter=0.5, wall=wall))
    (ticked,) = (one for one in said if isinstance(one, Ticked))
    return Turn(ticked.requests, ticked.wake_at, [one for one in said if one is not ticked])


def answer(
    manager: RequestManager, request: Request, response: Any, now: float = 0.0
) -> list[object]:
    """A broker answers."""
    return manager.handle(
        ResponseReceived(request=request, response=response, node=1, now=now, jitter=0.5)
    )


def fail(
    manager: RequestManager, request: Request, error: Exception, now: float = 0.0
) -> list[object]:
    """No broker answers."""
    return manager.handle(RequestFailed(request=request, error=error, node=1, now=now, jitter=0.5))


# -- metadata


def topic_id(number: int) -> uuid.UUID:
    """A topic's id."""
    return uuid.UUID(int=number)


def a_topic(
    name: str = "t",
    leaders: Mapping[int, tuple[int, int]] | None = None,
    *,
    error: int = 0,
    id_number: int = 1,
    internal: bool = False,
) -> Any:
    """A topic in a Metadata answer; `leaders` is {partition: (leader, leader epoch)}."""
    if leaders is None:
        leaders = {0: (1, 5)} if error == 0 else {}
    kind = MetadataResponse.MetadataResponseTopic
    return kind(
        error_code=error,
        name=name,
        topic_id=topic_id(id_number) if error == 0 else None,
        is_internal=internal,
        partitions=[
            kind.MetadataResponsePartition(
                error_code=0 if leader >= 0 else LEADER_NOT_AVAILABLE,
                partition_index=partition,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1, 2],
                offline_replicas=[],
            )
            for partition, (leader, epoch) in leaders.items()
        ],
    )


def metadata(
    *topics: Any, brokers: tuple[int, ...] = (1, 2), cluster_id: str = "c", version: int = 13
) -> Any:
    """A Metadata answer, as it comes off the wire in this version."""
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node, host=f"b{node}", port=9092, rack=None
            )
            for node in brokers
        ],
        cluster_id=cluster_id,
        controller_id=1,
        topics=list(topics),
    )
    return MetadataResponse.decode(response.encode(version=version), version=version)


# -- positions


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
