"""What an application tells a member of a classic group."""

from __future__ import annotations

from aktor.events.membership import LeaveGroup


def a_leave(deadline: float, ticket: int = 7, *, member_id: str = "") -> LeaveGroup:
    return LeaveGroup(ticket=ticket, deadline=deadline, because="close", member_id=member_id)
