"""The position manager finds out where reading starts: a committed offset, or an end of the log.

It follows each assigned partition until it has a position. When a leader was elected since the
record before the position was written, it asks that leader by OffsetForLeaderEpoch whether it has
what we have read (KIP-320). It also looks up offsets by time for the application. Everything else
about positions (consuming, seeking, committing) happens elsewhere.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import (
    KafkaTimeoutError,
    NoError,
    NoOffsetForPartitionError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import NEVER, Backoff, Duty, RequestManager
from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    ExplainStartingOffset,
    FindStartingOffsets,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.metadata import Cluster, ClusterChanged, PartitionInfo, RefreshMetadata
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Divergence,
    ExplainPosition,
    ListOffsets,
    Position,
    PositionsDiverged,
    PositionsFailed,
    PositionsResolved,
    PositionsValidated,
    ResetPolicy,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
    TruncationFound,
    Validated,
    ValidatePositions,
)
from aktor.events.routes import COMMITS, METADATA, POSITIONS
from aktor.managers.positions.new_partitions import NewPartitions, Verdict
from aktor.protocol.error_codes import Answer, Do, error_of, forbids_topic, means
from aktor.protocol.partitions import listed, name_of_partition
from aktor.protocol.refusals import explained, refused, topics_refused
from aktor.state_table import follow
from aktor.values import Value

__all__ = ["TRANSITIONS", "PositionManager", "State", "Trigger"]

#: How long a leader may take for its first answer, in seconds. The time doubles with each failure,
#: so a leader that reads from remote storage (KIP-1075) has enough time in the end.
PATIENCE: Final = 5.0

#: Partitions that an error names.
NAMED: Final = 10

#: The offset in an answer to ListOffsets that found none.
NO_OFFSET: Final = -1


class State(enum.Enum):
    """How far an assigned partition is on its way to a position."""

    INITIALIZING = "initializing"
    """The commit manager is asked for the committed offset of the partition."""

    AWAIT_RESET = "await_reset"
    """The leader is asked by ListOffsets where the log begins or ends, until it answers."""

    RESOLVED = "resolved"
    """There is a position; from here on the fetch manager and the application move it."""

    VALIDATING = "validating"
    """There is a position, and a leader was elected since the record before it was written. The
    leader is asked by OffsetForLeaderEpoch whether it has this record; nothing is fetched."""

    TRUNCATED = "truncated"
    """The leader lacks part of what we have read. The application was told: it sets the position
    back (a seek), or raises the error until it seeks. Nothing is fetched."""

    FAILED = "failed"
    """No position can be found. The application was told the error, and decides what to do."""


class Trigger(enum.Enum):
    """What can happen to an assigned partition."""

    COMMITTED_FOUND = "an offset is committed"
    NOTHING_COMMITTED = "no offset is committed"
    END_FOUND = "the end of the log was looked up"
    REFUSED = "the position was refused"
    LEADER_ELECTED = "a leader was elected that may not have the position"
    VALID = "the leader has the position"
    DIVERGED = "the leader has another log"
    SOUGHT = "the application sought"
    RESET_WANTED = "a reset was asked for"


_S, _T = State, Trigger

#: What the application may do at any moment.
_ANY_TIME: Final[Mapping[Trigger, State]] = {
    _T.SOUGHT: _S.RESOLVED,
    _T.RESET_WANTED: _S.AWAIT_RESET,
}

#: The whole machine. A pair that is not here is a bug in us.
TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    _S.INITIALIZING: {
        _T.COMMITTED_FOUND: _S.RESOLVED,
        _T.NOTHING_COMMITTED: _S.AWAIT_RESET,
        _T.REFUSED: _S.FAILED,
        **_ANY_TIME,
    },
    _S.AWAIT_RESET: {_T.END_FOUND: _S.RESOLVED, _T.REFUSED: _S.FAILED, **_ANY_TIME},
    _S.RESOLVED: {
        _T.LEADER_ELECTED: _S.VALIDATING,
        _T.DIVERGED: _S.TRUNCATED,
        **_ANY_TIME,
    },
    _S.VALIDATING: {_T.VALID: _S.RESOLVED, _T.DIVERGED: _S.TRUNCATED, **_ANY_TIME},
    _S.TRUNCATED: {**_ANY_TIME},
    _S.FAILED: {**_ANY_TIME},
}


class _AskedOf(Value, kw_only=False):
    """Which broker was asked, and when."""

    node: int
    at: float


@dataclass(slots=True, kw_only=True)
class _Partition:
    """One assigned partition. `strategy`, `from_offset`, `because` tell of the reset, if any."""

    epoch: int
    state: State
    exchange: Exchange
    strategy: ResetStrategy | None = None
    #: With `by_duration`: look for the first record of the last so many seconds. `strategy` says
    #: where to go if there is none, and `end` where that was when we had found none.
    duration: float | None = None
    end: OffsetAndTimestamp | None = None
    looks_for_end: bool = False
    #: There is no committed offset, and no end of the log was asked for: a new partition is read
    #: from its first record (see `new_partitions`).
    may_be_new: bool = False
    from_offset: int | None = None
    because: str = ""
    #: The position that is validated, in VALIDATING.
    position: Position | None = None
    #: Which broker was asked last, and when; and the error of the attempt before.
    asked: _AskedOf | None = None
    trouble: Exception | None = None

    def move(self, trigger: Trigger) -> None:
        """The only place where `state` is assigned again."""
        self.state = follow(TRANSITIONS, self.state, trigger)
        self.exchange.ended()

    def sought(self, epoch: int) -> None:
        """The application knows where to read. Answers for an older epoch will be dropped."""
        self.epoch = epoch
        self.move(Trigger.SOUGHT)

    def reset(self, epoch: int, from_offset: int | None) -> None:
        """The application wants another position. `from_offset`: the one that is out of range, if
        that is why."""
        self.epoch = epoch
        self.from_offset = from_offset
        self.move(Trigger.RESET_WANTED)

    def await_reset(self, policy: ResetPolicy, because: str) -> None:
        """The leader is to be asked where the log begins or ends; `because` is the reason."""
        self.strategy, self.duration = policy.strategy, policy.duration
        self.may_be_new = False
        self.end, self.looks_for_end = None, False
        self.because = because
        self.exchange.hurry()

    def validate(self, position: Position | None) -> None:
        """The leader is to be asked whether it has this position."""
        self.position = position
        self.move(Trigger.LEADER_ELECTED)
        self.exchange.hurry()

    def allow_new(self) -> None:
        """If the metadata tells in time that the partition is new, begin at its first record."""
        self.may_be_new = True

    def is_new(self, because: str) -> None:
        """The partition is new, so it is read from its first record."""
        self.await_reset(ResetPolicy(strategy=ResetStrategy.EARLIEST), because)

    def timestamp(self, wall: float) -> int:
        """What to ask the leader for, at this time since the epoch."""
        assert self.strategy is not None, "a reset without a strategy"
        if self.duration is None or self.looks_for_end:
            return self.strategy.value
        return max(0, int((wall - self.duration) * 1000))

    def answered(self, offset: OffsetAndTimestamp | None) -> OffsetAndTimestamp | None:
        """The leader has answered; returns the position. None: it must be asked again.

        With `by_duration` the end of the log is taken if there is no record that is young enough.
        Then the record is looked for once more: one that was written before the end was asked for
        would be lost otherwise.
        """
        if self.duration is None or (self.looks_for_end and offset is None):
            return offset
        if self.looks_for_end:
            self.end = offset
        elif offset is not None or self.end is not None:
            return offset or self.end
        self.looks_for_end = not self.looks_for_end
        self.exchange.answered()
        return None

    @property
    def wanted(self) -> _Wanted:
        """What its answer must be about."""
        return _Wanted(self.epoch, self.strategy, self.duration, self.looks_for_end, self.end)

    @property
    def way(self) -> str:
        """How it is reset, for the trace."""
        assert self.strategy is not None, "a reset without a strategy"
        return self.strategy.name.lower() if self.duration is None else "by_duration"

    @property
    def goes_on(self) -> bool:
        """Whether the answer has led to another question (see `answered`)."""
        return self.duration is not None and not self.exchange.in_flight

    def sent(self, node: int, now: float) -> None:
        """This broker is asked."""
        self.asked = _AskedOf(node, now)
        self.exchange.sent()

    def failed(self, trouble: Exception | None, now: float, jitter: float) -> None:
        """The attempt has failed with this; None: it was not made, since no leader is known."""
        self.trouble = trouble
        self.exchange.failed(now, jitter)


class _Wanted(Value, kw_only=False):
    """The epoch, policy and stage of a reset in flight: its answer counts while all are the same.

    The stage (see `_Partition.answered`) counts because a reset that is told once more, in the same
    epoch, begins again: an answer about the end of the log is not one about a record.
    """

    epoch: int
    strategy: ResetStrategy | None
    duration: float | None
    looks_for_end: bool
    end: OffsetAndTimestamp | None


class _ResetsSent(Value, kw_only=False):
    """Context of a request on behalf of assigned partitions."""

    wanted: Mapping[TopicPartition, _Wanted]


class _Validation(Value, kw_only=False):
    """A position in validation: its answer counts while the partition has both. `leader_epoch` is
    the epoch of the leader that is asked."""

    epoch: int
    position: Position
    leader_epoch: int


class _EpochsSent(Value, kw_only=False):
    """Context of an OffsetForLeaderEpoch."""

    wanted: Mapping[TopicPartition, _Validation]


class _TimesSent(Value, kw_only=False):
    """Context of a request on behalf of a question."""

    ticket: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True, kw_only=True)
class _Question:
    """A question on its way: what was found, what is in flight, why the rest is not found yet."""

    asked: ListOffsets
    backoff: Backoff
    since: float | None = None
    in_flight: dict[TopicPartition, _AskedOf] = field(default_factory=dict)
    found: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict)
    troubles: dict[TopicPartition, Exception] = field(default_factory=dict)

    @property
    def due(self) -> float:
        """When leaders may be asked for what is missing. Several may be asked at the same time."""
        return self.backoff.retry_at if self.to_ask() else NEVER

    def begin(self, now: float) -> None:
        """Leaders are asked from now on, unless they are asked already."""
        if self.since is None:
            self.since = now

    def waited(self, now: float) -> float:
        """How long ago it was begun, in seconds."""
        return now - (now if self.since is None else self.since)

    def sent(self, partitions: Iterable[TopicPartition], node: int, now: float) -> None:
        """This broker is asked for these."""
        self.in_flight.update(dict.fromkeys(partitions, _AskedOf(node, now)))

    def answered(self, tp: TopicPartition) -> None:
        """The request for this partition is over."""
        self.in_flight.pop(tp, None)

    def finds(self, tp: TopicPartition, offset: OffsetAndTimestamp | None) -> None:
        """The leader has answered with this offset; None: no record is from this time or later."""
        self.found[tp] = offset

    def failed(self, troubles: Mapping[TopicPartition, Exception]) -> None:
        """These partitions are to be asked for again, because of these errors."""
        self.troubles.update(troubles)

    def not_tried(self, tp: TopicPartition) -> None:
        """No leader is known of this partition: an earlier error says nothing about it."""
        self.troubles.pop(tp, None)

    def to_ask(self) -> list[TopicPartition]:
        """The partitions whose offset is neither found nor asked for."""
        return [tp for tp in self.asked.timestamps if not self._has(tp)]

    def _has(self, tp: TopicPartition) -> bool:
        return tp in self.found or tp in self.in_flight


@dataclass(slots=True)
class _Listed:
    """An answer to ListOffsets, taken apart."""

    offsets: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict)
    troubles: dict[TopicPartition, Exception] = field(default_factory=dict)
    refused: dict[TopicPartition, type[Exception]] = field(default_factory=dict)
    #: In which answer, and which broker has given it.
    answer: Answer = Answer.LIST_OFFSETS
    by: str = ""

    def mark_unavailable(self, tp: TopicPartition) -> None:
        """The leader does not know the offset yet (KIP-207)."""
        self.troubles[tp] = OffsetNotAvailableError()

    def refusals(
        self, of: Iterable[TopicPartition]
    ) -> list[tuple[Exception, list[TopicPartition]]]:
        """The errors to raise for these partitions, each with those that it is about."""
        by_kind: dict[type[Exception], list[TopicPartition]] = {}
        for tp in of:
            if tp in self.refused:
                by_kind.setdefault(self.refused[tp], []).append(tp)
        return [(self._refusal(kind, refused), refused) for kind, refused in by_kind.items()]

    def _refusal(self, kind: type[Exception], those: list[TopicPartition]) -> Exception:
        if forbids_topic(kind):
            topics = {tp.topic for tp in those}
            return topics_refused(kind, topics, self.answer, by=self.by)
        return refused(kind, listed(those), self.answer, by=self.by)


class PositionManager(RequestManager):
    """Owns the way of each assigned partition to its position, and the questions about offsets."""

    name = POSITIONS
    NEEDS = (COMMITS, METADATA)
    READS = (
        "auto_offset_reset",
        "auto_offset_reset_new_partitions",
        "auto_offset_reset_out_of_range",
        "enable_auto_commit",
        "group_id",
        "isolation_level",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cluster = Cluster()
        self._partitions: dict[TopicPartition, _Partition] = {}
        #: The partitions in AWAIT_RESET, in the order in which they got there. Kept, because most
        #: polls find none and must be quick.
        self._awaiting: dict[TopicPartition, None] = {}
        #: The partitions in VALIDATING, for the same reason.
        self._validating: dict[TopicPartition, None] = {}
        self._questions: dict[int, _Question] = {}
        settings = self.settings
        start, out_of_range = settings.auto_offset_reset, settings.auto_offset_reset_out_of_range
        #: Where to go without a position, and from one that is out of range.
        self._start = ResetPolicy.named(start)
        self._out_of_range = ResetPolicy.named(out_of_range or start)
        self._new = NewPartitions(settings)
        self._looks_for_new = (
            self._start == ResetPolicy(strategy=ResetStrategy.LATEST)
            and settings.auto_offset_reset_new_partitions == "earliest"
        )
        #: The partitions follow from a subscription: new ones are meant, too.
        self._subscribed = False

    # -- what the application wants

    @handles(AssignmentChanged)
    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Forget what is gone, keep what has its old epoch, find positions for the rest."""
        kept = {
            tp: known
            for tp, known in self._partitions.items()
            if tp in changed.partitions and changed.partitions[tp].epoch == known.epoch
        }
        new = {tp: assigned for tp, assigned in changed.partitions.items() if tp not in kept}
        self._partitions = kept
        self._awaiting = {tp: None for tp in self._awaiting if tp in kept}
        self._validating = {tp: None for tp in self._validating if tp in kept}
        self._subscribed = changed.by_group or changed.all_of_topics
        self._new.forget(self._new.in_question - kept.keys())
        self._admit(new)
        # A look-up of a partition that was ours and is not any more was given up.
        self._ask_group()

    def _admit(self, new: Mapping[TopicPartition, Assigned]) -> None:
        for tp, assigned in new.items():
            self._partitions[tp] = _Partition(
                epoch=assigned.epoch,
                state=State.INITIALIZING if assigned.position is None else State.RESOLVED,
                exchange=Exchange(self.settings),
            )
        self._find([tp for tp, assigned in new.items() if assigned.position is None])

    def _find(self, initializing: Iterable[TopicPartition]) -> None:
        partitions = list(initializing)
        if not partitions:
            return
        if self.settings.group_id is None:
            because = "there is no group to commit for"
            self._reset_by_policy(self._without_new(partitions), because=because)
            return
        self._say(FindStartingOffsets(partitions=frozenset(partitions)))

    @handles(SeekPartitions)
    def on_seek_partitions(self, sought: SeekPartitions) -> None:
        """The application knows where to read: drop what is under way for these partitions."""
        for tp, to in sought.partitions.items():
            partition = self._assigned(tp, because="a seek")
            if partition is not None:
                partition.sought(to.epoch)
                self._awaiting.pop(tp, None)
                self._validating.pop(tp, None)

    @handles(ResetPositions)
    def on_reset_positions(self, reset: ResetPositions) -> None:
        """Look the positions up, by strategy or by policy."""
        refused: list[TopicPartition] = []
        for tp, wanted in reset.partitions.items():
            partition = self._assigned(tp, because="a reset")
            if partition is None:
                continue
            partition.reset(wanted.epoch, wanted.from_offset)
            self._validating.pop(tp, None)
            if not self._await_reset(tp, wanted.strategy, reset.because):
                refused.append(tp)
        self._refuse_for_policy(refused)

    def _assigned(self, tp: TopicPartition, *, because: str) -> _Partition | None:
        partition = self._partitions.get(tp)
        if partition is None:
            self.log.info("position.dropped", partitions=[tp], because=f"{because}, not assigned")
        return partition

    def _await_reset(self, tp: TopicPartition, strategy: ResetStrategy | None, why: str) -> bool:
        """Note what a partition in AWAIT_RESET waits for; False if the policy allows nothing."""
        partition = self._partitions[tp]
        policy = self._out_of_range if partition.from_offset is not None else self._start
        if strategy is not None:
            policy = ResetPolicy(strategy=strategy)
        partition.await_reset(policy, why)
        if policy.strategy is None:
            return False
        self._awaiting[tp] = None
        return True

    # -- whether leaders have what we have read

    @handles(ValidatePositions)
    def on_validate_positions(self, asked: ValidatePositions) -> None:
        """Leaders were elected: ask them whether they have these positions."""
        positions: dict[TopicPartition, int] = {}
        for tp, assigned in asked.partitions.items():
            partition = self._resolved(tp, assigned.epoch, because="a validation")
            if partition is not None:
                assert assigned.position is not None, "no position to validate"
                partition.validate(assigned.position)
                self._validating[tp] = None
                positions[tp] = assigned.position.offset
        if positions:
            self.log.info("position.validating", partitions=positions)

    @handles(PositionsDiverged)
    def on_positions_diverged(self, told: PositionsDiverged) -> None:
        """Fetches were answered with a diverging epoch."""
        self._tell_truncated(
            {
                tp: found
                for tp, found in told.partitions.items()
                if self._resolved(tp, found.epoch, because="a divergence") is not None
            }
        )

    def _resolved(self, tp: TopicPartition, epoch: int, *, because: str) -> _Partition | None:
        """The partition, if it still has the position of this epoch."""
        partition = self._partitions.get(tp)
        if partition is None or partition.epoch != epoch or partition.state is not State.RESOLVED:
            self.log.info("position.dropped", partitions=[tp], because=f"{because}, moved on")
            return None
        return partition

    def _tell_truncated(self, found: dict[TopicPartition, Divergence]) -> None:
        """The application compares with what it has given out: the records behind it may have been
        fetched ahead, and nothing be lost."""
        for tp in found:
            self._partitions[tp].move(Trigger.DIVERGED)
            self._validating.pop(tp, None)
        if found:
            self.log.info(
                "position.diverged",
                partitions={tp: one.position.offset for tp, one in found.items()},
                leader_epochs={tp: one.position.leader_epoch for tp, one in found.items()},
                ends={
                    tp: one.end and (one.end.offset, one.end.leader_epoch)
                    for tp, one in found.items()
                },
                nodes={tp: one.node for tp, one in found.items()},
            )
            rewinds = self._out_of_range.strategy is not None
            self._say(TruncationFound(partitions=found, rewinds=rewinds))

    # -- what was committed

    @handles(StartingOffsetsFound)
    def on_starting_offsets_found(self, found: StartingOffsetsFound) -> None:
        """Start at what is committed; reset the others, and only these (KAFKA-17674)."""
        resolved: dict[TopicPartition, Assigned] = {}
        uncommitted: list[TopicPartition] = []
        self._new.forget([tp for tp in self._new.in_question if not self._is_initializing(tp)])
        self._new.note(found.offsets)
        for tp in sorted(found.offsets):  # a set was asked for, whose order depends on hashes
            committed, partition = found.offsets[tp], self._partitions.get(tp)
            if partition is None or partition.state is not State.INITIALIZING:
                continue
            if committed is None:
                uncommitted.append(tp)
                continue
            partition.move(Trigger.COMMITTED_FOUND)
            epoch = committed.leader_epoch
            position = Position(
                offset=committed.offset, leader_epoch=-1 if epoch is None else epoch
            )
            resolved[tp] = Assigned(epoch=partition.epoch, position=position)
        self._resolve(resolved, because="committed")
        still = {tp for tp in self._new.in_question if self._is_initializing(tp)}
        uncommitted += sorted(still - {*uncommitted})
        old = self._without_new(uncommitted)
        self._reset_by_policy(old, because="no offset is committed")

    def _is_initializing(self, tp: TopicPartition) -> bool:
        partition = self._partitions.get(tp)
        return partition is not None and partition.state is State.INITIALIZING

    def _without_new(self, uncommitted: list[TopicPartition]) -> list[TopicPartition]:
        """Begin with the first record of those that are new; returns those that are not. Some stay
        in question until the committed offsets of other partitions are known."""
        if not (self._looks_for_new and self._subscribed):
            return uncommitted
        verdicts = {tp: self._new.judge(tp, self._cluster) for tp in uncommitted}
        self._ask_group()
        by_verdict: defaultdict[Verdict, list[TopicPartition]] = defaultdict(list)
        for tp, verdict in verdicts.items():
            if verdict is not None:
                by_verdict[verdict].append(tp)
        for (is_new, because), partitions in by_verdict.items():
            self.log.info("partition.judged", partitions=partitions, new=is_new, because=because)
            for tp in partitions if is_new else ():
                self._partitions[tp].move(Trigger.NOTHING_COMMITTED)
                self._partitions[tp].is_new(because)
                self._awaiting[tp] = None
        self._new.forget([tp for tp, verdict in verdicts.items() if verdict is not None])
        return [tp for tp, verdict in verdicts.items() if verdict is not None and not verdict[0]]

    def _ask_group(self) -> None:
        """Look up the committed offsets that tell which partitions are new."""
        if missing := self._new.missing(self._cluster):
            self._say(FindStartingOffsets(partitions=missing))

    def _reset_by_policy(self, partitions: Iterable[TopicPartition], *, because: str) -> None:
        refused: list[TopicPartition] = []
        for tp in partitions:
            partition = self._partitions[tp]
            partition.move(Trigger.NOTHING_COMMITTED)
            if not self._await_reset(tp, None, because):
                refused.append(tp)
            elif self._looks_for_new and self._subscribed:
                partition.allow_new()
        self._refuse_for_policy(refused)

    @handles(StartingOffsetsFailed)
    def on_starting_offsets_failed(self, failed: StartingOffsetsFailed) -> None:
        """The committed offsets cannot be found: tell the application, which decides."""
        topics = {tp.topic for tp in failed.partitions & self._new.missing(self._cluster)}
        in_question = {tp for tp in self._new.in_question if tp.topic in topics}
        waiting = sorted(failed.partitions | in_question)
        self._new.forget(in_question)
        self._fail([tp for tp in waiting if self._is_initializing(tp)], failed.error)

    # -- how a partition ends

    def _resolve(self, positions: Mapping[TopicPartition, Assigned], *, because: str) -> None:
        if not positions:
            return
        offsets = {
            tp: assigned.position.offset for tp, assigned in positions.items() if assigned.position
        }
        self.log.info("position.resolved", partitions=offsets, because=because)
        self._say(PositionsResolved(partitions=positions))

    def _fail(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        epochs: dict[TopicPartition, int] = {}
        for tp in partitions:
            self._partitions[tp].move(Trigger.REFUSED)
            self._awaiting.pop(tp, None)
            epochs[tp] = self._partitions[tp].epoch
        if not epochs:
            return
        self.log.warning("position.failed", partitions=list(epochs), because=error)
        self._say(PositionsFailed(epochs=epochs, error=error))

    def _refuse_for_policy(self, partitions: list[TopicPartition]) -> None:
        """With `auto_offset_reset="none"` the application must say where to go."""
        remedy = "seek to an offset, or set auto_offset_reset to earliest or latest"
        of_range = remedy
        if self.settings.auto_offset_reset_out_of_range is not None:
            of_range = remedy.replace("auto_offset_reset", "auto_offset_reset_out_of_range")
        outside = {
            tp: self._partitions[tp].from_offset
            for tp in partitions
            if self._partitions[tp].from_offset is not None
        }
        missing = set(partitions) - outside.keys()
        self._fail(outside, OffsetOutOfRangeError(outside, of_range))
        self._fail(missing, NoOffsetForPartitionError(missing, remedy))

    # -- what others tell

    @handles(ClusterChanged)
    def on_cluster_changed(self, changed: ClusterChanged) -> None:
        """A partition whose leader is another now need not wait for its backoff."""
        before, self._cluster = self._cluster, changed.cluster
        for tp in (*self._awaiting, *self._validating):
            if before.leader(*tp) != self._cluster.leader(*tp):
                self._partitions[tp].exchange.hurry()
        for question in self._questions.values():
            if any(before.leader(*tp) != self._cluster.leader(*tp) for tp in question.to_ask()):
                question.backoff.reset()
        self._end_forbidden()

    def _end_forbidden(self) -> None:
        """Metadata names no leader of a topic that we may not describe: fail these questions."""
        for question in list(self._questions.values()):
            forbidden = {tp.topic for tp in question.asked.timestamps} & self._cluster.forbidden
            if forbidden:
                kind = TopicAuthorizationFailedError
                error = topics_refused(kind, forbidden, Answer.METADATA_TOPIC)
                self._end_question(Failed(ticket=question.asked.ticket, error=error))

    @handles(ListOffsets)
    def on_list_offsets(self, asked: ListOffsets) -> None:
        """Keep the question; a duty asks the leaders."""
        if not asked.timestamps:
            self._say(Answered(ticket=asked.ticket, value={}))
            return
        backoff = Backoff(self.settings.retry_backoff, self.settings.retry_backoff_max)
        self._questions[asked.ticket] = _Question(asked=asked, backoff=backoff)
        self._end_forbidden()

    # -- what is sent

    def duties(self) -> tuple[Duty, ...]:
        """End questions at their deadlines, reset and validate positions, and look offsets up."""
        return (
            self._end_overdue,
            self._reset_positions,
            self._validate_positions,
            self._look_offsets_up,
        )

    def _reset_positions(self, now: float, jitter: float) -> float:
        """ListOffsets to the leaders of all partitions in AWAIT_RESET that are due."""
        if not self._awaiting:
            return NEVER
        if due := [tp for tp in self._awaiting if now >= self._partitions[tp].exchange.due]:
            self._ask_resets(due, now, jitter)
        return min(self._partitions[tp].exchange.due for tp in self._awaiting)

    def _ask_resets(self, due: list[TopicPartition], now: float, jitter: float) -> None:
        by_leader, leaderless = self._by_leader(due)
        for tp in leaderless:
            self._partitions[tp].failed(None, now, jitter)
        if leaderless:
            self._say(_want_leaders(leaderless))
        for node, partitions in by_leader.items():
            timestamps: dict[TopicPartition, int] = {}
            wanted: dict[TopicPartition, _Wanted] = {}
            patience = 0.0
            for tp in partitions:
                partition = self._partitions[tp]
                assert partition.strategy is not None, "a reset without a strategy"
                if partition.may_be_new:
                    self._look_again(tp, partition)
                timestamps[tp] = partition.timestamp(self.wall)
                wanted[tp] = partition.wanted
                patience = max(patience, partition.exchange.patience(PATIENCE))
                partition.sent(node, now)
            self._list_offsets(node, timestamps, now, now + patience, _ResetsSent(wanted))

    def _validate_positions(self, now: float, jitter: float) -> float:
        """OffsetForLeaderEpoch to the leaders of all partitions in VALIDATING that are due."""
        if not self._validating:
            return NEVER
        if due := [tp for tp in self._validating if now >= self._partitions[tp].exchange.due]:
            self._ask_epochs(due, now, jitter)
        return min(self._partitions[tp].exchange.due for tp in self._validating)

    def _ask_epochs(self, due: list[TopicPartition], now: float, jitter: float) -> None:
        by_leader, leaderless = self._by_leader(due)
        for tp in leaderless:
            self._partitions[tp].failed(None, now, jitter)
        if leaderless:
            self._say(_want_leaders(leaderless))
        for node, partitions in by_leader.items():
            wanted: dict[TopicPartition, _Validation] = {}
            patience = 0.0
            for tp in partitions:
                partition = self._partitions[tp]
                assert partition.position is not None, "no position to validate"
                leader_epoch = self._leader(tp).leader_epoch
                wanted[tp] = _Validation(partition.epoch, partition.position, leader_epoch)
                patience = max(patience, partition.exchange.patience(PATIENCE))
                partition.sent(node, now)
            body = _offset_for_leader_epoch(wanted)
            self.send(
                self.request(body, to=node, deadline=now + patience, context=_EpochsSent(wanted))
            )

    def _look_again(self, tp: TopicPartition, partition: _Partition) -> None:
        """The topic was not described when the partition was judged: now it is."""
        because = self._new.seen(tp, self._cluster.topics.get(tp.topic))
        if because:
            self.log.info("partition.judged", partitions=[tp], new=True, because=because)
            partition.is_new(because)

    def _look_offsets_up(self, now: float, jitter: float) -> float:
        """ListOffsets to the leaders of what is asked for and neither found nor in flight."""
        if not self._questions:
            return NEVER
        for question in self._questions.values():
            question.begin(now)
            if now >= question.due:
                self._ask_leaders(question, now, jitter)
        return min((question.due for question in self._questions.values()), default=NEVER)

    def _ask_leaders(self, question: _Question, now: float, jitter: float) -> None:
        patience = question.backoff.doubled(PATIENCE, self.settings.request_timeout)
        deadline = min(question.asked.deadline, now + patience)
        by_leader, leaderless = self._by_leader(question.to_ask())
        if leaderless:
            question.backoff.failed(now, jitter)
            for tp in leaderless:
                question.not_tried(tp)
            self._say(_want_leaders(leaderless))
        for node, partitions in by_leader.items():
            question.sent(partitions, node, now)
            timestamps = {tp: question.asked.timestamps[tp] for tp in partitions}
            context = _TimesSent(question.asked.ticket, frozenset(partitions))
            self._list_offsets(node, timestamps, now, deadline, context)

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        leaderless: list[TopicPartition] = []
        for tp in sorted(partitions):
            info = self._cluster.leader(*tp)
            (leaderless if info is None else by_leader[info.leader]).append(tp)
        return by_leader, leaderless

    def _list_offsets(
        self,
        node: int,
        timestamps: Mapping[TopicPartition, int],
        now: float,
        deadline: float,
        context: _ResetsSent | _TimesSent,
    ) -> None:
        committed = self.settings.isolation_level == "read_committed"
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        for tp, timestamp in timestamps.items():
            topics[tp.topic].append(
                ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=self._leader(tp).leader_epoch,
                    timestamp=timestamp,
                )
            )
        body = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
            timeout_ms=max(0, int((deadline - now) * 1000)),
            # v0 answers in segments; before v2 a broker cannot tell committed from aborted.
            min_version=2 if committed else 1,
        )
        self.send(self.request(body, to=node, deadline=deadline, context=context))

    def _leader(self, tp: TopicPartition) -> PartitionInfo:
        info = self._cluster.leader(*tp)
        assert info is not None, "asked about a partition without a leader"
        return info

    # -- what is answered

    @answers_to(ListOffsetsRequest, note=_ResetsSent)
    def on_resets_listed(self, received: ResponseReceived) -> None:
        """Apply what is still wanted, try the rest again."""
        sent: _ResetsSent = received.request.context
        by = self._name(received.node)
        listed = _take_apart(Answer.LIST_OFFSETS, received.response, sent.wanted.keys(), by)
        self._resets_listed(sent, listed, received.now, received.jitter)

    @failure_of(ListOffsetsRequest, note=_ResetsSent)
    def on_resets_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        sent: _ResetsSent = failed.request.context
        if Do.RAISE in means(Answer.LIST_OFFSETS, type(failed.error)):
            error = explained(failed.error, listed(sent.wanted), Answer.LIST_OFFSETS)
            self._fail(self._still_wanted(sent), error)
            return
        unanswered = _Listed(troubles=dict.fromkeys(sent.wanted, failed.error))
        self._resets_listed(sent, unanswered, failed.now, failed.jitter)

    def _still_wanted(self, context: _ResetsSent) -> list[TopicPartition]:
        """The partitions that still want this reset: after a seek, a new assignment or another
        reset they do not."""
        wanted: list[TopicPartition] = []
        dropped: list[TopicPartition] = []
        for tp, then in context.wanted.items():
            found = self._partitions.get(tp)
            valid = found is not None and found.state is State.AWAIT_RESET and found.wanted == then
            (wanted if valid else dropped).append(tp)
        if dropped:
            self.log.info("position.dropped", partitions=dropped, because="no longer wanted")
        return wanted

    def _resets_listed(
        self, context: _ResetsSent, listed: _Listed, now: float, jitter: float
    ) -> None:
        resets: dict[TopicPartition, OffsetAndTimestamp] = {}
        troubles: dict[TopicPartition, Exception] = {}
        wanted = self._still_wanted(context)
        for tp in wanted:
            partition = self._partitions[tp]
            offset = listed.offsets.get(tp)
            if tp in listed.offsets:
                offset = partition.answered(offset)
            if offset is not None:
                resets[tp] = offset
            elif tp in listed.offsets and partition.goes_on:
                continue
            elif tp not in listed.refused:
                troubles[tp] = listed.troubles.get(tp) or OffsetNotAvailableError()
                self._partitions[tp].failed(troubles[tp], now, jitter)
        self._reset(resets)
        for error, those in listed.refusals(wanted):
            self._fail(those, error)
        self._refresh_after(Answer.LIST_OFFSETS, troubles)

    def _reset(self, resets: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        groups: defaultdict[tuple[str, str], list[TopicPartition]]
        groups = defaultdict(list)
        positions: dict[TopicPartition, Assigned] = {}
        for tp, found in resets.items():
            partition = self._partitions[tp]
            groups[partition.way, partition.because].append(tp)
            partition.move(Trigger.END_FOUND)
            self._awaiting.pop(tp, None)
            positions[tp] = Assigned(
                epoch=partition.epoch,
                position=_after_reset(partition, found),
            )
        for (strategy, because), partitions in groups.items():
            from_offsets = {tp: self._partitions[tp].from_offset for tp in partitions}
            is_loss = any(offset is not None for offset in from_offsets.values())
            facts = {
                "partitions": {tp: resets[tp].offset for tp in partitions},
                "from_offsets": from_offsets,
                "strategy": strategy,
                "because": because,
            }
            if is_loss:
                self.log.warning("position.reset", **facts)
            else:
                self.log.info("position.reset", **facts)
        self._resolve(positions, because="reset")

    def _refresh_after(self, answer: Answer, troubles: Mapping[TopicPartition, Exception]) -> None:
        """Refresh the metadata after errors of a broker that may not lead any more: otherwise the
        next attempt would go to the same node (KAFKA-18469)."""
        if not troubles:
            return
        reasons = sorted({str(error) for error in troubles.values()})
        self.log.warning("position.retrying", partitions=sorted(troubles), because=reasons)
        if any(Do.REFRESH_METADATA in means(answer, type(error)) for error in troubles.values()):
            self._say(RefreshMetadata(because=f"offsets were not listed: {reasons[0]}"))

    @answers_to(OffsetForLeaderEpochRequest)
    def on_epochs_ended(self, received: ResponseReceived) -> None:
        """A leader says where the epochs of our positions end in its log."""
        sent: _EpochsSent = received.request.context
        answers = {
            TopicPartition(topic.topic, partition.partition): partition
            for topic in received.response.topics
            for partition in topic.partitions
        }
        codes = {
            tp: error_of(answers[tp].error_code) if tp in answers else UnknownTopicOrPartitionError
            for tp in sent.wanted
        }
        errors = {tp: kind() for tp, kind in codes.items() if kind is not NoError}
        diverged: dict[TopicPartition, Divergence] = {}
        for tp in self._still_validating(sent):
            if tp in errors:
                continue
            end = _end_of(answers[tp])
            if not _has_read_further(sent.wanted[tp].position, end):
                continue
            diverged[tp] = Divergence(
                epoch=sent.wanted[tp].epoch,
                position=sent.wanted[tp].position,
                end=end,
                node=received.node,
            )
        self._tell_truncated(diverged)
        self._validated(sent, errors, received.now, received.jitter)

    @failure_of(OffsetForLeaderEpochRequest)
    def on_epochs_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        sent: _EpochsSent = failed.request.context
        self._validated(sent, dict.fromkeys(sent.wanted, failed.error), failed.now, failed.jitter)

    def _still_validating(self, sent: _EpochsSent) -> list[TopicPartition]:
        """The partitions that still have the position that was validated."""
        return [
            tp
            for tp, then in sent.wanted.items()
            if tp in self._validating
            and self._partitions[tp].epoch == then.epoch
            and self._partitions[tp].position == then.position
        ]

    def _validated(
        self,
        sent: _EpochsSent,
        errors: Mapping[TopicPartition, Exception],
        now: float,
        jitter: float,
    ) -> None:
        """Fetch on where no error stands against it; ask again for the rest."""
        valid: dict[TopicPartition, Validated] = {}
        troubles: dict[TopicPartition, Exception] = {}
        for tp in self._still_validating(sent):
            partition, error = self._partitions[tp], errors.get(tp)
            if error is None or Do.DONE in means(Answer.OFFSET_FOR_LEADER_EPOCH, type(error)):
                partition.move(Trigger.VALID)
                del self._validating[tp]
                then = sent.wanted[tp]
                valid[tp] = Validated(epoch=then.epoch, leader_epoch=then.leader_epoch)
            else:
                troubles[tp] = error
                partition.failed(error, now, jitter)
        if valid:
            self.log.info(
                "position.validated",
                partitions={tp: sent.wanted[tp].position.offset for tp in valid},
                because=sorted({str(errors[tp]) for tp in valid if tp in errors}) or None,
            )
            self._say(PositionsValidated(partitions=valid))
        self._refresh_after(Answer.OFFSET_FOR_LEADER_EPOCH, troubles)

    # -- questions

    @answers_to(ListOffsetsRequest, note=_TimesSent)
    def on_times_listed(self, received: ResponseReceived) -> None:
        """One leader has answered. The question ends with the last answer, or with a refusal."""
        sent: _TimesSent = received.request.context
        by, answer = self._name(received.node), Answer.LIST_OFFSETS_BY_TIME
        listed = _take_apart(answer, received.response, sent.partitions, by)
        self._times_listed(sent, listed, received.now, received.jitter)

    @failure_of(ListOffsetsRequest, note=_TimesSent)
    def on_times_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        sent: _TimesSent = failed.request.context
        if Do.RAISE in means(Answer.LIST_OFFSETS_BY_TIME, type(failed.error)):
            error = explained(failed.error, listed(sent.partitions), Answer.LIST_OFFSETS_BY_TIME)
            self._end_question(Failed(ticket=sent.ticket, error=error))
            return
        unanswered = _Listed(troubles=dict.fromkeys(sent.partitions, failed.error))
        self._times_listed(sent, unanswered, failed.now, failed.jitter)

    def _times_listed(
        self, context: _TimesSent, listed: _Listed, now: float, jitter: float
    ) -> None:
        question = self._questions.get(context.ticket)
        if question is None:
            return  # another leader's refusal or the deadline has ended it
        for tp in context.partitions:
            question.answered(tp)
        for error, _ in listed.refusals(context.partitions):
            self._end_question(Failed(ticket=context.ticket, error=error))
            return
        for tp, offset in listed.offsets.items():
            if offset is None and question.asked.timestamps[tp] < 0:
                listed.mark_unavailable(tp)
            else:
                question.finds(tp, offset)
        if question.found.keys() >= question.asked.timestamps.keys():
            self._end_question(Answered(ticket=context.ticket, value=question.found))
            return
        if not listed.troubles:
            return
        question.failed(listed.troubles)
        if now >= question.backoff.retry_at:
            question.backoff.failed(now, jitter)
        self._refresh_after(Answer.LIST_OFFSETS_BY_TIME, listed.troubles)

    def _end_question(self, end: Answered | Failed) -> None:
        if self._questions.pop(end.ticket, None) is None:
            return
        if isinstance(end, Failed):
            self.log.warning("lookup.failed", ticket=end.ticket, because=end.error)
        self._say(end)

    def _end_overdue(self, now: float, _jitter: float) -> float:
        """Fail each question whose deadline has passed. The error says what each offset waited
        for."""
        if not self._questions:
            return NEVER
        overdue = [
            question for question in self._questions.values() if now >= question.asked.deadline
        ]
        for question in overdue:
            missing = sorted(question.asked.timestamps.keys() - question.found.keys())
            reasons = "; ".join(
                f"{name_of_partition(tp)}: "
                + self._obstacle(tp, question.in_flight.get(tp), question.troubles.get(tp), now)
                for tp in missing[:NAMED]
            )
            more = f"; and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            error = KafkaTimeoutError(
                f"no offset was found within {question.waited(now):.1f} s for {reasons}{more}."
                " Check that the partitions exist and that their leaders can be reached."
            )
            self._end_question(Failed(ticket=question.asked.ticket, error=error))
        return min(
            (question.asked.deadline for question in self._questions.values()), default=NEVER
        )

    @handles(ExplainPosition)
    def on_explain_position(self, asked: ExplainPosition) -> None:
        """Say what the position of an assigned partition waits for."""
        tp = asked.partition
        partition = self._partitions.get(tp)
        if partition is not None and partition.state is State.INITIALIZING:
            self._say(ExplainStartingOffset(ticket=asked.ticket, partition=tp, now=asked.now))
            return
        if partition is None or partition.state is not State.AWAIT_RESET:
            self._say(Answered(ticket=asked.ticket, value="it was not looked up in time"))
            return
        where = {ResetStrategy.EARLIEST: "begins", ResetStrategy.LATEST: "ends"}
        of = where.get(partition.strategy) if partition.strategy is not None else None
        asked_of = partition.asked if partition.exchange.in_flight else None
        why = self._obstacle(tp, asked_of, partition.trouble, asked.now)
        self._say(Answered(ticket=asked.ticket, value=f"where its log {of or 'is'}: {why}"))

    def _obstacle(
        self, tp: TopicPartition, asked: _AskedOf | None, trouble: Exception | None, now: float
    ) -> str:
        """Why the offset of a partition is not found yet."""
        info = self._cluster.leader(*tp)
        if asked is not None:
            silence = f"{self._name(asked.node)} has not answered for {now - asked.at:.1f} s"
            return f"{silence} (before that: {trouble})" if trouble is not None else silence
        if info is None:
            return self._why_no_leader(tp)
        if trouble is not None:
            return f"{self._name(info.leader)}: {trouble}"
        return f"{self._name(info.leader)} was not asked in time"

    def _why_no_leader(self, tp: TopicPartition) -> str:
        topic = self._cluster.topics.get(tp.topic)
        if not self._cluster.brokers:
            return "no broker has said yet who leads it"
        if tp.topic in self._cluster.forbidden:
            return "this principal may not describe the topic (TopicAuthorizationFailedError)"
        if topic is None:
            return "no broker has described the topic; it may not exist"
        if tp.partition not in topic.partitions:
            return f"the topic has no such partition (it has {len(topic.partitions)})"
        return "the partition has no leader at the moment"

    def _name(self, node: int) -> str:
        broker = self._cluster.brokers.get(node)
        return f"broker {node}" if broker is None else str(broker)


