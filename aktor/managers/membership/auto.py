"""`group_protocol='auto'`: the consumer protocol where the cluster speaks it, else the classic one.

A member's first ConsumerGroupHeartbeat finds out. If the brokers do not know that request, or do
not convert the group from the classic protocol, the classic manager takes over. The choice is made
once in a consumer's life.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import UnsupportedVersionError

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.runtime.supervision import LastFacts
from aktor.events.lifecycle import Tick
from aktor.events.membership import GroupFailed, MemberChanged, SubscriptionChanged
from aktor.events.message import Message
from aktor.events.metric import Metric
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.routes import FACTS, MEMBERSHIP
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.membership.consumer.manager import (
    ConsumerMembershipManager,
    ProtocolChoice,
)
from aktor.managers.membership.errors import no_patterns
from aktor.protocol.consumer_group import ConsumerGroupHeartbeatRequest
from aktor.protocol.group_protocols import CLASSIC
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["AutoMembershipManager"]

#: The messages whose last one is kept, and told to the classic manager if it takes over: the facts
#: (as the supervisor tells a restarted actor), the subscription, and the Poll.
HEARD: Final[Mapping[type, str]] = {
    **{kind: by for kind, by in FACTS.items() if kind in ClassicMembershipManager.understands()},
    SubscriptionChanged: "subscription",
    Poll: "poll",
}


class AutoMembershipManager(RequestManager):
    """Owns the manager that is tried first, and the one that takes over if it must."""

    name = MEMBERSHIP
    NEEDS = ClassicMembershipManager.NEEDS
    #: The settings of both managers: it may have to make either of them.
    READS = tuple(sorted({*ClassicMembershipManager.READS, *ConsumerMembershipManager.READS}))

    def __init__(
        self,
        settings: Settings,
        *,
        member_id: str = "aktor",
        choice: ProtocolChoice | None = None,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(settings, incarnation=incarnation, dispatcher=dispatcher, trace=trace)
        self._trace = trace
        self._choice = choice or ProtocolChoice()
        self._first = ConsumerMembershipManager(
            settings.only(self.name, ConsumerMembershipManager.READS),
            member_id=member_id,
            choice=self._choice,
            incarnation=incarnation,
            trace=trace,
        )
        self._chosen: ConsumerMembershipManager | ClassicMembershipManager = self._first
        if self._choice.protocol == CLASSIC:
            self._chosen = self._make_classic()
        self._heard = LastFacts(HEARD)
        self._handlers.put(self._let_handle, self.understands() - {Tick})

    def _make_classic(self) -> ClassicMembershipManager:
        seen = self.settings.only(self.name, ClassicMembershipManager.READS)
        return ClassicMembershipManager(seen, incarnation=self.incarnation, trace=self._trace)

    @classmethod
    def understands(cls) -> frozenset[type]:
        """The messages that either manager understands."""
        return ClassicMembershipManager.understands() | ConsumerMembershipManager.understands()

    @classmethod
    def mends(cls) -> tuple[str, ...]:
        """The actors of whose restart both managers must be told: they are the same."""
        return ClassicMembershipManager.mends()

    @property
    def looks_after(self) -> frozenset[str]:
        """The member ids of the chosen manager."""
        return self._chosen.looks_after

    def measure(self, now: float) -> Mapping[Metric, float]:
        """What the chosen manager has measured."""
        return self._chosen.measure(now)

    def _let_handle(self, message: Message) -> None:
        """Let the chosen manager handle the message."""
        if self._chosen is not self._first and _is_of_first(message):
            return
        if type(message) in HEARD:
            self._heard.tell(message)
        said = self._judge(self._chosen.handle(message))
        if self._chosen is not self._first and isinstance(message, SubscriptionChanged):
            said += _refuse_regex(message)
        for one in said:
            self._say(one)

    def _do_duties(self, now: float, jitter: float) -> float:
        """Let the chosen manager do what is due."""
        requests, wake_at, said = self._chosen.poll(now, jitter, self.wall)
        for request in requests:
            self.send(request)
        for message in self._judge(list(said)):
            self._say(message)
        return wake_at

    def note_present(self, now: float) -> None:
        """Show where the member of the chosen manager is."""
        self._chosen.note_present(now)
        self.present = self._chosen.present

    def _judge(self, said: list[Message]) -> list[Message]:
        """Replace the consumer protocol's manager if the group does not speak that protocol.

        `said` are the messages of the chosen manager. Returns the messages to send: after a
        replacement also those of the classic manager.
        """
        if self._chosen is not self._first:
            return said
        errors = [message.error for message in said if isinstance(message, GroupFailed)]
        refusals = [error for error in errors if self._first.falls_back_to_classic(error)]
        if not refusals:
            return said
        self.log.info("protocol.chosen", protocol=CLASSIC, because=refusals[0])
        self._choice.settle(CLASSIC)
        self._chosen = self._make_classic()
        kept = [message for message in said if not isinstance(message, GroupFailed | MemberChanged)]
        for fact in self._heard.known():
            kept += self._chosen.handle(fact)
        return kept


def _refuse_regex(subscription: SubscriptionChanged) -> list[Message]:
    """The error for a broker-side pattern: in the classic protocol no broker evaluates patterns."""
    if not subscription.regex:
        return []
    error = UnsupportedVersionError(
        f"this group speaks the classic protocol; {no_patterns(subscription.regex)}"
    )
    return [GroupFailed(error=error)]


def _is_of_first(message: Message) -> bool:
    """Whether it answers a heartbeat of the consumer protocol's manager, which was replaced."""
    if not isinstance(message, ResponseReceived | RequestFailed):
        return False
    return isinstance(message.request.body, ConsumerGroupHeartbeatRequest)
