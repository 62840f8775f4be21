"""The commit manager: stores how far the group has read, and looks up how far it had.

Commits keep their order because one request is in flight at a time (asynchronous commits that wait
behind each other share one); the last commit before a revocation goes past the line. Whatever waits
is held back while the coordinator is unknown, and ends at its deadline at the latest.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from kafka.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    IllegalStateError,
    InvalidCommitOffsetSizeError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    RequestTimedOutError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.manager import NEVER, NOTHING, Backoff, PollResult, RequestManager
from aktor.errors import AuthenticationError
from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    AutoCommitFinished,
    CommitBeforeRevocation,
    CommitOffsets,
    FetchCommittedOffsets,
    FindStartingOffsets,
    RevocationCommitted,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import ConfirmSession, MemberChanged, MemberState
from aktor.events.metadata import Broker
from aktor.events.network import Destination, Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import AssignmentChanged
from aktor.settings import Settings

__all__ = ["CommitManager"]

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]

#: How long one attempt may take, in seconds. A broker waits up to 5 s for its replicas before it
#: answers a commit (`offsets.commit.timeout.ms`); one that is silent for twice as long is gone or
#: half-open, and there must be time left to find the new coordinator and try there. It does not
#: depend on the asker's deadline: a request that times out costs the group its connection.
ATTEMPT: Final = 10.0

#: Committed offsets that nobody commits again expire (`offsets.retention.minutes`, 7 days, counted
#: from the last commit if the group has no members): with auto-commit on, those that have not
#: moved are stored again this often, in seconds.
REFRESH: Final = 3600.0

#: Codes by which a broker says that it does not look after the group (any more).
NOT_OUR_COORDINATOR: Final = (
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
)

#: Codes by which the group refuses a commit of this member.
NOT_THIS_MEMBER: Final = (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError)

#: Codes by which a broker says that the topic is not there (yet, or any more).
UNKNOWN_TOPIC: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)

#: Commits that may wait in line: an application that never waits for one, while there is no
#: coordinator, must not fill the memory.
LINE_MAX: Final = 10_000

#: Partitions that an error names in full.
NAMED: Final = 5


class Kind(enum.Enum):
    """Who wanted the commit."""

    ASKED = "asked"
    AUTO = "auto"
    REVOCATION = "revocation"


@dataclass(slots=True, kw_only=True, eq=False)
class _Commit:
    """One commit on its way. `number` is the ticket or the rebalance it is answered with.

    `serial` grows in the order in which commits were wanted.
    """

    kind: Kind
    serial: int
    number: int = -1
    offsets: dict[TopicPartition, OffsetAndMetadata]
    deadline: float = math.inf
    retry: bool = False
    owned: Mapping[TopicPartition, int] = field(default_factory=dict)
    backoff: Backoff
    refresh: bool = False
    #: What is not stored yet.
    remaining: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    since: float | None = None
    attempts: int = 0
    in_flight: bool = False
    #: Whether an attempt had no answer: it may have been stored.
    unsure: bool = False
    ended: bool = False
    last_error: Exception | None = None

    def due(self, now: float) -> bool:
        """Whether to send it now: its first chance does not depend on the deadline."""
        if self.in_flight or now < self.backoff.retry_at:
            return False
        return now < self.deadline or (self.attempts == 0 and self.since == now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """Note on an OffsetCommit: which commits, to whom, as whom, when."""

    commits: tuple[_Commit, ...]
    node: int
    generation: int
    at: float


@dataclass(slots=True, eq=False)
class _Asker:
    """An application call that waits for committed offsets."""

    ticket: int
    deadline: float
    since: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _LookUp:
    """One OffsetFetch on its way, and who waits for it.

    `for_positions` are the partitions that the position manager waits for, each with the number of
    its ownership. `as_of` counts the commits that were stored when it was first sent: a question
    that came after a later commit must not be answered by it.
    """

    partitions: frozenset[TopicPartition]
    backoff: Backoff
    wanted: frozenset[TopicPartition]
    found: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    askers: list[_Asker] = field(default_factory=list)
    for_positions: dict[TopicPartition, int] = field(default_factory=dict)
    as_of: int | None = None
    in_flight: bool = False
    last_error: Exception | None = None

    @property
    def needed(self) -> bool:
        """Whether anybody still waits for something."""
        return bool(self.wanted) and bool(self.askers or self.for_positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Note on an OffsetFetch: for which look-up, of which partitions, from whom."""

    look_up: _LookUp
    partitions: frozenset[TopicPartition]
    node: int


@dataclass(slots=True)
class _Outcome:
    """What an OffsetFetch brought: offsets, errors that a retry may mend, and final ones."""

    found: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    again: dict[TopicPartition, Exception] = field(default_factory=dict)
    refused: dict[TopicPartition, Exception] = field(default_factory=dict)


class _Consumed:
    """Owns what the application has finished with, and how much of it is committed.

    Only of partitions that are assigned: with the assignment goes all that is known of them, so
    nothing can be committed for a partition that is somebody else's.
    """

    def __init__(self) -> None:
        #: Each assigned partition with the number of this ownership of it.
        self.owned: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._ownerships = 0

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._ownerships += 1
        self.owned = {one: self.owned.get(one, self._ownerships) for one in partitions}
        for known in (self._positions, self.committed):
            for gone in known.keys() - self.owned.keys():
                del known[gone]

    def moved(self, positions: Offsets) -> None:
        self._positions.update({k: v for k, v in positions.items() if k in self.owned})

    def stored(self, offsets: Offsets) -> None:
        self.committed.update({k: v for k, v in offsets.items() if k in self.owned})

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions that are not what is committed (a seek may have taken them back)."""
        return {
            one: position
            for one, position in self._positions.items()
            if one not in self.committed or self.committed[one].offset != position.offset
        }

    def everything(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions, and what is committed where nothing has been consumed."""
        return self.committed | self._positions


