"""What FastStream needs of a consumer in place of aiokafka's, without FastStream."""

from __future__ import annotations

import asyncio

import aiokafka
import aiokafka.errors
import pytest

from aktor.aio.faststream import Consumer
from tests.kafka.embedded import EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, QUICK, SOON_S, numbered

pytestmark = pytest.mark.embedded("FastStream's own tests run on one broker, too")


def test_it_gives_out_aiokafkas_records_and_raises_its_errors(
    kafka: EmbeddedCluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(5))
    partition = aiokafka.TopicPartition(topic, 0)

    async def program() -> None:
        settings = QUICK | {"bootstrap_servers": kafka.bootstrap_servers, "group_id": group}
        async with Consumer(topic, **settings) as consumer:
            first = await consumer.getone()
            assert isinstance(first, aiokafka.ConsumerRecord), "a tuple would be taken for a batch"
            assert (first.offset, first.headers) == (0, ())
            consumer.seek(partition=partition, offset=first.offset)
            found = await consumer.getmany(timeout_ms=PROMPT_S * 1000, max_records=2)
            assert [record.offset for record in found[partition]] == [0, 1]
            async for record in consumer:
                assert (record.offset, type(record)) == (2, aiokafka.ConsumerRecord)
                break
            await consumer.commit()
            assert await consumer.committed(partition) == 3
            assert consumer._group_id == group
            assert consumer._coordinator.member_id
            assert consumer._subscription.topics == {topic}
            with pytest.raises(aiokafka.errors.IllegalStateError):
                await consumer.getone(aiokafka.TopicPartition(topic, 1))
        with pytest.raises(aiokafka.errors.ConsumerStoppedError):
            await consumer.getone()

    async def main() -> None:
        async with asyncio.timeout(SOON_S):
            await program()

    asyncio.run(main())
