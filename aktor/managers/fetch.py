"""The fetch manager: keeps the application's buffer filled, from every leader at once.

    application ──AssignmentChanged, SeekPartitions, ResetPositions──▶ fetch
    application ──PausePartitions, Poll──▶ fetch
    positions ──PositionsResolved──▶ fetch
    fetch ──Fetch──▶ leaders, or replicas near us
    fetch ──RecordsFetched──▶ application
    fetch ──RefreshMetadata | LeadersMoved──▶ MetadataManager

Fetching runs ahead of the application, bounded by `max_buffered_bytes`: what is buffered and not
yet paid back by a `Poll`, and what the requests in flight may bring, together stay below it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from kafka.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.structs import TopicPartition

from aktor.actors.manager import NEVER, Backoff, PollResult, RequestManager
from aktor.errors import CorruptBatchError
from aktor.events.fetching import Chunk, PausePartitions, RecordsFetched
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.metadata import (
    Cluster,
    ClusterChanged,
    LeadersMoved,
    PartitionInfo,
    RefreshMetadata,
)
from aktor.events.network import Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    PositionsResolved,
    ResetPositions,
    SeekPartitions,
)
from aktor.managers.fetch_session import FetchSession, Marks, SessionRequest, Wanted
from aktor.protocol.fetch import MAX_VERSION, MIN_VERSION, FetchedPartition, FetchResponse
from aktor.records.extent import extent

__all__ = ["FetchManager"]

#: How much longer than it may wait for data a broker may take to answer, at first. A half-open
#: connection must be noticed soon; after a timeout the patience doubles, up to the request timeout.
PATIENCE: Final = 5.0

#: While a partition's buffer is full, its leader is not left to wait for data of the others for
#: longer than this: the application may empty that buffer any moment.
CROWDED_WAIT: Final = 0.1

#: A broker that answers at once though it has nothing is asked no more often than this.
EMPTY_PACE: Final = 0.02

#: How often a partition is tried that the broker refused for good: a right may be granted later.
REFUSED_PACE: Final = 1.0

#: What a chunk takes besides its records.
CHUNK_OVERHEAD: Final = 256

#: Our metadata is stale, or the broker's: ask for it, and try again after a backoff.
_STALE: Final = frozenset(
    error.errno
    for error in (
        FencedLeaderEpochError,
        KafkaStorageError,
        LeaderNotAvailableError,
        NotLeaderForPartitionError,
        OffsetNotAvailableError,
        ReplicaNotAvailableError,
        UnknownLeaderEpochError,
        UnknownTopicIdError,
        UnknownTopicOrPartitionError,
    )
)

_News: TypeAlias = Iterable[object]


class _Cursor:
    """Where one partition is fetched next, in one epoch; a seek or a reset makes a new one.

    `spans` are (end offset, size) of what is buffered. `told` are the marks the application knows.
    `leader` is the newest one known, `moved_to` the one that a Fetch answer named (KIP-951), and
    `replica` the broker to read from instead of it until `replica_until` (KIP-392).
    """

    __slots__ = (
        "backoff",
        "buffered",
        "epoch",
        "leader",
        "moved_to",
        "offset",
        "refused_told",
        "replica",
        "replica_until",
        "retry_at",
        "spans",
        "stopped",
        "told",
        "tp",
        "wanted",
    )

    def __init__(self, tp: TopicPartition, epoch: int, position: Position | None, backoff: Backoff):
        self.tp = tp
        self.epoch = epoch
        self.offset = None if position is None else position.offset
        #: An error was told; nothing follows until the partition is sought or reset.
        self.stopped = False
        self.refused_told = False
        self.backoff = backoff
        self.retry_at = -math.inf
        self.told: Marks | None = None
        self.spans: deque[tuple[int, int]] = deque()
        self.buffered = 0
        self.leader: PartitionInfo | None = None
        self.moved_to: PartitionInfo | None = None
        #: What the next Fetch asks, kept while neither offset nor leader change.
        self.wanted: Wanted | None = None
        self.replica = -1
        self.replica_until = -math.inf

    @property
    def at(self) -> int:
        """The offset of a cursor that was asked for."""
        assert self.offset is not None, "a partition without a position was asked for"
        return self.offset

    def go_to(self, offset: int) -> None:
        """Fetch from there next."""
        self.offset = offset
        self.wanted = None

    def consumed_up_to(self, offset: int) -> None:
        """Forget the spans that the application has read to their end."""
        while self.spans and self.spans[0][0] <= offset:
            self.buffered -= self.spans.popleft()[1]

    def try_again(self) -> None:
        """What stood in the way is gone."""
        self.backoff.reset()
        self.retry_at = -math.inf


class _Node:
    """What is between one broker and us: its session, and at most one request in flight."""

    __slots__ = ("asked", "backoff", "rest_until", "session", "turn")

    def __init__(self, session: FetchSession, backoff: Backoff) -> None:
        self.session = session
        self.backoff = backoff
        self.asked: _Asked | None = None
        self.rest_until = -math.inf
        #: When it was asked last, counted in requests: who waited longest comes first.
        self.turn = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """Context of a Fetch: what it asked for, and how much of the room is set aside for it."""

    node: int
    max_bytes: int
    sent_at: float
    session: SessionRequest
    wanted: Mapping[TopicPartition, Wanted]


@dataclass(slots=True)
class _Answer:
    """What comes of one answer: chunks for the application, news for the metadata manager."""

    asked: _Asked
    now: float
    jitter: float
    chunks: list[Chunk] = field(default_factory=list)
    brought_data: bool = False
    cut_off: list[_Cursor] = field(default_factory=list)
    failed: dict[str, list[TopicPartition]] = field(default_factory=dict)
    moved: dict[tuple[str, int], PartitionInfo] = field(default_factory=dict)
    stale: str = ""


@dataclass(slots=True)
class _Plan:
    """What could be fetched now: cursors by node, and what matters for sharing the room."""

    ready: dict[int, list[_Cursor]] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    crowded: set[int] = field(default_factory=set)
    leaderless: list[_Cursor] = field(default_factory=list)
    readable: int = 0
    wake_at: float = NEVER


class FetchManager(RequestManager):
    """Owns fetch cursors and sessions, preferred replicas, high watermarks, bytes outstanding."""

    name = "fetch"
    HANDLERS: ClassVar[Mapping[type, str]] = {
        AssignmentChanged: "on_assignment_changed",
        SeekPartitions: "on_seek_partitions",
        ResetPositions: "on_reset_positions",
        PositionsResolved: "on_positions_resolved",
        PausePartitions: "on_pause_partitions",
        Poll: "on_poll",
        ClusterChanged: "on_cluster_changed",
        ActorsRestarted: "on_actors_restarted",
    }
    RESPONSES: ClassVar[Mapping[type, str]] = {FetchRequest: "on_fetched"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cluster = Cluster()
        # In the order in which they are asked for: who brought data goes to the end.
        self._cursors: dict[TopicPartition, _Cursor] = {}
        self._paused: frozenset[TopicPartition] = frozenset()
        self._nodes: dict[int, _Node] = {}
        self._leaderless = self._new_backoff()
        self._buffered = 0
        self._reserved = 0
        self._turns = 0
        # A tick follows every message of anybody's: most change nothing here.
        self._changed = True
        self._wake_at = NEVER
        self._to_say: list[object] = []

    def _new_backoff(self) -> Backoff:
        return Backoff(self.settings.retry_backoff, self.settings.retry_backoff_max)

    def handle(self, message: object) -> list[object]:
        """Handle one message; a tick may find that a leader is unknown."""
        said = super().handle(message)
        if self._to_say:
            said, self._to_say = [*said, *self._to_say], []
        return said

    # -- what the application wants

    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Fetch exactly these; a partition that keeps its epoch keeps its cursor."""
        before, self._cursors = self._cursors, {}
        for tp, assigned in changed.partitions.items():
            cursor = before.get(tp)
            if cursor is None or cursor.epoch != assigned.epoch:
                cursor = self._new_cursor(tp, assigned.epoch, assigned.position)
            elif cursor.offset is None and assigned.position is not None:
                cursor.go_to(assigned.position.offset)
            self._cursors[tp] = cursor
        self._changed = True

    def _new_cursor(self, tp: TopicPartition, epoch: int, position: Position | None) -> _Cursor:
        cursor = _Cursor(tp, epoch, position, self._new_backoff())
        self._find_leader(cursor)
        return cursor

    def on_seek_partitions(self, sought: SeekPartitions) -> None:
        """Go on from there; what is in flight or buffered belongs to an older epoch now."""
        for tp, to in sought.partitions.items():
            self._replace(tp, to.epoch, to.position, because="a seek")

    def on_reset_positions(self, reset: ResetPositions) -> None:
        """Stop until the position manager has found where to go."""
        for tp, to in reset.partitions.items():
            self._replace(tp, to.epoch, None, because="a reset")

    def _replace(
        self, tp: TopicPartition, epoch: int, position: Position | None, *, because: str
    ) -> None:
        if tp not in self._cursors:
            self.log.info("fetch.dropped", partition=tp, because=f"{because}, not assigned")
            return
        self._cursors[tp] = self._new_cursor(tp, epoch, position)
        self._changed = True

    def on_positions_resolved(self, resolved: PositionsResolved) -> None:
        """Start where the position manager says, if that is still asked for."""
        for tp, assigned in resolved.partitions.items():
            if self._waits_for(tp, assigned):
                assert assigned.position is not None, "a resolved position without an offset"
                self._cursors[tp].go_to(assigned.position.offset)
                self._changed = True
            else:
                self.log.info(
                    "position.dropped", partition=tp, because="it is not waited for any more"
                )

    def _waits_for(self, tp: TopicPartition, assigned: Assigned) -> bool:
        cursor = self._cursors.get(tp)
        return cursor is not None and cursor.epoch == assigned.epoch and cursor.offset is None

    def on_pause_partitions(self, pause: PausePartitions) -> None:
        """Ask for these no more; what is in flight or buffered is kept."""
        self._paused = pause.partitions
        self._changed = True

    def on_poll(self, poll: Poll) -> None:
        """The application has read on: there is room again."""
        if not poll.freed_bytes and not poll.positions:
            return
        self._changed = True
        self._buffered = max(0, self._buffered - poll.freed_bytes)
        for tp, position in poll.positions.items():
            cursor = self._cursors.get(tp)
            if cursor is not None:
                cursor.consumed_up_to(position.offset)
        if not self._buffered:
            for cursor in self._cursors.values():
                cursor.spans.clear()
                cursor.buffered = 0

    def on_cluster_changed(self, changed: ClusterChanged) -> None:
        """A partition whose leader is another now is fetched from that one at once."""
        before, self._cluster = self._cluster, changed.cluster
        for tp, cursor in self._cursors.items():
            if self._cluster.leader(*tp) != before.leader(*tp):
                cursor.moved_to = None
                cursor.try_again()
            self._find_leader(cursor)
        for node_id in list(self._nodes):
            if node_id not in self._cluster.brokers and self._nodes[node_id].asked is None:
                del self._nodes[node_id]
        self._changed = True

    def on_actors_restarted(self, _restarted: ActorsRestarted) -> None:
        """Nothing to repeat: the application tells its facts again, and raises the epochs."""

    # -- where to fetch

    def _find_leader(self, cursor: _Cursor) -> None:
        """Take the newest leader that we know and can reach."""
        known = self._cluster.leader(*cursor.tp)
        if known is not None and known.leader not in self._cluster.brokers:
            known = None
        named = cursor.moved_to
        if (
            named is not None
            and named.leader in self._cluster.brokers
            and (known is None or named.leader_epoch > known.leader_epoch)
        ):
            known = named
        cursor.leader = known
        cursor.wanted = None

    def _source_of(self, cursor: _Cursor, now: float) -> int | None:
        """The node to read from: the preferred replica while that holds, else the leader."""
        if cursor.replica >= 0:
            if now < cursor.replica_until and cursor.replica in self._cluster.brokers:
                return cursor.replica
            self._leave_replica(cursor, because="its time is over, or it is gone")
        return None if cursor.leader is None else cursor.leader.leader

    def _leave_replica(self, cursor: _Cursor, *, because: str) -> None:
        self.log.info("replica.left", partition=cursor.tp, node=cursor.replica, because=because)
        cursor.replica = -1

    # -- what is sent

    def poll(self, now: float, jitter: float) -> PollResult:
        """A Fetch to every node that has something for us, if there is room."""
        if not self._changed and now < self._wake_at:
            return PollResult(wake_at=self._wake_at)
        self._changed = False
        plan = self._plan(now)
        self._want_leaders(plan, now, jitter)
        requests = tuple(self._requests(plan, now))
        self._wake_at = plan.wake_at
        return PollResult(requests=requests, wake_at=plan.wake_at)

    def _plan(self, now: float) -> _Plan:
        plan = _Plan()
        share = self._share()
        for tp, cursor in self._cursors.items():
            if cursor.offset is None or cursor.stopped:
                continue
            source = self._source_of(cursor, now)
            if source is not None:
                plan.nodes.add(source)
            if tp in self._paused:
                continue
            plan.readable += cursor.buffered
            if now < cursor.retry_at:
                plan.wake_at = min(plan.wake_at, cursor.retry_at)
            elif source is None:
                plan.leaderless.append(cursor)
            elif cursor.buffered >= share:
                plan.crowded.add(source)
            else:
                plan.ready.setdefault(source, []).append(cursor)
        return plan

    def _share(self) -> int:
        """How much one partition may have buffered before the others come first."""
        settings = self.settings
        fair = settings.max_buffered_bytes // max(1, len(self._cursors))
        return max(2 * settings.max_partition_fetch_bytes, fair)

    def _want_leaders(self, plan: _Plan, now: float, jitter: float) -> None:
        """Ask for leaders that are missing, as often as the backoff allows."""
        if not plan.leaderless:
            self._leaderless.reset()
            return
        if now >= self._leaderless.retry_at:
            self._leaderless.failed(now, jitter)
            names = ", ".join(_name(cursor.tp) for cursor in plan.leaderless[:5])
            more = f" and {len(plan.leaderless) - 5} more" if len(plan.leaderless) > 5 else ""
            self._to_say.append(RefreshMetadata(because=f"no leader is known of {names}{more}"))
        plan.wake_at = min(plan.wake_at, self._leaderless.retry_at)

    def _requests(self, plan: _Plan, now: float) -> Iterator[Request]:
        waiting = self._idle_nodes(plan, now)
        count = max(2, len(plan.nodes))
        bound = self.settings.max_buffered_bytes
        # Less than this is not worth a request. It is so small that every node gets its turn.
        least = max(1, min(self.settings.max_partition_fetch_bytes, bound // 4, bound // count))
        for index, node_id in enumerate(waiting):
            room = bound - self._buffered - self._reserved
            if not plan.readable and not self._reserved:
                # What fills the buffer cannot be read now (it is paused, or was just sought away
                # from): one small request beyond the bound, or nothing would ever be read again.
                room = max(room, least)
            if room < least:
                return
            part = max(least, room // (len(waiting) - index))
            # Never all: the next answer should be under way while this one is read.
            yield self._fetch(node_id, plan, min(part, max(least, bound // count)), now)

    def _idle_nodes(self, plan: _Plan, now: float) -> list[int]:
        """Nodes that can be asked now, the one that waits longest first."""
        idle = []
        for node_id in plan.ready:
            node = self._node(node_id)
            if node.asked is not None:
                continue
            ready_at = max(node.backoff.retry_at, node.rest_until)
            if now < ready_at:
                plan.wake_at = min(plan.wake_at, ready_at)
            else:
                idle.append(node_id)
        return sorted(idle, key=lambda node_id: self._nodes[node_id].turn)

    def _node(self, node_id: int) -> _Node:
        node = self._nodes.get(node_id)
        if node is None:
            session = FetchSession(enabled=self.settings.enable_incremental_fetch_sessions)
            node = self._nodes[node_id] = _Node(session, self._new_backoff())
        return node

    def _fetch(self, node_id: int, plan: _Plan, room: int, now: float) -> Request:
        settings, node, cursors = self.settings, self._nodes[node_id], plan.ready[node_id]
        wanted = {cursor.tp: self._wanted(cursor) for cursor in cursors}
        failures = node.backoff.failures
        max_bytes = min(
            room,
            len(wanted) * settings.max_partition_fetch_bytes,
            # A link too slow for the deadline must get along with less.
            max(1, settings.fetch_max_bytes >> min(failures, 20)),
        )
        wait = settings.fetch_max_wait
        if node_id in plan.crowded:
            wait = min(wait, CROWDED_WAIT)
        patience = min(settings.request_timeout, (wait + PATIENCE) * 2.0 ** min(failures, 10))
        asked = _Asked(node_id, max_bytes, now, node.session.next_request(wanted), wanted)
        node.asked = asked
        self._turns += 1
        node.turn = self._turns
        self._reserved += max_bytes
        return self.request(
            self._body(asked, min(wait, patience / 2)),
            to=node_id,
            deadline=now + patience,
            context=asked,
        )

    def _wanted(self, cursor: _Cursor) -> Wanted:
        if cursor.wanted is None:
            cursor.wanted = Wanted(
                epoch=cursor.epoch,
                offset=cursor.at,
                leader_epoch=-1 if cursor.leader is None else cursor.leader.leader_epoch,
                max_bytes=self.settings.max_partition_fetch_bytes,
            )
        return cursor.wanted

    def _body(self, asked: _Asked, wait: float) -> FetchRequest:
        settings = self.settings
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=round(wait * 1000),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=asked.max_bytes,
            isolation_level=int(settings.isolation_level == "read_committed"),
            session_id=asked.session.session_id,
            session_epoch=asked.session.epoch,
            topics=_topics(asked.session.partitions),
            forgotten_topics_data=_forgotten(asked.session.forgotten),
            rack_id=settings.client_rack,
            min_version=MIN_VERSION,
            max_version=MAX_VERSION,
        )

    # -- what is answered

    def on_fetched(self, received: ResponseReceived) -> _News:
        """File what a broker sent: partition by partition, each only if it is still wanted."""
        asked: _Asked = received.request.context
        response: FetchResponse = received.response
        node = self._finished(asked)
        if response.error_code:
            return self._on_session_refused(node, asked, received)
        node.session.answered(asked.session, response.session_id)
        node.backoff.reset()

        answer = _Answer(asked, received.now, received.jitter)
        for partition in response.partitions:
            self._file(answer, node, partition)
        if not asked.session.full:
            self._file_unchanged(answer, node, response)
        if not any(said.records for said in response.partitions):
            node.rest_until = asked.sent_at + EMPTY_PACE
        return self._news(answer)

    def _finished(self, asked: _Asked) -> _Node:
        """Whatever came of it: the node can be asked again, the room is free (KAFKA-19259)."""
        node = self._nodes[asked.node]
        node.asked = None
        self._reserved -= asked.max_bytes
        self._changed = True
        return node

    def _on_session_refused(self, node: _Node, asked: _Asked, received: ResponseReceived) -> _News:
        error = for_code(received.response.error_code)
        at_once = node.session.refused(received.response.error_code)
        self.log.info("session.restarted", node=asked.node, because=error.__name__)
        if at_once:
            return ()
        retry_at = node.backoff.failed(received.now, received.jitter)
        self._trace_failure(asked, error.__name__, retry_at - received.now)
        return (RefreshMetadata(because=f"node {asked.node} refused a fetch: {error.__name__}"),)

    def on_request_failed(self, failed: RequestFailed) -> _News:
        """Nobody knows what became of the session; try again after the backoff."""
        asked: _Asked = failed.request.context
        node = self._finished(asked)
        node.session.restart()
        retry_at = node.backoff.failed(failed.now, failed.jitter)
        self._trace_failure(asked, failed.error, retry_at - failed.now)
        for tp in asked.wanted:
            cursor = self._cursors.get(tp)
            if cursor is not None and cursor.replica == asked.node:
                self._leave_replica(cursor, because="it does not answer")
        news: list[object] = [RefreshMetadata(because=f"a fetch from node {asked.node} failed")]
        if isinstance(failed.error, UnsupportedVersionError):
            # Waiting does not help, and nobody else would tell.
            answer = _Answer(asked, failed.now, failed.jitter)
            for tp, wanted in asked.wanted.items():
                cursor = self._cursors.get(tp)
                if cursor is not None and _still_wanted(cursor, wanted):
                    self._refuse(answer, cursor, failed.error)
            news += self._news(answer)
        return news

    def _trace_failure(self, asked: _Asked, because: object, retry_in: float) -> None:
        self.log.warning(
            "fetch.failed",
            node=asked.node,
            partitions=list(asked.wanted),
            because=because,
            retry_in=round(retry_in, 3),
        )

    # -- what is answered about one partition

    def _file(self, answer: _Answer, node: _Node, said: FetchedPartition) -> None:
        tp = TopicPartition(said.topic, said.partition)
        wanted = answer.asked.wanted.get(tp)
        if wanted is None:
            self._trace_drop(said, because="it was not asked for")
            return
        if not said.error_code:
            node.session.note_marks(tp, _marks(said))
        cursor = self._cursors.get(tp)
        if cursor is None or not _still_wanted(cursor, wanted):
            if said.records or said.error_code:
                self._trace_drop(said, because="the partition has moved on")
        elif said.error_code:
            self._on_partition_error(answer, cursor, said)
        else:
            self._on_partition_data(answer, cursor, said)

    def _trace_drop(self, said: FetchedPartition, *, because: str) -> None:
        self.log.info(
            "fetch.dropped",
            partition=TopicPartition(said.topic, said.partition),
            size=len(said.records),
            error_code=said.error_code,
            because=because,
        )

    def _file_unchanged(self, answer: _Answer, node: _Node, response: FetchResponse) -> None:
        """An incremental answer leaves out what has no news; a new epoch knows the old ones not."""
        present = {(said.topic, said.partition) for said in response.partitions}
        for tp, wanted in answer.asked.wanted.items():
            cursor = self._cursors.get(tp)
            if cursor is None or cursor.told is not None or tp in present:
                continue
            marks = node.session.marks(tp)
            if marks is not None and _still_wanted(cursor, wanted):
                self._tell_marks(answer, cursor, marks)

    def _on_partition_data(self, answer: _Answer, cursor: _Cursor, said: FetchedPartition) -> None:
        cursor.refused_told = False
        following, size = extent(said.records, cursor.at)
        if size:
            self._deliver(answer, cursor, said, size)
            self._advance(answer, cursor, following)
        else:
            self._tell_marks(answer, cursor, _marks(said))
        if said.preferred_read_replica >= 0:
            self._prefer_replica(answer, cursor, said.preferred_read_replica)
        elif size or not said.records:
            cursor.try_again()
        else:
            answer.cut_off.append(cursor)

    def _deliver(self, answer: _Answer, cursor: _Cursor, said: FetchedPartition, size: int) -> None:
        cursor.told = _marks(said)
        chunk = Chunk(
            partition=cursor.tp,
            epoch=cursor.epoch,
            offset=cursor.at,
            data=said.records[:size],
            size=len(said.records) + CHUNK_OVERHEAD,
            high_watermark=said.high_watermark,
            last_stable_offset=said.last_stable_offset,
            log_start_offset=said.log_start_offset,
            aborted=said.aborted,
        )
        answer.chunks.append(chunk)
        answer.brought_data = True
        self._buffered += chunk.size

    def _advance(self, answer: _Answer, cursor: _Cursor, following: int) -> None:
        size = answer.chunks[-1].size
        cursor.spans.append((following, size))
        cursor.buffered += size
        # To the end of the line: the others come first next time.
        self._cursors[cursor.tp] = self._cursors.pop(cursor.tp)
        if following == cursor.offset:
            # The reader raises at the bad batch before it gets to this; it is for batches that
            # are sound and still lead nowhere.
            self._halt(answer, cursor, _corrupt(cursor, "nothing that was sent can be continued"))
        cursor.go_to(following)

    def _tell_marks(self, answer: _Answer, cursor: _Cursor, marks: Marks) -> None:
        """Without records: only if the application does not know these marks yet."""
        if cursor.told == marks:
            return
        cursor.told = marks
        answer.chunks.append(
            Chunk(
                partition=cursor.tp,
                epoch=cursor.epoch,
                offset=cursor.at,
                high_watermark=marks.high_watermark,
                last_stable_offset=marks.last_stable_offset,
                log_start_offset=marks.log_start_offset,
            )
        )

    def _prefer_replica(self, answer: _Answer, cursor: _Cursor, replica: int) -> None:
        """KIP-392: a broker in our rack has the records too."""
        if replica == answer.asked.node:
            return
        if replica not in self._cluster.brokers:
            answer.stale = f"the preferred replica {replica} of {_name(cursor.tp)} is unknown"
            self._retry_later(answer, cursor, "its preferred replica is unknown")
            return
        cursor.replica = replica
        cursor.replica_until = answer.now + self.settings.metadata_max_age
        self.log.info("replica.preferred", partition=cursor.tp, node=replica)

    # -- what is refused about one partition

    def _on_partition_error(self, answer: _Answer, cursor: _Cursor, said: FetchedPartition) -> None:
        code, tp = said.error_code, cursor.tp
        node = answer.asked.node
        if self._source_of(cursor, answer.now) != node:
            self._trace_drop(said, because="it is read from another node by now")
            return
        error = for_code(code)
        from_replica = cursor.replica == node
        if from_replica:
            self._leave_replica(cursor, because=error.__name__)

        if code in _STALE:
            self._on_stale(answer, cursor, said)
        elif from_replica and code == OffsetOutOfRangeError.errno:
            # A follower may be behind its leader: only the leader's word counts (KIP-392).
            self._retry_later(answer, cursor, error.__name__)
        elif code == OffsetOutOfRangeError.errno:
            self._halt(answer, cursor, OffsetOutOfRangeError({tp: cursor.at}))
        elif code == TopicAuthorizationFailedError.errno:
            self._refuse(answer, cursor, TopicAuthorizationFailedError({tp.topic}))
        elif code == CorruptRecordError.errno:
            self._refuse(answer, cursor, _corrupt(cursor, f"node {node} cannot read it"))
        elif error.retriable or issubclass(error, UnknownError):
            self._retry_later(answer, cursor, error.__name__)
        else:
            refusal = f"fetching {_name(tp)} at offset {cursor.offset} from node {node}"
            self._refuse(answer, cursor, error(refusal))

    def _on_stale(self, answer: _Answer, cursor: _Cursor, said: FetchedPartition) -> None:
        """Not there, or not any more. The broker may name the new leader (KIP-951)."""
        because = for_code(said.error_code).__name__
        new = _newer_leader(said, cursor.leader)
        if new is not None:
            answer.moved[said.topic, said.partition] = new
            if new.leader in self._cluster.brokers:
                cursor.moved_to = new
                self._find_leader(cursor)
                cursor.try_again()
                self.log.info(
                    "leader.learned",
                    partition=cursor.tp,
                    leader=new.leader,
                    leader_epoch=new.leader_epoch,
                    because=because,
                )
                return
        answer.stale = f"node {answer.asked.node} refused {_name(cursor.tp)}: {because}"
        self._retry_later(answer, cursor, because)

    def _retry_later(self, answer: _Answer, cursor: _Cursor, because: str) -> None:
        cursor.retry_at = cursor.backoff.failed(answer.now, answer.jitter)
        answer.failed.setdefault(because, []).append(cursor.tp)

    def _halt(self, answer: _Answer, cursor: _Cursor, error: Exception) -> None:
        """Tell it in its turn, and ask no more until the partition is sought or reset."""
        cursor.stopped = True
        self._tell_error(answer, cursor, error)
        self.log.warning("fetch.stopped", partition=cursor.tp, offset=cursor.at, because=error)

    def _refuse(self, answer: _Answer, cursor: _Cursor, error: Exception) -> None:
        """Tell it once, and go on trying now and then: it may be mended from outside."""
        cursor.retry_at = answer.now + REFUSED_PACE
        if cursor.refused_told:
            return
        cursor.refused_told = True
        self._tell_error(answer, cursor, error)
        self.log.warning("fetch.refused", partition=cursor.tp, offset=cursor.at, because=error)

    def _tell_error(self, answer: _Answer, cursor: _Cursor, error: Exception) -> None:
        answer.chunks.append(
            Chunk(partition=cursor.tp, epoch=cursor.epoch, offset=cursor.at, error=error)
        )

    # -- what all partitions of an answer come to

    def _news(self, answer: _Answer) -> _News:
        if not answer.brought_data:
            for cursor in answer.cut_off:
                # It is the whole answer, and it is not even one batch.
                self._retry_later(answer, cursor, "no complete batch was sent")
        for because, partitions in answer.failed.items():
            self.log.warning(
                "fetch.failed", node=answer.asked.node, partitions=partitions, because=because
            )
        if answer.chunks:
            yield RecordsFetched(chunks=tuple(answer.chunks))
        if answer.moved:
            yield LeadersMoved(leaders=answer.moved)
        if answer.stale:
            yield RefreshMetadata(because=answer.stale)


def _still_wanted(cursor: _Cursor, wanted: Wanted) -> bool:
    """Whether the partition is still where it was when it was asked for."""
    return cursor.epoch == wanted.epoch and cursor.offset == wanted.offset and not cursor.stopped


def _newer_leader(said: FetchedPartition, known: PartitionInfo | None) -> PartitionInfo | None:
    if said.current_leader is None:
        return None
    leader, epoch = said.current_leader
    if leader < 0 or epoch <= (-1 if known is None else known.leader_epoch):
        return None
    return PartitionInfo(leader=leader, leader_epoch=epoch)


def _marks(said: FetchedPartition) -> Marks:
    return Marks(said.high_watermark, said.last_stable_offset, said.log_start_offset)


def _corrupt(cursor: _Cursor, reason: str) -> CorruptBatchError:
    return CorruptBatchError(
        topic=cursor.tp.topic,
        partition=cursor.tp.partition,
        offset=cursor.at,
        reason=reason,
    )


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _topics(partitions: Mapping[TopicPartition, Wanted]) -> list[Any]:
    """In the order given: who comes first is served first. So a topic may stand there twice."""
    topics: list[Any] = []
    for tp, wanted in partitions.items():
        if not topics or topics[-1].topic != tp.topic:
            topics.append(FetchRequest.FetchTopic(topic=tp.topic, partitions=[]))
        topics[-1].partitions.append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return topics


def _forgotten(partitions: Iterable[TopicPartition]) -> list[Any]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [
        FetchRequest.ForgottenTopic(topic=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]
