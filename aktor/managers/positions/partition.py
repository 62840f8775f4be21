"""The way of an assigned partition to its position: its state machine, and what it waits for."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import Backoff
from aktor.events.message import Message
from aktor.events.positions import (
    Assigned,
    Position,
    PositionsFailed,
    PositionsResolved,
    ResetPolicy,
    ResetStrategy,
)
from aktor.settings import Settings
from aktor.state_table import follow
from aktor.trace import Trace
from aktor.values import Mutable, Value

__all__ = [
    "TRANSITIONS",
    "AskedOf",
    "Partition",
    "Partitions",
    "State",
    "Trigger",
    "WantedReset",
]


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
    LEFT_HERE = "no offset is committed, and it was left at a position"
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
        _T.LEFT_HERE: _S.RESOLVED,
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


class AskedOf(Value, kw_only=False):
    """Which broker was asked, and when."""

    node: int
    at: float


class WantedReset(Value, kw_only=False):
    """The epoch, policy and stage of a reset in flight: its answer counts while all are the same.

    The stage (see `Partition.answered`) counts because a reset that is told once more, in the same
    epoch, begins again: an answer about the end of the log is not one about a record.
    """

    epoch: int
    strategy: ResetStrategy | None
    duration: float | None
    looks_for_end: bool
    end: OffsetAndTimestamp | None


class Partition(Mutable):
    """One assigned partition. `strategy`, `from_offset`, `because` tell of the reset, if any."""

    epoch: int
    state: State
    exchange: Exchange
    #: The position at the revocation, if the next assignment has this partition again.
    left: Position | None = None
    strategy: ResetStrategy | None = None
    #: With `by_duration`: the first record of the last `duration` seconds is looked for. If there
    #: is none, the position is the log's end (`strategy`) as it was when none was found (`end`).
    duration: float | None = None
    end: OffsetAndTimestamp | None = None
    looks_for_end: bool = False
    from_offset: int | None = None
    because: str = ""
    #: The offset to which the last reset has led. If the leader then calls this offset out of
    #: range, the next reset waits for the backoff `again`.
    reset_to: int | None = None
    again: Backoff
    #: The position that is validated, in VALIDATING.
    position: Position | None = None
    #: Which broker was asked last, and when; and the error of the attempt before.
    asked: AskedOf | None = None
    trouble: Exception | None = None

    def move(self, trigger: Trigger, epoch: int | None = None) -> None:
        """The only place where `state` is assigned again. With a new `epoch`, answers that are
        about an older epoch will be dropped."""
        self.state = follow(TRANSITIONS, self.state, trigger)
        self.exchange.ended()
        if epoch is not None:
            self.epoch = epoch

    # -- a reset: ListOffsets

    def await_reset(self, policy: ResetPolicy, because: str, from_offset: int | None) -> None:
        """The leader is to be asked where the log begins or ends; `because` is the reason.
        `from_offset`: the offset that is out of range, if that is why."""
        self.strategy, self.duration = policy.strategy, policy.duration
        self.end, self.looks_for_end = None, False
        self.from_offset = from_offset
        self.because = because
        self.exchange.hurry()
        if from_offset is not None and from_offset == self.reset_to:
            # The leader had named this offset, and refuses it: it may say the same again.
            self.exchange.pause(self.again.retry_at)

    def is_new(self, because: str) -> None:
        """The partition is new, so it is read from its first record."""
        self.await_reset(ResetPolicy(strategy=ResetStrategy.EARLIEST), because, None)

    @property
    def wanted_reset(self) -> WantedReset:
        """What the answer to ListOffsets must be about."""
        return WantedReset(self.epoch, self.strategy, self.duration, self.looks_for_end, self.end)

    def timestamp(self, wall: float) -> int:
        """What to ask the leader for, at this time since the epoch."""
        assert self.strategy is not None, "a reset without a strategy"
        if self.duration is None or self.looks_for_end:
            return self.strategy.value
        return max(0, int((wall - self.duration) * 1000))

    def answered(self, offset: OffsetAndTimestamp | None) -> OffsetAndTimestamp | None:
        """The leader has answered; returns the position. None: it must be asked again.

        With `by_duration`, if no record is young enough, the end of the log is asked for, then
        once more a young record: one written in between would be skipped.
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

    def was_reset(self, offset: int, now: float, jitter: float) -> None:
        """The reset has led to this offset. If that is the offset which was out of range, the next
        reset from there waits, longer each time."""
        if offset == self.from_offset:
            self.again.failed(now, jitter)
        else:
            self.again.reset()
        self.reset_to = offset

    @property
    def goes_on(self) -> bool:
        """Whether the answer has led to another question (see `answered`)."""
        return self.duration is not None and not self.exchange.in_flight

    def starts_at(self, found: OffsetAndTimestamp) -> Position:
        """The position after the reset.

        The answer to LATEST has the epoch of the leader, in whose log the position is. The answer
        to EARLIEST, or to a time, has the epoch of the first record after the position. The epoch
        of the record before it is not known.
        """
        known = self.strategy is ResetStrategy.LATEST and (
            self.duration is None or found is self.end
        )
        return Position(offset=found.offset, leader_epoch=found.leader_epoch if known else -1)

    @property
    def way(self) -> str:
        """How it is reset, for the trace."""
        assert self.strategy is not None, "a reset without a strategy"
        return self.strategy.name.lower() if self.duration is None else "by_duration"

    # -- a validation: OffsetForLeaderEpoch

    def validate(self, position: Position) -> None:
        """The leader is to be asked whether it has this position."""
        self.position = position
        self.exchange.hurry()

    # -- its request, of either kind

    def sent(self, node: int, now: float) -> None:
        """This broker is asked."""
        self.asked = AskedOf(node, now)
        self.exchange.sent()

    def refused(self, error: Exception) -> None:
        """No position can be found, for this reason: the application decides what to do."""
        self.trouble = error

    def failed(self, trouble: Exception | None, now: float, jitter: float) -> None:
        """The attempt has failed with this; None: it was not made, since no leader is known."""
        self.trouble = trouble
        self.exchange.failed(now, jitter)


