"""Telling the background its state again: after actors were restarted, or a call was interrupted.

The state that counts: the subscription, the consumed positions, the paused partitions, and the
resets and rebalance steps without an answer. Everything else is computed from it and told again,
with new epochs, so that older messages and records are dropped.
"""

from __future__ import annotations

from aktor.consumer.core.core import Core
from aktor.consumer.core.partition_errors import PositionErrors
from aktor.consumer.core.positions import Positions
from aktor.consumer.core.rebalancing import Rebalancing
from aktor.consumer.core.waiting import Waiting
from aktor.events.fetching import PausePartitions
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import Loss, SubscriptionChanged
from aktor.events.routes import MEMBERSHIP

__all__ = ["Recovery"]


class Recovery:
    """Owns which restart of actors is being acted on."""

    def __init__(
        self, core: Core, rebalancing: Rebalancing, positions: Positions, errors: PositionErrors
    ) -> None:
        self._core = core
        self._rebalancing = rebalancing
        self._positions = positions
        self._errors = errors
        #: The restart that is being acted on; None: there is none.
        self.restoring: ActorsRestarted | None = None

    def begin_call(self) -> None:
        """An outermost call begins: no restart is being acted on."""
        self.restoring = None

    # -- after a call that was interrupted

    def repair(self) -> None:
        """The last call was interrupted, on any line: repair what it left half done.

        If an interrupt ends the repair itself, the next call does it again.
        """
        core = self._core
        self._rebalancing.repair()
        self.restoring = None
        core.call.repair()
        if core.port.failure is not None:
            return
        for ticket in core.call.asked:
            core.subscription.track_topics_of_question(ticket, frozenset())
        core.delivery.take_back()
        # An interrupted `subscribe` may have ended before these calls.
        core.port.watch_cluster(wanted=core.subscription.follows_cluster)
        self._positions.follow_cluster()
        core.delivery.follow_subscription(core.subscription.wants)
        self._renew_all()
        core.delivery.recount()
        self._errors.forget()
        self._say_anew("a call was interrupted")
        self._say_paused(resumed=True)
        core.subscription.say_changes()
        core.log.info("call.repaired")

    # -- after a restart of actors

    def restore_if_restarted(self) -> Waiting[None]:
        """Tell restarted actors what they must know, before anything else is asked of them."""
        for restarted in self._core.events.restarts():
            # on_partitions_lost may call the consumer, which enters this method again.
            if self._core.events.holds(restarted) and restarted is not self.restoring:
                yield from self.restore(restarted)

    def restore(self, restarted: ActorsRestarted) -> Waiting[None]:
        """Tell these actors what they must know; raises the error of the lost callback, if any."""
        self.restoring = restarted
        error = None
        if MEMBERSHIP in restarted.actors:
            error = yield from self._restore_membership(restarted)
        # The fetch manager needs all other managers, so it is restarted with each of them. It does
        # not know what its predecessor has fetched: go on from the positions.
        self._renew_all()
        self._say_anew("actors were restarted")
        self._say_paused(resumed=False)
        if error is not None:
            self._core.call.raise_once(error, lambda: self._core.events.take_out(restarted))
        self._core.events.take_out(restarted)

    def _restore_membership(self, restarted: ActorsRestarted) -> Waiting[BaseException | None]:
        """All partitions are lost, and the new membership manager joins; returns the listener's
        error.

        The new manager sends LeaveGroup for earlier member ids that have not left yet.
        """
        membership = self._core.port.membership
        if self._core.subscription.in_group:
            self._core.events.forget_steps()
            owned = frozenset(self._core.delivery.partitions)
            error = yield from self._rebalancing.revoke(owned, Loss.LOST, restarted)
            self._core.subscription.say(membership.last_member_id, membership.leaving)
            return error
        if membership.leaving:  # the application has unsubscribed since
            self._core.publish(SubscriptionChanged(topics=frozenset(), leaving=membership.leaving))
        return None

    # -- what both tell again

    def _renew_all(self) -> None:
        """Give all partitions new epochs: records that were fetched before are dropped."""
        for state in self._core.delivery.partitions.values():
            self._positions.renew(state)

    def _say_anew(self, because: str) -> None:
        """Tell the background the whole assignment again, and the resets without an answer."""
        self._core.subscription.track_topics(self._core.delivery.partitions)
        self._positions.say()
        self._positions.say_resets(because)

    def _say_paused(self, *, resumed: bool) -> None:
        """Tell the background which partitions are not to be fetched; `resumed`: also which are."""
        assigned = self._core.delivery.partitions
        wanted = self._core.delivery.fetchable(assigned)
        paused = assigned.keys() - wanted
        self._core.publish(
            PausePartitions(
                partitions=frozenset(paused), resumed=wanted if resumed else frozenset()
            )
        )
