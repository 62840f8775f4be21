"""What tests of the asyncio consumer share: consumers, programs in a loop, listeners."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from aktor.aio import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    TopicPartition,
)
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import QUICK, SOON_S, hurried, numbered

COUNT = 60

#: A call is not suspended so often.
NEVER = 10**9

T = TypeVar("T")


def with_records(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic that is made, with `COUNT` records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(COUNT))
    return TopicPartition(topic, 0)


def quick(kafka: Cluster, *names: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    """A consumer with the settings in `QUICK` unless told."""
    own = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
    return KafkaConsumer(*names, **hurried(QUICK, own))


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop of its own; it may not take long."""

    async def main() -> T:
        async with asyncio.timeout(SOON_S):
            return await program

    return asyncio.run(main())


@asynccontextmanager
async def assigned(
    kafka: Cluster, *partitions: TopicPartition, **settings: Any
) -> AsyncIterator[KafkaConsumer[Any, Any]]:
    """A consumer that was started and reads these partitions."""
    async with quick(kafka, **settings) as consumer:
        consumer.assign(partitions)
        yield consumer


def offsets(found: dict[TopicPartition, list[Any]]) -> list[int]:
    return [record.offset for records in found.values() for record in records]


async def first_of(count: int, consumer: KafkaConsumer[Any, Any]) -> AsyncIterator[Any]:
    async for record in consumer:
        yield record
        count -= 1
        if not count:
            return


async def islice(some: AsyncIterator[T], count: int) -> AsyncIterator[T]:
    for _ in range(count):
        yield await anext(some)


async def at_the_suspension(at: int, program: Coroutine[Any, Any, Any]) -> None:
    """Cancel it where it lets the event loop go on for the `at`-th time."""
    task = asyncio.create_task(program)
    for _ in range(at):
        await asyncio.sleep(0)
    task.cancel()
    await task


class Listener(AsyncConsumerRebalanceListener):
    """It waits for something in its callback, and notes what it was told."""

    def __init__(self, then: Callable[[Any], Awaitable[object]] | None = None) -> None:
        self.told: list[str] = []
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self._then = then

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append("assigned")
        self.begun.set()
        self.loops.add(asyncio.get_running_loop())
        if self._then is None:
            await self.goes_on.wait()
        else:
            await self._then(assigned)
        self.told.append("assigned, over")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append("revoked")


def unstopped(told: list[warnings.WarningMessage]) -> list[str]:
    """What was warned of."""
    return [str(one.message) for one in told]


class Reporter:
    """Notes the names of metrics."""

    made: ClassVar[list[Reporter]] = []

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.closed = False
        self.made.append(self)

    def configure(self, configs: Any) -> None:
        """Nothing."""

    def init(self, metrics: Any) -> None:
        """Nothing."""

    def metric_change(self, metric: Any) -> None:
        self.names.add(metric.metric_name.name)

    def metric_removal(self, metric: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        self.closed = True