class Partitions:
    """Owns the assigned partitions: their states and epochs, and how each way to a position ends.

    `say` and `log` are the manager's.
    """

    def __init__(self, settings: Settings, say: Callable[[Message], None], log: Trace) -> None:
        self._settings = settings
        self._say = say
        self._log = log
        self._partitions: dict[TopicPartition, Partition] = {}
        #: Those in each state, in the order in which they got there. Kept, because most ticks find
        #: none that waits for its leader, and must be quick.
        self._in_state: dict[State, dict[TopicPartition, None]] = {state: {} for state in State}

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._partitions

    def __getitem__(self, tp: TopicPartition) -> Partition:
        return self._partitions[tp]

    def get(self, tp: TopicPartition) -> Partition | None:
        """The partition, if it is assigned."""
        return self._partitions.get(tp)

    def state(self, tp: TopicPartition) -> State | None:
        """How far it is; None if it is not assigned."""
        partition = self._partitions.get(tp)
        return None if partition is None else partition.state

    def in_state(self, state: State) -> Collection[TopicPartition]:
        """The partitions in this state: a view, which changes when a partition's state does."""
        return self._in_state[state].keys()

    def kept(self, wanted: Mapping[TopicPartition, Assigned]) -> set[TopicPartition]:
        """The partitions that stay as they are if these are assigned: they have the same epoch."""
        return {
            tp
            for tp, partition in self._partitions.items()
            if tp in wanted and wanted[tp].epoch == partition.epoch
        }

    def assign(self, wanted: Mapping[TopicPartition, Assigned]) -> list[TopicPartition]:
        """Exactly these are assigned. Those with the epoch that they had stay as they are; returns
        those of the others that have no position."""
        for tp in self._partitions.keys() - self.kept(wanted):
            del self._in_state[self._partitions.pop(tp).state][tp]
        new = {tp: assigned for tp, assigned in wanted.items() if tp not in self._partitions}
        for tp, assigned in new.items():
            state = State.INITIALIZING if assigned.position is None else State.RESOLVED
            exchange = Exchange(self._settings)
            backoff = Backoff(self._settings.retry_backoff, self._settings.retry_backoff_max)
            self._partitions[tp] = Partition(
                epoch=assigned.epoch,
                state=state,
                exchange=exchange,
                left=assigned.left,
                again=backoff,
            )
            self._in_state[state][tp] = None
        return [tp for tp, assigned in new.items() if assigned.position is None]

    def move(self, tp: TopicPartition, trigger: Trigger, epoch: int | None = None) -> Partition:
        """This has happened to the partition (see `Partition.move`)."""
        partition = self._partitions[tp]
        del self._in_state[partition.state][tp]
        partition.move(trigger, epoch)
        self._in_state[partition.state][tp] = None
        return partition

    def resolved(self, positions: Mapping[TopicPartition, Position], *, because: str) -> None:
        """Reading starts here."""
        if not positions:
            return
        offsets = {tp: position.offset for tp, position in positions.items()}
        self._log.info("position.resolved", partitions=offsets, because=because)
        resolved = {
            tp: Assigned(epoch=self._partitions[tp].epoch, position=position)
            for tp, position in positions.items()
        }
        self._say(PositionsResolved(partitions=resolved))

    def fail(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """No position can be found for these; the application decides what to do."""
        epochs = {}
        for tp in partitions:
            partition = self.move(tp, Trigger.REFUSED)
            partition.refused(error)
            epochs[tp] = partition.epoch
        if not epochs:
            return
        self._log.warning("position.failed", partitions=list(epochs), because=error)
        self._say(PositionsFailed(epochs=epochs, error=error))
