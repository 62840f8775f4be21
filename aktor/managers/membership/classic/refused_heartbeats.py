"""Heartbeats of a classic member that are refused while it waits for the answer to JoinGroup."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["RefusedHeartbeats"]

#: While JoinGroup waits for its answer, heartbeats may be refused (UNKNOWN_MEMBER_ID,
#: ILLEGAL_GENERATION) because the answer with the new generation is on its way. After so many
#: seconds of refusals no answer is expected: the connection of that JoinGroup is half-open.
REFUSALS_TOLERATED: Final = 3.0


class RefusedHeartbeats:
    """Owns the time of the first refused heartbeat since JoinGroup or SyncGroup was sent."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = math.inf

    def refused(self, now: float) -> None:
        """The coordinator does not know the member or its generation; it may know it soon."""
        self._since = min(self._since, now)

    def start_over(self) -> None:
        """JoinGroup or SyncGroup is sent: its answer may bring another generation."""
        self._since = math.inf

    def are_tolerated(self, now: float) -> bool:
        """Whether the answer with the new generation may still be on its way."""
        return now < self._since + REFUSALS_TOLERATED
