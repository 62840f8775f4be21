"""aiokafka: asyncio, and a protocol implementation of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.support import PARTITIONS, SOON_S, numbered

Names = Callable[[str], str]


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * SOON_S))


def consumer(kafka: EmbeddedKafka, topic: str, **settings: Any) -> Any:
    return AIOKafkaConsumer(
        topic,
        **{
            "bootstrap_servers": kafka.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 50,
            **settings,
        },
    )


async def read(members: Sequence[Any], count: int) -> list[str]:
    """The values of the next `count` records, whoever gets them; fails if more come with them."""
    found: list[str] = []
    while len(found) < count:
        for member in members:
            polled = await member.getmany(timeout_ms=50)
            found += [one.value.decode() for records in polled.values() for one in records]
    assert len(found) == count
    return sorted(found)


def test_two_members_of_a_group_read_every_record_once(
    kafka: EmbeddedKafka, topic: str, group: str
) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(
                AIOKafkaProducer(
                    bootstrap_servers=kafka.bootstrap_servers,
                    enable_idempotence=True,
                    compression_type="gzip",
                )
            )
            members = [
                await stack.enter_async_context(consumer(kafka, topic, group_id=group))
                for _ in range(2)
            ]
            while any(len(one.assignment()) != 2 for one in members):
                await asyncio.sleep(0.01)
            written = numbered("value", 40)
            for number, value in enumerate(written):
                await producer.send(topic, value.encode(), partition=number % len(PARTITIONS))
            await producer.flush()

            assert await read(members, 40) == sorted(written)
            assert members[0].assignment().isdisjoint(members[1].assignment())
            for member in members:
                await member.commit()

    run(test())

    assert kafka.committed(group) == {(topic, partition): 10 for partition in PARTITIONS}


def test_offsets_and_records_are_committed_in_a_transaction(
    kafka: EmbeddedKafka, topic: str, group: str, unique: Names
) -> None:
    async def test() -> None:
        async with (
            AIOKafkaProducer(
                bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique("txn")
            ) as producer,
            consumer(kafka, topic, isolation_level="read_committed") as reader,
        ):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"committed", partition=0)
                offsets = {TopicPartition(topic, 2): 7}
                await producer.send_offsets_to_transaction(offsets, group)

            assert await read([reader], 1) == ["committed"]

    run(test())

    assert kafka.committed(group) == {(topic, 2): 7}
