"""What the background said and the application has yet to act on, in order."""

from __future__ import annotations

from collections import deque
from typing import Any

from aktor.consumer.port import ApplicationPort
from aktor.consumer.rebalancing import Step
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import GroupFailed, Loss, RevokePartitions, RunRevokedCallback
from aktor.events.message import Message
from aktor.events.metadata import TopicsRefused

__all__ = ["EventQueue"]


class EventQueue:
    """Owns the events that were taken over from the port.

    An event leaves the queue when it was acted on: a call that was interrupted finds it again. Only
    this thread's own deque may be searched and cut; the background writes the port's.
    """

    __slots__ = ("said", "taken_over")

    def __init__(self, port: ApplicationPort) -> None:
        #: The port's queue: what the background has said, and `poll` has not looked at.
        self.said = port.events
        #: What was taken over from there, and is not acted on yet.
        self.taken_over: deque[Message] = deque()

    def __bool__(self) -> bool:
        return bool(self.said or self.taken_over)

    def gather(self) -> deque[Message]:
        """Take over what was said since; all that is not acted on."""
        said = self.said
        while said:
            # Its last one may have been interrupted between these two lines.
            if not self.taken_over or self.taken_over[-1] is not said[0]:
                self.taken_over.append(said[0])
            said.popleft()
        return self.taken_over

    def next(self) -> Any:
        """The event to act on now. There must be one."""
        self.gather()
        return self.taken_over[0]

    def done_with(self, event: Message) -> None:
        """It is acted on, unless it was forgotten meanwhile."""
        if self.taken_over and self.taken_over[0] is event:
            self.taken_over.popleft()

    def take_out(self, event: Message) -> None:
        """It is acted on, wherever it stands."""
        self.taken_over = deque(one for one in self.taken_over if one is not event)

    def forget_steps(self) -> None:
        """Steps of a rebalance that is being abandoned are not answered any more."""
        self.taken_over = deque(one for one in self.gather() if not isinstance(one, Step))

    def forget_group(self) -> None:
        """Steps and errors of a membership that ends must not be acted on in the next one."""
        self.forget_steps()
        refused = GroupFailed | TopicsRefused
        self.taken_over = deque(one for one in self.taken_over if not isinstance(one, refused))

    def holds(self, event: Message) -> bool:
        """Whether it is not acted on yet."""
        return event in self.taken_over

    def has_step_besides(self, event: Message) -> bool:
        """Whether another step of a rebalance has come, as far as was taken over."""
        return any(isinstance(one, Step) for one in self.taken_over if one is not event)

    def says_lost(self) -> bool:
        """Whether the membership has said meanwhile that partitions are lost."""
        return any(
            isinstance(one, RevokePartitions | RunRevokedCallback) and one.loss is Loss.LOST
            for one in self.gather()
        )

    def restarts(self) -> list[ActorsRestarted]:
        """Restarts of actors that are not answered yet."""
        return [one for one in self.gather() if isinstance(one, ActorsRestarted)]
