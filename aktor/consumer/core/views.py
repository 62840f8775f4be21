"""What the application sees of the background without asking: our membership, and the connections.

The background thread writes what its actors have said, the application thread what it has done
since (left the group, chosen a member id, taken an error). Each field has one writer; a property
takes the later of the two. Any thread may read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from aktor.events.membership import MemberChanged, MemberState, SessionExtended
from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersLost,
    BrokersUnreachable,
)

__all__ = ["NOT_A_MEMBER", "ConnectionView", "MembershipView"]

NOT_A_MEMBER: Final = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)


class MembershipView:
    """Owns the latest snapshot of the member, and the ids that it had before."""

    __slots__ = (
        "_chosen",
        "_in_group_as",
        "_known_as",
        "_left_as",
        "leaving",
        "member",
        "session_until",
        "spoken",
    )

    def __init__(self) -> None:
        self.member = NOT_A_MEMBER
        #: Earlier ids of our member for which LeaveGroup is not answered yet.
        self.leaving: frozenset[str] = frozenset()
        #: The protocol in which we were a member of the group; "" if we never were.
        self.spoken = ""
        self.session_until = -math.inf
        #: The member when it was last in the group, as the background said; see `was_member`.
        self._in_group_as = NOT_A_MEMBER
        #: `_in_group_as` at the moment when the application last left the group. While the two are
        #: the same, there is no member.
        self._left_as = NOT_A_MEMBER
        #: The last message of the background that tells a member id; and the id that the
        #: application has chosen in place of the one in it. See `last_member_id`.
        self._known_as = NOT_A_MEMBER
        self._chosen: tuple[MemberChanged, str] | None = None

    # -- the background's side

    def on_member(self, member: MemberChanged) -> None:
        """The membership manager says who we are in the group now."""
        self.member = member
        self.leaving = member.leaving
        if member.generation >= 0:
            self.spoken = member.protocol
            self._in_group_as = member
        known = member.member_id or member.joins_as
        if known or member.state is MemberState.UNJOINED:
            self._known_as = member

    def on_session(self, extended: SessionExtended) -> None:
        """The membership manager tells until when the session lasts."""
        self.session_until = extended.until

    def on_restarted(self) -> None:
        """The membership manager was restarted: we are in no generation now."""
        self.member = NOT_A_MEMBER

    # -- the application's side

    @property
    def was_member(self) -> MemberChanged:
        """The member when it was last in the group: its id and generation go into transactions.

        They stay the same after it was expelled: the group refuses a commit with the id of an
        expelled member. Without an id it would take the commit, although the partitions belong to
        another member.
        """
        member = self._in_group_as
        return NOT_A_MEMBER if member is self._left_as else member

    @property
    def last_member_id(self) -> str:
        """The member id under which a restarted membership manager joins again, or leaves.

        Without it the old member would stay in the group, with its partitions, until its session
        ends.
        """
        last = self._known_as
        if self._chosen is not None and self._chosen[0] is last:
            return self._chosen[1]
        return last.member_id or last.joins_as

    def rejoin_as(self, member_id: str) -> None:
        """A restarted membership manager is given this id, until the manager tells another one."""
        self._chosen = self._known_as, member_id

    def leave(self) -> None:
        """The application has left the group: there is no member until it joins again."""
        self._left_as = self._in_group_as


class ConnectionView:
    """Owns the latest errors of connections.

    The background thread writes all fields but `_taken`: the error that the application has taken.
    """

    __slots__ = ("_error", "_taken", "_unreachable", "lost")

    def __init__(self) -> None:
        #: Brokers that are needed and have not been reached for long, by node, with the reason.
        self.lost: Mapping[int, str] = {}
        self._error: BrokerRefused | BootstrapFailed | BrokersUnreachable | None = None
        self._taken: BrokerRefused | BootstrapFailed | BrokersUnreachable | None = None
        self._unreachable: BootstrapFailed | BrokersUnreachable | None = None

    # -- the background's side

    def on_refused(self, report: BrokerRefused) -> None:
        """A broker has refused us."""
        self._error = report

    def on_unreachable(self, report: BootstrapFailed | BrokersUnreachable) -> None:
        """No broker can be reached."""
        self._unreachable = self._error = report

    def on_reached(self) -> None:
        """A broker can be reached after all."""
        if self._error is self._unreachable:
            self._error = None
        self._unreachable = None

    def on_lost(self, report: BrokersLost) -> None:
        """These brokers have not been reached for long."""
        self.lost = report.brokers

    def on_answer(self) -> None:
        """A broker has answered: the last error is over."""
        self._error = None

    def on_restarted(self) -> None:
        """The network actor was restarted: the new one finds out for itself."""
        self.lost = {}
        self._unreachable = None

    # -- the application's side

    def take_error(self) -> Exception | None:
        """The latest error, once."""
        report = self._error
        if report is None or report is self._taken:
            return None
        self._taken = report
        return report.error

    @property
    def unreachable(self) -> Exception | None:
        """Why no broker can be reached, while that lasts. From any thread."""
        report = self._unreachable
        return None if report is None else report.error
