"""A scripted Kafka cluster: brokers, topics, groups, and faults that a test asks for.

    cluster.create_topic("orders", partitions=4)
    cluster.produce("orders", 0, b"a", b"b")
    cluster.fail_next("OffsetCommit", NotCoordinatorError, times=2)
    cluster.drop_next("Heartbeat")            # no answer: the client has to notice
    cluster.down(1)                           # leaders and coordinators move to the others

Answers are kafka-python's response objects (for Fetch ours, as `KafkaNet` has them). They come
from `handle`, through `reply`, at once or later; latency is the net's business.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from kafka.errors import (
    CoordinatorNotAvailableError,
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListOffsetsResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from aktor.protocol.consumer_group import ConsumerGroupHeartbeatResponse
from aktor.protocol.fetch import FetchedPartition, FetchResponse
from tests.scenarios.group import Group, Reply, Timeline
from tests.scenarios.log import Log

PORT = 9092

#: A Fetch that wants more bytes than this is kept for `max_wait_ms`: no test writes so many.
MIN_BYTES = 10_000

#: APIs that only the coordinator of the group answers.
OF_THE_GROUP = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"}
)


class Cluster:
    """Owns everything that brokers know."""

    def __init__(self, time: Timeline, *, brokers: int = 3) -> None:
        self.time = time
        self.up = dict.fromkeys(range(1, brokers + 1), True)
        self.topics: dict[str, dict[int, Log]] = {}
        self.forbidden: set[str] = set()
        #: Topics that Metadata answers with these error codes.
        self.unwell: dict[str, int] = {}
        self.sessions = True
        #: Whether a refused Fetch names the leader (KIP-951).
        self.names_leaders = False
        #: Whether a Fetch is answered with a diverging epoch (KIP-595; since Fetch v12).
        self.tells_divergence = True
        #: At which host each broker says that it is; "b<n>" leads to broker n in any case.
        self.advertised = {node: f"b{node}" for node in self.up}
        #: Hosts that cannot be reached, and what an attempt ends in (None: in nothing).
        self.unreachable: dict[str, str | None] = {}
        #: APIs of which the brokers speak no version that a client would.
        self.too_old_for: set[str] = set()
        #: How often each API was asked, by name.
        self.asked: Counter[str] = Counter()
        #: Called with the node that goes down, to cut its connections.
        self.on_down: list[Callable[[int], None]] = []
        self._ids: dict[str, uuid.UUID] = {}
        self._groups: dict[str, Group] = {}
        self._coordinators: dict[str, int] = {}
        self._faults: dict[str, deque[Any]] = {}
        self._waiting: list[_WaitingFetch] = []
        self._fetch_sessions: dict[int, _FetchSession] = {}

    def node_at(self, host: str) -> int:
        """Which broker this host is."""
        for node, name in self.advertised.items():
            if name == host:
                return node
        return int(host.removeprefix("b"))

    # -- what a test does

    def create_topic(self, topic: str, *, partitions: int = 1) -> None:
        """Create it, or add partitions until it has so many."""
        logs = self.topics.setdefault(topic, {})
        self._ids.setdefault(topic, uuid.UUID(int=len(self._ids) + 1))
        nodes = list(self.up)
        for partition in range(len(logs), partitions):
            logs[partition] = Log(leader=nodes[partition % len(nodes)])

    def produce(self, topic: str, partition: int, *values: bytes) -> None:
        """Append one batch."""
        self.topics[topic][partition].append(values)
        self._answer_waiting_fetches()

    def fill(self, topic: str, count: int, *, batch: int = 10) -> None:
        """`count` records in each partition, in batches; the values are "partition:offset"."""
        for partition, log in self.topics[topic].items():
            for begin in range(0, count, batch):
                offsets = range(log.end, log.end + min(batch, count - begin))
                log.append([f"{partition}:{offset}".encode() for offset in offsets])
        self._answer_waiting_fetches()

    def log(self, topic: str, partition: int) -> Log:
        """The log of one partition."""
        return self.topics[topic][partition]

    def group(self, name: str) -> Group:
        """The group, as its coordinator has it."""
        if name not in self._groups:
            self._groups[name] = Group(name, self.time)
        return self._groups[name]

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """The group's committed offset, None if there is none."""
        found = self.group(group).offsets.get((topic, partition))
        return None if found is None else found[0]

    def fail_next(self, api: str, error: Any, *, times: int = 1) -> None:
        """Refuse the next requests of this API with this error."""
        self._faults.setdefault(api, deque()).extend([error] * times)

    def drop_next(self, api: str, *, times: int = 1) -> None:
        """Do not answer the next requests of this API, and nothing behind them either."""
        self.fail_next(api, None, times=times)

    def answer(self, api: str) -> None:
        """Requests of this API are answered from now on."""
        self._faults.pop(api, None)

    def expire(self, group: str, member_id: str) -> None:
        """The coordinator has not heard of this member for too long."""
        self.group(group).remove(member_id)

    def move_coordinator(self, group: str) -> int:
        """Another broker looks after the group from now on; returns which."""
        alive = [node for node, up in self.up.items() if up]
        before = self.coordinator(group)
        after = alive[(alive.index(before) + 1) % len(alive)] if before in alive else alive[0]
        self._coordinators[group] = after
        self.group(group).load()
        return after

    def coordinator(self, group: str) -> int:
        """Which broker looks after the group."""
        return self._coordinators.setdefault(group, next(iter(self.up)))

    def down(self, *nodes: int) -> None:
        """These brokers are gone; their partitions and groups move, if anybody is left."""
        for node in nodes:
            self.up[node] = False
        alive = [node for node, up in self.up.items() if up]
        for logs in self.topics.values():
            for log in logs.values():
                if log.leader in nodes and alive:
                    log.lead(alive[log.leader % len(alive)])
        for group, node in list(self._coordinators.items()):
            if node in nodes and alive:
                self.move_coordinator(group)
        self._fetch_sessions.clear()
        self._waiting.clear()
        for node in nodes:
            for cut in self.on_down:
                cut(node)

    def back(self, *nodes: int) -> None:
        """These brokers are there again."""
        for node in nodes:
            self.up[node] = True

    def move_leader(self, topic: str, partition: int) -> None:
        """Another broker leads this partition."""
        log = self.log(topic, partition)
        alive = [node for node, up in self.up.items() if up and node != log.leader]
        log.lead(alive[0])
        self._answer_waiting_fetches()

    def elect_uncleanly(self, topic: str, partition: int, to: int, *values: bytes) -> None:
        """Another broker leads that has the log up to offset `to`; `values` are written to it."""
        log = self.log(topic, partition)
        log.truncate(to)
        log.lead(next(node for node, up in self.up.items() if up and node != log.leader))
        if values:
            log.append(values)
        self._answer_waiting_fetches()

    # -- what a client asks

    def handle(self, node: int, body: Any, client_id: str, reply: Reply) -> None:
        """Answer one request that came to this broker."""
        api = type(body).name.removesuffix("Request")
        self.asked[api] += 1
        faults = self._faults.get(api)
        if faults:
            error = faults.popleft()
            if error is not None:
                reply(_refusal(api, body, error.errno))
            return
        if api in OF_THE_GROUP and self._group_moved(node, body):
            reply(_refusal(api, body, NotCoordinatorError.errno))
            return
        match api:
            case "Metadata":
                reply(self._metadata(body))
            case "FindCoordinator":
                reply(self._find_coordinator(body))
            case "ListOffsets":
                reply(self._list_offsets(node, body))
            case "OffsetForLeaderEpoch":
                reply(self._offset_for_leader_epoch(node, body))
            case "Fetch":
                self._fetch(node, body, reply)
            case "OffsetCommit":
                reply(self._offset_commit(body))
            case "OffsetFetch":
                reply(self._offset_fetch(body))
            case "JoinGroup":
                self.group(body.group_id).join(body, client_id, reply)
            case "SyncGroup":
                self.group(body.group_id).sync(body, reply)
            case "Heartbeat":
                self.group(body.group_id).heartbeat(body, reply)
            case "LeaveGroup":
                self.group(body.group_id).leave(body, reply)
            case "ConsumerGroupHeartbeat":  # its groups are classic
                reply(ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersionError.errno))
            case _:
                raise AssertionError(f"the scripted cluster does not speak {api}")

    def _group_moved(self, node: int, body: Any) -> bool:
        names = [body.group_id] if body.group_id else [one.group_id for one in body.groups]
        return any(self.coordinator(name) != node for name in names)

    # -- metadata

    def _metadata(self, body: Any) -> Any:
        wanted = body.topics
        names = list(self.topics) if wanted is None else [one.name for one in wanted]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    node_id=node, host=self.advertised[node], port=PORT, rack=None
                )
                for node, up in self.up.items()
                if up
            ],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._topic(name) for name in names],
            error_code=0,
        )

    def _topic(self, name: str) -> Any:
        error = 0
        if name in self.unwell:
            error = self.unwell[name]
        elif name in self.forbidden:
            error = TopicAuthorizationFailedError.errno
        elif name not in self.topics:
            error = UnknownTopicOrPartitionError.errno
        kind = MetadataResponse.MetadataResponseTopic
        return kind(
            error_code=error,
            name=name,
            topic_id=None if error else self._ids[name],
            is_internal=name == "__consumer_offsets",
            partitions=[
                kind.MetadataResponsePartition(
                    error_code=0,
                    partition_index=partition,
                    leader_id=log.leader,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=list(self.up),
                    isr_nodes=list(self.up),
                    offline_replicas=[],
                )
                for partition, log in (() if error else self.topics[name].items())
            ],
        )

    def _find_coordinator(self, body: Any) -> Any:
        (group,) = body.coordinator_keys
        node = self.coordinator(group)
        if not self.up[node]:
            return _refusal("FindCoordinator", body, CoordinatorNotAvailableError.errno)
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[
                FindCoordinatorResponse.Coordinator(
                    key=group,
                    node_id=node,
                    host=self.advertised[node],
                    port=PORT,
                    error_code=0,
                    error_message=None,
                )
            ],
        )

    # -- offsets

    def _list_offsets(self, node: int, body: Any) -> Any:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in body.topics:
            partitions = []
            for one in topic.partitions:
                error = self._refusal_of(node, topic.name, one.partition_index)
                offset = timestamp = epoch = -1
                if not error:
                    log = self.log(topic.name, one.partition_index)
                    offset, timestamp = log.offset_at(one.timestamp)
                    epoch = log.leader_epoch
                partitions.append(
                    kind.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=error,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(kind(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _offset_for_leader_epoch(self, node: int, body: Any) -> Any:
        kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for topic in body.topics:
            partitions = []
            for one in topic.partitions:
                error = self._refusal_of(node, topic.topic, one.partition)
                epoch = end = -1
                if not error:
                    epoch, end = self.log(topic.topic, one.partition).end_of(one.leader_epoch)
                partitions.append(
                    kind.EpochEndOffset(
                        partition=one.partition,
                        error_code=error,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(kind(topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def _refusal_of(self, node: int, topic: str, partition: int) -> int:
        """The error code that this broker has for this partition, 0 if it leads it."""
        error: Any = None
        if topic in self.forbidden:
            error = TopicAuthorizationFailedError
        elif partition not in self.topics.get(topic, {}):
            error = UnknownTopicOrPartitionError
        elif self.log(topic, partition).leader != node:
            error = NotLeaderForPartitionError
        return 0 if error is None else int(error.errno)

    def _offset_commit(self, body: Any) -> Any:
        group = self.group(body.group_id)
        error = group.may_commit(body.member_id, body.generation_id_or_member_epoch)
        code = 0 if error is None else error.errno
        if code == 0:
            for topic in body.topics:
                for one in topic.partitions:
                    group.commit(
                        body.member_id,
                        (topic.name, one.partition_index),
                        (one.committed_offset, one.committed_leader_epoch, one.committed_metadata),
                    )
        return _refusal("OffsetCommit", body, code)

    def _offset_fetch(self, body: Any) -> Any:
        kind = OffsetFetchResponse.OffsetFetchResponseGroup
        topic_kind = kind.OffsetFetchResponseTopics
        groups = []
        for asked in body.groups:
            offsets = self.group(asked.group_id).offsets
            topics = []
            for topic in asked.topics:
                partitions = []
                for index in topic.partition_indexes:
                    offset, epoch, metadata = offsets.get((topic.name, index), (-1, -1, ""))
                    partitions.append(
                        topic_kind.OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            metadata=metadata,
                            error_code=0,
                        )
                    )
                topics.append(topic_kind(name=topic.name, partitions=partitions))
            groups.append(kind(group_id=asked.group_id, topics=topics, error_code=0))
        return OffsetFetchResponse(throttle_time_ms=0, groups=groups)

    # -- fetching

    def _fetch(self, node: int, body: Any, reply: Reply) -> None:
        session, error = self._fetch_session(body)
        if error:
            reply(_refusal("Fetch", body, error))
            return
        waiting = _WaitingFetch(node, body, session, reply)
        if body.max_wait_ms and not self._has_news(waiting):
            self._waiting.append(waiting)
            self.time.after(body.max_wait_ms / 1000, lambda: self._answer_fetch(waiting))
        else:
            reply(self._fetched(waiting))

    def _fetch_session(self, body: Any) -> tuple[_FetchSession, int]:
        wanted = {
            (self._name(topic), one.partition): (
                one.fetch_offset,
                one.partition_max_bytes,
                one.last_fetched_epoch if self.tells_divergence else -1,
            )
            for topic in body.topics
            for one in topic.partitions
        }
        if body.session_epoch <= 0 or not self.sessions:
            self._fetch_sessions.pop(body.session_id, None)
            number = 0
            if body.session_epoch == 0 and self.sessions:
                number = self.asked["Fetch"]
            session = _FetchSession(number, wanted)
            if number:
                self._fetch_sessions[number] = session
            return session, 0
        found = self._fetch_sessions.get(body.session_id)
        if found is None:
            return _FetchSession(0, {}), FetchSessionIdNotFoundError.errno
        if body.session_epoch != found.epoch:
            return found, InvalidFetchSessionEpochError.errno
        found.epoch += 1
        found.wanted.update(wanted)
        for topic in body.forgotten_topics_data:
            for partition in topic.partitions:
                found.wanted.pop((self._name(topic), partition), None)
        return found, 0

    def _name(self, topic: Any) -> str:
        """The name of a topic that is asked for by its id (KIP-516), or by its name."""
        names = {known: name for name, known in self._ids.items()}
        return names[topic.topic_id] if topic.topic_id else str(topic.topic)

    def _answer_waiting_fetches(self) -> None:
        for waiting in list(self._waiting):
            if self._has_news(waiting):
                self._answer_fetch(waiting)

    def _answer_fetch(self, waiting: _WaitingFetch) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            waiting.reply(self._fetched(waiting))

    def _has_news(self, waiting: _WaitingFetch) -> bool:
        is_picky = waiting.body.min_bytes > MIN_BYTES
        for (topic, partition), (offset, _, last_epoch) in waiting.session.wanted.items():
            if self._refusal_of(waiting.node, topic, partition):
                return True
            if self.log(topic, partition).end != offset and not is_picky:
                return True
            if _diverging(self.log(topic, partition), offset, last_epoch):
                return True
        return False

    def _fetched(self, waiting: _WaitingFetch) -> FetchResponse:
        session, room, first = waiting.session, waiting.body.max_bytes, True
        partitions = []
        for (topic, partition), (offset, most, last_epoch) in list(session.wanted.items()):
            answer = self._fetched_partition(
                waiting.node,
                topic,
                partition,
                offset,
                min(room, most),
                last_epoch,
                at_least_one=first,
            )
            room -= len(answer.records)
            first = first and not answer.records
            marks = (answer.high_watermark, answer.log_start_offset)
            known = session.told.get((topic, partition)) == marks
            news = answer.records or answer.error_code or answer.diverging_epoch
            if news or not known or not session.number:
                session.told[topic, partition] = marks
                partitions.append(answer)
            if answer.records:  # whoever brought data goes to the end (KIP-227)
                session.wanted[topic, partition] = session.wanted.pop((topic, partition))
        return FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=session.number,
            partitions=tuple(partitions),
        )

    def _fetched_partition(
        self,
        node: int,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int,
        last_epoch: int,
        *,
        at_least_one: bool,
    ) -> FetchedPartition:
        error, end, start, records = self._refusal_of(node, topic, partition), -1, -1, b""
        leader = diverging = None
        if error == NotLeaderForPartitionError.errno and self.names_leaders:
            leader = (self.log(topic, partition).leader, self.log(topic, partition).leader_epoch)
        if not error:
            log = self.log(topic, partition)
            end, start = log.end, log.start
            diverging = _diverging(log, offset, last_epoch)
            if diverging is None and log.start <= offset <= log.end:
                records = log.read(offset, max_bytes, at_least_one=at_least_one)
            elif diverging is None:
                error = OffsetOutOfRangeError.errno
        return FetchedPartition(
            topic=self._ids[topic].bytes,  # the newest version is spoken
            partition=partition,
            error_code=error,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=start,
            aborted=(),
            diverging_epoch=diverging,
            current_leader=leader,
            preferred_read_replica=-1,
            records=memoryview(records),
        )


def _diverging(log: Log, offset: int, last_epoch: int) -> tuple[int, int] | None:
    """Where the log leaves that of the client (KIP-595); None: it does not."""
    if last_epoch < 0:
        return None
    epoch, end = log.end_of(last_epoch)
    return (epoch, end) if epoch < last_epoch or end < offset else None


class _FetchSession:
    """What a broker remembers of a client's fetches (KIP-227); number 0 is none."""

    def __init__(self, number: int, wanted: dict[tuple[str, int], tuple[int, int, int]]) -> None:
        self.number = number
        self.epoch = 1
        self.wanted = wanted
        self.told: dict[tuple[str, int], Any] = {}


class _WaitingFetch:
    """A Fetch that waits for data."""

    def __init__(self, node: int, body: Any, session: _FetchSession, reply: Reply) -> None:
        self.node = node
        self.body = body
        self.session = session
        self.reply = reply


def _refusal(api: str, body: Any, code: int) -> Any:
    """The answer to `body` that says `code`, wherever this API says such things."""
    match api:
        case "JoinGroup":
            return JoinGroupResponse(
                throttle_time_ms=0,
                error_code=code,
                generation_id=-1,
                protocol_name=None,
                leader="",
                member_id=body.member_id,
                members=[],
            )
        case "SyncGroup":
            return SyncGroupResponse(throttle_time_ms=0, error_code=code, assignment=b"")
        case "Heartbeat":
            return HeartbeatResponse(throttle_time_ms=0, error_code=code)
        case "LeaveGroup":
            return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=[])
        case "Fetch":
            return FetchResponse(throttle_time_ms=0, error_code=code, session_id=0, partitions=())
        case "Metadata":
            return MetadataResponse(
                throttle_time_ms=0, brokers=[], cluster_id=None, topics=[], error_code=code
            )
        case "FindCoordinator":
            (group,) = body.coordinator_keys
            return FindCoordinatorResponse(
                throttle_time_ms=0,
                coordinators=[
                    FindCoordinatorResponse.Coordinator(
                        key=group, node_id=-1, host="", port=-1, error_code=code, error_message=None
                    )
                ],
            )
        case "OffsetCommit":
            kind = OffsetCommitResponse.OffsetCommitResponseTopic
            return OffsetCommitResponse(
                throttle_time_ms=0,
                topics=[
                    kind(
                        name=topic.name,
                        partitions=[
                            kind.OffsetCommitResponsePartition(
                                partition_index=one.partition_index, error_code=code
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ],
            )
        case "OffsetFetch":
            return OffsetFetchResponse(
                throttle_time_ms=0,
                groups=[
                    OffsetFetchResponse.OffsetFetchResponseGroup(
                        group_id=one.group_id, topics=[], error_code=code
                    )
                    for one in body.groups
                ],
            )
        case "ListOffsets":
            kind = ListOffsetsResponse.ListOffsetsTopicResponse
            return ListOffsetsResponse(
                throttle_time_ms=0,
                topics=[
                    kind(
                        name=topic.name,
                        partitions=[
                            kind.ListOffsetsPartitionResponse(
                                partition_index=one.partition_index,
                                error_code=code,
                                timestamp=-1,
                                offset=-1,
                                leader_epoch=-1,
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ],
            )
    raise AssertionError(f"no refusal is known for {api}")
