"""Leaving the group, in `unsubscribe` and `close`: commits under way, the listener, LeaveGroup."""

from __future__ import annotations

from typing import Final

from aktor.consumer.core.core import Core
from aktor.consumer.core.positions import Positions
from aktor.consumer.core.questions import Questions
from aktor.consumer.core.rebalancing import Occasion, Rebalancing
from aktor.consumer.core.waiting import Patience, Waiting
from aktor.errors import ActorRestartedError
from aktor.events.commits import CommitOffsets
from aktor.events.fetching import PausePartitions
from aktor.events.membership import LeaveGroup, Loss, Operation, SubscriptionChanged
from aktor.events.routes import COMMITS, MEMBERSHIP
from aktor.managers.commits.errors import says_expelled

__all__ = ["Leaving"]

#: The part of the time for leaving that is kept for LeaveGroup, however long the last commit takes.
LEAVE_SHARE: Final = 0.25

#: Names the failure of the background, which happens to a consumer once: the listener is called
#: once for it.
_FAILURE: Final = Occasion()


class Leaving:
    """Owns whether the last commit before leaving was refused because the group has expelled the
    member, and which leaving is under way."""

    def __init__(
        self, core: Core, rebalancing: Rebalancing, positions: Positions, questions: Questions
    ) -> None:
        self._core = core
        self._rebalancing = rebalancing
        self._positions = positions
        self._questions = questions
        #: The last commit before leaving was refused: the group does not know us any more.
        self._expelled = False
        #: Names the leaving that is under way: the listener is called once for it, also if an
        #: interrupt ends the first attempt.
        self._under_way: Occasion | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether `unsubscribe` was interrupted, perhaps after the listener was told."""
        return self._under_way is not None and not self._core.call.closing

    def finish(self, because: str) -> Waiting[None]:
        """Finish an `unsubscribe` that was interrupted and is not called again. This waits for the
        listener, if it was not called yet, and not for the group. The next poll raises its error.

        It cannot be taken back: the listener may have been told, and steps of the group are
        forgotten. The membership manager may not know that. Without LeaveGroup the member would
        stay in the group with partitions that nobody reads.
        """
        core = self._core
        if core.subscription.in_group:
            error = yield from self._give_up_all()
            if error is not None:
                core.call.raise_later(error)
        ticket, _ = core.port.ask(MEMBERSHIP)
        core.subscription.forget_told()
        core.events.forget_group()
        deadline = core.clock() + core.settings.request_timeout
        core.publish(
            LeaveGroup(
                ticket=ticket,
                deadline=deadline,
                because=because,
                member_id=core.port.membership.last_member_id,
            )
        )
        core.port.membership.leave()
        core.subscription.unsubscribe()
        core.publish(SubscriptionChanged(topics=frozenset()))
        self._expelled = False
        core.port.watch_cluster(wanted=False)
        core.delivery.assign(())
        self._rebalancing.forget_left()
        self._under_way = None

    def is_member(self) -> bool:
        """Whether the group has the member, and its session cannot have ended unnoticed."""
        core = self._core
        overdue = core.clock() - core.port.membership.session_until
        if core.port.membership.member.generation < 0:
            because = "it is in no generation of the group"
        elif self._expelled:
            because = "the group did not know it at its last commit"
        elif overdue > 0:
            because = f"its session may be over, for {overdue:.3f} s"
        else:
            return True
        core.log.info("membership.doubted", because=because)
        return False

    def commits_until(self, deadline: float) -> float:
        """The time by which commits must be done, so that LeaveGroup is done by `deadline`."""
        return deadline - (deadline - self._core.clock()) * LEAVE_SHARE

    def commit_last(self, deadline: float, *, at: str) -> Waiting[None]:
        """Commit the consumed positions before all partitions are given up. A failure is traced."""
        consumed = self._positions.consumed()
        if not consumed:
            return
        try:
            yield from self._questions.ask(
                COMMITS,
                lambda ticket: CommitOffsets(
                    ticket=ticket,
                    offsets=consumed,
                    deadline=deadline,
                    retry=True,
                    topic_ids=self._core.subscription.topic_ids.ids,
                ),
                deadline=deadline,
                what="the last commit",
                interruptible=self._core.call.closing,
            )
        except Exception as error:
            if not self._core.call.is_own(error):
                raise  # a signal handler's
            # Nothing is lost: the group goes on from the last commit and repeats some records.
            self._expelled = says_expelled(error)
            self._core.trace.warning("commit.failed", because=error, at=at, offsets=consumed)

    def leave(
        self,
        deadline: float,
        *,
        because: str,
        operation: Operation = Operation.DEFAULT,
        commits_until: float | None = None,
    ) -> Waiting[BaseException | None]:
        """Give all partitions back, leave the group if in one; returns a listener's error.

        The time that the listener takes is added to `deadline`.
        """
        core = self._core
        if commits_until is None:
            commits_until = self.commits_until(deadline)
        yield from self._finish_commits(commits_until)
        error = None
        if core.subscription.in_group:
            began = core.clock()
            error = yield from self._give_up_all()
            deadline += core.clock() - began
            yield from self._leave_group(deadline, because, operation)
            # Forget steps that the membership manager sent while the listener ran, and before it
            # heard of LeaveGroup (KAFKA-20428).
            core.events.forget_group()
        elif core.settings.group_instance_id is not None and operation.leaves_for_good(static=True):
            # The member may have left with epoch -2 (it will be back). Now it leaves for good.
            yield from self._leave_group(deadline, because, operation)
        core.subscription.unsubscribe()
        self._under_way, self._expelled = None, False
        core.port.watch_cluster(wanted=False)
        core.delivery.assign(())
        self._rebalancing.forget_left()
        return error

    def lose(self) -> Waiting[BaseException | None]:
        """The background has failed: all partitions are lost; returns a listener's error."""
        core = self._core
        error = None
        if core.subscription.in_group:
            core.events.forget_steps()
            owned = frozenset(core.delivery.partitions)
            occasion = self._under_way or _FAILURE
            error = yield from self._rebalancing.revoke(owned, Loss.LOST, occasion)
        core.delivery.assign(())
        return error

    def _give_up_all(self) -> Waiting[BaseException | None]:
        """Run the listener, once for the leaving that is under way, and own nothing; returns its
        error."""
        core = self._core
        core.events.forget_group()
        loss = Loss.REVOKED if self.is_member() else Loss.LOST
        owned = frozenset(core.delivery.partitions)
        self._under_way = self._under_way or Occasion()
        if owned and self._rebalancing.listener is not None:  # which may take its time
            core.publish(PausePartitions(partitions=owned))
        return (yield from self._rebalancing.revoke(owned, loss, self._under_way))

    def _finish_commits(self, until: float) -> Waiting[None]:
        """Wait for the commits under way: after LeaveGroup the coordinator refuses commits."""
        patience = Patience(until, self._core.clock())
        while self._core.port.waits_for(COMMITS) and self._core.port.failure is None:
            now = self._core.clock()
            if patience.is_over(now):
                return
            yield patience.until(now)

    def _leave_group(self, deadline: float, because: str, operation: Operation) -> Waiting[None]:
        member_id = self._core.port.membership.last_member_id
        self._core.subscription.forget_told()
        while True:
            try:
                yield from self._questions.ask(
                    MEMBERSHIP,
                    lambda ticket: LeaveGroup(
                        ticket=ticket,
                        deadline=deadline,
                        because=because,
                        operation=operation,
                        member_id=member_id,
                    ),
                    deadline=deadline,
                    what="leaving the group",
                    # A consumer that goes on must not be given a step of the membership that it
                    # has left.
                    interruptible=self._core.call.closing,
                )
            except ActorRestartedError:
                # LeaveGroup may not have arrived: the new membership manager sends it again. (The
                # id is kept for the next call, too: this one may be interrupted.)
                self._core.port.membership.rejoin_as(member_id)
                continue
            except Exception as error:
                if not self._core.call.is_own(error):
                    raise  # a signal handler's
                self._core.log.warning("member.leave_failed", because=error)
            break
        self._core.port.membership.leave()
        self._core.publish(SubscriptionChanged(topics=frozenset()))
