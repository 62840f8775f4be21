"""Offsets by time, for calls of the application: ListOffsets of any partitions, assigned or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Final

from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.answers import Answered, Failed
from aktor.events.message import Message
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import ListOffsets
from aktor.managers.positions.leaders import PATIENCE, Leaders, Send
from aktor.managers.positions.list_offsets import ListedOffsets, list_offsets
from aktor.managers.positions.partition import AskedOf
from aktor.protocol.error_codes import Answer, Do, means
from aktor.protocol.partitions import listed, name_of_partition
from aktor.protocol.refusals import explained, topics_refused
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import Mutable, Value

__all__ = ["OffsetQuestions", "OffsetsAsked"]

#: Partitions that an error names.
NAMED: Final = 10

#: In which rows of the error codes it stands what these answers mean.
ANSWER: Final = Answer.LIST_OFFSETS_BY_TIME


class OffsetsAsked(Value, kw_only=False):
    """Context of a ListOffsets on behalf of a question."""

    ticket: int
    partitions: frozenset[TopicPartition]


class _Question(Mutable):
    """A question on its way: what was found, what is in flight, why the rest is not found yet."""

    asked: ListOffsets
    backoff: Backoff
    since: float | None = None
    in_flight: dict[TopicPartition, AskedOf] = field(default_factory=dict)
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
        self.in_flight.update(dict.fromkeys(partitions, AskedOf(node, now)))

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


class OffsetQuestions:
    """Owns the questions of the application about offsets, until each has ended.

    `send`, `say` and `log` are the manager's.
    """

    def __init__(
        self,
        settings: Settings,
        leaders: Leaders,
        *,
        send: Send,
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        self._settings = settings
        self._leaders = leaders
        self._send = send
        self._say = say
        self._log = log
        #: Those that are open, by ticket. It is looked at in each tick, without a call.
        self.open: dict[int, _Question] = {}

    def begin(self, asked: ListOffsets) -> None:
        """Keep the question; a duty asks the leaders."""
        if not asked.timestamps:
            self._say(Answered(ticket=asked.ticket, value={}))
            return
        backoff = Backoff(self._settings.retry_backoff, self._settings.retry_backoff_max)
        self.open[asked.ticket] = _Question(asked=asked, backoff=backoff)
        self._end_forbidden()

    def leaders_changed(self) -> None:
        """A question about a partition whose leader is another now need not wait."""
        for question in self.open.values():
            if any(self._leaders.has_changed(tp) for tp in question.to_ask()):
                question.backoff.reset()
        self._end_forbidden()

    def _end_forbidden(self) -> None:
        """Metadata names no leader of a topic that we may not describe: fail these questions."""
        for question in list(self.open.values()):
            topics = {tp.topic for tp in question.asked.timestamps}
            if forbidden := topics & self._leaders.cluster.forbidden:
                kind = TopicAuthorizationFailedError
                error = topics_refused(kind, forbidden, Answer.METADATA_TOPIC)
                self._end(Failed(ticket=question.asked.ticket, error=error))

    def _end(self, end: Answered | Failed) -> None:
        if self.open.pop(end.ticket, None) is None:
            return
        if isinstance(end, Failed):
            self._log.warning("lookup.failed", ticket=end.ticket, because=end.error)
        self._say(end)

    # -- what is sent

    def ask(self, now: float, jitter: float) -> float:
        """ListOffsets to the leaders of what is asked for and neither found nor in flight; returns
        when it is due again."""
        for question in self.open.values():
            question.begin(now)
            if now >= question.due:
                self._ask(question, now, jitter)
        return min((question.due for question in self.open.values()), default=NEVER)

    def _ask(self, question: _Question, now: float, jitter: float) -> None:
        patience = question.backoff.doubled(PATIENCE, self._settings.request_timeout)
        deadline = min(question.asked.deadline, now + patience)
        by_leader, leaderless = self._leaders.of(question.to_ask())
        if leaderless:
            question.backoff.failed(now, jitter)
            for tp in leaderless:
                question.not_tried(tp)
        for node, partitions in by_leader.items():
            question.sent(partitions, node, now)
            timestamps = {tp: question.asked.timestamps[tp] for tp in partitions}
            epochs = {tp: self._leaders.epoch(tp) for tp in partitions}
            body = list_offsets(timestamps, epochs, seconds=deadline - now, settings=self._settings)
            context = OffsetsAsked(question.asked.ticket, frozenset(partitions))
            self._send(body, to=node, deadline=deadline, context=context)

    def end_overdue(self, now: float) -> float:
        """Fail each question whose deadline has passed, and say what each offset waited for;
        returns the next deadline."""
        questions = list(self.open.values())
        for question in [one for one in questions if now >= one.asked.deadline]:
            missing = sorted(question.asked.timestamps.keys() - question.found.keys())
            reasons = "; ".join(
                f"{name_of_partition(tp)}: "
                + self._leaders.obstacle(
                    tp, question.in_flight.get(tp), question.troubles.get(tp), now
                )
                for tp in missing[:NAMED]
            )
            more = f"; and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            error = KafkaTimeoutError(
                f"no offset was found within {question.waited(now):.1f} s for {reasons}{more}."
                " Check that the partitions exist and that their leaders can be reached."
            )
            self._end(Failed(ticket=question.asked.ticket, error=error))
        return min((question.asked.deadline for question in self.open.values()), default=NEVER)

    # -- what is answered

    def answered(self, received: ResponseReceived) -> None:
        """One leader has answered. The question ends with the last answer, or with a refusal."""
        asked: OffsetsAsked = received.request.context
        by = self._leaders.name(received.node)
        found = ListedOffsets.of(ANSWER, received.response, asked.partitions, by)
        self._listed(asked, found, received.now, received.jitter)

    def failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        asked: OffsetsAsked = failed.request.context
        if Do.RAISE in means(ANSWER, type(failed.error)):
            error = explained(failed.error, listed(asked.partitions), ANSWER)
            self._end(Failed(ticket=asked.ticket, error=error))
            return
        unanswered = ListedOffsets(troubles=dict.fromkeys(asked.partitions, failed.error))
        self._listed(asked, unanswered, failed.now, failed.jitter)

    def _listed(self, asked: OffsetsAsked, found: ListedOffsets, now: float, jitter: float) -> None:
        question = self.open.get(asked.ticket)
        if question is None:
            return  # another leader's refusal or the deadline has ended it
        for tp in asked.partitions:
            question.answered(tp)
        for tp, offset in [*found.offsets.items()]:
            if offset is None and question.asked.timestamps[tp] < 0:
                found.is_no_end(tp)
        for error, _ in found.refusals(asked.partitions):
            self._end(Failed(ticket=asked.ticket, error=error))
            return
        for tp, offset in found.offsets.items():
            question.finds(tp, offset)
        if question.found.keys() >= question.asked.timestamps.keys():
            self._end(Answered(ticket=asked.ticket, value=question.found))
            return
        if not found.troubles:
            return
        question.failed(found.troubles)
        if now >= question.backoff.retry_at:
            question.backoff.failed(now, jitter)
        self._leaders.refresh_after(ANSWER, found.troubles)
        self._leaders.doubt_epochs(found.troubles, now)
