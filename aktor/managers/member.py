"""A member of a classic group: its state, what it owns, and the rebalance it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from kafka.structs import TopicPartition

from aktor.events.commits import RevocationCommitted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    MemberChanged,
    MemberState,
    PartitionsReleased,
    RunRevokedCallback,
)
from aktor.events.metadata import Cluster
from aktor.managers.assignment import Assignors
from aktor.managers.classic_states import IN_GROUP, State, Trigger, move
from aktor.managers.group_requests import Identity
from aktor.managers.hand_back import HandBack, Stage
from aktor.managers.leader import Leader
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["Member"]

Answer: TypeAlias = PartitionsReleased | RevocationCommitted | CallbackFinished

#: More rebalances than one incarnation will see.
REBALANCES_PER_LIFE: Final = 1_000_000


class Member:
    """Owns the state, who we are in the group, the partitions, and the rebalance under way.

    The state is assigned in `move` alone. `tell` takes what is to be said; `log` is the manager's.
    """

    def __init__(
        self,
        settings: Settings,
        assignors: Assignors,
        *,
        incarnation: int,
        tell: Callable[[object], None],
        log: Trace,
    ) -> None:
        self.log = log
        self._settings = settings
        self._assignors = assignors
        self._tell = tell
        self._said: MemberChanged | None = None
        self.state = State.UNJOINED
        # what the application wants
        self.topics: frozenset[str] = frozenset()
        self.may_join = False
        # who we are in the group
        self.me = Identity()
        self.assignor: str | None = None
        self.owned: frozenset[TopicPartition] = frozenset()
        self.leader = Leader(assignors)
        # the rebalance under way
        # Answers to an earlier incarnation's steps must not be taken for answers to ours.
        self.rebalance = self._first_rebalance = (incarnation - 1) * REBALANCES_PER_LIFE
        self.because = ""
        self.rejoin: str | None = None
        self._began = 0.0
        self._joined_topics: frozenset[str] = frozenset()
        self._target: frozenset[TopicPartition] = frozenset()
        self._added: frozenset[TopicPartition] = frozenset()
        self._revoked = 0
        self._hand_back: HandBack | None = None
        self._applied = False

    @property
    def in_group(self) -> bool:
        """Whether the group counts on us."""
        return self.state in IN_GROUP

    @property
    def is_confirmed(self) -> bool:
        """Whether heartbeats keep us in: the group counts on us, and has said so."""
        return self.in_group and self.has_generation

    @property
    def member_id(self) -> str:
        """Our id; empty before the group has given us one."""
        return self.me.member_id

    @property
    def has_generation(self) -> bool:
        """Whether a JoinGroup has succeeded and nothing has ended it."""
        return self.me.generation >= 0

    # -- what the application wants and answers

    def subscribe(self, topics: frozenset[str], member_id: str) -> None:
        """Other topics; `member_id` counts before the first rebalance only."""
        self.topics = topics
        self.may_join = False
        if self._is_new():
            self.me = Identity(member_id=member_id)

    def wants_to_join(self) -> bool:
        """Whether there is something to join for, and a poll has asked for it."""
        return bool(self.topics) and self.may_join

    def heard(self, answer: Answer) -> bool:
        """Note that the application or the commits did a step; False (traced) if it is over."""
        current = answer.rebalance == self.rebalance
        if isinstance(answer, CallbackFinished) and current and self.state is State.ASSIGNING:
            self._applied = True
            return True
        if self._hand_back is not None and self._hand_back.heard(answer):
            return True
        self.log.info(
            "step.dropped",
            message=type(answer).__name__,
            of_rebalance=answer.rebalance,
            rebalance=self.rebalance,
            because="the rebalance went on without it",
        )
        return False

    def commits_restarted(self) -> None:
        """The last commit will not be answered: go on without it."""
        step = self._hand_back
        if step is not None and step.stage is Stage.COMMITTING:
            self.log.warning("commit.abandoned", because="the commits actor was restarted")
            step.heard(RevocationCommitted(rebalance=step.rebalance))

    # -- the way round

    def advance(self, now: float, cluster: Cluster) -> bool:
        """One step on the way round, if there is one to take now; False if not."""
        match self.state:
            case State.PREPARING | State.REVOKING | State.LOSING:
                return self._hand_back_further(now)
            case State.ASSIGNING if self._applied:
                self._complete(now)
                return True
            case State.SYNCING if self.rejoin is not None:
                self.begin(self.rejoin, now)
                return True
            case State.STABLE:
                because = self._reason_to_rejoin(cluster)
                if because is not None:
                    self.begin(because, now)
                return because is not None
        return False

    def rebalances(self) -> None:
        """The coordinator said that the group rebalances."""
        # Before SyncGroup was answered we are part of that rebalance already.
        synced = self.state in (State.ASSIGNING, State.STABLE, State.REVOKING)
        if synced and self.rejoin is None:
            self.rejoin = "the coordinator said that the group rebalances"

    def _reason_to_rejoin(self, cluster: Cluster) -> str | None:
        if self.rejoin is not None:
            return self.rejoin
        if self.topics != self._joined_topics and self.may_join:
            return "the subscription changed"
        return self.leader.reason_to_assign_again(cluster)

    def begin(self, because: str, now: float) -> None:
        """A rebalance begins: hand back what has to be, then join."""
        if self.state in (State.UNJOINED, State.STABLE):
            self._began = now
            self._revoked = 0
        self.rebalance += 1
        self.because = because
        self.rejoin = None
        self._applied = False
        self._joined_topics = self.topics
        self.leader.forget_plan()
        self.log.info(
            "rebalance.triggered",
            rebalance=self.rebalance,
            because=because,
            member=self.member_id,
            generation=self.me.generation,
            owned=len(self.owned),
        )
        going = self.owned
        if self._assignors.cooperative:
            going = frozenset(one for one in self.owned if one.topic not in self.topics)
        if going:
            self._start_handing_back(going, Loss.REVOKED, because)
            self.move(Trigger.PREPARE, because)
        else:
            self.move(Trigger.JOIN, because)

    def offers(self) -> list[tuple[str, bytes]]:
        """What JoinGroup offers: (assignor, encoded subscription), the preferred one first."""
        return self._assignors.subscriptions(self._joined_topics, self.owned, self.me.generation)

    def joined(self, response: Any) -> None:
        """JoinGroup succeeded: a new generation."""
        self.me = Identity(member_id=response.member_id, generation=response.generation_id)
        self.log = self.log.bind(member=self.me.member_id)
        self.assignor = response.protocol_name
        self.move(Trigger.JOINED, "the group has a new generation")
        leads = response.leader == response.member_id
        self.log.info(
            "rebalance.joined",
            rebalance=self.rebalance,
            generation=self.me.generation,
            member=self.member_id,
            leader=leads,
            members=len(response.members) if leads else None,
            assignor=self.assignor,
        )

    def lead_or_follow(self, response: Any, cluster: Cluster, now: float) -> None:
        """Take up the leader's part, or none; raises whatever decoding the members raises."""
        leads = response.leader == response.member_id
        said = self.leader.lead(response, cluster, now) if leads else self.leader.follow()
        for one in said:
            self._tell(one)

    def assignments(self, cluster: Cluster) -> Mapping[str, bytes]:
        """What SyncGroup carries: the leader's assignment, nothing from everybody else.

        Raises whatever the assignor raises.
        """
        made, plan = self.leader.assign(cluster), self.leader.plan
        if made is None or plan is None:
            return {}
        self.log.info(
            "rebalance.assigned",
            rebalance=self.rebalance,
            assignor=self.assignor,
            members=len(plan.members),
            topics=len(plan.topics),
            missing=plan.missing(cluster),
        )
        return made

    def read(self, assignment: bytes) -> frozenset[TopicPartition]:
        """The partitions that SyncGroup assigned; raises whatever the assignor raises."""
        assert self.assignor is not None, "SyncGroup follows JoinGroup, which names the assignor"
        return self._assignors.read(self.assignor, assignment, self.me.generation)

    def synced(self, assigned: frozenset[TopicPartition]) -> None:
        """SyncGroup succeeded: this is ours; hand back what is not."""
        self._target = frozenset(one for one in assigned if one.topic in self.topics)
        self.log.info(
            "rebalance.synced",
            rebalance=self.rebalance,
            generation=self.me.generation,
            assigned=assigned,
            unwanted=assigned - self._target,
        )
        going = self.owned - self._target
        if not going:
            self._assign()
            return
        because = "the group gives them to another member"
        self.rejoin = "partitions were handed over: second round"
        self._start_handing_back(going, Loss.REVOKED, because)
        self.move(Trigger.REVOKE, because)

    def _assign(self) -> None:
        self._added = self._target - self.owned
        self.owned = self._target
        self._applied = False
        self._tell(
            AssignPartitions(
                rebalance=self.rebalance,
                assigned=self.owned,
                added=self._added,
                generation=self.me.generation,
            )
        )
        self.move(Trigger.ASSIGN, "the assignment may be applied")

    def _complete(self, now: float) -> None:
        self._applied = False
        self.move(Trigger.APPLIED, "the application has the assignment")
        self.log.info(
            "rebalance.completed",
            rebalance=self.rebalance,
            because=self.because,
            ms=round((now - self._began) * 1000, 3),
            generation=self.me.generation,
            owned=len(self.owned),
            added=self._added,
            revoked=self._revoked,
        )

    # -- handing back

    def _start_handing_back(
        self, partitions: frozenset[TopicPartition], loss: Loss, because: str
    ) -> None:
        self._hand_back = HandBack(
            self._settings, rebalance=self.rebalance, partitions=partitions, loss=loss
        )
        self._tell(self._hand_back.begin(because))

    def _hand_back_further(self, now: float) -> bool:
        """The next of: released, committed, callback run; then the state that waited for it."""
        step = self._hand_back
        assert step is not None, f"{self.state} hands partitions back"
        if step.stage is Stage.FINISHED:
            self._hand_back = None
            self._handed_back(step)
            return True
        before, said = step.stage, step.say(now)
        if said is None:
            return False
        if before is Stage.COMMITTING:
            self.log.warning("commit.abandoned", because="it did not end in time")
        if isinstance(said, RunRevokedCallback):
            # Whatever happens meanwhile, the application drops them when its callback returns.
            self.owned -= step.partitions
        self._tell(said)
        return True

    def _handed_back(self, step: HandBack) -> None:
        match self.state:
            case State.PREPARING:
                self._revoked += len(step.partitions)
                self.move(Trigger.JOIN, self.because)
            case State.REVOKING:
                self._revoked += len(step.partitions)
                self._assign()
            case _:
                self.move(Trigger.FORGET, "the lost callback returned")

    def wake_at(self) -> Iterable[float]:
        """When a step that takes too long is given up."""
        return [] if self._hand_back is None else [self._hand_back.wake_at()]

    # -- the end

    def leave(self) -> None:
        """The application has let go of everything."""
        self.topics = frozenset()
        self.may_join = False
        self.owned = frozenset()
        self.rebalance += 1
        self._forget(member_id="")

    def depart(self, because: str, *, member_id: str) -> None:
        """The membership is over: what is still owned is lost. `member_id` is kept."""
        self.log.warning(
            "member.lost",
            member=self.member_id,
            generation=self.me.generation,
            partitions=self.owned,
            because=because,
        )
        step = self._hand_back
        self._forget(member_id=member_id)
        self.rejoin = because
        if self.owned:
            self.rebalance += 1
            self._start_handing_back(self.owned, Loss.LOST, because)
            self.move(Trigger.LOSE, because)
        elif step is not None and step.stage is Stage.CALLING:
            # Its callback may have yet to begin: it must not commit as the member that joins anew.
            self._hand_back = step
            self.move(Trigger.LOSE, because)
        else:
            self.move(Trigger.FORGET, because)

    def _forget(self, *, member_id: str) -> None:
        """No generation any more."""
        self.me = Identity(member_id=member_id)
        self.assignor = None
        self.rejoin = None
        self._hand_back = None
        self._applied = False
        self.leader.forget_plan()
        for said in self.leader.follow():
            self._tell(said)

    # -- where we are

    def move(self, trigger: Trigger, because: str) -> None:
        """The only place where `state` is assigned."""
        before = self.state
        self.state = move(before, trigger)
        self.log.info(
            "membership.moved",
            before=before,
            after=self.state,
            trigger=trigger,
            because=because,
            rebalance=self.rebalance,
        )

    def news(self) -> Iterable[MemberChanged]:
        """Who we are, if that changed since it was said last."""
        state = MemberState.REBALANCING
        if not self.in_group:
            state = MemberState.UNJOINED
        elif self.state is State.STABLE:
            state = MemberState.STABLE
        news = MemberChanged(
            member_id=self.member_id if self.has_generation else "",
            generation=self.me.generation,
            state=state,
            assignor=self.assignor,
        )
        if news == self._said or self._is_new():
            return ()
        self._said = news
        return (news,)

    def say_again(self) -> None:
        """Somebody who was told was restarted."""
        self._said = None
        for said in self.leader.tracked():
            self._tell(said)

    def _is_new(self) -> bool:
        return self.rebalance == self._first_rebalance
