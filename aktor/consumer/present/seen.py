"""The assigned partitions at one moment.

A look at thousands of them must cost little, on any thread: so it notes the facts only, and what
follows from them is put together for the partitions that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from aktor.consumer.core.engine import Engine
from aktor.consumer.core.partition import GAP, Partition, Stage
from aktor.errors import RecordDeserializationError
from aktor.events.fetching import Chunk
from aktor.events.positions import LogEnd
from aktor.records.extent import timestamp_from
from aktor.structs import TopicPartition

__all__ = ["PartitionSeen", "Partitions", "kinds", "see", "with_records"]


class PartitionSeen(NamedTuple):
    """One assigned partition, as the application has it. `buffered` counts bytes, also those that
    no poll has taken over yet (`arrived`), `records` the offsets that are buffered, `in_hand` the
    records that an iteration has taken and not handed out yet. `error_is_yours`: the application's
    own code has raised what `error` says. `next_at` is the timestamp of the next record, in ms; if
    that is not here, the newest of what was read last (-1: not known). `paused_at`, `failed_at`,
    `open_at`: since when it is paused, has its error, has an open transaction (-inf: it has not, or
    it is not known). `here_since`: since when the next of its records are here (inf: there are
    none). `told_at`: when its end was told that is known (-inf: none is).
    `given_at`: when records of it were given out last, at first when it was assigned; `gaps`: the
    last times before that in which none were, from when to when."""

    position: int | None
    end: int | None
    lag: int | None
    high_watermark: int | None
    paused: bool
    stage: Stage
    subscribed: bool
    buffered: int
    arrived: int
    records: int
    next_at: int
    error: str
    in_hand: int
    error_is_yours: bool = False
    paused_at: float = -math.inf
    failed_at: float = -math.inf
    open_at: float = -math.inf
    here_since: float = math.inf
    told_at: float = -math.inf
    given_at: float = -math.inf
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether there are records that the application need only take."""
        return bool(self.buffered or self.in_hand)


#: The facts of a `Partition` that are noted of each. Only C code runs meanwhile, so that no other
#: thread moves one of them between the first and the last.
_NOTED: Final = attrgetter(
    *("offset", "log_ends", "paused", "stage", "subscribed"),
    *("read_until", "paused_at", "failed_at", "open_at", "log_ends_at", "given_at", "gaps"),
)

#: The facts of a chunk. The chunk itself is not kept: its records would stay in memory as long as
#: somebody keeps a status.
_OF_CHUNK: Final = attrgetter("size", "end", "came_at")

#: Before Python 3.12 a member of an Enum class is slow to read.
_OWNED: Final = Stage.OWNED


class _Own(NamedTuple):
    """What few partitions have. `chunks`: the facts of those with records, in order, also those
    that no poll has taken over, which have `arrived` bytes, and have told `ends` at `ends_at`.
    `next_at`: the timestamp of the next record of them; -1: not known."""

    chunks: list[tuple[int, int, float]]
    next_at: int = -1
    arrived: int = 0
    ends: tuple[int, int] | None = None
    ends_at: float = -math.inf
    error: str = ""
    error_is_yours: bool = False
    in_hand: int = 0


_NOTHING: Final = _Own([])


class Partitions(Mapping[TopicPartition, PartitionSeen]):
    """The assigned partitions, each put together when it is read."""

    __slots__ = ("_handed", "_isolated", "_listed", "_made", "_noted", "_own", "_positions")

    def __init__(
        self,
        noted: Mapping[TopicPartition, tuple[Any, ...]],
        own: Mapping[TopicPartition, _Own],
        positions: Mapping[TopicPartition, int | None],
        handed: Mapping[TopicPartition, tuple[float, float]],
        listed: Mapping[TopicPartition, LogEnd],
        *,
        isolated: bool,
    ) -> None:
        self._noted = noted
        self._own = own
        #: Positions that differ from what is noted: an iteration has moved them on.
        self._positions = positions
        #: When an iteration handed out the first and the last of what is not settled.
        self._handed = handed
        #: Where logs end that are not fetched, as their leaders were asked.
        self._listed = listed
        self._isolated = isolated
        self._made: dict[TopicPartition, PartitionSeen] = {}

    def __getitem__(self, partition: TopicPartition) -> PartitionSeen:
        made = self._made.get(partition)
        if made is None:
            made = self._made[partition] = self._make(partition)
        return made

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._noted)

    def __len__(self) -> int:
        return len(self._noted)

    def with_records(self) -> dict[TopicPartition, PartitionSeen]:
        """See `with_records`."""
        return {tp: one for tp in self._own if (one := self[tp]).is_here}

    def kinds(self) -> list[tuple[TopicPartition, object]]:
        """See `kinds`."""
        own, listed, positions, isolated = self._own, self._listed, self._positions, self._isolated
        found: list[tuple[TopicPartition, object]] = []
        for partition, noted in self._noted.items():
            offset, ends, paused, stage, subscribed, _, paused_at, _, _, told_at, *_ = noted
            kind: object
            if stage is not _OWNED or not subscribed or paused:
                kind = stage, subscribed, paused_at
            elif partition in positions:
                continue
            elif partition in own:
                chunks, _, _, _, _, error, *_ = own[partition]
                if offset is None or error or not chunks or not chunks[0][0]:
                    continue
                kind = "here since", chunks[0][2]
            elif offset is None:
                kind = "no position"
            else:
                end = ends and ends[isolated]
                if partition in listed and listed[partition].at > told_at:
                    end = listed[partition].offset
                if end is None:
                    kind = "no end"
                elif end > offset:
                    kind = "behind"
                elif ends is None or ends[0] <= offset:
                    kind = "all is read"
                else:
                    continue  # what follows is of an open transaction
            found.append((partition, kind))
        return found

    def _make(self, partition: TopicPartition) -> PartitionSeen:
        offset, ends, paused, stage, subscribed, *rest = self._noted[partition]
        read_until, paused_at, failed_at, open_at, log_ends_at, given_at, gaps = rest
        own = self._own.get(partition, _NOTHING)
        chunks, next_at, arrived, newer_ends, newer_at, error, yours, in_hand = own
        position = self._positions.get(partition, offset)
        ends = newer_ends or ends
        end = None if ends is None else ends[1] if self._isolated else ends[0]
        told_at = max(log_ends_at, newer_at)
        listed = self._listed.get(partition)
        if listed is not None and listed.at > told_at:
            end, told_at = listed.offset, listed.at
        lag = None if position is None or end is None else max(0, end - position)
        if partition in self._handed:
            first, last = self._handed[partition]
            if first - given_at >= GAP:
                gaps = (*gaps, (given_at, first))
            given_at = max(given_at, last)
        # (By position, as the fields stand in the class: by keywords it takes three times as long.)
        return PartitionSeen(
            *(position, end, lag, None if ends is None else ends[0]),
            *(paused, stage, subscribed),
            sum([size for size, *_ in chunks]) if chunks else 0,
            arrived,
            max(0, chunks[-1][1] - position) if chunks and position is not None else 0,
            next_at if next_at >= 0 else read_until,
            *(error, in_hand, yours),
            *(paused_at, failed_at, open_at),
            chunks[0][2] if chunks else log_ends_at if in_hand else math.inf,
            told_at,
            given_at,
            gaps,
        )


