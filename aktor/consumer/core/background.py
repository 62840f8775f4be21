"""Acting on what the background said: rebalance steps, restarts, refusals, outcomes of commits."""

from __future__ import annotations

from typing import assert_never

from aktor.consumer.core.call import copy_of_told
from aktor.consumer.core.commits import CommitCallbacks
from aktor.consumer.core.core import Core
from aktor.consumer.core.leaving import Leaving
from aktor.consumer.core.port import Event
from aktor.consumer.core.positions import Positions
from aktor.consumer.core.rebalancing import Rebalancing
from aktor.consumer.core.recovery import Recovery
from aktor.consumer.core.waiting import Waiting
from aktor.events.commits import AutoCommitFinished
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    GroupFailed,
    Loss,
    RevokePartitions,
    RunRevokedCallback,
    Step,
)
from aktor.events.metadata import ClusterChanged, TopicsRefused
from aktor.values import replace

__all__ = ["Background"]


class Background:
    """Runs events on the application thread, one after the other, until none is left."""

    def __init__(
        self,
        core: Core,
        rebalancing: Rebalancing,
        positions: Positions,
        callbacks: CommitCallbacks,
        recovery: Recovery,
        leaving: Leaving,
    ) -> None:
        self._core = core
        self._strand = core.log.strand
        #: What `has_work` looks at in each poll.
        self._call, self._events = core.call, core.events
        self._rebalancing = rebalancing
        self._positions = positions
        self._callbacks = callbacks
        self._recovery = recovery
        self._leaving = leaving

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do. Each poll asks this, and mostly there is nothing."""
        return bool(
            self._events.arrived
            or self._events.taken_over
            or self._callbacks.waiting
            or self._call.unraised is not None
            or not self._positions.follows_topics
        )

    def run_events(self) -> Waiting[None]:
        """Act on what the background said, on this thread; raises what must be raised.

        An event leaves the queue when it was acted on: the call after an interrupt finds it again.
        """
        if self._call.unraised is not None:
            self._call.raise_owed()
        self._callbacks.run()
        self._positions.follow_topics()
        events = self._events
        while events.arrived or events.taken_over:
            event = events.next()
            kept = self._strand.keep()
            self._strand.follow(self._core.port.cause_of(event))
            try:
                yield from self._act_on(event)
            finally:
                self._strand.go_on(kept)
            events.done_with(event)

    def take_auto_commits(self) -> None:
        """The consumer ends: what no poll will look at any more, the user's callback still hears.
        A commit may be under way when `close` is called."""
        for event in [*self._events.gather()]:
            if isinstance(event, AutoCommitFinished):
                self._callbacks.add_auto_commit(event)
                self._events.take_out(event)

    def _act_on(self, event: Event) -> Waiting[None]:
        core = self._core
        match event:
            case ActorsRestarted():
                yield from self._recovery.restore(event)
            case AutoCommitFinished():
                self._callbacks.add_auto_commit(event)
                self._events.done_with(event)
                self._callbacks.run()
            case CoordinatorRefused() if core.subscription.in_group:
                pass  # the membership manager tells it too (GroupFailed), with more in the text
            case TopicsRefused() | GroupFailed() | CoordinatorRefused():
                # If the application polls on, the manager tells the error again.
                core.poll_heartbeat.hurry()
                error = copy_of_told(event.error)
                self._call.raise_once(error, lambda: self._events.done_with(event))
            case ClusterChanged():
                self._follow_cluster()
            case AssignPartitions() if self._is_over(event):
                core.log.info("step.skipped", rebalance=event.rebalance, because="lost since")
            case RevokePartitions() | RunRevokedCallback() | AssignPartitions():
                yield from self._run_step(event)
            case _:
                assert_never(event)

    def _follow_cluster(self) -> None:
        """Topics have come or gone, or have more partitions: the subscription follows."""
        core = self._core
        if self._positions.follow_cluster():
            core.poll_heartbeat.hurry()
            if core.subscription.group_id is not None:
                core.subscription.say()

    def _is_over(self, assigned: AssignPartitions) -> bool:
        """Whether the partitions of this step were lost while the application was busy."""
        begun = self._rebalancing.has_begun(assigned)
        return not begun and self._events.has_step_besides(assigned)

    def _run_step(self, event: Step) -> Waiting[None]:
        core = self._core
        step = event
        if isinstance(step, RunRevokedCallback) and self._is_lost_by_now():
            step = replace(step, loss=Loss.LOST)
        error = yield from self._rebalancing.run(step, event)
        core.subscription.topic_ids.note(core.delivery.topics)
        # The group may have assigned partitions for the subscription that was replaced since.
        self._positions.follow_subscription()
        core.poll_heartbeat.hurry()
        if error is not None:
            self._call.raise_once(error, lambda: self._events.done_with(event))

    def _is_lost_by_now(self) -> bool:
        """Whether the member may have left its group since the manager sent this revocation.

        The reason may be that the application did not poll for too long, or that the process was
        suspended for longer than its session.
        """
        if not self._leaving.is_member():
            return True  # as in Kafka's ConsumerCoordinator.onJoinPrepare
        return self._events.says_lost()
