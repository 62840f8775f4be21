"""Our membership in the group, as the application knows it.

The background thread writes what the membership manager has said, the application thread what it
has done since (left the group, chosen a member id). A property takes the later of the two. Any
thread may read.
"""

from __future__ import annotations

import math
from typing import Final

from aktor.events.membership import MemberChanged, MemberState, SessionExtended

__all__ = ["NOT_A_MEMBER", "MembershipView"]

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
