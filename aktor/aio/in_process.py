"""The consumer, as its `process` calls it: beside other calls, which are refused meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from aktor.aio import tasks
from aktor.consumer import arguments
from aktor.consumer.core.waiting import Waiting
from aktor.errors import WakeupError
from aktor.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aktor.aio.consumer import KafkaConsumer
    from aktor.consumer.configuration.keywords import Config

__all__ = ["InProcess"]


class InProcess:
    """Owns the commits for which `process` does not wait."""

    def __init__(self, consumer: KafkaConsumer[Any, Any]) -> None:
        self._consumer = consumer
        self._commits: set[asyncio.Task[None]] = set()

    @property
    def config(self) -> Config:
        return self._consumer.config

    async def poll(self, timeout: float, limit: int) -> dict[TopicPartition, list[Any]]:
        return await self._consumer._getmany((), timeout, limit, "process (poll)")

    def pause(self, *partitions: TopicPartition) -> None:
        with self._consumer._at_once("process (pause)"):
            self._consumer._engine.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        with self._consumer._at_once("process (resume)"):
            self._consumer._engine.pause(partitions, paused=False)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with self._consumer._at_once("process (seek)"):
            self._consumer._engine.seek(partition, arguments.position(offset))

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> None:
        """The last commit of partitions that are given up: `wakeup` does not end it."""
        consumer = self._consumer
        call, deadline = consumer._engine.call, consumer._core.clock() + timeout

        def steadily() -> Waiting[None]:
            with call.steady():
                yield from consumer._engine.commit(offsets, deadline)

        await consumer._call("process (commit)", steadily)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[..., None]
    ) -> None:
        task = tasks.begin(self._commit_aside(offsets, callback))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit_aside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[..., None]
    ) -> None:
        consumer = self._consumer
        deadline = consumer._core.clock() + consumer._settings.request_timeout
        failed: BaseException | None = None
        try:
            await consumer._call(
                "process (commit)", lambda: consumer._engine.commit(offsets, deadline)
            )
        except (KafkaError, WakeupError) as error:
            failed = error
            if isinstance(error, WakeupError):
                consumer.wakeup()  # it was meant for `process`
        callback(offsets, failed)
