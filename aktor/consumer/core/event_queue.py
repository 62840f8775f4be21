"""The messages of the background on which the application has yet to act, in order."""

from __future__ import annotations

from collections import deque

from aktor.consumer.core.port import ApplicationPort, Event
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import GroupFailed, Loss, RevokePartitions, RunRevokedCallback, Step
from aktor.events.metadata import TopicsRefused

__all__ = ["EventQueue"]


class EventQueue:
    """Owns the events that were taken over from the port.

    An event leaves the queue when it was acted on: after an interrupt the next call finds it again.
    Only `taken_over` may be searched and changed: the background thread adds to the port's deque.
    """

    __slots__ = ("_port", "arrived", "taken_over")

    def __init__(self, port: ApplicationPort) -> None:
        self._port = port
        #: The port's deque: messages of the background that `poll` has not looked at.
        self.arrived = port.events
        #: Messages taken over from it that were not acted on yet.
        self.taken_over: deque[Event] = deque()

    def __bool__(self) -> bool:
        return bool(self.arrived or self.taken_over)

    def gather(self) -> deque[Event]:
        """Take over new messages; returns all that were not acted on yet."""
        self._port.take_events(self._take_over)
        return self.taken_over

    def _take_over(self, event: Event) -> None:
        # After an interrupt the port may give an event again that was taken over already.
        if not self.taken_over or self.taken_over[-1] is not event:
            self.taken_over.append(event)

    def next(self) -> Event:
        """The event to act on now. There must be one."""
        self.gather()
        return self.taken_over[0]

    def done_with(self, event: Event) -> None:
        """The event was acted on: take it out, unless it was forgotten meanwhile."""
        if self.taken_over and self.taken_over[0] is event:
            self.taken_over.popleft()

    def take_out(self, event: Event) -> None:
        """The event was acted on: take it out, wherever it stands."""
        self.taken_over = deque(waiting for waiting in self.taken_over if waiting is not event)

    def forget_steps(self) -> None:
        """Forget the steps of a rebalance that is abandoned: they are not answered any more."""
        self.taken_over = deque(event for event in self.gather() if not isinstance(event, Step))

    def forget_group(self) -> None:
        """Forget the steps and errors of a membership that ends: the next one must not see them."""
        self.forget_steps()
        refused = GroupFailed | TopicsRefused
        self.taken_over = deque(
            event for event in self.taken_over if not isinstance(event, refused)
        )

    def holds(self, event: Event) -> bool:
        """Whether the event was not acted on yet."""
        return event in self.taken_over

    def has_step_besides(self, event: Event) -> bool:
        """Whether another step of a rebalance was taken over."""
        return any(isinstance(waiting, Step) for waiting in self.taken_over if waiting is not event)

    def says_lost(self) -> bool:
        """Whether a message of the membership manager says that partitions are lost."""
        return any(
            isinstance(event, RevokePartitions | RunRevokedCallback) and event.loss is Loss.LOST
            for event in self.gather()
        )

    def restarts(self) -> list[ActorsRestarted]:
        """Restarts of actors on which the application has not acted yet."""
        return [event for event in self.gather() if isinstance(event, ActorsRestarted)]
