"""Automatic commits are made in time, also while a poll waits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.simulation.checks.hindrances import Hindrances
from aktor.simulation.checks.readers import Reader, Replay, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Seconds that a commit may take beyond `auto_commit_interval_ms`: when the interval is over, the
#: commit manager is woken, and sends the commit in its next turn.
SLACK: Final = 0.5

#: What keeps a consumer from giving records out, and does not keep it from committing; and what
#: `loop.polled` says better.
_HARMLESS: Final = frozenset(
    {"partitions.paused", "partitions.resumed", "records.delivered", "user.was_away"}
)

#: Offsets mean something else from now on.
_ANOTHER_LOG: Final = frozenset(
    {"group.begun", "log.truncated", "topic.recreated", "topic.removed"}
)


class _Queue:
    """Owns what the next automatic commit of a consumer has to wait for: a coordinator, the end of
    a rebalance, other commits, or the commit manager's clock.

    That clock starts anew when the actor is restarted, and hears then what is assigned.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._coordinator_known = False
        #: Partitions that are assigned by hand are in no rebalance.
        self._stable = True
        self._in_flight = 0
        #: Commits that the user has asked for and does not wait for.
        self._asked: set[int] = set()
        self._ended = 0.0

    def apply(self, event: Event) -> None:
        before, ended = self._waits, event["at"]
        match event["event"]:
            case "coordinator.found":
                self._coordinator_known = True
            case "coordinator.lost" | "coordinator.refused":
                self._coordinator_known = False
            case "membership.moved":
                self._stable = event["after"] == "stable"
            case "commit.sent":  # its request may wait: the broker throttles, or is not reached
                self._in_flight += 1
            case "request.answered" | "request.failed" if event["api"] == "OffsetCommit":
                self._in_flight = max(0, self._in_flight - 1)
            case "user.commits":
                before = True  # one that is waited for may fail in the queue, without a word
                if (future := event.get("future")) is not None:
                    self._asked.add(future)
            case "commit.told":
                self._asked.discard(event["future"])
            case "commit.retried":
                before, ended = True, ended + event["wait_ms"] / 1000
            case "commit.failed":
                before = True
            case "actor.restarted":
                self._in_flight = 0
                before, ended = True, ended + self._interval
        if before:
            self._ended = max(self._ended, ended)

    @property
    def _waits(self) -> bool:
        may_commit = self._coordinator_known and self._stable
        return not may_commit or bool(self._in_flight or self._asked)

    @property
    def last_waited(self) -> float | None:
        """Until when a commit had to wait; None: it has to wait now."""
        return None if self._waits else self._ended


@dataclass(frozen=True, slots=True)
class _Place:
    """The user has come back from everything before this offset."""

    offset: int
    at: float


@dataclass(frozen=True, slots=True)
class _Wait:
    """A place was not committed from `since` to `until`, and nothing kept it from that."""

    partition: str
    offset: int
    since: float
    until: float


