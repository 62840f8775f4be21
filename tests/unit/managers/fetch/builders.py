"""Somebody to talk to the fetch manager: the application, the metadata manager and the brokers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.fetching import Chunk, PausePartitions, RecordsFetched
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.metadata import (
    Broker,
    Cluster,
    ClusterChanged,
    PartitionInfo,
    RefreshMetadata,
    TopicInfo,
)
from aktor.events.network import Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    PositionsResolved,
    PositionsValidated,
    Reset,
    ResetPositions,
    SeekPartitions,
    Validated,
    ValidatePositions,
)
from aktor.events.present import FetchNow
from aktor.managers.fetch.manager import FetchManager
from aktor.protocol.fetch import (
    FetchedPartition,
    FetchResponse,
    NodeEndpoint,
)
from aktor.settings import Settings
from aktor.trace import recording

Partition = TopicPartition | int


KIB = 1024


def tp(partition: Partition) -> TopicPartition:
    """`orders-<n>`, unless it is a partition already."""
    return TopicPartition("orders", partition) if isinstance(partition, int) else partition


def a_batch(base_offset: int, records: int, *, size: int = 100, leader_epoch: int = 0) -> bytes:
    """A batch of which only the header is sound: nobody here looks at records."""
    last = records - 1
    header = struct.pack(">qiibIhiqqqhii", base_offset, size - 12, leader_epoch, 2, 0, 0, last,
                         0, 0, -1, -1, -1, records)  # fmt: skip
    return header + bytes(size - len(header))


def of(
    partition: Partition,
    records: bytes = b"",
    *,
    error_code: int = 0,
    high_watermark: int = 1000,
    current_leader: tuple[int, int] | None = None,
    preferred_read_replica: int = -1,
    aborted: tuple[tuple[int, int], ...] = (),
    diverging: tuple[int, int] | None = None,
    topic_id: UUID | None = None,
) -> FetchedPartition:
    """What a broker says of one partition; by its `topic_id` if it was asked for by it."""
    one = tp(partition)
    return FetchedPartition(
        topic=one.topic if topic_id is None else topic_id.bytes,
        partition=one.partition,
        error_code=error_code,
        high_watermark=-1 if error_code else high_watermark,
        last_stable_offset=-1 if error_code else high_watermark,
        log_start_offset=-1 if error_code else 0,
        aborted=aborted,
        diverging_epoch=diverging,
        current_leader=current_leader,
        preferred_read_replica=preferred_read_replica,
        records=memoryview(records),
    )


def a_cluster(
    leaders: Mapping[Partition, int | tuple[int, int]],
    *,
    brokers: Iterable[int] = (1, 2, 3),
    version: int = 1,
    ids: Mapping[str, UUID] | None = None,
) -> Cluster:
    """Partition -> leader, or (leader, its epoch); `ids` are those of the topics that have one."""
    topics: dict[str, dict[int, PartitionInfo]] = {}
    for partition, leader in leaders.items():
        one = tp(partition)
        node, epoch = leader if isinstance(leader, tuple) else (leader, 5)
        topics.setdefault(one.topic, {})[one.partition] = PartitionInfo(
            leader=node, leader_epoch=epoch
        )
    return Cluster(
        version=version,
        brokers={node: Broker(node_id=node, host=f"b{node}", port=9092) for node in brokers},
        topics={
            name: TopicInfo(topic_id=(ids or {}).get(name), partitions=partitions)
            for name, partitions in topics.items()
        },
    )


class FetchHarness:
    """A fetch manager and everybody around it, at a time that the test says."""

    def __init__(self, **settings: Any) -> None:
        trace, self.traced = recording()
        self.settings = Settings(**settings)
        self.manager = FetchManager(self.settings, trace=trace)
        self.now = 100.0
        self.wake_at = 0.0
        self.said: list[object] = []
        self.freed = 0
        self.paused: frozenset[TopicPartition] = frozenset()
        #: Whether the position manager finds at once that new leaders have what was read.
        self.validates = True
        self.leader_epoch = 0

    @classmethod
    def reading(
        cls,
        leaders: Mapping[Partition, Any],
        *,
        ids: Mapping[str, UUID] | None = None,
        **settings: Any,
    ) -> FetchHarness:
        """These partitions are assigned, each in epoch 1 at offset 0."""
        harness = cls(**settings)
        harness.cluster(leaders, ids=ids)
        harness.assign(dict.fromkeys(leaders, 0))
        return harness

    # -- the application and the other managers

    def tell(self, message: object) -> list[object]:
        """What the manager says to `message`; also kept in `said`."""
        said = self.manager.handle(message)
        self.said += said
        return said

    def cluster(self, leaders: Mapping[Partition, Any], **how: Any) -> None:
        cluster = a_cluster(leaders, **how)
        for topic in cluster.topics.values():
            for info in topic.partitions.values():
                self.leader_epoch = max(self.leader_epoch, info.leader_epoch)
        self.tell(ClusterChanged(cluster=cluster))

    def assign(
        self,
        offsets: Mapping[Partition, int | None],
        *,
        epoch: int = 1,
        by_group: bool = False,
        polled: bool = True,
    ) -> None:
        partitions = {tp(one): _assigned(epoch, offset) for one, offset in offsets.items()}
        self.tell(AssignmentChanged(partitions=partitions, by_group=by_group))
        if polled:
            self.consume({})

    def seek(self, partition: Partition, offset: int, *, epoch: int, ahead: bool = True) -> None:
        to = Assigned(epoch=epoch, position=Position(offset=offset), ahead=ahead)
        self.tell(SeekPartitions(partitions={tp(partition): to}))

    def reset(self, partition: Partition, *, epoch: int) -> None:
        self.tell(ResetPositions(partitions={tp(partition): Reset(epoch=epoch)}, because="test"))

    def resolve(self, partition: Partition, offset: int, *, epoch: int) -> None:
        self.tell(PositionsResolved(partitions={tp(partition): _assigned(epoch, offset)}))

    def pause(self, *partitions: Partition) -> None:
        """Exactly these are paused."""
        before, self.paused = self.paused, frozenset(map(tp, partitions))
        self.tell(PausePartitions(partitions=self.paused, resumed=before - self.paused))

    def consume(self, positions: Mapping[Partition, int], *, freed: int = 0) -> None:
        self.freed += freed
        self.tell(
            Poll(
                now=self.now,
                positions={
                    tp(one): OffsetAndMetadata(offset, "", -1) for one, offset in positions.items()
                },
                freed_bytes=self.freed,
            )
        )

    # -- time and brokers

    def tick(self, after: float = 0.0) -> list[Request]:
        """What the manager wants sent `after` so many seconds."""
        self.now += after
        said = self.manager.handle(Tick(now=self.now, jitter=0.5))
        (ticked,) = (one for one in said if isinstance(one, Ticked))
        self.said += [one for one in said if one is not ticked]
        self.wake_at = ticked.wake_at
        requests = list(ticked.requests)
        for one in said:
            if isinstance(one, ValidatePositions) and self.validates:
                self.validate(one)
                requests += self.tick()
        return requests

    def validate(self, asked: ValidatePositions) -> None:
        """The leaders have these positions."""
        partitions = {
            partition: Validated(epoch=assigned.epoch, leader_epoch=self.leader_epoch)
            for partition, assigned in asked.partitions.items()
        }
        self.tell(PositionsValidated(partitions=partitions))

    def the_request(self, after: float = 0.0) -> Request:
        """The one request that the manager wants sent."""
        (request,) = self.tick(after)
        return request

    def answer(
        self,
        request: Request,
        *partitions: FetchedPartition,
        error_code: int = 0,
        session_id: int = 77,
        endpoints: Iterable[NodeEndpoint] = (),
        after: float = 0.0,
    ) -> list[object]:
        """The broker answers; returns what the manager says."""
        self.now += after
        for one in partitions:
            if one.current_leader is not None:
                self.leader_epoch = max(self.leader_epoch, one.current_leader[1])
        response = FetchResponse(
            throttle_time_ms=0,
            error_code=error_code,
            session_id=session_id,
            partitions=partitions,
            node_endpoints=tuple(endpoints),
        )
        return self.tell(
            ResponseReceived(
                request=request, response=response, node=request.to, now=self.now, jitter=0.5
            )
        )

    def fail(self, request: Request, error: Exception, after: float = 0.0) -> list[object]:
        """The request gets no answer."""
        self.now += after
        return self.tell(
            RequestFailed(request=request, error=error, node=request.to, now=self.now, jitter=0.5)
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was traced under this name."""
        return [event for event in self.traced if event["event"] == name]


def _assigned(epoch: int, offset: int | None) -> Assigned:
    return Assigned(epoch=epoch, position=None if offset is None else Position(offset=offset))


def offsets(request: Request) -> dict[int, int]:
    """Partition -> offset, as the request says it on the wire."""
    return {
        one.partition: one.fetch_offset for topic in request.body.topics for one in topic.partitions
    }


def forgotten(request: Request) -> set[int]:
    """The partitions that the broker is told to forget."""
    return {one for topic in request.body.forgotten_topics_data for one in topic.partitions}


def chunks(said: Iterable[object]) -> list[Chunk]:
    """The chunks among what was said."""
    return [chunk for one in said if isinstance(one, RecordsFetched) for chunk in one.chunks]


def refreshes(said: list[object]) -> list[RefreshMetadata]:
    return [one for one in said if isinstance(one, RefreshMetadata)]


def shown_late(harness: FetchHarness) -> dict[int, float]:
    """Who owes an answer, by what `status()` is made of."""
    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, FetchNow)
    return dict(shown.late)