def with_records(
    partitions: Mapping[TopicPartition, PartitionSeen],
) -> dict[TopicPartition, PartitionSeen]:
    """Those of which records are here."""
    if isinstance(partitions, Partitions):
        return partitions.with_records()
    return {tp: one for tp, one in partitions.items() if one.is_here}


def kinds(
    partitions: Mapping[TopicPartition, PartitionSeen],
) -> list[tuple[TopicPartition, object]]:
    """The kind of each partition: those of one kind wait for the same, as far as that follows from
    what is noted of them. Left out are the few of which more must be known: with an error, an open
    transaction, or records that only an iteration has in hand."""
    return partitions.kinds() if isinstance(partitions, Partitions) else []


def see(engine: Engine) -> Partitions:
    """The assigned partitions of this consumer as they are now. From any thread."""
    iteration, states = engine.iteration, engine.delivery.partitions
    coming: dict[TopicPartition, list[Chunk]] = {}
    # (Before the others: a chunk that a poll takes over now is seen in both places, not in none.)
    for chunk in engine.core.port.chunks.copy():
        coming.setdefault(chunk.partition, []).append(chunk)
    noted = dict(zip(states, map(_NOTED, states.values()), strict=True))
    own = {
        partition: _own(state, coming.pop(partition, ()))
        for partition, state in states.items()
        if state.chunks or state.held or state.error is not None
    }
    for partition, chunks in coming.items():
        if (state := states.get(partition)) is not None:
            own[partition] = _own(state, chunks)
    for state, (count, next_at) in iteration.in_hand().items():
        partition = state.topic_partition
        if states.get(partition) is state:
            known = own.get(partition, _NOTHING)
            own[partition] = known._replace(in_hand=count, next_at=next_at)
    positions, handed = {}, {}
    batch = iteration.batch
    if (state := batch.state) is not None:
        positions[state.topic_partition] = iteration.offset_of(state)
        if batch.handed > batch.told:
            handed[state.topic_partition] = batch.first_at, batch.last_at
    isolated = engine.core.settings.isolation_level == "read_committed"
    listed = engine.core.port.ends
    return Partitions(noted, own, positions, handed, listed, isolated=isolated)


def _own(state: Partition, coming: Iterable[Chunk]) -> _Own:
    chunks, error = state.chunks.copy(), state.error
    size, ends, ends_at, next_at = 0, None, -math.inf, state.next_timestamp
    for chunk in coming:
        if chunk.epoch != state.fetch_epoch or state.is_unwanted:
            continue  # it will be dropped
        if _holds(chunks, chunk) or 0 <= chunk.end <= (state.offset or 0):
            continue  # a poll has taken it over by now
        size += chunk.size
        if chunk.size:
            if not chunks:
                next_at = timestamp_from(chunk.data, 0, state.offset or 0)
            chunks.append(chunk)
        if chunk.high_watermark >= 0:
            ends, ends_at = (chunk.high_watermark, chunk.last_stable_offset), chunk.came_at
    return _Own(
        [*map(_OF_CHUNK, chunks)],
        next_at,
        size,
        ends,
        ends_at,
        "" if error is None else str(error),
        isinstance(error, RecordDeserializationError),
    )


def _holds(chunks: Iterable[Chunk], chunk: Chunk) -> bool:
    return any(one is chunk for one in chunks)
