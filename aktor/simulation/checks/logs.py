"""The logs of partitions, as the events of brokers and writers tell them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aktor.simulation.history import Event

__all__ = ["COMMITTED", "Log", "Logs"]

COMMITTED: Final = "read_committed"


@dataclass
class Log:
    """One partition's records, as the brokers' events tell, in all of its eras: a new one begins
    when its topic is created anew, or when a new leader did not have all of it."""

    #: When each era began, as in the timestamps of records.
    eras: list[int] = field(default_factory=lambda: [0])
    #: Offset to (era, second in which it was written), of what is there now.
    records: dict[int, tuple[int, float]] = field(default_factory=dict)
    #: Where groups stand that have sought and not read since. Such a position has no leader epoch,
    #: so it cannot be compared with a log that is truncated. All others can be (KIP-320), and
    #: positions in a topic that was deleted are those of its id.
    sought: dict[str, int] = field(default_factory=dict)
    #: The furthest of these that may be of another log: so much of this one may be skipped.
    sought_elsewhere: int = 0
    #: After the last record or marker.
    end: int = 0
    #: The same of the longest era that is over.
    furthest: int = 0
    #: Offsets of records whose transaction is open, by producer.
    open: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: (Era, offset) of records whose transaction was aborted, and of markers.
    aborted: set[tuple[int, int]] = field(default_factory=set)
    markers: set[tuple[int, int]] = field(default_factory=set)
    #: The same of records that were compacted away.
    compacted: set[tuple[int, int]] = field(default_factory=set)

    def begin_era(self, time: int, start: int) -> None:
        self.sought_elsewhere = max(self.sought_elsewhere, *self.sought.values(), 0)
        self.eras.append(time)
        self.furthest = max(self.furthest, self.end)
        self.end = start
        self.records = {offset: what for offset, what in self.records.items() if offset < start}
        for producer, offsets in self.open.items():
            self.open[producer] = [offset for offset in offsets if offset < start]

    def seek(self, group: str, offset: int | None) -> None:
        """A member of this group goes on here (None: at the beginning, or the end). It may have got
        the offset from a log that was truncated since."""
        self.sought.pop(group, None)
        if offset is not None:
            self.sought[group] = offset
            if len(self.eras) > 1:
                self.sought_elsewhere = max(self.sought_elsewhere, offset)

    def era_of(self, event: Event, run: int) -> int:
        """The era of the records in a run of a delivery; the latest, where it does not say."""
        times = event.get("times")
        return len(self.eras) - 1 if times is None else bisect_right(self.eras, times[run]) - 1

    @property
    def last_stable_offset(self) -> float:
        """Where the first open transaction begins; infinite if there is none."""
        return min(
            (offset for offsets in self.open.values() for offset in offsets), default=math.inf
        )

    def readable(self, offset: int, era: int, isolation: str) -> bool:
        """Whether a reader must be given it, if it reads on from before."""
        found = self.records.get(offset)
        if found is None or found[0] > era or (found[0], offset) in self.compacted:
            return False
        return isolation != COMMITTED or (found[0], offset) not in self.aborted

    def passed_over(self, offset: int, eras: range, isolation: str) -> int:
        """Where a reader at `offset` may have come to in these eras without having been given a
        record."""
        hidden = [self.markers, self.compacted, *([self.aborted] if isolation == COMMITTED else [])]
        while any((era, offset) in places for era in eras for places in hidden):
            offset += 1
        return offset


class Logs:
    """Owns the logs of all partitions, as far as a history has been read."""

    def __init__(self) -> None:
        self.logs: dict[str, Log] = defaultdict(Log)

    def __getitem__(self, partition: str) -> Log:
        return self.logs[partition]

    def apply(self, event: Event) -> None:
        happened = self._HAPPENED.get(event["event"])
        if happened is not None:
            happened(self, event)

    def _written(self, event: Event) -> None:
        log = self.logs[event["partition"]]
        producer = event.get("producer")
        written = range(event["first"], event["last"] + 1)
        log.end = event["last"] + 1
        for offset in written:
            log.records[offset] = len(log.eras) - 1, event["at"]
        if producer is not None:
            log.open[producer] += written

    def _delivered(self, event: Event) -> None:
        log = self.logs[event["partition"]]
        log.sought.pop(event.get("group", ""), None)

    def _sought(self, event: Event) -> None:
        if isinstance(event["partitions"], dict):
            for partition, offset in event["partitions"].items():
                self.logs[partition].seek(event.get("group", ""), offset)

    def _transaction_ended(self, event: Event) -> None:
        log = self.logs[event["partition"]]
        log.end = max(log.end, event["marker"] + 1)
        log.markers.add((len(log.eras) - 1, event["marker"]))
        offsets = log.open.pop(event["producer"], [])
        if not event["commit"]:
            log.aborted.update(
                (log.records[offset][0], offset) for offset in offsets if offset in log.records
            )

    def _compacted(self, event: Event) -> None:
        log = self.logs[event["partition"]]
        log.compacted.update(
            (log.records[offset][0], offset) for offset in event["gone"] if offset in log.records
        )

    def _truncated(self, event: Event) -> None:
        self.logs[event["partition"]].begin_era(event["time"], event["to"])

    def _topic_removed(self, event: Event) -> None:
        for log in self._of_topic(event["topic"]):
            log.records.clear()
            log.open.clear()

    def _topic_created(self, event: Event) -> None:
        for log in self._of_topic(event["topic"]):
            log.begin_era(event.get("time", 0), 0)

    def _ends(self, event: Event) -> None:
        """What was not replicated when its leader went was never acknowledged."""
        log = self.logs[event["partition"]]
        for offset in [kept for kept in log.records if kept >= event["end"]]:
            del log.records[offset]
        for offset in [kept for kept in log.records if kept < event["start"]]:
            del log.records[offset]

    def _of_topic(self, topic: str) -> list[Log]:
        return [log for name, log in self.logs.items() if name.rpartition("-")[0] == topic]

    _HAPPENED: Final[dict[str, Callable[[Logs, Event], None]]] = {
        "records.written": _written,
        "records.delivered": _delivered,
        "position.sought": _sought,
        "transaction.ended": _transaction_ended,
        "log.compacted": _compacted,
        "log.truncated": _truncated,
        "topic.removed": _topic_removed,
        "topic.created": _topic_created,
        "log.ends": _ends,
    }
    #: The events that change them.
    KINDS: Final = frozenset(_HAPPENED)