@dataclass
class _Owed:
    """What one consumer with automatic commits has yet to commit."""

    #: `auto_commit_interval_ms`, in seconds.
    interval: float
    queue: _Queue
    #: Of which partitions the user was given records since they came back last.
    given: set[str] = field(default_factory=set)
    #: By partition, in order.
    places: dict[str, list[_Place]] = field(default_factory=dict)
    #: What was sent last, perhaps before the user came back, or was found to be committed. After a
    #: seek back there is nothing to commit when the position is that again.
    last_sent: dict[str, int] = field(default_factory=dict)
    #: How long what was committed had waited, since it was known that the user polls.
    waits: list[_Wait] = field(default_factory=list)

    def forget(self) -> None:
        """Nothing is owed any more."""
        self.given.clear()
        self.places.clear()
        self.last_sent.clear()

    def moved(self, partition: str) -> None:
        """It goes on elsewhere."""
        self.given.discard(partition)
        self.places.pop(partition, None)

    def came_back(self, reader: Reader, now: float) -> None:
        """The user is done with what they were given."""
        for partition in self.given & reader.owned.keys():
            position = reader.owned[partition].next
            if position is not None and position > self.last_sent.get(partition, -1):
                self.places.setdefault(partition, []).append(_Place(position, now))
        self.given.clear()

    def sent(self, event: Event, hindrances: Hindrances) -> None:
        """A commit has all places up to its offsets."""
        for partition, offset in event["offsets"].items():
            self.last_sent[partition] = offset
            if done := [
                place for place in self.places.get(partition, ()) if place.offset <= offset
            ]:
                self.waits += self._wait(event, partition, done[0], hindrances)
                self.places[partition] = self.places[partition][len(done) :]

    def unsent(self, event: Event, hindrances: Hindrances) -> Iterator[_Wait]:
        """How long waits what is not committed yet."""
        for partition, places in sorted(self.places.items()):
            if places:
                yield from self._wait(event, partition, places[0], hindrances)

    def _wait(
        self, event: Event, partition: str, place: _Place, hindrances: Hindrances
    ) -> Iterator[_Wait]:
        """Until this event; nothing if it is hindered now."""
        hindered = hindrances.last_ended(event["member"], partition)
        queued = self.queue.last_waited
        if hindered is not None and queued is not None:
            yield _Wait(partition, place.offset, max(place.at, hindered, queued), event["at"])

    def polled(self, event: Event, hindrances: Hindrances) -> Iterator[str]:
        """The user has done nothing but poll for a while: what should have been committed in it."""
        began = event["at"] - event["seconds"]
        waits = [*self.waits, *self.unsent(event, hindrances)]
        self.waits = []
        for wait in waits:
            since = max(wait.since, began)
            if wait.until - since > self.interval + SLACK:
                yield (
                    f"{when(event)} did not commit {wait.partition}:{wait.offset} from {since:.3f}"
                    f" to {wait.until:.3f}, though its user polled"
                )


def automatic_commits_are_not_late(history: History) -> list[str]:
    """While its user polls, or waits in a poll, a consumer with automatic commits sends a commit of
    what the user has come back from within `auto_commit_interval_ms`, unless something hinders it.
    """
    complaints: list[str] = []
    hindrances, consumers = Hindrances(), dict[str, _Owed]()
    for event, reader in Replay(history):
        if event["event"] not in _HARMLESS:
            hindrances.apply(event)
        if event["event"] == "consumer.made":
            interval = event.get("auto_commit_interval_ms", math.inf) / 1000
            if event.get("enable_auto_commit") and event.get("group_id"):
                consumers[event["member"]] = _Owed(interval, _Queue(interval))
        elif event["event"] in _ANOTHER_LOG:
            for consumer in consumers.values():
                consumer.forget()
        elif event["member"] in consumers:
            complaints += _happened(event, reader, consumers[event["member"]], hindrances)
    return complaints


def _happened(event: Event, reader: Reader, owed: _Owed, hindrances: Hindrances) -> Iterator[str]:
    match event["event"]:
        case "records.delivered":
            owed.given.add(event["partition"])
        case "records.taken_back":
            owed.moved(event["partition"])
        case "user.returned":
            owed.came_back(reader, event["at"])
        case "position.sought" | "position.reset" | "partitions.assigned" | "partitions.released":
            for partition in event["partitions"]:
                owed.moved(partition)
                if event["event"].startswith("partitions."):
                    owed.last_sent.pop(partition, None)
        case "position.resolved" if event.get("because") == "committed":
            owed.last_sent.update(event["partitions"])
        case "consumer.closing" | "member.lost" | "user.leaves" | "user.processes":
            owed.forget()
        case "commit.sent":
            owed.sent(event, hindrances)
        case "loop.polled":
            yield from owed.polled(event, hindrances)
    owed.queue.apply(event)


CHECKS: Final = (automatic_commits_are_not_late,)
