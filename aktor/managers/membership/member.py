"""A member in either group protocol: its subscription, state, partitions and rebalance."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from kafka.structs import TopicPartition

from aktor import state_table
from aktor.actors.runtime.manager import AGAIN
from aktor.events.commits import RevocationCommitted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    MemberChanged,
    RunRevokedCallback,
)
from aktor.events.message import Message
from aktor.events.metadata import Cluster
from aktor.managers.membership.metrics import RebalanceMetrics
from aktor.managers.membership.revocation import Revocation, RevocationStage, StepAnswer
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["NOTHING", "GroupMember"]

NOTHING: Final[frozenset[TopicPartition]] = frozenset()

S = TypeVar("S", bound=enum.Enum)
T = TypeVar("T", bound=enum.Enum)


class MemberSubscription:
    """Owns the topics that the application wants (KIP-848: or the pattern), those that the member
    has joined with, and whether the application has polled since the subscription changed.

    A member joins only when the application has polled since it subscribed, as with kafka-python
    and the Java client. A member that had to leave joins again only when the application polls
    again.
    """

    __slots__ = ("_has_polled", "joined_topics", "regex", "topics")

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.regex = ""
        self._has_polled = False
        #: The topics with which the last rebalance began.
        self.joined_topics: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.topics or self.regex)

    def change(self, topics: frozenset[str], regex: str = "") -> None:
        """Set other topics, or another pattern. The member joins when the application polls."""
        self.topics = topics
        self.regex = regex
        self._has_polled = False

    def clear(self) -> None:
        """The application wants no topics any more."""
        self.change(frozenset())

    def polled(self) -> None:
        """The application polls: it may be given partitions."""
        self._has_polled = True

    def await_poll(self) -> None:
        """Do not join before the application polls again."""
        self._has_polled = False

    def wants_to_join(self) -> bool:
        """Whether there are topics or a pattern, and the application has polled for them."""
        return bool(self) and self._has_polled

    def joins(self) -> None:
        """A rebalance begins: the member joins, or joins again, with these topics."""
        self.joined_topics = self.topics

    def has_changed(self) -> bool:
        """Whether the application has polled with other topics than the member has joined with."""
        return self.topics != self.joined_topics and self._has_polled


#: More rebalances than one incarnation will see.
REBALANCES_PER_LIFE: Final = 1_000_000


class Rebalance:
    """Owns what operators are told of the rebalance under way, and whether the application has
    applied its assignment."""

    def __init__(self, incarnation: int, metrics: RebalanceMetrics) -> None:
        self.metrics = metrics
        # Answers to an earlier incarnation's steps must not be taken for answers to ours.
        self._first = (incarnation - 1) * REBALANCES_PER_LIFE
        self.number = self._first
        self.because = ""
        self.began_at = 0.0
        self.added = NOTHING
        self.revoked = 0
        #: Whether the assigned callback succeeded, when it has been run. (Not its error, whose
        #: traceback holds the consumer.)
        self.callback_succeeded: bool | None = None

    @property
    def is_first(self) -> bool:
        """Whether no rebalance has begun yet."""
        return self.number == self._first

    def next(self) -> None:
        """The next rebalance: answers to steps of the one before are dropped from now on."""
        self.number += 1

    def begin(self, now: float) -> None:
        """Measure from now on, and count what is revoked."""
        self.began_at = now
        self.revoked = 0
        self.metrics.begun(now)

    def explain(self, because: str) -> None:
        """Note why the rebalance is under way."""
        self.because = because

    def forget_callback(self) -> None:
        """Forget whether an assigned callback succeeded: another assignment begins, or none."""
        self.callback_succeeded = None

    def applied(self, *, succeeded: bool) -> None:
        """The application has applied the assignment; its callback has returned or raised."""
        self.callback_succeeded = succeeded

    def note_added(self, partitions: frozenset[TopicPartition]) -> None:
        """The application is given these partitions, which it did not have before."""
        self.added = partitions

    def note_revoked(self, count: int) -> None:
        """The application has given up so many partitions, or lost them."""
        self.revoked += count

    def trace_triggered(self, log: Trace, *, member_id: str, generation: int, owned: int) -> None:
        """Trace that the rebalance begins."""
        log.info(
            "rebalance.triggered",
            rebalance=self.number,
            because=self.because,
            member=member_id,
            generation=generation,
            owned=owned,
        )

    def trace_completed(self, log: Trace, now: float, *, generation: int, owned: int) -> None:
        """Measure and trace that the member has its assignment."""
        self.metrics.completed(now)
        log.info(
            "rebalance.completed",
            rebalance=self.number,
            because=self.because,
            ms=round((now - self.began_at) * 1000, 3),
            generation=generation,
            owned=owned,
            added=self.added,
            revoked=self.revoked,
        )


class GroupMember(ABC, Generic[S, T]):
    """Owns the state, the partitions, and the step that the application is asked to take.

    The state is assigned in `move` alone; it begins with the first of the table `TRANSITIONS`.
    `say` sends a message; `log` is the manager's. A subclass knows the protocol: whether an
    assignment is under way (`_is_assigning`), what a `MemberChanged` carries (`news`), and what
    follows a revocation (`_on_revoked`).
    """

    #: The whole machine.
    TRANSITIONS: ClassVar[Mapping[Any, Mapping[Any, Any]]]

    def __init__(
        self,
        settings: Settings,
        *,
        incarnation: int,
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        self.log = log
        self._settings = settings
        self._say = say
        #: The values of which the last `MemberChanged` was made.
        self._last_news: tuple[object, ...] = ()
        self.state: S = next(iter(self.TRANSITIONS))
        self.subscription = MemberSubscription()
        self.owned = NOTHING
        metrics = RebalanceMetrics(settings.metrics_num_samples, settings.metrics_sample_window)
        self.rebalance = Rebalance(incarnation, metrics)
        self._revocation: Revocation | None = None

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation or epoch that the group has given us."""

    @property
    @abstractmethod
    def in_group(self) -> bool:
        """Whether the group counts on us, or is about to."""

    @property
    @abstractmethod
    def has_generation(self) -> bool:
        """Whether the group has given us a generation or epoch that nothing has ended."""

    @abstractmethod
    def news(self) -> Iterable[MemberChanged]:
        """The member's state in the group, if it changed since it was said last."""

    def _note_told(self, *seen: object) -> bool:
        """Keep what `MemberChanged` is made of; True if it is the same as at the last call.

        Most calls find the same values, so they are compared before a message is made.
        """
        if seen == self._last_news:
            return True
        self._last_news = seen
        return False

    @property
    def is_revoking(self) -> bool:
        """Whether a revocation is under way: the application still has partitions to give up."""
        return self._revocation is not None

    @property
    def application_step(self) -> str:
        """What the rebalance waits for at the application's side: "callback" (it applies a step, or
        runs its listener), "commit" (the last one before a revocation), or ""."""
        if self._revocation is not None:
            return "commit" if self._revocation.waits_for_commit else "callback"
        waits = self._is_assigning and self.rebalance.callback_succeeded is None
        return "callback" if waits else ""

    @property
    def awaited_step(self) -> str:
        """The same in more detail (see `Revocation.awaits`): also which callback is to be run."""
        if self._revocation is not None:
            return self._revocation.awaits
        return "on_partitions_assigned" if self.application_step else ""

    @property
    @abstractmethod
    def _is_assigning(self) -> bool:
        """Whether the application applies an assignment, or runs its assigned callback."""

    # -- what the application wants

    def polled(self) -> None:
        """The application polls: it may be given partitions."""
        self.subscription.polled()

    @abstractmethod
    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""

    # -- what the application answers

    def heard(self, answer: StepAnswer) -> bool:
        """The application or the commit manager has done a step; False (traced) if the rebalance
        went on without it."""
        current = answer.rebalance == self.rebalance.number
        if isinstance(answer, CallbackFinished) and answer.assigned:
            if current and self._is_assigning:
                self.rebalance.applied(succeeded=answer.error is None)
                return True
        elif self._revocation is not None and self._revocation.heard(answer):
            return True
        self.log.info(
            "step.dropped",
            message_type=type(answer).__name__,
            of_rebalance=answer.rebalance,
            rebalance=self.rebalance.number,
            because="the rebalance went on without it",
        )
        return False

    @abstractmethod
    def track_again(self) -> None:
        """The metadata manager was restarted: say again which topics the group needs."""

    def commits_restarted(self) -> None:
        """The last commit will not be answered: go on without it."""
        step = self._revocation
        if step is not None and step.stage is RevocationStage.COMMITTING:
            self.log.warning("commit.abandoned", because="the commits actor was restarted")
            step.heard(RevocationCommitted(rebalance=step.rebalance))

    # -- assignment

    def _start_assigning(self, *, must_succeed: bool = False) -> None:
        """Tell the application what it owns now, of which `rebalance.added` is new."""
        self.rebalance.forget_callback()
        self._say(
            AssignPartitions(
                rebalance=self.rebalance.number,
                assigned=self.owned,
                added=self.rebalance.added,
                generation=self.generation,
                must_succeed=must_succeed,
            )
        )

    # -- revocation

    def _start_revoking(
        self, partitions: frozenset[TopicPartition], loss: Loss, because: str
    ) -> None:
        self._revocation = Revocation(
            self._settings, rebalance=self.rebalance.number, partitions=partitions, loss=loss
        )
        self._say(self._revocation.begin(because))

    def _advance_revocation(self, now: float) -> float:
        """The next step of the revocation: the commit, then the callback, then what waits for both.

        As a duty: AGAIN if there was a step to take, else when a commit that takes too long is
        given up.
        """
        step = self._revocation
        assert step is not None, "no revocation is under way"
        if step.stage is RevocationStage.FINISHED:
            self._revocation = None
            self._on_revoked(step)
            return AGAIN
        before, message = step.stage, step.say(now)
        if message is None:
            return step.commit_until
        if before is RevocationStage.COMMITTING:
            self.log.warning("commit.abandoned", because="it did not end in time")
        if isinstance(message, RunRevokedCallback):
            # From here on the member does not own them: the application drops them when its
            # callback returns, whatever happens to the membership meanwhile.
            self.owned -= step.partitions
        self._say(message)
        return AGAIN

    def _on_revoked(self, step: Revocation) -> None:
        """The application has given up the partitions of `step`."""
        self.rebalance.note_revoked(len(step.partitions))

    def _lose_everything(self, because: str) -> bool:
        """The member owns nothing any more; False if the application has nothing to give up."""
        step, self._revocation = self._revocation, None
        self.rebalance.metrics.failed()
        self.rebalance.next()
        if self.owned:
            self._start_revoking(self.owned, Loss.LOST, because)
        elif step is not None and step.stage is RevocationStage.CALLING:
            # The callback of this step may not have begun yet. The member must not join again
            # before the callback has returned: its commits would be commits of the new member.
            self._revocation = step
        return self.is_revoking

    # -- the end

    def leave(self) -> None:
        """The application has released all partitions."""
        self.subscription.clear()
        self.owned = NOTHING
        self.rebalance.metrics.left()
        self.rebalance.next()
        self._revocation = None

    # -- where we are

    def move(self, trigger: T, because: str) -> None:
        """The only place where `state` is assigned."""
        before = self.state
        self.state = state_table.follow(self.TRANSITIONS, before, trigger)
        self.log.info(
            "membership.moved",
            before=before,
            after=self.state,
            trigger=trigger,
            because=because,
            rebalance=self.rebalance.number,
        )

    def _trace_triggered(self, member_id: str) -> None:
        self.rebalance.trace_triggered(
            self.log, member_id=member_id, generation=self.generation, owned=len(self.owned)
        )

    def _trace_completed(self, now: float) -> None:
        self.rebalance.trace_completed(
            self.log, now, generation=self.generation, owned=len(self.owned)
        )
