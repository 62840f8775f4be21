"""Traces for tests: written by hand, and those of simulated storms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from aktor.simulation.selftest.storm import run_storm
from aktor.trace.rebalances import read, tell
from aktor.trace.rebalances.deliveries import Deliveries
from aktor.trace.rebalances.lines import Event, glance
from aktor.trace.rebalances.rows import Row

#: When simulations begin.
BEGAN = 1.8e9

#: Storms of both protocols, and of a group that is converted from one to the other.
STORMS = ((1, "classic"), (6, "consumer"), (4, "migration"))


@cache
def storm_lines(seed: int, protocol: str) -> tuple[str, ...]:
    """The lines of the trace files of all members, as they come one after the other."""
    outcome = run_storm(seed, protocol=protocol)
    return tuple(json.dumps(event) for event in outcome.history.traces(BEGAN))


@cache
def storm_rows(seed: int, protocol: str) -> tuple[Row, ...]:
    """What is read in these lines."""
    return tuple(read(storm_lines(seed, protocol))[0])


class Member:
    """Writes the trace of one member."""

    def __init__(self, events: list[Event], consumer: str, host: str | None = None) -> None:
        self._events = events
        self._consumer = consumer
        self._host = host or f"host-{consumer}"
        self._line = 0

    def tells(self, t: float, event: str, **values: Any) -> None:
        self._line += 1
        self._events.append(
            {
                "consumer": self._consumer,
                "group": "g",
                "event": event,
                "t": t,
                "host": self._host,
                "trace": self._consumer,
                "source": self._consumer,
                "line": self._line,
                **values,
            }
        )

    def rebalances(
        self,
        began: float,
        ended: float,
        generation: int,
        *,
        because: str = "the coordinator said that the group rebalances",
        members: int | None = None,
        owns: Sequence[str] = (),
        gives_up: Sequence[str] = (),
    ) -> None:
        """An eager or a first rebalance: half of the time in JoinGroup."""
        middle = (began + ended) / 2
        self.tells(began, "rebalance.triggered", because=because, rebalance=generation)
        if gives_up:
            self.tells(began, "partitions.released", partitions=dict.fromkeys(gives_up, 5))
        self.tells(began, "membership.moved", before="stable", after="joining")
        self.tells(middle, "membership.moved", before="joining", after="syncing")
        self.tells(middle, "rebalance.joined", generation=generation, members=members)
        self.tells(ended, "membership.moved", before="syncing", after="assigning")
        if owns:
            partitions = dict.fromkeys(owns, 1)
            self.tells(ended, "partitions.assigned", partitions=partitions, by_group=True)
        self.tells(ended, "membership.moved", before="assigning", after="stable")
        self.tells(ended, "rebalance.completed", generation=generation, ms=(ended - began) * 1000)

    def is_given(
        self, t: float, partition: str, first: int, last: int, ago: tuple[float, float] = (0, 0)
    ) -> None:
        given = {"first_ago": ago[0], "last_ago": ago[1]} if any(ago) else {}
        self.tells(t, "records.delivered", partition=partition, offsets=[[first, last]], **given)

    def leaves(self, t: float, owned: Sequence[str]) -> None:
        self.tells(t, "partitions.released", partitions=dict.fromkeys(owned, 5))
        self.tells(t, "membership.moved", before="stable", after="leaving")
        self.tells(t, "member.left", because="the consumer was closed")


def takes(member: Member, at: float, epoch: int, because: str, *owns: str, joins: bool) -> None:
    """A KIP-848 member is given these partitions at an epoch."""
    before = 0 if joins else epoch - 1
    if joins:
        member.tells(at, "rebalance.triggered", because=because, generation=0, owned=0)
        member.tells(at, "membership.moved", before="unsubscribed", after="joining")
    member.tells(at, "member.epoch", before=before, after=epoch)
    if joins or owns:
        moved = {"before": "stable", "after": "reconciling"}
        member.tells(at, "membership.moved", **moved)
        if not joins:
            member.tells(at, "rebalance.triggered", because=because, generation=epoch, owned=2)
        if owns:
            given = dict.fromkeys(owns, 1)
            member.tells(at + 0.01, "partitions.assigned", partitions=given, by_group=True)
        member.tells(at + 0.02, "membership.moved", before="reconciling", after="stable")
        member.tells(at + 0.02, "rebalance.completed", generation=epoch, ms=20)


def rows_of(events: Sequence[Event], kind: type[Row]) -> list[Any]:
    """The rows of one table."""
    return [row for row in tell(events)[0] if type(row) is kind]


def thinned(lines: list[str], parts: int) -> list[str]:
    """What Spark takes of a file that it reads in so many parts."""
    taken: list[str] = []
    size = -(-len(lines) // parts)
    for start in range(0, len(lines), size):
        deliveries = Deliveries()
        for line in lines[start : start + size]:
            seen = glance(line)
            if seen is not None:
                taken += [kept for kept, _ in deliveries.take(line, seen)]
        taken += [kept for kept, _ in deliveries.rest()]
    return taken


def as_lines(events: list[Event]) -> list[str]:
    """As a consumer writes them."""
    last = ("event", "t", "host", "trace", "line")
    return [
        json.dumps(
            {key: value for key, value in event.items() if key not in (*last, "source")}
            | {key: event[key] for key in last}
            | {"trace": f"{event['trace']}".encode().hex()}
        )
        for event in sorted(events, key=lambda event: event["t"])
    ]
