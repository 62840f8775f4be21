"""Whether the group has confirmed the member recently enough to give records out.

A member whose process was suspended for longer than its session may have lost its partitions to
another member. The group must confirm the member before records are given out again.
"""

from __future__ import annotations

import math
from typing import Final

from aktor.consumer.core.link import Link
from aktor.consumer.core.subscription import Subscription
from aktor.events.membership import ConfirmSession

__all__ = ["CONFIRM_REPEAT", "Session"]

#: How often the group is asked to confirm the session, in seconds.
CONFIRM_REPEAT: Final = 0.2


class Session:
    """Owns when the group is asked again to confirm the member."""

    __slots__ = ("_ask_again_at", "_log", "_port", "_publish", "_subscription")

    def __init__(self, link: Link, subscription: Subscription) -> None:
        self._ask_again_at = math.inf
        self._subscription = subscription
        self._port = link.port
        self._publish = link.publish
        self._log = link.log

    def is_confirmed(self, now: float) -> bool:
        """Whether records may be given out; if not, ask the group to confirm the member."""
        until = self._port.membership.session_until
        if not self._subscription.in_group or now <= until:
            self._ask_again_at = math.inf
            return True
        if now >= self._ask_again_at or self._ask_again_at == math.inf:
            self._ask_again_at = now + CONFIRM_REPEAT
            self._log.info("session.unconfirmed", overdue_s=round(now - until, 3))
            self._publish(ConfirmSession())
        return False

    def due_after(self, _now: float) -> float:
        """When a poll that waits has to ask the group again."""
        return self._ask_again_at

    @property
    def holds_back(self) -> bool:
        """Whether records are held back because the group has yet to confirm the member."""
        return self._ask_again_at != math.inf

    def forget(self) -> None:
        """No records wait for the group's confirmation any more."""
        self._ask_again_at = math.inf
