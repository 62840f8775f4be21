"""Fetch: what each broker hands out of its logs, now or when there is enough of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from kafka.protocol.consumer import FetchResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.fetch_sessions import FetchSession, FetchSessions, Place, Wanted
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.settings import ClusterSettings
from aktor.broker.timers import Waiting, WaitingList
from aktor.broker.topology import Topology

__all__ = ["ISOLATION_LEVELS", "Fetching", "check_epoch"]

_Topic: Final = FetchResponse.FetchableTopicResponse
_Partition: Final = _Topic.PartitionData
_Aborted: Final = _Partition.AbortedTransaction
_Leader: Final = _Partition.LeaderIdAndEpoch
_Diverging: Final = _Partition.EpochEndOffset
_Endpoint: Final = FetchResponse.NodeEndpoint

#: Read uncommitted, read committed.
ISOLATION_LEVELS: Final = (0, 1)
_READ_COMMITTED: Final = 1
#: Errors after which the client wants to know the new leader (KIP-951).
_MOVED: Final = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
_TELLS_LEADER: Final = 16


@dataclass(slots=True)
class _Read:
    """What one partition has for a fetch."""

    place: Place
    wanted: Wanted
    code: Code = Code.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] | None = None
    preferred: int = -1
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None
    records: bytes | bytearray | memoryview = b""


@dataclass(slots=True)
class _Quiet:
    """A partition of which there was nothing to read, and as what it was so: as long as it is the
    same, there is nothing still, and the same answer.

    Clients ask for all their partitions each time, and most have nothing.
    """

    read: _Read
    partition: Partition
    isolation: int
    leader: int
    leader_epoch: int
    start_offset: int
    high_watermark: int
    end_offset: int

    def is_so_still(self, isolation: int) -> bool:
        """Whether nothing has changed that says what is read. (A partition that is deleted has no
        leader.)"""
        partition = self.partition
        log = partition.log
        return (
            self.end_offset == log.end_offset
            and self.high_watermark == log.high_watermark
            and self.start_offset == log.start_offset
            and self.leader_epoch == partition.leader_epoch
            and self.leader == partition.leader
            and self.isolation == isolation
        )


@dataclass(slots=True)
class _Plan:
    """A fetch that is under way, and whether it is enough to answer at once."""

    reads: list[_Read]
    size: int
    at_once: bool
    missing: int


class Fetching:
    """The Fetch requests of all brokers: answered at once, or waiting for records."""

    def __init__(self, topology: Topology, *, settings: ClusterSettings, rng: Random) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._max_bytes = settings.fetch_max_bytes
        self._sessions = {
            node: FetchSessions(slots=settings.fetch_session_slots, rng=rng)
            for node in topology.nodes
        }
        self.waiting = WaitingList()

    def handle(self, call: Call) -> None:
        """Answer, or wait for `min_bytes` until `max_wait_ms` have passed."""
        request = call.request
        if request.isolation_level not in ISOLATION_LEVELS:
            raise Refused(Code.UNKNOWN_SERVER_ERROR)
        try:
            session = self._sessions[call.node].open(request, call.version, call.now)
        except Refused as refused:
            call.reply(FetchResponse(error_code=refused.code, session_id=0, responses=[]))
            return
        plan = self._read(call, session)
        missing = plan.missing
        if plan.at_once or plan.size >= request.min_bytes or request.max_wait_ms <= 0:
            self._answer(call, session, plan)
            return
        self.waiting.add(
            Waiting(
                call=call,
                deadline=call.now + request.max_wait_ms / 1000,
                places=self._names(session),
                again=lambda late: self._again(call, session, late, missing),
            )
        )

    def restarted(self, node: int) -> None:
        """A broker forgets its sessions when it stops."""
        self._sessions[node].clear()

    def _again(self, call: Call, session: FetchSession, late: bool, missing: int) -> bool:
        """`missing`: how many partitions were missing when the request came. If there are more now,
        one was deleted meanwhile, and the Fetch is answered at once (DelayedFetch)."""
        plan = self._read(call, session, again=True)
        enough = plan.at_once or plan.size >= call.request.min_bytes or plan.missing > missing
        if not (late or enough):
            return False
        self._answer(call, session, plan)
        return True

    def _names(self, session: FetchSession) -> frozenset[tuple[str, int]]:
        version = self._topics.version
        if session.names is None or session.names[0] != version:
            session.names = version, frozenset(self._named(session))
        return session.names[1]

    def _named(self, session: FetchSession) -> Iterable[tuple[str, int]]:
        for topic, partition in session.wanted:
            name = topic if isinstance(topic, str) else self._topics.name(topic)
            if name:
                yield name, partition

    # -- reading

    def _read(self, call: Call, session: FetchSession, *, again: bool = False) -> _Plan:
        left = min(call.request.max_bytes, self._max_bytes)
        one_at_least = left >= 0
        reads: list[_Read] = []
        missing: list[_Read] = []
        size, at_once = 0, False
        # Who may not read a topic, and where a nearer replica is, can change without the partition.
        may_be_quiet = (
            not self._topics.forbidden and not call.request.rack_id and _replica(call.request) < 0
        )
        isolation = call.request.isolation_level
        for place, wanted in session.wanted.items():
            quiet: _Quiet | None = wanted.quiet if may_be_quiet else None
            if quiet is not None and quiet.is_so_still(isolation):
                reads.append(quiet.read)
                continue
            read = _Read(place=place, wanted=wanted)
            partition = self._partition(read)
            if partition is None:
                read.aborted = None if again else []
                missing.append(read)
                continue
            try:
                self._fill(read, partition, call, left, min_one=one_at_least and size == 0)
            except Refused as refused:
                read.code = refused.code
                if refused.code in _MOVED and call.version >= _TELLS_LEADER:
                    read.leader = (partition.leader, partition.leader_epoch)
            at_once |= bool(read.code) or read.preferred >= 0 or read.diverging is not None
            size += len(read.records)
            left -= len(read.records)
            reads.append(read)
        # The answer has the missing partitions, too, but they do not make a waiting Fetch return
        # early, as in Kafka (except if nothing else is asked for).
        return _Plan(
            reads=reads + missing,
            size=size,
            at_once=at_once or not reads,
            missing=len(missing),
        )

    def _partition(self, read: _Read) -> Partition | None:
        """None if it is not there, or may not be read: the code says so."""
        topic, index = read.place
        if not isinstance(topic, str):
            read.wanted.name = self._topics.name(topic) or read.wanted.name
            if not read.wanted.name:
                read.code = Code.UNKNOWN_TOPIC_ID
                return None
        found = self._topics.get(
            topic if isinstance(topic, str) else None, None if isinstance(topic, str) else topic
        )
        if found is None or not 0 <= index < len(found.partitions):
            read.code = Code.UNKNOWN_TOPIC_OR_PARTITION
            return None
        if found.name in self._topics.forbidden:
            read.code = Code.TOPIC_AUTHORIZATION_FAILED
            return None
        return found.partitions[index]

    def _fill(
        self, read: _Read, partition: Partition, call: Call, left: int, *, min_one: bool
    ) -> None:
        """Read one partition. Raises Refused."""
        wanted, log = read.wanted, partition.log
        if _replica(call.request) >= 0:
            # There are no followers but those in the same process.
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        check_epoch(partition, wanted.leader_epoch)
        leads = partition.leader == call.node
        if not leads and (call.version < 11 or call.node not in partition.replicas):
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        if partition.leader == NO_LEADER:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        high_watermark = partition.visible_to(call.node)
        stable = min(log.last_stable_offset, high_watermark)
        committed = call.request.isolation_level == _READ_COMMITTED
        if wanted.fetch_offset < log.start_offset:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        read.diverging = _diverging(partition, wanted, call.node)
        if read.diverging is None and wanted.fetch_offset > partition.end_of(call.node):
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        read.high_watermark, read.last_stable_offset = high_watermark, stable
        read.log_start_offset = log.start_offset
        if read.diverging is not None:
            return
        if leads:
            offset = wanted.fetch_offset
            rack = call.request.rack_id
            read.preferred = self._topology.preferred_replica(partition, rack, offset)
        if committed:
            read.aborted = []
        upto = stable if committed else high_watermark
        if read.preferred >= 0:
            return
        if wanted.fetch_offset >= upto:
            if leads:
                wanted.quiet = self._quiet(read, partition, call.request.isolation_level)
            return
        most = min(left, wanted.max_bytes)
        if most <= 0 and not min_one:
            return
        read.records = log.read(wanted.fetch_offset, max(most, 0), upto=upto, min_one=min_one)
        if committed and read.records:
            read.aborted = log.aborted(wanted.fetch_offset, upto)

    def _quiet(self, read: _Read, partition: Partition, isolation: int) -> _Quiet:
        log = partition.log
        return _Quiet(
            read=read,
            partition=partition,
            isolation=isolation,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            start_offset=log.start_offset,
            high_watermark=log.high_watermark,
            end_offset=log.end_offset,
        )

    # -- answering

    def _answer(self, call: Call, session: FetchSession, plan: _Plan) -> None:
        topics: list[Any] = []
        last: str | UUID | None = None
        leaders: set[int] = set()
        for read in plan.reads:
            if session.incremental and not _is_news(read):
                continue
            _remember(read)
            if read.place[0] != last:
                last = read.place[0]
                topics.append(self._topic(last))
            topics[-1].partitions.append(_partition_data(read))
            if read.leader is not None and read.leader[0] != NO_LEADER:
                leaders.add(read.leader[0])
            if session.session_id and read.records:
                # A partition that had records goes to the end, so that none starves.
                session.wanted.move_to_end(read.place)
        response = FetchResponse(
            error_code=Code.NONE, session_id=session.session_id, responses=topics
        )
        if leaders:
            response.node_endpoints = self._topology.endpoints(_Endpoint, leaders)
            response.tags = {"node_endpoints"}
        call.reply(response)

    def _topic(self, key: str | UUID) -> Any:
        if isinstance(key, str):
            return _Topic(topic=key, partitions=[])
        return _Topic(topic_id=key, partitions=[])


def _replica(request: Any) -> int:
    """The id of the broker that fetches; below zero: a consumer."""
    state = request.replica_state
    return int(request.replica_id if state is None else state.replica_id)


def check_epoch(partition: Partition, epoch: int) -> None:
    """Raises Refused if the client knows another leader epoch than this (KIP-320)."""
    if epoch < 0 or epoch == partition.leader_epoch:
        return
    if epoch < partition.leader_epoch:
        raise Refused(Code.FENCED_LEADER_EPOCH)
    raise Refused(Code.UNKNOWN_LEADER_EPOCH)


def _diverging(partition: Partition, wanted: Wanted, node: int) -> tuple[int, int] | None:
    """Where the log of this replica leaves that of the client, as (epoch, its end offset): the last
    epoch that the client has read ends before its offset, or is unknown here (KIP-595).

    None: it does not. Whether the offset lies behind the end of the log is looked at after that
    (Kafka's Partition.readFromLocalLog). Raises Refused.
    """
    last = wanted.last_fetched_epoch
    if last < 0:
        return None
    epoch, end = partition.log.end_offset_for_epoch(last)
    if epoch < 0 or end < 0:
        raise Refused(Code.OFFSET_OUT_OF_RANGE)
    end = min(end, partition.end_of(node))
    return (epoch, end) if epoch < last or end < wanted.fetch_offset else None


def _is_news(read: _Read) -> bool:
    """Whether an incremental answer mentions this partition (CachedPartition)."""
    return bool(
        len(read.records)
        or read.code
        or read.preferred >= 0
        or read.diverging is not None
        or read.wanted.never_told
        or read.high_watermark != read.wanted.high_watermark
        or read.log_start_offset != read.wanted.log_start_offset
    )


def _remember(read: _Read) -> None:
    wanted = read.wanted
    wanted.high_watermark = read.high_watermark
    wanted.log_start_offset = read.log_start_offset
    # After an error the client is told even if nothing else is new.
    wanted.never_told = bool(read.code)


def _partition_data(read: _Read) -> Any:
    data = _Partition(
        partition_index=read.wanted.partition,
        error_code=read.code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None
        if read.aborted is None
        else [_Aborted(producer_id=who, first_offset=first) for who, first in read.aborted],
        preferred_read_replica=read.preferred,
        records=read.records,
    )
    if read.diverging:
        epoch, end = read.diverging
        data.diverging_epoch = _Diverging(epoch=epoch, end_offset=end)
        data.tags = {"diverging_epoch"}
    if read.leader:
        leader, epoch = read.leader
        data.current_leader = _Leader(leader_id=leader, leader_epoch=epoch)
        data.tags = {"current_leader"}
    return data
