"""What became of one record, in at most ten lines of a history.

The lines say when it was written, which members got it, and which groups committed past it; also
what happened to these members while they had it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aktor.simulation.history import Event, History
from aktor.simulation.world.stored import Stored

__all__ = ["LINES", "story"]

#: The most lines that a story has.
LINES: Final = 10

#: What happens to a member, in plain words.
_BEFELL: Final = {
    "member.killed": "was killed",
    "member.frozen": "stood still from now on",
    "member.thawed": "went on",
    "clock.jumped": "saw its clock jump by {seconds:g} s",
    "member.lost": "was no member of its group any more: {because}",
    "commit.failed": "could not commit: {because}",
    "consumer.closed": "closed its consumer",
}

#: Longer sentences are cut off.
_WIDTH: Final = 110


def story(history: History, record: Stored, results: Sequence[Stored] = ()) -> list[str]:
    """The lines, each with its time. `results` are records that were written for this one."""
    lines = _Story(record, results).lines(history)
    # The least important lines are left out first, of these the latest ones.
    while len(lines) > LINES:
        least = max(weight for weight, _ in lines)
        lines.pop(max(at for at, (weight, _) in enumerate(lines) if weight == least))
    return [line for _, line in lines]


class _Story:
    """The record's history. Each line has a weight: lines of weight 0 are kept longest."""

    def __init__(self, record: Stored, results: Sequence[Stored]) -> None:
        self._record = record
        self._results = [(f"{result.topic}-{result.partition}", result) for result in results]
        self._place = record.place
        self._partition = f"{record.topic}-{record.partition}"
        #: The consumers that have got it and whose events are still told.
        self._holders: set[str] = set()
        #: The groups that have committed past it.
        self._committed: dict[str, bool] = {}
        #: Whether the next reader after these consumers is known.
        self._next_is_told = True

    def lines(self, history: History) -> list[tuple[int, str]]:
        lines: list[tuple[int, str]] = []
        for event in history.events:
            if self._is_written_by(event):
                # At this offset there was another record before: the topic was created again.
                lines.clear()
                self._holders.clear()
                self._next_is_told = True
                self._committed.clear()
            for weight, what in self._of(event):
                what = what if len(what) <= _WIDTH else what[: _WIDTH - 1] + "…"
                lines.append((weight, f"{event['at']:10.3f}  {what}"))
        return lines

    def _is_written_by(self, event: Event) -> bool:
        return bool(
            event["event"] == "records.written"
            and event["partition"] == self._partition
            and event["first"] <= self._record.offset <= event["last"]
            and event.get("time", self._record.timestamp) == self._record.timestamp
        )

    def _of(self, event: Event) -> Iterator[tuple[int, str]]:
        name, who = event["event"], event["member"]
        if event.get("partition") == self._partition:
            yield from self._of_its_partition(event)
        elif name == "records.written":
            for partition, result in self._results:
                written = range(event["first"], event["last"] + 1)
                if partition == event["partition"] and result.offset in written:
                    yield 0, f"{event.get('by', 'the test')} wrote {result.place} for it"
        elif name == "effect.happened" and self._is_mine(event):
            yield 0, f"{who or 'the test'} put {self._place} into the sink"
        elif name in _BEFELL and self._process(who) in self._holders:
            yield 1, f"{who} {_BEFELL[name].format_map(_Known(event))}"
            if name == "member.killed":
                self._holders.discard(self._process(who))
        elif name == "session.expired" and self._process(event["consumer"]) in self._holders:
            yield 1, f"the coordinator expelled {event['consumer']} from group {event['group']}"
        elif name in ("partitions.assigned", "partitions.released") and not self._next_is_told:
            if self._partition in event["partitions"]:
                verb = "was assigned" if name == "partitions.assigned" else "gave up"
                yield 2, f"{who} {verb} {self._partition}"
        elif name == "fault.began" and self._holders:
            yield 3, f"fault {event['number']} began: {event['kind']} for {event['seconds']:g} s"

    def _of_its_partition(self, event: Event) -> Iterator[tuple[int, str]]:
        offset, who = self._record.offset, event["member"]
        match event["event"]:
            case "records.written" if self._is_written_by(event):
                yield 0, f"{self._place} was written"
            case "records.delivered":
                runs = event.get("offsets") or [[event["first"], event["last"]]]
                shown = ", ".join(f"{first}..{last}" for first, last in runs)
                if any(first <= offset <= last for first, last in runs):
                    self._holders.add(self._process(who))
                    self._next_is_told = False
                    yield 0, f"{who} was given {self._partition}:{shown}"
                elif not self._next_is_told and runs[0][0] > offset and any(self._committed):
                    self._next_is_told = True
                    yield 2, f"{who} went on with {self._partition}:{shown}"
            case "offset.committed":
                past, group = event["offset"] > offset, event["group"]
                if past != self._committed.get(group, False):
                    self._committed[group] = past
                    yield 0, f"group {group} committed {self._partition}:{event['offset']}"

    def _is_mine(self, event: Event) -> bool:
        record = self._record
        if event["topic"] != record.topic:
            return False
        if "value" in event:
            return bool(event["value"] == record.value)
        return (event["partition"], event["offset"], event["timestamp"]) == (
            record.partition,
            record.offset,
            record.timestamp,
        )

    @staticmethod
    def _process(consumer: str) -> str:
        """The second consumer of alice is "alice/2"."""
        return consumer.partition("/")[0]


class _Known(dict[str, object]):
    """A value of the event; a question mark if it is missing."""

    def __missing__(self, key: str) -> str:
        return "?"
