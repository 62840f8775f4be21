"""What a typed program of asyncio sees: every method of the consumer, what it takes and gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import assert_type

from aktor.aio import (
    AIOKafkaConsumer,
    AsyncConsumerRebalanceListener,
    ConsumerRecord,
    ConsumerStoppedError,
    KafkaConsumer,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from aktor.processing import Failure, Processed, Retries
from tests.typing.user import Order, order_of, text_of

Orders = KafkaConsumer[str | None, Order | None]

assert_type(AIOKafkaConsumer("orders"), KafkaConsumer[bytes | None, bytes | None])
assert_type(KafkaConsumer(value_deserializer=order_of), KafkaConsumer[bytes | None, Order | None])


class Tokens:
    """As aiokafka's AbstractTokenProvider."""

    async def token(self) -> str:
        return "abc"


class Listener(AsyncConsumerRebalanceListener):
    def __init__(self, consumer: Orders) -> None:
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.consumer.commit(dict.fromkeys(revoked, 5))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self.consumer.seek_to_beginning(*assigned)


async def bill(record: ConsumerRecord[str | None, Order | None]) -> None: ...


async def put_aside(failure: Failure) -> None:
    print(failure.record.value, failure.error, failure.attempts)


async def main() -> None:
    tp = TopicPartition("orders", 0)
    async with KafkaConsumer(
        "orders",
        bootstrap_servers="localhost:9092",
        group_id="billing",
        sasl_oauth_token_provider=Tokens(),
        key_deserializer=text_of,
        value_deserializer=order_of,
    ) as consumer:
        assert_type(consumer, Orders)
        consumer.subscribe(["orders"], listener=Listener(consumer))
        assert_type(consumer.subscription(), frozenset[str])
        async for record in consumer:
            assert_type(record, ConsumerRecord[str | None, Order | None])
            assert_type(record.value, Order | None)
        assert_type(await anext(consumer), ConsumerRecord[str | None, Order | None])
        assert_type(await consumer.getone(tp), ConsumerRecord[str | None, Order | None])
        found = await consumer.getmany(tp, timeout_ms=100, max_records=10)
        assert_type(found, dict[TopicPartition, list[ConsumerRecord[str | None, Order | None]]])
        await consumer.commit()
        await consumer.commit({tp: 1})
        await consumer.commit({tp: (1, "mine")})
        await consumer.commit({tp: OffsetAndMetadata(1, "", -1)})
        assert_type(await consumer.committed(tp), int | None)
        assert_type(await consumer.position(tp), int)
        consumer.seek(tp, 5)
        assert_type(await consumer.seek_to_committed(), dict[TopicPartition, int | None])
        assert_type(await consumer.end_offsets([tp]), dict[TopicPartition, int])
        times = await consumer.offsets_for_times({tp: 0})
        assert_type(times, dict[TopicPartition, OffsetAndTimestamp | None])
        assert_type(await consumer.topics(), set[str])
        assert_type(consumer.assignment(), frozenset[TopicPartition])
        consumer.pause(tp)
        assert_type(consumer.paused(), set[TopicPartition])
        consumer.resume(tp)
        assert_type(consumer.highwater(tp), int | None)
        assert_type(consumer.last_poll_timestamp(tp), int | None)
        assert_type(consumer.group_metadata().member_id, str)
        assert_type(consumer.metrics(), dict[str, dict[str, float]] | None)
        assert_type(consumer.unsubscribe(), Awaitable[None])
        consumer.assign({tp: 5})
        done = await consumer.process(bill, retries=Retries(3), on_error=put_aside)
        assert_type(done, Processed)
        known: Mapping[str, object] = consumer.known_topics()
        print(known)
        try:
            await consumer.stop(timeout_ms=1000, autocommit=False)
        # (A base of it is kafka-python's, which has no types.)
        except ConsumerStoppedError as error:  # type: ignore[misc]
            print(error)


asyncio.run(main())
