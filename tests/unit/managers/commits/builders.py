"""Builders for the tests of the coordinator and commit managers: all that is irrelevant there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import OffsetCommitResponse, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.manager import RequestManager
from aktor.errors import AuthenticationError
from aktor.events.answers import Failed
from aktor.events.commits import (
    CommitBeforeRevocation,
    CommitOffsets,
    FetchCommittedOffsets,
    FindStartingOffsets,
    OffsetsCommitted,
)
from aktor.events.coordinator import CoordinatorFound, CoordinatorLost
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.membership import ConfirmSession, MemberChanged, MemberState
from aktor.events.metadata import Broker, Cluster, ClusterChanged, TopicInfo
from aktor.events.network import Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import Assigned, AssignmentChanged
from aktor.managers.commits.manager import CommitManager
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import replace

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
T2 = TopicPartition("t", 2)
U0 = TopicPartition("u", 0)

#: Error codes of the protocol.
UNKNOWN_TOPIC = 3
REQUEST_TIMED_OUT = 7
METADATA_TOO_LARGE = 12
LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
FENCED_INSTANCE_ID = 82
UNSTABLE_OFFSET_COMMIT = 88
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100
STALE_MEMBER_EPOCH = 113


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


def tick(manager: RequestManager, now: float) -> Turn:
    """It is `now`."""
    said = manager.handle(Tick(now=now, jitter=0.5))
    (ticked,) = (one for one in said if isinstance(one, Ticked))
    return Turn(ticked.requests, ticked.wake_at, [one for one in said if one is not ticked])


def answer(
    manager: RequestManager, request: Request, response: Any, now: float = 0.0
) -> list[object]:
    """A broker answers, in the encoding of the response's version. What is said, but for what is
    said of stored offsets to listeners to come."""
    said = said_to_all(manager, request, response, now)
    return [one for one in said if not isinstance(one, OffsetsCommitted)]


def said_to_all(
    manager: RequestManager, request: Request, response: Any, now: float = 0.0
) -> list[object]:
    """As `answer`: all that is said."""
    return manager.handle(
        ResponseReceived(request=request, response=decoded(response), node=1, now=now, jitter=0.5)
    )


def decoded(response: Any) -> Any:
    """The response as it is read from the connection."""
    return type(response).decode(response.encode(), version=response.API_VERSION)


def fail(
    manager: RequestManager,
    request: Request,
    error: Exception,
    now: float = 0.0,
    *,
    was_sent: bool = True,
) -> list[object]:
    """No answer comes."""
    failed = RequestFailed(
        request=request, error=error, node=1, now=now, jitter=0.5, was_sent=was_sent
    )
    return manager.handle(failed)


# -- managers and what they are told


def found(node: int = 1) -> CoordinatorFound:
    """The coordinator is this node."""
    return CoordinatorFound(broker=Broker(node_id=node, host=f"b{node}", port=9092))


def member(
    generation: int, state: MemberState | None = None, *, is_revoking: bool = False
) -> MemberChanged:
    """We are a stable member of this generation; -1 is none."""
    if generation < 0:
        return MemberChanged(
            member_id="", generation=generation, state=state or MemberState.UNJOINED
        )
    return MemberChanged(
        member_id="m",
        generation=generation,
        state=state or MemberState.STABLE,
        is_revoking=is_revoking,
    )


def member_848(epoch: int, state: MemberState = MemberState.STABLE, **ids: int) -> MemberChanged:
    """We are a member of a KIP-848 group with this epoch; -1 is none. `ids`: of what it owns."""
    given = {name: UUID(int=number) for name, number in ids.items()}
    return replace(member(epoch, state), protocol="consumer", topic_ids=given)


def uuids(**ids: int) -> dict[str, UUID]:
    """The ids of these topics."""
    return {name: UUID(int=number) for name, number in ids.items()}


def without(*missing: str, **ids: int | None) -> ClusterChanged:
    """As `topics`; the brokers do not know the `missing` ones, which are looked for."""
    changed = topics(**ids)
    return ClusterChanged(cluster=replace(changed.cluster, unknown=frozenset(missing)))


def topics(**ids: int | None) -> ClusterChanged:
    """These topics exist, under these ids; None: of a broker that does not tell any."""
    known = {
        name: TopicInfo(topic_id=None if number is None else UUID(int=number), partitions={})
        for name, number in ids.items()
    }
    return ClusterChanged(cluster=Cluster(topics=known))


def assigned(*partitions: TopicPartition, by_group: bool = True) -> AssignmentChanged:
    """Exactly these."""
    return AssignmentChanged(
        partitions={one: Assigned(epoch=1) for one in partitions}, by_group=by_group
    )


def committing(
    *partitions: TopicPartition,
    generation: int | None = 5,
    node: int | None = 1,
    trace: Trace | None = None,
    **settings: Any,
) -> CommitManager:
    """A commit manager that knows its coordinator, with this assignment of this generation.

    Generation None is a manual assignment, node None an unknown coordinator. It does not commit
    automatically unless told so.
    """
    settings.setdefault("enable_auto_commit", False)
    manager = CommitManager(Settings(group_id="g", **settings), trace=trace)
    if node is not None:
        manager.handle(found(node))
    if generation is not None:
        manager.handle(member(generation))
    manager.handle(assigned(*partitions, by_group=generation is not None))
    return manager


def offsets(values: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets without metadata and leader epoch."""
    return {one: OffsetAndMetadata(value, "", -1) for one, value in values.items()}


