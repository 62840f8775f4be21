"""Leaves out the deliveries that change nothing, before lines are parsed.

Of the deliveries of a partition between two changes of what its consumer owns, only the first and
the last matter. (A trace has one for each poll and partition: on a busy group nearly all lines.)
But a consumer that does not know yet that it was fenced delivers beside the new owner: to see that,
the first and the last of every few seconds are kept, less than `ownership.OVERLAP`. And before each
other event of a trace the last delivery is kept: it says how long a member was there that the
coordinator took out of the group meanwhile.

Of the answers to heartbeats those matter between which the coordinator did not answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from aktor.trace.rebalances.lines import DELIVERED, HEARTBEAT, Glance
from aktor.trace.rebalances.parts import INTERVALS_KEPT

__all__ = ["CHANGES", "SPAN", "Deliveries"]

#: The events that change what their consumer owns.
CHANGES: Final = frozenset({"partitions.assigned", "partitions.released"})

#: The coordinator was lost; and after these events a heartbeat may be the first that is answered.
LOST: Final = "coordinator.lost"
_AWAIT: Final = frozenset({"coordinator.found", "heartbeat.failed"})

#: Seconds.
SPAN: Final = 10.0

#: A line, and what is seen of it.
Seen = tuple[str, Glance]


class Deliveries:
    """Owns the deliveries that are held back: by consumer and partition the first and the last. And
    the last heartbeats of each consumer: those at the end of its trace, and before its coordinator
    was lost, say something."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[str, _Run]] = {}
        #: The last delivery of each consumer, of whatever partition.
        self._latest: dict[tuple[str, str], _Held] = {}
        self._heartbeats: dict[tuple[str, str], deque[Seen]] = {}
        #: Consumers whose next heartbeat does not say that a coordinator answers which was found.
        #: (The first heartbeat may: what was found may be in the part of the file before.)
        self._answered: set[tuple[str, str]] = set()

    def take(self, line: str, seen: Glance) -> Iterator[Seen]:
        """The lines that go on, now that this line has come."""
        if seen.event == DELIVERED:
            yield from self._hold(line, seen)
            return
        whose = seen.source, seen.group
        if seen.event == HEARTBEAT:
            if whose in self._answered:
                self._keep(line, seen)
                return
            self._answered.add(whose)
        elif whose in self._latest:
            yield from self._latest.pop(whose).go_on()
        if seen.event in _AWAIT:
            self._answered.discard(whose)
        if seen.event == LOST:
            yield from self._heartbeats.pop(whose, ())
        if seen.event in CHANGES:
            for run in self._held.pop((seen.source, seen.group), {}).values():
                yield from run.lines()
        yield line, seen

    def rest(self) -> Iterator[Seen]:
        """No line comes any more."""
        heartbeats, self._heartbeats = self._heartbeats, {}
        for last in heartbeats.values():
            yield from last
        held, self._held = self._held, {}
        for runs in held.values():
            for run in runs.values():
                yield from run.lines()

    def _keep(self, line: str, seen: Glance) -> None:
        last = self._heartbeats.get((seen.source, seen.group))
        if last is None:
            last = deque(maxlen=INTERVALS_KEPT + 1)
            self._heartbeats[seen.source, seen.group] = last
        if not last or last[-1][1].t != seen.t:  # (or the line came twice)
            last.append((line, seen))

    def _hold(self, line: str, seen: Glance) -> Iterator[Seen]:
        # What comes before the offsets names the partition. (In a line that is none of aktor's own
        # it may be more: then less is left out.)
        partition = line[: line.find('"offsets":')]
        runs = self._held.setdefault((seen.source, seen.group), {})
        run, held = runs.get(partition), _Held(line, seen)
        whose = seen.source, seen.group
        latest = self._latest.get(whose)
        if latest is None or seen.t >= latest.seen.t:
            self._latest[whose] = held
        if run is not None and run.span == seen.t // SPAN:
            run.add(held)
            return
        runs[partition] = _Run(held)
        if run is not None:
            yield from run.lines()


class _Held:
    """A delivery that goes on once, or not at all."""

    __slots__ = ("has_gone", "line", "seen")

    def __init__(self, line: str, seen: Glance) -> None:
        self.line = line
        self.seen = seen
        self.has_gone = False

    def go_on(self) -> Iterator[Seen]:
        if not self.has_gone:
            self.has_gone = True
            yield self.line, self.seen


class _Run:
    __slots__ = ("first", "last", "span")

    def __init__(self, held: _Held) -> None:
        self.span = held.seen.t // SPAN
        self.first = self.last = held

    def add(self, held: _Held) -> None:
        if held.seen.t >= self.last.seen.t:
            self.last = held
        elif held.seen.t < self.first.seen.t:  # lines that were shipped twice begin anew
            self.first = held

    def lines(self) -> Iterator[Seen]:
        yield from self.first.go_on()
        yield from self.last.go_on()
