"""Consumers, as their events tell: what each owns, and how far it has come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.simulation.checks.logs import Logs
from aktor.simulation.history import Event, History

__all__ = [
    "Ownership",
    "Reader",
    "Replay",
    "given_between",
    "gone_consumers",
    "process_of",
    "standing_still",
    "topic_of",
    "when",
]


@dataclass
class Ownership:
    """One partition in the hands of one consumer, from `partitions.assigned` on."""

    #: The next offset to be given out, None until it is known.
    next: int | None = None
    #: What the user has been given, and what of it is finished: they came back for more.
    given: int | None = None
    finished: int | None = None
    #: The user has said where to go on, and nothing was given out since.
    sought: bool = False
    #: The topic was deleted since: what has its name now may be assigned to others (KIP-848 goes
    #: by ids), and is read by name until the metadata tells.
    outdated: bool = False

    def move_to(self, offset: int | None) -> None:
        """It goes on here. What was finished stays so, though the user went back."""
        self.next = offset
        if offset is not None:
            self.given = max(offset, self.given or 0)
            self.finished = max(offset, self.finished or 0)


@dataclass
class Reader:
    """One consumer, as its events tell."""

    owned: dict[str, Ownership] = field(default_factory=dict)
    #: For which it reads, as far as is known.
    group: str | None = None
    #: Of the assignment that it heard of last.
    generation: int = -1
    #: Its `isolation_level`.
    isolation: str = ""
    #: The coordinator has expelled it for no reason, or while its clock stood still: it cannot
    #: know yet; until it joins anew.
    expelled: bool = False
    joins_anew: bool = False


class Replay:
    """Reads a history and keeps owners, topics and members; the checks look at them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = Logs()
        self.readers: dict[str, Reader] = defaultdict(Reader)
        #: The latest generation of each group.
        self.latest: dict[str | None, int] = defaultdict(int)

    def __iter__(self) -> Iterator[tuple[Event, Reader]]:
        """Each event, with the logs as they are after it and its reader as it was before it."""
        for event in self.history.events:
            name = event["event"]
            if name in Logs.KINDS:
                self.logs.apply(event)
            reader = self.readers[event["member"]]
            yield event, reader
            happened = self._HAPPENED.get(name)
            if happened is not None:
                happened(self, event, reader)

    def _topic_removed(self, event: Event, _: Reader) -> None:
        for other in self.readers.values():
            for partition, theirs in other.owned.items():
                theirs.outdated |= partition.rpartition("-")[0] == event["topic"]

    def _group_converted(self, event: Event, _: Reader) -> None:
        """Kafka goes by what its members were to own, not by what they own: until they have joined,
        others may be given it."""
        for other in self._readers_of(event["group"]):
            other.expelled, other.joins_anew = True, False

    def _session_expired(self, event: Event, _: Reader) -> None:
        self._expelled(event["consumer"])

    def _thawed(self, event: Event, _: Reader) -> None:
        if event.get("asleep"):
            self._expelled(event["member"])

    def _generation_learned(self, event: Event, reader: Reader) -> None:
        reader.generation = event["generation"]
        reader.group = group = event.get("group")
        self.latest[group] = max(self.latest[group], reader.generation)
        # An answer that waited while it slept tells of a generation that is over.
        if reader.joins_anew and reader.generation >= self.latest[group]:
            reader.expelled = reader.joins_anew = False

    def _joins_anew(self, _: Event, reader: Reader) -> None:
        reader.joins_anew = True

    def _group_begun(self, event: Event, _: Reader) -> None:
        """It was empty, and counts from the beginning."""
        self.latest[event["group"]] = 0
        for other in self._readers_of(event["group"]):
            other.generation = -1

    def _assigned(self, event: Event, reader: Reader) -> None:
        reader.group = event.get("group")
        reader.isolation = event.get("isolation", "")
        for partition in event["partitions"]:
            reader.owned[partition] = Ownership()

    def _released(self, event: Event, reader: Reader) -> None:
        for partition in event["partitions"]:
            reader.owned.pop(partition, None)

    def _delivered(self, event: Event, reader: Reader) -> None:
        mine = reader.owned.get(event["partition"])
        if mine is not None:
            mine.next = event["offsets"][-1][1] + 1
            mine.given = max(mine.next, mine.given or 0)
            mine.sought = False

    def _finished(self, _: Event, reader: Reader) -> None:
        for mine in reader.owned.values():
            mine.finished = mine.given

    def _taken_back(self, event: Event, reader: Reader) -> None:
        mine = reader.owned.get(event["partition"])
        if mine is not None:
            mine.next = event["offset"]

    def _sought(self, event: Event, reader: Reader) -> None:
        for partition, offset in event["partitions"].items():
            mine = reader.owned.get(partition)
            if mine is not None:
                mine.move_to(offset)
                mine.sought = offset is not None

    def _positions_found(self, event: Event, reader: Reader) -> None:
        for partition, offset in event["partitions"].items():
            mine = reader.owned.get(partition)
            if mine is None:
                continue
            # What the user sought wins over what was found meanwhile, unless it is that which is
            # out of range.
            came_to = (event.get("from_offsets") or {}).get(partition)
            if mine.sought and not self.passes_over(mine.next, came_to, partition, reader):
                continue
            mine.sought = False
            mine.move_to(offset)

    _HAPPENED: Final[dict[str, Callable[[Replay, Event, Reader], None]]] = {
        "topic.removed": _topic_removed,
        "group.converted": _group_converted,
        "session.expired": _session_expired,
        "member.thawed": _thawed,
        "rebalance.synced": _generation_learned,
        "rebalance.target": _generation_learned,
        "rebalance.triggered": _joins_anew,
        "group.begun": _group_begun,
        "partitions.assigned": _assigned,
        "partitions.released": _released,
        "records.delivered": _delivered,
        "user.returned": _finished,
        "user.commits": _finished,
        "consumer.closing": _finished,
        "records.taken_back": _taken_back,
        "position.sought": _sought,
        "position.resolved": _positions_found,
        "position.reset": _positions_found,
    }

    def passes_over(
        self, start: int | None, end: int | None, partition: str, reader: Reader
    ) -> bool:
        """Whether a reader may have come from `start` to `end` without having been given any."""
        if start is None or end is None:
            return start is end
        log = self.logs[partition]
        return start <= end <= log.passed_over(start, range(len(log.eras)), reader.isolation)

    def _readers_of(self, group: str) -> Iterator[Reader]:
        return (reader for reader in self.readers.values() if reader.group == group)

    def _expelled(self, member: str) -> None:
        """All consumers that this member has made."""
        for name, reader in self.readers.items():
            if name == member or name.startswith(f"{member}/"):
                reader.expelled = True
                reader.joins_anew = False


