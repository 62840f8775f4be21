"""An engine whose background is a script.

The script's messages come at given times, on a clock that moves only while the engine waits for
its bell.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from kafka import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.core import Core, Wiring
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.core.waiting import Blocking, Waiting
from aktor.events.fetching import Chunk, RecordsFetched
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import AssignPartitions, MemberChanged, MemberState, SessionExtended
from aktor.events.metadata import Cluster
from aktor.events.positions import Assigned, Position, PositionsFailed, PositionsResolved
from aktor.settings import Settings
from aktor.trace import recording, silent
from tests.unit.consumer.core.builders_chunks import A, offsets, read

T = TypeVar("T")

ORDERS = frozenset({"orders"})

CRASH = ZeroDivisionError("a bug")


class ScriptedBell(Bell):
    """A bell whose waiter moves the clock, and hears what is due meanwhile."""

    __slots__ = ("_agenda", "_clock", "_count", "rung", "waits")

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.rung = False
        self.waits: list[float] = []
        self._clock = clock
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()

    def at(self, time: float, act: Callable[[], object]) -> None:
        """Do this when the time has come and somebody waits."""
        heapq.heappush(self._agenda, (time, next(self._count), act))

    def ring(self) -> None:
        """Wake the waiter."""
        self.rung = True

    def wait(self, timeout: float) -> bool:
        """Move on until rung, or by `timeout` seconds."""
        assert len(self.waits) < 10_000, "it spins"
        self.waits.append(timeout)
        until = self._clock.now + max(0.0, timeout)
        while not self.rung and self._agenda and self._agenda[0][0] <= until:
            time, _, act = heapq.heappop(self._agenda)
            self._clock.now = max(self._clock.now, time)
            act()
        rung, self.rung = self.rung, False
        if not rung:
            self._clock.now = until
        return rung


class EngineHarness:
    """An engine, the clock it looks at, and what it said to a background that is a script."""

    #: Whether a poll that need not wait ends without a generator; otherwise each poll is one.
    at_once = True

    def __init__(self, *, clock: Any = None, bell: Any = None, **settings: Any) -> None:
        self.clock = clock or VirtualTime(100.0)
        self.bell = bell or ScriptedBell(self.clock)
        self.port = ApplicationPort(self.bell, silent())
        self.port.cluster = Cluster(version=1)  # a broker has answered
        self.said: list[Any] = []
        self.wakes: list[bool] = []
        self.on_said: Callable[[Any], None] = lambda message: None
        self.auto_commits: list[tuple[Any, Any]] = []
        trace, self.events = recording()
        wiring = Wiring(
            settings=Settings(**{"enable_auto_commit": False, **settings}),
            port=self.port,
            publish=self.publish,
            clock=self.clock,
            trace=trace,
            log=trace.bind(actor="application"),
        )
        core = Core.of(wiring, make_reader=read)
        self.engine = Engine(
            core, on_auto_commit=lambda offsets, error: self.auto_commits.append((offsets, error))
        )
        self.driver = Blocking(self.bell, self.clock)

    def run(self, operation: Waiting[T]) -> T:
        """Drive it to its end, as a consumer does."""
        self.engine.call.touch()
        return self.driver.run(operation)

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, and wait for the answer."""
        return self.run(self.engine.questions.ask(*args, **kwargs))

    def commit(self, *args: Any, **kwargs: Any) -> None:
        """Commit and wait."""
        self.run(self.engine.commits.commit(*args, **kwargs))

    def position(self, partition: TopicPartition, deadline: float) -> int | None:
        """The consumed position, asked for as the method of the consumer does."""
        known = self.engine.known_position(partition)
        return self.run(self.engine.position(partition, deadline)) if known is None else known

    def leave(self, *args: Any, **kwargs: Any) -> BaseException | None:
        """Leave the group."""
        return self.run(self.engine.leaving.leave(*args, **kwargs))

    def assign(self, *args: Any, **kwargs: Any) -> None:
        """Assign partitions by hand."""
        self.run(self.engine.assign(*args, **kwargs))

    def unsubscribe(self, *args: Any, **kwargs: Any) -> None:
        """Subscribe to nothing."""
        self.run(self.engine.unsubscribe(*args, **kwargs))

    def publish(self, message: object, *, wake: bool = True) -> None:
        self.said.append(message)
        self.wakes.append(wake)
        self.on_said(message)

    def poll(self, timeout: float = 0.0, limit: int = 500) -> dict[TopicPartition, list[int]]:
        """The offsets that a poll gave out, asked for as the method of the consumer does."""
        if self.at_once:
            found = self.engine.poll_at_once(timeout, limit)
        else:
            found = self.engine.poll(self.clock.now + timeout, limit)
        return offsets(found if isinstance(found, dict) else self.run(found))

    def hear(self, *messages: object) -> None:
        for message in messages:
            self.port.tell(message)

    def hear_at(self, time: float, *messages: object) -> None:
        self.bell.at(time, lambda: self.hear(*messages))

    def fetched(self, *chunks: Chunk) -> None:
        self.hear(RecordsFetched(chunks=chunks))

    def found(self, partition: TopicPartition = A, offset: int = 0) -> None:
        """Its position is known."""
        self.hear(resolved(self.engine.delivery.partitions[partition].epoch, offset, partition))

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.said if isinstance(one, kind)]

    def told(self, *names: str) -> list[dict[str, Any]]:
        """The trace's events of these names."""
        return [one for one in self.events if one["event"] in names]

    def forget(self) -> None:
        self.said.clear()
        self.wakes.clear()


def resolved(epoch: int, offset: int = 0, partition: TopicPartition = A) -> PositionsResolved:
    position = Position(offset=offset)
    return PositionsResolved(partitions={partition: Assigned(epoch=epoch, position=position)})


def a_consumer(*partitions: TopicPartition, **settings: Any) -> EngineHarness:
    """A consumer with partitions (default: A, in epoch 1) assigned by hand, at offset 0."""
    harness = EngineHarness(**settings)
    harness.assign(partitions or [A])
    for one in partitions or [A]:
        harness.found(one)
    until_all_is_told(harness)
    return harness


def a_member(*, confirmed_until: float = 145.0, **settings: Any) -> EngineHarness:
    """A stable group member that owns A, in epoch 1 and at offset 0."""
    harness = EngineHarness(group_id="g", **settings)
    harness.run(harness.engine.subscribe(ORDERS, None))
    harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=confirmed_until),
        an_assignment(A),
    )
    harness.poll()
    harness.found(A)
    until_all_is_told(harness)
    return harness


def until_all_is_told(harness: EngineHarness) -> None:
    """A position that was found in a poll is told by the next one."""
    harness.poll()
    harness.poll()
    harness.forget()


def an_assignment(*partitions: TopicPartition, rebalance: int = 1) -> AssignPartitions:
    owned = frozenset(partitions)
    return AssignPartitions(rebalance=rebalance, assigned=owned, added=owned, generation=1)


def a_failure(error: Exception, epoch: int = 1, partition: TopicPartition = A) -> PositionsFailed:
    return PositionsFailed(epochs={partition: epoch}, error=error)


def a_restart(*actors: str) -> ActorsRestarted:
    return ActorsRestarted(actors=actors, because=CRASH)


class RaisingListener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Any) -> None:
        raise CRASH

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise CRASH


class NotingListener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.append("assigned")

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.heard.append("revoked")

    def on_partitions_lost(self, lost: Any) -> None:
        self.heard.append("lost")
