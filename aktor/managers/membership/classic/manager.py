"""The membership manager of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`member` holds the member's state and the rebalance under way; this module holds what is asked of
the coordinator, and what its answers mean. Handlers note facts. The duties decide: they run at the
tick that follows every batch of messages, and the tick brings the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from kafka.errors import (
    BrokerResponseError,
    NoError,
)
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.exchange import Exchange, attempt_time
from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import AGAIN, NEVER, REFUSED_PAUSE, Duty
from aktor.events.answers import Answered
from aktor.events.membership import (
    GroupFailed,
    LeaveGroup,
    MemberChanged,
    Operation,
    SubscriptionChanged,
)
from aktor.events.network import Destination, Lane, Request, RequestFailed, ResponseReceived
from aktor.managers.membership import errors
from aktor.managers.membership.classic import requests as group_requests
from aktor.managers.membership.classic.assignors import AssignorError, Assignors
from aktor.managers.membership.classic.leader import LeaderStage
from aktor.managers.membership.classic.member import Member
from aktor.managers.membership.classic.requests import GroupRequestSent
from aktor.managers.membership.classic.states import State, Trigger
from aktor.managers.membership.leave_group import Leave
from aktor.managers.membership.manager import Failure, GroupMembershipManager
from aktor.protocol.error_codes import REFUSED_FOR_GOOD, Answer, Do, error_of, means, name_of
from aktor.protocol.refusals import explained
from aktor.settings import Settings
from aktor.trace import Trace, reasons

__all__ = ["ClassicMembershipManager"]

#: While JoinGroup waits for its answer, heartbeats may be refused (UNKNOWN_MEMBER_ID,
#: ILLEGAL_GENERATION) because the answer with the new generation is on its way. After so many
#: seconds of refusals no answer is expected: the connection of that JoinGroup is half-open.
REFUSALS_TOLERATED: Final = 3.0

#: A JoinGroup waits so many seconds for the answers to requests that were sent to the coordinator
#: before it. OffsetCommit and JoinGroup take different connections, so the coordinator may read the
#: JoinGroup first. It might then begin a new generation and refuse the commit (ILLEGAL_GENERATION).
#: A SyncGroup does not wait: it begins no generation.
JOIN_AFTER_COMMITS: Final = 1.0

#: Each tick compares with these. Before Python 3.12 a member of an Enum class is slow to read.
_UNJOINED: Final = State.UNJOINED
_STABLE: Final = State.STABLE


class ClassicMembershipManager(GroupMembershipManager[Member]):
    """Owns the member (`state` is where it is), its requests and its leaves.

    Raises `ConfigurationError` when made with assignors that have no protocol in common.
    """

    READS = (
        "client_rack",
        "enable_auto_commit",
        "group_id",
        "group_instance_id",
        "heartbeat_interval",
        "max_poll_interval",
        "metrics_num_samples",
        "metrics_sample_window",
        "partition_assignment_strategy",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
        "session_timeout",
    )
    HOLDING = (State.STABLE, State.PREPARING, State.REVOKING)
    LEFT = Answer.LEAVE_GROUP
    STOPS_WHEN_REFUSED = False

    def __init__(
        self,
        settings: Settings,
        *,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, dispatcher=dispatcher, trace=trace)
        assignors = Assignors(settings.partition_assignment_strategy, settings.client_rack)
        self._member = Member(
            settings, assignors, incarnation=incarnation, say=self._say, log=self.log
        )
        #: JoinGroup and SyncGroup: one of them is in flight at a time.
        self._joins = Exchange(settings)
        #: When a heartbeat was sent whose answer has confirmed the member, the last one. No
        #: generation that is joined later had begun by then.
        self._confirmed_at = -math.inf
        #: Whether no SyncGroup of this generation was answered. Heartbeats do not tell whether the
        #: coordinator waits for it.
        self._is_sync_awaited = False
        #: When JoinGroup was sent first since it was last answered with a generation; inf: it was
        #: not.
        self._joining_since = math.inf

    @property
    def state(self) -> State:
        """The member's state."""
        return self._member.state

    @property
    def looks_after(self) -> frozenset[str]:
        """Our id, and those of the members that have yet to leave."""
        return frozenset({self._member.member_id, *self._leaves.member_ids}) - {""}

    @property
    def _step(self) -> str:
        state, member = self._member.state, self._member
        if state is _STABLE:
            return ""
        if step := member.application_step:
            return step
        if state is _UNJOINED:
            if member.subscription.wants_to_join():
                return "backoff"
            return "poll" if member.subscription else ""
        if self._coordinator is None:
            return "coordinator"
        if self._joins.in_flight:
            return self._asked_step
        return "metadata" if state is State.SYNCING else "backoff"

    @property
    def _asked_step(self) -> str:
        """JoinGroup or SyncGroup is in flight: what its answer waits for."""
        member, settings = self._member, self.settings
        if member.state is not State.SYNCING:
            has_id = member.me.member_id or settings.group_instance_id
            return "members" if has_id else "join"  # (KIP-394)
        return "leader" if member.leader.stage is LeaderStage.FOLLOWING else "sync"

    @property
    def _joins_at(self) -> float:
        waits = self._member.state is _UNJOINED and self._member.subscription.wants_to_join()
        return self._joins.retry_at if waits else -math.inf

    def _news(self) -> Iterable[MemberChanged]:
        return self._member.news(self._leaves.member_ids)

    # -- the application's side

    @handles(SubscriptionChanged)
    def on_subscription_changed(self, message: SubscriptionChanged) -> None:
        """The subscription changed; the next Poll makes us join, or join again."""
        self._member.subscribe(message.topics, message.member_id)
        for member_id in message.leaving - {message.member_id}:
            # The next poll sets the deadline: handlers do not know the time.
            self._leaves.add(member_id, "the membership actor was restarted", NEVER)

    @handles(LeaveGroup)
    def on_leave_group(self, message: LeaveGroup) -> None:
        """The application has released all partitions; tell the group."""
        self._member.remember(message.member_id)  # it may be of an incarnation before this one
        calls, me = self._joins, self._member.me
        first_join = self.state is State.JOINING and calls.in_flight and not me.member_id
        self._begin_leaving(
            message.because,
            message.deadline,
            of_join=calls.number if first_join else None,
            operation=message.operation,
        )
        # A LeaveGroup may be under way already: the application polled too late.
        leave = self._leaves.set_deadline(message.deadline)
        self._stop_requests()
        self._failure = None
        self._member.leave()
        if leave is None:
            self._say(Answered(ticket=message.ticket))
            if self._member.in_group or self.state is State.LOSING:
                self._member.move(Trigger.LEAVE, message.because)
                self._member.move(Trigger.LEFT, "there is nobody to tell")
            return
        leave.add_ticket(message.ticket)
        if self.state is not State.LEAVING:
            self._member.move(Trigger.LEAVE, message.because)

    # -- the coordinator's news

    def _not_found(self, error: Exception) -> None:
        self._fail(error, means(Answer.JOIN_GROUP, type(error)))

    def _abandon_requests(self, because: str) -> None:
        self._joins.abandon()
        self._heartbeat_state.abandon()
        if self._member.has_generation:
            self._heartbeat_state.hurry()
        self._leaves.abandon_requests()
        self._member.leader.abandon_description()
        if self.state is State.SYNCING:
            self._member.must_rejoin(f"{reasons.COORDINATOR_LOST}{because}")

    # -- deciding

    def duties(self) -> tuple[Duty, ...]:
        """The member moves on as far as possible; then the manager sends what is due."""
        return (
            self._begin_leaves,
            self._leave_if_late,
            self._advance_far,
            self._join_or_sync,
            self._heartbeat,
            self._end_or_send_leaves,
            self._describe_group,
        )

    def _advance(self) -> float:
        """The next step of the member, as a duty: AGAIN if there was one to take."""
        if self._member.state is _UNJOINED:
            return self._maybe_join()
        if self._is_in_doubt():
            return NEVER
        due = self._member.advance(self._timer.now)
        self._tell_failure()
        return due

    def _maybe_join(self) -> float:
        if not self._member.subscription.wants_to_join():
            return NEVER
        if self._timer.now < self._joins.retry_at:
            self._shown.differs()  # it does not wait for a poll any more
            return self._joins.retry_at
        self._member.begin(self._member.rejoin or reasons.FIRST_JOIN, self._timer.now)
        return AGAIN

    # -- JoinGroup and SyncGroup

    def _join_or_sync(self, now: float, _jitter: float) -> float:
        calls, member = self._joins, self._member
        if calls.in_flight or self._coordinator is None:
            return NEVER
        if member.state is State.JOINING:
            if now < calls.due:
                return calls.due
            self._join_group()
            return AGAIN  # an assignor that fails ends the membership
        if member.state is not State.SYNCING:
            return NEVER
        if now < (ready_at := member.leader.ready_at):
            return ready_at
        self._sync_group()
        return AGAIN  # an assignor that fails ends the membership

    def _join_group(self) -> None:
        settings, member = self.settings, self._member
        try:
            offers = member.offers()
        except AssignorError as error:
            self._assignor_failed(error.__cause__ or error, error.assignor)
            return
        body = group_requests.join_group(
            settings, member.me, offers=offers, because=member.rebalance.because
        )
        # The coordinator answers JoinGroup when all members have sent theirs, which may take the
        # rebalance timeout. The Java client waits that long, and 5 s more
        # (AbstractCoordinator.sendJoinGroupRequest). We wait for `request_timeout_ms` and send
        # JoinGroup again with the same member id; the coordinator answers once. The reason: if the
        # connection is half-open, the coordinator never got our JoinGroup and waits for it, while
        # our heartbeats, on another connection, keep this member in the group. (The Java client
        # sends no heartbeats meanwhile and is expelled.) A member without an id gets one at once
        # (KIP-394).
        self._joining_since = min(self._joining_since, self._timer.now)
        self._call(body, timeout=settings.request_timeout, in_order_for=JOIN_AFTER_COMMITS)

    def _sync_group(self) -> None:
        try:
            assignments = self._member.assignments()
        except Exception as error:
            self._assignor_failed(error)
            return
        body = group_requests.sync_group(
            self.settings, self._member.me, assignor=self._member.assignor, assignments=assignments
        )
        self._call(body, timeout=self.settings.request_timeout)

    def _call(self, body: Any, *, timeout: float, in_order_for: float = 0.0) -> None:
        self._heartbeat_state.forget_refusals()
        note = self._member.me.sends(self._joins.sent(), at=self._timer.now)
        self.send(
            self.request(
                body,
                to=Destination.COORDINATOR,
                deadline=self._timer.now + timeout,
                context=note,
                lane=Lane.HOLDS,
                in_order_for=in_order_for,
            )
        )

    def _assignor_failed(self, error: BaseException, assignor: str = "") -> None:
        """An assignor has raised: the member fails. `assignor` names it, if it is not the one that
        the group has chosen."""
        named, group = assignor or self._member.assignor, self.settings.group_id
        failure = errors.assignor_failed(error, group=group, assignor=named)
        self._fail(failure, REFUSED_FOR_GOOD)

    @answers_to(JoinGroupRequest)
    def on_join_answer(self, received: ResponseReceived) -> None:
        """JoinGroup is answered: with a new generation, a member id, or an error."""
        response = received.response
        sent: GroupRequestSent = received.request.context
        if not self._joins.ends(sent.number):
            self._on_late_join(received)
            return
        error = group_requests.join_error(response)
        if error is NoError:
            self._joined(response, sent)
        elif Do.TAKE_MEMBER_ID in means(Answer.JOIN_GROUP, error):
            # The next poll sends JoinGroup with this id.
            if sent.member_id or not response.member_id:
                # We had an id, or are given none: the coordinator would answer the same again and
                # again.
                self._joins.failed(received.now, received.jitter)
            self._heartbeat_state.named(sent.at)
            self._member.take_member_id(response.member_id)
        else:
            self._group_error(Answer.JOIN_GROUP, error, received)

    def _joined(self, response: Any, sent: GroupRequestSent) -> None:
        member = self._member
        is_known = self._is_sync_awaited and response.generation_id == member.me.generation
        member.joined(response)
        self._leaves.joined()
        self.log = member.log
        if not sent.member_id:
            self._heartbeat_state.named(sent.at)
        # Do not take this answer for a renewal of the session. The coordinator renews the session
        # when a rebalance ends, but it may answer JoinGroup without a rebalance (to a member that
        # asks again because an answer was lost), and SyncGroup in a stable group, without renewing
        # it (Kafka 4, GroupMetadataManager). Only a heartbeat extends the session; that of a new
        # member begins with the JoinGroup which gave it its id.
        #
        # The coordinator may wait for our SyncGroup from now on. It cannot have waited since before
        # our JoinGroup, unless this is the same generation, whose SyncGroup failed.
        if not is_known:
            since = max(self._joining_since, self._confirmed_at)
            self._heartbeat_state.not_awaited_before(since)
        self._is_sync_awaited = True
        self._joining_since = math.inf
        self._extend_session(self._heartbeat_state.member_since)
        if self._was_only_overtaken(response, sent):
            self._allow_records_until(self._heartbeat_state.records_until)
        self._heartbeat_state.start(self._timer.now)
        self._hurry_if_over()
        try:
            member.lead_or_follow(response, self._timer.now)
        except Exception as error:
            self._assignor_failed(error)

    def _was_only_overtaken(self, response: Any, sent: GroupRequestSent) -> bool:
        """Whether heartbeats were refused since JoinGroup was sent, and only because the generation
        which that JoinGroup has joined had begun (ILLEGAL_GENERATION). Then no other member can own
        our partitions, and what the group takes away now is revoked, not lost.

        A group that goes on without a member removes it, and refuses its JoinGroup. Not so a static
        member: the group keeps it for its session, in generations that it has not joined, too.
        """
        return (
            self._heartbeat_state.was_overtaken
            and sent.member_id == response.member_id
            and self.settings.group_instance_id is None
        )

    def _on_late_join(self, received: ResponseReceived) -> None:
        """The answer to a JoinGroup that was given up. The coordinator may have made a member for
        it, which sends no heartbeats: send LeaveGroup for that member."""
        response = received.response
        sent: GroupRequestSent = received.request.context
        self._dropped(received.request, "it was given up before")
        meaning = means(Answer.JOIN_GROUP, error_of(response.error_code))
        made = Do.DONE in meaning or Do.TAKE_MEMBER_ID in meaning
        waiting = self._leaves.of_join(sent.number)
        for leave in waiting:
            if made:
                leave.name(response.member_id)
            else:
                self._end(leave)
        if made and not waiting and not sent.member_id:
            deadline = received.now + self.settings.request_timeout
            self._leaves.add(response.member_id, "the join was given up", deadline)

    @answers_to(SyncGroupRequest)
    def on_sync_answer(self, received: ResponseReceived) -> None:
        """SyncGroup is answered: with our assignment, or an error."""
        response = received.response
        sent: GroupRequestSent = received.request.context
        if not self._joins.ends(sent.number):
            self._dropped(received.request, "it was given up before")
            return
        error = group_requests.sync_error(response, self._member.assignor)
        if error is NoError:
            self._synced(response, sent)
        else:
            self._group_error(Answer.SYNC_GROUP, error, received)

    def _synced(self, response: Any, sent: GroupRequestSent) -> None:
        try:
            assigned = self._member.read(response.assignment)
        except Exception as error:
            self._assignor_failed(error)
            return
        self._joins.answered()
        self._is_sync_awaited = False
        self._heartbeat_state.not_awaited_before(sent.at)
        is_overtaken = self._heartbeat_state.rebalances_again
        self._heartbeat_state.start(self._timer.now, quick=self._member.is_cooperative)
        if is_overtaken:
            self._doubt_assignment()
        self._hurry_if_over()
        self._member.synced(assigned)

    def _group_error(
        self, answer: Answer, error: type[Exception], received: ResponseReceived
    ) -> None:
        """JoinGroup or SyncGroup was refused."""
        self._answered_with(error)
        meaning, because = means(answer, error), name_of(error)
        if Do.RAISE in meaning:
            self._refused(error, meaning)
        elif Do.PARTITIONS_LOST in meaning:
            self._joins.failed(received.now, received.jitter)
            self._fenced(error, meaning)
        elif Do.REJOIN in meaning:
            self._member.begin(reasons.REBALANCES_AGAIN, self._timer.now)
        else:
            if Do.FIND_COORDINATOR in meaning:
                self._suspect(received.node, because)
            self._try_again(because, meaning, received.now, received.jitter)

    def _try_again(self, because: str, meaning: Do, now: float, jitter: float) -> None:
        self._joins.failed(now, jitter)
        member = self._member
        self.log.info(
            "rebalance.delayed",
            rebalance=member.rebalance.number,
            state=member.state,
            because=because,
        )
        if member.state is State.SYNCING:
            moved = Do.FIND_COORDINATOR in meaning
            reason = reasons.COORDINATOR_LOST if moved else reasons.SYNC_FAILED
            member.begin(f"{reason}{because}", self._timer.now)

    # -- heartbeats

    def _heartbeat(self, now: float, _jitter: float) -> float:
        if self._coordinator is None or not self._member.is_confirmed:
            return NEVER
        if now < self._heartbeat_state.due:
            return self._heartbeat_state.due
        deadline = now + self._heartbeat_state.patience()
        note = self._member.me.sends(self._heartbeat_state.sent(now), at=now)
        body = group_requests.heartbeat(self.settings, self._member.me)
        self.send(self._to_coordinator(body, deadline, note))
        return NEVER

    def _to_coordinator(self, body: Any, deadline: float, note: GroupRequestSent) -> Request:
        """A request that the coordinator answers at once."""
        return self.request(body, to=Destination.COORDINATOR, deadline=deadline, context=note)

    @answers_to(HeartbeatRequest)
    def on_heartbeat_answer(self, received: ResponseReceived) -> None:
        """Heartbeat is answered: we are a member or not, or the group rebalances."""
        sent: GroupRequestSent = received.request.context
        if not self._heartbeat_state.expects(sent.number):
            self._dropped(received.request, "it was given up before")
            return
        error = error_of(received.response.error_code)
        meaning = means(Answer.HEARTBEAT, error)
        confirmed = Do.DONE in meaning
        if confirmed:
            self._heartbeat_state.answered(received.now)
        else:
            self._heartbeat_state.failed(received.now, received.jitter)
            self._answered_with(error)
        if not sent.is_by(self._member.me):
            self._dropped(received.request, "the generation changed meanwhile")
        elif confirmed:
            self._confirmed_at = max(self._confirmed_at, sent.at)
            if Do.REJOIN not in meaning and not self._is_sync_awaited:
                # Nor was JoinGroup awaited when the coordinator read this heartbeat.
                self._heartbeat_state.not_awaited_before(sent.at)
            self._extend_session(sent.at)
            if Do.REJOIN in meaning:
                self._rebalance_announced(sent.at)
        else:
            self._heartbeat_refused(error, received)
        if confirmed:
            self._hurry_if_over()

    def _rebalance_announced(self, asked_at: float) -> None:
        """REBALANCE_IN_PROGRESS. From Kafka 2.7 on (KAFKA-10134) it always means that the group
        rebalances again, also before SyncGroup is answered: Kafka then refuses SyncGroup with the
        same error.

        But an earlier answer to SyncGroup may be on its way, and arrive after the group has gone on
        without this member: another member owns the partitions then. So records of an assignment
        from such an answer are given out only after a later heartbeat has confirmed the member.
        Before SyncGroup is answered, the error is no reason to join again (nor is it in Java):
        older brokers answer each heartbeat so at that time.
        """
        if self.state is State.SYNCING:
            self._heartbeat_state.note_rebalance()
        elif asked_at < self._heartbeat_state.started_at:
            self._doubt_assignment()
        else:
            self._member.rebalance_announced()

    def _doubt_assignment(self) -> None:
        """Give nothing out before the answer to a heartbeat that is sent from now on."""
        self._allow_records_until(self._heartbeat_state.end_session(self._timer.now))

    def _heartbeat_refused(self, error: type[Exception], received: ResponseReceived) -> None:
        meaning, because = means(Answer.HEARTBEAT, error), name_of(error)
        self.log.warning("heartbeat.failed", because=because, state=self.state)
        if Do.FIND_COORDINATOR in meaning:
            self._suspect(received.node, because)
        elif self._is_answer_on_its_way(meaning):
            pass  # the answer to JoinGroup is on its way, and says more
        elif Do.RAISE in meaning:
            self._refused(error, meaning)
        elif Do.PARTITIONS_LOST in meaning:
            self._fenced(error, meaning)

    def _is_answer_on_its_way(self, meaning: Do) -> bool:
        """Whether the answer to JoinGroup, with the new generation, may still be on its way."""
        if self.state is not State.JOINING or not self._joins.in_flight:
            return False
        if Do.REJOIN in meaning:
            self._heartbeat_state.refused(self._timer.now, disowned=Do.NEW_MEMBER_ID in meaning)
            # Another member may own our partitions by now: no records are given out until the group
            # confirms the member.
            self._allow_records_until(math.nextafter(self._timer.now, -math.inf))
        return self._timer.now < self._heartbeat_state.refused_since + REFUSALS_TOLERATED

    # -- what a leader that skips the assignment has to learn

    def _describe_group(self, now: float, _jitter: float) -> float:
        leader, coordinator = self._member.leader, self._coordinator
        if self._member.state is not _STABLE or coordinator is None or not leader.must_learn:
            return NEVER
        if now < leader.asks_at:
            return leader.asks_at
        deadline = now + attempt_time(self.settings)
        note = self._member.me.sends(leader.asks(), at=now)
        body = group_requests.describe_group(self.settings)
        self.send(self._to_coordinator(body, deadline, note))
        return NEVER

    @answers_to(DescribeGroupsRequest)
    def on_described(self, received: ResponseReceived) -> None:
        """The answer to DescribeGroups: what the members are assigned, or an error."""
        leader = self._member.leader
        sent: GroupRequestSent = received.request.context
        if not leader.describe_ends(sent.number):
            self._dropped(received.request, "it was given up before")
            return
        if not (sent.is_by(self._member.me) and leader.must_learn):
            self._dropped(received.request, "the generation changed meanwhile")
            return
        (described,) = received.response.groups
        error = error_of(described.error_code)
        again = Do.RETRY in means(Answer.DESCRIBE_GROUPS, error)
        assignments = group_requests.assignments_of(described) if error is NoError else None
        if again or (error is NoError and assignments is None):
            leader.asks_again(received.now, received.jitter)
            return
        if assignments is not None:
            try:
                leader.learn(assignments)
            except Exception as broken:
                error = type(broken)
        if error is not NoError:
            self._learn_nothing(name_of(error))

    def _learn_nothing(self, because: str) -> None:
        self.log.warning("assignment.unknown", because=because)
        self._member.leader.learn_nothing()

    # -- leaving

    def _leave_late(self, because: str, deadline: float) -> None:
        self._begin_leaving(because, deadline)
        self._depart(because, Do.NEW_MEMBER_ID)

    def _begin_leaving(
        self,
        because: str,
        deadline: float,
        *,
        of_join: int | None = None,
        operation: Operation = Operation.DEFAULT,
    ) -> None:
        """Open a LeaveGroup for our member. If the member stays, remember its id for later."""
        who = self._member.member_id
        self._leaves.add_own(who, because, deadline, of_join=of_join, operation=operation)

    def _begin_leaves(self, now: float, _jitter: float) -> float:
        """Give a deadline to the LeaveGroups that a handler opened: it did not know the time."""
        if self._leaves:
            self._leaves.begin(now)
        return NEVER

    def _leave_request(self, leave: Leave) -> Any:
        return group_requests.leave_group(self.settings, leave.member_id, leave.because)

    @answers_to(LeaveGroupRequest)
    def on_leave_answer(self, received: ResponseReceived) -> None:
        """LeaveGroup was answered: the member has left, or it is sent again."""
        self._leave_answered(received)

    @failure_of(LeaveGroupRequest)
    def on_leave_failed(self, failed: RequestFailed) -> None:
        """LeaveGroup failed: it is sent again, or given up."""
        self._leave_failed(failed)

    def _end(self, leave: Leave) -> None:
        super()._end(leave)
        if self.state is State.LEAVING and not self._leaves.awaited():
            self._member.move(Trigger.LEFT, "the group was told, or could not be told")

    # -- being thrown out

    def _fenced(self, error: type[Exception], meaning: Do) -> None:
        self._depart(self._fenced_because(name_of(error)), meaning)

    def _refused(self, error: type[Exception], meaning: Do) -> None:
        refusal = errors.refusal(
            error,
            Answer.JOIN_GROUP,
            settings=self.settings,
            coordinator=self._coordinator,
            member=self._member.member_id,
        )
        self._fail(refusal, meaning)

    def _fail(self, error: Exception, meaning: Do) -> None:
        """Only the user can mend this: give up all partitions, tell the application, and join again
        after its next poll."""
        self.log.error("group.failed", state=self.state, because=error)
        self._note_refusal(error)
        self._member.subscription.await_poll()
        self._joins.pause(self._timer.now + REFUSED_PAUSE)
        self._failure = Failure(error)
        if Do.LEAVE in meaning:
            deadline = self._timer.now + self.settings.request_timeout
            self._begin_leaving(type(error).__name__, deadline)
        self._depart(f"{reasons.AFTER}{type(error).__name__}", meaning)
        self._tell_failure()

    def _tell_failure(self) -> None:
        # The application must have given up its partitions before it hears of the error.
        if self._failure is not None and self.state is State.UNJOINED:
            self._say(GroupFailed(error=self._failure.error))
            self._failure = None

    def _depart(self, because: str, meaning: Do) -> None:
        """Give up all partitions. The member keeps its id, unless `meaning` has NEW_MEMBER_ID."""
        self._stop_requests()
        kept = "" if Do.NEW_MEMBER_ID in meaning else self._member.member_id
        self._member.depart(because, member_id=kept)

    def _stop_requests(self) -> None:
        """Send no more heartbeats, and drop the answers to all requests in flight."""
        self._joins.abandon()
        self._heartbeat_state.stop()

    # -- requests without an answer

    @failure_of(JoinGroupRequest)
    def on_join_failed(self, failed: RequestFailed) -> None:
        """A timeout, a broken connection, or a broker that is too old."""
        self._group_request_failed(Answer.JOIN_GROUP, failed)

    @failure_of(SyncGroupRequest)
    def on_sync_failed(self, failed: RequestFailed) -> None:
        """SyncGroup failed: handled as a failed JoinGroup."""
        self._group_request_failed(Answer.SYNC_GROUP, failed)

    def _group_request_failed(self, answer: Answer, failed: RequestFailed) -> None:
        sent: GroupRequestSent = failed.request.context
        current = self._joins.ends(sent.number)
        for leave in self._leaves.of_join(sent.number):
            self._end(leave)
        if not current:
            self._dropped(failed.request, "it was given up before")
            return
        if self._heartbeat_state.answered_at > sent.at:
            # Heartbeats were answered meanwhile: only the connection for JoinGroup is broken.
            meaning = means(answer, type(failed.error))
        else:
            meaning = self._unanswered(answer, failed)
        if Do.RAISE in meaning:
            self._failed_for_good(failed.error, meaning)
        else:
            self._try_again(str(failed.error), meaning, failed.now, failed.jitter)

    def _failed_for_good(self, error: Exception, meaning: Do) -> None:
        if isinstance(error, BrokerResponseError):
            self._refused(type(error), meaning)
        else:
            # We cannot send this request; the error says why.
            of = f"group {self.settings.group_id!r}"
            self._fail(explained(error, of, Answer.JOIN_GROUP), meaning)

    @failure_of(HeartbeatRequest)
    def on_heartbeat_failed(self, failed: RequestFailed) -> None:
        """The coordinator may be gone; the session goes on."""
        sent: GroupRequestSent = failed.request.context
        if not self._heartbeat_state.expects(sent.number):
            self._dropped(failed.request, "it was given up before")
            return
        self._heartbeat_state.failed(failed.now, failed.jitter)
        self.log.warning("heartbeat.failed", because=failed.error, state=self.state)
        meaning = self._unanswered(Answer.HEARTBEAT, failed)
        if Do.RAISE in meaning:
            self._failed_for_good(failed.error, meaning)

    @failure_of(DescribeGroupsRequest)
    def on_description_failed(self, failed: RequestFailed) -> None:
        """DescribeGroups failed: send it again, or go on without the group's assignment."""
        leader = self._member.leader
        sent: GroupRequestSent = failed.request.context
        if not leader.describe_ends(sent.number):
            self._dropped(failed.request, "it was given up before")
            return
        if Do.RETRY in means(Answer.DESCRIBE_GROUPS, type(failed.error)):
            leader.asks_again(failed.now, failed.jitter)
        elif leader.must_learn:
            self._learn_nothing(name_of(type(failed.error)))
