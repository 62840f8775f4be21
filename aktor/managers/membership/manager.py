"""What the membership managers of both group protocols have in common: messages in, messages out.

The room `classic` has the one of the classic protocol, the room `consumer` that of KIP-848.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from kafka.errors import NoError

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.exchange import attempt_time
from aktor.actors.runtime.handlers import Handler, after_restart_of, handles
from aktor.actors.runtime.manager import AGAIN, NEVER, RequestManager
from aktor.events.answers import Answered
from aktor.events.commits import RevocationCommitted
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.lifecycle import Tick
from aktor.events.membership import (
    CallbackFinished,
    ConfirmSession,
    MemberChanged,
    PartitionsReleased,
    SessionExtended,
)
from aktor.events.message import Message
from aktor.events.metadata import Broker, ClusterChanged
from aktor.events.metric import Metric
from aktor.events.network import Destination, Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.routes import COMMITS, COORDINATOR, MEMBERSHIP, METADATA
from aktor.managers.membership.heartbeat_state import HeartbeatState, PollTimer, StandstillDetector
from aktor.managers.membership.leave_group import Leave, Leaves, LeaveSent
from aktor.managers.membership.member import GroupMember
from aktor.managers.membership.present import Present
from aktor.managers.membership.replacement import Replacement
from aktor.managers.membership.waits import Waits
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.settings import Settings
from aktor.trace import Trace, reasons
from aktor.values import Mutable

__all__ = ["Failure", "GroupMembershipManager"]


M = TypeVar("M", bound=GroupMember[Any, Any])

#: After these `handle` does not ask for news: a Tick says a `MemberChanged` itself (`_do_duties`),
#: and a Tick follows each Poll. For the same reason `present` is not made anew after these: what
#: they lead to is a state, a message or a request of the Tick.
_WITHOUT_NEWS: Final = frozenset({Tick, Poll})


class Failure(Mutable, kw_only=False):
    """An error that only the user can mend, and when the application was told of it."""

    error: Exception
    told_at: float = -math.inf

    def told(self, now: float) -> None:
        """The application hears of it now."""
        self.told_at = now


class GroupMembershipManager(RequestManager, Generic[M]):
    """Owns heartbeats, the poll timer and the requests to leave. `M` is the member.

    It knows the coordinator's address, whose owner is the coordinator manager.

    A handler and a tick say a `MemberChanged` before anything else: the receivers of the other
    messages must know first who the member is. A subclass makes the member, and says what its
    requests are and what their answers mean.
    """

    name = MEMBERSHIP
    NEEDS = (COORDINATOR,)

    #: States in which the member owns partitions or revokes them (and has not lost them).
    HOLDING: ClassVar[Collection[object]]

    #: The answer to a request to leave, in the table of errors.
    LEFT: ClassVar[Answer]

    #: Whether a member that the group does not want stays out for good, as in Java.
    STOPS_WHEN_REFUSED: ClassVar[bool]

    _member: M

    def __init__(
        self,
        settings: Settings,
        *,
        incarnation: int,
        dispatcher: Dispatcher | None,
        trace: Trace | None,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, dispatcher=dispatcher, trace=trace)
        self.log = self.log.bind(group=settings.group_id)
        self._timer = PollTimer(settings)
        self._standstill = StandstillDetector()
        self._replacement = Replacement()
        self._coordinator: Broker | None = None
        self._heartbeat_state = HeartbeatState(settings)
        self._failure: Failure | None = None
        self._leaves = Leaves(settings)
        self._waits = Waits(settings)
        self._shown = Present()
        #: Until when the application may give out records, as it was told last.
        self._told_until = -math.inf
        # No handler says `MemberChanged`: it is said after each handler, if the member has changed.
        self._handlers.wrap(self._then_say_news, but=_WITHOUT_NEWS)

    @property
    @abstractmethod
    def looks_after(self) -> frozenset[str]:
        """The ids under which we are in the group, or have yet to leave it."""

    def measure(self, now: float) -> Mapping[Metric, float]:
        """Rebalances."""
        return self._member.rebalance.metrics.measure(now)

    # -- what is shown

    def note_present(self, now: float) -> None:
        """Show where the member is, if that may have changed.

        In most ticks the application has polled, and nothing came of that.
        """
        if self._shown.may_differ:
            self.present = self._shown.show(
                self._member.state,
                self._step,
                self._heartbeat_state,
                self._standstill,
                now,
                joins_at=self._joins_at,
                stops_when_refused=self.STOPS_WHEN_REFUSED,
            )

    @property
    @abstractmethod
    def _step(self) -> str:
        """What the member waits for, see `MemberNow`."""

    @property
    def _joins_at(self) -> float:
        """When the member joins again, if it waits for nothing but that time; else -inf."""
        return -math.inf

    # -- what is said

    def _then_say_news(self, handler: Handler) -> Handler:
        """The handler; after it a `MemberChanged` is said, before what it says."""

        def handle(message: Message) -> None:
            handler(message)
            self._shown.differs()
            self._outgoing.say_first(self._news())

        return handle

    def _news(self) -> Iterable[MemberChanged]:
        """The member's state in the group, if it changed since it was said last."""
        return self._member.news()

    # -- what depends on the time

    def _do_duties(self, now: float, jitter: float) -> float:
        """Note the time, and do what is due; a `MemberChanged` is said first."""
        self._timer.update(now)
        if still := self._standstill.tick(now, self.wall):
            self._timer.stood_still(still)
        if self._standstill.found_at == now:
            self._shown.differs()
        wake_at = super()._do_duties(now, jitter)
        self._standstill.wakes_at(wake_at, self._heartbeat_state.heard_by)
        if news := self._news():
            self._outgoing.say_first(news)
        outgoing = self._outgoing
        if outgoing.said or outgoing.requests or self._member.state is not self._shown.state:
            self._shown.differs()
        if self._shown.may_differ:
            since = self._heartbeat_state.awaited_since
            self._waits.note(self._member.awaited_step, now, since)
        return wake_at

    def _leave_if_late(self, now: float, _jitter: float) -> float:
        """A group must not count on an application that does not poll any more (KIP-62)."""
        if not self._member.in_group:
            return NEVER
        if now < self._timer.expires_at:
            return self._timer.expires_at
        because = self._trace_late()
        self._member.subscription.await_poll()
        self._leave_late(because, now + self.settings.request_timeout)
        self._shown.left_late(now)
        return AGAIN

    @abstractmethod
    def _leave_late(self, because: str, deadline: float) -> None:
        """The application has not polled for `max_poll_interval`: leave the group. The request to
        leave is given up at `deadline`."""

    def _advance_far(self, _now: float, _jitter: float) -> float:
        """Let the member take every step that it can take now; says when it can take the next."""
        moved = False
        while (due := self._advance()) == AGAIN:
            moved = True
        return AGAIN if moved else due

    @abstractmethod
    def _advance(self) -> float:
        """The next step of the member, as a duty: AGAIN if there was one to take."""

    # -- what is heard

    @handles(ResponseReceived)
    def _on_response(self, received: ResponseReceived) -> None:
        """Note the time of the answer, then handle it."""
        self._hear(received.now)
        super()._on_response(received)

    @handles(RequestFailed)
    def _on_failure(self, failed: RequestFailed) -> None:
        """Note the time of the failure, then handle it."""
        self._hear(failed.now)
        super()._on_failure(failed)

    def _hear(self, now: float) -> None:
        self._timer.update(now)
        self._standstill.hear(now)

    @handles(PartitionsReleased, RevocationCommitted, CallbackFinished)
    def on_step(self, message: PartitionsReleased | RevocationCommitted | CallbackFinished) -> None:
        """A step of the rebalance is done. An error of a listener is only traced here: the
        application raises it."""
        if not self._member.heard(message):
            return
        if isinstance(message, RevocationCommitted) and message.expelled:
            self.log.info(
                "membership.doubted", because="the group did not know it at its last commit"
            )
        if isinstance(message, CallbackFinished):
            self._waits.ran(message.seconds)
        if isinstance(message, CallbackFinished) and message.error is not None:
            self.log.warning(
                "listener.failed",
                rebalance=message.rebalance,
                state=self._member.state,
                because=message.error,
            )

    @handles(Poll)
    def on_poll(self, message: Poll) -> None:
        """The poll timer starts again."""
        self._timer.polled(message.now)
        self._member.polled()

    @handles(CoordinatorFound)
    def on_coordinator_found(self, message: CoordinatorFound) -> None:
        """Requests may go out."""
        if self._coordinator is not None and self._coordinator != message.broker:
            self._abandon_requests("the coordinator moved")
        self._coordinator = message.broker

    @handles(CoordinatorLost)
    def on_coordinator_lost(self, message: CoordinatorLost) -> None:
        """Hold requests back; the membership itself is not in question."""
        self._coordinator = None
        self._abandon_requests(message.because)

    @abstractmethod
    def _abandon_requests(self, because: str) -> None:
        """No answer is expected of the coordinator that we had."""

    @handles(CoordinatorRefused)
    def on_coordinator_refused(self, message: CoordinatorRefused) -> None:
        """We may not use the group: tell the user, if the member is in the group or about to join.
        Otherwise give up the LeaveGroups that are left."""
        if self._member.in_group:
            self._not_found(message.error)
            return
        for leave in self._leaves.all():  # without a coordinator it cannot be sent
            self._stays(leave, f"the coordinator may not be asked: {message.error}")

    @abstractmethod
    def _not_found(self, error: Exception) -> None:
        """There is no coordinator for us, because of `error`."""

    @handles(ConfirmSession)
    def on_confirm_session(self, message: ConfirmSession) -> None:
        """The process may have been suspended for longer than the session, or the coordinator has
        refused a commit: send a heartbeat now, whose answer tells whether we are a member."""
        if self._member.has_generation:
            self._heartbeat_state.hurry()

    @handles(ClusterChanged)
    def on_cluster_changed(self, message: ClusterChanged) -> None:
        """A leader may have to assign anew; a topic for which the member waits may exist now."""
        self._replacement.changed(message.cluster, self._timer.now)
        self._member.cluster_changed(message.cluster)

    @after_restart_of(COMMITS)
    def on_commits_restarted(self) -> None:
        """A commit before a revocation may be lost: do not wait for its answer."""
        self._member.commits_restarted()

    @after_restart_of(METADATA)
    def on_metadata_restarted(self) -> None:
        """The new metadata manager knows nothing of the topics that the group needs."""
        self._member.track_again()

    # -- the session and the poll timer

    def _extend_session(self, asked_at: float) -> None:
        """The group has confirmed the member: it answered a request sent at `asked_at`."""
        self._shown.confirmed()
        self._standstill.confirmed(asked_at)
        self._replacement.confirmed(asked_at)
        if self._heartbeat_state.extend(asked_at):
            self._allow_records_until(self._heartbeat_state.records_until)

    def _allow_records_until(self, until: float) -> None:
        """Tell the application until when it may give out records, unless it knows."""
        if until != self._told_until:
            self._told_until = until
            self._say(SessionExtended(until=until))

    def _hurry_if_over(self) -> None:
        """If the process was suspended after it sent the request that is answered now, the answer
        may be older than the session, and does not say that we are still a member (KIP-62). So send
        the next heartbeat at once. No records are given out before its answer."""
        if self._heartbeat_state.is_over(self._timer.now):
            self._heartbeat_state.hurry()

    def _is_in_doubt(self) -> bool:
        """Whether another member may own our partitions by now: the session is over, and only the
        answer to the next heartbeat tells."""
        return self._member.state in self.HOLDING and self._heartbeat_state.is_over(self._timer.now)

    def _trace_late(self) -> str:
        """Trace that the application polls too late; returns the reason in short, for the group."""
        timer = self._timer
        because = f"{reasons.NO_POLL_FOR}{timer.elapsed:.3f} s (max_poll_interval_ms)"
        advice = "poll more often, take fewer records at a time (max_poll_records), or raise"
        advice += " max_poll_interval_ms"
        if timer.standstill:
            because = reasons.stood_still(timer.standstill)
            advice = "without that, no poll would have been late"
        self.log.warning(
            "poll.late",
            seconds=round(timer.elapsed, 3),
            state=self._member.state,
            owned=len(self._member.owned),
            because=f"{because}: {advice}",
        )
        return because

    def _fenced_because(self, error: str) -> str:
        """Why the group does not know the member any more: the error, and what has led to it, as
        far as is known here."""
        beats, now = self._heartbeat_state, self._timer.now
        led_to_it = self._replacement.words or self._standstill.words
        if not led_to_it and (silent := beats.silent_for(now)):
            led_to_it = f"the coordinator had confirmed no heartbeat for {silent:.1f} s"
        led_to_it = led_to_it or self._waits.words(beats.awaited_since, now)
        self._shown.fenced(led_to_it)
        after = f" after {led_to_it}" if led_to_it else ""
        return f"{reasons.FENCED}{error.rstrip('.')}{after}"

    # -- leaving the group

    def _end_or_send_leaves(self, now: float, _jitter: float) -> float:
        """Give up the LeaveGroups that were not answered in time; send those that are due."""
        if not self._leaves:
            return NEVER
        overdue = self._leaves.overdue(now)
        for leave in overdue:
            self._stays(leave, leave.why_unanswered(self._coordinator))
        if overdue:
            return AGAIN
        return min(self._leaves.deadline, self._send_leaves(now))

    def _stays(self, leave: Leave, because: str) -> None:
        """The group could not be told."""
        because = f"{because}; the session will end it"
        self.log.warning("member.stayed", member=leave.member_id, because=because)
        self._end(leave)

    def _send_leaves(self, now: float) -> float:
        if self._coordinator is None:
            return NEVER
        to_send = self._leaves.to_send(now)
        for leave in to_send:
            sent = leave.asks(self._coordinator)
            self.send(
                self.request(
                    self._leave_request(leave),
                    to=Destination.COORDINATOR,
                    deadline=min(leave.deadline, now + self._leave_patience),
                    context=sent,
                )
            )
        return AGAIN if to_send else self._leaves.due

    @abstractmethod
    def _leave_request(self, leave: Leave) -> Any:
        """The body of the request, which is sent now."""

    @property
    def _leave_patience(self) -> float:
        """How long one attempt may take."""
        return attempt_time(self.settings)

    def _leave_answered(self, received: ResponseReceived) -> None:
        """LeaveGroup is answered: the member has left, was unknown, or we asked a broker that is
        not the coordinator."""
        sent: LeaveSent = received.request.context
        leave = sent.leave
        if leave not in self._leaves:
            self._dropped(received.request, "nobody waits for it any more")
            return
        error = error_of(received.response.error_code)
        meaning = means(self.LEFT, error)
        if Do.FIND_COORDINATOR in meaning:
            self._suspect(received.node, name_of(error))
        if Do.RETRY in meaning:
            sent.failed(received.now, received.jitter, name_of(error))
            return
        # The group does not count on the member any more.
        self.log.info(
            "member.left",
            member=leave.member_id,
            because=leave.because,
            error=None if error is NoError else name_of(error),
        )
        self._end(leave)

    def _leave_failed(self, failed: RequestFailed) -> None:
        sent: LeaveSent = failed.request.context
        if sent.leave not in self._leaves:
            return
        if Do.DONE in self._unanswered(self.LEFT, failed):
            self._stays(sent.leave, f"the request to leave cannot be sent: {failed.error}")
        else:
            sent.failed(failed.now, failed.jitter, str(failed.error))

    def _end(self, leave: Leave) -> None:
        """The LeaveGroup is over, whether the group was told or not: the application waits no
        longer."""
        for ticket in self._leaves.end(leave):
            self._say(Answered(ticket=ticket))

    # -- the coordinator's faults

    def _unanswered(self, answer: Answer, failed: RequestFailed) -> Do:
        """What to do about a request that failed. The coordinator is suspected if the table of
        errors says so."""
        meaning = means(answer, type(failed.error))
        self._shown.unanswered(str(failed.error))
        if Do.FIND_COORDINATOR in meaning and failed.node is not None:
            self._suspect(failed.node, str(failed.error))
        return meaning

    def _answered_with(self, error: type[Exception]) -> None:
        """The coordinator has answered a request with this error."""
        self._shown.answered_with(name_of(error))

    def _note_refusal(self, error: Exception) -> None:
        """The group does not want the member, and only the user can mend that."""
        self._shown.refused(error, self._timer.now)

    def _suspect(self, node: int, because: str) -> None:
        self.log.info("coordinator.suspected", node=node, because=because)
        self._say(SuspectCoordinator(node_id=node, because=because))

    def _dropped(self, request: Request, because: str) -> None:
        self.log.info("answer.dropped", api=type(request.body).__name__, because=because)
