"""A member of a classic group: its state, what it owns, and the rebalance it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import AGAIN, NEVER
from aktor.events.membership import Loss, MemberChanged, MemberState
from aktor.events.message import Message
from aktor.events.metadata import Cluster
from aktor.managers.membership.classic.assignors import Assignors
from aktor.managers.membership.classic.leader import Leader
from aktor.managers.membership.classic.requests import Identity
from aktor.managers.membership.classic.states import IN_GROUP, TRANSITIONS, State, Trigger
from aktor.managers.membership.member import NOTHING, GroupMember
from aktor.managers.membership.revocation import Revocation
from aktor.settings import Settings
from aktor.trace import Trace, reasons
from aktor.values import replace

__all__ = ["Member"]


class Member(GroupMember[State, Trigger]):
    """Owns what a `GroupMember` owns, the member's id and generation, and the leader's part."""

    TRANSITIONS = TRANSITIONS

    def __init__(
        self,
        settings: Settings,
        assignors: Assignors,
        *,
        incarnation: int,
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, say=say, log=log)
        self._assignors = assignors
        # the member's id and generation
        self.me = Identity()
        self.assignor: str | None = None
        self.leader = Leader(settings, assignors, say)
        # the rebalance under way
        self.rejoin: str | None = None
        self._target = NOTHING

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

    @property
    def is_cooperative(self) -> bool:
        """Whether partitions are kept while the group rebalances (KIP-429)."""
        return self._assignors.cooperative

    @property
    def generation(self) -> int:
        """The generation of the last JoinGroup; -1 if there is none."""
        return self.me.generation

    @property
    def _is_assigning(self) -> bool:
        return self.state is State.ASSIGNING

    # -- what the application wants

    def subscribe(self, topics: frozenset[str], member_id: str) -> None:
        """Subscribe to these topics, under the id that the application knows."""
        self.subscription.change(topics)
        self.remember(member_id)

    def remember(self, member_id: str) -> None:
        """The application knows this id: it is used before the first rebalance only. If it is
        empty, an id that is known already stays: the member would be in the group until its session
        ends, and nobody would know it."""
        if self.rebalance.is_first and member_id:
            self.me = Identity(member_id=member_id)

    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""
        self.leader.cluster_changed(cluster)

    # -- what the manager knows of its requests

    def take_member_id(self, member_id: str) -> None:
        """The coordinator has given us this id, and wants a JoinGroup with it (KIP-394)."""
        self.me = replace(self.me, member_id=member_id)

    def must_rejoin(self, because: str) -> None:
        """The rebalance has to begin again."""
        self.rejoin = because

    # -- the next step

    def advance(self, now: float) -> float:
        """The next step of the member, as a duty: AGAIN if there was one to take."""
        match self.state:
            case State.PREPARING | State.REVOKING | State.LOSING:
                return self._advance_revocation(now)
            case State.ASSIGNING if self.rebalance.callback_succeeded is not None:
                self._complete(now)
                return AGAIN
            case State.SYNCING if self.rejoin is not None:
                self.begin(self.rejoin, now)
                return AGAIN
            case State.STABLE:
                because = self._reason_to_rejoin()
                if because is not None:
                    self.begin(because, now)
                    return AGAIN
        return NEVER

    def rebalance_announced(self) -> None:
        """The coordinator said that the group rebalances."""
        # While it joins, the member takes part in that rebalance already.
        synced = self.state in (State.ASSIGNING, State.STABLE, State.REVOKING)
        if synced and self.rejoin is None:
            self.rejoin = reasons.GROUP_REBALANCES

    def _reason_to_rejoin(self) -> str | None:
        if self.rejoin is not None:
            return self.rejoin
        if self.subscription.has_changed():
            return reasons.SUBSCRIPTION_CHANGED
        return self.leader.reason_to_assign_again()

    def begin(self, because: str, now: float) -> None:
        """A rebalance begins: revoke what has to be revoked, then join."""
        if self.state in (State.UNJOINED, State.STABLE):
            self.rebalance.begin(now)
        self.rebalance.next()
        self.rebalance.explain(because)
        self.rejoin = None
        self.rebalance.forget_callback()
        self.subscription.joins()
        self.leader.forget_plan()
        self._trace_triggered(self.member_id)
        revoked = self.owned
        if self._assignors.cooperative:
            topics = self.subscription.topics
            revoked = frozenset(
                partition for partition in self.owned if partition.topic not in topics
            )
        if revoked:
            self._start_revoking(revoked, Loss.REVOKED, because)
            self.move(Trigger.PREPARE, because)
        else:
            self.move(Trigger.JOIN, because)

    def offers(self) -> list[tuple[str, bytes]]:
        """The offers for JoinGroup: (assignor, encoded subscription), the preferred one first."""
        topics = self.subscription.joined_topics
        return self._assignors.subscriptions(topics, self.owned, self.me.generation)

    def joined(self, response: Any) -> None:
        """JoinGroup succeeded: a new generation."""
        self.me = Identity(member_id=response.member_id, generation=response.generation_id)
        self.log = self.log.bind(member=self.me.member_id)
        self.assignor = response.protocol_name
        self.move(Trigger.JOINED, "the group has a new generation")
        leads = response.leader == response.member_id
        # A mapping: the trace cuts long lists. Of a leader alone: no other member is told who is in
        # the group, and a member whose session has ended can be seen by this list only.
        ids = {member.member_id: member.group_instance_id for member in response.members}
        self.log.info(
            "rebalance.joined",
            rebalance=self.rebalance.number,
            generation=self.me.generation,
            member=self.member_id,
            leads=leads,
            members=len(response.members) if leads else None,
            member_ids=ids if leads else None,
            assignor=self.assignor,
        )

    def lead_or_follow(self, response: Any, now: float) -> None:
        """Become the leader or a follower; raises whatever decoding the members raises."""
        leads = response.leader == response.member_id
        if leads:
            self.leader.lead(response, now)
        else:
            self.leader.follow()

    def assignments(self) -> Mapping[str, bytes]:
        """The assignments that SyncGroup carries; empty if this member does not lead.

        Raises whatever the assignor raises.
        """
        made, plan = self.leader.assign(), self.leader.plan
        if made is None or plan is None:
            return {}
        self.log.info(
            "rebalance.assigned",
            rebalance=self.rebalance.number,
            assignor=self.assignor,
            members=len(plan.members),
            topic_count=len(plan.topics),
            missing=self.leader.missing(),
        )
        return made

    def read(self, assignment: bytes) -> frozenset[TopicPartition]:
        """The partitions that SyncGroup assigned; raises whatever the assignor raises."""
        assert self.assignor is not None, "SyncGroup follows JoinGroup, which names the assignor"
        return self._assignors.read(self.assignor, assignment, self.me.generation)

    def synced(self, assigned: frozenset[TopicPartition]) -> None:
        """SyncGroup succeeded: the member owns `assigned`; revoke what is not in it."""
        topics = self.subscription.topics
        self._target = frozenset(partition for partition in assigned if partition.topic in topics)
        self.log.info(
            "rebalance.synced",
            rebalance=self.rebalance.number,
            generation=self.me.generation,
            assigned=assigned,
            unwanted=assigned - self._target,
        )
        revoked = self.owned - self._target
        if not revoked:
            self._assign()
            return
        because = "the group gives them to another member"
        self.rejoin = reasons.SECOND_ROUND
        self._start_revoking(revoked, Loss.REVOKED, because)
        self.move(Trigger.REVOKE, because)

    def _assign(self) -> None:
        self.rebalance.note_added(self._target - self.owned)
        self.owned = self._target
        self._start_assigning()
        self.move(Trigger.ASSIGN, "the assignment may be applied")

    def _complete(self, now: float) -> None:
        self.rebalance.forget_callback()
        self.move(Trigger.APPLIED, "the application has the assignment")
        self._trace_completed(now)

    def _on_revoked(self, step: Revocation) -> None:
        super()._on_revoked(step)
        match self.state:
            case State.PREPARING:
                self.move(Trigger.JOIN, self.rebalance.because)
            case State.REVOKING:
                self._assign()
            case _:
                self.move(Trigger.FORGET, "the lost callback returned")

    # -- the end

    def leave(self) -> None:
        """The application has released all partitions."""
        super().leave()
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
        self._forget(member_id=member_id)
        self.rejoin = because
        gives_up = self._lose_everything(because)
        self.move(Trigger.LOSE if gives_up else Trigger.FORGET, because)

    def _forget(self, *, member_id: str) -> None:
        """The membership is over: forget the generation; `member_id` is kept for the next join."""
        self.me = Identity(member_id=member_id)
        self.assignor = None
        self.rejoin = None
        self.rebalance.forget_callback()
        self.leader.forget_plan()
        self.leader.follow()

    # -- where we are

    def news(self, leaving: frozenset[str] = frozenset()) -> Iterable[MemberChanged]:
        """The member's state in the group, if it changed since it was said last.

        `leaving`: the member ids whose LeaveGroup is not answered. The application gives them to a
        restarted membership manager.
        """
        if self.rebalance.is_first:
            return ()
        state = MemberState.REBALANCING
        if not self.in_group:
            state = MemberState.UNJOINED
        elif self.state is State.STABLE:
            state = MemberState.STABLE
        me, assignor, is_revoking = self.me, self.assignor, self.is_revoking
        if self._note_told(state, me, assignor, is_revoking, leaving):
            return ()
        joined = self.has_generation
        changed = MemberChanged(
            member_id=me.member_id if joined else "",
            generation=me.generation,
            state=state,
            assignor=assignor,
            joins_as="" if joined else me.member_id,
            is_revoking=is_revoking,
            leaving=leaving,
        )
        return (changed,)

    def track_again(self) -> None:
        """The metadata manager was restarted: tell it again which topics the group needs."""
        self.leader.track_again()
