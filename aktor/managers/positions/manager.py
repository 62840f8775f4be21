"""The position manager finds out where reading starts: a committed offset, or an end of the log.

It follows each assigned partition until it has a position. When a leader was elected since the
record before the position was written, it asks that leader by OffsetForLeaderEpoch whether it has
what we have read (KIP-320). It also looks up offsets by time for the application. Everything else
about positions (consuming, seeking, committing) happens elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.structs import TopicPartition

from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import NEVER, Duty, RequestManager
from aktor.events.answers import Answered
from aktor.events.commits import (
    ExplainStartingOffset,
    FindStartingOffsets,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.metadata import ClusterChanged, RefreshMetadata
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import (
    AssignmentChanged,
    ExplainPosition,
    FollowEnds,
    ListOffsets,
    Position,
    PositionsDiverged,
    ResetPolicy,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
    ValidatePositions,
)
from aktor.events.present import PositionNow, PositionsNow
from aktor.events.routes import COMMITS, METADATA, POSITIONS
from aktor.managers.positions.ends import Ends, EndsAsked
from aktor.managers.positions.leaders import Asked, Leaders
from aktor.managers.positions.new_partitions import NewPartitions, Verdict
from aktor.managers.positions.partition import Partitions, State, Trigger
from aktor.managers.positions.questions import OffsetQuestions, OffsetsAsked
from aktor.managers.positions.resets import Resets
from aktor.managers.positions.validation import Validation
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import no_offset, out_of_range
from aktor.trace.plain import named

__all__ = ["PositionManager"]

#: What partitions in these states wait for, as `PositionNow` calls it.
_STAGES: Final = {
    State.INITIALIZING: "committed",
    State.AWAIT_RESET: "reset",
    State.VALIDATING: "validation",
    State.TRUNCATED: "truncated",
    State.FAILED: "failed",
}

_NOBODY_WAITS: Final = PositionsNow()


class PositionManager(RequestManager):
    """Owns the way of each assigned partition to its position, the questions about offsets, and
    where logs end at which somebody looks."""

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
        settings, say, log = self.settings, self._say, self.log
        #: Where to go without a position, and from one that is out of range.
        self._start = ResetPolicy.named(settings.auto_offset_reset)
        self._out_of_range = ResetPolicy.named(settings.out_of_range_policy)
        self._partitions = Partitions(settings, say, log)
        #: The partitions without a position, or with one in doubt, as `PositionNow` calls it.
        self._waiting = [
            (stage, self._partitions.in_state(state)) for state, stage in _STAGES.items()
        ]
        self._leaders = Leaders(say, log)
        self._new = NewPartitions(settings)
        self._resets = Resets(
            settings,
            self._partitions,
            self._leaders,
            wall=lambda: self.wall,
            send=self._ask,
            log=log,
        )
        self._validation = Validation(
            self._partitions, self._leaders, send=self._ask, say=say, log=log
        )
        self._questions = OffsetQuestions(settings, self._leaders, send=self._ask, say=say, log=log)
        self._ends = Ends(settings, self._leaders, send=self._ask, say=say)
        #: Whether the partitions follow from a subscription: then new ones are to be read, too.
        self._subscribed = False

    # -- what the application wants

    @handles(AssignmentChanged)
    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Forget what is gone, keep what has its old epoch, find positions for the rest."""
        kept = self._partitions.kept(changed.partitions)
        self._new.forget(self._new.in_question - kept)
        self._ends.keep(changed.partitions)
        self._subscribed = changed.by_group or changed.all_of_topics
        self._find(self._partitions.assign(changed.partitions))
        # The commit manager gives up look-ups of partitions that we have lost. Some of them may
        # still be needed, to find out which other partitions are new.
        self._ask_group()

    def _find(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self.settings.group_id is None:
            self._begin_uncommitted(partitions)
            return
        self._say(FindStartingOffsets(partitions=frozenset(partitions)))

    @handles(SeekPartitions)
    def on_seek_partitions(self, sought: SeekPartitions) -> None:
        """The application knows where to read: drop what is under way for these partitions."""
        for tp, to in sought.partitions.items():
            assert to.position is not None, "nobody would look the position up"
            if self._is_assigned(tp, because="a seek"):
                self._partitions.move(tp, Trigger.SOUGHT, to.epoch)

    @handles(ResetPositions)
    def on_reset_positions(self, reset: ResetPositions) -> None:
        """Look the positions up, by strategy or by policy."""
        refused: list[TopicPartition] = []
        for tp, wanted in reset.partitions.items():
            if self._is_assigned(tp, because="a reset"):
                self._partitions.move(tp, Trigger.RESET_WANTED, wanted.epoch)
                policy = self._start if wanted.from_offset is None else self._out_of_range
                if wanted.strategy is not None:
                    policy = ResetPolicy(strategy=wanted.strategy)
                self._partitions[tp].await_reset(policy, reset.because, wanted.from_offset)
                if policy.strategy is None:
                    refused.append(tp)
        self._refuse_for_policy(refused)

    def _is_assigned(self, tp: TopicPartition, *, because: str) -> bool:
        if tp in self._partitions:
            return True
        self.log.info("position.dropped", partitions=[tp], because=f"{because}, not assigned")
        return False

    # -- whether leaders have what we have read

    @handles(ValidatePositions)
    def on_validate_positions(self, asked: ValidatePositions) -> None:
        """Leaders were elected: ask them whether they have these positions."""
        self._validation.begin(asked)

    @handles(PositionsDiverged)
    def on_positions_diverged(self, told: PositionsDiverged) -> None:
        """Fetches were answered with a diverging epoch."""
        self._validation.diverged(told)

    @answers_to(OffsetForLeaderEpochRequest)
    def on_epochs_ended(self, received: ResponseReceived) -> None:
        """A leader says where the epochs of our positions end in its log."""
        self._validation.answered(received)

    @failure_of(OffsetForLeaderEpochRequest)
    def on_epochs_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer."""
        self._validation.failed(failed)

    # -- what was committed

    @handles(StartingOffsetsFound)
    def on_starting_offsets_found(self, found: StartingOffsetsFound) -> None:
        """Start at what is committed; reset the others, and only these (KAFKA-17674)."""
        resolved: dict[TopicPartition, Position] = {}
        uncommitted: list[TopicPartition] = []
        self._new.forget([tp for tp in self._new.in_question if not self._is_initializing(tp)])
        self._new.note(found.offsets)
        for tp in sorted(found.offsets):  # a set was asked for, whose order depends on hashes
            committed = found.offsets[tp]
            if not self._is_initializing(tp):
                continue
            if committed is None:
                uncommitted.append(tp)
                continue
            self._partitions.move(tp, Trigger.COMMITTED_FOUND)
            epoch = committed.leader_epoch
            resolved[tp] = Position(
                offset=committed.offset, leader_epoch=-1 if epoch is None else epoch
            )
        self._partitions.resolved(resolved, because="committed")
        still = {tp for tp in self._new.in_question if self._is_initializing(tp)}
        uncommitted += sorted(still - {*uncommitted})
        self._begin_uncommitted(uncommitted)

    def _begin_uncommitted(self, partitions: list[TopicPartition]) -> None:
        """No offset is committed for these: in some we go on, some are new; the policy decides
        about the others."""
        left = self._go_on(partitions)
        in_group = self.settings.group_id is not None
        because = "no offset is committed" if in_group else "there is no group to commit for"
        others = self._without_new([tp for tp in partitions if tp not in left])
        self._new.forget(left)  # not before the others were judged
        self._reset_by_policy(others, because=because)

    def _go_on(self, uncommitted: list[TopicPartition]) -> Collection[TopicPartition]:
        """With "latest" (or by duration), go on where we were before the group took the partition
        and gave it back: reading from the end would skip what was written meanwhile. Returns the
        partitions in which we go on."""
        if self._start.strategy is not ResetStrategy.LATEST:
            return ()
        left = {tp: self._partitions[tp].left for tp in uncommitted}
        found = {tp: position for tp, position in left.items() if position is not None}
        for tp in found:
            self._partitions.move(tp, Trigger.LEFT_HERE)
        self._partitions.resolved(found, because="nothing is committed, and it was left here")
        return found

    def _is_initializing(self, tp: TopicPartition) -> bool:
        return self._partitions.state(tp) is State.INITIALIZING

    def _without_new(self, uncommitted: list[TopicPartition]) -> list[TopicPartition]:
        """Begin with the first record of those that are new; returns those that are not. Some stay
        in question until their topics are described, and the committed offsets of other partitions
        are known."""
        if not (self.settings.reads_new_partitions_from_start and self._subscribed):
            return uncommitted
        verdicts = self._new.judge(uncommitted, self._leaders.cluster)
        if undescribed := [tp for tp in verdicts if tp.topic not in self._leaders.cluster.topics]:
            self._say(RefreshMetadata(because=f"nothing is known of {listed(undescribed)}"))
        self._ask_group()
        by_verdict: defaultdict[Verdict, list[TopicPartition]] = defaultdict(list)
        for tp, verdict in verdicts.items():
            if verdict is not None:
                by_verdict[verdict].append(tp)
        for (is_new, because), partitions in by_verdict.items():
            self.log.info("partition.judged", partitions=partitions, new=is_new, because=because)
            for tp in partitions if is_new else ():
                self._partitions.move(tp, Trigger.NOTHING_COMMITTED).is_new(because)
        self._new.forget([tp for tp, verdict in verdicts.items() if verdict is not None])
        return [tp for tp, verdict in verdicts.items() if verdict is not None and not verdict[0]]

    def _ask_group(self) -> None:
        """Look up the committed offsets that tell which partitions are new. Those of partitions
        that wait for their starting offset are being looked up already."""
        missing = self._new.missing(self._leaders.cluster)
        if others := frozenset(tp for tp in missing if not self._is_initializing(tp)):
            self._say(FindStartingOffsets(partitions=others, stable=False))

    def _reset_by_policy(self, partitions: list[TopicPartition], *, because: str) -> None:
        for tp in partitions:
            partition = self._partitions.move(tp, Trigger.NOTHING_COMMITTED)
            partition.await_reset(self._start, because, None)
        if self._start.strategy is None:
            self._refuse_for_policy(partitions)

    @handles(StartingOffsetsFailed)
    def on_starting_offsets_failed(self, failed: StartingOffsetsFailed) -> None:
        """The committed offsets cannot be found: tell the application, which decides."""
        topics = {tp.topic for tp in failed.partitions & self._new.missing(self._leaders.cluster)}
        in_question = {tp for tp in self._new.in_question if tp.topic in topics}
        waiting = sorted(failed.partitions | in_question)
        self._new.forget(in_question)
        self._partitions.fail([tp for tp in waiting if self._is_initializing(tp)], failed.error)

    def _refuse_for_policy(self, partitions: list[TopicPartition]) -> None:
        """With `auto_offset_reset="none"` the application must say where to go."""
        remedy = "seek to an offset, or set auto_offset_reset to earliest or latest"
        of_range = remedy
        if self.settings.auto_offset_reset_out_of_range is not None:
            of_range = remedy.replace("auto_offset_reset", "auto_offset_reset_out_of_range")
        outside = {
            tp: offset
            for tp in partitions
            if (offset := self._partitions[tp].from_offset) is not None
        }
        missing = set(partitions) - outside.keys()
        self._partitions.fail(outside, out_of_range(outside, of_range))
        self._partitions.fail(missing, no_offset(missing, remedy))

    # -- what leaders are asked

    @handles(ClusterChanged)
    def on_cluster_changed(self, changed: ClusterChanged) -> None:
        """Partitions that have another leader now need not wait for the backoff."""
        known = self._leaders.cluster.topics
        self._leaders.know(changed.cluster)
        described = changed.cluster.topics.keys() - known.keys()
        if described and (waiting := [tp for tp in self._new.in_question if tp.topic in described]):
            self._begin_uncommitted(sorted(filter(self._is_initializing, waiting)))
        self._resets.leaders_changed()
        self._validation.leaders_changed()
        self._questions.leaders_changed()

    def duties(self) -> tuple[Duty, ...]:
        """End questions at their deadlines, reset and validate positions, look offsets and ends up.

        Most ticks find nothing that waits for a leader. They must be quick, so each duty looks
        first whether there is anything.
        """
        return (
            self._end_overdue,
            self._reset_positions,
            self._validate_positions,
            self._ask_questions,
            self._follow_ends,
        )

    def note_present(self, now: float) -> None:
        """Show which partitions have no position, or one in doubt, and what they wait for."""
        if not any(those for _, those in self._waiting):  # so it is in most ticks
            self.present = _NOBODY_WAITS
            return
        before = self.present if isinstance(self.present, PositionsNow) else _NOBODY_WAITS
        waiting = {
            tp: self._position_now(tp, stage, before.waiting.get(tp), now)
            for stage, those in self._waiting
            for tp in those
        }
        if waiting != before.waiting:
            self.present = PositionsNow(waiting=waiting)

    def _position_now(
        self, tp: TopicPartition, stage: str, before: PositionNow | None, now: float
    ) -> PositionNow:
        partition = self._partitions[tp]
        exchange, asked = partition.exchange, partition.asked
        under_way = asked if exchange.in_flight else None
        since, trouble = now, ""
        if before is not None and (before.stage == stage or "failed" in (before.stage, stage)):
            # A poll raises a failure, and the next one tries again: it waits since the first try.
            since, trouble = before.since, before.trouble
        if partition.trouble is not None:
            trouble = named(partition.trouble)
        return PositionNow(
            stage=stage,
            since=since,
            node=None if under_way is None else under_way.node,
            asked_at=math.inf if under_way is None else under_way.at,
            trouble=trouble,
            retry_at=exchange.retry_at,
        )

    def _end_overdue(self, now: float, _jitter: float) -> float:
        return self._questions.end_overdue(now) if self._questions.open else NEVER

    def _reset_positions(self, now: float, jitter: float) -> float:
        return self._resets.ask(now, jitter) if self._resets.waiting else NEVER

    def _validate_positions(self, now: float, jitter: float) -> float:
        return self._validation.ask(now, jitter) if self._validation.waiting else NEVER

    def _ask_questions(self, now: float, jitter: float) -> float:
        return self._questions.ask(now, jitter) if self._questions.open else NEVER

    def _follow_ends(self, now: float, _jitter: float) -> float:
        return self._ends.ask(now) if self._ends.followed else NEVER

    def _ask(self, body: Any, *, to: int, deadline: float, context: Any) -> None:
        self.send(self.request(body, to=to, deadline=deadline, context=context))

    @answers_to(ListOffsetsRequest, note=Asked)
    def on_resets_listed(self, received: ResponseReceived) -> None:
        """A leader says where the logs of our partitions begin or end."""
        self._resets.answered(received)

    @failure_of(ListOffsetsRequest, note=Asked)
    def on_resets_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer."""
        self._resets.failed(failed)

    # -- questions

    @handles(ListOffsets)
    def on_list_offsets(self, asked: ListOffsets) -> None:
        """Look offsets up by time, for a call of the application."""
        self._questions.begin(asked)

    @answers_to(ListOffsetsRequest, note=OffsetsAsked)
    def on_times_listed(self, received: ResponseReceived) -> None:
        """One leader has answered a question, or a part of it."""
        self._questions.answered(received)

    @failure_of(ListOffsetsRequest, note=OffsetsAsked)
    def on_times_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer."""
        self._questions.failed(failed)

    @handles(FollowEnds)
    def on_follow_ends(self, asked: FollowEnds) -> None:
        """Somebody looks at the consumer, and wants to know where these logs end."""
        assigned = frozenset([tp for tp in asked.partitions if tp in self._partitions])
        self._ends.follow(assigned, asked.now)

    @answers_to(ListOffsetsRequest, note=EndsAsked)
    def on_ends_listed(self, received: ResponseReceived) -> None:
        """A leader says where logs end at which somebody looks."""
        self._ends.answered(received)

    @failure_of(ListOffsetsRequest, note=EndsAsked)
    def on_ends_failed(self, failed: RequestFailed) -> None:
        """The leader did not answer."""
        self._ends.failed(failed)

    @handles(ExplainPosition)
    def on_explain_position(self, asked: ExplainPosition) -> None:
        """Say what the position of an assigned partition waits for."""
        tp = asked.partition
        state = self._partitions.state(tp)
        if tp in self._new.in_question and tp.topic not in self._leaders.cluster.topics:
            why = self._leaders.obstacle(tp, None, None, asked.now)
            self._say(Answered(ticket=asked.ticket, value=f"whether it is new: {why}"))
        elif state is State.INITIALIZING:
            self._say(ExplainStartingOffset(ticket=asked.ticket, partition=tp, now=asked.now))
        elif state is State.AWAIT_RESET:
            self._say(Answered(ticket=asked.ticket, value=self._resets.explain(tp, asked.now)))
        else:
            self._say(Answered(ticket=asked.ticket, value="it was not looked up in time"))
