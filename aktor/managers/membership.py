"""Membership in a classic consumer group: join, sync, heartbeat, leave, and hand partitions over.

The states and how they follow are in `classic_states`, the assignors' part in `assignment`.
Handlers note facts; `poll`, which follows every batch of messages, decides: it knows the time.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kafka.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    MemberIdRequiredError,
    NoError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    for_code,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.manager import NEVER, Backoff, PollResult, RequestManager
from aktor.actors.runtime import Dispatcher
from aktor.errors import AuthenticationError
from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    LeaveGroup,
    Loss,
    MemberChanged,
    MemberState,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
    SubscriptionChanged,
)
from aktor.events.metadata import Broker, Cluster, ClusterChanged, RefreshMetadata, TrackTopics
from aktor.events.network import Destination, Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.managers.assignment import Assignors, LeaderPlan, partition_ids
from aktor.managers.classic_states import IN_GROUP, State, Trigger, move
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["ClassicMembershipManager"]

#: The protocol type that consumers share; Connect workers have another one.
PROTOCOL_TYPE: Final = "consumer"

#: How long a leader waits for the metadata of topics that only other members subscribe to.
METADATA_WAIT: Final = 1.5

#: After an error that the user has to mend, the group is tried again no sooner than this.
FATAL_RETRY: Final = 1.0

#: What the coordinator has beyond the rebalance timeout to answer JoinGroup (as the Java client).
JOIN_SLACK: Final = 5.0

#: The share of the session that a heartbeat may take, after so many in a row that failed: early
#: enough to find another coordinator if this one is half-open, and brisk with the one found next,
#: for it may be the same; then patient again, lest a slow connection never comes to be.
HEARTBEAT_SHARES: Final = (1 / 2, 1 / 6, 1 / 3, 1 / 2)

#: Heartbeats after a cooperative assignment, in seconds: the next round begins as soon as another
#: member has handed over, and only an answered heartbeat tells. Eight requests in four seconds.
QUICK_BEATS: Final = (0.015, 0.03, 0.06, 0.12, 0.24, 0.48, 0.96, 1.92)

#: More rebalances than one incarnation will see.
REBALANCES_PER_LIFE: Final = 1_000_000

#: KIP-800 bounds the reason.
REASON_MAX: Final = 255

_COORDINATOR_GONE: Final = (NotCoordinatorError, CoordinatorNotAvailableError)

_REMEDIES: Final[Mapping[type[Exception], str]] = {
    GroupAuthorizationFailedError: "grant this principal READ on the group",
    InconsistentGroupProtocolError: "offer an assignor in partition_assignment_strategy that all"
    " members of the group have in common",
    InvalidSessionTimeoutError: "choose session_timeout_ms between the brokers'"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    InvalidGroupIdError: "choose another group_id",
    GroupMaxSizeReachedError: "run fewer members or raise the brokers' group.max.size",
    FencedInstanceIdError: "another consumer has the same group_instance_id; give each its own",
    UnsupportedVersionError: "the brokers are too old for what this consumer asks of the group",
}


class _Stage(enum.Enum):
    """How far the application is with handing partitions back."""

    RELEASING = "releasing"
    RELEASED = "released"
    COMMITTING = "committing"
    COMMITTED = "committed"
    CALLING = "calling"
    FINISHED = "finished"


@dataclass(slots=True, kw_only=True)
class _HandBack:
    """Partitions on their way out of the application's hands."""

    partitions: frozenset[TopicPartition]
    loss: Loss
    stage: _Stage = _Stage.RELEASING
    positions: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    commit_until: float = math.inf


