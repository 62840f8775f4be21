"""A member of a KIP-848 group: its state, what it owns, and the reconciliation under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from aktor.actors.manager import AGAIN, NEVER
from aktor.events.membership import Loss, MemberChanged, MemberState
from aktor.events.metadata import Cluster, NameTopics, RefreshMetadata, TrackTopics
from aktor.managers.consumer_heartbeats import Assignment, Report
from aktor.managers.consumer_states import IN_GROUP, TRANSITIONS, State, Trigger
from aktor.managers.group_member import NOTHING, GroupMember
from aktor.managers.revocation import Revocation
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["ConsumerMember"]


class ConsumerMember(GroupMember[State, Trigger]):
    """Owns besides our epoch and target, and the reconciliation under way.

    Three things are told apart: the `target` is what the coordinator wants us to own; `owned` is
    what the application has (or is being given); `acknowledged` is what we say that we own, which
    grows and shrinks only when both callbacks have returned.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        member_id: str,
        incarnation: int,
        tell: Callable[[object], None],
        log: Trace,
    ) -> None:
        super().__init__(settings, TRANSITIONS, incarnation=incarnation, tell=tell, log=log)
        self.regex = ""
        # who we are in the group
        self.member_id = member_id
        self.epoch = 0
        self.acknowledged: Assignment = {}
        # the reconciliation under way
        self._target: Assignment = {}
        self._targets = 0
        self._reached = 0
        self._names: dict[Any, str] = {}
        self._unnamed: frozenset[Any] = frozenset()
        self._doubtful: frozenset[Any] = frozenset()
        self._tracked: frozenset[str] = frozenset()
        #: The ids of the topics that the application has partitions of, by name.
        self._ids: dict[str, Any] = {}
        #: Topics that are no more, whose partitions the application is giving up.
        self._losing: frozenset[Any] = frozenset()
        self._reconciled: tuple[Assignment, int] | None = None
        self._wanted = NOTHING
        #: Applied, but the assigned callback has yet to succeed: the application has it already.
        self._pending = NOTHING
        self._taking: Assignment = {}
        self._takes_on = False
        self._after_poll = False
        #: It was said what is owned, and not answered since the target was heard of.
        self._is_unanswered = False
        self._first = True
        self._now = 0.0

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
        return self._takes_on

    def report(self) -> Report:
        """What the coordinator must know of us."""
        return Report(
            member_id=self.member_id,
            epoch=self.epoch,
            topics=self.topics,
            regex=self.regex,
            owned=self.acknowledged,
            taking=self._taking,
            target=self._reached,
        )

    # -- what the application wants

    def subscribe(self, topics: frozenset[str], regex: str) -> None:
        """Other topics; the next heartbeat says so, or the next poll makes us join."""
        self.topics = topics
        self.regex = regex
        self.may_join = False

    def wants_to_join(self) -> bool:
        """Whether there is something to join for, and a poll has asked for it."""
        return bool(self.topics or self.regex) and self.may_join

    def polled(self) -> None:
        """The application polls."""
        self.may_join = True
        self._after_poll = False

    # -- what the coordinator says

    def join(self, trigger: Trigger, because: str) -> None:
        """Begin, or begin again, with epoch 0 and nothing."""
        self.because = because
        self._trace_triggered(self.member_id)
        self._first = True
        self.move(trigger, because)

    def answered(self, epoch: int, target: Assignment | None, now: float) -> None:
        """A heartbeat was answered: our epoch, and the target if it is another."""
        self._is_unanswered = False
        self._doubtful = frozenset()  # if it still is, metadata has to be asked for again
        if epoch != self.epoch:
            self.log.debug("member.epoch", was=self.epoch, now=epoch, member=self.member_id)
            self.epoch = epoch
        if target is not None:
            self._targets += 1
            self._target = target
            self.log.info(
                "rebalance.target",
                generation=epoch,
                partitions=sum(map(len, target.values())),
                topics=len(target),
            )
        if self.state is State.JOINING:
            self._begin("the group has taken this member in", now)
        elif self.state is State.STABLE and target is not None and not self._is_reached():
            self._begin("the coordinator assigned other partitions", now)

    def _begin(self, because: str, now: float) -> None:
        self._began, self._revoked = now, 0
        self.because = because
        self.move(Trigger.RECONCILE, because)

    def _is_reached(self) -> bool:
        return self._target == self.acknowledged

    def told(self, *, reports: bool) -> None:
        """A heartbeat goes out; `reports`: it says what we own."""
        self._is_unanswered = self._is_unanswered or reports
        if self.state is not State.ACKNOWLEDGING:
            return
        if self._is_reached():
            self._settle()
        else:
            self.move(Trigger.RECONCILE, "the target is not reached yet")

    def _settle(self) -> None:
        self.move(Trigger.SETTLE, "the target is owned")
        self._trace_completed(self._now)

    # -- the way round

    def advance(self, now: float, cluster: Cluster) -> float:
        """One step on the way round, as a duty: AGAIN if there was one to take."""
        self._now = now
        if self._revocation is not None:
            return self._advance_revocation(now)
        if self.state is State.RECONCILING:
            return AGAIN if self._reconcile(cluster) else NEVER
        if self.state is State.FENCED and (self.topics or self.regex):
            self.join(Trigger.REJOIN, self.because)
            return AGAIN
        if self.state is State.STABLE and self._gone(cluster):
            self._begin("a topic was deleted and created anew", now)
            return AGAIN
        return NEVER

    def _gone(self, cluster: Cluster) -> list[Any]:
        """Topics that we own partitions of, and whose names are those of other topics by now."""
        return [one for one in self._held if self._is_gone(one, cluster)]

    @property
    def _held(self) -> frozenset[Any]:
        """Topics that the application has partitions of, or is about to."""
        return frozenset(self.acknowledged) | self._taking.keys()

    def _is_gone(self, topic: Any, cluster: Cluster) -> bool:
        info = cluster.topics.get(self._names.get(topic, ""))
        return info is not None and info.topic_id not in (None, topic)

    def _lose(self, gone: list[Any]) -> None:
        """Give up what is no more: under its name another member may read another topic by now."""
        claimed = self.report().claimed
        lost = frozenset(
            TopicPartition(self._names[topic], number)
            for topic in gone
            for number in claimed[topic]
        )
        self.rebalance += 1
        self._losing = frozenset(gone)
        if lost & self.owned:
            because = "their topic was deleted and created anew"
            self._start_revoking(lost & self.owned, Loss.LOST, because)
        else:
            self._forget_lost()

    def _reconcile(self, cluster: Cluster) -> bool:
        if self._applied is not None:
            return self._finish()
        if self._reconciled is not None and self._reconciled[1] == self._targets:
            return not self._is_assigning and self._assign()
        if self._is_assigning or self._after_poll:
            return False
        self._reconciled = None  # there is another target by now
        if gone := self._gone(cluster):
            self._lose(gone)
            return True
        named = self._resolve(cluster)
        reachable = {topic: self._target[topic] for topic in named}
        wanted = frozenset(
            TopicPartition(name, number)
            for topic, name in named.items()
            for number in self._target[topic]
        )
        there = wanted == self.owned and reachable == self.acknowledged
        # The first callback is run with nothing, too, but not if there is only a name to wait for.
        first = self._first and not self._waits_for_names
        if there and not (first or self._pending):
            return self._nothing_to_do()
        self._reconciled = (reachable, self._targets)
        self._wanted = wanted
        self.rebalance += 1
        self._trace_triggered(self.member_id)
        revoked = self.owned - wanted
        if revoked:
            self._start_revoking(revoked, Loss.REVOKED, "the group gives them to another member")
        return True

    def _nothing_to_do(self) -> bool:
        waits = self._waits_for_names
        if waits and self._reached == self._targets:
            return False
        self._reached = self._targets
        if waits:
            # Once for each target: what it takes back of a topic without a name is free then.
            self.move(Trigger.ACKNOWLEDGE, "nothing more of the target can be had yet")
        else:
            self._settle()
        return True

    @property
    def _waits_for_names(self) -> bool:
        """Whether the metadata manager has yet to say what some of the target's topics are."""
        return bool(self._unnamed or self._doubtful)

    def _resolve(self, cluster: Cluster) -> dict[Any, str]:
        """The names of the target's topics, as far as they are known; asks for the others."""
        known = {info.topic_id: name for name, info in cluster.topics.items()}
        for topic in self._target:
            name = known.get(topic)
            if name is not None:
                self._names[topic] = name
        unnamed = frozenset(self._target) - self._names.keys()
        # Either the coordinator or the metadata has yet to hear that a topic was created anew.
        doubtful = frozenset(topic for topic in self._target if self._is_gone(topic, cluster))
        if doubtful - self._doubtful:
            self._tell(RefreshMetadata(because="a topic has another id than its partitions have"))
        self._doubtful = doubtful
        named = {
            topic: self._names[topic] for topic in self._target if topic not in unnamed | doubtful
        }
        if unnamed != self._unnamed:
            self._unnamed = unnamed
            if unnamed:
                self.log.info("rebalance.unresolved", topics=len(unnamed))
            self._tell(NameTopics(topic_ids=unnamed))
        self._track()
        return named

    def _track(self) -> None:
        """Topics that a broker-side pattern found are nobody else's to keep fresh.

        Those of the target, also one that was created anew, which would be taken for the old one
        again; and those of which the application still has partitions: until it lets go they are
        fetched, and who fetches asks for a leader again and again if none is known.
        """
        targets = {self._names[topic] for topic in self._target if topic in self._names}
        names = frozenset(targets | {one.topic for one in self.owned})
        if names != self._tracked:
            self._tracked = names
            self._tell(TrackTopics(owner="membership", topics=names))

    def named(self, names: Mapping[Any, str]) -> None:
        """These are the names of topics that were asked for."""
        self._names.update(names)

    def _assign(self) -> bool:
        """Have the application take the target on.

        Not while a heartbeat is unanswered that says that we do not own it (yet): the coordinator
        may give it to another member at once, without waiting for us to give it up.
        """
        added = self._wanted - (self.owned - self._pending)
        if added and self._is_unanswered:
            return False
        self._added = self._pending = added
        self._takes_on = True
        self.owned = self._wanted
        assert self._reconciled is not None, "there is something to take on"
        self._taking, _ = self._reconciled
        self._ids |= {self._names[topic]: topic for topic in self._taking}
        self._start_assigning(must_succeed=True)
        return True

    def _finish(self) -> bool:
        """The application has applied it; what its callback refused is tried again."""
        assert self._reconciled is not None, "nothing was applied"
        assert self._applied is not None, "it was not applied"
        reached, self._reconciled = self._reconciled, None
        self._takes_on = False
        succeeded, self._applied = self._applied, None
        if not succeeded:
            # As in the Java client: not acknowledged, nothing of it is delivered, and with the next
            # poll the callback is run again.
            self._after_poll = True
            return True
        self._pending, self._first = NOTHING, False
        self._taking = {}
        self.acknowledged, self._reached = reached
        self._forget_ids()
        self.move(Trigger.ACKNOWLEDGE, "the application has the assignment")
        return True

    def _on_revoked(self, step: Revocation) -> None:
        super()._on_revoked(step)
        self._forget_lost()
        self._track()

    def _forget_lost(self) -> None:
        """Not before the application has let go: what is not claimed may be given to others."""
        self.acknowledged = self._without_lost(self.acknowledged)
        self._taking = self._without_lost(self._taking)
        self._losing = frozenset()
        self._forget_ids()

    def _without_lost(self, claimed: Assignment) -> Assignment:
        return {one: numbers for one, numbers in claimed.items() if one not in self._losing}

    def _forget_ids(self) -> None:
        """Of topics that the application has nothing of; not before it has given them up."""
        held = self._held
        self._ids = {name: topic for name, topic in self._ids.items() if topic in held}
        needed = held | self._target.keys()
        self._names = {topic: name for topic, name in self._names.items() if topic in needed}

    # -- the end

    def leave(self) -> None:
        """The application has let go of everything."""
        self.topics, self.regex = frozenset(), ""
        self.may_join = False
        self.owned = NOTHING
        self.rebalance += 1
        self._revocation = None
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
        self.because = because
        self._forget()
        if not self._lose_everything(because):
            self._forget_ids()
        self.move(trigger, because)

    def _forget(self) -> None:
        """No epoch any more, and no target."""
        self.epoch = 0
        self.acknowledged = {}
        self._target = {}
        self._reached = self._targets
        self._reconciled = None
        self._takes_on = False
        self._applied = None
        self._after_poll = False
        self._is_unanswered = False
        self._first = True
        self._pending = NOTHING
        self._taking = {}
        self._losing = frozenset()
        if self._unnamed:
            self._unnamed = frozenset()
            self._tell(NameTopics(topic_ids=self._unnamed))
        self._track()

    # -- where we are

    def news(self) -> Iterable[MemberChanged]:
        """Who we are, if that changed since it was said last."""
        state = MemberState.UNJOINED
        if self.state is State.STABLE:
            state = MemberState.STABLE
        elif self.in_group or self.state is State.FENCED:
            state = MemberState.REBALANCING
        member = self.has_generation
        news = MemberChanged(
            member_id=self.member_id if member else "",
            generation=self.epoch if member else -1,
            state=state,
            protocol="consumer",
            assignor=self._settings.group_remote_assignor if member else None,
            topic_ids=dict(self._ids),
            is_revoking=self.is_revoking,
        )
        if news == self._said:
            return ()
        self._said = news
        return (news,)

    def say_again(self) -> None:
        """Somebody who was told was restarted."""
        self._said = None
        self._tell(TrackTopics(owner="membership", topics=self._tracked))
        if self._unnamed:
            self._tell(NameTopics(topic_ids=self._unnamed))
