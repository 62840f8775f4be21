"""The bandwidth to a broker: how many bytes a Fetch may ask for, so that they come in time."""

from __future__ import annotations

from typing import Final

__all__ = ["PATIENCE", "FetchBandwidth"]

#: A Fetch times out so many seconds after the longest time that the broker may wait for data. A
#: half-open connection must be noticed soon; after a failure the whole time doubles, up to the
#: request timeout.
PATIENCE: Final = 5.0

#: The bytes that a Fetch asks for at first, while the speed of the connection is unknown.
FIRST_BYTES: Final = 2**20


class FetchBandwidth:
    """Owns `bytes`: how many bytes the connection to one broker can bring in time.

    An answer that comes too late has used the bandwidth for nothing. So after a timeout, or a full
    answer slower than `PATIENCE`, the size is halved; only full answers faster than half of
    `PATIENCE` double it again. (A full answer has at least half of the bytes that were asked for.)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = min(most, FIRST_BYTES)

    def brought(self, size: int, *, asked: int, seconds: float) -> None:
        """An answer brought `size` bytes in `seconds`; the Fetch asked for `asked` bytes."""
        if size < asked // 2:
            return  # the broker had no more records: that says nothing of the bandwidth
        if seconds > PATIENCE:
            self.bytes = max(1, min(self.bytes, asked // 2))
        elif seconds <= PATIENCE / 2:
            self.bytes = min(self._most, max(self.bytes, 2 * max(asked, size)))

    def timed_out(self, *, asked: int) -> None:
        """The answer did not come in time."""
        self.bytes = max(1, min(self.bytes, asked // 2))