def commit(
    values: Mapping[TopicPartition, int], *, ticket: int = 1, deadline: float = 60.0
) -> CommitOffsets:
    """`commit`: retried until the deadline."""
    return CommitOffsets(ticket=ticket, offsets=offsets(values), deadline=deadline, retry=True)


def commit_async(values: Mapping[TopicPartition, int], *, ticket: int = 1) -> CommitOffsets:
    """`commit_async`: one attempt, no deadline."""
    return CommitOffsets(ticket=ticket, offsets=offsets(values), deadline=float("inf"), retry=False)


def before_revocation(
    values: Mapping[TopicPartition, int], *, rebalance: int = 7, deadline: float = 60.0
) -> CommitBeforeRevocation:
    """These partitions are about to be given away."""
    return CommitBeforeRevocation(rebalance=rebalance, offsets=offsets(values), deadline=deadline)


def fetch(
    *partitions: TopicPartition, ticket: int = 1, deadline: float = 60.0
) -> FetchCommittedOffsets:
    """`committed`."""
    return FetchCommittedOffsets(ticket=ticket, partitions=frozenset(partitions), deadline=deadline)


def polled(now: float, values: Mapping[TopicPartition, int] | None = None) -> Poll:
    """The application polls, having consumed up to these offsets."""
    return Poll(now=now, positions=offsets(values or {}), freed_bytes=0)


# -- responses


def coordinator_is(node: int, *, version: int = 4, group: str = "g", host: str = "") -> Any:
    """FindCoordinator's answer."""
    where = {"node_id": node, "host": host or f"b{node}", "port": 9092, "error_code": 0}
    if version < 4:
        return FindCoordinatorResponse(version=version, error_message=None, **where)
    one = FindCoordinatorResponse.Coordinator(key=group, error_message=None, **where)
    return FindCoordinatorResponse(version=version, coordinators=[one])


def no_coordinator(code: int, *, version: int = 4, group: str = "g") -> Any:
    """FindCoordinator's refusal."""
    what = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": "no"}
    if version < 4:
        return FindCoordinatorResponse(version=version, **what)
    one = FindCoordinatorResponse.Coordinator(key=group, **what)
    return FindCoordinatorResponse(version=version, coordinators=[one])


