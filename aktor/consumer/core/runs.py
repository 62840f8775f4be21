"""How the trace tells which records polls have given out: as runs of offsets, those of several
polls together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

__all__ = ["HOLD", "RUNS_MAX", "Untold", "runs"]

#: What polls give out within so many seconds of each other is traced together.
HOLD: Final = 0.025

#: The most runs in one trace event: a longer list would be cut.
RUNS_MAX: Final = 50


class Untold:
    """Records of a partition that polls have given out one after the other, and that are traced
    together. (A consumer that is behind polls thousands of times a second, and to trace a poll took
    as long as the poll.)"""

    __slots__ = ("epoch", "first", "first_at", "goes_on_until", "last_at", "next", "time", "until")

    def __init__(self, told: Any, now: float) -> None:
        """`told` is the last record that was traced, at once."""
        #: The offset behind the last record, and its leader epoch.
        self.next, self.epoch = told.offset + 1, told.leader_epoch
        self.begin(now)

    def begin(self, now: float) -> None:
        """All was traced."""
        self.until = now + HOLD
        #: Until when records that follow those which are held are held, too; -inf: none are held.
        self.goes_on_until = -math.inf
        #: The first offset, and its timestamp; None: there are no records.
        self.first: int | None = None
        self.time = -1
        self.first_at = self.last_at = now

    def takes(self, records: Sequence[Any], now: float) -> bool:
        """Hold these records, too, if they follow without a gap."""
        first, last = records[0], records[-1]
        begin, end = first.offset, last.offset
        if (
            begin != self.next
            or end - begin >= len(records)
            or not first.leader_epoch == last.leader_epoch == self.epoch
        ):
            return False
        if self.first is None:
            self.first, self.time, self.first_at = begin, first.timestamp, now
            self.goes_on_until = self.until
        self.last_at, self.next = now, end + 1
        return True

    def go_on(self, end: int, now: float) -> None:
        """Hold all records below `end`, too: they follow without a gap, and some are held."""
        self.next, self.last_at = end, now

    @property
    def values(self) -> dict[str, list[Any]]:
        """As `runs` has them."""
        return {"offsets": [[self.first, self.next - 1]], "times": [self.time]}


def runs(records: Sequence[Any]) -> Iterator[dict[str, list[Any]]]:
    """Offsets 1, 2, 3, 7 as [[1, 3], [7, 7]], and the timestamp of the first record of each run,
    which is all of one leader epoch; in parts that an event can hold."""
    first, last = records[0], records[-1]
    if first.leader_epoch == last.leader_epoch and last.offset - first.offset < len(records):
        yield {"offsets": [[first.offset, last.offset]], "times": [first.timestamp]}
        return
    offsets: list[list[int]] = []
    times: list[int] = []
    for first, last in _runs(records):
        offsets.append([first.offset, last.offset])
        times.append(first.timestamp)
        if len(offsets) == RUNS_MAX:
            yield {"offsets": offsets, "times": times}
            offsets, times = [], []
    if offsets:
        yield {"offsets": offsets, "times": times}


def _runs(records: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The first and the last record of each run."""
    first = last = records[0]
    for record in records[1:]:
        if record.offset != last.offset + 1 or record.leader_epoch != last.leader_epoch:
            yield first, last
            first = record
        last = record
    yield first, last
