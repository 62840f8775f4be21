"""The time and the jitter that messages bring to the network actor, which has no clock."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Moment"]

#: The golden ratio's fraction: its multiples, modulo 1, lie as far apart as they can.
_GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0


class Moment:
    """Owns the latest time that a message brought, and the jitter that was used last."""

    def __init__(self) -> None:
        self.now = -math.inf
        self._jitter = 0.0

    def heed(self, now: float) -> float:
        """Take the time of a message. A message that was delayed must not turn the time back."""
        self.now = max(self.now, now)
        return self.now

    def begin_tick(self, now: float, jitter: float) -> float:
        """A tick brings the time and a random number."""
        self._jitter = jitter
        return self.heed(now)

    def next_jitter(self) -> float:
        """The next jitter, in [0, 1). The values between two ticks are spread evenly: requests that
        failed together must not all be repeated together."""
        self._jitter = (self._jitter + _GOLDEN) % 1.0
        return self._jitter