def committed(
    request: Request, codes: Mapping[TopicPartition, int] | int = 0, *, version: int = 8
) -> Any:
    """OffsetCommit's answer to this request: one code for all, or by partition (others 0)."""
    topic_type = OffsetCommitResponse.OffsetCommitResponseTopic
    partition_type = topic_type.OffsetCommitResponsePartition

    def code(topic: str, number: int) -> int:
        return codes if isinstance(codes, int) else codes.get(TopicPartition(topic, number), 0)

    return OffsetCommitResponse(
        version=version,
        topics=[
            topic_type(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    partition_type(
                        partition_index=one.partition_index,
                        error_code=code(topic.name, one.partition_index),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.body.topics
        ],
    )


def fetched(
    values: Mapping[TopicPartition, int | OffsetAndMetadata],
    *,
    codes: Mapping[TopicPartition, int] | None = None,
    group_code: int = 0,
    version: int = 8,
    group: str = "g",
    ids: Mapping[str, int] | None = None,
) -> Any:
    """OffsetFetch's answer: offsets (-1 is none) and codes by partition, or one for the group.

    From version 10 on it names topics by their `ids`.
    """
    group_type = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_type: Any = group_type.OffsetFetchResponseTopics
    partition_type = topic_type.OffsetFetchResponsePartitions
    if version < 8:
        topic_type = OffsetFetchResponse.OffsetFetchResponseTopic
        partition_type = topic_type.OffsetFetchResponsePartition

    partitions: dict[str, list[Any]] = {}
    for one in sorted({*values, *(codes or {})}):
        value = values.get(one, -1)
        if isinstance(value, int):
            value = OffsetAndMetadata(value, "", -1)
        partitions.setdefault(one.topic, []).append(
            partition_type(
                partition_index=one.partition,
                committed_offset=value.offset,
                committed_leader_epoch=value.leader_epoch,
                metadata=value.metadata,
                error_code=(codes or {}).get(one, 0),
            )
        )
    topics = [topic_type(name=name, partitions=those) for name, those in partitions.items()]
    if version < 8:
        return OffsetFetchResponse(version=version, error_code=group_code, topics=topics)
    for one in topics:
        one.topic_id = UUID(int=(ids or {}).get(one.name, 0))
    ours = group_type(group_id=group, error_code=group_code, topics=topics)
    return OffsetFetchResponse(version=version, groups=[ours])


# -- what was asked


def asked_to_commit(request: Request) -> dict[TopicPartition, int]:
    """The offsets of an OffsetCommit."""
    return {
        TopicPartition(topic.name, one.partition_index): one.committed_offset
        for topic in request.body.topics
        for one in topic.partitions
    }


def asked_to_fetch(request: Request) -> set[TopicPartition]:
    """The partitions of an OffsetFetch."""
    (group,) = request.body.groups
    return {
        TopicPartition(topic.name, number)
        for topic in group.topics
        for number in topic.partition_indexes
    }


def at_every_version(body: Any, versions: range) -> list[Any]:
    """The request as a broker of each of these versions reads it."""
    return [type(body).decode(body.encode(version=one), version=one) for one in versions]


LOST = CoordinatorLost(because="it is silent")

BAD_CREDENTIALS = AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no")


def find(*partitions: TopicPartition) -> FindStartingOffsets:
    return FindStartingOffsets(partitions=frozenset(partitions))


def succeed(manager: CommitManager, turn: Turn, now: float = 0.0) -> list[object]:
    """The broker stores what this turn asked for."""
    return answer(manager, turn.request, committed(turn.request), now=now)


def error_of(said: list[object]) -> Exception:
    """The error of the only answer; the group may be asked about us besides."""
    (failed,) = (one for one in said if not isinstance(one, ConfirmSession))
    assert isinstance(failed, Failed)
    return failed.error


def auto(*partitions: TopicPartition, **kwargs: Any) -> CommitManager:
    """A commit manager whose auto-commit timer runs since 0 and has an interval of 5 s."""
    manager = committing(*partitions, **{"enable_auto_commit": True, **kwargs})
    manager.handle(polled(0.0))
    tick(manager, 0.0)
    return manager


REBALANCING = member(5, MemberState.REBALANCING)