def given_between(history: History, begins: str, ends: set[str]) -> Iterator[Event]:
    """Deliveries of a partition to a consumer after the event that begins, before one that ends."""
    between: dict[str, set[str]] = defaultdict(set)
    for event in history.named(begins, *ends, "records.delivered"):
        mine = between[event["member"]]
        if event["event"] == begins:
            mine.update(event["partitions"])
        elif event["event"] in ends:
            mine.difference_update(event["partitions"])
        elif event["partition"] in mine:
            yield event


def when(event: Event) -> str:
    """How a complaint begins."""
    return f"at {event['at']:.3f} {event['member']}"


def process_of(consumer: str) -> str:
    """The member that made it: "alice" made "alice" and "alice/2"."""
    return consumer.partition("/")[0]


def topic_of(partition: str) -> str:
    """Its topic: "a" has "a-0"."""
    return partition.rpartition("-")[0]


def gone_consumers(history: History) -> set[str]:
    """Consumers that ended, with their process or without."""
    killed = {event["member"] for event in history.named("member.killed")}
    closed = {event["member"] for event in history.named("consumer.closed")}
    return closed | {
        event["member"] for event in history.events if process_of(event["member"]) in killed
    }


def standing_still(history: History) -> dict[str, float]:
    """Seconds that each member's process stood still."""
    seconds: dict[str, float] = defaultdict(float)
    since: dict[str, float] = {}
    for event in history.named("member.frozen", "member.thawed"):
        if event["event"] == "member.frozen":
            since[event["member"]] = event["at"]
        else:
            seconds[event["member"]] += event["at"] - since.pop(event["member"], event["at"])
    end = history.events[-1]["at"] if history.events else 0.0
    for member, began in since.items():
        seconds[member] += end - began
    return seconds
