"""A member of a KIP-848 group: its state, what it owns, and the reconciliation under way."""

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
from aktor.events.metadata import Cluster, NameTopics, RefreshMetadata, TrackTopics
from aktor.managers.consumer_heartbeats import Assignment, Report
from aktor.managers.consumer_states import IN_GROUP, State, Trigger, move
from aktor.managers.hand_back import HandBack, Stage
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["ConsumerMember"]

Answer: TypeAlias = PartitionsReleased | RevocationCommitted | CallbackFinished

#: More reconciliations than one incarnation will see.
REBALANCES_PER_LIFE: Final = 1_000_000

NOTHING: Final[frozenset[TopicPartition]] = frozenset()


class ConsumerMember:
    """Owns the state, our epoch, target and partitions, and the reconciliation under way.

    The state is assigned in `move` alone. `tell` takes what is to be said; `log` is the manager's.
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
        self.log = log
        self._settings = settings
        self._tell = tell
        self._said: MemberChanged | None = None
        self.state = State.UNSUBSCRIBED
        # what the application wants
        self.topics: frozenset[str] = frozenset()
        self.regex = ""
        self.may_join = False
        # who we are in the group
        self.member_id = member_id
        self.epoch = 0
        self.owned = NOTHING
        self.acknowledged: Assignment = {}
        # Answers to an earlier incarnation's steps must not be taken for answers to ours.
        self.rebalance = (incarnation - 1) * REBALANCES_PER_LIFE
        self.because = ""
        # the reconciliation under way
        self._target: Assignment = {}
        self._targets = 0
        self._reached = 0
        self._names: dict[Any, str] = {}
        self._unnamed: frozenset[Any] = frozenset()
        self._doubtful: frozenset[Any] = frozenset()
        self._tracked: frozenset[str] = frozenset()
        self._began = 0.0
        self._reconciled: tuple[Assignment, int] | None = None
        self._wanted = NOTHING
        self._added = NOTHING
        #: Applied, but the assigned callback has yet to succeed: the application has it already.
        self._pending = NOTHING
        self._taking: Assignment = {}
        self._revoked = 0
        self._hand_back: HandBack | None = None
        self._is_assigning = False
        self._applied: CallbackFinished | None = None
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
    def is_member(self) -> bool:
        """Whether the coordinator has given us an epoch that nothing has ended."""
        return self.epoch > 0

    @property
    def gives_back(self) -> bool:
        """Whether the application is still at giving partitions up."""
        return self._hand_back is not None

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

    # -- what the application wants and answers

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

    def heard(self, answer: Answer) -> bool:
        """Note that the application or the commits did a step; False (traced) if it is over."""
        current = answer.rebalance == self.rebalance
        if isinstance(answer, CallbackFinished) and current and self._is_assigning:
            self._applied = answer
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

    # -- what the coordinator says

    def join(self, trigger: Trigger, because: str) -> None:
        """Begin, or begin again, with epoch 0 and nothing."""
        self.log.info(
            "rebalance.triggered",
            rebalance=self.rebalance,
            because=because,
            member=self.member_id,
            generation=self.epoch,
            owned=len(self.owned),
        )
        self.because = because
        self._first = True
        self.move(trigger, because)

    def answered(self, epoch: int, target: Assignment | None, now: float) -> None:
        """A heartbeat was answered: our epoch, and the target if it is another."""
        self._is_unanswered = False
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
        self.log.info(
            "rebalance.completed",
            rebalance=self.rebalance,
            because=self.because,
            ms=round((self._now - self._began) * 1000, 3),
            generation=self.epoch,
            owned=len(self.owned),
            added=self._added,
            revoked=self._revoked,
        )

    # -- the way round

    def advance(self, now: float, cluster: Cluster) -> bool:
        """One step on the way round, if there is one to take now; False if not."""
        self._now = now
        if self._hand_back is not None:
            return self._hand_back_further(now)
        if self.state is State.RECONCILING:
            return self._reconcile(cluster)
        if self.state is State.FENCED and (self.topics or self.regex):
            self.join(Trigger.REJOIN, self.because)
            return True
        if self.state is State.STABLE and self._gone(cluster):
            self._begin("a topic was deleted and created anew", now)
            return True
        return False

    def _gone(self, cluster: Cluster) -> list[Any]:
        """Topics that we own partitions of, and whose names are those of other topics by now."""
        return [one for one in self.acknowledged if self._is_gone(one, cluster)]

    def _is_gone(self, topic: Any, cluster: Cluster) -> bool:
        info = cluster.topics.get(self._names.get(topic, ""))
        return info is not None and info.topic_id not in (None, topic)

    def _lose(self, gone: list[Any]) -> None:
        """Give up what is no more: under its name another member may read another topic by now."""
        lost = frozenset(
            TopicPartition(self._names[topic], number)
            for topic in gone
            for number in self.acknowledged[topic]
        )
        self.acknowledged = {
            topic: numbers for topic, numbers in self.acknowledged.items() if topic not in gone
        }
        self.rebalance += 1
        if lost & self.owned:
            because = "their topic was deleted and created anew"
            self._start_handing_back(lost & self.owned, Loss.LOST, because)

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
        if there and not (self._first or self._pending):
            return self._nothing_to_do()
        self._reconciled = (reachable, self._targets)
        self._wanted = wanted
        self.rebalance += 1
        self.log.info(
            "rebalance.triggered",
            rebalance=self.rebalance,
            because=self.because,
            member=self.member_id,
            generation=self.epoch,
            owned=len(self.owned),
        )
        going = self.owned - wanted
        if going:
            self._start_handing_back(going, Loss.REVOKED, "the group gives them to another member")
        return True

    def _nothing_to_do(self) -> bool:
        if self._unnamed or self._doubtful:
            return False  # the metadata manager will say what they are
        self._reached = self._targets
        self._settle()
        return True

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
        # Without its metadata a topic that was created anew would be taken for the old one again.
        self._track(frozenset(self._names[topic] for topic in named.keys() | doubtful))
        return named

    def _track(self, names: frozenset[str]) -> None:
        """Topics that a broker-side pattern found are nobody else's to keep fresh."""
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
        self._is_assigning = True
        self.owned = self._wanted
        assert self._reconciled is not None, "there is something to take on"
        self._taking, _ = self._reconciled
        self._applied = None
        self._tell(
            AssignPartitions(
                rebalance=self.rebalance,
                assigned=self.owned,
                added=self._added,
                generation=self.epoch,
                must_succeed=True,
            )
        )
        return True

    def _finish(self) -> bool:
        """The application has applied it; what its callback refused is tried again."""
        assert self._reconciled is not None, "nothing was applied"
        assert self._applied is not None, "it was not applied"
        reached, self._reconciled = self._reconciled, None
        self._is_assigning = False
        failed, self._applied = self._applied.error is not None, None
        if failed:
            # As in the Java client: not acknowledged, nothing of it is delivered, and with the next
            # poll the callback is run again.
            self._after_poll = True
            return True
        self._pending, self._first = NOTHING, False
        self._taking = {}
        self.acknowledged, self._reached = reached
        self.move(Trigger.ACKNOWLEDGE, "the application has the assignment")
        return True

    # -- handing back

    def _start_handing_back(
        self, partitions: frozenset[TopicPartition], loss: Loss, because: str
    ) -> None:
        self._hand_back = HandBack(
            self._settings, rebalance=self.rebalance, partitions=partitions, loss=loss
        )
        self._tell(self._hand_back.begin(because))

    def _hand_back_further(self, now: float) -> bool:
        """The next of: released, committed, callback run; then what waited for it."""
        step = self._hand_back
        assert step is not None, "nothing is handed back"
        if step.stage is Stage.FINISHED:
            self._hand_back = None
            self._revoked += len(step.partitions)
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

    def wake_at(self) -> Iterable[float]:
        """When a step that takes too long is given up."""
        return [] if self._hand_back is None else [self._hand_back.wake_at()]

    # -- the end

    def leave(self) -> None:
        """The application has let go of everything."""
        self.topics, self.regex = frozenset(), ""
        self.may_join = False
        self.owned = NOTHING
        self.rebalance += 1
        self._forget()

    def depart(self, trigger: Trigger, because: str) -> None:
        """The membership is over: what is still owned is lost."""
        self.log.warning(
            "member.lost",
            member=self.member_id,
            generation=self.epoch,
            partitions=self.owned,
            because=because,
        )
        self.because = because
        step = self._hand_back
        self._forget()
        self.rebalance += 1
        if self.owned:
            self._start_handing_back(self.owned, Loss.LOST, because)
        elif step is not None and step.stage is Stage.CALLING:
            # Its callback may have yet to begin: it must not commit as the member that joins anew.
            self._hand_back = step
        self.move(trigger, because)

    def _forget(self) -> None:
        """No epoch any more, and no target."""
        self.epoch = 0
        self.acknowledged = {}
        self._target = {}
        self._reached = self._targets
        self._hand_back = None
        self._reconciled = None
        self._is_assigning = False
        self._applied = None
        self._after_poll = False
        self._is_unanswered = False
        self._first = True
        self._pending = NOTHING
        self._taking = {}
        if self._unnamed:
            self._unnamed = frozenset()
            self._tell(NameTopics(topic_ids=self._unnamed))
        self._track(frozenset())

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
        state = MemberState.UNJOINED
        if self.state is State.STABLE:
            state = MemberState.STABLE
        elif self.in_group or self.state is State.FENCED:
            state = MemberState.REBALANCING
        member = self.is_member
        news = MemberChanged(
            member_id=self.member_id if member else "",
            generation=self.epoch if member else -1,
            state=state,
            protocol="consumer",
            assignor=self._settings.group_remote_assignor if member else None,
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