class CommitManager(RequestManager):
    """Owns commits and look-ups of committed offsets, waiting and in flight; the auto-commit timer.

    Errors follow the Java client's `CommitRequestManager` and kafka-python's classes. What differs
    on purpose: a retried commit follows the coordinator and its own member's generation as long as
    it owns the partitions; only the unstable partitions of a look-up are asked for again.
    """

    name = "commits"
    HANDLERS: ClassVar[Mapping[type, str]] = {
        Poll: "on_poll",
        AssignmentChanged: "on_assignment_changed",
        MemberChanged: "on_member_changed",
        CoordinatorFound: "on_coordinator_found",
        CoordinatorLost: "on_coordinator_lost",
        CoordinatorRefused: "on_coordinator_refused",
        CommitOffsets: "on_commit_offsets",
        CommitBeforeRevocation: "on_commit_before_revocation",
        FetchCommittedOffsets: "on_fetch_committed_offsets",
        FindStartingOffsets: "on_find_starting_offsets",
        ActorsRestarted: "on_actors_restarted",
    }
    RESPONSES: ClassVar[Mapping[type, str]] = {
        OffsetCommitRequest: "on_commit_answer",
        OffsetFetchRequest: "on_fetch_answer",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._coordinator: Broker | None = None
        self._member = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
        #: Whether the group hands out our partitions, as opposed to `assign`.
        self._managed = False
        self._consumed = _Consumed()
        #: Asked and automatic commits in their order; only the first is ever in flight.
        self._line: deque[_Commit] = deque()
        self._revocations: list[_Commit] = []
        self._look_ups: list[_LookUp] = []
        self._serials = itertools.count()
        self._commits_stored = 0
        self._auto_due: float | None = None
        self._refresh_due: float | None = None
        self._auto_backoff = self._new_backoff()
        #: What the poll under way has to say.
        self._to_say: list[object] = []

    def _new_backoff(self) -> Backoff:
        return Backoff(self.settings.retry_backoff, self.settings.retry_backoff_max)

    @property
    def _group(self) -> str:
        return f"group {self.settings.group_id!r}"

    # -- what to send, and when

    def poll(self, now: float, jitter: float) -> PollResult:
        """Commits and look-ups that are due; then ends what is past its deadline."""
        if not (self._line or self._revocations or self._look_ups):
            return NOTHING
        for waiting in self._waiting():
            if waiting.since is None:
                waiting.since = now
        requests = (*self._commits_to_send(now), *self._look_ups_to_send(now))
        self._end_overdue(now)
        said, self._to_say = tuple(self._to_say), []
        return PollResult(requests=requests, wake_at=self._wake_at(), said=said)

    def _waiting(self) -> Iterator[_Commit | _Asker]:
        """Everything with a deadline."""
        for commit in (*self._revocations, *self._line):
            if not commit.ended:
                yield commit
        for look_up in self._look_ups:
            yield from look_up.askers

    def _wake_at(self) -> float:
        times = [waiting.deadline for waiting in self._waiting()]
        if self._coordinator is not None:
            for commit in (*self._revocations, *list(self._line)[:1]):
                if not commit.in_flight and not self._must_wait(commit):
                    times.append(commit.backoff.retry_at)
            times.extend(one.backoff.retry_at for one in self._look_ups if not one.in_flight)
        return min(times, default=NEVER)

    def _end_overdue(self, now: float) -> None:
        for commit in (*self._revocations, *self._line):
            if not commit.ended and commit.deadline <= now:
                error = self._commit_timeout(commit, now)
                self._to_say.extend(self._end_commit(commit, error))
        for look_up in list(self._look_ups):
            overdue = [asker for asker in look_up.askers if asker.deadline <= now]
            for asker in overdue:
                look_up.askers.remove(asker)
                error = self._look_up_timeout(look_up, asker, now)
                self._to_say.append(Failed(ticket=asker.ticket, error=error))
            self._drop_unless_needed(look_up)

    # -- commits: what others want

    def on_commit_offsets(self, asked: CommitOffsets) -> list[object]:
        """Join the line. The offsets are copied: the caller's mapping may change (KAFKA-19351)."""
        if self.settings.group_id is None:
            return [Failed(ticket=asked.ticket, error=self._no_group("commit"))]
        if not asked.offsets:
            return [Answered(ticket=asked.ticket)]
        if len(self._line) >= LINE_MAX:
            return [Failed(ticket=asked.ticket, error=self._line_is_full())]
        owned = self._consumed.owned
        self._line.append(
            _Commit(
                kind=Kind.ASKED,
                serial=next(self._serials),
                number=asked.ticket,
                offsets=dict(asked.offsets),
                remaining=dict(asked.offsets),
                deadline=asked.deadline,
                retry=asked.retry,
                owned={one: owned[one] for one in asked.offsets if one in owned},
                backoff=self._new_backoff(),
            )
        )
        return []

    def on_commit_before_revocation(self, asked: CommitBeforeRevocation) -> list[object]:
        """Go past the line: these partitions are given away when this has ended."""
        if self.settings.group_id is None or not asked.offsets:
            return [RevocationCommitted(rebalance=asked.rebalance)]
        self._revocations.append(
            _Commit(
                kind=Kind.REVOCATION,
                serial=next(self._serials),
                number=asked.rebalance,
                offsets=dict(asked.offsets),
                remaining=dict(asked.offsets),
                deadline=asked.deadline,
                retry=True,
                backoff=self._new_backoff(),
            )
        )
        return []

    def on_poll(self, poll: Poll) -> None:
        """Note the positions; an automatic commit joins the line if one is due."""
        self._consumed.moved(poll.positions)
        if not self.settings.enable_auto_commit or self.settings.group_id is None:
            return
        if self._auto_due is None or self._refresh_due is None:
            self._auto_due = poll.now + self.settings.auto_commit_interval
            self._refresh_due = poll.now + REFRESH
            return
        if poll.now < self._auto_due or not self._may_auto_commit():
            return
        refresh = poll.now >= self._refresh_due
        if not (self._consumed.everything() if refresh else self._consumed.uncommitted()):
            return

        self._auto_due = poll.now + self.settings.auto_commit_interval
        if refresh:
            self._refresh_due = poll.now + REFRESH
        # What is committed is read when it is sent: by then a partition may have been given away.
        self._line.append(
            _Commit(
                kind=Kind.AUTO,
                serial=next(self._serials),
                offsets={},
                backoff=self._new_backoff(),
                refresh=refresh,
            )
        )

    def _may_auto_commit(self) -> bool:
        if self._coordinator is None or any(one.kind is Kind.AUTO for one in self._line):
            return False
        return self._member.generation >= 0 or not self._managed

    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Forget what is no longer ours, and note who gave us what is."""
        had_none = not self._consumed.owned
        self._consumed.assign(changed.partitions)
        if had_none:
            self._auto_due = self._refresh_due = None
        self._managed = changed.by_group

    def on_member_changed(self, member: MemberChanged) -> None:
        """Commit as this member from now on."""
        if member.member_id != self._member.member_id:
            self.log = self.log.bind(member=member.member_id)
        self._member = member

    # -- the coordinator

    def on_coordinator_found(self, found: CoordinatorFound) -> None:
        """What waits may go."""
        self._coordinator = found.broker

    def on_coordinator_lost(self, lost: CoordinatorLost) -> None:
        """Hold back what waits; what is in flight is answered or fails by itself."""
        self._coordinator = None

    def on_coordinator_refused(self, refused: CoordinatorRefused) -> list[object]:
        """Nothing that waits can be done."""
        self._coordinator = None
        said: list[object] = []
        for commit in (*self._revocations, *self._line):
            if commit.kind is Kind.AUTO and not commit.in_flight:
                self._fill_in(commit)
            if not commit.in_flight:
                said.extend(self._end_commit(commit, refused.error))
        for look_up in list(self._look_ups):
            if not look_up.in_flight:
                refusals = dict.fromkeys(look_up.wanted, refused.error)
                said.extend(self._settle_look_up(look_up, _Outcome(refused=refusals)))
        return said

    def _suspect(self, node: int, because: str) -> list[object]:
        """Say that `node` is not the coordinator, and hold back until there is a new one."""
        if self._coordinator is None or self._coordinator.node_id != node:
            return []
        self._coordinator = None
        return [SuspectCoordinator(node_id=node, because=because)]

    def on_actors_restarted(self, restarted: ActorsRestarted) -> list[object]:
        """Forget what a restarted position manager asked: it asks again."""
        if "positions" in restarted.actors:
            for look_up in list(self._look_ups):
                look_up.for_positions.clear()
                self._drop_unless_needed(look_up)
        return []

    # -- commits: on the way

    def _commits_to_send(self, now: float) -> list[Request]:
        if self._coordinator is None:
            return []
        node = self._coordinator.node_id
        requests = [
            self._send_commits([commit], node, now)
            for commit in list(self._revocations)
            if commit.due(now) and not self._must_wait(commit) and self._may_go(commit)
        ]
        batch = self._head_of_line(now)
        if batch:
            requests.append(self._send_commits(batch, node, now))
        return requests

    def _head_of_line(self, now: float) -> list[_Commit]:
        """The commits of the next request: the first in line, or asynchronous ones that follow.

        Of asynchronous commits the last offset of a partition wins, as if each had been sent.
        """
        batch: list[_Commit] = []
        for commit in list(self._line):
            alone = commit.kind is Kind.AUTO or commit.retry
            if not commit.due(now) or (batch and alone):
                break
            if commit.kind is Kind.AUTO and not self._fill_in(commit):
                self._line.remove(commit)
            elif self._must_wait(commit):
                break
            elif self._may_go(commit):
                batch.append(commit)
                if alone:
                    break
        return batch

    def _must_wait(self, commit: _Commit) -> bool:
        """Whether a revocation that goes first has not stored its offsets of the same partitions.

        It goes past everything but an earlier revocation.
        """
        return any(
            commit.remaining.keys() & one.remaining.keys()
            for one in self._revocations
            if commit.kind is not Kind.REVOCATION or one.serial < commit.serial
        )

    def _fill_in(self, commit: _Commit) -> bool:
        """Let an automatic commit store the positions as they are now; False if there are none."""
        consumed = self._consumed
        commit.offsets = consumed.everything() if commit.refresh else consumed.uncommitted()
        commit.remaining = dict(commit.offsets)
        return bool(commit.offsets)

    def _may_go(self, commit: _Commit) -> bool:
        """Whether it may be sent as things are now; if not it ends here."""
        error = self._objection(commit)
        if error is not None:
            self._to_say.extend(self._end_commit(commit, error))
        return error is None

    def _objection(self, commit: _Commit) -> Exception | None:
        if not self._managed:
            return None
        taken = {
            one
            for one, ownership in commit.owned.items()
            if one in commit.remaining and self._owned_now(one) != ownership
        }
        if taken:
            return _error(
                CommitFailedError,
                f"the offsets of {_names(taken)} were not committed: {self._group} took these"
                " partitions away while the commit waited, and another member reads on from the"
                " last commit.",
            )
        if self._member.generation >= 0:
            return None
        if self._member.state is MemberState.REBALANCING:
            return _error(
                RebalanceInProgressError,
                f"{self._what(commit)} were not committed: this consumer is joining {self._group}."
                " Call poll() until it has joined, then commit again.",
            )
        return _error(
            CommitFailedError,
            f"{self._what(commit)} were not committed: this consumer is no member of"
            f" {self._group} (any more). Its partitions may be with another member already, which"
            " reads on from the last commit; go on polling to join again.",
        )

    def _owned_now(self, partition: TopicPartition) -> int | None:
        return self._consumed.owned.get(partition)

    def _send_commits(self, commits: list[_Commit], node: int, now: float) -> Request:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in commits:
            commit.attempts += 1
            commit.in_flight = True
            offsets |= commit.remaining
        member = self._member
        self.log.debug(
            "commit.sent",
            kind=commits[0].kind,
            commits=len(commits),
            offsets={one: value.offset for one, value in offsets.items()},
            generation=member.generation,
            node=node,
            attempt=commits[0].attempts,
        )
        return self.request(
            _commit_request(self.settings, member, offsets),
            to=Destination.COORDINATOR,
            deadline=now + min(self.settings.request_timeout, ATTEMPT),
            context=_Sent(commits=tuple(commits), node=node, generation=member.generation, at=now),
        )

    def on_commit_answer(self, received: ResponseReceived) -> list[object]:
        """Note what is stored; retry or end the rest by the worst of its errors."""
        sent: _Sent = received.request.context
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in received.response.topics
            for partition in topic.partitions
        }
        said: list[object] = []
        for commit in sent.commits:
            said.extend(self._settle_commit(commit, sent, codes, received))
        return said

    def _settle_commit(
        self,
        commit: _Commit,
        sent: _Sent,
        codes: Mapping[TopicPartition, int],
        received: ResponseReceived,
    ) -> list[object]:
        errors = {one: for_code(codes.get(one, UnknownError.errno)) for one in commit.remaining}
        stored = {one: commit.remaining[one] for one, kind in errors.items() if kind is NoError}
        said = self._note_stored(commit, stored)
        if not commit.remaining:
            return [*said, *self._commit_succeeded(commit, sent, received.now)]
        worst = _worst(errors[one] for one in commit.remaining)
        partitions = {one for one in commit.remaining if errors[one] is worst}
        error = self._commit_error(worst, sent, partitions)
        if worst in NOT_OUR_COORDINATOR:
            said.extend(self._suspect(sent.node, f"{worst.message} on OffsetCommit"))
        if worst in NOT_THIS_MEMBER and commit.kind is not Kind.REVOCATION:
            # The heartbeat would find out too, but only when its interval is over.
            said.append(ConfirmSession())
        now, jitter = received.now, received.jitter
        return [*said, *self._commit_attempt_failed(commit, sent, error, now, jitter)]

    def _note_stored(self, commit: _Commit, stored: Offsets) -> list[object]:
        """Take over what the broker has stored; answers commits that it leaves nothing to do."""
        if not stored:
            return []
        self._commits_stored += 1
        self._consumed.stored(stored)
        for one in stored:
            del commit.remaining[one]
        return self._overtake(commit, stored) if commit.kind is Kind.REVOCATION else []

    def _overtake(self, revocation: _Commit, stored: Offsets) -> list[object]:
        """A revocation went past the line: nothing older may be stored after it."""
        said: list[object] = []
        for waiting in self._older(revocation):
            for one in stored.keys() & waiting.remaining.keys():
                del waiting.remaining[one]
            if waiting.kind is Kind.ASKED and not waiting.remaining and not waiting.in_flight:
                said.extend(self._end_commit(waiting, None))
        return said

    def _older(self, revocation: _Commit) -> list[_Commit]:
        """What a revocation went past."""
        return [one for one in self._line if one.serial < revocation.serial]

    def _end_older(self, revocation: _Commit) -> list[object]:
        """It may have been stored although no answer came: what it went past is not sent."""
        said: list[object] = []
        for waiting in self._older(revocation):
            shared = waiting.remaining.keys() & revocation.remaining.keys()
            if waiting.kind is Kind.ASKED and shared:
                text = (
                    f"the offsets of {_names(shared)} were not committed in {self._group}: these"
                    " partitions are being given away, and later offsets may be committed already."
                )
                said.extend(self._end_commit(waiting, _error(CommitFailedError, text)))
        return said

    def _commit_succeeded(self, commit: _Commit, sent: _Sent, now: float) -> list[object]:
        commit.in_flight = False
        self.log.info(
            "commit.succeeded",
            kind=commit.kind,
            offsets=len(commit.offsets),
            ms=round((now - sent.at) * 1000),
            attempts=commit.attempts,
        )
        if commit.kind is Kind.AUTO:
            self._auto_backoff.reset()
        return self._end_commit(commit, None)

    def _commit_attempt_failed(
        self, commit: _Commit, sent: _Sent, error: Exception, now: float, jitter: float
    ) -> list[object]:
        if not commit.remaining:
            return self._commit_succeeded(commit, sent, now)
        commit.in_flight = False
        commit.last_error = error
        if commit.ended or not self._is_retried(commit, sent, error):
            if commit.kind is Kind.AUTO and getattr(error, "retriable", False):
                retry_at = self._auto_backoff.failed(now, jitter)
                self._auto_due = None if self._auto_due is None else min(self._auto_due, retry_at)
            return self._end_commit(commit, error)
        retry_at = commit.backoff.failed(now, jitter)
        self.log.info(
            "commit.retried",
            kind=commit.kind,
            because=error,
            attempt=commit.attempts,
            wait_ms=round((retry_at - now) * 1000),
        )
        return []

    def _is_retried(self, commit: _Commit, sent: _Sent, error: Exception) -> bool:
        if not commit.retry:
            return False
        if isinstance(error.__cause__, IllegalGenerationError):
            # We are a member of a newer generation by now; whether we own the partitions still is
            # looked at before it is sent.
            return 0 <= self._member.generation != sent.generation
        if commit.kind is Kind.REVOCATION and isinstance(error, UNKNOWN_TOPIC):
            return False
        return bool(getattr(error, "retriable", False))

    def _end_commit(self, commit: _Commit, error: Exception | None) -> list[object]:
        """Answer whoever wanted it, once. While it is in flight it keeps its place in the line."""
        said: list[object] = []
        if not commit.in_flight:
            if commit in self._line:
                self._line.remove(commit)
            if commit in self._revocations:
                self._revocations.remove(commit)
                said = self._end_older(commit) if commit.unsure else []
        if commit.ended:
            self.log.debug("answer.dropped", request="OffsetCommit", because="its deadline passed")
            return said
        commit.ended = True
        if error is not None:
            self.log.warning(
                "commit.failed",
                kind=commit.kind,
                because=error,
                retriable=bool(getattr(error, "retriable", False)),
                partitions=list(commit.offsets),
                attempts=commit.attempts,
            )
        match commit.kind:
            case Kind.REVOCATION:
                said.append(RevocationCommitted(rebalance=commit.number))
            case Kind.AUTO:
                said.append(AutoCommitFinished(offsets=dict(commit.offsets), error=error))
            case Kind.ASKED if error is None:
                said.append(Answered(ticket=commit.number))
            case Kind.ASKED:
                assert error is not None, "the case above took success"
                said.append(Failed(ticket=commit.number, error=error))
        return said

    def on_request_failed(self, failed: RequestFailed) -> list[object]:
        """No answer: the coordinator may be gone, unless it refused who we are."""
        note = failed.request.context
        said: list[object] = []
        if isinstance(failed.error, (KafkaTimeoutError, KafkaConnectionError)):
            what = type(failed.request.body).__name__
            said.extend(self._suspect(note.node, f"no answer to {what}: {failed.error}"))
        if isinstance(note, _Sent):
            for commit in note.commits:
                commit.unsure = True
                error = self._no_answer(commit, failed.error)
                now, jitter = failed.now, failed.jitter
                said.extend(self._commit_attempt_failed(commit, note, error, now, jitter))
            return said
        assert isinstance(note, _Asked), "a request that is neither a commit nor a look-up"
        look_up, error = note.look_up, failed.error
        look_up.in_flight = False
        outcome = _Outcome()
        if isinstance(error, AuthenticationError):
            # The network actor tells the application. Calls end; starting offsets are looked up
            # further on, for there may be other credentials later.
            said.extend(self._fail_askers(look_up, error))
            outcome.again = dict.fromkeys(note.partitions, error)
        elif getattr(error, "retriable", False):
            outcome.again = dict.fromkeys(note.partitions, error)
        else:
            outcome.refused = dict.fromkeys(note.partitions, error)
        return [*said, *self._settle_look_up(look_up, outcome, failed.now, failed.jitter)]

    # -- look-ups: what others want

    def on_fetch_committed_offsets(self, asked: FetchCommittedOffsets) -> list[object]:
        """Ask for these, or join a look-up of the same that can still answer the question."""
        if self.settings.group_id is None:
            error = self._no_group("look up committed offsets")
            return [Failed(ticket=asked.ticket, error=error)]
        if not asked.partitions:
            return [Answered(ticket=asked.ticket, value={})]
        look_up = self._joinable(asked.partitions) or self._add_look_up(asked.partitions)
        look_up.askers.append(_Asker(asked.ticket, asked.deadline))
        return []

    def on_find_starting_offsets(self, asked: FindStartingOffsets) -> list[object]:
        """Ask for these until they are answered, unless that is under way already."""
        if self.settings.group_id is None:
            return [StartingOffsetsFound(offsets=dict.fromkeys(asked.partitions))]
        wanted: dict[TopicPartition, int] = {}
        for one in asked.partitions:
            ownership = self._owned_now(one) or 0
            if not self._is_being_found(one, ownership):
                wanted[one] = ownership
        if wanted:
            partitions = frozenset(wanted)
            look_up = self._joinable(partitions)
            if look_up is None or look_up.as_of is not None:
                # One that was sent may be older than our ownership: others have committed since.
                look_up = self._add_look_up(partitions)
            look_up.for_positions.update(wanted)
        return []

    def _is_being_found(self, partition: TopicPartition, ownership: int) -> bool:
        """Whether a look-up that is fresh enough will say it; older ones shall not any more."""
        for look_up in self._look_ups:
            if partition not in look_up.for_positions:
                continue
            if look_up.for_positions[partition] == ownership and self._is_fresh(look_up):
                return True
            del look_up.for_positions[partition]
        return False

    def _is_fresh(self, look_up: _LookUp) -> bool:
        return look_up.as_of is None or look_up.as_of == self._commits_stored

    def _joinable(self, partitions: frozenset[TopicPartition]) -> _LookUp | None:
        """A look-up of exactly these that has not ended and is not older than our last commit.

        A look-up leaves the list when it ends, so nobody can join one that is over (KAFKA-20765).
        """
        for look_up in self._look_ups:
            if look_up.partitions == partitions and self._is_fresh(look_up):
                return look_up
        return None

    def _add_look_up(self, partitions: frozenset[TopicPartition]) -> _LookUp:
        look_up = _LookUp(partitions=partitions, wanted=partitions, backoff=self._new_backoff())
        self._look_ups.append(look_up)
        return look_up

    def _drop_unless_needed(self, look_up: _LookUp) -> None:
        if not look_up.in_flight and not look_up.needed and look_up in self._look_ups:
            self._look_ups.remove(look_up)

    # -- look-ups: on the way

    def _look_ups_to_send(self, now: float) -> list[Request]:
        for look_up in list(self._look_ups):
            self._forget_lost(look_up)
        if self._coordinator is None:
            return []
        node = self._coordinator.node_id
        return [
            self._send_look_up(look_up, node, now)
            for look_up in self._look_ups
            if not look_up.in_flight and now >= look_up.backoff.retry_at
        ]

    def _forget_lost(self, look_up: _LookUp) -> None:
        """Nobody waits any more for where a lost partition starts."""
        for one, ownership in list(look_up.for_positions.items()):
            if self._changed_hands(one, ownership):
                del look_up.for_positions[one]
        if not look_up.askers and not look_up.in_flight:
            look_up.partitions = look_up.wanted = look_up.wanted & look_up.for_positions.keys()
        self._drop_unless_needed(look_up)

    def _changed_hands(self, partition: TopicPartition, ownership: int) -> bool:
        """Whether the partition is not ours any more, or ours anew (0: it was not ours then)."""
        return bool(ownership) and ownership != self._owned_now(partition)

    def _send_look_up(self, look_up: _LookUp, node: int, now: float) -> Request:
        look_up.in_flight = True
        if look_up.as_of is None:
            look_up.as_of = self._commits_stored
        self.log.debug("offsets.requested", partitions=look_up.wanted, node=node)
        return self.request(
            _fetch_request(self.settings.group_id, look_up.wanted),
            to=Destination.COORDINATOR,
            deadline=now + min(self.settings.request_timeout, ATTEMPT),
            context=_Asked(look_up=look_up, partitions=look_up.wanted, node=node),
        )

    def on_fetch_answer(self, received: ResponseReceived) -> list[object]:
        """Sort the answer by partition, answer whom it answers, ask again for the rest."""
        asked: _Asked = received.request.context
        look_up = asked.look_up
        look_up.in_flight = False
        outcome = self._read_fetch(received.response, asked.partitions)
        said: list[object] = []
        for error in outcome.again.values():
            if isinstance(error, NOT_OUR_COORDINATOR):
                said.extend(self._suspect(asked.node, f"{error.message} on OffsetFetch"))
        return [*said, *self._settle_look_up(look_up, outcome, received.now, received.jitter)]

    def _read_fetch(self, response: Any, partitions: frozenset[TopicPartition]) -> _Outcome:
        group_code, answers = _fetch_answers(response, self.settings.group_id)
        outcome = _Outcome()
        forbidden = {
            one.topic
            for one, answer in answers.items()
            if for_code(answer.error_code) is TopicAuthorizationFailedError
        }
        for one in partitions:
            answer = answers.get(one)
            code = UnknownError.errno if answer is None else answer.error_code
            error_type = for_code(group_code or code)
            if error_type is NoError:
                outcome.found[one] = _offset(answer)
            elif error_type.retriable or error_type is StaleMemberEpochError:
                outcome.again[one] = self._fetch_error(error_type, one)
            elif error_type is TopicAuthorizationFailedError:
                outcome.refused[one] = TopicAuthorizationFailedError(forbidden)
            else:
                outcome.refused[one] = self._fetch_error(error_type, one)
        return outcome

    def _settle_look_up(
        self, look_up: _LookUp, outcome: _Outcome, now: float = 0.0, jitter: float = 0.5
    ) -> list[object]:
        look_up.found.update(outcome.found)
        look_up.wanted = frozenset(outcome.again)
        if outcome.found:
            self.log.info("offsets.fetched", partitions=len(outcome.found))
        if outcome.again:
            look_up.last_error = next(iter(outcome.again.values()))
            retry_at = look_up.backoff.failed(now, jitter)
            self.log.info(
                "offsets.retried",
                partitions=look_up.wanted,
                because=look_up.last_error,
                wait_ms=round((retry_at - now) * 1000),
            )
        said = [*self._tell_positions(look_up, outcome), *self._tell_askers(look_up, outcome)]
        if outcome.refused:
            # The rest goes on for the position manager alone; nobody else can join it.
            look_up.partitions = look_up.wanted
            look_up.found.clear()
        self._drop_unless_needed(look_up)
        return said

    def _note_committed(self, found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """What is committed already need not be committed again."""
        known = self._consumed.committed
        self._consumed.stored(
            {one: value for one, value in found.items() if value is not None and one not in known}
        )

    def _tell_positions(self, look_up: _LookUp, outcome: _Outcome) -> list[object]:
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        refused: dict[TopicPartition, Exception] = {}
        for one, ownership in list(look_up.for_positions.items()):
            if one in outcome.again:
                continue
            del look_up.for_positions[one]
            if self._changed_hands(one, ownership):
                self.log.debug("offset.dropped", partition=one, because="it changed hands")
            elif one in outcome.refused:
                refused[one] = outcome.refused[one]
            else:
                found[one] = look_up.found[one]
        self._note_committed(found)
        said: list[object] = [StartingOffsetsFound(offsets=found)] if found else []
        for error in {id(error): error for error in refused.values()}.values():
            partitions = frozenset(one for one, its in refused.items() if its is error)
            self.log.warning("offsets.failed", partitions=partitions, because=error)
            said.append(StartingOffsetsFailed(partitions=partitions, error=error))
        return said

    def _tell_askers(self, look_up: _LookUp, outcome: _Outcome) -> list[object]:
        if outcome.refused:
            return self._fail_askers(look_up, next(iter(outcome.refused.values())))
        said: list[object] = []
        only_unknown = all(isinstance(error, UNKNOWN_TOPIC) for error in outcome.again.values())
        for asker in list(look_up.askers):
            no_time = only_unknown and look_up.backoff.retry_at >= asker.deadline
            if outcome.again and not no_time:
                continue
            look_up.askers.remove(asker)
            value = {one: look_up.found.get(one) for one in look_up.partitions}
            said.append(Answered(ticket=asker.ticket, value=value))
        return said

    def _fail_askers(self, look_up: _LookUp, error: Exception) -> list[object]:
        askers, look_up.askers = look_up.askers, []
        if askers:
            self.log.warning("offsets.failed", partitions=look_up.partitions, because=error)
        return [Failed(ticket=asker.ticket, error=error) for asker in askers]

    # -- errors, in words

    def _what(self, commit: _Commit) -> str:
        return f"the offsets of {_names(commit.remaining)}"

    def _no_group(self, wish: str) -> Exception:
        return _error(
            IllegalStateError, f"this consumer has no group_id and cannot {wish}; set group_id"
        )

    def _line_is_full(self) -> Exception:
        return _error(
            CoordinatorNotAvailableError,
            f"{LINE_MAX} commits wait for the coordinator of {self._group} already; commit less"
            " often, and wait for the outcome.",
        )

    def _commit_timeout(self, commit: _Commit, now: float) -> Exception:
        unsure = " They may still be." if commit.in_flight else ""
        return _error(
            KafkaTimeoutError,
            f"{self._what(commit)} were not committed in {self._group} within"
            f" {_seconds(commit.since, now)} ({self._why(commit.attempts, commit.last_error)})."
            f"{unsure}",
        )

    def _look_up_timeout(self, look_up: _LookUp, asker: _Asker, now: float) -> Exception:
        attempts = 0 if look_up.as_of is None else look_up.backoff.failures + look_up.in_flight
        return _error(
            KafkaTimeoutError,
            f"the committed offsets of {_names(look_up.wanted)} in {self._group} were not found"
            f" within {_seconds(asker.since, now)} ({self._why(attempts, look_up.last_error)}).",
        )

    def _why(self, attempts: int, last_error: Exception | None) -> str:
        if last_error is not None:
            return f"{attempts} attempts, the last failed: {last_error.__cause__ or last_error}"
        if self._coordinator is None:
            return "the group's coordinator is not known"
        return "the coordinator has not answered" if attempts else "earlier commits were not done"

    def _no_answer(self, commit: _Commit, error: Exception) -> Exception:
        """What an unanswered commit ends in if it is not retried: the same class, in our words."""
        if not isinstance(error, (KafkaTimeoutError, KafkaConnectionError)):
            return error
        kind = KafkaTimeoutError if isinstance(error, KafkaTimeoutError) else KafkaConnectionError
        return _error(
            kind,
            f"it is unknown whether {self._what(commit)} were committed in {self._group}: the"
            f" coordinator did not answer ({error}). Commit again.",
            cause=error,
        )

    def _commit_error(
        self, error_type: Any, sent: _Sent, partitions: Iterable[TopicPartition]
    ) -> Exception:
        """The broker's refusal as the error that kafka-python's users catch."""
        what = f"the offsets of {_names(partitions)} were not committed"
        code = error_type.message or error_type.__name__
        if error_type is TopicAuthorizationFailedError:
            return _error(TopicAuthorizationFailedError, {one.topic for one in partitions})
        if error_type is GroupAuthorizationFailedError:
            return _error(GroupAuthorizationFailedError, self._forbidden())
        if error_type in (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError):
            return _error(error_type, f"{what}: their metadata is longer than the broker allows.")
        if error_type in NOT_THIS_MEMBER:
            refusal = self._membership_error(error_type, sent, what)
            refusal.__cause__ = _error(error_type, code)
            return refusal
        if error_type is FencedInstanceIdError:
            return _error(
                error_type,
                f"{what}: another consumer has joined {self._group} with the same"
                " group_instance_id. Give each consumer an id of its own.",
            )
        again = " Commit again." if error_type.retriable else ""
        text = f"{what} in {self._group}: {code}.{again}"
        return _error(error_type, text, cause=_error(error_type, code))

    def _membership_error(self, error_type: Any, sent: _Sent, what: str) -> Exception:
        """The group did not take it from this member, which is told why.

        While the member rejoins, kafka-python raises `RebalanceInProgressError` and one can poll
        and commit again; after that `CommitFailedError`.
        """
        member = self._member.member_id
        if error_type is UnknownMemberIdError:
            return _error(
                CommitFailedError,
                f"{what}: {self._group} does not know member {member!r} of generation"
                f" {sent.generation} (any more). Its partitions may be with another member already,"
                " which reads on from the last commit; go on polling to join again.",
            )
        if self._member.state is MemberState.REBALANCING:
            return _error(
                RebalanceInProgressError,
                f"{what}: {self._group} is rebalancing and takes no commit of generation"
                f" {sent.generation}. Call poll() until it is done, then commit again.",
            )
        reason = (
            f"the group has left generation {sent.generation}"
            if error_type is IllegalGenerationError
            else f"the group rebalances after generation {sent.generation}"
        )
        return _error(
            CommitFailedError,
            f"{what} in {self._group} by member {member!r}: {reason}, the partitions may go to"
            " another member, which reads on from the last commit. Go on polling.",
        )

    def _fetch_error(self, error_type: Any, partition: TopicPartition) -> Exception:
        if error_type is GroupAuthorizationFailedError:
            return _error(GroupAuthorizationFailedError, self._forbidden())
        return _error(
            error_type,
            f"the committed offset of {_names([partition])} in {self._group} could not be read:"
            f" {error_type.message or error_type.__name__}.",
        )

    def _forbidden(self) -> str:
        return (
            f"not authorized to use {self._group}."
            " Check group_id and that this user may READ the group (its ACLs)."
        )


def _error(kind: Any, *args: Any, cause: Exception | None = None) -> Exception:
    """An error of one of kafka-python's classes."""
    error: Exception = kind(*args)
    error.__cause__ = cause
    return error


def _names(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(f"{one.topic}-{one.partition}" for one in partitions)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _seconds(since: float | None, now: float) -> str:
    return f"{now - (now if since is None else since):.1f} s"


def _worst(errors: Iterable[Any]) -> Any:
    """The error that decides: a fatal one, then a forbidden topic, then what a retry may mend."""

    def rank(error_type: Any) -> int:
        if error_type in NOT_OUR_COORDINATOR:
            return 2
        if error_type.retriable:
            return 3
        return 1 if error_type is TopicAuthorizationFailedError else 0

    return min(errors, key=rank)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    return topics


def _commit_request(settings: Settings, member: MemberChanged, offsets: Offsets) -> Any:
    """OffsetCommit v2-8: v9 is for members of KIP-848 groups, v10 for topic ids.

    A static member needs v7, where the broker can tell it that another took its place (KIP-345).
    """
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    in_group = member.generation >= 0
    instance_id = settings.group_instance_id if in_group else None
    topics = [
        topic_type(
            name=topic,
            partitions=[
                partition_type(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)].offset,
                    committed_leader_epoch=_epoch(offsets[TopicPartition(topic, number)]),
                    committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=settings.group_id,
        generation_id_or_member_epoch=member.generation if in_group else -1,
        member_id=member.member_id if in_group else "",
        group_instance_id=instance_id,
        topics=topics,
        min_version=2 if instance_id is None else 7,
        max_version=8,
    )


def _fetch_request(group: str | None, partitions: Iterable[TopicPartition]) -> Any:
    """OffsetFetch v1-8: up to v7 one group, in v8 a list of groups (KIP-709).

    From v7 the broker holds back offsets of open transactions (KIP-447).
    """
    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    old, new = OffsetFetchRequest.OffsetFetchRequestTopic, group_type.OffsetFetchRequestTopics
    topics = _by_topic(partitions)
    in_group = [new(name=name, partition_indexes=those) for name, those in topics.items()]
    return OffsetFetchRequest(
        group_id=group,
        topics=[old(name=name, partition_indexes=those) for name, those in topics.items()],
        groups=[group_type(group_id=group, topics=in_group)],
        require_stable=True,
        min_version=1,
        max_version=8,
    )


def _fetch_answers(response: Any, group: str | None) -> tuple[int, dict[TopicPartition, Any]]:
    """The group's error code (0 is none), and the answer for each partition."""
    result = response
    if response.API_VERSION >= 8:
        ours = [one for one in response.groups if one.group_id == group]
        if not ours:
            return UnknownError.errno, {}
        result = ours[0]
    return (result.error_code or 0), {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in result.topics
        for partition in topic.partitions
    }


def _offset(answer: Any) -> OffsetAndMetadata | None:
    """What is committed; offset -1 means that nothing is."""
    if answer.committed_offset < 0:
        return None
    epoch = answer.committed_leader_epoch
    return OffsetAndMetadata(
        answer.committed_offset, answer.metadata or "", -1 if epoch is None else epoch
    )


def _epoch(value: OffsetAndMetadata) -> int:
    return -1 if value.leader_epoch is None else int(value.leader_epoch)
