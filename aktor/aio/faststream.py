"""FastStream's Kafka broker on this consumer: aiokafka's class, as far as FastStream looks into it.

    import aiokafka

    from aktor.aio.faststream import Consumer

    aiokafka.AIOKafkaConsumer = Consumer  # before the broker is made

    from faststream.kafka import KafkaBroker

FastStream makes its consumers by that name. It tells a batch from a record by whether it is a tuple
(ours are), catches aiokafka's errors, and names the member in its log by private attributes. The
producer and the admin client stay aiokafka's.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import aiokafka.errors  # type: ignore[import-untyped]
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor.aio.consumer import Committable, KafkaConsumer
from aktor.errors import ConsumerStoppedError

__all__ = ["Consumer"]


class Consumer(KafkaConsumer[Any, Any]):
    """Gives out aiokafka's records, and raises aiokafka's errors."""

    async def getone(self, *partitions: TopicPartition) -> Any:
        """As `KafkaConsumer.getone`."""
        with _errors_of_aiokafka():
            return _record(await super().getone(*partitions))

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """As `KafkaConsumer.getmany`."""
        with _errors_of_aiokafka():
            found = await super().getmany(
                *partitions, timeout_ms=timeout_ms, max_records=max_records
            )
            return {partition: [*map(_record, records)] for partition, records in found.items()}

    async def __anext__(self) -> Any:
        with _errors_of_aiokafka():
            return _record(await super().__anext__())

    async def commit(self, offsets: Mapping[TopicPartition, Committable] | None = None) -> None:
        """As `KafkaConsumer.commit`."""
        with _errors_of_aiokafka():
            await super().commit(offsets)

    @property
    def _group_id(self) -> str | None:
        group: str | None = self.config["group_id"]
        return group

    @property
    def _coordinator(self) -> SimpleNamespace:
        return SimpleNamespace(member_id=self._core.port.membership.member.member_id)

    @property
    def _subscription(self) -> SimpleNamespace:
        return SimpleNamespace(topics=self.subscription())


def _record(record: Any) -> Any:
    return aiokafka.ConsumerRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        timestamp_type=record.timestamp_type,
        key=record.key,
        value=record.value,
        checksum=record.checksum,
        serialized_key_size=record.serialized_key_size,
        serialized_value_size=record.serialized_value_size,
        headers=tuple(record.headers),
    )


@contextmanager
def _errors_of_aiokafka() -> Generator[None]:
    """Raise aiokafka's error of the same name, or its KafkaError."""
    try:
        yield
    except ConsumerStoppedError as error:
        raise aiokafka.errors.ConsumerStoppedError(str(error)) from error
    except KafkaError as error:
        kind = getattr(aiokafka.errors, type(error).__name__, aiokafka.errors.KafkaError)
        raise kind(str(error)) from error
