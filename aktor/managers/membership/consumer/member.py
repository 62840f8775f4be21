"""A member of a KIP-848 group: its state, what it owns, and the reconciliation under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import AGAIN, NEVER
from aktor.events.membership import Loss, MemberChanged, MemberState
from aktor.events.message import Message
from aktor.events.metadata import Cluster
from aktor.managers.membership.consumer.claim import Claim
from aktor.managers.membership.consumer.heartbeats import LocalAssignment, Report, claimed
from aktor.managers.membership.consumer.reconciliation import (
    Event,
    Reconciliation,
    ReconciliationStage,
    Target,
)
from aktor.managers.membership.consumer.states import IN_GROUP, TRANSITIONS, State, Trigger
from aktor.managers.membership.consumer.topic_names import TopicNames
from aktor.managers.membership.member import GroupMember
from aktor.managers.membership.revocation import Revocation
from aktor.settings import Settings
from aktor.trace import Trace, reasons

__all__ = ["ConsumerMember"]


class ConsumerMember(GroupMember[State, Trigger]):
    """Owns what a `GroupMember` owns, and our epoch, the target, the claim, the topic names and the
    reconciliation.

    Three things are told apart: the target is what the coordinator wants us to own; `owned` is what
    the application has (or is being given); the claim is what we say that we own, which grows
    before partitions are assigned to the application, and shrinks when it has released them.
    """

    TRANSITIONS = TRANSITIONS

    def __init__(
        self,
        settings: Settings,
        *,
        member_id: str,
        incarnation: int,
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, say=say, log=log)
        self.member_id = member_id
        self.epoch = 0
        self._target = Target()
        self._claim = Claim()
        #: Everything that the coordinator has given us: the target, and what earlier ones gave us
        #: since it last read what we own. If a later target takes a partition away, the coordinator
        #: waits until we report that we do not own it, even if we never did.
        self._given: LocalAssignment = {}
        self._names = TopicNames(say=say, log=log)
        self._reconciliation = Reconciliation()
        #: The topics and the pattern of the last heartbeat.
        self._told: tuple[frozenset[str], str] | None = None

    @property
    def in_group(self) -> bool:
        """Whether the coordinator counts on us, or is about to."""
        return self.state in IN_GROUP

    @property
    def has_generation(self) -> bool:
        """Whether the coordinator has given us an epoch that nothing has ended."""
        return self.epoch > 0

    @property
    def generation(self) -> int:
        """The epoch; 0 if there is none."""
        return self.epoch

    @property
    def _is_assigning(self) -> bool:
        return self._reconciliation.stage is ReconciliationStage.ASSIGNING

    def report(self) -> Report:
        """All that a heartbeat may have to tell the coordinator."""
        return Report(
            member_id=self.member_id,
            epoch=self.epoch,
            topics=self.subscription.topics,
            regex=self.subscription.regex,
            owned=self._claim.acknowledged,
            assigning=self._claim.assigning,
            target=self._claim.of_target,
        )

    def owes(self, target: LocalAssignment | None = None, *, reports: bool) -> bool:
        """Whether the coordinator waits for partitions that it has not heard to be given up; with
        this target, or with the one that is known. `reports`: it hears now what is owned."""
        wanted = self._target.assignment if target is None else target
        held = [self._claim.acknowledged, self._claim.assigning]
        if not reports:
            held.append(self._given)
        return any(
            not numbers <= wanted.get(topic, frozenset())
            for one in held
            for topic, numbers in one.items()
        )

    # -- what the application wants

    def polled(self) -> None:
        """The application polls: it may be given partitions, and a refused callback runs again."""
        super().polled()
        if self._reconciliation.stage is ReconciliationStage.REFUSED:
            self._reconciliation.on(Event.POLLED)

    # -- what the coordinator says

    def join(self, trigger: Trigger, because: str) -> None:
        """Join, or join again, with epoch 0 and no partitions."""
        self.rebalance.explain(because)
        self._trace_triggered(self.member_id)
        self.move(trigger, because)

    def answered(self, epoch: int, target: LocalAssignment | None, now: float) -> None:
        """A heartbeat was answered: with our epoch, and with a target if that has changed."""
        if self._claim.is_unanswered:
            self._given = {}
        self._given = claimed(self._given, self._target.assignment if target is None else target)
        self._claim.answered()
        self._names.doubt_anew()
        if epoch != self.epoch:
            self.log.debug("member.epoch", before=self.epoch, after=epoch, member=self.member_id)
            self.epoch = epoch
        if target is not None:
            self._target = Target(self._target.number + 1, target)
            self.log.info(
                "rebalance.target",
                generation=epoch,
                partition_count=sum(map(len, target.values())),
                topic_count=len(target),
            )
        if self.state is State.JOINING:
            self._begin(reasons.TAKEN_IN, now)
        elif self.state is State.STABLE and target is not None and not self._is_reached():
            self._begin(reasons.ASSIGNED_ANEW, now)

    def _begin(self, because: str, now: float) -> None:
        self.rebalance.begin(now)
        self.rebalance.explain(because)
        self.move(Trigger.RECONCILE, because)

    def _is_reached(self) -> bool:
        return self._target.assignment == self._claim.acknowledged

    def heartbeat_sent(self, now: float, *, reports_owned: bool) -> None:
        """A heartbeat goes out; `reports_owned`: it says what we own."""
        if reports_owned:
            self._claim.reported()
        told, self._told = self._told, (self.subscription.topics, self.subscription.regex)
        if self.has_generation and told is not None and told != self._told:
            # The group has a new epoch by that. The coordinator does not tell any member why.
            self.log.info(
                "subscription.told",
                topics=self.subscription.topics,
                regex=self.subscription.regex,
                because=reasons.SUBSCRIPTION_CHANGED,
            )
        if self.state is not State.ACKNOWLEDGING:
            return
        if self._is_reached():
            self._settle(now)
        else:
            self.move(Trigger.RECONCILE, reasons.TARGET_NOT_REACHED)

    def _settle(self, now: float) -> None:
        self.move(Trigger.SETTLE, "the target is owned")
        self._trace_completed(now)

    # -- the next step

    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""
        self._names.cluster_changed(cluster)

    def advance(self, now: float) -> float:
        """The next step of the member, as a duty: AGAIN if there was one to take."""
        if self._revocation is not None:
            return self._advance_revocation(now)
        if self.state is State.RECONCILING:
            return AGAIN if self._reconcile(now) else NEVER
        if self.state is State.FENCED and self.subscription:
            self.join(Trigger.REJOIN, self.rebalance.because)
            return AGAIN
        if self.state is State.STABLE and self._recreated():
            self._begin(reasons.TOPIC_RECREATED, now)
            return AGAIN
        return NEVER

    def _recreated(self) -> list[Any]:
        return self._names.recreated(self._claim.topics)

    def _reconcile(self, now: float) -> bool:
        """One step of the reconciliation; False if it waits for a message."""
        reconciliation = self._reconciliation
        match reconciliation.stage:
            case ReconciliationStage.RESOLVING:
                return self._resolve(now)
            case ReconciliationStage.ADDING if reconciliation.of_target != self._target.number:
                reconciliation.on(Event.RETARGETED)
                return True
            case ReconciliationStage.ADDING:
                return self._assign()
            case ReconciliationStage.ASSIGNING:
                return self._finish()
        return False

    def _resolve(self, now: float) -> bool:
        """Begin to reconcile the part of the target whose topic names are known; False if there is
        nothing to do before a message comes."""
        if recreated := self._recreated():
            self._lose(recreated)
            return True
        target = self._target.assignment
        named = self._names.resolve(target)
        self._track()
        reachable = {topic: target[topic] for topic in named}
        wanted = frozenset(
            TopicPartition(name, number)
            for topic, name in named.items()
            for number in target[topic]
        )
        there = wanted == self.owned and reachable == self._claim.acknowledged
        awaited = self._names.are_awaited
        if there and not self._reconciliation.owes_callback(names_are_awaited=awaited):
            return self._nothing_to_do(now)
        self._reconciliation.begin(self._target.number, reachable, wanted)
        self.rebalance.next()
        self._trace_triggered(self.member_id)
        if revoked := self.owned - wanted:
            self._start_revoking(revoked, Loss.REVOKED, "the group gives them to another member")
        else:
            self._reconciliation.on(Event.REVOKED)
        return True

    def _nothing_to_do(self, now: float) -> bool:
        if not self._names.are_awaited:
            self._claim.advance_to(self._target.number)
            self._settle(now)
            return True
        if self._claim.of_target == self._target.number:
            return False
        # Acknowledge once for each target: the coordinator may then give to others what the new
        # target takes from us, also of topics whose names we do not know.
        self._claim.advance_to(self._target.number)
        self.move(Trigger.ACKNOWLEDGE, "nothing more of the target can be had yet")
        return True

    def _lose(self, recreated: list[Any]) -> None:
        """Lose the partitions of topics that were deleted and created again, by their old ids.

        Another member may own the partitions of the new topics, which have the same names.
        """
        lost = frozenset(
            TopicPartition(self._names[topic], number)
            for topic in recreated
            for number in self._claim.numbers(topic)
        )
        self.rebalance.next()
        self._reconciliation.lose(frozenset(recreated))
        if lost & self.owned:
            because = "their topic was deleted and created anew"
            self._start_revoking(lost & self.owned, Loss.LOST, because)
        else:
            self._on_released()

    def _on_revoked(self, step: Revocation) -> None:
        super()._on_revoked(step)
        if self._reconciliation.stage in (ReconciliationStage.LOSING, ReconciliationStage.REVOKING):
            self._on_released()
        else:  # the revocation was of a membership that is over
            self._forget_ids()
        self._track()

    def _on_released(self) -> None:
        """The application has released the lost or revoked partitions. Only now is the claim of
        lost partitions given up: the coordinator may give to others what is not claimed."""
        self._claim.drop(self._reconciliation.losing)
        self._reconciliation.on(Event.REVOKED)
        self._forget_names()

    def _assign(self) -> bool:
        """Assign the partitions of the target that the application lacks; False if a heartbeat must
        be answered first."""
        added = self._reconciliation.missing(self.owned)
        if added and self._claim.is_unanswered:
            return False
        self.rebalance.note_added(added)
        self.owned = self._reconciliation.wanted
        reachable = self._reconciliation.reachable
        self._claim.assign(reachable, {self._names[topic]: topic for topic in reachable})
        self._reconciliation.assign(added)
        self._start_assigning(must_succeed=True)
        return True

    def _finish(self) -> bool:
        """If the assigned callback has returned, acknowledge the target; if it has raised, run it
        again with the next poll; False if it still runs."""
        succeeded = self.rebalance.callback_succeeded
        if succeeded is None:
            return False
        self.rebalance.forget_callback()
        if not succeeded:
            self._reconciliation.on(Event.RAISED)
            return True
        self._reconciliation.succeed()
        self._claim.acknowledge(self._reconciliation.reachable, self._reconciliation.of_target)
        self._forget_names()
        self.move(Trigger.ACKNOWLEDGE, "the application has the assignment")
        return True

    def _track(self) -> None:
        self._names.track(self._target.assignment, (partition.topic for partition in self.owned))

    def named(self, names: Mapping[Any, str]) -> None:
        """The metadata manager has told the names of topics that were asked for."""
        self._names.learn(names)

    def _forget_names(self) -> None:
        self._names.keep(self._claim.topics | self._target.assignment.keys())

    # -- the end

    def leave(self) -> None:
        """The application has released all partitions."""
        super().leave()
        self._forget()
        self._forget_ids()

    def depart(self, trigger: Trigger, because: str) -> None:
        """The membership, if there was one, is over: what is still owned is lost."""
        if self.epoch or self.owned:
            self.log.warning(
                "member.lost",
                member=self.member_id,
                generation=self.epoch,
                partitions=self.owned,
                because=because,
            )
        self.rebalance.explain(because)
        self._forget()
        if not self._lose_everything(because):
            self._forget_ids()
        self.move(trigger, because)

    def _forget(self) -> None:
        """The membership is over: forget the epoch, the target and the claim."""
        self.epoch = 0
        self._target = Target(self._target.number)
        self._given = {}
        self._claim.clear(of_target=self._target.number)
        self._reconciliation = Reconciliation()
        self.rebalance.forget_callback()
        self._names.stop_asking()
        self._track()

    def _forget_ids(self) -> None:
        self._claim.forget_ids()
        self._forget_names()

    # -- where we are

    def news(self) -> Iterable[MemberChanged]:
        """The member's state in the group, if it changed since it was said last."""
        state = MemberState.UNJOINED
        if self.state is State.STABLE:
            state = MemberState.STABLE
        elif self.in_group or self.state is State.FENCED:
            state = MemberState.REBALANCING
        joined = self.has_generation
        member_id, epoch = (self.member_id, self.epoch) if joined else ("", -1)
        ids, is_revoking = self._claim.ids, self.is_revoking
        if self._note_told(state, member_id, epoch, ids, is_revoking):
            return ()
        changed = MemberChanged(
            member_id=member_id,
            generation=epoch,
            state=state,
            protocol="consumer",
            assignor=self._settings.group_remote_assignor if joined else None,
            topic_ids=ids,
            is_revoking=is_revoking,
        )
        return (changed,)

    def track_again(self) -> None:
        """The metadata manager was restarted: tell it again which topics the group needs."""
        self._names.track_again()
