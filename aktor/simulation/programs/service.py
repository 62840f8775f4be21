"""A service of asyncio: it reads records in an event loop, and some of its calls are cancelled.

Like `Loop` it goes on after errors, as a service that wants to live would.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from kafka.errors import KafkaError

from aktor.aio import AsyncConsumerRebalanceListener, KafkaConsumer, TopicPartition
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.errors import (
    ConsumerStoppedError,
    CorruptBatchError,
    HandlerError,
    RecordDeserializationError,
)
from aktor.simulation.programs.loop import ONLY_A_NEW_ONE_HELPS, REFETCHES
from aktor.simulation.world.world import World

__all__ = ["Service"]

T = TypeVar("T")

#: The share of calls that are cancelled while they wait, and of turns in which it does something
#: besides reading.
CANCELLED: Final = 0.2
HABIT_SHARE: Final = 0.05

#: Ways of taking records.
WAYS: Final = ("getmany", "getone", "iteration")

#: The share of consumers that `process` their records, of those that commit by themselves; and of
#: their handlers that fail.
PROCESSING: Final = 0.4
FAILING: Final = 0.03


class Listener(AsyncConsumerRebalanceListener):
    """It takes its time, and looks at the consumer from its coroutines."""

    def __init__(self, service: Service, consumer: KafkaConsumer[Any, Any]) -> None:
        self._service = service
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(self._service.draw.choice([0.0, 0.0, 0.3]))
        with contextlib.suppress(KafkaError):
            for partition in sorted(assigned)[:1]:
                await self._consumer.position(partition)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await asyncio.sleep(self._service.draw.choice([0.0, 0.0, 0.3]))
        if self._service.processes:
            return  # `process` commits what is finished
        with contextlib.suppress(KafkaError):
            await self._consumer.commit()

    async def on_partitions_lost(self, lost: Any) -> None:
        await asyncio.sleep(0)


class Service:
    """One member: its consumer, and what it draws."""

    def __init__(
        self,
        simulation: World,
        topics: Sequence[str] | SubscriptionPattern,
        config: Callable[[], dict[str, Any]],
    ) -> None:
        self._simulation = simulation
        self._topics = topics
        self._config = config
        self.draw = random.Random(f"{simulation.seed} service {simulation.me.name}")
        self._unreadable: dict[tuple[str, int, int], int] = {}
        #: Whether the present consumer's records are processed.
        self.processes = False

    async def run(self) -> None:
        """Read until the end of the simulation, with one consumer after the other."""
        while True:
            consumer = KafkaConsumer[Any, Any](**self._config())
            by_itself = not consumer.config["enable_auto_commit"]
            self.processes = by_itself and self.draw.random() < PROCESSING
            self._subscribe(consumer)
            try:
                await consumer.start()
                await self._read(consumer)
            except ONLY_A_NEW_ONE_HELPS:
                pass
            except KafkaError:
                await asyncio.sleep(1.0)
            finally:
                with contextlib.suppress(KafkaError):
                    await consumer.stop()
            await asyncio.sleep(self.draw.uniform(0.1, 2.0))

    def _subscribe(self, consumer: KafkaConsumer[Any, Any]) -> None:
        listener = Listener(self, consumer)
        if isinstance(self._topics, SubscriptionPattern):
            consumer.subscribe(pattern=self._topics, listener=listener)
        else:
            consumer.subscribe([str(topic) for topic in self._topics], listener=listener)

    async def _read(self, consumer: KafkaConsumer[Any, Any]) -> None:
        turn = self._process if self.processes else self._turn
        while True:
            try:
                await turn(consumer)
            except ONLY_A_NEW_ONE_HELPS:
                raise
            except ConsumerStoppedError:
                return
            except (CorruptBatchError, RecordDeserializationError) as error:
                self._pass_over(consumer, error)
            except (KafkaError, HandlerError):
                await asyncio.sleep(0.1)

    async def _process(self, consumer: KafkaConsumer[Any, Any]) -> None:
        """Handlers in coroutines, until it is cancelled: once, or before it has ended once more."""
        order = self.draw.choice(["key", "partition", "none"])

        async def handle(record: Any) -> None:
            await asyncio.sleep(self.draw.choice([0.0, 0.0, 0.01, 0.3]))
            if self.draw.random() < FAILING:
                raise ValueError("the database is away")
            if self.draw.random() < HABIT_SHARE and self._simulation.faults.raging:
                habit = self.draw.choice(["ask", "stop", "busy"])
                if habit == "ask":
                    with contextlib.suppress(KafkaError):
                        await consumer.position(TopicPartition(record.topic, record.partition))
                elif habit == "stop":
                    await consumer.stop()
                else:
                    self._simulation.sleep(self.draw.uniform(0.0, 5.0))

        processing = asyncio.create_task(
            consumer.process(
                handle,
                order=order,
                concurrency=self.draw.choice([1, 3, 20]),
                max_pending=self.draw.choice([40, 1000]),
                commit_interval_ms=self.draw.choice([0, 500]),
                retries=self.draw.choice([0, 3]),
                on_error="raise",
            )
        )
        for wait in (self.draw.choice([0.0, 0.001, 0.05, 1.0, 5.0, 20.0]), 0.1, 0.0):
            await asyncio.wait([processing], timeout=wait)
            if processing.done():
                break
            if wait or self.draw.random() < 0.5:
                processing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await processing

    async def _turn(self, consumer: KafkaConsumer[Any, Any]) -> None:
        if self.draw.random() < HABIT_SHARE and self._simulation.faults.raging:
            await self._disturb(consumer)
        way = self.draw.choice(WAYS)
        if way == "getmany":
            await self._perhaps_cancelled(consumer.getmany(timeout_ms=500, max_records=50))
        elif way == "getone":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await consumer.getone()
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    async for _ in consumer:
                        if self.draw.random() < 0.1:
                            break
        await asyncio.sleep(self.draw.choice([0.0, 0.01, 0.2]))
        if not consumer.config["enable_auto_commit"]:
            await self._perhaps_cancelled(consumer.commit())

    async def _perhaps_cancelled(self, call: Awaitable[T]) -> T | None:
        if self.draw.random() >= CANCELLED:
            return await call
        task = asyncio.ensure_future(call)
        await asyncio.sleep(self.draw.choice([0.0, 0.001, 0.05, 0.3]))
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    async def _disturb(self, consumer: KafkaConsumer[Any, Any]) -> None:
        """What an application might do besides reading."""
        owned = sorted(consumer.assignment())
        if not owned:
            return
        partition = self.draw.choice(owned)
        habit = self.draw.choice(["pause", "seek", "ask", "reopen", "busy"])
        if habit == "pause":
            consumer.pause(partition)
            await asyncio.sleep(self.draw.uniform(0.0, 1.0))
            if partition in consumer.assignment():
                consumer.resume(partition)
        elif habit == "seek":
            at = await self._perhaps_cancelled(consumer.position(partition))
            if at is not None and partition in consumer.assignment():
                consumer.seek(partition, at)
        elif habit == "ask":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    await asyncio.gather(
                        consumer.position(partition),
                        consumer.end_offsets([partition]),
                        return_exceptions=True,
                    )
        elif habit == "reopen":
            await consumer.stop()
        else:
            self._simulation.sleep(self.draw.uniform(0.0, 5.0))  # the whole loop stands still

    def _pass_over(self, consumer: KafkaConsumer[Any, Any], error: Any) -> None:
        where = (error.topic, error.partition, error.offset)
        self._unreadable[where] = self._unreadable.get(where, 0) + 1
        if self._unreadable[where] > REFETCHES + 1:
            with contextlib.suppress(KafkaError):
                consumer.seek(TopicPartition(*where[:2]), error.offset + 1)
