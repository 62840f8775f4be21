"""Why offsets were not committed or not found: kafka-python's error classes, in our words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from kafka.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartition

from aktor.events.membership import MemberState
from aktor.events.metadata import Broker
from aktor.protocol.error_codes import Answer, Do, forbids_topic, means, name_of, told_as
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import explained, topics_refused
from aktor.protocol.remedies import remedy
from aktor.values import Value

__all__ = [
    "CommitErrors",
    "Coordinator",
    "Waited",
    "meaning_of",
    "says_expelled",
    "worst",
]

#: What errors advise if the coordinator does not do its work.
REMEDY: Final = "Check that the group's coordinator is up and can be reached, and call again."


def meaning_of(error: Exception | None) -> Do:
    """What to do about a commit that ended in this error. If the error has a cause, that is the
    broker's own error, and it decides."""
    if error is None:
        return Do.DONE
    return means(Answer.OFFSET_COMMIT, type(error.__cause__ or error))


def worst(errors: Iterable[Any]) -> Any:
    """An answer has one error per partition. Return the error that decides about the whole commit:
    fatal before TOPIC_AUTHORIZATION_FAILED before retriable.

    Of the retriable ones those come first that tell to find the coordinator or to confirm the
    membership.
    """

    def rank(error_type: Any) -> int:
        meaning = means(Answer.OFFSET_COMMIT, error_type)
        if Do.RETRY in meaning:
            urgent = meaning & (Do.FIND_COORDINATOR | Do.CONFIRM_MEMBERSHIP)
            return 2 if urgent else 3
        return 1 if forbids_topic(error_type) else 0

    return min(errors, key=rank)


class Coordinator(Value):
    """The group's coordinator as an error names it: `broker`, or why none is known (`missing`)."""

    broker: Broker | None = None
    missing: str = ""
    #: The group rebalances.
    rebalancing: bool = False

    def __str__(self) -> str:
        if self.broker is None:
            why = self.missing or "no broker has answered FindCoordinator yet"
            return f"the group's coordinator is not known: {why}"
        return str(self.broker)


class Waited(Value):
    """How long something waited until its deadline, and what stood in its way.

    `sent_at`: when the attempt under way was sent, None if there is none.
    """

    since: float | None
    until: float
    attempts: int
    last_error: Exception | None
    sent_at: float | None
    coordinator: Coordinator

    def __str__(self) -> str:
        seconds = 0.0 if self.since is None else self.until - self.since
        return f"{seconds:.1f} s ({self.because})"

    @property
    def because(self) -> str:
        """Why the commit or look-up was not done."""
        if self.sent_at is not None and self.coordinator.broker is not None:
            reason = f"the coordinator, {self.coordinator}, has not answered for"
            reason = f"{reason} {self.until - self.sent_at:.1f} s"
            if self.coordinator.rebalancing:
                reason += ", while the group rebalances"
        elif self.coordinator.broker is None:
            reason = str(self.coordinator)
        elif self.last_error is None:
            reason = "earlier commits were not done" if not self.attempts else "it was not answered"
        else:
            reason = f"the coordinator is {self.coordinator}"
        if self.last_error is None:
            return reason
        last = self.last_error.__cause__ or self.last_error
        attempts = f"{self.attempts} attempt{'s' if self.attempts != 1 else ''}"
        return f"{attempts}, the last that ended failed: {last}; {reason}"


def says_expelled(error: Exception | None) -> bool:
    """Whether a commit's error says that this member's partitions belong to another by now."""
    return Do.PARTITIONS_LOST in meaning_of(error)