def _want_leaders(leaderless: list[TopicPartition]) -> RefreshMetadata:
    return RefreshMetadata(because=f"no leader is known of {listed(leaderless)}")


def _offset_for_leader_epoch(wanted: Mapping[TopicPartition, _Validation]) -> Any:
    """Where the epochs of these positions end. Before v3 only brokers may ask (KIP-320)."""
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for tp, one in wanted.items():
        topics[tp.topic].append(
            kind.OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=one.leader_epoch,
                leader_epoch=one.position.leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[kind(topic=name, partitions=partitions) for name, partitions in topics.items()],
        min_version=3,
    )


def _end_of(answer: Any) -> Position | None:
    """The last epoch up to ours that the leader knows, and where it ends there; None: none."""
    if answer.end_offset < 0 or answer.leader_epoch < 0:
        return None
    return Position(offset=answer.end_offset, leader_epoch=answer.leader_epoch)


def _has_read_further(position: Position, end: Position | None) -> bool:
    """Whether the epoch of the position is unknown to the leader, or ends before the position."""
    return end is None or end.offset < position.offset or end.leader_epoch < position.leader_epoch


def _after_reset(partition: _Partition, found: OffsetAndTimestamp) -> Position:
    """The answer to LATEST has the epoch of the leader, in whose log the position is. The answer to
    EARLIEST, or to a time, has the epoch of the first record, which is behind the position: of what
    was before it nothing is known."""
    known = partition.strategy is ResetStrategy.LATEST and (
        partition.duration is None or found is partition.end
    )
    return Position(offset=found.offset, leader_epoch=found.leader_epoch if known else -1)


