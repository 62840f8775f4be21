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
        self._call = core.call
        self._subscription = core.subscription
        self._delivery = core.delivery
        self._events = core.events
        self._port = core.port
        self._publish = core.publish
        self._log = core.log
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
        self._rebalancing.repair()
        self.restoring = None
        self._call.repair()
        if self._port.failure is not None:
            return
        for ticket in self._call.asked:
            self._subscription.track_topics_of_question(ticket, frozenset())
        self._delivery.take_back()
        # An interrupted `subscribe` may have ended before these calls.
        self._port.watch_cluster(wanted=self._subscription.follows_cluster)
        self._positions.follow_cluster()
        self._delivery.follow_subscription(self._subscription.wants)
        self._renew_all()
        self._delivery.recount()
        self._errors.forget()
        self._say_anew("a call was interrupted")
        self._say_paused(resumed=True)
        self._subscription.say_changes()
        self._log.info("call.repaired")

    # -- after a restart of actors

    def restore_if_restarted(self) -> Waiting[None]:
        """Tell restarted actors what they must know, before anything else is asked of them."""
        for restarted in self._events.restarts():
            # on_partitions_lost may call the consumer, which enters this method again.
            if self._events.holds(restarted) and restarted is not self.restoring:
                yield from self.restore(restarted)

    def restore(self, restarted: ActorsRestarted) -> Waiting[None]:
        """Tell these actors what they must know; raises the error of the lost callback, if any."""
        self._call.touch()
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
            self._call.own(error, owed=True)
        self._events.take_out(restarted)
        if error is not None:
            raise error

    def _restore_membership(self, restarted: ActorsRestarted) -> Waiting[BaseException | None]:
        """All partitions are lost, and the new membership manager joins; returns the listener's
        error.

        The new manager sends LeaveGroup for earlier member ids that have not left yet.
        """
        membership = self._port.membership
        if self._subscription.in_group:
            self._events.forget_steps()
            owned = frozenset(self._delivery.partitions)
            error = yield from self._rebalancing.revoke(owned, Loss.LOST, restarted)
            self._subscription.say(membership.last_member_id, membership.leaving)
            return error
        if membership.leaving:  # the application has unsubscribed since
            self._publish(SubscriptionChanged(topics=frozenset(), leaving=membership.leaving))
        return None

    # -- what both tell again

    def _renew_all(self) -> None:
        """Give all partitions new epochs: records that were fetched before are dropped."""
        for state in self._delivery.partitions.values():
            self._positions.renew(state)

    def _say_anew(self, because: str) -> None:
        """Tell the background the whole assignment again, and the resets without an answer."""
        self._subscription.track_topics(self._delivery.partitions)
        self._positions.say()
        self._positions.say_resets(because)

    def _say_paused(self, *, resumed: bool) -> None:
        """Tell the background which partitions are not to be fetched; `resumed`: also which are."""
        assigned = self._delivery.partitions
        wanted = self._delivery.fetchable(assigned)
        paused = assigned.keys() - wanted
        self._publish(
            PausePartitions(
                partitions=frozenset(paused), resumed=wanted if resumed else frozenset()
            )
        )
