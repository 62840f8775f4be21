"""The commit manager: commits offsets for the group, and looks up committed offsets.

Commits keep their order because one request is in flight at a time (asynchronous commits that wait
behind each other share one); the last commit before a revocation passes the queue. Whatever waits
is held back while the coordinator is unknown, and ends at its deadline at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka.errors import (
    NoError,
    UnknownError,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.exchange import Exchange, attempt_time
from aktor.actors.runtime.handlers import after_restart_of, answers_to, failure_of, handles
from aktor.actors.runtime.manager import AGAIN, NEVER, Duty, RequestManager
from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    CommitBeforeRevocation,
    CommitOffsets,
    ExplainStartingOffset,
    FetchCommittedOffsets,
    FindStartingOffsets,
    OffsetsCommitted,
    RevocationCommitted,
)
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorMissing,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.membership import ConfirmSession, MemberChanged
from aktor.events.metadata import Broker, ClusterChanged, RefreshMetadata
from aktor.events.network import Destination, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import AssignmentChanged, LogsTruncated, TruncationFound
from aktor.events.present import CommitsNow
from aktor.events.routes import COMMITS, COORDINATOR, MEMBERSHIP, POSITIONS
from aktor.managers.commits.consumed import UNHEARD, AutoCommitClock, Consumed
from aktor.managers.commits.context import CommitMember, CommitTopics
from aktor.managers.commits.errors import CommitErrors, Coordinator, meaning_of, worst
from aktor.managers.commits.failures import CommitFailures
from aktor.managers.commits.look_up import OffsetFetchSent
from aktor.managers.commits.look_ups import LookUps
from aktor.managers.commits.notes import CommitNotes
from aktor.managers.commits.queue import Commit, CommitQueue, Kind
from aktor.managers.commits.requests import (
    Offsets,
    offset_commit,
    offset_commit_codes,
    takes_ids,
)
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.protocol.refusals import named_node
from aktor.values import Value, replace

__all__ = ["CommitManager"]

#: Commits that may wait in the queue: an application that never waits for one, while there is no
#: coordinator, must not fill the memory.
QUEUE_MAX: Final = 10_000

#: An asynchronous commit is not retried, but for two cases: a note that the broker refuses is left
#: out, and after STALE_MEMBER_EPOCH, ordinary in a KIP-848 group, it is sent again with the new
#: epoch. At most so many attempts are made in all.
STALE_ATTEMPTS: Final = 10


class _CommitSent(Value):
    """Note on an OffsetCommit: its commits, the node, our id and generation, when it was sent, and
    the ownership number of each partition."""

    commits: tuple[Commit, ...]
    node: int
    member_id: str
    generation: int
    at: float
    owned: Mapping[TopicPartition, int]


class CommitManager(RequestManager):
    """Owns when each commit and look-up is sent to the coordinator, and how it ended.

    Errors follow the Java client's `CommitRequestManager` and kafka-python's classes. What differs
    on purpose: a retried commit goes to the new coordinator, with our new generation, as long as we
    own its partitions; of a look-up only partitions with a retriable error are asked for again.
    """

    name = COMMITS
    NEEDS = (COORDINATOR, MEMBERSHIP)
    READS = (
        "auto_commit_interval",
        "auto_offset_reset",
        "auto_offset_reset_new_partitions",
        "enable_auto_commit",
        "group_id",
        "group_instance_id",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._coordinator: Broker | None = None
        #: The last one that was known.
        self._former: Broker | None = None
        #: The last reason why no coordinator was known.
        self._no_coordinator_because = ""
        self._member = CommitMember()
        self._topics = CommitTopics()
        #: Whether the coordinator takes topic ids (OffsetCommit v10). Taken for granted until an
        #: answer shows that it does not.
        self._takes_ids = True
        self._notes = CommitNotes(self.settings)
        self._errors = CommitErrors(self.settings.group_id)
        self._consumed = Consumed()
        self._clock = AutoCommitClock(self.settings)
        self._queue = CommitQueue()
        self._failures = CommitFailures()
        #: What is shown, once there is something to show.
        self._shown = CommitsNow()
        self._look_ups = LookUps(
            self.settings,
            consumed=self._consumed,
            request=self.request,
            say=self._say,
            log=self.log,
        )

    # -- what to send, and when

    def duties(self) -> tuple[Duty, ...]:
        """Send commits and look-ups; end commits and calls whose deadline has come."""
        return (self._commit_automatically, self._send_or_end)

    def _commit_automatically(self, now: float, _jitter: float) -> float:
        """An automatic commit joins the queue when its interval is over.

        It stores the positions that the last `Poll` told: the application is done with all records
        below them (KAFKA-18641). It does not wait for the next `Poll`, because one `poll` may wait
        for long. One exception: if the application has asked for a commit since the last `Poll`,
        that commit may have later positions, and an automatic commit of the older ones would take
        the committed offsets back.
        """
        settings = self.settings
        if not settings.enable_auto_commit or settings.group_id is None:
            return NEVER
        if not self._consumed.owned:
            return NEVER
        due = self._clock.due(now)
        if now < due:
            return due
        if not (self._consumed.are_up_to_date and self._may_auto_commit()):
            return NEVER  # a message will change that
        refresh = self._clock.begin(now)
        if self._consumed.to_commit(everything=refresh):
            # The positions are read when the commit is sent: a partition may be revoked by then.
            self._queue.add(Commit(kind=Kind.AUTO, exchange=Exchange(settings), refresh=refresh))
        return AGAIN

    def _send_or_end(self, now: float, _jitter: float) -> float:
        """Send the commits and look-ups that are due; end those that are overdue."""
        if not (self._queue or self._look_ups):
            return NEVER
        self._begin_waiting(now)
        return min(self._send_commits(now), self._send_look_ups(now), self._end_overdue(now))

    def _begin_waiting(self, now: float) -> None:
        """Note the time from which new commits and look-ups wait."""
        for waiting in (*self._queue, *self._look_ups.askers()):
            if waiting.since is None:
                waiting.begin_waiting(now)

    def _end_overdue(self, now: float) -> float:
        """Fail each commit and look-up whose deadline has passed. The error says what it waited
        for."""
        due = min(
            min((commit.ends_at for commit in self._queue), default=NEVER), self._look_ups.deadline
        )
        if now < due:
            return due
        for commit in self._queue:
            if commit.ends_at <= now:
                waited = commit.waited(now, self._coordinator_now)
                error = self._errors.commit_timeout(
                    commit.remaining, waited, unsure=commit.in_flight or commit.attempts.unsure
                )
                self._end(commit, error)
        self._look_ups.end_overdue(now, self._coordinator_now)
        return AGAIN  # the commits behind them may be sent now

    @property
    def _coordinator_now(self) -> Coordinator:
        return Coordinator(
            broker=self._coordinator,
            missing=self._no_coordinator_because,
            rebalancing=self._member.is_rebalancing,
        )

    # -- what other actors ask for

    @handles(CommitOffsets)
    def on_commit_offsets(self, asked: CommitOffsets) -> None:
        """Put the commit into the queue."""
        self._consumed.commit_asked()
        if self.settings.group_id is None:
            self._say(Failed(ticket=asked.ticket, error=self._errors.no_group("commit")))
            return
        if not asked.offsets:
            self._say(Answered(ticket=asked.ticket))
            return
        if len(self._queue) >= QUEUE_MAX:
            self._say(Failed(ticket=asked.ticket, error=self._errors.queue_is_full(QUEUE_MAX)))
            return
        self._queue.add(
            Commit(
                kind=Kind.ASKED,
                number=asked.ticket,
                offsets=asked.offsets,
                deadline=asked.deadline,
                retry=asked.retry,
                owned=self._consumed.ownerships(asked.offsets),
                by_group=self._member.is_managed,
                topic_ids=self._topics.ids_of(asked.topic_ids),
                exchange=Exchange(self.settings),
            )
        )

    @handles(CommitBeforeRevocation)
    def on_commit_before_revocation(self, asked: CommitBeforeRevocation) -> None:
        """Commit before the whole queue: the revocation goes on when this commit has ended."""
        if self.settings.group_id is None or not asked.offsets:
            self._say(RevocationCommitted(rebalance=asked.rebalance))
            return
        self._consumed.released(asked.offsets)
        self._queue.add(
            Commit(
                kind=Kind.REVOCATION,
                number=asked.rebalance,
                offsets=asked.offsets,
                deadline=asked.deadline,
                retry=True,
                # A restarted actor may not have heard of the assignment yet. When it does, the
                # partition may belong to another member.
                owned={
                    partition: self._consumed.owned.get(partition, UNHEARD)
                    for partition in asked.offsets
                },
                by_group=True,
                topic_ids=self._topics.ids_of(asked.topic_ids),
                exchange=Exchange(self.settings),
            )
        )

    @handles(FetchCommittedOffsets)
    def on_fetch_committed_offsets(self, asked: FetchCommittedOffsets) -> None:
        """Look up the committed offsets of these partitions."""
        self._look_ups.ask(asked)

    @handles(FindStartingOffsets)
    def on_find_starting_offsets(self, asked: FindStartingOffsets) -> None:
        """Look up the committed offsets of these partitions for the position manager."""
        self._look_ups.find_starting(asked)

    @handles(ExplainStartingOffset)
    def on_explain_starting_offset(self, asked: ExplainStartingOffset) -> None:
        """Say what the look-up of a committed offset waits for."""
        why = self._look_ups.why_not_found(asked.partition, asked.now, self._coordinator_now)
        self._say(Answered(ticket=asked.ticket, value=f"the group's committed offset: {why}"))

    @handles(Poll)
    def on_poll(self, poll: Poll) -> None:
        """Note the positions, but for those in topics that are others by now: the application has
        yet to hear of it."""
        moved = poll.positions
        if moved and (gone := self._topics.replaced(poll.topic_ids)):
            moved = {each: value for each, value in moved.items() if each.topic not in gone}
        self._consumed.moved(moved)

    def _may_auto_commit(self) -> bool:
        if self._coordinator is None or self._queue.has_auto():
            return False
        return self._member.may_commit

    # -- what other actors tell

    @handles(AssignmentChanged)
    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Forget partitions that were taken away; note whether the group assigns the rest."""
        if not self._consumed.owned:
            self._clock.stop()
        self._consumed.assign(changed.partitions)
        self._failures.assigned(changed.partitions)
        for commit in self._queue:
            if changed.let_go:
                commit.let_go_of(commit.owned.keys() - changed.partitions.keys())
            if UNHEARD in commit.owned.values():
                owned = self._consumed.heard_of(commit.owned)
                commit.learn_ownership(owned, by_group=changed.by_group)
        self._member.assigned(by_group=changed.by_group)

    @handles(TruncationFound)
    def on_truncation_found(self, found: TruncationFound) -> None:
        """Tell the application, with what we know of the committed offsets."""
        committed = self._consumed.committed(found.partitions)
        self._say(LogsTruncated(partitions=found.partitions, committed=committed))

    @handles(MemberChanged)
    def on_member_changed(self, member: MemberChanged) -> None:
        """Commit as this member from now on."""
        if member.member_id != self._member.now.member_id:
            self.log = self.log.bind(member=member.member_id)
        self._member.changed(member)
        self._topics.assign(member.topic_ids)
        self._look_ups.know(member, self._topics.ids, self._topics.described, self.log)

    @handles(ClusterChanged)
    def on_cluster_changed(self, changed: ClusterChanged) -> None:
        """Take over the topic ids; forget positions in topics that were deleted and created
        again."""
        anew = self._topics.follow(changed.cluster, self._consumed.topics)
        self._notes.follow(changed.cluster)
        if anew and self._topics.are_assigned_by_name:
            self._consumed.created_anew(anew)
        topics = self._topics
        self._look_ups.know(self._member.now, topics.ids, topics.described, self.log)

    @handles(CoordinatorFound)
    def on_coordinator_found(self, found: CoordinatorFound) -> None:
        """The coordinator is known: commits and look-ups that wait may be sent. A coordinator that
        has not failed us is asked at once, whatever another one did."""
        if self._former is not None and self._former.node_id != found.broker.node_id:
            for commit in self._queue:
                if not commit.in_flight:
                    commit.exchange.hurry()
        self._coordinator = self._former = found.broker

    @handles(CoordinatorLost)
    def on_coordinator_lost(self, lost: CoordinatorLost) -> None:
        """Send nothing before the next CoordinatorFound. Requests in flight are answered, or
        fail."""
        self._coordinator, self._no_coordinator_because = None, lost.because

    @handles(CoordinatorMissing)
    def on_coordinator_missing(self, missing: CoordinatorMissing) -> None:
        """Note why: the error of a commit or look-up that times out says it."""
        self._no_coordinator_because = missing.because

    @handles(CoordinatorRefused)
    def on_coordinator_refused(self, refused: CoordinatorRefused) -> None:
        """We may not use the group: fail all commits and look-ups that are not in flight."""
        self._coordinator = None
        for commit in self._queue:
            if commit.in_flight:
                continue
            if commit.kind is Kind.AUTO:
                commit.fill(self._consumed.to_commit(everything=commit.refresh))
            self._end(commit, refused.error)
        self._look_ups.refuse(refused.error)

    @after_restart_of(POSITIONS)
    def on_positions_restarted(self) -> None:
        """Forget what the old position manager asked. The new one asks again."""
        self._look_ups.forget_positions()

    def _named(self, node: int) -> str:
        """The node that has answered as the coordinator, as an error names it."""
        known = {} if self._coordinator is None else {self._coordinator.node_id: self._coordinator}
        return f"the coordinator, {named_node(node, known)}"

    def _suspect(self, node: int, because: str) -> None:
        """Say that `node` is not the coordinator; send nothing until a new one is found."""
        if self._coordinator is not None and self._coordinator.node_id == node:
            self._coordinator, self._no_coordinator_because = None, because
            self._say(SuspectCoordinator(node_id=node, because=because))

    # -- commits on the way

    def _send_commits(self, now: float) -> float:
        """Send the commits that are due. A commit that may not be sent any more fails here."""
        if not self._queue or self._coordinator is None:
            return NEVER
        node = self._coordinator.node_id
        for commit in list(self._queue.revocations):
            if now >= self._queue.due_of(commit, now) and self._may_go(commit):
                self._commit([commit], node, now)
        if head := self._head_of_queue(now):
            self._commit(head, node, now)
        return self._queue.due(now)

    def _send_look_ups(self, now: float) -> float:
        """Send the look-ups that are due."""
        if not self._look_ups:
            return NEVER
        node = None if self._coordinator is None else self._coordinator.node_id
        unanswered = self._queue.unanswered()
        for request in self._look_ups.to_send(now, node, unanswered):
            self.send(request)
        return NEVER if node is None else self._look_ups.due

    def _head_of_queue(self, now: float) -> list[Commit]:
        """The first commit in the queue, or several asynchronous ones that follow each other.

        Of asynchronous commits the last offset of a partition wins, as if each had been sent.
        """
        batch: list[Commit] = []
        for commit in list(self._queue.waiting):
            if now < commit.due(now) or (batch and commit.alone):
                break
            if commit.kind is Kind.AUTO:
                commit.fill(self._to_commit_automatically(commit))
                if not commit.offsets:
                    self._queue.remove(commit)
                    continue
            if self._queue.must_wait(commit):
                break
            if self._may_go(commit):
                batch.append(commit)
                if commit.alone:
                    break
        return batch

    def _to_commit_automatically(self, commit: Commit) -> Offsets:
        """The positions as they are now, without partitions for which a commit waits behind this.

        The application has asked for that commit since, perhaps with a smaller offset: stored after
        the present position, it would take the committed offset back. The next automatic commit has
        these partitions again.
        """
        later = {partition for other in self._queue.after(commit) for partition in other.remaining}
        moved = self._consumed.to_commit(everything=commit.refresh)
        return {
            partition: position for partition, position in moved.items() if partition not in later
        }

    def _may_go(self, commit: Commit) -> bool:
        """Whether the commit may be sent now; if not, it fails here."""
        commit.leave_out_outdated(self._topics.ids)
        if not self._takes_ids:
            # By name they would be stored for a topic that is created next.
            commit.leave_out_deleted(self._topics.deleted, self._topics.known)
        error = self._objection(commit)
        if error is not None:
            self._end(commit, error)
        return error is None

    def _objection(self, commit: Commit) -> Exception | None:
        """Why the commit must not be sent (again) as things are now; None: it may be."""
        if commit.outdated and not commit.remaining:
            return self._outdated(commit)  # all other offsets are stored
        if not (self._member.is_managed or commit.by_group):
            return None
        taken = {
            partition
            for partition, ownership in commit.owned.items()
            if partition in commit.remaining and self._consumed.changed_hands(partition, ownership)
        }
        if taken:
            if taken <= commit.let_go:
                return self._errors.let_go(taken)
            return self._errors.given_away(taken)
        if not self._member.has_joined:
            return self._errors.no_member(commit.remaining, self._member.now.state)
        if (
            commit.kind is Kind.ASKED
            and commit.attempts.made
            and (gone := self._topics.created_anew(commit.remaining))
        ):
            return self._errors.created_anew(gone)  # all other offsets are stored
        return None

    def _outdated(self, commit: Commit) -> Exception:
        """Why offsets of deleted topics were left out."""
        if {partition.topic for partition in commit.outdated} <= self._topics.deleted:
            return self._errors.deleted(commit.outdated)
        return self._errors.created_anew(commit.outdated)

    def _commit(self, commits: list[Commit], node: int, now: float) -> None:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in commits:
            commit.sent(now)
            offsets |= commit.remaining
        member = self._member.now
        note = _CommitSent(
            commits=tuple(commits),
            node=node,
            member_id=member.member_id,
            generation=member.generation,
            at=now,
            owned={partition: self._consumed.ownership(partition) for partition in offsets},
        )
        annotated: Mapping[TopicPartition, OffsetAndMetadata] = offsets
        if self._member.is_managed or commits[0].by_group:
            annotated = self._notes.annotated(offsets)
        ids = dict(self._topics.ids)
        for commit in commits:
            ids |= commit.topic_ids
        body = offset_commit(self.settings, member, annotated, ids)
        deadline = now + attempt_time(self.settings)
        number = self.log.number()
        self.log.debug(
            "commit.sent",
            kind=commits[0].kind,
            commits=len(commits),
            offsets={partition: value.offset for partition, value in offsets.items()},
            generation=member.generation,
            node=node,
            attempts=commits[0].attempts.made,
            request=number,
        )
        self.send(
            self.request(
                body,
                to=Destination.COORDINATOR,
                deadline=deadline,
                context=note,
                number=number,
            )
        )

    # -- what is shown

    def note_present(self, now: float) -> None:
        """Show why committed offsets are not found, if positions wait for them; and which commits
        failed."""
        trouble, fail = self._look_ups.trouble, self._failures.shown(now)
        if trouble != self._shown.trouble or fail != self._shown.fail:
            self._show(trouble=trouble, fail=fail)

    def _show(self, **changed: Any) -> None:
        self.present = self._shown = replace(self._shown, **changed)

    # -- what became of them

    @answers_to(OffsetCommitRequest)
    def on_commit_answer(self, received: ResponseReceived) -> None:
        """Note what is stored; retry or end the rest by the worst of its errors."""
        sent: _CommitSent = received.request.context
        self._takes_ids = takes_ids(received.response, received.request.body, self._takes_ids)
        codes = offset_commit_codes(received.response, received.request.body)
        if self._say_stored(sent.commits, codes):
            self._show(committed_at=received.now)
        for commit in sent.commits:
            self._settle(commit, sent, codes, received)

    def _say_stored(self, commits: Iterable[Commit], codes: Mapping[TopicPartition, int]) -> bool:
        """Say which of these commits' offsets are stored; of a partition, the last one. False: none
        are."""
        sent: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in commits:
            sent |= commit.remaining
        stored = {
            partition: value
            for partition, value in sent.items()
            if codes.get(partition) == NoError.errno
        }
        if stored:
            self._failures.stored(stored)
            self._say(OffsetsCommitted(offsets=stored))
        return bool(stored)

    def _settle(
        self,
        commit: Commit,
        sent: _CommitSent,
        codes: Mapping[TopicPartition, int],
        received: ResponseReceived,
    ) -> None:
        """An OffsetCommit was answered: note what of this commit is stored. The worst error of the
        rest decides what follows."""
        errors = {
            partition: error_of(codes.get(partition, UnknownError.errno))
            for partition in commit.remaining
        }
        stored = {
            partition: commit.remaining[partition]
            for partition, kind in errors.items()
            if kind is NoError
        }
        self._note_stored(commit, stored, sent)
        if not commit.remaining:
            self._succeeded(commit, sent, received.now)
            return
        decides = worst(errors[partition] for partition in commit.remaining)
        error = self._errors.commit_refused(
            decides,
            {partition for partition in commit.remaining if errors[partition] is decides},
            state=self._member.now.state,
            member_id=sent.member_id,
            generation=sent.generation,
            by=self._named(received.node),
        )
        meaning = means(Answer.OFFSET_COMMIT, decides)
        because = f"{name_of(decides)} on OffsetCommit"
        if Do.FIND_COORDINATOR in meaning:
            self._suspect(sent.node, because)
        if Do.REFRESH_METADATA in meaning:
            self._say(RefreshMetadata(because=because))
        if Do.CONFIRM_MEMBERSHIP in meaning and (
            Do.RETRY in meaning or commit.kind is not Kind.REVOCATION
        ):
            # The heartbeat would find out too, but only when its interval is over.
            self._say(ConfirmSession())
        self._attempt_failed(commit, sent, error, received.now, received.jitter)

    def _note_stored(self, commit: Commit, stored: Offsets, sent: _CommitSent) -> None:
        """The broker has stored these offsets; answer commits that have nothing left to store."""
        if not stored:
            return
        self._consumed.stored(stored, sent.owned)
        commit.leave_out(stored)
        if commit.kind is Kind.REVOCATION:
            self._overtake(commit, stored)

    def _overtake(self, revocation: Commit, stored: Offsets) -> None:
        """A revocation passed the queue: nothing older may be stored after it."""
        for waiting in self._queue.passed(revocation):
            waiting.leave_out(stored)
            if waiting.kind is Kind.ASKED and not waiting.remaining and not waiting.in_flight:
                self._end(waiting, None)

    def _succeeded(self, commit: Commit, sent: _CommitSent, now: float) -> None:
        commit.exchange.ended()
        if commit.outdated:
            self._end(commit, None)
            return
        self.log.info(
            "commit.succeeded",
            kind=commit.kind,
            offsets={partition: value.offset for partition, value in commit.offsets.items()},
            ms=round((now - sent.at) * 1000),
            attempts=commit.attempts.made,
        )
        if commit.kind is Kind.AUTO:
            self._clock.succeeded()
        self._end(commit, None)

    def _attempt_failed(
        self, commit: Commit, sent: _CommitSent, error: Exception, now: float, jitter: float
    ) -> None:
        """The OffsetCommit was refused or not answered: the commit waits for another attempt, or
        ends."""
        if not commit.remaining:
            self._succeeded(commit, sent, now)
            return
        commit.exchange.ended()
        commit.attempts.failed(error)
        if commit.attempts.ended or not self._is_retried(commit, sent, error):
            if commit.kind is Kind.AUTO and Do.RETRY in meaning_of(error):
                self._clock.failed(now, jitter)
            self._end(commit, error)
            return
        retry_at = commit.exchange.failed(now, jitter)
        self._note_failure(commit, error)
        self.log.info(
            "commit.retried",
            kind=commit.kind,
            because=error,
            attempts=commit.attempts.made,
            wait_ms=round((retry_at - now) * 1000),
        )

    def _note_failure(self, commit: Commit, error: Exception) -> None:
        """An attempt has failed: it is shown, but for partitions that are not ours any more."""
        ours = self._consumed
        if commit.kind is Kind.AUTO:
            partitions = commit.remaining.keys() & ours.owned.keys()
        else:
            gone = {tp for tp, owned in commit.owned.items() if ours.changed_hands(tp, owned)}
            partitions = commit.remaining.keys() - gone
        self._failures.failed(partitions, error)

    def _is_retried(self, commit: Commit, sent: _CommitSent, error: Exception) -> bool:
        meaning = meaning_of(error)
        if Do.DROP_NOTE in meaning:
            return self._notes.are_refused(commit.remaining)
        moved_on = Do.NEXT_GENERATION in meaning
        if moved_on and not commit.is_of_ours:
            return False  # in the next generation another member may have read on and committed
        if moved_on and Do.RETRY in meaning:
            patient = commit.retry or commit.attempts.made < STALE_ATTEMPTS
            return patient and self._member.has_joined
        if not commit.retry:
            return False
        if moved_on:
            # Before the commit is sent again, `_objection` checks that we still own the partitions.
            return self._member.moves_on_from(sent.generation)
        if Do.AWAIT_TOPIC in meaning:
            is_deleted = self._topics.are_deleted(commit.remaining)
            if is_deleted or commit.kind is Kind.REVOCATION:
                return False
        return Do.RETRY in meaning

    def _end(self, commit: Commit, error: Exception | None) -> None:
        """Tell the outcome of a commit, once. While it is in flight it keeps its place in the
        queue."""
        if not commit.in_flight and self._queue.remove(commit) and commit.attempts.unsure:
            self._end_passed(commit)
        if commit.attempts.ended:
            self.log.debug("answer.dropped", api="OffsetCommit", because="its deadline passed")
            return
        commit.attempts.end()
        if error is None and commit.outdated:
            error = self._outdated(commit)
        if error is not None:
            self._note_failure(commit, error)
            self.log.warning(
                "commit.failed",
                kind=commit.kind,
                because=error,
                retriable=Do.RETRY in meaning_of(error),
                partitions=sorted(commit.offsets),
                attempts=commit.attempts.made,
            )
        self._say(commit.outcome(error))

    def _end_passed(self, commit: Commit) -> None:
        """A last commit before a revocation may be stored although no answer came: commits that it
        went past are not sent any more, since their offsets are older."""
        if commit.kind is not Kind.REVOCATION:
            return
        for waiting in self._queue.passed(commit):
            shared = waiting.remaining.keys() & commit.remaining.keys()
            if waiting.kind is Kind.ASKED and shared:
                self._end(waiting, self._errors.being_given_away(shared))

    # -- look-ups, and requests without an answer

    @answers_to(OffsetFetchRequest)
    def on_fetch_answer(self, received: ResponseReceived) -> None:
        """Tell the committed offsets that the answer has; ask again for the rest."""
        asked: OffsetFetchSent = received.request.context
        by = self._named(received.node)
        self._takes_ids = takes_ids(received.response, received.request.body, self._takes_ids)
        outcome = self._look_ups.read(
            received.response, received.request.body, asked.partitions, by
        )
        self._notes.found(outcome.found)
        for error in outcome.again.values():
            if Do.FIND_COORDINATOR in means(Answer.OFFSET_FETCH, type(error)):
                self._suspect(asked.node, f"{name_of(type(error))} on OffsetFetch")
        self._look_ups.settle(asked.look_up, outcome, received.now, received.jitter)

    @failure_of(OffsetCommitRequest, OffsetFetchRequest)
    def on_request_failed(self, failed: RequestFailed) -> None:
        """No answer: suspect the coordinator, unless it refused our credentials."""
        note: _CommitSent | OffsetFetchSent = failed.request.context
        looks_up = isinstance(note, OffsetFetchSent)
        answer = Answer.OFFSET_FETCH if looks_up else Answer.OFFSET_COMMIT
        if Do.FIND_COORDINATOR in means(answer, type(failed.error)):
            what = type(failed.request.body).__name__
            self._suspect(note.node, f"no answer to {what}: {failed.error}")
        if isinstance(note, OffsetFetchSent):
            self._look_ups.failed(note, failed.error, failed.now, failed.jitter)
            return
        for commit in note.commits:
            if failed.was_sent:
                commit.attempts.unanswered()
            unsure = commit.attempts.unsure
            error = self._errors.no_answer(commit.remaining, failed.error, unsure=unsure)
            self._attempt_failed(commit, note, error, failed.now, failed.jitter)
