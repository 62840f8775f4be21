"""The membership manager of the consumer protocol (KIP-848): the broker assigns partitions.

`member` holds the member's state and its reconciliation; this module holds what its
heartbeats ask, and what their answers mean. Handlers note facts. The duties decide: they run at the
tick that follows every batch of messages, and the tick brings the time. The messages to application
and commits are those of the classic manager.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.errors import NoError, UnreleasedInstanceIdError

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import AGAIN, NEVER, REFUSED_PAUSE, Duty
from aktor.events.answers import Answered
from aktor.events.membership import GroupFailed, LeaveGroup, Operation, SubscriptionChanged
from aktor.events.metadata import TopicsNamed
from aktor.events.network import Destination, RequestFailed, ResponseReceived
from aktor.managers.membership import errors
from aktor.managers.membership.consumer.heartbeats import (
    HeartbeatSent,
    assignment_of,
    leave_heartbeat,
)
from aktor.managers.membership.consumer.member import ConsumerMember
from aktor.managers.membership.consumer.registration import Registration, RegistrationStatus
from aktor.managers.membership.consumer.states import State, Trigger
from aktor.managers.membership.leave_group import Leave, LeaveSent
from aktor.managers.membership.manager import Failure, GroupMembershipManager
from aktor.protocol.consumer_group import ConsumerGroupHeartbeatRequest
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.protocol.group_protocols import CONSUMER
from aktor.settings import Settings
from aktor.trace import Trace, reasons
from aktor.values import Mutable

__all__ = ["ConsumerMembershipManager", "ProtocolChoice"]


class ProtocolChoice(Mutable):
    """Owns the protocol that the group was found to speak: a restarted manager keeps to it.

    `falls_back`: the classic protocol takes over if the consumer protocol is not spoken.
    """

    protocol: str = ""
    falls_back: bool = True

    @property
    def is_open(self) -> bool:
        """Whether the classic protocol may still take over."""
        return self.falls_back and not self.protocol

    def settle(self, protocol: str) -> bool:
        """The group speaks this protocol; False if that was known."""
        is_new = self.protocol != protocol
        self.protocol = protocol
        return is_new


#: The coordinator does not tell a member how long its session is. By Kafka's defaults it is nine
#: heartbeat intervals (group.consumer.session.timeout.ms 45 s, heartbeat.interval.ms 5 s), and
#: unless an operator lowers the minimum it is never less than 45 s.
BEATS_PER_SESSION: Final = 9
SESSION_MAX: Final = 45.0

#: Kafka's default, until the first answer says what it is.
FIRST_INTERVAL: Final = 5.0


class ConsumerMembershipManager(GroupMembershipManager[ConsumerMember]):
    """Owns the member (`state` is where it is) and what its heartbeats say.

    `member_id` is made by the client and kept for the consumer's life (KIP-1082). As long as the
    `choice` is open (`group_protocol="auto"`), the classic protocol takes over if this one is not
    spoken.
    """

    READS = (
        "client_rack",
        "enable_auto_commit",
        "group_id",
        "group_instance_id",
        "group_remote_assignor",
        "heartbeat_interval",
        "max_poll_interval",
        "metrics_num_samples",
        "metrics_sample_window",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
        "session_timeout",
    )
    HOLDING = (State.RECONCILING, State.ACKNOWLEDGING, State.STABLE)
    LEFT = Answer.CONSUMER_LEAVE
    STOPS_WHEN_REFUSED = True

    def __init__(
        self,
        settings: Settings,
        *,
        member_id: str = "aktor",
        choice: ProtocolChoice | None = None,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, dispatcher=dispatcher, trace=trace)
        self.log = self.log.bind(member=member_id)
        self._member = ConsumerMember(
            settings, member_id=member_id, incarnation=incarnation, say=self._say, log=self.log
        )
        self._registration = Registration(settings, has_predecessor=incarnation > 1)
        self._heartbeat_state.set_times(interval=FIRST_INTERVAL, session=SESSION_MAX)
        self._choice = choice or ProtocolChoice(falls_back=False)

    @property
    def state(self) -> State:
        """The member's state."""
        return self._member.state

    @property
    def looks_after(self) -> frozenset[str]:
        """Our id, unless the group has no member with it and we do not come back to the group."""
        is_out = self.state in (State.UNSUBSCRIBED, State.FATAL) and not self._leaves
        if is_out and not self._registration.is_member:
            return frozenset()
        return frozenset({self._member.member_id})

    # -- the application's side

    @handles(SubscriptionChanged)
    def on_subscription_changed(self, message: SubscriptionChanged) -> None:
        """The subscription changed: the next heartbeat tells it, or the next Poll makes us join."""
        self._member.subscription.change(message.topics, message.regex)
        self._registration.may_be_allowed()
        if self._member.has_generation:
            self._heartbeat_state.hurry()
        if self.state is State.FATAL and (message.topics or message.regex):
            self._tell_failure()  # at once: `auto` then tries the classic protocol

    @handles(LeaveGroup)
    def on_leave_group(self, message: LeaveGroup) -> None:
        """The application has released all partitions; tell the group."""
        member = self._member
        tells = self._has_to_leave(message.operation)
        self._stop_heartbeats()
        member.leave()
        if tells:
            self._begin_leaving(message.because, message.deadline, message.operation)
        leave = self._leaves.set_deadline(message.deadline)
        if leave is not None:  # perhaps it was leaving already, because of a late poll
            leave.add_ticket(message.ticket)
        else:
            if self._registration.is_member:
                self._registration.ended(is_member=False)  # it remains until its session ends
            self._say(Answered(ticket=message.ticket))
        if member.in_group:
            member.move(Trigger.DEPART, message.because)
        out = self.state in (State.FENCED, State.STALE)
        if out or (leave is None and self.state is State.LEAVING):
            member.move(Trigger.LEFT, "the group does not count on this member any more")

    def _has_to_leave(self, operation: Operation) -> bool:
        """Whether a leave heartbeat must be sent: the group may have this member, and none was
        sent, or only epoch -2 (static member will return) and now it leaves for good.

        A dynamic member that is to remain in the group sends none.
        """
        static = self.settings.group_instance_id is not None
        for_good = operation.leaves_for_good(static=static)
        if static and for_good:
            is_told = any(not leave.stays for leave in self._leaves.all())
            return self._registration.status is not RegistrationStatus.NONE and not is_told
        return self._registration.is_member and not self._leaves and (static or for_good)

    # -- the coordinator's news

    @handles(TopicsNamed)
    def on_topics_named(self, message: TopicsNamed) -> None:
        """The names of topics for which a reconciliation waits."""
        self._member.named(message.names)

    def _not_found(self, error: Exception) -> None:
        """As in the Java client the member keeps its state: a coordinator may be found later."""
        self._say(GroupFailed(error=error))

    def _abandon_requests(self, because: str) -> None:
        self._registration.forget_fields()
        self._heartbeat_state.abandon()
        if self._member.in_group:
            self._heartbeat_state.hurry()
        self._leaves.abandon_requests()

    @property
    def _step(self) -> str:
        state, member = self._member.state, self._member
        if step := member.application_step:
            return step
        if state is State.UNSUBSCRIBED or state is State.STALE:
            return "poll" if member.subscription else ""
        if self._coordinator is None:
            return "coordinator"
        if state is State.RECONCILING:
            return "metadata"
        return "" if state is State.STABLE else "answer"

    # -- deciding

    def duties(self) -> tuple[Duty, ...]:
        """The member moves on as far as possible; then the manager sends what is due."""
        return (
            self._leave_if_late,
            self._tell_failure_again,
            self._advance_far,
            self._heartbeat,
            self._end_or_send_leaves,
        )

    def _advance(self) -> float:
        """The next step of the member, as a duty: AGAIN if there was one to take."""
        member = self._member
        if (
            self.state is State.UNSUBSCRIBED
            and not self._leaves
            and member.subscription.wants_to_join()
        ):
            self._join(Trigger.JOIN, reasons.FIRST_JOIN)
            return AGAIN
        if self._may_rejoin():
            self._leaves.clear()
            self._join(Trigger.REJOIN, reasons.POLLS_AGAIN)
            return AGAIN
        if self._is_in_doubt():
            return NEVER
        before, was_revoking = self.state, member.is_revoking
        due = member.advance(self._timer.now)
        if self.state is State.JOINING and before is not State.JOINING:
            self._begin_heartbeats()
        if was_revoking and not member.is_revoking:
            self._tell_failure()
        return due

    def _may_rejoin(self) -> bool:
        """Whether a member that polled too late may join again: its partitions are given up, and no
        leave heartbeat is in flight.

        A leave heartbeat that arrived after the one that joins would end the new membership.
        """
        if self.state is not State.STALE or self._member.is_revoking:
            return False
        waits = any(leave.exchange.in_flight for leave in self._leaves.all())
        return not waits and self._member.subscription.wants_to_join()

    def _join(self, trigger: Trigger, because: str) -> None:
        self._member.join(trigger, because)
        self._begin_heartbeats()

    def _begin_heartbeats(self) -> None:
        self._registration.forget_fields()
        self._heartbeat_state.abandon()
        self._heartbeat_state.hurry()

    # -- heartbeats

    def _heartbeat(self, now: float, _jitter: float) -> float:
        member = self._member
        if not member.in_group or self._coordinator is None or self._heartbeat_state.in_flight:
            return NEVER
        due = self._heartbeat_due()
        if now < due:
            return due
        frees = self.state is State.FREEING_INSTANCE_ID
        if frees:
            body = leave_heartbeat(self.settings, member.member_id, stays=True)
        else:
            body = self._registration.heartbeat(member.report())
        deadline = now + self._heartbeat_state.patience()
        number = self._heartbeat_state.sent(now)
        reports = body.topic_partitions is not None
        owes = member.owes(reports=reports)
        note = HeartbeatSent(number=number, at=now, frees=frees, reports=reports, owes=owes)
        self._note_wait(now)
        member.heartbeat_sent(now, reports_owned=reports)
        self.send(self.request(body, to=Destination.COORDINATOR, deadline=deadline, context=note))
        return AGAIN  # an acknowledgement that is sent makes way for the next target

    def _note_wait(self, now: float) -> None:
        """The coordinator may find, when it reads the heartbeat that is sent now, that we have to
        give partitions up: from then on it waits for that."""
        self._heartbeat_state.may_be_awaited_from(now)
        until = self._heartbeat_state.records_until
        if until < self._told_until:
            self._allow_records_until(until)

    def _heartbeat_due(self) -> float:
        """An acknowledgement does not wait for the interval, but for the backoff."""
        state = self._heartbeat_state
        acknowledges = self.state is State.ACKNOWLEDGING
        return min(state.due, state.retry_at) if acknowledges else state.due

    @answers_to(ConsumerGroupHeartbeatRequest, note=HeartbeatSent)
    def on_heartbeat_answer(self, received: ResponseReceived) -> None:
        """The answer has our epoch and perhaps another target, or an error."""
        sent: HeartbeatSent = received.request.context
        if not self._heartbeat_state.expects(sent.number):
            self._dropped(received.request, "it was given up before")
            return
        error = error_of(received.response.error_code)
        if sent.frees and Do.DONE in means(Answer.CONSUMER_FREE, error):
            self._member.move(Trigger.FREED, "the group has no member of this instance id")
            self._begin_heartbeats()
        elif error is NoError:
            self._on_heard(received.response, sent)
        else:
            self._registration.forget_fields()
            self._heartbeat_state.failed(received.now, received.jitter)
            self._answered_with(error)
            self._on_refused(error, self._answer_to(sent), received)

    def _on_heard(self, response: Any, sent: HeartbeatSent) -> None:
        if self._choice.settle(CONSUMER):
            self.log.info("protocol.chosen", protocol=CONSUMER, because="the coordinator speaks it")
        heartbeats, joining = self._heartbeat_state, self.state is State.JOINING
        asked_for = response.heartbeat_interval_ms
        interval = asked_for / 1000 if asked_for > 0 else FIRST_INTERVAL
        session = min(BEATS_PER_SESSION * interval, SESSION_MAX)
        heartbeats.set_times(interval=interval, session=session)
        target = assignment_of(response)
        heartbeats.answered(self._timer.now)
        self._registration.answered()
        if joining or target is not None:
            # The next heartbeats are sent soon: when other members have given partitions up, the
            # coordinator says so in the answer to one of them.
            heartbeats.start(self._timer.now, quick=True)
        if not (sent.owes or self._member.owes(target, reports=sent.reports)):
            heartbeats.not_awaited()
        self._extend_session(sent.at)
        self._member.answered(response.member_epoch, target, self._timer.now)
        self._hurry_if_over()
        if not self._registration.is_subscribed(self._member.report()):
            heartbeats.hurry()  # the subscription has changed since

    def _answer_to(self, sent: HeartbeatSent) -> Answer:
        if sent.frees:
            return Answer.CONSUMER_FREE
        joins = self.state is State.JOINING
        return Answer.CONSUMER_JOIN if joins else Answer.CONSUMER_HEARTBEAT

    def _on_refused(
        self, error: type[Exception], answer: Answer, received: ResponseReceived
    ) -> None:
        error_message = received.response.error_message or ""
        meaning, because = means(answer, error), name_of(error)
        because = f"{because}: {error_message}" if error_message else because
        self.log.warning("heartbeat.failed", because=because, state=self.state)
        if Do.FIND_COORDINATOR in meaning:
            self._suspect(received.node, because)
        elif Do.FREE_INSTANCE_ID in meaning:
            self._free_instance_id(error_message)
        elif Do.RAISE in meaning and Do.RETRY in meaning:
            # The member stays; it recovers when the right is granted.
            if self._registration.forbidden():
                self._say(GroupFailed(error=self._refusal(error, error_message)))
        elif Do.RAISE in meaning:
            # If we could not free our `group_instance_id`, another member has it: say that.
            if self.state is State.FREEING_INSTANCE_ID:
                error, error_message = UnreleasedInstanceIdError, self._registration.taken_because
            self._fail(self._refusal(error, error_message), meaning)
        elif Do.PARTITIONS_LOST in meaning:
            self._fenced(meaning, because)

    def _refusal(self, error: type[Exception], error_message: str) -> Exception:
        member = self._member
        return errors.refusal(
            error,
            Answer.CONSUMER_JOIN,
            settings=self.settings,
            coordinator=self._coordinator,
            member=member.member_id,
            error_message=error_message,
            regex=member.subscription.regex,
        )

    def _free_instance_id(self, because: str) -> None:
        """The group has a member of our `group_instance_id`: send its leave heartbeat first."""
        self._registration.taken(because)
        self.log.info(
            "instance_id.taken", because=self._refusal(UnreleasedInstanceIdError, because)
        )
        self._member.move(Trigger.TAKEN, "the group has a member of this instance id")
        self._heartbeat_state.hurry()

    # -- leaving

    def _leave_late(self, because: str, deadline: float) -> None:
        self._begin_leaving(because, deadline, Operation.DEFAULT)
        self._stop_heartbeats()
        self._member.depart(Trigger.EXPIRE, because)

    def _begin_leaving(self, because: str, deadline: float, operation: Operation) -> None:
        static = self.settings.group_instance_id is not None
        stays = not operation.leaves_for_good(static=static)
        self._leaves.replace(self._member.member_id, because, deadline, stays=stays)

    def _leave_request(self, leave: Leave) -> Any:
        return leave_heartbeat(self.settings, leave.member_id, stays=leave.stays)

    @answers_to(ConsumerGroupHeartbeatRequest, note=LeaveSent)
    def on_leave_answer(self, received: ResponseReceived) -> None:
        """A leave heartbeat was answered: the member has left, or it is sent again."""
        self._leave_answered(received)

    @failure_of(ConsumerGroupHeartbeatRequest, note=LeaveSent)
    def on_leave_failed(self, failed: RequestFailed) -> None:
        """A leave heartbeat failed: it is sent again, or given up."""
        self._leave_failed(failed)

    @property
    def _leave_patience(self) -> float:
        return min(self._heartbeat_state.patience(), super()._leave_patience)

    def _end(self, leave: Leave) -> None:
        super()._end(leave)
        self._registration.left(stays=leave.stays)
        if self.state is State.LEAVING:
            self._member.move(Trigger.LEFT, "the group was told, or could not be told")

    # -- being thrown out

    def _fenced(self, meaning: Do, because: str) -> None:
        because = self._fenced_because(because)  # (It looks at the heartbeats.)
        self._registration.ended(is_member=Do.LEAVE in meaning)
        self._stop_heartbeats()
        self._member.depart(Trigger.FENCE, because)

    def _fail(self, error: Exception, meaning: Do) -> None:
        """Only the user can mend this: give up all partitions, tell the application, and stop."""
        if not self.falls_back_to_classic(error):
            self.log.error("group.failed", state=self.state, because=error)
            self._note_refusal(error)
        self._failure = Failure(error)
        self._registration.ended(is_member=Do.LEAVE in meaning)
        self._stop_heartbeats()
        self._member.depart(Trigger.FAIL, f"{reasons.AFTER}{type(error).__name__}")
        self._tell_failure()

    def falls_back_to_classic(self, error: Exception) -> bool:
        """Whether the classic protocol takes over after this error. Then the application does not
        hear of the error.

        It does not take over for a pattern: in the classic protocol no broker evaluates one.
        """
        undecided = self._choice.is_open and not self._member.subscription.regex
        return undecided and Do.OTHER_PROTOCOL in means(Answer.CONSUMER_JOIN, type(error))

    def _tell_failure(self) -> None:
        # The application must have given up its partitions before it hears of the error.
        if self._failure is not None and not self._member.is_revoking:
            self._failure.told(self._timer.now)
            self._member.subscription.await_poll()
            self._say(GroupFailed(error=self._failure.error))

    def _tell_failure_again(self, now: float, _jitter: float) -> float:
        """The application polls after it was told that the member has failed: tell it again. If it
        were not, a loop that catches the error would get no records and not know why."""
        failure = self._failure
        if failure is None or not self._member.subscription.wants_to_join():
            return NEVER
        if now < (due := failure.told_at + REFUSED_PAUSE):
            return due
        self._tell_failure()
        return NEVER

    def _stop_heartbeats(self) -> None:
        """Send no more heartbeats, and drop the answer to the one in flight."""
        self._registration.forget_fields()
        self._heartbeat_state.stop()

    # -- requests without an answer

    @failure_of(ConsumerGroupHeartbeatRequest, note=HeartbeatSent)
    def on_heartbeat_failed(self, failed: RequestFailed) -> None:
        """A timeout, a broken connection, or a broker that is too old."""
        sent: HeartbeatSent = failed.request.context
        if not self._heartbeat_state.expects(sent.number):
            self._dropped(failed.request, "it was given up before")
            return
        self._registration.forget_fields()
        self._heartbeat_state.failed(failed.now, failed.jitter)
        self.log.warning("heartbeat.failed", because=failed.error, state=self.state)
        meaning = self._unanswered(self._answer_to(sent), failed)
        if Do.RAISE in meaning:
            self._fail(self._refusal(type(failed.error), str(failed.error)), meaning)
