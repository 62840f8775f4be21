"""Where the code under test puts its results: did each record have its effect, and how often?

    invoices = sim.sink(orders)  # at-least-once, unless another guarantee is asked for
    sim.member(loop, invoices)  # for every record the loop calls invoices.put(record)

`Simulation.check` judges the sink against what still exists: records that are in their log, of a
transaction that was not aborted. A record that nobody has worked on is lost, one that was worked on
twice is repeated. Each complaint tells the story of its record.

A loop that consumes, transforms and produces has a topic for its sink:

    sink = sim.sink(orders, "exactly-once", into=invoices)

Its effects are the records that a read_committed consumer of `invoices` is given.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aktor.simulation.story import story
from aktor.simulation.world.stored import Stored
from aktor.simulation.world.topic import Topic
from aktor.simulation.world.world import World

__all__ = ["Effect", "Guarantee", "Origin", "Sink", "TopicSink", "by_value"]

#: A sink is judged when nothing has been put into it for so long (in seconds); some code commits
#: first and works then, and a process that was frozen goes on with what it had in hand.
QUIET: Final = 30.0
QUIET_IF_COMPLETE: Final = 5.0

#: Of how many records a complaint tells the story.
_TOLD: Final = 2


class Guarantee(enum.StrEnum):
    """What is demanded of the effects of a loop."""

    #: No record is lost; after a crash some may be worked on again.
    AT_LEAST_ONCE = "at-least-once"
    #: No record is worked on twice; after a crash some may be lost.
    AT_MOST_ONCE = "at-most-once"
    #: Neither.
    EXACTLY_ONCE = "exactly-once"

    @property
    def forbids_loss(self) -> bool:
        """Whether every record has to have its effect."""
        return self is not Guarantee.AT_MOST_ONCE

    @property
    def forbids_repeats(self) -> bool:
        """Whether no record may have its effect twice."""
        return self is not Guarantee.AT_LEAST_ONCE


@dataclass(frozen=True, slots=True)
class Effect:
    """What one `put` has left: of which record (or of which value), by whom, with what result."""

    of: tuple[int, int, int] | bytes
    member: str
    result: Any


class Sink:
    """Owns the effects of the records of one topic: a database, a file, another service.

    A `put` takes time, as a call of a database does. A process that is killed meanwhile may have
    left its effect or not, and nobody can tell.
    """

    def __init__(
        self, simulation: World, number: int, topic: Topic, guarantee: Guarantee, takes: float
    ) -> None:
        self.topic = topic
        self.guarantee = guarantee
        #: All effects, in the order in which they happened.
        self.effects: list[Effect] = []
        self._simulation = simulation
        #: Each half of a `put`, before and after its effect, takes so long at most.
        self._takes = takes
        self._random = random.Random(f"{simulation.seed} sink {number}")
        self._changed_at = 0.0

    # -- for the code under test

    def put(self, record: Any, result: Any = None) -> None:
        """The effect of this record happens: called by a member's code, it takes a moment.

        `record` is what `poll` returned, or its value alone if no two values of the topic are
        equal (those of `Topic.write` are not). `result` is kept in `effects`.
        """
        self._put(record, result, once=False)

    def put_once(self, record: Any, result: Any = None) -> None:
        """The same for a sink that recognises records: a second effect of a record changes
        nothing, as in a table whose key is partition and offset."""
        self._put(record, result, once=True)

    def _put(self, record: Any, result: Any, *, once: bool) -> None:
        of = self._name(record)
        before, after = (self._random.uniform(0.0, self._takes) for _ in range(2))
        self._take(before)
        if not once or all(effect.of != of for effect in self.effects):
            self._happen(of, result)
        self._take(after)

    def _name(self, record: Any) -> tuple[int, int, int] | bytes:
        if isinstance(record, bytes | bytearray | memoryview):
            return bytes(record)
        if isinstance(record, str):
            return record.encode()
        try:
            topic, partition = record.topic, record.partition
            offset, timestamp = record.offset, record.timestamp
        except AttributeError:
            raise TypeError(
                f"a sink takes a record that poll returned, or its value as bytes, not {record!r}"
            ) from None
        if topic != self.topic:
            raise ValueError(f"this is the sink of {self.topic}, but the record is of {topic}")
        return partition, offset, timestamp

    def _take(self, seconds: float) -> None:
        task = self._simulation.scheduler.running
        if task is None:
            return  # the test itself
        member = self._simulation.me
        busy, member.busy_for = member.busy_for, 0.0
        task.wait(seconds + busy, f"its sink of {self.topic}")

    def _happen(self, of: tuple[int, int, int] | bytes, result: Any) -> None:
        running = self._simulation.scheduler.running
        member = "" if running is None else self._simulation.me.name
        self.effects.append(Effect(of, member, result))
        self._changed_at = self._simulation.now
        place = {"value": of} if isinstance(of, bytes) else dict(zip(_PLACE, of, strict=True))
        self._simulation.history.note("effect.happened", member, topic=str(self.topic), **place)

    # -- judgement

    def missing(self) -> list[Stored]:
        """The records that still exist and have had no effect."""
        return [record for record, times in self._counted() if not times]

    def repeated(self) -> list[Stored]:
        """The records that still exist and have had more than one."""
        return [record for record, times in self._counted() if times > 1]

    def _counted(self) -> list[tuple[Stored, int]]:
        times = Counter(effect.of for effect in self.effects)
        return [
            (
                record,
                times[record.partition, record.offset, record.timestamp]
                + times[record.value or b""],
            )
            for record in self._simulation.brokers.records(self.topic)
        ]

    def _results_of(self, record: Stored) -> list[Stored]:
        """The records that are its effects, if those are records."""
        return []

    @property
    def has_settled(self) -> bool:
        """Whether no member is expected to put anything more, now that everything is committed."""
        quiet = self._simulation.now - self._changed_at
        if quiet > QUIET:
            return True
        if self.guarantee.forbids_repeats and quiet < QUIET_IF_COMPLETE:
            return False
        return not (self.guarantee.forbids_loss and self.missing())

    def expect(self) -> None:
        """From now on everything is committed: who has something in hand is given its time."""
        self._changed_at = max(self._changed_at, self._simulation.now)

    def complaints(self, *, all_is_committed: bool) -> list[str]:
        """How the guarantee was broken. Records can be lost only once `all_is_committed`."""
        complaints = []
        if self.guarantee.forbids_loss and all_is_committed:
            complaints += self._tell("never had its effect, and still exists", self.missing())
        if self.guarantee.forbids_repeats:
            complaints += self._tell("had its effect more than once", self.repeated())
        return complaints

    def _tell(self, what: str, records: list[Stored]) -> list[str]:
        told = [
            f"{self.guarantee}: {record.place} {what} ({record.shown}):\n"
            + "\n".join(story(self._simulation.history, record, self._results_of(record)))
            for record in records[:_TOLD]
        ]
        if len(records) > _TOLD:
            told.append(f"{self.guarantee}: so it is with {len(records) - _TOLD} more records")
        return told


_PLACE: Final = ("partition", "offset", "timestamp")

#: Which record a result is of: that of this value, or at this partition and offset.
Origin = bytes | str | tuple[int, int] | None


def by_value(result: Stored) -> Origin:
    """The record that has the same value."""
    return result.value


class TopicSink(Sink):
    """A topic to which the results of another topic's records are sent."""

    def __init__(
        self,
        simulation: World,
        number: int,
        topic: Topic,
        guarantee: Guarantee,
        into: Topic,
        of: Callable[[Stored], Origin],
    ) -> None:
        super().__init__(simulation, number, topic, guarantee, 0.0)
        self.into = into
        self._of = of
        self._ends: list[int] = []

    def _put(self, record: Any, result: Any, *, once: bool) -> None:
        raise TypeError(f"this sink is the topic {self.into}: send to it by a KafkaProducer")

    def _counted(self) -> list[tuple[Stored, int]]:
        origins = self._origins()
        counted = [
            (
                record,
                len(origins.get(record.value or b"", ())) + len(origins.get(_place(record), ())),
            )
            for record in self._simulation.brokers.records(self.topic)
        ]
        if origins and counted and not any(times for _, times in counted):
            raise ValueError(
                f"no record of {self.into} is the result of one of {self.topic}, as far as `of`"
                " tells: sim.sink(..., of=a function that is given a record of"
                f" {self.into}, and returns the value of one of {self.topic}, or its"
                " (partition, offset))"
            )
        return counted

    def _origins(self) -> dict[Any, list[Stored]]:
        """The results, by the records that they are of."""
        found: dict[Any, list[Stored]] = {}
        for result in self._simulation.brokers.records(self.into):
            origin = self._of(result)
            origin = origin.encode() if isinstance(origin, str) else origin
            found.setdefault(origin, []).append(result)
        return found

    def _results_of(self, record: Stored) -> list[Stored]:
        origins = self._origins()
        return [*origins.get(record.value or b"", ()), *origins.get(_place(record), ())]

    @property
    def has_settled(self) -> bool:
        brokers, into = self._simulation.brokers, self.into
        ends = [brokers.end(into, partition) for partition in range(into.partitions)]
        if ends != self._ends:
            self._ends, self._changed_at = ends, self._simulation.now
        return super().has_settled


def _place(record: Stored) -> tuple[int, int]:
    return record.partition, record.offset
