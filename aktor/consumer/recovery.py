"""Saying again what cannot be made anew: after actors were restarted, or a call was interrupted.

What counts is the subscription, the positions of what was given out, what is paused, which resets
are not answered, and the steps that are not. All else follows from it: it is made anew and said
again, in new epochs, so that what was said and fetched before is dropped.
"""

from __future__ import annotations

from aktor.consumer.assignment import Assignment
from aktor.consumer.call import Call
from aktor.consumer.delivery import Delivery
from aktor.consumer.event_queue import EventQueue
from aktor.consumer.link import Link
from aktor.consumer.poll_heartbeat import PollHeartbeat
from aktor.consumer.position_errors import PositionErrors
from aktor.consumer.rebalancing import Rebalancing
from aktor.consumer.subscription import Subscription
from aktor.consumer.waiting import Waiting
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import Loss, SubscriptionChanged
from aktor.events.routes import MEMBERSHIP

__all__ = ["Recovery"]


class Recovery:
    """Owns which restart is being answered."""

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
        self._restoring: object = None

    def begin_call(self) -> None:
        """An outermost call begins: no restart is being answered."""
        self._restoring = None

    # -- after a call that was interrupted

    def repair(self) -> None:
        """The last call was interrupted, anywhere: make sound again what it left half done.

        May itself be interrupted, and is then done again.
        """
        self._rebalancing.repair()
        self._restoring = None
        self._call.repair()
        if self._port.failure is not None:
            return
        for ticket in self._call.asked:
            self._assignment.track_topics_of_question(ticket, frozenset())
        self._delivery.take_back()
        # If `subscribe` was interrupted, it may not have come to this.
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
            # A lost callback may ask for something, too, and come here.
            if self._events.holds(restarted) and restarted is not self._restoring:
                yield from self.restore(restarted)

    def restore(self, restarted: ActorsRestarted) -> Waiting[None]:
        """Tell these actors what they must know; raises what a listener raised about it."""
        self._restoring = restarted
        error = None
        if MEMBERSHIP in restarted.actors:
            error = yield from self._restore_membership(restarted)
        # The fetch manager needs all others, so it is a new one after every restart. It does not
        # know what its predecessor fetched: go on from the positions.
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
        """All partitions are lost, and the new membership joins; returns a listener's error.

        It sends LeaveGroup for the members of before that have yet to leave.
        """
        membership = self._port.membership
        if self._subscription.in_group:
            self._events.forget_steps()
            owned = frozenset(self._delivery.partitions)
            error = yield from self._rebalancing.revoke(owned, Loss.LOST, restarted)
            self._subscription.say(membership.last_member_id, membership.leaving)
            return error
        if membership.leaving:  # it has unsubscribed since
            self._publish(SubscriptionChanged(topics=frozenset(), leaving=membership.leaving))
        return None