def _take_apart(answer: Answer, response: Any, asked: Iterable[TopicPartition], by: str) -> _Listed:
    """The part of an answer for each partition that was asked for. A partition that is left out
    counts as UNKNOWN_TOPIC_OR_PARTITION."""
    left_out = dict.fromkeys(asked, True)
    by_code: defaultdict[int, dict[TopicPartition, Any]] = defaultdict(dict)
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if left_out.pop(tp, False):  # otherwise it was never asked for
                by_code[partition.error_code][tp] = partition
    troubles: dict[TopicPartition, Exception] = {
        tp: UnknownTopicOrPartitionError() for tp in left_out
    }
    listed = _Listed(troubles=troubles, answer=answer, by=by)
    for code, parts in by_code.items():
        kind = error_of(code)
        meaning = means(answer, kind)
        if Do.DONE in meaning:
            listed.offsets.update((tp, _found(part)) for tp, part in parts.items())
        elif Do.RAISE in meaning:
            listed.refused.update(dict.fromkeys(parts, kind))
        else:
            listed.troubles.update((tp, kind()) for tp in parts)
    return listed


def _found(answer: Any) -> OffsetAndTimestamp | None:
    if answer.error_code or answer.offset == NO_OFFSET:
        return None
    timestamp = -1 if answer.timestamp is None else answer.timestamp
    epoch = -1 if answer.leader_epoch is None else answer.leader_epoch
    return OffsetAndTimestamp(answer.offset, timestamp, epoch)
