"""The assigned partitions, their positions, and the fetched records that are given out.

Only the application thread uses it. Each partition has an epoch, which each assign and seek raises.
Data that was fetched for an older epoch is dropped here, so that no lock is needed; only a seek
forward in what is buffered keeps what is fetched (`pass_to`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.caller import CallerRef, is_another, is_this, nobody, this_caller
from aktor.consumer.core.consumption import Consumption
from aktor.consumer.core.credit import Credit
from aktor.consumer.core.partition import Consumed, Partition
from aktor.consumer.core.rows import Filling, Rows
from aktor.consumer.core.runs import Untold, runs
from aktor.events.fetching import Chunk
from aktor.events.positions import (
    Assigned,
    LogsTruncated,
    Position,
    PositionsFailed,
    PositionsResolved,
    Reset,
    ResetStrategy,
)
from aktor.events.routes import APPLICATION
from aktor.records import Columns, RecordReader
from aktor.trace import Trace

__all__ = ["NO_OFFSETS", "Delivery", "Given", "InHand", "ReaderMaker"]

#: Partitions are assigned without saying where they begin.
NO_OFFSETS: Final[Mapping[TopicPartition, int]] = MappingProxyType({})
NOWHERE: Final[Mapping[TopicPartition, Position]] = MappingProxyType({})

#: Makes the reader of one chunk.
ReaderMaker: TypeAlias = Callable[[Chunk], RecordReader]

#: A partition whose records were given out, its epoch, and its position before them.
Given: TypeAlias = tuple[Partition, int, Consumed]


class Delivery:
    """Owns the assignment as applied, the consumed positions, the paused set and the buffer."""

    def __init__(
        self,
        make_reader: ReaderMaker,
        trace: Trace,
        isolation_level: str = "read_uncommitted",
        consumption: Consumption | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock = clock
        #: The owned partitions. Replaced as a whole, never changed, so that any thread may read it.
        self.partitions: Mapping[TopicPartition, Partition] = {}
        #: How much of the fetch manager's room the buffered chunks take.
        self.credit = Credit()
        #: Counts of all decoded records.
        self.consumption = consumption or Consumption()
        #: Partitions to be fetched again from their positions, because fetched records had a gap.
        self.offset_gaps: set[TopicPartition] = set()
        #: Truncations that were told and not acted on yet.
        self.truncations: list[LogsTruncated] = []
        self.log = trace.bind(actor=APPLICATION)
        #: Tells what happens to records: nothing that is done later has it as its cause.
        self._aside = self.log.aside()
        #: The event that led to it that what was fetched of a partition was dropped. What was on
        #: its way then is dropped when it comes. While nobody listens there is nothing here.
        self._moved_on: dict[TopicPartition, int] = {}
        self._make_reader = make_reader
        self._isolation_level = isolation_level
        self._epoch = 0
        #: Partitions whose positions have moved since they were last reported.
        self.moved: dict[TopicPartition, None] = {}
        #: Partitions that had an error when last seen, in the order in which they are raised; True
        #: if it was raised already.
        self._failed: dict[TopicPartition, bool] = {}
        #: Partitions that may have records to give out, in this order. A partition that becomes
        #: ready is put at the end; if it is not ready at its turn, it is removed.
        self._queue: OrderedDict[Partition, None] = OrderedDict()
        #: Paused partitions with buffered records, and some that had such records.
        self._idle: OrderedDict[Partition, None] = OrderedDict()
        #: What polls gave out, and is not traced yet.
        self._untold: dict[TopicPartition, Untold] = {}
        #: The positions before the last records were given out: (partition, its epoch, its offset,
        #: its leader epoch).
        self.given: list[Given] = []
        #: The thread that was given them.
        self.given_to: CallerRef = nobody

    # -- assignment

    def next_epoch(self) -> int:
        """A number that no partition has had before."""
        self._epoch += 1
        return self._epoch

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        offsets: Mapping[TopicPartition, int] = NO_OFFSETS,
        *,
        by_group: bool = False,
        left: Mapping[TopicPartition, Position] = NOWHERE,
    ) -> None:
        """Own exactly these partitions; those that were owned before keep their state, unless
        `offsets` gives them another position. `left`: where we stood in those that were taken away.

        Records of partitions that a group assigns are given out after `deliver`, when the listener
        has returned.
        """
        wanted = dict.fromkeys(partitions)
        kept = self.partitions.keys() & wanted.keys() - offsets.keys()
        self._forget(self.partitions.keys() - kept)
        owned = {
            partition: state for partition, state in self.partitions.items() if partition in kept
        }
        added = {}
        for partition in wanted:
            if partition not in owned:
                state = Partition(
                    partition, self.next_epoch(), delivering=not by_group, now=self._clock()
                )
                state.left = left.get(partition)
                if partition in offsets:
                    state.move_to(Position(offset=offsets[partition]))
                owned[partition] = state
                added[partition] = state.epoch
        if added:  # traced first: if the rest is interrupted, it is repeated without a trace
            self.log.info(
                "partitions.assigned",
                partitions=added,
                by_group=by_group,
                isolation=self._isolation_level,
            )
        self._own(owned)

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions; their buffered records are dropped."""
        gone = self.partitions.keys() & topic_partitions
        self._forget(gone)
        self._own(
            {
                partition: state
                for partition, state in self.partitions.items()
                if partition not in gone
            }
        )

    def _forget(self, gone: Set[TopicPartition]) -> None:
        if gone:
            self.log.info("partitions.released", partitions=self.offsets(gone))
        for partition in gone:
            self._drop_buffered(self.partitions[partition])
            self._idle.pop(self.partitions[partition], None)
            self.moved.pop(partition, None)

    def _own(self, partitions: dict[TopicPartition, Partition]) -> None:
        """Assign exactly these partitions, and only then release the others: an interrupt must not
        leave a partition that is assigned and has no epoch."""
        before, self.partitions = self.partitions, partitions
        for partition, state in before.items():
            if partitions.get(partition) is not state:
                state.release(self._clock())

    def seek(self, topic_partition: TopicPartition, position: Position) -> Partition:
        """Go to this position, in a new epoch."""
        state = self.partitions[topic_partition]
        self._drop_buffered(state)
        state.seek(self.next_epoch(), position)
        self.moved[topic_partition] = None
        return state

    def renew(self, state: Partition) -> None:
        """Stay at the position, in a new epoch: what was fetched before is dropped."""
        self._drop_buffered(state)
        state.renew(self.next_epoch())
        if state.offset is not None:
            self.moved[state.topic_partition] = None

    def pass_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Go forward to this offset in what is buffered, in a new epoch. To the background it is as
        if the records before it had been given out: what is fetched stays, and is on its way.

        False: it is not buffered, or cannot be found in the buffer. Then seek.
        """
        state = self.partitions[topic_partition]
        if not state.reaches(offset):
            return False
        assert state.taken is not None, "what is buffered begins at a position"
        is_decoded = offset <= state.taken
        state.pass_to(self.next_epoch(), offset)
        while state.chunks and 0 <= state.chunks[0].end <= offset:
            self._finish_chunk(state)
        if not is_decoded and not self._skip_to(state, offset):
            return False
        self.moved[topic_partition] = None
        self._enqueue(state)
        return True

    def _skip_to(self, state: Partition, offset: int) -> bool:
        """Let the reader of the next chunk begin at this offset; False: it cannot find it."""
        if state.error is not None or not state.chunks or state.chunks[0].offset >= offset:
            return True
        reader = state.reader or state.read_by(self._make_reader(state.chunks[0]))
        return reader.skip_to(offset)

    def reset(
        self,
        topic_partition: TopicPartition,
        strategy: ResetStrategy | None = None,
        from_offset: int | None = None,
    ) -> Reset:
        """Forget the position, in a new epoch. Returns the reset, which says how the next position
        is looked up."""
        state = self.partitions[topic_partition]
        self._drop_buffered(state)
        reset = Reset(epoch=self.next_epoch(), strategy=strategy, from_offset=from_offset)
        state.seek(reset.epoch, None, reset)
        return reset

    def fetch_anew(self, state: Partition) -> None:
        """The buffered data of the partition begins with corrupt bytes: drop it, begin a new epoch.

        The position and the error stay.
        """
        self._drop_buffered(state)
        state.fetch_anew(self.next_epoch())

    def hold_back(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop delivery of these partitions: they are about to be revoked."""
        for partition in topic_partitions:
            state = self.partitions.get(partition)
            if state is not None:
                state.revoke()
                self._drop_buffered(state)

    def follow_subscription(self, wants: Callable[[str], bool]) -> list[Partition]:
        """Stop delivery of partitions whose topics are not wanted, and allow it of the others.

        Returns those for which that is new.
        """
        changed = []
        for partition, state in self.partitions.items():
            if state.subscribed != (wanted := wants(partition.topic)):
                state.follow_subscription(subscribed=wanted)
                changed.append(state)
        return changed

    def tell_sought(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Trace that the application has sought; None: to the beginning or the end."""
        if self.log.hears_debug():
            self.log.debug("position.sought", partitions=positions)
            self._moved_on |= dict.fromkeys(positions, self.log.strand.last)

    def pause(self, topic_partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Pause or resume these partitions."""
        for partition in topic_partitions:
            state = self.partitions[partition]
            if paused:
                state.pause(self._clock())
            else:
                state.resume()
            self._enqueue(state)

    def deliver(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Deliver records of these: `on_partitions_assigned` has returned."""
        for partition in topic_partitions:
            state = self.partitions[partition]
            state.deliver()
            self._enqueue(state)

    def fetchable(self, topic_partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of these partitions that should be fetched: not paused, nor about to leave us."""
        states = self.partitions
        return frozenset(
            [partition for partition in topic_partitions if states[partition].fetchable]
        )

    def as_assigned(self) -> Mapping[TopicPartition, Assigned]:
        """The assignment in the form in which the background is told it."""
        return {partition: state.assigned for partition, state in self.partitions.items()}

    @property
    def topics(self) -> set[str]:
        """The topics of the assigned partitions."""
        return {partition.topic for partition in self.partitions}

    # -- positions

    def offsets(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        """The positions of the owned partitions, for the trace; None: not known yet."""
        owned = self.partitions
        return {
            partition: owned[partition].offset
            for partition in topic_partitions
            if partition in owned
        }

    def consumed(
        self, topic_partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Consumed positions of these partitions (default: all) that have one."""
        found = {}
        for partition in self.partitions if topic_partitions is None else topic_partitions:
            state = self.partitions.get(partition)
            if state is not None and state.offset is not None:
                found[partition] = OffsetAndMetadata(state.offset, "", state.leader_epoch)
        return found

    def take_moved(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Consumed positions that have moved since the last call."""
        if not self.moved:
            return {}
        moved = self.consumed(self.moved)
        self.moved.clear()
        return moved

    @property
    def buffered_bytes(self) -> int:
        """Bytes in the chunks of all partitions."""
        return self.credit.held

    def mark_moved(self, state: Partition) -> None:
        """Report this partition's position with the next Poll."""
        if state.topic_partition in self.partitions:
            self.moved[state.topic_partition] = None

    def recount(self) -> None:
        """Compute the queues and the credit again from the assignment and the buffers."""
        for state in self.partitions.values():
            self._enqueue(state)
        self.moved = dict.fromkeys(self.partitions)
        self.credit.recount(chunk for state in self.partitions.values() for chunk in state.chunks)

    def apply(self, outcome: PositionsResolved | PositionsFailed | LogsTruncated) -> None:
        """A position was found, cannot be found, or is in a log that was truncated."""
        if isinstance(outcome, LogsTruncated):
            self.truncations.append(outcome)
            return
        if isinstance(outcome, PositionsFailed):
            for partition, epoch in outcome.epochs.items():
                state = self.partitions.get(partition)
                if state is not None and state.epoch == epoch:
                    self._fail(state, outcome.error)
            return
        for partition, assigned in outcome.partitions.items():
            state = self.partitions.get(partition)
            if state is None or state.epoch != assigned.epoch or state.offset is not None:
                self._aside.debug(
                    "position.dropped",
                    partitions=[partition],
                    because="it is for an older epoch",
                )
                continue
            state.move_to(assigned.position)
            self.moved[partition] = None
            self._look_for_refusal(state)
            self._enqueue(state)

    def forget_truncations(self) -> None:
        """The truncations were acted on."""
        self.truncations = []

    def refuse_truncated(self, state: Partition, error: Exception) -> None:
        """The log was truncated below the position: raise this until the application seeks. What is
        buffered is dropped; what comes has an older epoch."""
        self._drop_buffered(state)
        state.seek(self.next_epoch(), state.position)
        self._fail(state, error)

    # -- errors

    def next_error(self, *, again: bool) -> tuple[Partition, Exception] | None:
        """The error to raise now, and its partition; with `again` also one that was raised before.

        The partitions take turns.
        """
        for state in self.failed():
            partition, error = state.topic_partition, state.error
            if error is not None and (again or not self._failed[partition]):
                del self._failed[partition]
                self._failed[partition] = True
                return state, error
        return None

    def failed(self) -> list[Partition]:
        """Partitions whose error comes next, in the order in which they are raised."""
        states = [self.partitions.get(partition) for partition in self._failed]
        for partition, state in zip(list(self._failed), states, strict=True):
            if state is None or state.error is None:
                del self._failed[partition]  # it was sought, found or given up meanwhile
        return [state for state in states if state is not None and state.error_is_next]

    @property
    def has_errors(self) -> bool:
        """Whether there may be an error to raise."""
        return bool(self._failed)

    def forget_error(self, state: Partition) -> None:
        """The error was raised and may pass by itself: go on with the next chunk."""
        state.forget_error()
        self._look_for_refusal(state)
        self._enqueue(state)

    def _fail(self, state: Partition, error: Exception) -> None:
        state.fail(error, self._clock())
        self._failed[state.topic_partition] = False

    def _look_for_refusal(self, state: Partition) -> None:
        """If the next chunk is a refusal by the broker, note it as the partition's error."""
        refusal = state.take_refusal()
        if refusal is not None:
            self._fail(state, refusal)

    # -- records

    def put(self, chunk: Chunk) -> None:
        """File one fetched chunk, or drop it if its partition has another epoch or position now."""
        state = self.partitions.get(chunk.partition)
        self.credit.count(chunk)
        if state is None or state.fetch_epoch != chunk.epoch or state.is_unwanted:
            self._aside.debug(
                "chunk.dropped",
                cause=self._moved_on.get(chunk.partition, 0),
                partition=chunk.partition,
                offset=chunk.offset,
                because="the partition has moved on",
            )
            return
        fetched_anew = state.fetched_anew
        if state.receive(chunk, self._clock()):
            self.credit.hold(chunk)
            self._look_for_refusal(state)
            self._enqueue(state)
            if fetched_anew and state in self._queue:
                # It comes first in the queue: decoding tells whether the new bytes are sound.
                self._queue.move_to_end(state, last=False)

    def put_back(self, state: Partition, records: list[Any]) -> None:
        """Keep these records, which were decoded and not delivered: deliver them first."""
        state.hold(records)
        self._enqueue(state)

    def all_put(self) -> None:
        """All chunks that have come are filed: none can be filed a second time."""
        self.credit.counted_all()

    @property
    def is_idle(self) -> bool:
        """Whether there is no error to raise, nothing buffered and nothing to deliver."""
        return not (self._failed or self.credit.held or (self._queue and self.anything_ready))

    @property
    def anything_ready(self) -> bool:
        """Whether there are records to deliver now: the first partition in the queue has some."""
        while self._queue:
            first = next(iter(self._queue))
            if first.ready:
                return True
            del self._queue[first]
        return False

    def _enqueue(self, state: Partition) -> None:
        """Put the partition at the end of the queue, if it has records to deliver."""
        if state.ready:
            self._queue.setdefault(state)
        elif state.paused and state.chunks:
            self._idle.setdefault(state)

    def next_idle(self) -> Partition | None:
        """A paused partition that has buffered records; None if there is no other."""
        while self._idle:
            state = self._idle.popitem(last=False)[0]
            if state.paused and state.chunks:
                return state
        return None

    def take(
        self, limit: int, *, advance: bool = True, only: Set[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """Up to `limit` records, partition by partition, in turn; of these partitions, if given.

        With `advance` the consumed positions move at the end; without it the caller advances record
        by record. A partition whose next record cannot be given out (a corrupt batch, one that is
        not deserialized, ...) keeps that as its error, see `next_error`; its position stays there.
        """
        taken: dict[TopicPartition, list[Any]] = {}
        for state in self._in_turn(only):
            rows = Rows(limit)
            self._read(state, rows)
            if records := rows.records:
                taken[state.topic_partition] = records
                limit -= len(records)
            else:
                self.pass_by(state)
            if limit <= 0:
                break
        if advance and taken:
            self.give(taken)
        elif self._untold:
            self.tell_untold()
        return taken

    def take_columns(self, columns: Columns) -> dict[TopicPartition, Sequence[Any]]:
        """As `take`, into columns, until they are full; returns the rows of each partition."""
        taken: dict[TopicPartition, Sequence[Any]] = {}
        traced = self.log.hears_debug()
        filling = Filling(columns)
        for state in self._in_turn():
            before = columns.rows
            self._read(state, filling)
            if columns.rows == before:
                self.pass_by(state)
            elif traced:
                taken[state.topic_partition] = columns.between(before, columns.rows)
            else:
                taken[state.topic_partition] = range(before, columns.rows)
            if columns.full:
                break
        if taken:
            self.give(taken, traced=traced)
        return taken

    def _in_turn(self, only: Set[TopicPartition] | None = None) -> Iterator[Partition]:
        """The partitions that have records to deliver, each once: all, or only these. Each goes to
        the end of the queue."""
        for _ in range(len(self._queue)):
            state = self._queue.popitem(last=False)[0]
            if state.ready:
                self._queue[state] = None
                if only is None or state.topic_partition in only:
                    yield state

    # -- the door: records leave here, and nowhere else do positions move past them

    def give(self, taken: Mapping[TopicPartition, Sequence[Any]], *, traced: bool = True) -> None:
        """Give these records out: the positions move past all that was taken. If they are not
        `traced`, `taken` need only say how many there are.

        This is the last thing that a call does. If the call is interrupted before it returns, the
        user did not get the records, and `take_back` sets the positions back.
        """
        states = [self.partitions[partition] for partition in taken]
        self.given = given = [(state, state.epoch, state.consumed) for state in states]
        if not is_this(self.given_to):
            self.given_to = this_caller()
        now = self._clock()
        for state in states:
            self.pass_by(state)
            state.give(now, now)
        if traced and (self._untold or self.log.hears_debug()):  # (what is held was heard just now)
            number = 0
            for records in taken.values():
                state, _, before = given[number]
                number += 1  # noqa: SIM113 - `enumerate` and `zip` cost 0.1 µs
                untold = state.untold
                # As many records as offsets, and the leader epoch of those before: no gap. (No
                # record is looked at: that would be most of the cost.)
                if (
                    untold is not None
                    and now < untold.goes_on_until
                    and untold.next == before[0]
                    and state.offset == (end := untold.next + len(records))
                    and untold.epoch == state.leader_epoch
                ):
                    untold.go_on(end, now)
                else:
                    self._trace(state, records, now)

    def _trace(self, state: Partition, records: Sequence[Any], now: float) -> None:
        """Trace that a poll gives these records out: at once, or soon together with the next."""
        if not self.log.hears_debug():  # not any more
            self.tell_untold()
            return
        untold = state.untold
        if untold is not None and untold.takes(records, now):
            if untold.first_at == now:  # the first ones since the last event
                self._untold[state.topic_partition] = untold
                self.log.hold(self.tell_untold)
            if now >= untold.until:
                self.tell_untold()
            return
        self.tell_untold()
        self.tell(state.topic_partition, records)
        if self.log.may_hold:
            state.was_traced(Untold(records[-1], now))

    def tell_untold(self) -> None:
        """Trace what polls gave out that followed others so closely that they were not traced."""
        while self._untold:
            topic_partition, untold = self._untold.popitem()
            now = self._clock()
            ago, values = (now - untold.first_at, now - untold.last_at), untold.values
            untold.begin(now)
            self._tell(topic_partition, values, ago)

    def tell(
        self,
        topic_partition: TopicPartition,
        records: Sequence[Any],
        ago: tuple[float, float] | None = None,
    ) -> None:
        """Trace that the user gets these records, or got the first and the last of them so many
        seconds ago."""
        for run in runs(records):
            self._tell(topic_partition, run, ago)

    def _tell(
        self,
        topic_partition: TopicPartition,
        run: Mapping[str, list[Any]],
        ago: tuple[float, float] | None,
    ) -> None:
        given = {}
        if ago is not None:
            # (The clock of the compiled iterator may be some milliseconds behind.)
            first, last = (round(max(seconds, 0.0), 3) for seconds in ago)
            given = {"first_ago": first, "last_ago": last}
        self._aside.debug("records.delivered", partition=topic_partition, **run, **given)

    def accept(self) -> None:
        """`poll` has returned: its records have reached the user."""
        self.given = []

    def take_back(self) -> None:
        """The last records did not reach the user: set the positions back."""
        for state, epoch, before in self.given:
            if state.epoch == epoch:
                state.take_back(before)
                partition, offset = state.topic_partition, state.offset
                self._aside.debug("records.taken_back", partition=partition, offset=offset)
        self.given = []

    def hand_out(self, state: Partition, record: Any) -> None:
        """An iteration has handed out the records of this partition up to this one. A second call
        for the same record changes nothing."""
        if state.offset is None or state.offset <= record.offset:
            self._move(state, record.offset + 1, record.leader_epoch)
        self.mark_moved(state)

    def pass_by(self, state: Partition) -> None:
        """All records that were decoded of this partition have left: go on behind what follows them
        (markers, records that were aborted or compacted away)."""
        offset = state.next_to_give
        assert offset is not None, "records are taken only after the position is known"
        if offset != state.offset:
            self._move(state, offset, state.epoch_before_next)

    def _move(self, state: Partition, offset: int, leader_epoch: int) -> None:
        state.advance(offset, leader_epoch)
        self.moved[state.topic_partition] = None

    # -- decoding

    def _read(self, state: Partition, into: Rows | Filling) -> None:
        """Add this partition's next records, until it is full or has nothing to give out."""
        before = into.rows
        if state.held:
            into.extend(state.take_held(into.limit - before))  # counted when they were decoded
            return
        while not into.full and state.chunks and state.error is None:
            if into.rows > before and self._has_offset_gap(state):
                break  # the next take reports the gap: these records are given out first
            reader = state.reader or self._open_reader(state)
            if reader is None:
                break
            try:
                into.read(reader)
            except KafkaError as error:
                if error is not reader.error:
                    raise  # a signal handler's
                self._fail(state, reader.error)
                break
            state.take_up_to(reader.next_offset, reader.leader_epoch)
            if reader.exhausted:
                self._finish_chunk(state)
        self.consumption.add_records(state.topic_partition.topic, into.rows - before)

    def _open_reader(self, state: Partition) -> RecordReader | None:
        chunk = state.chunks[0]
        if self._has_offset_gap(state):
            self.log.error(
                "chunk.dropped",
                partition=chunk.partition,
                offset=chunk.offset,
                expected=state.taken,
                because="it does not continue where the last one ended",
            )
            self.offset_gaps.add(state.topic_partition)
            self._drop_buffered(state)
            return None
        self.consumption.begin_chunk(state)
        return state.read_by(self._make_reader(chunk))

    def forget_offset_gaps(self) -> None:
        """The partitions with a gap are fetched again from their positions."""
        self.offset_gaps.clear()

    def _has_offset_gap(self, state: Partition) -> bool:
        """Whether the next chunk does not continue where the last one ended."""
        return state.reader is None and state.chunks[0].offset != state.taken

    def _finish_chunk(self, state: Partition) -> None:
        chunk = state.end_chunk()
        self.credit.let_go((chunk,))
        self.consumption.add_chunk(chunk, state.lag_behind)
        self._look_for_refusal(state)

    def _drop_buffered(self, state: Partition) -> None:
        if (led := self.log.strand.last) or self._moved_on:
            self._moved_on[state.topic_partition] = led
        if dropped := state.drop_buffered():
            self.credit.let_go(dropped)


class InHand:
    """Owns the positions before the records that were given to another thread last, which it may
    not be finished with while other threads call.

    If a call closes the consumer, the positions go back to these, so that records are not committed
    that their thread may never finish, because the program ends."""

    __slots__ = ("_to", "given")

    def __init__(self) -> None:
        self._to: CallerRef = nobody
        #: Each with the offset after its records. If the position is another one by now, that
        #: thread has come back for more, and so has finished them.
        self.given: list[tuple[Given, int | None]] = []

    def begin_call(self, to: CallerRef, given: Sequence[Given]) -> None:
        """A call begins. These were given to that thread since the call before."""
        if given and is_another(to):
            self._to = to
            self.given = [(one, one[0].offset) for one in given]
        elif self.given and not is_another(self._to):
            self.forget()

    def forget(self) -> None:
        """Another thread polls, or commits: so they count as finished."""
        self.given = []

    def take_back(self) -> None:
        """Set the positions back, unless that thread is this one, or has ended."""
        if self.given and is_another(self._to):
            for (state, epoch, before), after in self.given:
                if (state.epoch, state.offset) == (epoch, after):
                    state.take_back(before)
        self.forget()
