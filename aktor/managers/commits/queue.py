"""The queue of commits: what waits to be stored, in which order, and what goes past it."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER
from aktor.events.answers import Answered, Failed
from aktor.events.commits import AutoCommitFinished, RevocationCommitted
from aktor.events.message import Message
from aktor.managers.commits.errors import Coordinator, Waited, says_expelled
from aktor.managers.commits.requests import TopicIds
from aktor.values import Mutable

__all__ = ["Commit", "CommitQueue", "Kind"]


class Kind(enum.Enum):
    """Why the commit was made."""

    ASKED = "asked"
    AUTO = "auto"
    REVOCATION = "revocation"


class CommitAttempts(Mutable):
    """How often a commit was sent, and how these attempts ended."""

    made: int = 0
    sent_at: float = -math.inf
    #: Whether an attempt had no answer: the broker may have stored the offsets.
    unsure: bool = False
    last_error: Exception | None = None
    #: Whether the commit is over, although an answer may still come.
    ended: bool = False

    def sent(self, now: float) -> None:
        """An attempt is sent now."""
        self.made += 1
        self.sent_at = now

    def unanswered(self) -> None:
        """The attempt in flight gets no answer: the broker may have stored the offsets, or not."""
        self.unsure = True

    def failed(self, error: Exception) -> None:
        """The attempt in flight has failed."""
        self.last_error = error

    def end(self) -> None:
        """The commit is over and its outcome is told. A later answer does not change that."""
        self.ended = True


class Commit(Mutable):
    """One commit on its way. `number` is the ticket or the rebalance number for its outcome.

    The offsets are copied: the caller's mapping may change (KAFKA-19351).
    """

    kind: Kind
    exchange: Exchange
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    number: int = -1
    deadline: float = math.inf
    retry: bool = False
    #: The partitions that were assigned to us when it was asked for, with their ownership numbers.
    owned: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: Whether the group had assigned these partitions to us.
    by_group: bool = False
    refresh: bool = False
    #: The topic ids that were known when it was asked for.
    topic_ids: TopicIds = field(default_factory=dict)
    #: Partitions that are left out, because their topic was deleted, and perhaps created again.
    outdated: set[TopicPartition] = field(default_factory=set)
    #: Partitions that the application has given up since, by unsubscribe or close.
    let_go: set[TopicPartition] = field(default_factory=set)
    #: Counts the commits in the order in which they were asked for.
    serial: int = -1
    #: The offsets that are not stored yet.
    remaining: dict[TopicPartition, OffsetAndMetadata] = field(init=False, default_factory=dict)
    #: The time of the manager's first tick with this commit: handlers do not know the time.
    since: float | None = None
    attempts: CommitAttempts = field(default_factory=CommitAttempts)

    def __post_init__(self) -> None:
        self.fill(self.offsets)

    def fill(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store these offsets: those of an automatic commit are read only when it is sent."""
        self.offsets = dict(offsets)
        self.remaining = dict(offsets)

    def queued(self, serial: int) -> None:
        """The commit takes its place in the queue."""
        self.serial = serial

    def begin_waiting(self, now: float) -> None:
        """The manager has its first tick with this commit."""
        self.since = now

    def sent(self, now: float) -> None:
        """An attempt is made."""
        self.attempts.sent(now)
        self.exchange.sent()

    def learn_ownership(self, owned: Mapping[TopicPartition, int], *, by_group: bool) -> None:
        """A restarted actor has its first AssignmentChanged: which of the partitions are ours."""
        self.owned = owned
        self.by_group = self.by_group or by_group

    def let_go_of(self, partitions: Iterable[TopicPartition]) -> None:
        """The application has given these up, and did not wait for the commit."""
        self.let_go.update(partitions)

    def leave_out(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions need no commit any more: their offsets, or later ones, are stored."""
        for partition in partitions:
            self.remaining.pop(partition, None)

    def leave_out_outdated(self, topic_ids: TopicIds) -> None:
        """If a topic was deleted and created again, leave its offsets out: they mean nothing in the
        new topic."""
        was = self.topic_ids
        known = was.keys() & topic_ids.keys()
        for partition in [partition for partition in self.remaining if partition.topic in known]:
            if was[partition.topic] != topic_ids[partition.topic]:
                del self.remaining[partition]
                self.outdated.add(partition)

    def leave_out_deleted(self, deleted: Collection[str], known: TopicIds) -> None:
        """Leave out the offsets of topics that were `deleted`: topics that had an id, by what was
        known when it was asked for, or by what is `known`."""
        for partition in [each for each in self.remaining if each.topic in deleted]:
            if partition.topic in self.topic_ids or partition.topic in known:
                del self.remaining[partition]
                self.outdated.add(partition)

    @property
    def in_flight(self) -> bool:
        """Whether its answer is expected."""
        return self.exchange.in_flight

    @property
    def ends_at(self) -> float:
        """When the commit fails if no answer comes; NEVER if it has ended already."""
        return NEVER if self.attempts.ended else self.deadline

    def due(self, now: float) -> float:
        """When it may be sent: NEVER after its deadline. But a commit is tried once, even if its
        deadline has come already when it is first looked at."""
        is_first = self.attempts.made == 0 and self.since == now
        return self.exchange.due if now < self.deadline or is_first else NEVER

    def waited(self, now: float, coordinator: Coordinator) -> Waited:
        """How long it has waited, and what stood in its way."""
        return Waited(
            since=self.since,
            until=now,
            attempts=self.attempts.made,
            last_error=self.attempts.last_error,
            sent_at=self.attempts.sent_at if self.in_flight else None,
            coordinator=coordinator,
        )

    def outcome(self, error: Exception | None) -> Message:
        """The message that tells how the commit ended."""
        if self.kind is Kind.REVOCATION:
            return RevocationCommitted(rebalance=self.number, expelled=says_expelled(error))
        if self.kind is Kind.AUTO:
            return AutoCommitFinished(offsets=dict(self.offsets), error=error)
        if error is None:
            return Answered(ticket=self.number)
        return Failed(ticket=self.number, error=error)

    @property
    def is_of_ours(self) -> bool:
        """Whether all its partitions were assigned to us when it was asked for."""
        return self.kind is Kind.AUTO or self.remaining.keys() <= self.owned.keys()

    @property
    def alone(self) -> bool:
        """Whether the commit is sent alone, in one request.

        Each synchronous commit is retried by itself, and an automatic commit reads the positions
        when it is sent. Asynchronous commits that follow each other share a request.
        """
        return self.kind is Kind.AUTO or self.retry


class CommitQueue:
    """Owns the commits that wait or are in flight, and their order.

    The user's commits and automatic commits wait in the queue. Only the first is in flight
    (asynchronous commits that follow each other go in one request). The last commit before a
    revocation does not wait in the queue.
    """

    def __init__(self) -> None:
        self.waiting: deque[Commit] = deque()
        self.revocations: list[Commit] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.revocations)

    def __iter__(self) -> Iterator[Commit]:
        """A copy of all commits, revocations first: commits may end during the iteration."""
        return iter((*self.revocations, *self.waiting))

    def add(self, commit: Commit) -> None:
        """Add a commit behind those that were asked for before; a revocation passes the queue."""
        commit.queued(self._serial)
        self._serial += 1
        (self.revocations if commit.kind is Kind.REVOCATION else self.waiting).append(commit)

    def remove(self, commit: Commit) -> bool:
        """The commit is over; False if it was removed before."""
        ranks = self.revocations if commit.kind is Kind.REVOCATION else self.waiting
        if commit not in ranks:
            return False
        ranks.remove(commit)
        return True

    def has_auto(self) -> bool:
        """Whether an automatic commit is under way."""
        return any(commit.kind is Kind.AUTO for commit in self.waiting)

    def must_wait(self, commit: Commit) -> bool:
        """Whether a revocation that goes first still has offsets of the same partitions to store.

        A revocation goes before all other commits, except an earlier revocation.
        """
        return any(
            commit.remaining.keys() & revocation.remaining.keys()
            for revocation in self.revocations
            if commit.kind is not Kind.REVOCATION or revocation.serial < commit.serial
        )

    def after(self, commit: Commit) -> list[Commit]:
        """The commits that wait in the queue behind this one."""
        return [other for other in self.waiting if other.serial > commit.serial]

    def passed(self, revocation: Commit) -> list[Commit]:
        """The commits that a revocation went past: none may be stored after it, since its offsets
        are newer."""
        return [commit for commit in self.waiting if commit.serial < revocation.serial]

    def unanswered(self) -> set[TopicPartition]:
        """Partitions of commits that were not sent yet, or were sent and not answered."""
        return {
            partition
            for commit in self
            if commit.in_flight or not commit.attempts.made
            for partition in commit.remaining
        }

    def due_of(self, commit: Commit, now: float) -> float:
        """When this commit may be sent; NEVER while it waits for an answer or a revocation."""
        return NEVER if self.must_wait(commit) else commit.due(now)

    def due(self, now: float) -> float:
        """When the next commit may be sent: a revocation, or the head of the queue."""
        first = (*self.revocations, *list(self.waiting)[:1])
        return min((self.due_of(commit, now) for commit in first), default=NEVER)
