"""The application thread's side of a consumer: it says, waits, and gives out what has come.

`KafkaConsumer` checks arguments and speaks kafka-python's language; this is what it works with.
One `poll` is: raise what is pending, run rebalance steps, take records if there are any (without a
word to the background), tell the background what changed, else wait for the bell.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kafka.errors import (
    CorruptRecordError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime import Bell
from aktor.consumer.delivery import Delivery, ReaderMaker
from aktor.consumer.partition import Partition
from aktor.consumer.port import ApplicationPort
from aktor.consumer.rebalancing import Rebalancing, Step
from aktor.errors import (
    ActorRestartedError,
    BatchTooLargeError,
    ConsumerClosedError,
    RecordDeserializationError,
    WakeupError,
)
from aktor.events.commits import AutoCommitFinished, CommitOffsets
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.fetching import PausePartitions
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    ConfirmSession,
    GroupFailed,
    LeaveGroup,
    Loss,
    MemberState,
    Operation,
    RevokePartitions,
    RunRevokedCallback,
    SubscriptionChanged,
)
from aktor.events.metadata import Cluster, ClusterChanged, TopicPattern, TopicsRefused, TrackTopics
from aktor.events.network import ReportBootstrap
from aktor.events.polling import Poll
from aktor.events.positions import (
    AssignmentChanged,
    ExplainPosition,
    Position,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from aktor.managers.commit_errors import says_expelled
from aktor.protocol.refusals import topics_refused
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["Completion", "Engine", "Publish"]

Publish = Callable[..., None]

#: How long the application thread waits beyond a deadline for the actor's own error, in seconds.
#: The background thread has its answer at the deadline; it may need a moment to get to run.
ANSWER_GRACE: Final = 0.1

#: How often an unchanged Poll is repeated, and an unconfirmed session asked about, in seconds.
POLL_REPEAT: Final = 0.25
CONFIRM_REPEAT: Final = 0.2

#: The part of the time for leaving the group that is kept for telling it, whatever commits take.
LEAVE_SHARE: Final = 0.25

#: How soon a position is looked up again after an error that may pass, in seconds.
POSITION_RETRY: Final = 1.0

#: A poll that has waited so long (one of a second has) does not end with nothing as if the topics
#: were empty, if no broker has ever answered. Shorter ones are called in loops from the start.
UNREACHED_AFTER: Final = 0.95

#: How long the network actor may take to say what came of its attempts, in seconds.
REPORT_WAIT: Final = 1.0

#: The share of the fetch buffer that must have been freed before the background is woken for it.
WAKE_SHARE: Final = 4


class Completion:
    """The callback of a commit that is over, to be called once."""

    __slots__ = ("_call", "begun")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.begun = False

    def run(self) -> None:
        """Call it; it counts as called, whatever interrupts us."""
        self.begun = True
        self._call()


class Engine:
    """Owns what the user sees: subscription, assignment as applied, positions, open callbacks."""

    def __init__(
        self,
        settings: Settings,
        *,
        bell: Bell,
        port: ApplicationPort,
        publish: Publish,
        clock: Callable[[], float],
        make_reader: ReaderMaker,
        trace: Trace,
        on_auto_commit: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self.settings = settings
        self.port = port
        self.clock = clock
        self.delivery = Delivery(make_reader, trace, settings.isolation_level)
        self.rebalancing = Rebalancing(self.delivery, publish, trace, clock)
        #: The user's code that a call is in.
        self.user_code = self.rebalancing.user_code
        self.subscription: frozenset[str] = frozenset()
        #: In place of topics: a pattern that we evaluate, or one that the brokers do.
        self.pattern: TopicPattern | None = None
        self.regex = ""
        self.assigned_by_user = False
        #: The last commit before leaving was refused: the group does not know us any more.
        self.expelled = False
        #: Callbacks of finished asynchronous commits, for the application thread to run.
        self.completions: deque[Completion] = deque()
        self.log = trace.bind(actor="application")
        self._trace = trace
        self._events: deque[object] = deque()
        self.closing = False
        #: A nested `close` waits for the outermost call to end.
        self.close_asked = False
        #: Whether the call under way has begun to change anything.
        self.touched = False
        #: The error of our own that a call ends in: any other one is an interrupt, and may have
        #: come anywhere. And one that is raised later if an interrupt took its place.
        self.ended_in: BaseException | None = None
        self._owed: BaseException | None = None
        #: The questions of the call under way.
        self._asked: list[int] = []
        #: Whether a commit callback runs.
        self._completing = False
        #: What the membership was told last (topics, regex); None while it is being told.
        self._subscribed_as: tuple[frozenset[str], str] | None = (frozenset(), "")
        self._unraised: BaseException | None = None
        #: The restart that is being answered, and the leaving that is under way.
        self._restoring: object = None
        self._leaving: object = None
        self._bell = bell
        self._publish = publish
        self._on_auto_commit = on_auto_commit
        self.woken = False
        self._urgent = False
        self._polled_at = -math.inf
        self._ask_again_at = math.inf
        #: Whose position could not be found in this attempt, and the errors that were raised of it.
        self._unresolved: set[TopicPartition] = set()
        self._told: set[str] = set()
        #: The last poll raised an error of a partition: the others' records come before the next.
        self._error_was_last = False
        #: When an error that stands until a seek may be raised again before a poll's time is over.
        self._again_at = -math.inf
        self._look_up_at = math.inf
        self._commit_at = -math.inf
        #: Positions or freed bytes were told without a wake, and nobody was woken since; how many.
        self._unread = False
        self._unread_bytes = 0
        #: Of the topics that are read: their ids, as far as they are known, and the snapshot in
        #: which that was looked up.
        self._topic_ids: dict[str, object] = {}
        self._followed: Cluster | None = None

    # -- how a call begins and ends

    def begin_call(self) -> None:
        """An outermost call begins, and what the last one did is sound."""
        self.touched = self._completing = False
        self.user_code.enter("")
        self.ended_in = self._owed = self._restoring = None
        self.delivery.accept()
        self._asked = []

    def touch(self) -> None:
        """The call under way begins to change something."""
        self.touched = True

    def begin_close(self) -> None:
        """The call under way closes the consumer: nobody ends its waits any more."""
        self.closing = True

    def own(self, error: BaseException, *, owed: bool = False) -> BaseException:
        """This error is raised next, and leaves nothing half done.

        If it is `owed`, and an interrupt takes its place, then a later poll raises it.
        """
        self._owed = error if owed else None
        self.ended_in = error
        return error

    def own_told(self, told: BaseException, *, owed: bool = False) -> BaseException:
        """The same for an error that the background has told, and keeps: a copy of it is raised.

        Its traceback would keep a dropped consumer alive, whose thread would never end.
        """
        error = copy.copy(told)
        error.__cause__ = told.__cause__
        return self.own(error, owed=owed)

    def forget_errors(self) -> None:
        """What the call ended in is raised: its traceback would keep a dropped consumer alive."""
        self.ended_in = self._owed = None

    def repair(self) -> None:
        """The last call was interrupted, anywhere: make sound again what it left half done.

        What counts is the subscription, the positions of what was given out, what is paused, which
        resets are not answered, and the steps that are not. All else follows from it: it is made
        anew and said again, in new epochs, so that what was said and fetched before is dropped.
        May itself be interrupted, and is then done again.
        """
        self.user_code.enter("")
        self.closing = False
        self._restoring = None
        self._unraised = self._owed or self._unraised
        for ticket in self._asked:
            self.port.give_up(ticket)
        if self.port.failure is not None:
            return
        self.delivery.take_back()
        for state in self.delivery.partitions.values():
            self._renew(state)
        self.delivery.recount()
        self._unresolved.clear()
        self._told.clear()
        self._look_up_at = math.inf
        self._track()
        self._say_assignment()
        self._say_resets("a call was interrupted")
        kept = self.delivery.not_wanted()
        self.say(
            PausePartitions(partitions=kept, resumed=frozenset(self.delivery.partitions) - kept)
        )
        if self._subscribed_as != (self.subscription, self.regex):
            self._say_subscription()
        self._urgent = True
        self.log.info("call.repaired")

    # -- saying and asking

    @property
    def in_group(self) -> bool:
        """Whether partitions are assigned by a group."""
        return self.is_subscribed and self.settings.group_id is not None

    @property
    def is_subscribed(self) -> bool:
        """Whether topics, or patterns of them, were asked for."""
        return bool(self.subscription or self.pattern or self.regex)

    def _say_subscription(self, member_id: str = "", leaving: frozenset[str] = frozenset()) -> None:
        self._subscribed_as = None
        topics, regex = self.subscription, self.regex
        self.say(
            SubscriptionChanged(topics=topics, regex=regex, member_id=member_id, leaving=leaving)
        )
        self._subscribed_as = topics, regex

    def say(self, message: object) -> None:
        """Tell the background something, at once."""
        self._publish(message)

    def ask(
        self,
        actor: str,
        question: Callable[[int], object],
        *,
        deadline: float,
        what: str,
        interruptible: bool = True,
    ) -> Any:
        """Ask `actor` and wait for the answer.

        The actor knows the deadline and why there is no answer: at the deadline it says so, in a
        `KafkaTimeoutError`. The wait goes on for `ANSWER_GRACE` so that this error is heard.

        Raises the answer's error, `KafkaTimeoutError` without a cause if the actor says nothing,
        and unless it must not be interrupted `WakeupError`, or the connection's error if there is
        one: else they are kept.
        """
        self._check_alive()
        self.restore_if_restarted()
        began = self.clock()
        until = max(began, deadline) + ANSWER_GRACE
        self.touched = True
        ticket, reply = self.port.ask(actor, asked=self._asked)
        try:
            self.say(question(ticket))
            while not reply.done:
                if interruptible:
                    self._raise_interruptions()
                    self._end_for_close()
                else:
                    self._check_alive()
                now = self.clock()
                if now >= until:
                    raise self.own(
                        KafkaTimeoutError(
                            f"{what} was not done within {max(0.0, deadline - began):.3g} s, and"
                            f" the {actor} actor does not say why: the consumer's background"
                            " thread does not get to run. See whether the process is short of CPU"
                            " time."
                        )
                    )
                self._bell.wait(until - now)
            if reply.error is not None:
                raise self.own_told(reply.error)
            return reply.get()
        finally:
            self.port.give_up(ticket)

    def wakeup(self) -> None:
        """End the blocked call, or the next one. From any thread."""
        self.woken = True
        self._bell.ring()

    def end_waits(self) -> None:
        """A nested `close` waits for the outermost call: what it waits for comes no more."""
        self.close_asked = True
        self._bell.ring()

    def _end_for_close(self) -> None:
        if self.close_asked and not self.closing:
            raise self.own(ConsumerClosedError())

    def _check_alive(self) -> None:
        if self.port.failure is not None:
            raise self.own_told(self.port.failure)

    def _raise_interruptions(self) -> None:
        self._check_alive()
        if self.woken and not self.closing:
            self.woken = False
            raise self.own(WakeupError())
        error = self.port.take_connection_error()
        if error is not None:
            raise self.own_told(error)

    # -- poll

    def poll(
        self, deadline: float, limit: int, *, advance: bool = True
    ) -> dict[TopicPartition, list[Any]]:
        """Records as soon as there are any, {} at the deadline. See the module's docstring."""
        self.touched = True
        began = self.clock()
        while not self.close_asked:
            self._raise_interruptions()
            self.run_events()
            now = self.clock()
            self._ask_positions_anew(now)
            self._tell_poll(now)
            try:
                records = self._collect(limit, now, deadline, advance=advance)
            except BaseException as error:
                if error is self.ended_in:  # after an interrupt, positions are not what they seem
                    self._be_heard(now)
                raise
            if records:
                return records
            self._be_heard(now)
            if now >= deadline:
                if now - began >= UNREACHED_AFTER:
                    self.raise_if_unreached()
                return {}
            alive_until = now + self.settings.max_poll_interval / 3
            again_at = self._again_at if self._again_at > now else math.inf
            self._wait(min(deadline, alive_until, self._ask_again_at, self._look_up_at, again_at))
        return {}

    def raise_if_unreached(self) -> None:
        """Raise BootstrapError if no broker has ever answered: nothing is not the same as empty."""
        if self.port.cluster.version > 0:
            return
        try:
            error = self.ask(
                "network",
                lambda ticket: ReportBootstrap(ticket=ticket),
                deadline=self.clock() + REPORT_WAIT,
                what="asking whether any broker was reached",
            )
        except (KafkaTimeoutError, ActorRestartedError):
            return  # the background is busy with worse, and tells it by itself
        if error is not None:
            raise self.own_told(error)

    def _wait(self, until: float) -> None:
        port = self.port
        if self._events or port.events or port.chunks or port.positions or self.completions:
            return
        self._bell.wait(until - self.clock())

    def _raise_errors(self, *, again: bool) -> None:
        """Raise an error of a partition, if there is one to be raised now.

        One that was raised before and still stands takes turns with the records of the others
        (`again`): who catches it and goes on polling is told again and again, and reads on. If the
        others have none, it is raised again when the poll's time is over, or after
        `retry_backoff_ms`: a loop that catches it without a seek keeps no processor busy.
        """
        self._reset_out_of_range()
        while (due := self.delivery.next_error(again=again)) is not None:
            self._raise_error_of(*due)

    def _raise_error_of(self, state: Partition, error: Exception) -> None:
        """Raise why nothing is given out of it: each time if only a seek helps, else once.

        Positions that could not be found are looked up anew, all of them together: of one attempt
        each error is raised once, however many partitions have it. `_forget` does so for refusals.
        """
        if not _only_a_seek_helps(error):
            if state.offset is not None:
                self._forget(error)
            elif self._is_told(state, error):
                return
        else:
            self._again_at = self.clock() + self.settings.retry_backoff
        self._error_was_last = True
        raise self.own_told(error, owed=True)

    def _forget(self, error: Exception) -> None:
        """It is raised now, for all partitions that have the same one.

        When the right to a topic is withdrawn, each of its partitions gets the same refusal. A poll
        raises one error, so that otherwise one poll per partition would fail.
        """
        for state in self.delivery.failed():
            if state.offset is not None and repr(state.error) == repr(error):
                self.delivery.forget_error(state)

    def _is_told(self, state: Partition, error: Exception) -> bool:
        """Look its position up anew; True if this error of the attempt was raised already."""
        told = repr(error) in self._told and state.topic_partition not in self._unresolved
        self._told.add(repr(error))
        self._note_unresolved()
        if not told:
            self._look_up_at = self.clock() + POSITION_RETRY
        return told

    def _note_unresolved(self) -> None:
        for state in self.delivery.failed():
            if state.offset is not None or state.error is None:
                continue
            if repr(state.error) in self._told and not _only_a_seek_helps(state.error):
                state.forget_error()
                self._unresolved.add(state.topic_partition)

    def _ask_positions_anew(self, now: float) -> None:
        """Look up again what could not be looked up: a right may have been granted meanwhile."""
        if now < self._look_up_at:
            return
        self._look_up_at = math.inf
        self.apply_positions()
        self._note_unresolved()
        for one in sorted(self._unresolved & self.delivery.partitions.keys()):
            state = self.delivery.partitions[one]
            if state.offset is None:
                self._renew(state)
        self._unresolved.clear()
        self._told.clear()
        self._say_assignment()
        self._say_resets("the last attempt failed")

    def _renew(self, state: Partition) -> None:
        """A new epoch for a partition, with what it had: position, or reset to be answered."""
        position = None if state.reset is not None else state.position
        self.delivery.seek(state.topic_partition, position, state.reset)

    def confirmed(self, now: float) -> bool:
        """Whether the group has confirmed us recently enough to give records out.

        A member that was stopped for longer than its session may have lost its partitions to
        another: it must hear from the group before it hands anything out.
        """
        if not self.in_group or now <= self.port.session_until:
            self._ask_again_at = math.inf
            return True
        if now >= self._ask_again_at or self._ask_again_at == math.inf:
            self._ask_again_at = now + CONFIRM_REPEAT
            self.log.info("session.unconfirmed", overdue_s=round(now - self.port.session_until, 3))
            self.say(ConfirmSession())
        return False

    @property
    def is_confirmed(self) -> bool:
        """Whether nothing is held back because the group has yet to confirm us."""
        return self._ask_again_at == math.inf

    def _collect(
        self, limit: int, now: float, deadline: float, *, advance: bool
    ) -> dict[TopicPartition, list[Any]]:
        self.drain_buffer()
        delivery = self.delivery
        if not (delivery.buffered_bytes or delivery.has_errors or delivery.anything_ready):
            self._ask_again_at = math.inf  # what waited for the group's word is gone
            return {}
        if not self.confirmed(now):
            return {}
        if delivery.has_errors:
            self._raise_errors(again=not self._error_was_last)
        try:
            records = delivery.take(limit, advance=advance)
        finally:
            if delivery.offset_gaps:
                self._refetch_offset_gaps()
        if not records and delivery.has_errors:
            self._raise_errors(again=now >= min(self._again_at, deadline))
        if records or not delivery.has_errors:
            self._error_was_last = False
        return records

    def drain_buffer(self) -> None:
        """Take over what was found and fetched; no waiting, no word to the background."""
        if self.port.positions:
            self.apply_positions()
        chunks = self.port.chunks
        while chunks:
            self.delivery.put(chunks[0])
            chunks.popleft()
        self.delivery.all_put()

    def _reset_out_of_range(self) -> None:
        """What a fetch was refused for is reset by the policy; only a policy "none" raises it."""
        refused = [
            state
            for state in self.delivery.failed()
            if state.offset is not None and isinstance(state.error, OffsetOutOfRangeError)
        ]
        for state in refused:
            offset = state.offset
            reset = Reset(epoch=state.epoch, from_offset=offset)
            self.delivery.seek(state.topic_partition, None, reset)
        if refused:
            self._say_resets("the offset is out of range")

    def follow_topics(self) -> None:
        """Reset, by the policy, what is of a topic that was deleted and created anew.

        An offset of the old topic means nothing in the new one: what lies below it there would be
        skipped. A seek that comes later wins. Members of a KIP-848 group are assigned the new topic
        by their coordinator.
        """
        cluster = self.port.cluster
        if cluster is self._followed:
            return
        anew = {
            topic: info.topic_id
            for topic, was in self._topic_ids.items()
            if (info := cluster.topics.get(topic)) and info.topic_id not in (None, was)
        }
        resets = {}
        for one, state in self.delivery.partitions.items() if self.is_assigned_by_name else ():
            if one.topic in anew:
                offset = state.offset
                if state.reset is not None:  # this one takes the place of that
                    offset = state.reset.from_offset
                self.delivery.seek(one, None, Reset(epoch=0, from_offset=offset))
                resets[one] = Reset(epoch=state.epoch, from_offset=offset)
        if resets:
            because = "the topic was deleted and created anew"
            self.say(ResetPositions(partitions=resets, because=because))
        # Last, so that an interrupt before this has everything done again.
        self._topic_ids.update(anew)
        self._note_topics()
        self._followed = cluster

    @property
    def is_assigned_by_name(self) -> bool:
        """Whether partitions are those of a topic's name; KIP-848 groups assign them by its id."""
        return not (self.in_group and self.port.spoken == "consumer")

    def _note_topics(self) -> None:
        """Remember the ids of the topics that are read, as they were when they were first known."""
        topics = self.port.cluster.topics
        ids = {
            topic: self._topic_ids.get(topic)
            or (topics[topic].topic_id if topic in topics else None)
            for topic in {one.topic for one in self.delivery.partitions}
        }
        self._topic_ids = {topic: known for topic, known in ids.items() if known is not None}

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What of the present topics the application is through with."""
        self.follow_topics()
        return self.delivery.consumed()

    def _say_resets(self, because: str) -> None:
        """Say every reset that is not answered yet; repeating one does no harm."""
        resets = {
            one: state.reset
            for one, state in self.delivery.partitions.items()
            if state.reset is not None
        }
        if resets:
            self.say(ResetPositions(partitions=resets, because=because))

    def _refetch_offset_gaps(self) -> None:
        for one in list(self.delivery.offset_gaps):
            self.seek(one, self.delivery.partitions[one].position)
        self.delivery.offset_gaps.clear()

    def _tell_poll(self, now: float, *, force: bool = False) -> None:
        moved = self.delivery.take_moved()
        freed = self.delivery.freed_bytes
        news = bool(moved or freed)
        wake = force or self._urgent or (news and self._has_run_dry) or self._must_wake(now, freed)
        if not (wake or news or now - self._polled_at >= POLL_REPEAT):
            return
        self._polled_at = now
        self._urgent = False
        self._unread_bytes = 0 if wake else self._unread_bytes + freed
        self._unread = not wake and (self._unread or news)
        self._publish(Poll(now=now, positions=moved, freed_bytes=freed), wake=wake)
        self.delivery.told_freed(freed)

    @property
    def _has_run_dry(self) -> bool:
        """Whether nothing is here that a poll could give out: it will wait."""
        return not (self.delivery.buffered_bytes or self.port.chunks)

    def _be_heard(self, now: float) -> None:
        """Have the background read all that was said: wake it if it need not have read it yet.

        A poll that gives out records may leave that for later, since the next one comes soon. Every
        other poll comes here before it waits, returns or raises: what the application waits for
        may never come if the fetch manager does not know that there is room for it again.
        """
        if self._unread or self._urgent or self.delivery.has_moved:
            self._tell_poll(now, force=True)

    def _must_wake(self, now: float, freed: int) -> bool:
        if self._unread_bytes + freed >= self.settings.max_buffered_bytes // WAKE_SHARE:
            return True
        if self.settings.enable_auto_commit and now >= self._commit_at:
            self._commit_at = now + self.settings.auto_commit_interval
            return True
        if now - self._polled_at < POLL_REPEAT:
            return False
        return self.in_group and self.port.member.state is not MemberState.STABLE

    # -- events

    def run_events(self) -> None:
        """Act on what the background said, on this thread; raises what must be raised.

        An event leaves the queue when it was acted on: who was interrupted finds it again.
        """
        # Looked at here, and not in what is called: each poll comes by, and there is nothing.
        if self._unraised is not None:
            self._raise_owed()
        if self.completions:
            self.run_completions()
        if self.port.cluster is not self._followed:
            self.follow_topics()
        while self.port.events or self._events:
            self._gather()
            event = self._events[0]
            match event:
                case ActorsRestarted():
                    self._restore(event)
                case AutoCommitFinished():
                    if self._on_auto_commit is not None:
                        call = partial(self._on_auto_commit, event.offsets, event.error)
                        self.completions.append(Completion(call))
                    self._done_with(event)
                    self.run_completions()
                case CoordinatorRefused() if self.in_group:
                    pass  # the membership says so as well, with what it means for the member
                case TopicsRefused() | GroupFailed() | CoordinatorRefused():
                    error = self.own_told(event.error, owed=True)
                    self._done_with(event)
                    raise error
                case ClusterChanged():
                    self._match_topics()
                    self._assign_everything()
                case AssignPartitions() if self._is_over(event):
                    self.log.info("step.skipped", rebalance=event.rebalance, because="lost since")
                case _:
                    self._run_step(event)
            self._done_with(event)

    @property
    def has_events(self) -> bool:
        """Whether something that the background said is not acted on yet."""
        return bool(self._events)

    def _done_with(self, event: object) -> None:
        """It is acted on, unless it was forgotten meanwhile."""
        if self._events and self._events[0] is event:
            self._events.popleft()

    def _raise_owed(self) -> None:
        """An error that an interrupt kept from being raised."""
        owed = self._unraised
        assert owed is not None, "there is none"
        self.own(owed, owed=True)
        self._unraised = None
        raise owed

    def _is_over(self, assigned: AssignPartitions) -> bool:
        """Whether what is to be taken on was lost meanwhile, while the application was busy."""
        later = (one for one in self._events if one is not assigned)
        return not self.rebalancing.has_begun(assigned) and any(
            isinstance(one, Step) for one in later
        )

    def _gather(self) -> deque[object]:
        """Take over what was said. Only this thread's own deque may be searched and cut."""
        said = self.port.events
        while said:
            # Its last one may have been interrupted between these two lines.
            if not self._events or self._events[-1] is not said[0]:
                self._events.append(said[0])
            said.popleft()
        return self._events

    def _run_step(self, event: Any) -> None:
        step = event
        if isinstance(step, AssignPartitions):
            self._leaving = None
        elif isinstance(step, RunRevokedCallback) and self._is_lost_by_now():
            step = replace(step, loss=Loss.LOST)
        error = self.rebalancing.run(step, event)
        self._note_topics()
        self._urgent = True
        if error is not None:
            self.own(error, owed=True)
            self._done_with(event)
            raise error

    def _is_lost_by_now(self) -> bool:
        """Whether the membership has, or may have, ended since it asked for this.

        The user was long away, or the process stood still for longer than its session.
        """
        if not self._is_member():
            return True  # as in Kafka's ConsumerCoordinator.onJoinPrepare
        return any(
            isinstance(one, RevokePartitions | RunRevokedCallback) and one.loss is Loss.LOST
            for one in self._gather()
        )

    def run_completions(self) -> None:
        """Run the callbacks of finished asynchronous commits, each once and one after the other.

        What a callback calls runs none of them: hundreds, each inside the one before, are too deep.
        """
        if self._completing:
            return
        while self.completions:
            first = self.completions[0]
            if first.begun:
                self.completions.popleft()
                continue
            before = self.user_code.name
            try:
                self.user_code.enter("a commit callback")
                self._completing = True
                first.run()
            finally:
                self._completing = False
                self.user_code.enter(before)

    def apply_positions(self) -> None:
        """Take over positions that were found."""
        found = self.port.positions
        while found:
            self.delivery.apply(found[0])
            found.popleft()

    # -- after a restart

    def restore_if_restarted(self) -> None:
        """Tell restarted actors what they must know, before anything else is asked of them."""
        for restarted in [one for one in self._gather() if isinstance(one, ActorsRestarted)]:
            # A lost callback may ask for something, too, and come here.
            if restarted in self._events and restarted is not self._restoring:
                self._restore(restarted)

    def _restore(self, restarted: ActorsRestarted) -> None:
        error, self._restoring = None, restarted
        if "membership" in restarted.actors and self.in_group:
            self._forget_steps()
            owned = frozenset(self.delivery.partitions)
            error = self.rebalancing.give_up(owned, Loss.LOST, restarted)
            self._say_subscription(self.port.last_member_id, self.port.leaving)
        elif "membership" in restarted.actors and self.port.leaving:
            # It has unsubscribed since, and members of before have yet to leave.
            self.say(SubscriptionChanged(topics=frozenset(), leaving=self.port.leaving))
        # What was fetched ahead is unknown to the new fetch manager: go on from the positions.
        for state in self.delivery.partitions.values():
            self._renew(state)
        if "fetch" in restarted.actors:
            # Nor has it counted what its predecessor sent: it must not hear that this was freed.
            self.drain_buffer()
            self.delivery.told_freed(self.delivery.freed_bytes)
        self._track()
        self._say_assignment()
        self._say_resets("actors were restarted")
        self.say(PausePartitions(partitions=self.delivery.not_wanted()))
        self._urgent = True
        if error is not None:
            self.own(error, owed=True)
        self._events = deque(one for one in self._events if one is not restarted)
        if error is not None:
            raise error

    # -- subscription and assignment

    def _say_assignment(self) -> None:
        self._note_topics()
        assigned = self.delivery.as_assigned()
        self.say(AssignmentChanged(partitions=assigned, by_group=self.in_group))
        self._urgent = True  # what is assigned by hand is fetched from the next Poll on

    def _track(self) -> None:
        topics = self.subscription
        if self.pattern is not None:
            topics = frozenset()
        elif not topics and not self.regex:
            topics = frozenset(one.topic for one in self.delivery.partitions)
        self.say(TrackTopics(owner="application", topics=topics, pattern=self.pattern))

    def subscribe(
        self,
        topics: frozenset[str],
        listener: Any,
        *,
        pattern: TopicPattern | None = None,
        regex: str = "",
    ) -> None:
        """Replace the subscription; partitions come and go in later polls."""
        self.touched = True
        self._subscribed_as = None
        self.rebalancing.tell(listener)
        self.subscription, self.pattern, self.regex = topics, pattern, regex
        if pattern is not None:
            self.subscription = self._matching(pattern)
        self._track()
        self._urgent = True
        follows = pattern is not None or self.settings.group_id is None
        self.port.watch_cluster(wanted=follows)
        if self.settings.group_id is not None:
            self._say_assignment()
            self._say_subscription()
        else:
            self._assign_everything()

    def _matching(self, pattern: TopicPattern) -> frozenset[str]:
        topics = self.port.cluster.topics
        return frozenset(name for name, info in topics.items() if pattern.matches(name, info))

    def _match_topics(self) -> None:
        """Topics come and go: those that the pattern matches are the subscription."""
        if self.pattern is None:
            return
        matching = self._matching(self.pattern)
        if matching != self.subscription:
            self.log.info(
                "subscription.matched",
                pattern=self.pattern.pattern.pattern,
                added=matching - self.subscription,
                removed=self.subscription - matching,
            )
            self.subscription = matching
            self._urgent = True
            if self.settings.group_id is not None:
                self._say_subscription()

    def _assign_everything(self) -> None:
        """Without a group, subscribing means owning all partitions (as kafka-python does)."""
        if not self.is_subscribed or self.settings.group_id is not None:
            return
        cluster = self.port.cluster
        wanted = [
            TopicPartition(topic, partition)
            for topic in sorted(self.subscription)
            for partition in sorted(cluster.partitions_for_topic(topic) or ())
        ]
        if set(wanted) != self.delivery.partitions.keys():
            self.delivery.assign(wanted)
            self._say_assignment()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment by hand."""
        self.touched = True
        self.assigned_by_user = True
        self.delivery.assign(partitions)
        self._track()
        self._say_assignment()
        self._urgent = True

    def commits_until(self, deadline: float) -> float:
        """How long commits may take of a consumer that leaves until then."""
        return deadline - (deadline - self.clock()) * LEAVE_SHARE

    def leave(
        self,
        deadline: float,
        *,
        because: str,
        operation: Operation = Operation.DEFAULT,
        commits_until: float | None = None,
    ) -> BaseException | None:
        """Give all partitions back, leave the group if in one; returns a listener's error.

        The listener's time is its own: what it takes, `deadline` is later.
        """
        if commits_until is None:
            commits_until = self.commits_until(deadline)
        self._finish_commits(commits_until)
        error = None
        if self.in_group:
            self._forget_group()
            loss = Loss.REVOKED if self._is_member() else Loss.LOST
            owned = frozenset(self.delivery.partitions)
            began = self.clock()
            self._leaving = self._leaving or object()
            if owned and self.rebalancing.listener is not None:  # which may take its time
                self.say(PausePartitions(partitions=owned))
            error = self.rebalancing.give_up(owned, loss, self._leaving)
            deadline += self.clock() - began
            self._leave_group(deadline, because, operation)
            # What the group said while the listener ran or until it heard (KAFKA-20428).
            self._forget_group()
        elif self.settings.group_instance_id is not None and operation is Operation.LEAVE_GROUP:
            self._leave_group(deadline, because, operation)  # it may have said that it comes back
        self.subscription, self.pattern, self.regex, self._leaving = frozenset(), None, "", None
        self.assigned_by_user = self.expelled = False
        self.port.watch_cluster(wanted=False)
        self.delivery.assign(())
        return error

    def lose(self) -> BaseException | None:
        """The background was given up: all partitions are lost; returns a listener's error."""
        error = None
        if self.in_group:
            self._forget_steps()
            owned = frozenset(self.delivery.partitions)
            error = self.rebalancing.give_up(owned, Loss.LOST, self)
        self.delivery.assign(())
        return error

    def _is_member(self) -> bool:
        """Whether the group counts on us, and our session cannot have run out unheard."""
        overdue = self.clock() - self.port.session_until
        if self.port.member.generation < 0:
            because = "it is in no generation of the group"
        elif self.expelled:
            because = "the group did not know it at its last commit"
        elif overdue > 0:
            because = f"its session may be over, for {overdue:.3f} s"
        else:
            return True
        self.log.info("membership.doubted", because=because)
        return False

    def _finish_commits(self, until: float) -> None:
        """Wait for the commits under way: who has left the group can commit no more."""
        while self.port.waits_for("commits") and self.port.failure is None:
            now = self.clock()
            if now >= until:
                return
            self._bell.wait(until - now)

    def _forget_steps(self) -> None:
        """Steps of a rebalance that is being abandoned are not answered any more."""
        self._events = deque(one for one in self._gather() if not isinstance(one, Step))

    def _forget_group(self) -> None:
        """What is left of a membership must not meet the next: nor what it was refused."""
        self._forget_steps()
        refused = GroupFailed | TopicsRefused
        self._events = deque(one for one in self._events if not isinstance(one, refused))

    def _leave_group(self, deadline: float, because: str, operation: Operation) -> None:
        member_id = self.port.last_member_id
        self._subscribed_as = None
        while True:
            try:
                self.ask(
                    "membership",
                    lambda ticket: LeaveGroup(
                        ticket=ticket, deadline=deadline, because=because, operation=operation
                    ),
                    deadline=deadline,
                    what="leaving the group",
                    # Who goes on must not be given a step of the membership that it has left.
                    interruptible=self.closing,
                )
            except ActorRestartedError:
                # Nobody knows whether the group was told: the new one leaves for the old one.
                self.port.rejoin_as(member_id)
                continue
            except Exception as error:
                if error is not self.ended_in:
                    raise  # a signal handler's
                self.log.warning("member.leave_failed", error=error)
            break
        self.port.leave()
        self.say(SubscriptionChanged(topics=frozenset()))

    def unsubscribe(self, deadline: float) -> None:
        """No subscription, no assignment."""
        error = self.leave(deadline, because="the consumer unsubscribed")
        self._track()
        self.say(AssignmentChanged(partitions={}))
        if error is not None:
            raise error

    # -- positions

    def seek(self, topic_partition: TopicPartition, position: Position | None) -> None:
        """Read on from here; None looks the position up again."""
        self.touched = True
        self.follow_topics()
        self.drain_buffer()  # or what is dropped here would pile up until the next poll
        state = self.delivery.seek(topic_partition, position)
        if self.log.hears_debug:
            sought = None if position is None else position.offset
            self.log.debug("position.sought", partitions={topic_partition: sought})
        self.say(SeekPartitions(partitions={topic_partition: state.assigned}))

    def reset(self, topic_partitions: Iterable[TopicPartition], strategy: ResetStrategy) -> None:
        """Go to the beginning or the end, lazily."""
        self.touched = True
        self.follow_topics()
        self.drain_buffer()
        resets = {}
        for one in topic_partitions:
            state = self.delivery.seek(one, None, Reset(epoch=0, strategy=strategy))
            resets[one] = Reset(epoch=state.epoch, strategy=strategy)
        if self.log.hears_debug:
            self.log.debug("position.sought", partitions=dict.fromkeys(resets))
        self.say(ResetPositions(partitions=resets, because="the application asked for it"))

    def position(self, topic_partition: TopicPartition, deadline: float) -> int | None:
        """The consumed position, waiting for it until the deadline; None if it is not found.

        Raises IllegalStateError if the partition was given up because an actor was restarted, and
        TopicAuthorizationFailedError if its topic may not be described.
        """
        self.touched = True
        self.restore_if_restarted()
        while True:
            self.apply_positions()
            state = self.delivery.partitions.get(topic_partition)
            if state is None:
                raise IllegalStateError(
                    f"{topic_partition.topic}-{topic_partition.partition} is not assigned any more:"
                    " its member was restarted; go on polling to join again"
                )
            if state.offset is not None:
                return state.offset
            if state.error is not None:
                self._raise_error_of(state, state.error)
            if topic_partition.topic in self.port.cluster.forbidden:
                forbidden = [topic_partition.topic]
                raise self.own(topics_refused(TopicAuthorizationFailedError, forbidden))
            self._raise_interruptions()
            self._end_for_close()
            now = self.clock()
            self._ask_positions_anew(now)
            if now >= deadline:
                return None
            if not self.port.positions:
                self._bell.wait(min(deadline, self._look_up_at) - now)

    def pause(self, topic_partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Give out nothing of these, or give them out again."""
        self.touched = True
        in_order = tuple(topic_partitions)
        self.delivery.pause(in_order, paused=paused)
        those = frozenset(in_order)
        offsets = self.delivery.offsets(in_order) if self.log.hears_debug else {}
        if paused:
            self.log.debug("partitions.paused", partitions=offsets)
            self.say(PausePartitions(partitions=those))
            self._drop_surplus(in_order)
        else:
            self.log.debug("partitions.resumed", partitions=offsets)
            self.say(PausePartitions(resumed=those - self.delivery.not_wanted(those)))

    def _drop_surplus(self, just_paused: Iterable[TopicPartition]) -> None:
        """Read again, once they are resumed, what paused partitions have buffered beyond the bound.

        While they fill the buffer the others are fetched beyond the bound (see `FetchRoom.part`):
        who reads a little of one after the other and pauses it would add to that each time.
        """
        self.drain_buffer()
        bound, delivery = self.settings.max_buffered_bytes, self.delivery
        dropped = {}
        paused = iter([delivery.partitions[one] for one in just_paused])
        while delivery.buffered_bytes > bound:
            state = next(paused, None) or delivery.next_idle()
            if state is None:
                break
            if state.chunks:
                self._renew(state)
                dropped[state.topic_partition] = state.assigned
        if dropped:
            self.log.info("buffer.dropped", partitions=list(dropped), because="they are paused")
            self.say(SeekPartitions(partitions=dropped))

    def why_no_position(self, topic_partition: TopicPartition) -> str:
        """What its position waits for now, in words."""
        now = self.clock()
        try:
            why: str = self.ask(
                "positions",
                lambda ticket: ExplainPosition(ticket=ticket, partition=topic_partition, now=now),
                deadline=now,
                what="finding out why there is no position",
                interruptible=False,
            )
        except KafkaError as error:
            return str(error)
        return why

    # -- commits

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        """Commit and wait."""
        self.ask(
            "commits",
            lambda ticket: CommitOffsets(
                ticket=ticket, offsets=dict(offsets), deadline=deadline, retry=True
            ),
            deadline=deadline,
            what=f"the commit of {len(offsets)} partitions",
        )
        self.run_completions()

    def commit_last(self, deadline: float, *, at: str) -> None:
        """Commit what was consumed before it is given up; a failure is traced."""
        consumed = self.consumed()
        if not consumed:
            return
        try:
            self.ask(
                "commits",
                lambda ticket: CommitOffsets(
                    ticket=ticket, offsets=consumed, deadline=deadline, retry=True
                ),
                deadline=deadline,
                what="the last commit",
                interruptible=self.closing,
            )
        except Exception as error:
            if error is not self.ended_in:
                raise  # a signal handler's
            # Nothing is lost: the group goes on from the last commit and repeats some records.
            self.expelled = says_expelled(error)
            self._trace.warning("commit.failed", because=error, at=at, offsets=consumed)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        settle: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Commit without waiting; `settle` is called when it ended, on the background thread."""
        self._check_alive()
        self.restore_if_restarted()
        self.touched = True
        ticket = self.port.open("commits", settle, self._asked)
        self.say(
            CommitOffsets(ticket=ticket, offsets=dict(offsets), deadline=math.inf, retry=False)
        )
        self._asked.remove(ticket)


#: Errors of a partition that stand until the user seeks.
_LASTING: Final = (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    CorruptRecordError,
    BatchTooLargeError,
    RecordDeserializationError,
    UnsupportedCodecError,
)


def _only_a_seek_helps(error: Exception) -> bool:
    return isinstance(error, _LASTING)
