"""The answer to a Fetch: read partition by partition, each only if it is still wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Final

from kafka.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import REFUSED_PAUSE
from aktor.errors import CorruptBatchError
from aktor.events.fetching import Chunk, RecordsFetched
from aktor.events.message import Message
from aktor.events.metadata import (
    Broker,
    Cluster,
    LeaderEpochsUnknown,
    LeadersMoved,
    PartitionInfo,
    RefreshMetadata,
)
from aktor.events.positions import Divergence, Position, PositionsDiverged
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.request import CHUNK_OVERHEAD, Asked
from aktor.managers.fetch.session import FetchSession, Watermarks
from aktor.protocol.error_codes import Answer, Do, doubts_epoch, error_of, means
from aktor.protocol.fetch import FetchedPartition, FetchResponse
from aktor.protocol.refusals import explained, named_node, refused, topics_refused
from aktor.records.extent import Extent, extent
from aktor.trace import Trace
from aktor.values import Mutable

__all__ = ["FetchAnswer"]

#: If a broker does not know a partition, the next Fetch of it waits at least this long (seconds).
#: The metadata is refreshed within `retry_backoff_ms`. It then says whether the topic was deleted
#: and created again.
UNKNOWN_PACE: Final = 0.5


class FetchAnswer(Mutable):
    """Reads one answer: moves the cursors on, and collects the messages that follow from it.

    `chunks` are for the application, `served` are the cursors that got data; `news` tells the
    application and the metadata manager. A preferred replica is read for `replica_age` seconds.
    """

    asked: Asked
    incarnation: int
    now: float
    jitter: float
    session: FetchSession
    cursors: Mapping[TopicPartition, FetchCursor]
    cluster: Cluster
    replica_age: float
    log: Trace
    chunks: list[Chunk] = field(init=False, default_factory=list)
    served: list[FetchCursor] = field(init=False, default_factory=list)
    #: It has partitions, and none of them was asked for.
    is_foreign: bool = field(init=False, default=False)
    _cut_off: list[FetchCursor] = field(init=False, default_factory=list)
    _failed: dict[str, list[TopicPartition]] = field(init=False, default_factory=dict)
    _moved: dict[TopicPartition, PartitionInfo] = field(init=False, default_factory=dict)
    #: Where the brokers are that the answer names as leaders.
    _endpoints: dict[int, Broker] = field(init=False, default_factory=dict)
    #: Epochs that the leaders do not know.
    _unknown_epochs: dict[TopicPartition, int] = field(init=False, default_factory=dict)
    _stale: str = field(init=False, default="")
    _diverged: dict[TopicPartition, Divergence] = field(init=False, default_factory=dict)

    def read(self, response: FetchResponse) -> Collection[TopicPartition]:
        """Read what the answer says of each partition, and of those that an incremental answer
        leaves out. Returns the partitions that it has, in its order."""
        self._endpoints = {
            node.node_id: Broker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in response.node_endpoints
        }
        present: dict[TopicPartition, None] = {}
        name_of = self.session.name_of
        for fetched in response.partitions:
            tp = TopicPartition(name_of(fetched.topic), fetched.partition)
            present[tp] = None
            self._file(tp, fetched)
        self.is_foreign = bool(present) and not present.keys() & self.asked.wanted.keys()
        if not self.asked.session.full:
            self._file_unchanged(present)
        return present

    def refuse_all(self, error: Exception) -> None:
        """The Fetch failed with an error that no retry mends: report it for each partition that is
        still wanted."""
        for tp, wanted in self.asked.wanted.items():
            cursor = self.cursors.get(tp)
            if cursor is not None and cursor.still_wants(wanted):
                self._refuse(cursor, explained(error, _place(cursor), Answer.FETCH))

    def news(self) -> Iterator[Message]:
        """The messages to the application and the metadata manager that follow from the answer."""
        if not self.served:
            for cursor in self._cut_off:
                # No partition of the whole answer has a complete batch.
                self._retry_later(cursor, "no complete batch was sent")
        for because, partitions in self._failed.items():
            self.log.warning(
                "fetch.failed", node=self.asked.node, partitions=partitions, because=because
            )
        if self.chunks:
            yield RecordsFetched(chunks=tuple(self.chunks))
        if self._diverged:
            yield PositionsDiverged(partitions=self._diverged)
        if self._moved:
            topic_ids = {tp.topic: self.asked.wanted[tp].topic_id for tp in self._moved}
            leaders = {moved.leader for moved in self._moved.values()}
            brokers = {node: it for node, it in self._endpoints.items() if node in leaders}
            yield LeadersMoved(leaders=self._moved, topic_ids=topic_ids, brokers=brokers)
        if self._unknown_epochs:
            yield LeaderEpochsUnknown(epochs=self._unknown_epochs, now=self.now)
        if self._stale:
            yield RefreshMetadata(because=self._stale)

    # -- one partition

    def _file(self, tp: TopicPartition, fetched: FetchedPartition) -> None:
        wanted = self.asked.wanted.get(tp)
        if wanted is None:
            self._trace_drop(tp, fetched, because="it was not asked for")
            return
        if not fetched.error_code:
            self.session.note_watermarks(tp, _watermarks(fetched))
        cursor = self.cursors.get(tp)
        if cursor is None or not cursor.still_wants(wanted):
            if fetched.records or fetched.error_code:
                self._trace_drop(tp, fetched, because="the partition has moved on")
        elif fetched.error_code:
            self._on_error(cursor, fetched)
        elif fetched.diverging_epoch is not None:
            self._on_divergence(cursor, fetched.diverging_epoch)
        else:
            self._on_data(cursor, fetched)

    def _trace_drop(self, tp: TopicPartition, fetched: FetchedPartition, *, because: str) -> None:
        self.log.info(
            "fetch.dropped",
            partition=tp,
            size=len(fetched.records),
            error_code=fetched.error_code,
            because=because,
        )

    def _file_unchanged(self, present: Collection[TopicPartition]) -> None:
        """An incremental answer (KIP-227) omits unchanged partitions. A cursor of a newer partition
        epoch does not know their watermarks yet: tell them again."""
        for tp, wanted in self.asked.wanted.items():
            cursor = self.cursors.get(tp)
            if cursor is None or cursor.told_watermarks is not None or tp in present:
                continue
            watermarks = self.session.watermarks(tp)
            if watermarks is not None and cursor.still_wants(wanted):
                self._tell_watermarks(cursor, watermarks)

    # -- what it brings

    def _on_data(self, cursor: FetchCursor, fetched: FetchedPartition) -> None:
        brought = extent(fetched.records, cursor.at)
        if brought.size:
            self._deliver(cursor, fetched, brought)
        else:
            self._tell_watermarks(cursor, _watermarks(fetched))
        if fetched.preferred_read_replica >= 0:
            self._prefer_replica(cursor, fetched.preferred_read_replica)
        elif brought.size or not fetched.records:
            cursor.try_again()
        else:
            self._cut_off.append(cursor)

    def _on_divergence(self, cursor: FetchCursor, diverging: tuple[int, int]) -> None:
        """The broker does not have what we have read (KIP-595): do not fetch on until the
        application has another position. A follower may only be behind its leader, so that its
        leader is asked."""
        node = self.asked.node
        if cursor.prefers(node):
            cursor.leave_replica(because="its log diverges")
            self._retry_later(cursor, "the log of a follower diverges")
            return
        epoch, offset = diverging
        cursor.stop("its log was truncated")
        self._diverged[cursor.tp] = Divergence(
            epoch=cursor.epoch,
            position=cursor.position,
            end=Position(offset=offset, leader_epoch=epoch) if offset >= 0 <= epoch else None,
            node=node,
        )

    def _deliver(self, cursor: FetchCursor, fetched: FetchedPartition, brought: Extent) -> None:
        following = brought.following
        chunk = Chunk(
            partition=cursor.tp,
            epoch=cursor.epoch,
            offset=cursor.at,
            end=following,
            data=fetched.records[: brought.size],
            size=len(fetched.records) + CHUNK_OVERHEAD,
            incarnation=self.incarnation,
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.last_stable_offset,
            log_start_offset=fetched.log_start_offset,
            aborted=fetched.aborted,
            came_at=self.now,
            newest=brought.newest,
        )
        self.chunks.append(chunk)
        self.served.append(cursor)
        cursor.buffer(following, chunk.size, _watermarks(fetched))
        if following == cursor.offset:
            # No batch of the answer moves the offset forward, so we would fetch the same batches
            # again and again: stop. (If a batch is corrupt, the reader raises for that batch before
            # it gets to this error.)
            self._halt(cursor, _corrupt(cursor, "no batch of the answer moves the offset forward"))
        leader_epoch = self.asked.wanted[cursor.tp].leader_epoch
        cursor.move_on(following, brought.leader_epoch, leader_epoch)

    def _tell_watermarks(self, cursor: FetchCursor, watermarks: Watermarks) -> None:
        """Send a chunk without records, if the application does not know these watermarks yet."""
        if not cursor.tell_watermarks(watermarks):
            return
        self.chunks.append(
            Chunk(
                partition=cursor.tp,
                epoch=cursor.epoch,
                offset=cursor.at,
                high_watermark=watermarks.high_watermark,
                last_stable_offset=watermarks.last_stable_offset,
                log_start_offset=watermarks.log_start_offset,
                came_at=self.now,
            )
        )

    def _prefer_replica(self, cursor: FetchCursor, replica: int) -> None:
        """The leader names a replica in our rack: fetch from it from now on (KIP-392)."""
        if replica == self.asked.node:
            return
        if replica not in self.cluster.brokers:
            self._stale = f"the preferred replica {replica} of {cursor.name} is unknown"
            self._retry_later(cursor, "its preferred replica is unknown")
            return
        cursor.prefer_replica(replica, until=self.now + self.replica_age)

    # -- what is refused

    def _on_error(self, cursor: FetchCursor, fetched: FetchedPartition) -> None:
        code, tp, node = fetched.error_code, cursor.tp, self.asked.node
        if cursor.source(self.cluster, self.now) != node:
            self._trace_drop(tp, fetched, because="it is read from another node by now")
            return
        error = error_of(code)
        from_replica = cursor.prefers(node)
        if from_replica:
            cursor.leave_replica(because=error.__name__)
        answer = Answer.FETCH_FOLLOWER if from_replica else Answer.FETCH_PARTITION
        meaning = means(answer, error)

        if Do.REFRESH_METADATA in meaning:
            self._on_stale(cursor, fetched, await_topic=Do.AWAIT_TOPIC in meaning)
        elif Do.RESET_POSITION in meaning:
            self._halt(cursor, OffsetOutOfRangeError({tp: cursor.at}))
        elif Do.RAISE in meaning:
            self._refuse(cursor, self._refusal(cursor, error, answer))
        else:
            epoch = self.asked.wanted[tp].leader_epoch
            if doubts_epoch(error) and not from_replica and cursor.last_epoch < epoch:
                self._unknown_epochs[tp] = epoch
            self._retry_later(cursor, error.__name__)

    def _refusal(self, cursor: FetchCursor, error: type[Exception], answer: Answer) -> Exception:
        by = named_node(self.asked.node, self.cluster.brokers)
        if error is TopicAuthorizationFailedError:
            return topics_refused(error, [cursor.tp.topic], answer, by=by)
        if error is CorruptRecordError:
            return _corrupt(cursor, f"{by} cannot read it")
        return refused(error, _place(cursor), answer, by=by)

    def _on_stale(
        self, cursor: FetchCursor, fetched: FetchedPartition, *, await_topic: bool
    ) -> None:
        """The broker does not have the partition, or does not lead it any more. It may name the new
        leader (KIP-951)."""
        because = error_of(fetched.error_code).__name__
        new = _newer_leader(fetched, cursor.leader)
        if new is not None:
            self._moved[cursor.tp] = new
            if new.leader in self.cluster.brokers:
                cursor.move_to(new, self.cluster, because=because)
                return
            if new.leader in self._endpoints:
                # The metadata manager hears where it is, and tells it in its next snapshot.
                self._retry_later(cursor, because)
                return
        self._stale = f"node {self.asked.node} refused {cursor.name}: {because}"
        self._retry_later(cursor, because)
        if await_topic:
            # The topic may be deleted and created again. Wait until the metadata says so: an old
            # offset must not be read in the new topic.
            cursor.rest(until=self.now + UNKNOWN_PACE)

    def _retry_later(self, cursor: FetchCursor, because: str) -> None:
        cursor.retry_later(self.now, self.jitter, because)
        self._failed.setdefault(because, []).append(cursor.tp)

    def _halt(self, cursor: FetchCursor, error: Exception) -> None:
        """Tell the application the error, after the records already buffered. Do not fetch the
        partition until a seek or a reset."""
        cursor.stop(str(error))
        self._tell_error(cursor, error)
        self.log.warning("fetch.stopped", partition=cursor.tp, offset=cursor.at, because=error)

    def _refuse(self, cursor: FetchCursor, error: Exception) -> None:
        """Tell the application the error once, and retry from time to time: an operator may mend
        the cause."""
        if not cursor.refused(until=self.now + REFUSED_PAUSE, because=str(error)):
            return
        self._tell_error(cursor, error)
        self.log.warning("fetch.refused", partition=cursor.tp, offset=cursor.at, because=error)

    def _tell_error(self, cursor: FetchCursor, error: Exception) -> None:
        self.chunks.append(
            Chunk(partition=cursor.tp, epoch=cursor.epoch, offset=cursor.at, error=error)
        )


def _newer_leader(fetched: FetchedPartition, known: PartitionInfo | None) -> PartitionInfo | None:
    if fetched.current_leader is None:
        return None
    leader, epoch = fetched.current_leader
    if leader < 0 or epoch <= (-1 if known is None else known.leader_epoch):
        return None
    return PartitionInfo(leader=leader, leader_epoch=epoch)


def _watermarks(fetched: FetchedPartition) -> Watermarks:
    return Watermarks(fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset)


def _place(cursor: FetchCursor) -> str:
    return f"{cursor.name} at offset {cursor.offset}"


def _corrupt(cursor: FetchCursor, reason: str) -> CorruptBatchError:
    return CorruptBatchError(
        topic=cursor.tp.topic,
        partition=cursor.tp.partition,
        offset=cursor.at,
        reason=reason,
    )
