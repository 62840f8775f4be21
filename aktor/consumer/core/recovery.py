"""Telling the background its state again: after actors were restarted, or a call was interrupted.

The state that counts: the subscription, the consumed positions, the paused partitions, and the
resets and rebalance steps without an answer. Everything else is computed from it and told again,
with new epochs, so that older messages and records are dropped.
"""

from __future__ import annotations

from aktor.consumer.core.assignment import Assignment
from aktor.consumer.core.call import Call
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.event_queue import EventQueue
from aktor.consumer.core.link import Link
from aktor.consumer.core.partition_errors import PositionErrors
from aktor.consumer.core.poll_heartbeat import PollHeartbeat
from aktor.consumer.core.rebalancing import Rebalancing
from aktor.consumer.core.subscription import Subscription
from aktor.consumer.core.waiting import Waiting
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import Loss, SubscriptionChanged
from aktor.events.routes import MEMBERSHIP

__all__ = ["Recovery"]


class Recovery:
    """Owns which restart of actors is being acted on."""

    def __init__(
        self,
        link: Link,
        call: Call,
        subscription: Subscription,
        delivery: Delivery,
        rebalancing: Rebalancing,
        assignment: Assignment,
        *,
        errors: PositionErrors,
        heartbeat: PollHeartbeat,
        events: EventQueue,
    ) -> None:
        self._call = call
        self._subscription = subscription
        self._delivery = delivery
        self._rebalancing = rebalancing
        self._assignment = assignment
        self._errors = errors
        self._heartbeat = heartbeat
        self._events = events
        self._port = link.port
        self._publish = link.publish
        self._log = link.log
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
            self._assignment.track_topics_of_question(ticket, frozenset())
        self._delivery.take_back()
        # An interrupted `subscribe` may have ended before these two calls.
        self._port.watch_cluster(wanted=self._subscription.follows_cluster)
        self._assignment.follow_cluster()
        self._assignment.renew_all()
        self._delivery.recount()
        self._errors.forget()
        self._assignment.say_anew("a call was interrupted")
        self._assignment.say_paused(resumed=True)
        self._subscription.say_changes()
        self._heartbeat.hurry()
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
        self._assignment.renew_all()
        self._assignment.say_anew("actors were restarted")
        self._assignment.say_paused(resumed=False)
        self._heartbeat.hurry()
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
