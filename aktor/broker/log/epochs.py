"""At which offset each leader epoch begins (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["LeaderEpochs"]

_UNKNOWN = (-1, -1)


class LeaderEpochs:
    """Owns the epochs of a log; epochs and offsets only grow (LeaderEpochFileCache)."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The epoch of the last leader that is known, -1 if none is."""
        return self._epochs[-1] if self._epochs else -1

    def begin(self, epoch: int, offset: int) -> None:
        """An epoch begins at `offset`, unless it has already; what contradicts that goes."""
        if epoch < 0 or (self._epochs and epoch == self._epochs[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= offset):
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(offset)

    def at(self, offset: int) -> int:
        """The epoch of the record at `offset`, -1 if unknown."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(the largest epoch up to `epoch`, where it ends) in a log that ends at `end_offset`.

        (-1, -1) if unknown.
        """
        if epoch < 0:
            return _UNKNOWN
        if epoch == self.latest:
            return epoch, end_offset
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):
            return _UNKNOWN
        if after == 0:
            # The epoch is older than all epochs of this log, whose first batches were deleted. It
            # ended at the latest where the oldest known epoch begins (LeaderEpochFileCache).
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` now."""
        while self._starts and self._starts[-1] >= offset:
            del self._epochs[-1], self._starts[-1]

    def drop_before(self, offset: int) -> None:
        """The log begins at `offset` now."""
        count = bisect_right(self._starts, offset)
        if count:
            del self._epochs[: count - 1], self._starts[: count - 1]
            self._starts[0] = offset
