"""The core of the application's half: it tells the background, waits, and gives records out.

`KafkaConsumer` checks arguments and has kafka-python's methods; the engine does the work. It starts
no thread and never waits itself: a method that may wait is a generator, which its driver runs (see
`waiting`). It does not wait on the port's bell, but its parts ring it: `wakeup` (`call`), and the
`Reply` to a question. One `poll` is: raise what is pending, run rebalance steps, tell the
background what changed, give out records if there are any, else wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from kafka.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.background import Background
from aktor.consumer.core.caller import is_another
from aktor.consumer.core.commits import CommitCallbacks, Commits
from aktor.consumer.core.core import Core
from aktor.consumer.core.delivery import NO_OFFSETS, InHand
from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.core.iteration import Iteration
from aktor.consumer.core.leaving import Leaving
from aktor.consumer.core.partition import Partition
from aktor.consumer.core.partition_errors import CorruptBatches, PositionErrors
from aktor.consumer.core.poll_heartbeat import GroupSession
from aktor.consumer.core.port import Settle
from aktor.consumer.core.positions import Positions
from aktor.consumer.core.questions import Questions
from aktor.consumer.core.rebalancing import Rebalancing
from aktor.consumer.core.recovery import Recovery
from aktor.consumer.core.waiting import Patience, Waiting
from aktor.events.membership import Operation
from aktor.events.metadata import TopicPattern
from aktor.events.positions import AssignmentChanged, ExplainPosition, Position, ResetStrategy
from aktor.events.routes import POSITIONS
from aktor.protocol.error_codes import Answer
from aktor.protocol.refusals import topics_refused
from aktor.records import Columns

__all__ = ["Engine"]

R = TypeVar("R")

#: If no broker has ever answered, a poll that has waited for so long (in seconds; a bit less than
#: 1, so that a poll of one second counts) raises an error: {} would mean that the topics are empty.
#: Shorter polls return {}: an application may call them in a loop from the start.
UNREACHED_AFTER: Final = 0.95

#: Why a member leaves its group, in its LeaveGroup (KIP-800).
UNSUBSCRIBED: Final = "the consumer unsubscribed"
CLOSED: Final = "the consumer was closed"

#: How long `unsubscribe` waits for its last commit, in seconds.
LAST_COMMIT_WAIT: Final = 5.0


class _Timed(Protocol):
    def due_after(self, now: float) -> float:
        """When a poll that waits has to look again; inf if there is no such time."""
        ...


class Engine:
    """Composes the parts of the application's half; each of them owns what its name says."""

    def __init__(
        self, core: Core, *, on_auto_commit: Callable[[Any, Any], Any] | None = None
    ) -> None:
        self.core = self.wiring = core
        self.call = core.call
        self.delivery = core.delivery
        self.subscription = core.subscription
        self.poll_heartbeat = core.poll_heartbeat
        self.session = GroupSession(core.port, core.publish, core.log, core.subscription)
        #: The records that are handed out one by one.
        self.iteration = Iteration(core)
        self.rebalancing = Rebalancing(
            core.delivery, core.publish, core.trace, core.clock, core.subscription.topic_ids
        )
        self.positions = Positions(core)
        self.errors = PositionErrors(core, self.positions)
        self.corrupt_batches = CorruptBatches(core)
        self.recovery = Recovery(core, self.rebalancing, self.positions, self.errors)
        self.questions = Questions(core, self.recovery)
        self.leaving = Leaving(core, self.rebalancing, self.positions, self.questions)
        callbacks = CommitCallbacks(core.call, self.rebalancing.user_code, on_auto_commit)
        self.in_hand = InHand()
        #: When a poll last gave records out.
        self.delivered_at = -math.inf
        #: What `process` shows of its handlers. None: it does not run.
        self.handlers: Callable[[], HandlersNow] | None = None
        #: Since when faults have kept records of these partitions back, and none was given out.
        self.faulty_since: Mapping[TopicPartition, float] = {}
        self.commits = Commits(self.questions, callbacks)
        self.background = Background(
            core, self.rebalancing, self.positions, callbacks, self.recovery, self.leaving
        )

        #: What takes effect when the `unsubscribe` under way is done.
        self.following: list[Callable[[], None]] = []

        #: How many bytes of values the next columns will probably have: as many as the last ones.
        self.expected_bytes = 0

    @property
    def _timed(self) -> tuple[_Timed, ...]:
        """The parts that must act in a waiting poll at a certain time; each owns that time."""
        return (self.poll_heartbeat, self.session, self.errors, self.corrupt_batches)

    def show_handlers(self, handlers: Callable[[], HandlersNow] | None) -> None:
        """`process` begins, and shows this; None: it ends."""
        self.handlers = handlers

    def begin_call(self) -> None:
        """An outermost call begins. The last one left nothing half done."""
        self.call.begin()
        # Mostly none of these is set. Each poll comes here, and a test costs less than a call.
        if self.commits.callbacks.running:
            self.commits.callbacks.begin_call()
        if self.rebalancing.user_code.name:
            self.rebalancing.user_code.leave()
        if self.recovery.restoring is not None:
            self.recovery.begin_call()
        delivery, iteration = self.delivery, self.iteration
        if delivery.given or self.in_hand.given:
            self.in_hand.begin_call(delivery.given_to, delivery.given)
            delivery.accept()
        if iteration.batch.handed:
            if is_another(iteration.given_to):
                self.in_hand.begin_call(iteration.given_to, iteration.settle_for_another())
            else:
                iteration.settle()

    def spare_unfinished(self) -> None:
        """The thread that closes the consumer is not the one that read last. That one may never
        finish its records: their offsets are not committed."""
        if is_another(self.delivery.given_to):
            self.delivery.take_back()
        if is_another(self.iteration.given_to):
            self.iteration.take_back_last()
        self.in_hand.take_back()

    def repair(self) -> None:
        """The last call was interrupted: repair what it left half done."""
        self.iteration.settle()
        self.iteration.forget()
        self.recovery.repair()

    @property
    def has_records(self) -> bool:
        """Whether records are here: handed over by the thread, put back, or being handed out."""
        return (
            not self.poll_heartbeat.has_run_dry
            or self.delivery.anything_ready
            or self.iteration.has_records
        )

    # -- poll

    def poll_at_once(
        self,
        timeout: float,
        limit: int,
        *,
        advance: bool = True,
        only: Set[TopicPartition] | None = None,
    ) -> dict[TopicPartition, list[Any]] | Waiting[dict[TopicPartition, list[Any]]]:
        """The result of a `poll` of so many seconds, if it needs neither wait nor run events;
        otherwise the `poll` itself, which the driver runs.

        Most polls of a busy application end here. They do not pay for a generator. What may end a
        poll before its look for records stands here in the same order as in `_poll`.
        """
        call, background, now = self.call, self.background, self.core.clock()
        deadline = now + timeout
        self.iteration.stow()
        if call.close_asked or self.leaving.is_unfinished:
            return self.poll(deadline, limit, advance=advance, only=only)
        try:
            call.raise_interruptions()
        except BaseException:
            self.poll_heartbeat.polls(now)  # a poll that raises is a poll, too
            raise
        has_run_dry = self.poll_heartbeat.has_run_dry
        waits = now < deadline and has_run_dry and not self.delivery.anything_ready
        if not (waits or background.has_work):
            records = self._look(
                lambda: self.delivery.take(limit, advance=advance, only=only), now, deadline
            )
            if records or now >= deadline:
                return records
        return self.poll(deadline, limit, advance=advance, only=only)

    def poll(
        self,
        deadline: float,
        limit: int,
        *,
        advance: bool = True,
        only: Set[TopicPartition] | None = None,
    ) -> Waiting[dict[TopicPartition, list[Any]]]:
        """Records as soon as there are any, {} at the deadline. `only`: of these partitions; what
        is here of others stays. See the module's docstring."""
        return self._poll(deadline, lambda: self.delivery.take(limit, advance=advance, only=only))

    def new_columns(self, limit: int, max_bytes: int | None, names: Sequence[str]) -> Columns:
        """What `poll_columns` fills: so many rows and bytes at most, of the columns so named."""
        return Columns(
            limit,
            max_bytes,
            key="key" in names,
            value="value" in names,
            headers="headers" in names,
            expected=self.expected_bytes,
        )

    def poll_columns(
        self,
        deadline: float,
        columns: Columns,
        make: Callable[[Columns], R],
        *,
        follows_policy: bool = True,
    ) -> Waiting[R]:
        """As `poll`, into `columns`; returns what `make` makes of them.

        `make` runs inside of this call: if an interrupt ends the call before it returns, the rows
        are taken back. If there are deserializers, the records that an iteration has put back are
        read again as bytes. If the call does not follow the policy, an offset out of range is an
        error.
        """
        self.iteration.stow()
        if not follows_policy:
            self.call.follow_no_policy()

        def take() -> dict[TopicPartition, Any]:
            if self.core.deserializes:
                for state in self.delivery.partitions.values():
                    if state.held:
                        self.positions.read_again(state)
            return self.delivery.take_columns(columns)

        yield from self._poll(deadline, take)
        self.expected_bytes = columns.size or self.expected_bytes
        return make(columns)

    def next_record(self, deadline: float, limit: int) -> Waiting[Any]:
        """The next record of an iteration: of this partition or the next one, or of a poll; None at
        the deadline."""
        iteration = self.iteration
        while True:
            if iteration.has_records or not iteration.begin_next_batch():
                taken = yield from self.poll(deadline, limit, advance=False)
                if not taken:
                    if not self.call.close_asked:
                        yield from self.questions.raise_if_unreached()
                    return None
                iteration.begin(taken)
            record = iteration.next()
            if record is not None:
                return record

    def _poll(
        self, deadline: float, take: Callable[[], dict[TopicPartition, R]]
    ) -> Waiting[dict[TopicPartition, R]]:
        # What comes before the look stands in `poll_at_once`, too, in the same order.
        call, clock = self.call, self.core.clock
        began = clock()
        self.poll_heartbeat.polls(began)  # also if what follows raises
        patience = Patience(deadline, began)
        while not call.close_asked:
            self.iteration.stow()  # another thread may have begun to iterate during a wait
            if self.leaving.is_unfinished:
                yield from self._finish_unsubscribe()
            call.raise_interruptions()
            if self.background.has_work:
                yield from self.background.run_events()
                patience.goes_on(clock())
            now = clock()
            records = self._look(take, now, deadline)
            if records:
                return records
            if patience.is_over(now):
                if now - began >= UNREACHED_AFTER:
                    yield from self.questions.raise_if_unreached()
                return {}
            if call.poll_ends is not None and call.poll_ends():
                return {}
            if not self._has_input:
                due = min(part.due_after(now) for part in self._timed)
                yield call.until(patience.until(now, due))
        return {}

    @property
    def is_assigned(self) -> bool:
        """Whether there is an assignment. It may be empty, if there are partitions for others only;
        not if no broker knows the topics yet, which it may be about to make."""
        if self.delivery.partitions:
            return True
        known, subscription = self.core.port.cluster.partitions_for_topic, self.subscription
        is_known = subscription.pattern is not None or bool(subscription.regex)
        return self.rebalancing.has_assigned and (is_known or any(map(known, subscription.topics)))

    def note_faults(self, since: Mapping[TopicPartition, float]) -> None:
        """Since when faults keep records of partitions back, as the watch has seen it on its thread
        (see `faulty_since`, which is replaced as a whole)."""
        self.faulty_since = since

    def attend(self, deadline: float, ends: Callable[[], bool]) -> Waiting[None]:
        """Take part in rebalances, as a poll does, and take no records; until `ends` returns True
        after a step or a ring, or until the deadline."""
        call, clock, heartbeat = self.call, self.core.clock, self.poll_heartbeat
        while not call.close_asked:
            call.check_alive()
            if self.leaving.is_unfinished:
                yield from self._finish_unsubscribe()
            if self.background.has_work:
                yield from self.background.run_events()
            now = clock()
            heartbeat.tell(now)
            heartbeat.be_heard(now)
            if ends() or now >= deadline:
                return
            if not (self.core.events or self.commits.callbacks.waiting):
                yield call.until(min(deadline, heartbeat.due_after(now)))

    def _look(
        self, take: Callable[[], dict[TopicPartition, R]], now: float, deadline: float
    ) -> dict[TopicPartition, R]:
        """The records that are here, or none. Tell the background what the application has read. If
        there are no records, or an error of our own is raised, wake it to read that at once."""
        self.errors.look_up_anew(now)
        if self.in_hand.given:
            self.in_hand.forget()
        self.poll_heartbeat.tell(now)
        try:
            records = self._collect(take, now, deadline)
        except BaseException as error:
            if self.call.is_own(error):  # after an interrupt positions may be wrong
                self.poll_heartbeat.be_heard(now)
            raise
        if records:
            self.delivered_at = now
        else:
            self.poll_heartbeat.be_heard(now)
        return records

    @property
    def _has_input(self) -> bool:
        """Whether something has come on which a poll acts, so that it need not wait."""
        port = self.core.port
        return bool(
            self.core.events or port.chunks or port.positions or self.commits.callbacks.waiting
        )

    def _collect(
        self, take: Callable[[], dict[TopicPartition, R]], now: float, deadline: float
    ) -> dict[TopicPartition, R]:
        self.positions.drain_buffer()
        if self.delivery.truncations:
            self.positions.follow_truncations()
        delivery, errors = self.delivery, self.errors
        if delivery.is_idle:
            self.session.forget()
            return {}
        if not self.session.is_confirmed(now):
            return {}
        if delivery.has_errors:
            self.corrupt_batches.fetch_anew(now)
            errors.raise_before_records()
        try:
            records = take()
        finally:
            if delivery.offset_gaps:
                self.positions.refetch_offset_gaps()
        if delivery.has_errors:
            self.corrupt_batches.fetch_anew(now)
            if not records:
                errors.raise_in_place_of_records(now, deadline)
        if records or not delivery.has_errors:
            errors.give_way()
        return records

    # -- subscription and assignment

    def subscribe(
        self,
        topics: frozenset[str],
        listener: Any,
        *,
        pattern: TopicPattern | None = None,
        regex: str = "",
    ) -> Waiting[None]:
        """Replace the subscription; partitions come and go in later polls. A member joins its group
        (JoinGroup) only when the background has the first `Poll` after that."""
        if self.leaving.is_unfinished:
            yield from self._finish_unsubscribe()
        subscription = self.subscription
        if subscription.assigned_by_user:
            raise self.call.own(IllegalStateError("subscribe after assign: call unsubscribe first"))
        self.iteration.stow()
        subscription.forget_told()
        self.rebalancing.set_listener(listener)
        # Watch before the pattern is matched with the present metadata: otherwise a change that
        # comes in between would be missed, since the same metadata is not told again.
        self.core.port.watch_cluster(wanted=True)
        subscription.replace(topics, pattern, regex)
        subscription.track_topics(self.delivery.partitions)
        self.poll_heartbeat.subscribed(self.core.clock())
        self.core.port.watch_cluster(wanted=subscription.follows_cluster)
        if subscription.group_id is not None:
            self.positions.say()
            self.positions.follow_subscription()
            subscription.say()
        elif subscription.is_subscribed:
            self.positions.assign_everything()

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        offsets: Mapping[TopicPartition, int] = NO_OFFSETS,
    ) -> Waiting[None]:
        """Replace the assignment by hand; `offsets` says where to begin in some of them.

        With auto-commit on, the positions are committed first, without waiting.
        """
        if self.leaving.is_unfinished:
            yield from self._finish_unsubscribe()
        if self.subscription.is_subscribed:
            raise self.call.own(IllegalStateError("assign after subscribe: call unsubscribe first"))
        self.iteration.stow()
        if self.core.settings.enable_auto_commit and (consumed := self.positions.consumed()):
            ids = self.subscription.topic_ids.ids
            yield from self.commits.commit_quietly(consumed, ids)
        self.subscription.assign_by_user()
        self.positions.assign(partitions, offsets)

    @property
    def topics_in_order(self) -> list[str]:
        """The topics that are read, in the same order for each batch of columns."""
        return sorted(self.subscription.topics or self.delivery.topics)

    @property
    def subscribed_topics(self) -> set[str] | None:
        """The topics that are subscribed to, or that match the pattern; None: there is no
        subscription. Of those that the brokers match only the ones with assigned partitions are
        known."""
        subscription = self.subscription
        if subscription.regex:
            return self.delivery.topics
        return set(subscription.topics) if subscription.is_subscribed else None

    # -- commits

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline: float
    ) -> Waiting[None]:
        """Commit these offsets, or all consumed positions, and wait for it."""
        chosen, topic_ids = self._to_commit(offsets)
        yield from self.commits.commit(chosen, deadline, topic_ids)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        settle: Settle,
        callback: Callable[[Any, Any], Any] | None = None,
    ) -> Waiting[None]:
        """Commit these offsets, or all consumed positions, without waiting. `settle` and `callback`
        are called as `Commits.commit_async` says."""
        chosen, topic_ids = self._to_commit(offsets)
        yield from self.commits.commit_async(chosen, settle, callback, topic_ids)

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    ) -> tuple[Mapping[TopicPartition, OffsetAndMetadata], Mapping[str, UUID]]:
        """These, or the consumed positions, and the ids of the topics that they were read from.
        What was given to another thread counts as finished.

        Offsets that the application names are of the topics that it was given records of: if one
        was deleted and created anew since the last poll, they are not stored for the new one.
        """
        topics = self.subscription.topic_ids
        given_of = topics.ids
        self.positions.follow_topics()
        chosen = self.consumed() if offsets is None else offsets
        self.in_hand.forget()
        return chosen, topics.ids if offsets is None else given_of

    # -- the end

    def unsubscribe(self, deadline: float) -> Waiting[None]:
        """`unsubscribe()`: commit, with auto-commit on; drop the subscription and the
        assignment."""
        try:
            self.iteration.stow()
            if self.core.settings.enable_auto_commit:
                until = min(deadline, self.core.clock() + LAST_COMMIT_WAIT)
                yield from self.leaving.commit_last(until, at="unsubscribe")
            error = yield from self.leaving.leave(deadline, because=UNSUBSCRIBED)
            self._say_nothing_is_read()
            if error is not None:
                raise self.call.own(error)
        finally:
            if not self.leaving.is_unfinished:
                self._follow_unsubscribe()

    def close(
        self, deadline: float, *, commit: bool = True, operation: Operation = Operation.DEFAULT
    ) -> Waiting[BaseException | None]:
        """Commit, with auto-commit on and if `commit` says so; run the listener, leave the group,
        run the callbacks of commits. Returns the listener's error.

        If the background has failed, only the listener is run: the partitions are lost.
        """
        self.iteration.stow()
        if self.core.port.failure is not None:
            return (yield from self.leaving.lose())
        commits_until = self.leaving.commits_until(deadline)
        if commit and self.core.settings.enable_auto_commit:
            yield from self.leaving.commit_last(commits_until, at="close")
        error = yield from self.leaving.leave(
            deadline, because=CLOSED, operation=operation, commits_until=commits_until
        )
        self.background.take_auto_commits()
        self.commits.callbacks.run()
        return error

    def resume_unsubscribe(self, deadline: float) -> Waiting[None]:
        """Call again what was interrupted, unless a call that began before has finished it."""
        if self.leaving.is_unfinished:
            yield from self.unsubscribe(deadline)
        else:
            self._follow_unsubscribe()

    def _finish_unsubscribe(self) -> Waiting[None]:
        """Finish an `unsubscribe` that was interrupted and is not called again."""
        yield from self.leaving.finish(UNSUBSCRIBED)
        self._say_nothing_is_read()
        self._follow_unsubscribe()

    def _follow_unsubscribe(self) -> None:
        following, self.following = self.following, []
        for act in following:
            act()

    def _say_nothing_is_read(self) -> None:
        """Tell the background, after the user has unsubscribed."""
        self.subscription.track_topics(self.delivery.partitions)
        self.core.publish(AssignmentChanged(partitions={}))

    # -- positions

    def seek(
        self, topic_partition: TopicPartition, position: Position, *, anew: bool = False
    ) -> None:
        """Read on from here. `anew`: what is buffered is fetched again."""
        self.iteration.stow()
        self.positions.seek(topic_partition, position, anew=anew)

    def reset(self, topic_partitions: Iterable[TopicPartition], strategy: ResetStrategy) -> None:
        """Go to the beginning or the end; the offset is looked up later."""
        self.iteration.stow()
        self.positions.reset(topic_partitions, strategy)

    def reset_and_find(
        self, topic_partitions: Sequence[TopicPartition], strategy: ResetStrategy, deadline: float
    ) -> Waiting[None]:
        """Go to the beginning or the end, and wait until the offsets are known. Raises what
        `position` raises if one must be found."""
        for one in topic_partitions:
            self._state_of(one)
        self.reset(topic_partitions, strategy)
        for one in topic_partitions:
            yield from self.position(one, deadline, must=True)

    def seek_to_committed(
        self, topic_partitions: Collection[TopicPartition], deadline: float
    ) -> Waiting[dict[TopicPartition, int | None]]:
        """Go to the committed offsets, and return them; a partition without one stays where it is.
        Raises IllegalStateError, and stays everywhere, if a partition is not assigned any more."""
        found = yield from self.questions.committed(topic_partitions, deadline)
        offsets = {one: None if at is None else at.offset for one, at in found.items()}
        for one in offsets:
            self._state_of(one)
        for one, offset in offsets.items():
            if offset is not None:
                self.seek(one, Position(offset=offset))
        return offsets

    def pause(self, topic_partitions: Collection[TopicPartition], *, paused: bool) -> None:
        """Pause or resume these partitions."""
        self.iteration.stow()
        if not paused:
            self.positions.resume(topic_partitions)
        elif self.handlers is not None and self.handlers().paused.issuperset(topic_partitions):
            self.positions.pause(topic_partitions, because="process() waits for its handlers")
        else:
            self.positions.pause(topic_partitions)

    def known_position(self, topic_partition: TopicPartition) -> int | None:
        """The consumed position of an assigned partition. None: `position` finds it, or says why
        there is none."""
        if self.core.events:
            return None  # actors may have been restarted
        self.call.touch()
        if self.core.port.positions:
            self.positions.apply_found()
        return self.delivery.partitions[topic_partition].offset

    def position(
        self, topic_partition: TopicPartition, deadline: float, *, must: bool = False
    ) -> Waiting[int | None]:
        """The consumed position, waiting for it until the deadline; None if it is not found.

        Raises IllegalStateError if the partition was given up because an actor was restarted,
        TopicAuthorizationFailedError if its topic may not be described, and, if the position `must`
        be found, KafkaTimeoutError.
        """
        found = yield from self._find_position(topic_partition, deadline)
        if found is None and must:
            why = yield from self._why_no_position(topic_partition)
            raise self.call.own(
                KafkaTimeoutError(
                    f"no position for {topic_partition.topic}-{topic_partition.partition} was found"
                    f" within {self.core.settings.default_api_timeout:g} s"
                    f" ({why})."
                    " Check that the topic exists and that these brokers can be reached."
                )
            )
        return found

    def _find_position(
        self, topic_partition: TopicPartition, deadline: float
    ) -> Waiting[int | None]:
        yield from self.recovery.restore_if_restarted()
        patience = Patience(deadline, self.core.clock())
        while True:
            self.positions.apply_found()
            offset = self._known_offset(topic_partition)
            if offset is not None:
                return offset
            self.call.raise_interruptions()
            self.call.end_for_close()
            now = self.core.clock()
            self.errors.look_up_anew(now)
            if patience.is_over(now):
                return None
            if not self.core.port.positions:
                yield self.call.until(patience.until(now, self.errors.look_up_at))

    def _known_offset(self, topic_partition: TopicPartition) -> int | None:
        """The consumed position; None: wait for it. Raises the error if it cannot be found."""
        state = self._state_of(topic_partition)
        if state.offset is not None:
            return state.offset
        if state.error is not None:
            self.errors.raise_error_of(state, state.error)
        if topic_partition.topic in self.core.port.cluster.forbidden:
            forbidden, kind = [topic_partition.topic], TopicAuthorizationFailedError
            raise self.call.own(topics_refused(kind, forbidden, Answer.METADATA_TOPIC))
        return None

    def _state_of(self, topic_partition: TopicPartition) -> Partition:
        """The state of a partition that was assigned when the call came: it has waited since."""
        state = self.delivery.partitions.get(topic_partition)
        if state is None:
            raise self.call.own(
                IllegalStateError(
                    f"{topic_partition.topic}-{topic_partition.partition} is not assigned any more:"
                    " another thread has changed the assignment, or the member was restarted; go on"
                    " polling to join again"
                )
            )
        return state

    def _why_no_position(self, topic_partition: TopicPartition) -> Waiting[str]:
        """Why the partition has no position yet, in words."""
        now = self.core.clock()
        try:
            why: str = yield from self.questions.ask(
                POSITIONS,
                lambda ticket: ExplainPosition(ticket=ticket, partition=topic_partition, now=now),
                deadline=now,
                what="finding out why there is no position",
                interruptible=False,
            )
        except KafkaError as error:
            return str(error)
        return why

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The consumed positions in topics that still exist under their ids."""
        return self.positions.consumed()