class CommitErrors(Value, kw_only=False):
    """The errors of one group's commits and look-ups; makes them, raises none."""

    group_id: str | None

    # -- before anything is sent

    def no_group(self, wish: str) -> Exception:
        """A group's offsets are wanted without a group."""
        return _error(
            IllegalStateError, f"this consumer has no group_id and cannot {wish}; set group_id"
        )

    def queue_is_full(self, length: int) -> Exception:
        """Too many commits wait in the queue: the coordinator answers too slowly, or not at all."""
        return _error(
            CoordinatorNotAvailableError,
            f"{length} commits wait for the coordinator of {self._group} already; commit less"
            " often, and wait for the outcome.",
        )

    def given_away(self, partitions: Iterable[TopicPartition]) -> Exception:
        """The partitions were assigned to us when the commit was asked for. Since then they were
        revoked, and perhaps assigned again."""
        return _error(
            CommitFailedError,
            f"{_not_committed(partitions)}: {self._group} took these"
            " partitions away while the commit waited, and another member reads on from the"
            " last commit.",
        )

    def let_go(self, partitions: Iterable[TopicPartition]) -> Exception:
        """The application has given the partitions up since it asked for the commit."""
        return _error(
            CommitFailedError,
            f"{_not_committed(partitions)}: the application has unsubscribed, or closed the"
            f" consumer, while the commit waited. Who gets them next in {self._group} reads on from"
            " the last commit.",
        )

    def created_anew(self, partitions: Iterable[TopicPartition]) -> Exception:
        """The positions belong to a topic that was deleted; a new topic has its name."""
        return _error(
            CommitFailedError,
            f"{_not_committed(partitions)} in {self._group}: their topic was deleted, and created"
            " anew under its name. The next polls read the new one from the group's committed"
            " offset, or as auto_offset_reset says if there is none.",
        )

    def deleted(self, partitions: Iterable[TopicPartition]) -> Exception:
        """The positions belong to a topic that was deleted, and the coordinator knows topics by
        their names only: it could have another topic of the name before we hear of that."""
        return _error(
            UnknownTopicOrPartitionError,
            f"{_not_committed(partitions)} in {self._group}: the brokers say that their topic was"
            " deleted, and by its name the offsets could be stored for a topic that is created"
            " next.",
        )

    def being_given_away(self, partitions: Iterable[TopicPartition]) -> Exception:
        """The last commit before a revocation overtook this commit, and may be stored already."""
        return _error(
            CommitFailedError,
            f"{_not_committed(partitions)} in {self._group}: these"
            " partitions are being given away, and later offsets may be committed already.",
        )

    def no_member(self, partitions: Iterable[TopicPartition], state: MemberState) -> Exception:
        """This consumer has no generation to commit in (yet, or any more)."""
        if state is MemberState.REBALANCING:
            return _error(
                RebalanceInProgressError,
                f"{_not_committed(partitions)}: this consumer is joining {self._group}."
                " Call poll() until it has joined, then commit again.",
            )
        return _error(
            CommitFailedError,
            f"{_not_committed(partitions)}: this consumer is no member of"
            f" {self._group} (any more). Its partitions may be with another member already, which"
            " reads on from the last commit; go on polling to join again.",
        )

    # -- no answer

    def commit_timeout(
        self, partitions: Iterable[TopicPartition], waited: Waited, *, unsure: bool
    ) -> Exception:
        """The deadline of a commit passed; `unsure` if its request is still in flight, or an
        attempt was not answered."""
        return _error(
            KafkaTimeoutError,
            f"{_not_committed(partitions)} in {self._group} within {waited}."
            f"{' They may still be.' if unsure else ''} {REMEDY}",
        )

    def look_up_timeout(self, partitions: Iterable[TopicPartition], waited: Waited) -> Exception:
        """The deadline of a call that looks up committed offsets passed."""
        return _error(
            KafkaTimeoutError,
            f"the committed offsets of {listed(partitions)} in {self._group} were not found"
            f" within {waited}. {REMEDY}",
        )

    def no_answer(
        self, partitions: Iterable[TopicPartition], error: Exception, *, unsure: bool
    ) -> Exception:
        """The error of an unanswered commit that is not retried: of the same class. It says that
        the offsets may be stored if that is `unsure`: an attempt was sent."""
        if not isinstance(error, (KafkaTimeoutError, KafkaConnectionError)):
            what = f"{_offsets_of(partitions)} in {self._group}"
            return explained(error, what, Answer.OFFSET_COMMIT)
        kind = KafkaTimeoutError if isinstance(error, KafkaTimeoutError) else KafkaConnectionError
        if not unsure:
            return _error(
                kind,
                f"{_not_committed(partitions)} in {self._group}: no request could be sent to the"
                f" coordinator ({error}). Commit again.",
                cause=error,
            )
        return _error(
            kind,
            f"it is unknown whether {_offsets_of(partitions)} were committed in {self._group}: the"
            f" coordinator did not answer ({error}). Commit again.",
            cause=error,
        )

    # -- the broker's refusals

    def commit_refused(
        self,
        error_type: Any,
        partitions: Collection[TopicPartition],
        *,
        state: MemberState,
        member_id: str,
        generation: int,
        by: str,
    ) -> Exception:
        """`by`, the coordinator, refused a commit that was sent with this id and generation; the
        member is in this state now. Returns the error that kafka-python would raise."""
        what, code = _not_committed(partitions), name_of(error_type)
        meaning = means(Answer.OFFSET_COMMIT, error_type)
        if forbids_topic(error_type):
            topics = {partition.topic for partition in partitions}
            return topics_refused(error_type, topics, Answer.OFFSET_COMMIT, by=by)
        if Do.CONFIRM_MEMBERSHIP in meaning:
            refusal = self._member_refused(error_type, what, state, member_id, generation, by)
            refusal.__cause__ = _error(error_type, code)
            return refusal
        kind = told_as(error_type)
        text = (
            f"{what} in {self._group}: {by}, answers {code}; {remedy(Answer.OFFSET_COMMIT, kind)}"
        )
        return _error(kind, text, cause=_error(error_type, code))

    def _member_refused(
        self,
        error_type: Any,
        what: str,
        state: MemberState,
        member_id: str,
        generation: int,
        by: str,
    ) -> Exception:
        """The group refused the commit because of the member or its generation.

        While the member rejoins this is a `RebalanceInProgressError`, as in kafka-python: the user
        can poll and commit again. Otherwise it is a `CommitFailedError`.
        """
        meaning = means(Answer.OFFSET_COMMIT, error_type)
        if Do.PARTITIONS_LOST in meaning and Do.NEXT_GENERATION not in meaning:
            if generation < 0:
                return _error(
                    CommitFailedError,
                    f"{what}: {by}, takes commits to {self._group} from its members only, as long"
                    " as it has some, and this consumer is none: the application has chosen its"
                    " partitions. Give it a group_id that no group uses.",
                )
            return _error(
                CommitFailedError,
                f"{what}: {by}, does not know member {member_id!r} of {self._group} in"
                f" generation {generation} (any more). Its partitions may be with another member"
                " already, which reads on from the last commit; go on polling to join again.",
            )
        if state is MemberState.REBALANCING:
            return _error(
                RebalanceInProgressError,
                f"{what}: {self._group} is rebalancing, and {by}, takes no commit of generation"
                f" {generation}. Call poll() until it is done, then commit again.",
            )
        reason = (
            f"the group has left generation {generation}"
            if error_type in (IllegalGenerationError, StaleMemberEpochError)
            else f"the group rebalances after generation {generation}"
        )
        return _error(
            CommitFailedError,
            f"{what} in {self._group} by member {member_id!r}: {by}, says that {reason}; the"
            " partitions may go to another member, which reads on from the last commit. Go on"
            " polling.",
        )

    def look_up_refused(
        self, error_type: Any, partitions: Iterable[TopicPartition], by: str
    ) -> Exception:
        """`by`, the coordinator, did not tell the committed offsets of these partitions, because of
        this error. It is one error for all of them: the application is told of it once."""
        return _error(
            error_type,
            f"the committed offsets of {listed(partitions)} in {self._group} could not be read:"
            f" {by}, answers {name_of(error_type)}; {remedy(Answer.OFFSET_FETCH, error_type)}",
        )

    @property
    def _group(self) -> str:
        return f"group {self.group_id!r}"


def _error(kind: Any, what: Any, *, cause: Exception | None = None) -> Exception:
    """An error of one of kafka-python's classes."""
    error: Exception = kind(what)
    error.__cause__ = cause
    return error


def _not_committed(partitions: Iterable[TopicPartition]) -> str:
    return f"{_offsets_of(partitions)} were not committed"


def _offsets_of(partitions: Iterable[TopicPartition]) -> str:
    return f"the offsets of {listed(partitions)}"
