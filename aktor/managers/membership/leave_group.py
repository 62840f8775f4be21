"""Leaving the group: LeaveGroups without an answer yet, and the questions that wait for them."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER
from aktor.events.membership import Operation
from aktor.events.metadata import Broker
from aktor.settings import Settings
from aktor.values import Mutable, Value

__all__ = ["Leave", "LeaveSent", "Leaves"]

_NO_IDS: Final[frozenset[str]] = frozenset()


class Leave(Mutable):
    """One request to leave, and the application's tickets that wait for it.

    `member_id` is empty until the answer to JoinGroup number `of_join` brings it. `stays`: a static
    member of a KIP-848 group keeps its place.
    """

    member_id: str
    because: str
    deadline: float
    exchange: Exchange
    tickets: list[int] = field(default_factory=list)
    of_join: int | None = None
    stays: bool = False
    #: Whom it was sent to last, and how the last attempt ended that has failed.
    asked: Broker | None = None
    trouble: str = ""

    @property
    def due(self) -> float:
        """When it may be sent (again): not before the member id is known."""
        return self.exchange.due if self.of_join is None else NEVER

    def asks(self, coordinator: Broker) -> LeaveSent:
        """It is sent to this broker now; returns the note for it."""
        self.asked = coordinator
        return LeaveSent(leave=self, number=self.exchange.sent())

    def failed(self, now: float, jitter: float, trouble: str) -> None:
        """The last attempt has ended so: it is repeated after the backoff."""
        self.trouble = trouble
        self.exchange.failed(now, jitter)

    def why_unanswered(self, coordinator: Broker | None) -> str:
        """Why the group may still have the member, now that the time to leave is over. (A request
        without an answer may still wait for a connection: then it was not sent either.)"""
        if self.of_join is not None:
            return "nobody was asked, since no answer to its JoinGroup has told its member id"
        if self.asked is None:
            why = "the group's coordinator is not known"
            if coordinator is not None:
                why = f"there was no time to ask {coordinator}"
            return f"nobody was asked, since {why}"
        text = f"no answer to the request to leave came from {self.asked} in time"
        if self.trouble:
            count = self.exchange.failures
            times = "once," if count == 1 else f"{count} times, at last"
            text = f"the request to leave, to {self.asked}, failed {times} with {self.trouble}"
            if self.exchange.in_flight:
                text += ", and has no answer since"
        if coordinator is None:
            text += ", and the group's coordinator is not known any more"
        return text

    def name(self, member_id: str) -> None:
        """The answer to JoinGroup has told the member id."""
        self.of_join = None
        self.member_id = member_id

    def give_up_at(self, deadline: float) -> None:
        """Set the deadline of this LeaveGroup."""
        self.deadline = deadline

    def add_ticket(self, ticket: int) -> None:
        """The application's call with this ticket waits for it."""
        self.tickets.append(ticket)

    def take_over(self, tickets: list[int]) -> None:
        """Calls that waited for an ended LeaveGroup wait for this one from now on."""
        self.tickets += tickets


class LeaveSent(Value):
    """Note on one attempt of a `Leave`, by its number."""

    leave: Leave
    number: int

    def failed(self, now: float, jitter: float, trouble: str) -> None:
        """LeaveGroup is repeated after the backoff, unless this attempt was given up before."""
        if self.leave.exchange.expects(self.number):
            self.leave.failed(now, jitter, trouble)


class Leaves:
    """Owns the LeaveGroups that are still to be answered."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        #: The id of our member if it stayed in the group: LeaveGroup may be sent for it later.
        self._stayed_as = ""
        self._open: list[Leave] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def __contains__(self, leave: Leave) -> bool:
        return leave in self._open

    def add(
        self,
        member_id: str,
        because: str,
        deadline: float,
        *,
        of_join: int | None = None,
        operation: Operation = Operation.DEFAULT,
    ) -> Leave | None:
        """Open a LeaveGroup. None if the member stays, as a static one does (KIP-345), or if it has
        no member id and waits for none."""
        static = self._settings.group_instance_id is not None
        if not operation.leaves_for_good(static=static) or (not member_id and of_join is None):
            return None
        return self._open_one(member_id, because, deadline, of_join=of_join)

    def add_own(self, member_id: str, because: str, deadline: float, **more: Any) -> None:
        """As `add`, for our own member. A static member is not removed now: remember its id, so
        that LeaveGroup can be sent for it later."""
        who = member_id or self._stayed_as
        leave = self.add(who, because, deadline, **more)
        self._stayed_as = who if leave is None else ""

    def replace(self, member_id: str, because: str, deadline: float, *, stays: bool) -> None:
        """Open one LeaveGroup in place of all that were open; it takes over their tickets."""
        tickets = [ticket for leave in self._open for ticket in leave.tickets]
        self._open.clear()
        self._open_one(member_id, because, deadline, tickets=tickets, stays=stays)

    def _open_one(self, member_id: str, because: str, deadline: float, **more: Any) -> Leave:
        exchange = Exchange(self._settings)
        leave = Leave(
            member_id=member_id, because=because, deadline=deadline, exchange=exchange, **more
        )
        self._open.append(leave)
        return leave

    def joined(self) -> None:
        """The member is in the group (again): forget the id of the one that stayed."""
        self._stayed_as = ""

    def clear(self) -> None:
        """Nothing has to be sent any more: the member joins again."""
        self._open.clear()

    def begin(self, now: float) -> None:
        """LeaveGroups without a deadline get one: `request_timeout_ms` from `now` on."""
        for leave in self._open:
            if leave.deadline == NEVER:
                leave.give_up_at(now + self._settings.request_timeout)

    def set_deadline(self, deadline: float) -> Leave | None:
        """Set the deadline of all open LeaveGroups; return the latest, or None."""
        for leave in self._open:
            leave.give_up_at(deadline)
        return self._open[-1] if self._open else None

    def end(self, leave: Leave) -> list[int]:
        """This LeaveGroup is over. Returns its tickets; none if another LeaveGroup is open, which
        takes them over."""
        self._open.remove(leave)
        if not self._open:
            return leave.tickets
        self._open[-1].take_over(leave.tickets)
        return []

    def of_join(self, number: int) -> list[Leave]:
        """The open LeaveGroups that wait for the member id in the answer to this JoinGroup."""
        return [leave for leave in self._open if leave.of_join == number]

    @property
    def member_ids(self) -> frozenset[str]:
        """The known member ids for which a LeaveGroup is open."""
        if not self._open:
            return _NO_IDS
        return frozenset(leave.member_id for leave in self._open if leave.member_id)

    def all(self) -> list[Leave]:
        """The open LeaveGroups, as a copy: one may end during an iteration."""
        return list(self._open)

    def overdue(self, now: float) -> list[Leave]:
        """The LeaveGroups whose deadline has come."""
        return [leave for leave in self._open if now >= leave.deadline]

    def to_send(self, now: float) -> list[Leave]:
        """The LeaveGroups to send now."""
        return [leave for leave in self._open if now >= leave.due]

    def awaited(self) -> bool:
        """Whether the application waits for an open LeaveGroup."""
        return any(leave.tickets for leave in self._open)

    def abandon_requests(self) -> None:
        """Give up the requests in flight, and send them again."""
        for leave in self._open:
            leave.exchange.abandon()

    @property
    def deadline(self) -> float:
        """When the first LeaveGroup is given up."""
        return min((leave.deadline for leave in self._open), default=NEVER)

    @property
    def due(self) -> float:
        """When the first LeaveGroup may be sent."""
        return min((leave.due for leave in self._open), default=NEVER)
