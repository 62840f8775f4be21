"""Leaves out the deliveries that change nothing, before lines are parsed.

Of the deliveries of a partition between two changes of what its consumer owns, only the first and
the last matter. (A trace has one for each poll and partition: on a busy group nearly all lines.)
But a consumer that does not know yet that it was fenced delivers beside the new owner: to see that,
the first and the last of every few seconds are kept, less than `ownership.OVERLAP`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from aktor.trace.rebalances.lines import DELIVERED

__all__ = ["CHANGES", "SPAN", "Deliveries"]

#: What shows that a line changes what its consumer owns.
CHANGES: Final = ('"partitions.assigned"', '"partitions.released"')

_DELIVERED: Final = f'"{DELIVERED}"'

#: Seconds.
SPAN: Final = 10.0

#: How long `"trace": "01234567"` is.
_TRACE: Final = 19


class Deliveries:
    """Owns the deliveries that are held back: by consumer and partition the first and the last."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, _Run]] = {}

    def take(self, line: str, file: str) -> Iterator[str]:
        """The lines that go on, now that this line has come."""
        # The name of the event is near the end of the line.
        if line.rfind(_DELIVERED) >= 0:
            yield from self._hold(line, file)
            return
        if any(line.rfind(one) >= 0 for one in CHANGES):
            yield from _lines(self._held.pop(_source(line, file), {}))
        yield line

    def rest(self) -> Iterator[str]:
        """No line comes any more."""
        held, self._held = self._held, {}
        for runs in held.values():
            yield from _lines(runs)

    def _hold(self, line: str, file: str) -> Iterator[str]:
        at, end = line.rfind('"t":') + 4, line.find('"offsets":')
        stop = line.find(",", at)
        try:
            t = float(line[at : stop if stop >= 0 else line.find("}", at)])
        except ValueError:
            t = math.nan
        if not t > 0 or end < 0:  # it does not look as aktor writes it
            yield line
            return
        runs = self._held.setdefault(_source(line, file), {})
        run = runs.get(line[:end])
        if run is not None and run.span == t // SPAN:
            run.add(t, line)
            return
        runs[line[:end]] = _Run(t, line)
        if run is not None:
            yield from run.lines()


class _Run:
    __slots__ = ("first", "first_at", "last", "last_at", "span")

    def __init__(self, at: float, line: str) -> None:
        self.span = at // SPAN
        self.first = self.last = line
        self.first_at = self.last_at = at

    def add(self, at: float, line: str) -> None:
        if at >= self.last_at:
            self.last, self.last_at = line, at
        elif at < self.first_at:  # lines that were shipped twice begin anew
            self.first, self.first_at = line, at

    def lines(self) -> Iterator[str]:
        yield self.first
        if self.last is not self.first:
            yield self.last


def _lines(runs: dict[str, _Run]) -> Iterator[str]:
    for run in runs.values():
        yield from run.lines()


def _source(line: str, file: str) -> str:
    """Whose line it is, as far as that can be seen without parsing it."""
    at = line.rfind('"trace":')
    return f"{file}{line[at : at + _TRACE] if at >= 0 else ''}{line[: line.find(',')]}"
