"""One transactional id: its producer, and how far its transaction has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from aktor.broker.codes import Code, Refused

__all__ = ["LAST_EPOCH", "NONE", "TRANSITIONS", "State", "Transaction", "Trigger"]

#: No producer id, no epoch.
NONE: Final = -1

#: The last epoch a producer is told. One more is kept back, to fence that producer with.
LAST_EPOCH: Final = 2**15 - 2


class State(Enum):
    """How far the transaction of a transactional id is; the values are what DescribeTransactions
    shows."""

    EMPTY = "Empty"
    """The id is initialised; nothing was added since."""

    ONGOING = "Ongoing"
    """Partitions or groups are in it. It ends by EndTxn, by a new producer, or by timeout."""

    PREPARE_COMMIT = "PrepareCommit"
    """The commit is in the journal: it cannot be changed. Markers are still to be written."""

    PREPARE_ABORT = "PrepareAbort"
    """The abort is in the journal: it cannot be changed. Markers are still to be written."""

    COMPLETE_COMMIT = "CompleteCommit"
    """Every marker of the commit is written; the next transaction may begin."""

    COMPLETE_ABORT = "CompleteAbort"
    """Every marker of the abort is written; the next transaction may begin."""

    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """A step on the way to PREPARE_ABORT, with a higher epoch. It is never in the journal."""

    DEAD = "Dead"
    """The id has expired. This, too, is never in the journal."""


class Trigger(Enum):
    """What moves a transaction on."""

    INITIALIZED = "initialized"
    """InitProducerId has given the producer an epoch."""
    ADDED = "added"
    """Partitions or groups were added."""
    COMMITTED = "committed"
    """EndTxn has asked for a commit."""
    ABORTED = "aborted"
    """EndTxn has asked for an abort, or the producer was fenced."""
    FENCED = "fenced"
    """The transaction ran out of time, or another producer starts with this id."""
    MARKED = "marked"
    """Every marker is written."""
    EXPIRED = "expired"
    """The id was not used for long."""


S, T = State, Trigger

#: While nothing is open. An abort of nothing is for clients of KIP-890: it bumps the epoch.
_IDLE: Final = {
    T.INITIALIZED: S.EMPTY,
    T.ADDED: S.ONGOING,
    T.ABORTED: S.PREPARE_ABORT,
    T.EXPIRED: S.DEAD,
}

#: The whole machine. A pair that is not here is a bug in us: requests are refused before.
TRANSITIONS: Final[Mapping[State, Mapping[Trigger, State]]] = {
    S.EMPTY: _IDLE,
    S.ONGOING: {
        T.ADDED: S.ONGOING,
        T.COMMITTED: S.PREPARE_COMMIT,
        T.ABORTED: S.PREPARE_ABORT,
        T.FENCED: S.PREPARE_EPOCH_FENCE,
    },
    S.PREPARE_EPOCH_FENCE: {T.ABORTED: S.PREPARE_ABORT},
    S.PREPARE_COMMIT: {T.MARKED: S.COMPLETE_COMMIT},
    S.PREPARE_ABORT: {T.MARKED: S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: _IDLE,
    S.COMPLETE_ABORT: _IDLE,
    S.DEAD: {},
}


@dataclass(slots=True, kw_only=True)
class Transaction:
    """Owns the epochs of a transactional id (Kafka's TransactionMetadata). Times in seconds.

    last_epoch: the epoch before the last bump the producer itself asked for; else NONE.
    previous_producer_id: whose id it was before the last move, so that a retry is recognised.
    next_producer_id: what the producer is to use once the markers are written, if epochs ran out.
    bumps_epoch: whether the client ends transactions by KIP-890, each with a new epoch.
    partitions, groups: in the order they were added; those without a marker yet, when prepared.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated: float
    state: State = State.EMPTY
    producer_epoch: int = NONE
    last_epoch: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    bumps_epoch: bool = False
    partitions: dict[tuple[str, int], None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    started: float | None = None
    coordinator_epoch: int = 0
    retry_at: float = 0.0

    def _on(self, trigger: Trigger, now: float, *, producer_id: int | None = None) -> None:
        """The only place where `state` is assigned."""
        try:
            self.state = TRANSITIONS[self.state][trigger]
        except KeyError:
            raise RuntimeError(
                f"transaction {self.transactional_id!r} {trigger.value} while {self.state.value}"
            ) from None
        self.previous_producer_id = self.producer_id
        if producer_id is not None:
            self.producer_id = producer_id
        self.updated = now

    # What it is.

    @property
    def prepared(self) -> bool:
        """Whether markers are still to be written."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def identity(self) -> tuple[int, int]:
        """The producer id and epoch the client is to go on with."""
        if self.next_producer_id != NONE:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    # What happens to it. Nothing is changed by what is refused.

    def check_successor(self, producer_id: int, producer_epoch: int) -> None:
        """Raise PRODUCER_FENCED unless InitProducerId may go on from this id (KIP-360)."""
        if self.producer_epoch == NONE or producer_id == self.producer_id:
            return
        # A retry: the first answer, which named a new id since epochs had run out, was lost.
        if producer_id == self.previous_producer_id and producer_epoch >= LAST_EPOCH:
            return
        raise Refused(Code.PRODUCER_FENCED)

    def initialize(self, expected: tuple[int, int] | None, timeout_ms: int, now: float) -> None:
        """Give the next epoch; to a retry of the producer itself, the same once more."""
        epoch, last = self._next_epoch(None if expected is None else expected[1])
        self._on(Trigger.INITIALIZED, now)
        self.producer_epoch, self.last_epoch = epoch, last
        self._begin_anew(timeout_ms)

    def _next_epoch(self, expected: int | None) -> tuple[int, int]:
        if expected is None:
            return self.producer_epoch + 1, NONE
        if self.producer_epoch in (NONE, expected):
            return self.producer_epoch + 1, self.producer_epoch
        if expected == self.last_epoch:
            return self.producer_epoch, self.last_epoch
        raise Refused(Code.PRODUCER_FENCED)

    def rotate(self, producer_id: int, *, last_epoch: int, timeout_ms: int, now: float) -> None:
        """Begin with a new producer id at epoch 0: the old one has no epochs left."""
        self._on(Trigger.INITIALIZED, now, producer_id=producer_id)
        self.producer_epoch, self.last_epoch = 0, last_epoch
        self._begin_anew(timeout_ms)

    def _begin_anew(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.next_producer_id = NONE
        self.started = None

    def add(
        self,
        partitions: Iterable[tuple[str, int]],
        groups: Iterable[str],
        *,
        bumps_epoch: bool,
        now: float,
    ) -> None:
        """Take partitions and groups in; the first ones open the transaction."""
        if self.state is not State.ONGOING:
            self.started = now
        self._on(Trigger.ADDED, now)
        self.partitions |= dict.fromkeys(partitions)
        self.groups |= dict.fromkeys(groups)
        self.bumps_epoch = bumps_epoch

    def end(self, *, commit: bool, bumps_epoch: bool, next_producer_id: int, now: float) -> None:
        """Decide how it ends. With a bump the markers carry the new epoch already (KIP-890)."""
        if self.state not in (State.ONGOING, State.PREPARE_EPOCH_FENCE):
            self.started = now
        self._on(Trigger.COMMITTED if commit else Trigger.ABORTED, now)
        self.bumps_epoch = bumps_epoch
        self.next_producer_id = next_producer_id
        if bumps_epoch:
            self.last_epoch = self.producer_epoch
            self.producer_epoch += 1

    def fence(self, *, next_producer_id: int, now: float) -> None:
        """Abort it against its producer: by timeout, or because another one starts."""
        self._on(Trigger.FENCED, now)
        self.end(commit=False, bumps_epoch=True, next_producer_id=next_producer_id, now=now)

    def complete(self, now: float) -> None:
        """All markers are written. Of an id without epochs the next one takes over now."""
        producer_id, epoch = self.identity
        self._on(Trigger.MARKED, now, producer_id=producer_id)
        self.producer_epoch = epoch
        self.next_producer_id = NONE

    def expire(self, now: float) -> None:
        """The id was not used for long; it is to be forgotten."""
        self._on(Trigger.EXPIRED, now)

    # How it is kept.

    def to_value(self) -> dict[str, Any]:
        """Everything worth keeping, in JSON types."""
        return {
            "state": self.state.value,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "last_epoch": self.last_epoch,
            "previous_producer_id": self.previous_producer_id,
            "next_producer_id": self.next_producer_id,
            "timeout_ms": self.timeout_ms,
            "bumps_epoch": self.bumps_epoch,
            "partitions": [list(partition) for partition in self.partitions],
            "groups": list(self.groups),
            "started": self.started,
            "updated": self.updated,
            "coordinator_epoch": self.coordinator_epoch,
        }

    @classmethod
    def from_value(cls, transactional_id: str, value: Mapping[str, Any]) -> Transaction:
        """As it was kept."""
        kept = dict(value)
        kept["state"] = State(kept["state"])
        kept["partitions"] = dict.fromkeys(tuple(partition) for partition in kept["partitions"])
        kept["groups"] = dict.fromkeys(kept["groups"])
        return cls(transactional_id=transactional_id, **kept)
