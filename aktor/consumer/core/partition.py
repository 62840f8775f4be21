"""One assigned partition, as the application thread sees it: its position and its buffer.

Only its own methods change its fields; each method is named after what has happened in Kafka.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafka.structs import TopicPartition

from aktor.errors import RecordDeserializationError
from aktor.events.fetching import Chunk
from aktor.events.positions import Assigned, Position, Reset
from aktor.protocol.error_codes import is_corrupt
from aktor.records import RecordReader
from aktor.records.extent import timestamp_from
from aktor.state_table import follow

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

    from aktor.consumer.core.runs import Untold

__all__ = ["STAGES", "Consumed", "Partition", "Stage", "StageEvent"]


class Stage(Enum):
    """Whether records may be given out, as far as the group is concerned (as in Java's
    SubscriptionState: pendingOnAssignedCallback, pendingRevocation).

    A partition of `assign()` begins as OWNED. A partition that is removed is forgotten as a whole.
    """

    # A rebalance may move thousands of partitions. Enum.__hash__ is Python code; see
    # `managers/membership/classic/states`.
    __hash__ = object.__hash__

    PENDING_CALLBACK = "pending callback"
    """The group has assigned it. `on_partitions_assigned` has not returned yet, or has failed;
    chunks that arrive are kept."""

    OWNED = "owned"
    """Its records may be given out, unless the user has paused it."""

    PENDING_REVOCATION = "pending revocation"
    """It is about to be revoked; chunks that arrive are dropped. The end: the partition is removed
    when the callback has returned."""


class StageEvent(Enum):
    """What leads from one stage to the next."""

    __hash__ = object.__hash__

    DELIVERED = "on_partitions_assigned has returned"
    REVOKED = "a revocation, a loss or a leave begins"


_S, _E = Stage, StageEvent

#: The whole machine. DELIVERED is told to all partitions of the assignment, also to those that were
#: owned before. It is told to one that is about to be revoked if the callback has called
#: `unsubscribe`, which was interrupted, and has caught the interrupt. REVOKED is told twice: when
#: delivery stops and before the callback.
STAGES: Final[Mapping[Stage, Mapping[StageEvent, Stage]]] = {
    _S.PENDING_CALLBACK: {_E.DELIVERED: _S.OWNED, _E.REVOKED: _S.PENDING_REVOCATION},
    _S.OWNED: {_E.DELIVERED: _S.OWNED, _E.REVOKED: _S.PENDING_REVOCATION},
    _S.PENDING_REVOCATION: {
        _E.DELIVERED: _S.PENDING_REVOCATION,
        _E.REVOKED: _S.PENDING_REVOCATION,
    },
}


#: A time without a record that is as long, in seconds, is remembered, and so many of them, the last
#: ones (see `Partition.give`): more than there are between two looks of the watch.
GAP: Final = 0.5
GAPS_KEPT: Final = 16

#: So many leader epochs are remembered, the last ones.
EPOCHS_KEPT: Final = 63

#: The epoch of a partition that is not assigned any more. No batch, chunk or answer has it.
RELEASED: Final = -1


#: The consumed position, its leader epoch, and the leader epochs of what was given out before it.
Consumed = tuple[int | None, int, tuple[tuple[int, int], ...]]


class Partition:
    """One assigned partition.

    `epoch` is raised by each seek; what the application has noted in an older one is stale.
    `fetch_epoch` is the one in which the background fetches: chunks of an older one are dropped. It
    is the lower one after a seek that goes forward in what is buffered: what is fetched stays.

    `offset` is the consumed position: the next record to give out, None until it is resolved.
    `taken` is how far its records were decoded: the two differ while records are on their way to
    the user. An interrupt may come between any two lines; the next call goes on from `epoch`,
    `offset`, `paused` and `reset` (if there is a reset, it wins over the offset).
    """

    __slots__ = (
        "_decoded",
        "_epoch_before_held",
        "_failed_offset",
        "chunks",
        "epoch",
        "epochs",
        "error",
        "failed_at",
        "fetch_epoch",
        "fetched_anew",
        "gaps",
        "given_at",
        "held",
        "leader_epoch",
        "left",
        "log_ends",
        "log_ends_at",
        "log_start",
        "offset",
        "open_at",
        "paused",
        "paused_at",
        "read_until",
        "reader",
        "released_at",
        "reset",
        "stage",
        "subscribed",
        "topic_partition",
        "untold",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        epoch: int,
        *,
        delivering: bool = True,
        now: float = -math.inf,
    ) -> None:
        self.topic_partition = topic_partition
        self.epoch = epoch
        self.fetch_epoch = epoch
        self.offset: int | None = None
        self.leader_epoch = -1
        #: `taken`, and the leader epoch of the record before it (-1: unknown).
        self._decoded: tuple[int | None, int] = (None, -1)
        #: Leader epochs of the records given out since the position was set, as (epoch, start): no
        #: record below `start` has that epoch. Elections are rare, so these are few.
        self.epochs: tuple[tuple[int, int], ...] = ()
        self.paused = False
        #: Since when it is paused, has its error, and has an open transaction behind what
        #: `read_committed` gives out; by the application's clock.
        self.paused_at = self.failed_at = self.open_at = -math.inf
        self._failed_offset: int | None = None
        #: Its topic is subscribed. If not, the group has yet to revoke it.
        self.subscribed = True
        self.stage = Stage.OWNED if delivering else Stage.PENDING_CALLBACK
        #: Why no more of its records can be delivered: no position, a broker's error, a record that
        #: cannot be read. Kept until it was raised and may have passed, or until a seek.
        self.error: Exception | None = None
        #: `error` is about a corrupt batch that is fetched again. The next chunk clears the error.
        self.fetched_anew = False
        #: Where we stood when the group took it away, just before it gave it back.
        self.left: Position | None = None
        #: The reset that the position manager has not answered; sent again after a restart.
        self.reset: Reset | None = None
        #: The high watermark and the last stable offset, as the latest Fetch told them.
        self.log_ends: tuple[int, int] | None = None
        #: When the answer came that told them last, by the consumer's clock.
        self.log_ends_at = -math.inf
        #: The first offset of the log, as the latest Fetch told it.
        self.log_start: int | None = None
        #: The newest timestamp of the last batch that was read, in ms since the epoch, once its
        #: chunk is; -1: there was none, or the batch is of an old format.
        self.read_until = -1
        self.chunks: deque[Chunk] = deque()
        self.reader: RecordReader | None = None
        #: Records that were decoded for an iteration and not handed out; given out first.
        self.held: list[ConsumerRecord] = []
        #: The leader epoch of the record before these (-1: unknown).
        self._epoch_before_held = -1
        #: When its last records were given out (at first: when it was assigned), and the last times
        #: before that in which none were, from when to when. By the application's clock.
        self.given_at = now
        self.gaps: tuple[tuple[float, float], ...] = ()
        #: When it was taken away (inf: it is assigned).
        self.released_at = math.inf
        #: What the trace was told last of what polls have given out; None: nothing yet.
        self.untold: Untold | None = None

    # -- what happens to it

    def deliver(self) -> None:
        """`on_partitions_assigned` has returned: the buffered records may be given out."""
        self._on(StageEvent.DELIVERED)

    def pause(self, now: float) -> None:
        """The user has paused it."""
        if not self.paused:
            self.paused_at = now
        self.paused = True

    def resume(self) -> None:
        """The user has resumed it."""
        self.paused = False

    def follow_subscription(self, *, subscribed: bool) -> None:
        """Its topic is subscribed, or not any more."""
        self.subscribed = subscribed

    def revoke(self) -> None:
        """The partition is about to be revoked: deliver no more of its records."""
        self._on(StageEvent.REVOKED)

    def release(self, now: float = math.inf) -> None:
        """The partition is no longer assigned: an iteration must not hand out records of it."""
        self.released_at = now
        self.epoch = self.fetch_epoch = RELEASED

    def _on(self, event: StageEvent) -> None:
        self.stage = follow(STAGES, self.stage, event)

    def seek(self, epoch: int, position: Position | None, reset: Reset | None = None) -> None:
        """Go to this position in a new epoch; None: it is looked up, as `reset` says, which has the
        same epoch."""
        self.epoch = self.fetch_epoch = epoch
        self.move_to(position, reset)

    def pass_to(self, epoch: int, offset: int) -> None:
        """Go forward to this offset in a new epoch; what is buffered stays (see `reaches`)."""
        taken = self.taken
        assert taken is not None, "what is buffered begins at a position"
        self.epoch = epoch
        self.leader_epoch = -1
        self.offset = offset
        if offset > taken:
            self.error = None
        self._decoded = (taken, self.taken_epoch) if offset < taken else (offset, -1)
        self.held = [record for record in self.held if record.offset >= offset]
        self._epoch_before_held = -1

    def move_to(self, position: Position | None, reset: Reset | None = None) -> None:
        """Set the position, or forget it; `reset` says which position is looked up then."""
        self.reset = reset or self.reset
        self.left = None
        self.leader_epoch = -1
        self.epochs = ()  # they are not those of the next offset
        self.offset = None if position is None else position.offset
        self.leader_epoch = -1 if position is None else position.leader_epoch
        self._decoded = self.offset, self.leader_epoch
        self.epochs = (
            ()
            if position is None or position.leader_epoch < 0
            else ((position.leader_epoch, position.offset),)
        )
        self.error = None
        self.failed_at = -math.inf
        self.fetched_anew = False
        self.read_until = -1
        self.reset = reset

    def renew(self, epoch: int) -> None:
        """Stay at the position in a new epoch. The leader epochs that led to it stay as well."""
        self.epoch = self.fetch_epoch = epoch
        self._decoded = self.offset, self.leader_epoch
        self.error = None
        self.fetched_anew = False

    def fetch_anew(self, epoch: int) -> None:
        """The next batch is corrupt: fetch it again in a new epoch."""
        error = self.error
        self.renew(epoch)
        self.error = error
        self.fetched_anew = True

    def give(self, first: float, last: float) -> None:
        """Records of it were given out: the first and the last of them then."""
        if first - self.given_at >= GAP:
            self.gaps = (*self.gaps[1 - GAPS_KEPT :], (self.given_at, first))
        self.given_at = last

    def was_traced(self, told: Untold) -> None:
        """The trace was told of records that a poll has given out."""
        self.untold = told

    def advance(self, offset: int, leader_epoch: int) -> None:
        """The user has been given all records below `offset`."""
        self.leader_epoch = -1  # if an interrupt comes here, the old epoch would be wrong
        if leader_epoch > (self.epochs[-1][0] if self.epochs else -1) and self.offset is not None:
            self.epochs = (*self.epochs[-EPOCHS_KEPT:], (leader_epoch, self.offset))
        self.offset = offset
        self.leader_epoch = leader_epoch

    def take_back(self, to: Consumed) -> None:
        """The last records did not reach the user: set the consumed position back to what
        `consumed` was before them."""
        self.offset, self.leader_epoch, self.epochs = to

    def common_with(self, end: Position | None) -> Position | None:
        """Where to read on in the log of a leader that has our records up to `end`: the position,
        or before it if records were given out that the leader does not have. None: nobody knows.

        The leader has the epochs up to that of `end`. What was given out with a later epoch is not
        in its log, even if its log is longer than the position (after two unclean elections). What
        was given out before that may have an older epoch than `end`. The position has the older
        one, so that the leader is asked where that epoch ends in its log.
        """
        if end is None or self.offset is None:
            return None
        begins = [start for epoch, start in self.epochs if epoch > end.leader_epoch]
        offset = min(self.offset, end.offset, *begins)
        given = [epoch for epoch, start in self.epochs if start < offset < end.offset]
        epoch = min(end.leader_epoch, given[-1]) if given else end.leader_epoch
        if offset == self.offset:
            epoch = min(epoch, self.leader_epoch)
        return Position(offset=offset, leader_epoch=epoch)

    def fail(self, error: Exception, now: float) -> None:
        """No more of its records can be delivered, because of this error."""
        if self.failed_at == -math.inf or self._failed_offset != self.taken:
            self.failed_at = now  # else a corrupt batch was fetched anew, and is corrupt again
        self._failed_offset = self.taken
        self.error = error

    def forget_error(self) -> None:
        """The error was raised, and may have passed."""
        self.error = None

    # -- what is buffered

    def receive(self, chunk: Chunk, now: float = -math.inf) -> bool:
        """A Fetch answer has brought the ends of the log, and perhaps records or an error.

        Returns True if the chunk is buffered.
        """
        if chunk.high_watermark >= 0:
            stable = chunk.last_stable_offset
            if stable >= chunk.high_watermark:
                self.open_at = -math.inf
            elif self.open_at == -math.inf or stable != self.last_stable_offset:
                self.open_at = now
            self.log_ends = (chunk.high_watermark, stable)
            self.log_ends_at = now if chunk.came_at == -math.inf else chunk.came_at
        if chunk.log_start_offset >= 0:
            self.log_start = chunk.log_start_offset
        if not chunk.size and chunk.error is None:
            return False
        if self.fetched_anew or (self._is_unreadable and chunk.error is None):
            self.error = None
            self.fetched_anew = False
        self.chunks.append(chunk)
        return True

    @property
    def _is_unreadable(self) -> bool:
        """Whether its error is CORRUPT_MESSAGE: the broker cannot read the batch. The fetch manager
        asks again from time to time, so bytes that come are sound. (A batch that we cannot decode
        stays in `chunks`: its error stands.)"""
        return is_corrupt(self.error) and not self.chunks

    def reaches(self, offset: int) -> bool:
        """Whether reading can go on at this offset without fetching again.

        It must not be before the position, nor beyond what is buffered without a gap. It may be the
        end of that: the Fetch in flight goes on from there. Beyond an error of a broker, or a
        corrupt batch, it must be fetched again; beyond a record that a deserializer refused not.
        """
        end = self.taken
        if self.offset is None or end is None or offset < self.offset:
            return False
        if self.is_unwanted or self.fetched_anew:
            return False
        if self.error is not None:
            if not isinstance(self.error, RecordDeserializationError):
                return False
            if offset <= self.error.offset:
                return bool(self.held) and offset < end
        elif offset <= end:
            return bool(self.held) or offset == end
        for place, chunk in enumerate(self.chunks):
            if chunk.error is not None or (chunk.offset != end and (place or self.reader is None)):
                return False  # a broker's error, or a gap
            end = chunk.end
            if offset <= end:
                return True
        return False

    def read_by(self, reader: RecordReader) -> RecordReader:
        """Decode the next chunk with this reader."""
        self.reader = reader
        return reader

    def take_up_to(self, offset: int, leader_epoch: int) -> None:
        """All records below `offset` are decoded; `leader_epoch` is -1 if no record had one."""
        self._decoded = offset, leader_epoch if leader_epoch >= 0 else self._decoded[1]

    def end_chunk(self) -> Chunk:
        """The next chunk is decoded to its end."""
        chunk = self.chunks.popleft()
        self.reader = None
        self.read_until = chunk.newest
        return chunk

    def take_refusal(self) -> Exception | None:
        """Remove and return the broker's error, if the next chunk has one."""
        if self.offset is None or self.error is not None or not self.chunks:
            return None
        refusal = self.chunks[0].error
        if refusal is not None:
            self.chunks.popleft()
        return refusal

    @property
    def next_timestamp(self) -> int:
        """The timestamp of the next record that is decoded (see `RecordReader`), or, if none is
        here, the newest of what was decoded last; -1: not known. From any thread."""
        if held := self.held:
            return int(held[0].timestamp)
        reader, chunks = self.reader, self.chunks.copy()
        if reader is not None and (found := reader.next_timestamp) >= 0:
            return found
        for chunk in islice(chunks, int(reader is not None), None):
            if (found := timestamp_from(chunk.data, 0, self.taken or 0)) >= 0:
                return found
        return self.read_until

    def hold(self, records: list[ConsumerRecord]) -> None:
        """Keep these records, which were decoded and not delivered: they are delivered first. The
        position is before them."""
        self.held = records + self.held
        self._epoch_before_held = self.leader_epoch

    def take_held(self, limit: int) -> list[ConsumerRecord]:
        """Take up to `limit` of the records that are held."""
        records, self.held = self.held[:limit], self.held[limit:]
        self._epoch_before_held = records[-1].leader_epoch
        return records

    def drop_buffered(self) -> Iterable[Chunk]:
        """Drop chunks and decoded records; reading goes on at the position.

        Returns the chunks.
        """
        dropped: Iterable[Chunk] = ()
        if self.chunks:
            dropped, self.chunks = self.chunks, deque()
        self.reader = None
        self.held = []
        self._decoded = self.offset, self.leader_epoch
        return dropped

    @property
    def buffered_bytes(self) -> int:
        """The bytes of its chunks. From any thread."""
        return sum(chunk.size for chunk in self.chunks.copy())

    # -- what follows from it

    @property
    def taken(self) -> int | None:
        """How far its records were decoded."""
        return self._decoded[0]

    @property
    def taken_epoch(self) -> int:
        """The leader epoch of the last record that was decoded, -1 if it is not known."""
        return self._decoded[1]

    @property
    def high_watermark(self) -> int | None:
        """The offset after the last replicated record, None before the first Fetch."""
        return None if self.log_ends is None else self.log_ends[0]

    @property
    def last_stable_offset(self) -> int | None:
        """Where `read_committed` ends: the first offset of the earliest open transaction, else the
        high watermark."""
        return None if self.log_ends is None else self.log_ends[1]

    @property
    def lag_behind(self) -> int:
        """How many offsets are behind what is decoded, up to the high watermark; 0 if unknown."""
        if self.log_ends is None or self.taken is None:
            return 0
        return max(0, self.log_ends[0] - self.taken)

    @property
    def position(self) -> Position | None:
        """The consumed position, if there is one."""
        if self.offset is None:
            return None
        return Position(offset=self.offset, leader_epoch=self.leader_epoch)

    @property
    def consumed(self) -> Consumed:
        """The consumed position and the leader epochs that led to it, for `take_back`."""
        return self.offset, self.leader_epoch, self.epochs

    @property
    def assigned(self) -> Assigned:
        """The partition as the background is told of it."""
        return Assigned(
            epoch=self.fetch_epoch,
            position=self.position,
            ahead=not self.fetched_anew,
            left=self.left if self.offset is None else None,
        )

    @property
    def open(self) -> bool:
        """Whether records may be given out, if there are any."""
        return self.stage is Stage.OWNED and not self.paused and self.subscribed

    @property
    def fetchable(self) -> bool:
        """Whether it should be fetched."""
        return not self.paused and not self.is_unwanted

    @property
    def is_unwanted(self) -> bool:
        """Whether it is about to be revoked, or its topic is not subscribed any more: nothing is
        fetched for it, what arrives is dropped."""
        return self.stage is Stage.PENDING_REVOCATION or not self.subscribed

    @property
    def ready(self) -> bool:
        """Whether there are records to give out now."""
        if not self.held and (not self.chunks or self.error is not None):
            return False
        return self.open and self.offset is not None

    @property
    def error_is_next(self) -> bool:
        """Whether its error is to be raised now: no record from before the error is left."""
        if self.error is None or self.held or not self.subscribed:
            return False
        return self.offset is None or self.open

    @property
    def all_given_out(self) -> bool:
        """Whether its error is to be raised now, and the position is the offset of the error."""
        return self.error_is_next and self.offset is not None and self.offset == self.taken

    @property
    def next_to_give(self) -> int | None:
        """The offset of the next record to give out, by what is decoded: the first one in `held`,
        else the one after all that were decoded."""
        return self.held[0].offset if self.held else self.taken

    @property
    def epoch_before_next(self) -> int:
        """The leader epoch of the record before `next_to_give`, -1 if it is not known. It is not
        that of the last decoded record, if some are held: an election may be among these."""
        return self._epoch_before_held if self.held else self.taken_epoch
