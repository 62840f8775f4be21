"""Ordinary programs with a consumer, to be interrupted at any line, and what is true of them then.

Each catches what it is interrupted by, and goes on until it has read all.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

import aktor.consumer.columns.arrow  # noqa: F401  # else its lines would count in the first program
from aktor.errors import (
    ConcurrentAccessError,
    ConsumerClosedError,
    RecordDeserializationError,
    UserCallbackError,
    WakeupError,
)
from tests.scenarios.interrupts import Injection, Line, without_injections
from tests.scenarios.reading import T0, T1
from tests.scenarios.world import World

__all__ = [
    "ACTS",
    "SCENARIOS",
    "Act",
    "Program",
    "closing_handler",
    "interrupted",
    "judge",
    "lines_of",
    "run",
]

#: Records of each of the two partitions.
COUNT = 12


class Alarm(Exception):
    """What the handler of an alarm raises, to end a call that takes too long."""


class Listener(ConsumerRebalanceListener):
    """Says what is owned; raises if it is told the same twice."""

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        assert not self.owned & set(assigned), "assigned twice"
        self.owned |= set(assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        assert set(revoked) <= self.owned, "revoked twice"
        self.owned -= set(revoked)

    on_partitions_lost = on_partitions_revoked


class Program:
    """A program that reads a topic, and goes on after whatever it is interrupted by."""

    def __init__(self, world: World, **configs: Any) -> None:
        self.world = world
        self.listener = Listener()
        self.given: dict[TopicPartition, list[int]] = defaultdict(list)
        self.caught: list[BaseException] = []
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", COUNT, batch=5)
        configs = {
            "auto_offset_reset": "earliest",
            "max_poll_records": 4,
            "auto_commit_interval_ms": 40,
            "consumer_timeout_ms": 100,
        } | configs
        self.consumer = world.consumer(**configs)
        group = world.cluster.group("g")
        group.commit = functools.partial(self.check_commit, group.commit)  # type: ignore[method-assign]
        #: Commits of what was not given out.
        self.too_far: list[str] = []
        self.ended = False
        #: `close` was interrupted: it ends its thread, and may not have told the group.
        self.cut_short = False

    def check_commit(
        self, commit: Any, member: str, partition: tuple[str, int], value: Any
    ) -> None:
        given = self.given[TopicPartition(*partition)]
        after = max(given) + 1 if given else 0
        if value[0] > after:  # noted, for who commits may not be who hears of an error
            self.too_far.append(f"{value[0]} of {partition} was committed, given was {after}")
        commit(member, partition, value)

    # -- what it does

    def attempt(self, act: Callable[[], Any]) -> Any:
        """What `act` returned; None if it was interrupted."""
        try:
            return act()
        except (ConcurrentAccessError, AssertionError):
            raise
        except ConsumerClosedError as error:
            self.ended = True
            self.caught.append(error)
        except RecordDeserializationError as error:
            # It came while the deserializer ran: the record may be read again.
            self.caught.append(error)
            partition = TopicPartition(error.topic, error.partition)
            self.attempt(functools.partial(self.consumer.seek, partition, error.offset))
        except (KeyboardInterrupt, Alarm, WakeupError, UserCallbackError) as error:
            self.caught.append(error)
        return None

    def subscribe(self) -> None:
        while self.attempt(self.consumer.subscription) != {"orders"} and not self.ended:
            self.attempt(lambda: self.consumer.subscribe(["orders"], listener=self.listener))

    def poll(self, times: int = 1, timeout_ms: float = 50, **options: Any) -> None:
        for _ in range(times):
            found = self.attempt(lambda: self.consumer.poll(timeout_ms, **options))
            for partition, records in (found or {}).items():
                self.given[partition] += [one.offset for one in records]

    def read_all(self, act: Callable[[], None]) -> None:
        until = self.world.now + 60.0
        while self.total < 2 * COUNT and not self.ended:
            assert self.world.now < until, f"it stopped at {dict(self.given)}"
            act()

    def iterate(self, most: int = 1000) -> None:
        for _ in range(most):
            try:
                record = self.attempt(lambda: next(self.consumer))
            except StopIteration:
                self.ended = self.consumer._guard.closed
                return
            if record is not None:
                self.given[TopicPartition(record.topic, record.partition)].append(record.offset)

    def poll_columns(self) -> None:
        batch = self.attempt(
            lambda: self.consumer.poll_arrow(50, 7, columns=["partition", "offset"])
        )
        for row in batch.to_pylist() if batch is not None else ():
            self.given[TopicPartition("orders", row["partition"])].append(row["offset"])

    def batches(self) -> None:
        batches = self.attempt(lambda: self.consumer.arrow_batches(5))
        while batches is not None and not self.ended:
            try:
                batch = self.attempt(lambda: next(batches))
            except StopIteration:
                self.ended = self.consumer._guard.closed
                return
            for row in batch.to_pylist() if batch is not None else ():
                self.given[TopicPartition("orders", row["partition"])].append(row["offset"])

    @property
    def in_a_call(self) -> bool:
        """Whether a signal would find a call under way: one that has let go does but return."""
        guard = self.consumer._guard
        return bool(guard.holder or guard.away) and not guard.closed

    @property
    def total(self) -> int:
        return sum(len(offsets) for offsets in self.given.values())

    # -- the end

    def close(self) -> None:
        for _ in range(5):
            before = len(self.caught)
            self.attempt(self.consumer.close)
            self.cut_short |= len(self.caught) > before
            if self.world.host(self.consumer).dispatcher.ended:
                return
        raise AssertionError("it cannot be closed")


Scenario = Callable[[Program], None]


def polling(program: Program) -> None:
    program.subscribe()
    program.read_all(program.poll)


def polling_at_once(program: Program) -> None:
    """It never waits in a poll."""
    program.subscribe()

    def act() -> None:
        program.poll(timeout_ms=0, max_records=3)
        program.world.sleep(0.01)
        program.poll(timeout_ms=0)
        program.iterate(2)

    program.read_all(act)


def iterating(program: Program) -> None:
    program.subscribe()
    program.read_all(program.iterate)


def columns(program: Program) -> None:
    program.subscribe()
    program.poll_columns()
    program.read_all(program.batches)


def committing(program: Program) -> None:
    program.subscribe()

    def act() -> None:
        program.poll(max_records=3)
        program.attempt(program.consumer.commit)
        program.iterate(3)
        program.attempt(program.consumer.commit_async)

    program.read_all(act)


def asking(program: Program) -> None:
    program.attempt(lambda: program.consumer.assign([T0, T1]))
    while program.attempt(program.consumer.assignment) != {T0, T1} and not program.ended:
        program.attempt(lambda: program.consumer.assign([T0, T1]))

    def act() -> None:
        program.poll(max_records=3)
        for one in (T0, T1):
            program.attempt(lambda one=one: program.consumer.position(one, 1000))
            program.attempt(lambda one=one: program.consumer.committed(one, timeout_ms=1000))
        program.attempt(lambda: program.consumer.end_offsets([T0]))

    program.read_all(act)


def pausing(program: Program) -> None:
    program.subscribe()
    rounds = itertools.cycle((T0, T1))

    def act() -> None:
        one = next(rounds)
        if one in (program.attempt(program.consumer.assignment) or ()):
            program.attempt(lambda: program.consumer.pause(one))
        program.iterate(2)
        program.poll()
        while program.attempt(program.consumer.paused) != set() and not program.ended:
            program.attempt(lambda: program.consumer.resume(one))

    program.read_all(act)


def seeking(program: Program) -> None:
    """It goes to where it is."""
    program.subscribe()

    def act() -> None:
        program.iterate(2)
        for one in sorted(program.attempt(program.consumer.assignment) or ()):
            after = len(program.given[one])
            program.attempt(lambda one=one, after=after: program.consumer.seek(one, after))
        program.poll(max_records=3)

    program.read_all(act)


def decoding(program: Program) -> None:
    program.subscribe()

    def act() -> None:
        program.poll()
        program.iterate(3)

    program.read_all(act)


def rebalancing(program: Program) -> None:
    """Another member comes, has a part for a while, and leaves: nothing is read twice."""
    program.subscribe()
    program.poll(3, max_records=1)
    with without_injections():
        other = program.world.consumer("orders", group_id="g", auto_offset_reset="earliest")
    until = program.world.now + 5.0
    found: dict[Any, Any] = {}
    while not found and program.world.now < until and not program.ended:
        program.poll(max_records=1, timeout_ms=500)
        with without_injections():
            found = other.poll(20, max_records=1)
        for partition, records in found.items():
            program.given[partition] += [one.offset for one in records]
    with without_injections():
        other.close()
    program.read_all(program.poll)


def leaving(program: Program) -> None:
    """It gives all up in the middle, and begins again where it was."""
    program.subscribe()
    program.poll(6, max_records=3)
    while program.attempt(lambda: program.consumer.subscription() or 0) != 0 and not program.ended:
        program.attempt(program.consumer.unsubscribe)
    program.subscribe()
    program.read_all(program.poll)


def closing(program: Program) -> None:
    program.subscribe()
    program.poll(3, max_records=3)


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        polling,
        polling_at_once,
        iterating,
        columns,
        committing,
        asking,
        pausing,
        seeking,
        decoding,
        rebalancing,
        leaving,
        closing,
    )
}


def run(
    scenario: str,
    at: Collection[int],
    act: Callable[[Program], object],
    *,
    lines: list[Line] | None = None,
    inject: Callable[..., Injection] = Injection,
) -> tuple[Program, Injection]:
    """Run it with the interrupt there, close, and check what is true in any case."""
    configs: dict[str, Any] = {"group_id": "g"}
    if scenario == "decoding":
        configs["value_deserializer"] = _decode
    with World(7) as world:
        program = Program(world, **configs)
        injection = inject(world, at=at, act=lambda: act(program), lines=lines)
        with injection:
            SCENARIOS[scenario](program)
            program.poll(2)
            program.close()
        check(program, injection)
    return program, injection


def _decode(data: bytes | None) -> Any:
    return data


def check(program: Program, injection: Injection) -> None:
    """Everything was given out in order and once, as far as it was; nothing is left behind."""
    for partition, offsets in program.given.items():
        assert offsets == list(range(len(offsets))), (partition, offsets)
    assert not program.too_far
    group = program.world.cluster.group("g")
    program.world.sleep(1.0)
    assert program.cut_short or not group.members, "it is still a member"
    told = program.listener.owned == set()
    assert program.cut_short or injection.hit_a_listener or told, "the listener was not told"
    with pytest.raises(ConsumerClosedError):
        program.consumer.poll()


@functools.cache
def lines_of(scenario: str) -> list[Line]:
    """Every line of ours that it runs."""
    lines: list[Line] = []
    run(scenario, (), lambda program: None, lines=lines)
    return lines


def interrupted(program: Program) -> None:
    raise KeyboardInterrupt


def alarmed(program: Program) -> None:
    raise Alarm


def closing_handler(program: Program) -> None:
    if program.in_a_call:
        program.consumer.close()


def exiting_handler(program: Program) -> None:
    closing_handler(program)
    raise KeyboardInterrupt


def looking_handler(program: Program) -> None:
    consumer = program.consumer
    consumer.wakeup()
    assert consumer.status().client_id
    looks: list[Callable[[], Any]] = [
        consumer.metrics,
        consumer.assignment,
        consumer.subscription,
        consumer.paused,
        consumer.group_metadata,
    ]
    for look in looks:
        with contextlib.suppress(ConsumerClosedError):
            look()


def busy_handler(program: Program) -> None:
    """One that does what it may not."""
    if not program.in_a_call or program.consumer._engine.rebalancing.user_code.name:
        return
    acts: list[Callable[[], Any]] = [
        program.consumer.commit,
        program.consumer.commit_async,
        lambda: program.consumer.seek(T0, 0),
        program.consumer.unsubscribe,
        lambda: program.consumer.poll(100),
        lambda: next(program.consumer),
        lambda: program.consumer.position(T0),
    ]
    for act in acts:
        with pytest.raises(IllegalStateError):
            act()


@dataclass(frozen=True, slots=True)
class Act:
    """What happens at a line, and so many lines later again."""

    happens: Callable[[Program], object]
    then: tuple[int, ...] = ()
    #: The program may end early, for its consumer was closed.
    may_end: bool = False


ACTS: dict[str, Act] = {
    "interrupt": Act(interrupted),
    "alarm": Act(alarmed),
    "two interrupts": Act(interrupted, then=(1,)),
    "two interrupts, 30 lines apart": Act(interrupted, then=(30,)),
    "closes": Act(closing_handler, may_end=True),
    "closes and exits": Act(exiting_handler, may_end=True),
    "looks": Act(looking_handler),
    "does what it may not": Act(busy_handler),
}


def judge(act: Act, scenario: str, program: Program, injection: Injection) -> None:
    """What is to be true of a program that went on after it."""
    assert injection.hits >= 1
    if scenario != "closing" and not (act.may_end and program.ended):
        assert program.total == 2 * COUNT