@dataclass(slots=True, kw_only=True, eq=False)
class _Farewell:
    """A LeaveGroup that is still to be answered, and the application's tickets that wait for it.

    `member_id` is empty while JoinGroup number `of_join` has yet to tell it.
    """

    member_id: str
    because: str
    deadline: float
    backoff: Backoff
    tickets: list[int] = field(default_factory=list)
    of_join: int | None = None
    in_flight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What was true when a request was sent; its answer is judged by it."""

    number: int
    at: float
    member_id: str
    generation: int
    aside: bool = False


class _Pulse:
    """When the next heartbeat is due, and which one is in flight."""

    def __init__(self, settings: Settings) -> None:
        self.interval = settings.heartbeat_interval
        self.backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self.due = NEVER
        self.number = 0
        self.in_flight = False
        self._quick: list[float] = []

    def start(self, now: float, *, quick: bool = False) -> None:
        """Beat from `now` on; `quick`: soon, and then at growing distances."""
        self._quick = [one for one in QUICK_BEATS if one < self.interval] if quick else []
        self.backoff.reset()
        self.due = self._after(now)

    def sent(self) -> int:
        """One goes out; returns its number."""
        self.number += 1
        self.in_flight = True
        self.due = NEVER
        return self.number

    def answered(self, now: float) -> None:
        """It was answered."""
        self.in_flight = False
        self.backoff.reset()
        self.due = self._after(now)

    def failed(self, now: float, jitter: float) -> None:
        """It was not answered, or not by a coordinator."""
        self.in_flight = False
        self.due = self.backoff.failed(now, jitter)

    def hurry(self) -> None:
        """Beat as soon as possible, unless one is in flight."""
        if not self.in_flight:
            self.due = -math.inf

    def abandon(self) -> None:
        """Nothing is expected of the one in flight any more."""
        self.number += 1
        self.in_flight = False

    def stop(self) -> None:
        """No more."""
        self.abandon()
        self.due = NEVER

    def _after(self, now: float) -> float:
        return now + (self._quick.pop(0) if self._quick else self.interval)


class ClassicMembershipManager(RequestManager):
    """**Owns** the member id, the generation, the assignment, the session and the poll timer.

    `state` (see `classic_states`) is assigned in one place. What is to be said collects in an
    outbox that `handle` and `poll` empty. Raises `ConfigurationError` when made with assignors
    that have no protocol in common.
    """

    name = "membership"
    HANDLERS: ClassVar[Mapping[type, str]] = {
        SubscriptionChanged: "on_subscription_changed",
        Poll: "on_poll",
        PartitionsReleased: "on_partitions_released",
        RevocationCommitted: "on_revocation_committed",
        CallbackFinished: "on_callback_finished",
        LeaveGroup: "on_leave_group",
        ConfirmSession: "on_confirm_session",
        ClusterChanged: "on_cluster_changed",
        CoordinatorFound: "on_coordinator_found",
        CoordinatorLost: "on_coordinator_lost",
        CoordinatorRefused: "on_coordinator_refused",
        ActorsRestarted: "on_actors_restarted",
    }
    RESPONSES: ClassVar[Mapping[type, str]] = {
        JoinGroupRequest: "on_join_answer",
        SyncGroupRequest: "on_sync_answer",
        HeartbeatRequest: "on_heartbeat_answer",
        LeaveGroupRequest: "on_leave_answer",
    }

    def __init__(
        self,
        settings: Settings,
        *,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, dispatcher=dispatcher, trace=trace)
        self.log = self.log.bind(group=settings.group_id)
        self.assignors = Assignors(settings.partition_assignment_strategy)
        self.instance_id: str | None = settings.group_instance_id
        self.state = State.UNJOINED
        self._outbox: list[object] = []
        self._said: MemberChanged | None = None
        self._now = -math.inf
        self._cluster = Cluster()
        self._coordinator: Broker | None = None
        # what the application wants
        self._topics: frozenset[str] = frozenset()
        self._may_join = False
        self._last_poll = math.inf
        # who we are in the group
        self._member_id = ""
        self._generation = -1
        self._assignor: str | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        # the rebalance under way
        # Answers to an earlier incarnation's steps must not be taken for answers to ours.
        self._rebalance = self._first_rebalance = (incarnation - 1) * REBALANCES_PER_LIFE
        self._because = ""
        self._rejoin: str | None = None
        self._began = 0.0
        self._joined_topics: frozenset[str] = frozenset()
        self._target: frozenset[TopicPartition] = frozenset()
        self._added: frozenset[TopicPartition] = frozenset()
        self._revoked = 0
        self._hand_back: _HandBack | None = None
        self._applied = False
        self._synced_at = -math.inf
        # the leader's part
        self._plan: LeaderPlan | None = None
        self._must_assign = False
        self._plan_until = 0.0
        self._tracked: frozenset[str] = frozenset()
        self._assigned_by: Mapping[str, frozenset[int] | None] | None = None
        # requests
        self._attempt = 0
        self._in_flight = False
        self._parked: set[int] = set()
        self._retry = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._not_before = -math.inf
        self._failure: Exception | None = None
        self._pulse = _Pulse(settings)
        self._session_until = -math.inf
        self._farewells: list[_Farewell] = []

    def handle(self, message: object) -> list[object]:
        """Handle one message; returns what is to be said, who we are now first."""
        return [*super().handle(message), *self._take_outbox()]

    def _take_outbox(self) -> tuple[object, ...]:
        told, self._outbox = self._outbox, []
        return (*self._news(), *told)

    # -- the application's side

    def on_subscription_changed(self, message: SubscriptionChanged) -> None:
        """Other topics; the next Poll makes us join, or join again."""
        self._topics = message.topics
        self._may_join = False
        if self._is_new():
            self._member_id = message.member_id

    def on_poll(self, message: Poll) -> None:
        """The poll timer starts again."""
        self._now = message.now
        self._last_poll = message.now
        self._may_join = True

    def on_partitions_released(self, message: PartitionsReleased) -> None:
        """The application delivers no more of what goes away."""
        step = self._step_at(_Stage.RELEASING, message.rebalance, message)
        if step is not None:
            step.positions = {
                partition: position
                for partition, position in message.positions.items()
                if partition in step.partitions
            }
            step.stage = _Stage.RELEASED

    def on_revocation_committed(self, message: RevocationCommitted) -> None:
        """The positions are stored, or never will be."""
        step = self._step_at(_Stage.COMMITTING, message.rebalance, message)
        if step is not None:
            step.stage = _Stage.COMMITTED

    def on_callback_finished(self, message: CallbackFinished) -> None:
        """A listener returned or raised; the application raises its error, we go on."""
        if message.rebalance == self._rebalance and self.state is State.ASSIGNING:
            self._applied = True
        else:
            step = self._step_at(_Stage.CALLING, message.rebalance, message)
            if step is None:
                return
            step.stage = _Stage.FINISHED
        if message.error is not None:
            self.log.warning(
                "listener.failed",
                rebalance=message.rebalance,
                state=self.state,
                because=message.error,
            )

    def _step_at(self, stage: _Stage, rebalance: int, message: object) -> _HandBack | None:
        """The step that `message` answers, or None (traced) if it is over."""
        step = self._hand_back
        if step is not None and step.stage is stage and rebalance == self._rebalance:
            return step
        self.log.info(
            "step.dropped",
            message=type(message).__name__,
            of_rebalance=rebalance,
            rebalance=self._rebalance,
            because="the rebalance went on without it",
        )
        return None

    def on_leave_group(self, message: LeaveGroup) -> None:
        """The application has let go of everything; tell the group."""
        first_join = self.state is State.JOINING and self._in_flight and not self._member_id
        farewell = self._farewell(
            self._member_id, message.because, message.deadline, of_join=first_join
        )
        if farewell is None and self._farewells:
            farewell = self._farewells[-1]  # the group was told already, when we polled late
            farewell.deadline = message.deadline
        self._topics = frozenset()
        self._may_join = False
        self._owned = frozenset()
        self._rebalance += 1
        self._forget(member_id="")
        if farewell is None:
            self._tell(Answered(ticket=message.ticket))
            if self.state in IN_GROUP or self.state is State.LOSING:
                self._move(Trigger.LEAVE, message.because)
                self._move(Trigger.LEFT, "there is nobody to tell")
            return
        farewell.tickets.append(message.ticket)
        if self.state is not State.LEAVING:
            self._move(Trigger.LEAVE, message.because)

    def on_confirm_session(self, message: ConfirmSession) -> None:
        """The application may have slept through its session: ask the group now."""
        if self._generation >= 0:
            self._pulse.hurry()

    # -- the others' news

    def on_cluster_changed(self, message: ClusterChanged) -> None:
        """A leader looks whether it would assign differently."""
        self._cluster = message.cluster

    def on_coordinator_found(self, message: CoordinatorFound) -> None:
        """Requests may go out."""
        if self._coordinator is not None and self._coordinator != message.broker:
            self._abandon_requests("the coordinator moved")
        self._coordinator = message.broker

    def on_coordinator_lost(self, message: CoordinatorLost) -> None:
        """Hold requests back; the membership itself is not in question."""
        self._coordinator = None
        self._abandon_requests(message.because)

    def on_coordinator_refused(self, message: CoordinatorRefused) -> None:
        """We may not use the group; the user has to know if that is what we are about to do."""
        if self.state in IN_GROUP:
            self._fail(message.error)

    def on_actors_restarted(self, message: ActorsRestarted) -> None:
        """Say again who we are and what we need."""
        self._said = None
        if self._tracked:
            self._tell(TrackTopics(owner="group", topics=self._tracked))
        step = self._hand_back
        if "commits" in message.actors and step is not None and step.stage is _Stage.COMMITTING:
            self.log.warning("commit.abandoned", because="the commits actor was restarted")
            step.stage = _Stage.COMMITTED
        if "network" in message.actors:
            self._abandon_requests("the network actor was restarted")
            self._parked.clear()

    def _abandon_requests(self, because: str) -> None:
        self._attempt += 1
        self._in_flight = False
        self._pulse.abandon()
        if self._generation >= 0:
            self._pulse.hurry()
        for farewell in self._farewells:
            farewell.in_flight = False
        if self.state is State.SYNCING:
            self._rejoin = because

    # -- deciding

    def poll(self, now: float, jitter: float) -> PollResult:
        """Move on as far as possible, then send what is due."""
        self._now = now
        if self.state in IN_GROUP and now >= self._last_poll + self.settings.max_poll_interval:
            self._leave_late()
        while self._advance():
            pass
        requests = (*self._group_request(), *self._heartbeat(), *self._leave_requests())
        return PollResult(requests=requests, wake_at=self._wake_at(), said=self._take_outbox())

    def _advance(self) -> bool:
        """One step on the way round, if there is one to take now."""
        match self.state:
            case State.UNJOINED:
                return self._maybe_join()
            case State.PREPARING | State.REVOKING | State.LOSING:
                return self._hand_back_further()
            case State.ASSIGNING if self._applied:
                self._complete()
                return True
            case State.SYNCING if self._rejoin is not None:
                self._begin(self._rejoin)
                return True
            case State.STABLE:
                because = self._reason_to_rejoin()
                if because is not None:
                    self._begin(because)
                return because is not None
        return False

    def _maybe_join(self) -> bool:
        if not (self._topics and self._may_join) or self._now < self._join_at():
            return False
        self._begin(self._rejoin or "first join")
        return True

    def _join_at(self) -> float:
        return max(self._retry.retry_at, self._not_before)

    def _reason_to_rejoin(self) -> str | None:
        if self._rejoin is not None:
            return self._rejoin
        if self._topics != self._joined_topics and self._may_join:
            return "the subscription changed"
        if self._assigned_by is None:
            return None
        current = partition_ids(self._cluster, self._assigned_by)
        changed = sorted(one for one, ids in current.items() if ids != self._assigned_by[one])
        return f"the partitions of {', '.join(changed)} changed" if changed else None

    def _begin(self, because: str) -> None:
        """A rebalance begins: hand back what has to be, then join."""
        if self.state in (State.UNJOINED, State.STABLE):
            self._began = self._now
            self._revoked = 0
        self._rebalance += 1
        self._because = because
        self._rejoin = None
        self._applied = False
        self._joined_topics = self._topics
        self._forget_plan()
        self.log.info(
            "rebalance.triggered",
            rebalance=self._rebalance,
            because=because,
            member=self._member_id,
            generation=self._generation,
            owned=len(self._owned),
        )
        going = self._owned
        if self.assignors.cooperative:
            going = frozenset(one for one in self._owned if one.topic not in self._topics)
        if going:
            self._start_handing_back(going, Loss.REVOKED, because)
            self._move(Trigger.PREPARE, because)
        else:
            self._move(Trigger.JOIN, because)

    def _complete(self) -> None:
        self._applied = False
        self._move(Trigger.APPLIED, "the application has the assignment")
        self.log.info(
            "rebalance.completed",
            rebalance=self._rebalance,
            because=self._because,
            ms=round((self._now - self._began) * 1000, 3),
            generation=self._generation,
            owned=len(self._owned),
            added=self._added,
            revoked=self._revoked,
        )

    # -- handing back

    def _start_handing_back(
        self, partitions: frozenset[TopicPartition], loss: Loss, because: str
    ) -> None:
        self._hand_back = _HandBack(partitions=partitions, loss=loss)
        self._tell(
            RevokePartitions(
                rebalance=self._rebalance, partitions=partitions, loss=loss, because=because
            )
        )

    def _hand_back_further(self) -> bool:
        """The next of: released, committed, callback run; then the state that waited for it."""
        step = self._hand_back
        assert step is not None, f"{self.state} hands partitions back"
        match step.stage:
            case _Stage.RELEASED if self._has_to_commit(step):
                self._commit(step)
            case _Stage.RELEASED | _Stage.COMMITTED:
                self._call(step)
            case _Stage.COMMITTING if self._now >= step.commit_until:
                self.log.warning("commit.abandoned", because="it did not end in time")
                self._call(step)
            case _Stage.FINISHED:
                self._hand_back = None
                self._handed_back(step)
            case _:
                return False
        return True

    def _has_to_commit(self, step: _HandBack) -> bool:
        wanted = self.settings.enable_auto_commit and step.loss is Loss.REVOKED
        return wanted and bool(step.positions)

    def _commit(self, step: _HandBack) -> None:
        # Half of what the coordinator waits for a member: the other half is the callback's.
        longest = min(self.settings.max_poll_interval / 2, self.settings.request_timeout)
        step.commit_until = self._now + longest
        step.stage = _Stage.COMMITTING
        self._tell(
            CommitBeforeRevocation(
                rebalance=self._rebalance, offsets=step.positions, deadline=step.commit_until
            )
        )

    def _call(self, step: _HandBack) -> None:
        step.stage = _Stage.CALLING
        # Whatever happens meanwhile, the application drops them when its callback returns.
        self._owned -= step.partitions
        self._tell(
            RunRevokedCallback(
                rebalance=self._rebalance, partitions=step.partitions, loss=step.loss
            )
        )

    def _handed_back(self, step: _HandBack) -> None:
        match self.state:
            case State.PREPARING:
                self._revoked += len(step.partitions)
                self._move(Trigger.JOIN, self._because)
            case State.REVOKING:
                self._revoked += len(step.partitions)
                self._assign()
            case _:
                self._move(Trigger.FORGET, "the lost callback returned")
                self._tell_failure()

    # -- JoinGroup and SyncGroup

    def _group_request(self) -> tuple[Request, ...]:
        if self._in_flight or self._coordinator is None:
            return ()
        if self.state is State.JOINING and self._now >= self._retry.retry_at:
            return (self._join_group(),)
        if self.state is State.SYNCING:
            return self._sync_group()
        return ()

    def _join_group(self) -> Request:
        settings = self.settings
        offers = self.assignors.subscriptions(self._joined_topics, self._owned, self._generation)
        return self._send(
            JoinGroupRequest(
                group_id=settings.group_id,
                session_timeout_ms=round(settings.session_timeout * 1000),
                rebalance_timeout_ms=round(settings.max_poll_interval * 1000),
                member_id=self._member_id,
                group_instance_id=self.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                    for name, metadata in offers
                ],
                reason=self._because[:REASON_MAX],
                min_version=None if self.instance_id is None else 5,
            ),
            timeout=max(settings.request_timeout, settings.max_poll_interval + JOIN_SLACK),
        )

    def _sync_group(self) -> tuple[Request, ...]:
        assignments: Mapping[str, bytes] | None = {}
        if self._plan is not None:
            assignments = self._assignments(self._plan)
        if assignments is None:
            return ()
        body = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=one)
                for member, one in assignments.items()
            ],
            min_version=None if self.instance_id is None else 3,
        )
        return (self._send(body, timeout=self.settings.request_timeout),)

    def _send(self, body: Any, *, timeout: float) -> Request:
        self._attempt += 1
        self._in_flight = True
        self._parked.add(self._attempt)
        return self.request(
            body,
            to=Destination.COORDINATOR,
            deadline=self._now + timeout,
            context=self._note(self._attempt),
        )

    def _note(self, number: int, *, aside: bool = False) -> _Sent:
        return _Sent(
            number=number,
            at=self._now,
            member_id=self._member_id,
            generation=self._generation,
            aside=aside,
        )

    def _assignments(self, plan: LeaderPlan) -> Mapping[str, bytes] | None:
        """The leader's assignment; None while it waits for metadata, or if the assignor failed."""
        missing = plan.missing(self._cluster)
        if missing and self._now < self._plan_until:
            return None
        self._assigned_by = partition_ids(self._cluster, plan.topics)
        if not self._must_assign:
            return {}
        try:
            made = plan.assign(self._cluster)
        except Exception as error:
            self._assignor_failed(error)
            return None
        self.log.info(
            "rebalance.assigned",
            rebalance=self._rebalance,
            assignor=self._assignor,
            members=len(plan.members),
            topics=len(plan.topics),
            missing=missing,
        )
        return made

    def _assignor_failed(self, error: Exception) -> None:
        # The user's own code, or another member's subscription: not a reason to crash.
        failure = KafkaError(
            f"the assignor {self._assignor!r} failed in group {self.settings.group_id!r}"
            f" ({type(error).__name__}: {error}); use another partition_assignment_strategy or"
            " mend the assignor"
        )
        failure.__cause__ = error
        self._fail(failure)

    def on_join_answer(self, received: ResponseReceived) -> None:
        """A new generation, or why not."""
        self._now = received.now
        response, sent = received.response, received.request.context
        self._parked.discard(sent.number)
        if sent.number != self._attempt:
            self._on_late_join(received)
            return
        self._in_flight = False
        error = for_code(response.error_code)
        if error is NoError and response.protocol_type not in (None, PROTOCOL_TYPE):
            error = InconsistentGroupProtocolError
        if error is NoError:
            self._joined(response, sent)
        elif error is MemberIdRequiredError:
            self._member_id = response.member_id  # and the poll that follows sends it
        else:
            self._group_error(error, received)

    def _joined(self, response: Any, sent: _Sent) -> None:
        self._member_id = response.member_id
        self._generation = response.generation_id
        self.log = self.log.bind(member=self._member_id)
        self._assignor = response.protocol_name
        self._move(Trigger.JOINED, "the group has a new generation")
        leads = response.leader == response.member_id
        self.log.info(
            "rebalance.joined",
            rebalance=self._rebalance,
            generation=self._generation,
            member=self._member_id,
            leader=leads,
            members=len(response.members) if leads else None,
            assignor=self._assignor,
        )
        self._extend_session(sent)
        self._pulse.start(self._now)
        if leads:
            self._lead(response)
        else:
            self._track(frozenset())

    def _lead(self, response: Any) -> None:
        try:
            assignor = self.assignors.by_name[response.protocol_name]
            self._plan = LeaderPlan(assignor, response.members)
        except Exception as error:
            self._assignor_failed(error)
            return
        self._must_assign = not response.skip_assignment
        self._plan_until = self._now + METADATA_WAIT
        known = self._tracked
        self._track(self._plan.topics)
        missing = self._plan.missing(self._cluster)
        if missing & known:
            self._tell(RefreshMetadata(because=f"the group wants {', '.join(sorted(missing))}"))

    def _on_late_join(self, received: ResponseReceived) -> None:
        """A JoinGroup nobody waits for may have made us a member that nobody looks after."""
        response, sent = received.response, received.request.context
        self._dropped(received.request, "it was given up before")
        made = for_code(response.error_code) in (NoError, MemberIdRequiredError)
        waiting = [one for one in self._farewells if one.of_join == sent.number]
        for farewell in waiting:
            farewell.of_join = None
            farewell.member_id = response.member_id if made else ""
            if not made:
                self._end(farewell)
        if made and not waiting and not sent.member_id:
            deadline = received.now + self.settings.request_timeout
            self._farewell(response.member_id, "the join was given up", deadline)

    def on_sync_answer(self, received: ResponseReceived) -> None:
        """Our assignment, or why not."""
        self._now = received.now
        response, sent = received.response, received.request.context
        self._parked.discard(sent.number)
        if sent.number != self._attempt:
            self._dropped(received.request, "it was given up before")
            return
        self._in_flight = False
        error = for_code(response.error_code)
        if error is NoError and (
            response.protocol_type not in (None, PROTOCOL_TYPE)
            or response.protocol_name not in (None, self._assignor)
        ):
            error = InconsistentGroupProtocolError
        if error is NoError:
            self._synced(response, sent)
        else:
            self._group_error(error, received)

    def _synced(self, response: Any, sent: _Sent) -> None:
        assert self._assignor is not None, "SyncGroup follows JoinGroup, which names the assignor"
        try:
            assigned = self.assignors.read(self._assignor, response.assignment, self._generation)
        except Exception as error:
            self._assignor_failed(error)
            return
        self._retry.reset()
        self._synced_at = self._now
        self._extend_session(sent)
        self._pulse.start(self._now, quick=self.assignors.cooperative)
        self._target = frozenset(one for one in assigned if one.topic in self._topics)
        self.log.info(
            "rebalance.synced",
            rebalance=self._rebalance,
            generation=self._generation,
            assigned=assigned,
            unwanted=assigned - self._target,
        )
        going = self._owned - self._target
        if not going:
            self._assign()
            return
        because = "the group gives them to another member"
        self._rejoin = "partitions were handed over: second round"
        self._start_handing_back(going, Loss.REVOKED, because)
        self._move(Trigger.REVOKE, because)

    def _assign(self) -> None:
        self._added = self._target - self._owned
        self._owned = self._target
        self._applied = False
        self._tell(
            AssignPartitions(
                rebalance=self._rebalance,
                assigned=self._owned,
                added=self._added,
                generation=self._generation,
            )
        )
        self._move(Trigger.ASSIGN, "the assignment may be applied")

    def _group_error(self, error: type[Exception], received: ResponseReceived) -> None:
        """JoinGroup or SyncGroup was refused."""
        because = _name(error)
        if error in (UnknownMemberIdError, IllegalGenerationError):
            self._retry.failed(received.now, received.jitter)
            self._fenced(error)
        elif error is RebalanceInProgressError and self.state is State.SYNCING:
            self._begin("the group rebalances again")
        elif (
            error in _COORDINATOR_GONE
            or getattr(error, "retriable", False)
            or (error is RebalanceInProgressError)
        ):
            if error in _COORDINATOR_GONE:
                self._suspect(received.node, because)
            self._try_again(because, received.now, received.jitter)
        else:
            self._fail(self._typed(error))

    def _try_again(self, because: str, now: float, jitter: float) -> None:
        self._retry.failed(now, jitter)
        self.log.info(
            "rebalance.delayed", rebalance=self._rebalance, state=self.state, because=because
        )
        if self.state is State.SYNCING:
            self._begin(because)

    # -- heartbeats

    def _heartbeat(self) -> tuple[Request, ...]:
        if self.state not in IN_GROUP or self._generation < 0 or self._coordinator is None:
            return ()
        if self._now < self._pulse.due:
            return ()
        settings = self.settings
        body = HeartbeatRequest(
            group_id=settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            min_version=None if self.instance_id is None else 3,
        )
        to, aside = self._way()
        failures = min(self._pulse.backoff.failures, len(HEARTBEAT_SHARES) - 1)
        timeout = min(
            settings.request_timeout, settings.session_timeout * HEARTBEAT_SHARES[failures]
        )
        note = self._note(self._pulse.sent(), aside=aside)
        return (self.request(body, to=to, deadline=self._now + timeout, context=note),)

    def _way(self) -> tuple[int | Destination, bool]:
        """A broker answers one connection's requests in order: go round a waiting JoinGroup."""
        assert self._coordinator is not None, "group requests are held back without a coordinator"
        if self._parked:
            return self._coordinator.node_id, True
        return Destination.COORDINATOR, False

    def on_heartbeat_answer(self, received: ResponseReceived) -> None:
        """Still a member, or not, or the group rebalances."""
        self._now = received.now
        sent = received.request.context
        if sent.number != self._pulse.number or not self._pulse.in_flight:
            self._dropped(received.request, "it was given up before")
            return
        error = for_code(received.response.error_code)
        confirmed = error in (NoError, RebalanceInProgressError)
        if confirmed:
            self._pulse.answered(received.now)
        else:
            self._pulse.failed(received.now, received.jitter)
        if (sent.generation, sent.member_id) != (self._generation, self._member_id):
            self._dropped(received.request, "the generation changed meanwhile")
        elif confirmed:
            self._extend_session(sent)
            if error is RebalanceInProgressError and sent.at >= self._synced_at:
                self._on_rebalance_in_progress()
        else:
            self._heartbeat_refused(error, received)

    def _on_rebalance_in_progress(self) -> None:
        # Before SyncGroup was answered we are part of that rebalance already.
        if self.state in (State.ASSIGNING, State.STABLE, State.REVOKING) and self._rejoin is None:
            self._rejoin = "the coordinator said that the group rebalances"

    def _heartbeat_refused(self, error: type[Exception], received: ResponseReceived) -> None:
        self.log.warning("heartbeat.failed", because=_name(error), state=self.state)
        if error in _COORDINATOR_GONE:
            self._suspect(received.node, _name(error))
        elif self.state is State.JOINING and self._in_flight:
            pass  # the answer to JoinGroup is on its way and says more
        elif error in (UnknownMemberIdError, IllegalGenerationError):
            self._fenced(error)
        elif not getattr(error, "retriable", False):
            self._fail(self._typed(error))

    def _extend_session(self, sent: _Sent) -> None:
        until = sent.at + self.settings.session_timeout
        if until > self._session_until:
            self._session_until = until
            self._tell(SessionExtended(until=until))

    # -- leaving

    def _leave_late(self) -> None:
        late = self._now - self._last_poll
        because = f"no poll for {late:.3f} s (max_poll_interval_ms)"
        self.log.warning(
            "poll.late",
            by=round(late - self.settings.max_poll_interval, 3),
            state=self.state,
            owned=len(self._owned),
            because=f"{because}: poll more often, take fewer records at a time"
            " (max_poll_records), or raise max_poll_interval_ms",
        )
        self._may_join = False
        self._farewell(self._member_id, because, self._now + self.settings.request_timeout)
        self._depart(because, member_id="")

    def _farewell(
        self, member_id: str, because: str, deadline: float, *, of_join: bool = False
    ) -> _Farewell | None:
        """A LeaveGroup to be sent; None if there is none: a static member stays (KIP-345)."""
        if self.instance_id is not None or not (member_id or of_join):
            return None
        farewell = _Farewell(
            member_id=member_id,
            because=because,
            deadline=deadline,
            backoff=Backoff(self.settings.retry_backoff, self.settings.retry_backoff_max),
            of_join=self._attempt if of_join else None,
        )
        self._farewells.append(farewell)
        return farewell

    def _leave_requests(self) -> tuple[Request, ...]:
        requests = []
        for farewell in tuple(self._farewells):
            if self._now >= farewell.deadline:
                self.log.warning(
                    "member.stayed",
                    member=farewell.member_id,
                    because="LeaveGroup was not answered in time; the session will end it",
                )
                self._end(farewell)
            elif self._can_be_sent(farewell) and self._now >= farewell.backoff.retry_at:
                farewell.in_flight = True
                requests.append(self._leave_group(farewell))
        return tuple(requests)

    def _can_be_sent(self, farewell: _Farewell) -> bool:
        known = farewell.of_join is None and self._coordinator is not None
        return known and not farewell.in_flight

    def _leave_group(self, farewell: _Farewell) -> Request:
        body = LeaveGroupRequest(
            group_id=self.settings.group_id,
            member_id=farewell.member_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=farewell.member_id,
                    group_instance_id=None,
                    reason=farewell.because[:REASON_MAX],
                )
            ],
        )
        deadline = min(farewell.deadline, self._now + self.settings.request_timeout)
        return self.request(body, to=self._way()[0], deadline=deadline, context=farewell)

    def on_leave_answer(self, received: ResponseReceived) -> None:
        """Gone, or unknown there, which is the same; or not the coordinator."""
        self._now = received.now
        farewell: _Farewell = received.request.context
        if farewell not in self._farewells:
            return
        error = for_code(received.response.error_code)
        if error in _COORDINATOR_GONE:
            self._suspect(received.node, _name(error))
        if error in _COORDINATOR_GONE or getattr(error, "retriable", False):
            farewell.in_flight = False
            farewell.backoff.failed(received.now, received.jitter)
            return
        self.log.info(
            "member.left",
            member=farewell.member_id,
            because=farewell.because,
            error=None if error is NoError else _name(error),
        )
        self._end(farewell)

    def _end(self, farewell: _Farewell) -> None:
        self._farewells.remove(farewell)
        for ticket in farewell.tickets:
            self._tell(Answered(ticket=ticket))
        if self.state is State.LEAVING and not any(one.tickets for one in self._farewells):
            self._move(Trigger.LEFT, "the group was told, or could not be told")

    # -- being thrown out

    def _fenced(self, error: type[Exception]) -> None:
        kept = self._member_id if error is IllegalGenerationError else ""
        self._depart(f"fenced: {_name(error)}", member_id=kept)

    def _fail(self, error: Exception) -> None:
        """The user has to do something: lose everything, tell, try again after the next poll."""
        self.log.error("group.failed", state=self.state, because=error)
        self._may_join = False
        self._not_before = self._now + FATAL_RETRY
        self._failure = error
        kept = ""
        if isinstance(error, FencedInstanceIdError):
            kept = self._member_id  # a new id would fence the other instance, and so on for ever
        elif not isinstance(error, GroupAuthorizationFailedError):
            deadline = self._now + self.settings.request_timeout
            self._farewell(self._member_id, type(error).__name__, deadline)
        self._depart(f"after {type(error).__name__}", member_id=kept)
        if self.state is State.UNJOINED:
            self._tell_failure()

    def _tell_failure(self) -> None:
        if self._failure is not None:
            self._tell(GroupFailed(error=self._failure))
            self._failure = None

    def _depart(self, because: str, *, member_id: str) -> None:
        """The membership is over: what is still owned is lost."""
        self.log.warning(
            "member.lost",
            member=self._member_id,
            generation=self._generation,
            partitions=self._owned,
            because=because,
        )
        self._forget(member_id=member_id)
        self._rejoin = because
        if self._owned:
            self._rebalance += 1
            self._start_handing_back(self._owned, Loss.LOST, because)
            self._move(Trigger.LOSE, because)
        else:
            self._move(Trigger.FORGET, because)

    def _forget(self, *, member_id: str) -> None:
        """No generation any more; answers to what was asked in it are dropped."""
        self._member_id = member_id
        self._generation = -1
        self._assignor = None
        self._attempt += 1
        self._in_flight = False
        self._hand_back = None
        self._rejoin = None
        self._applied = False
        self._pulse.stop()
        self._forget_plan()
        self._track(frozenset())

    def _forget_plan(self) -> None:
        self._plan = None
        self._assigned_by = None

    # -- requests without an answer

    def on_request_failed(self, failed: RequestFailed) -> None:
        """A timeout, a broken connection, or a broker that is too old."""
        self._now = failed.now
        body = failed.request.body
        if isinstance(body, LeaveGroupRequest):
            self._leave_failed(failed)
        elif isinstance(body, HeartbeatRequest):
            self._heartbeat_failed(failed)
        else:
            self._group_request_failed(failed)

    def _group_request_failed(self, failed: RequestFailed) -> None:
        sent = failed.request.context
        self._parked.discard(sent.number)
        for farewell in [one for one in self._farewells if one.of_join == sent.number]:
            self._end(farewell)
        if sent.number != self._attempt:
            self._dropped(failed.request, "it was given up before")
            return
        self._in_flight = False
        if isinstance(failed.error, UnsupportedVersionError):
            self._fail(self._typed(UnsupportedVersionError))
            return
        self._suspect_unless_refused(failed)
        self._try_again(str(failed.error), failed.now, failed.jitter)

    def _heartbeat_failed(self, failed: RequestFailed) -> None:
        sent = failed.request.context
        if sent.number != self._pulse.number:
            self._dropped(failed.request, "it was given up before")
            return
        self._pulse.failed(failed.now, failed.jitter)
        self.log.warning("heartbeat.failed", because=failed.error, state=self.state)
        if isinstance(failed.error, UnsupportedVersionError):
            self._fail(self._typed(UnsupportedVersionError))
        elif not sent.aside or isinstance(failed.error, KafkaTimeoutError):
            # The connection beside may come and go; only silence says something of the broker.
            self._suspect_unless_refused(failed)

    def _leave_failed(self, failed: RequestFailed) -> None:
        farewell: _Farewell = failed.request.context
        if farewell not in self._farewells:
            return
        farewell.in_flight = False
        farewell.backoff.failed(failed.now, failed.jitter)
        if isinstance(failed.error, UnsupportedVersionError):
            self._end(farewell)
        else:
            self._suspect_unless_refused(failed)

    def _suspect_unless_refused(self, failed: RequestFailed) -> None:
        if failed.node is not None and not isinstance(failed.error, AuthenticationError):
            self._suspect(failed.node, str(failed.error))

    def _suspect(self, node: int, because: str) -> None:
        self.log.info("coordinator.suspected", node=node, because=because)
        self._tell(SuspectCoordinator(node_id=node, because=because))

    # -- small things

    def _tell(self, message: object) -> None:
        self._outbox.append(message)

    def _track(self, topics: frozenset[str]) -> None:
        if topics != self._tracked:
            self._tracked = topics
            self._tell(TrackTopics(owner="group", topics=topics))

    def _is_new(self) -> bool:
        return self._rebalance == self._first_rebalance

    def _dropped(self, request: Request, because: str) -> None:
        self.log.info("answer.dropped", request=type(request.body).__name__, because=because)

    def _move(self, trigger: Trigger, because: str) -> None:
        """The only place where `state` is assigned."""
        before = self.state
        self.state = move(before, trigger)
        self.log.info(
            "membership.moved",
            before=before,
            after=self.state,
            trigger=trigger,
            because=because,
            rebalance=self._rebalance,
        )

    def _news(self) -> Iterable[MemberChanged]:
        """Who we are, if that changed since it was said last."""
        state = MemberState.REBALANCING
        if self.state not in IN_GROUP:
            state = MemberState.UNJOINED
        elif self.state is State.STABLE:
            state = MemberState.STABLE
        news = MemberChanged(
            member_id=self._member_id if self._generation >= 0 else "",
            generation=self._generation,
            state=state,
            assignor=self._assignor,
        )
        if news == self._said or self._is_new():
            return ()
        self._said = news
        return (news,)

    def _typed(self, error: type[Exception]) -> Exception:
        """The error with what a reader needs: which group, which member, what to do."""
        remedy = _REMEDIES.get(error, "see the broker's log")
        member = self.instance_id or self._member_id or "not joined yet"
        return error(
            f"{_name(error)}: the coordinator refused group {self.settings.group_id!r}"
            f" (member: {member}); {remedy}"
        )

    def _wake_at(self) -> float:
        times = [NEVER]
        if self.state is State.UNJOINED and self._topics and self._may_join:
            times.append(self._join_at())
        if self.state in IN_GROUP:
            times.append(self._last_poll + self.settings.max_poll_interval)
        if self._hand_back is not None and self._hand_back.stage is _Stage.COMMITTING:
            times.append(self._hand_back.commit_until)
        times += [one.deadline for one in self._farewells]
        if self._coordinator is not None:
            times += self._send_times()
        return min(times)

    def _send_times(self) -> Iterable[float]:
        if self.state in IN_GROUP and self._generation >= 0:
            yield self._pulse.due
        if self.state is State.JOINING and not self._in_flight:
            yield self._retry.retry_at
        if self.state is State.SYNCING and not self._in_flight:
            yield self._plan_until
        for farewell in self._farewells:
            if self._can_be_sent(farewell):
                yield farewell.backoff.retry_at


def _name(error: type[Exception]) -> str:
    """Kafka's own name for an error: "UNKNOWN_MEMBER_ID"."""
    return str(getattr(error, "message", None) or error.__name__)
