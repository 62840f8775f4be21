"""What a typed program sees: every method of the consumer, and what it takes and gives."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypedDict, assert_type

from aktor import (
    AsyncConsumerRebalanceListener,
    BrokerStatus,
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecord,
    ConsumerSettings,
    ConsumerStatus,
    Deserializer,
    Health,
    KafkaConsumer,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionStatus,
    SubscriptionPattern,
    TopicPartition,
    WaitingFor,
)
from aktor.deserializers import (
    AvroDeserializer,
    Json,
    JsonDeserializer,
    MsgspecDeserializer,
    PydanticDeserializer,
    TextDeserializer,
)
from aktor.errors import KafkaError, RecordDeserializationError
from aktor.processing import Failure, Processed, Retries

Bytes = bytes | None


@dataclasses.dataclass
class Order:
    id: int
    total: float


class Item(NamedTuple):
    name: str


class Fields(TypedDict):
    name: str


def text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def order_of(data: bytes | None) -> Order | None:
    return None if data is None else Order(1, float(data))


class NumberDeserializer:
    """One of the user's own."""

    def deserialize(
        self, topic: str, headers: list[tuple[str, bytes | None]], data: bytes | None
    ) -> int:
        return int(data or b"0")


class SizeDeserializer(Deserializer):
    """As programs for kafka-python have it."""

    def deserialize(self, topic: str, headers: list[tuple[str, bytes]], data: bytes) -> int:
        return len(data)


# -- the type of a consumer follows from its deserializers

plain = KafkaConsumer("orders")
assert_type(plain, KafkaConsumer[bytes | None, bytes | None])
keyed = KafkaConsumer(key_deserializer=text_of)
assert_type(keyed, KafkaConsumer[str | None, bytes | None])
valued = KafkaConsumer("orders", "returns", value_deserializer=order_of)
assert_type(valued, KafkaConsumer[bytes | None, Order | None])
of_objects = KafkaConsumer(
    key_deserializer=TextDeserializer(), value_deserializer=NumberDeserializer()
)
assert_type(of_objects, KafkaConsumer[str | None, int])
assert_type(KafkaConsumer(value_deserializer=SizeDeserializer()), KafkaConsumer[bytes | None, int])
# (mypy tries a lambda without knowing its argument first, and counts that as an Any.)
of_a_lambda = KafkaConsumer(value_deserializer=lambda data: len(data or b""))  # type: ignore[misc]
assert_type(of_a_lambda, KafkaConsumer[bytes | None, int])
as_most_do = KafkaConsumer(key_deserializer=bytes.decode, value_deserializer=lambda m: m.decode())  # type: ignore[misc]
assert_type(as_most_do, KafkaConsumer[str, str])
said: KafkaConsumer[str | None, Order | None] = KafkaConsumer(
    key_deserializer=text_of, value_deserializer=order_of
)

assert_type(KafkaConsumer(value_deserializer=JsonDeserializer()), KafkaConsumer[bytes | None, Json])
of_json = KafkaConsumer(value_deserializer=JsonDeserializer(Order))
assert_type(of_json, KafkaConsumer[bytes | None, Order | None])
assert_type(JsonDeserializer(Item), JsonDeserializer[Item | None])
assert_type(JsonDeserializer(Fields), JsonDeserializer[Fields | None])
of_pydantic = KafkaConsumer(value_deserializer=PydanticDeserializer(Order))
assert_type(of_pydantic, KafkaConsumer[bytes | None, Order | None])
of_msgspec = KafkaConsumer(value_deserializer=MsgspecDeserializer(Order, format="msgpack"))
assert_type(of_msgspec, KafkaConsumer[bytes | None, Order | None])
of_avro = KafkaConsumer(
    key_deserializer=AvroDeserializer("http://localhost:8081", is_key=True),
    value_deserializer=AvroDeserializer({"url": "http://localhost:8081"}, Order),
)
assert_type(of_avro, KafkaConsumer[object, Order | None])

# -- settings that consumers share

shared: ConsumerSettings = {"bootstrap_servers": ["a:9092", "b:9092"], "group_id": "billing"}
assert_type(KafkaConsumer("orders", **shared), KafkaConsumer[bytes | None, bytes | None])
with_shared = KafkaConsumer("orders", value_deserializer=order_of, **shared)
assert_type(with_shared, KafkaConsumer[bytes | None, Order | None])


# -- a class of the user's own


class Orders(KafkaConsumer[bytes | None, Order | None]):
    def __init__(self, group_id: str) -> None:
        super().__init__("orders", group_id=group_id, value_deserializer=order_of)

    def total(self) -> float:
        return sum(record.value.total for record in self if record.value is not None)


class Plain(KafkaConsumer[bytes | None, bytes | None]): ...


assert_type(next(Plain("orders", group_id="billing")).value, bytes | None)


# -- listeners, callbacks, handlers


class Listener(ConsumerRebalanceListener):
    """It takes a consumer with records of any type."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.consumer.commit()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            self.consumer.seek(tp, 0)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        assert_type(self.consumer.poll(), dict[TopicPartition, list[ConsumerRecord]])


class AsyncListener(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None: ...

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await asyncio.sleep(0)


def on_commit(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: object) -> None:
    print(offsets, error)


def bill(record: ConsumerRecord[str | None, Order | None]) -> None:
    print(record.key, record.value)


async def bill_later(record: ConsumerRecord[str | None, Order | None]) -> None: ...


def count(record: ConsumerRecord) -> None:
    print(record.offset)


def put_aside(failure: Failure) -> None:
    print(failure.record.value, failure.error, failure.attempts, failure.headers())


def main() -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers="localhost:9092",
        group_id="billing",
        key_deserializer=text_of,
        value_deserializer=order_of,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        default_offset_commit_callback=on_commit,
    )
    tp = TopicPartition("orders", 0)
    assert_type(tp.topic, str)
    assert_type(tp.partition, int)

    consumer.subscribe(["orders"], listener=Listener(consumer))
    consumer.subscribe(pattern=re.compile("orders.*"), listener=AsyncListener())
    consumer.subscribe(pattern=SubscriptionPattern("orders.*"))
    assert_type(consumer.subscription(), set[str] | None)
    consumer.unsubscribe()
    consumer.assign([tp])
    consumer.assign({tp: 5})
    assert_type(consumer.assignment(), set[TopicPartition])

    for partition, records in consumer.poll(timeout_ms=100, max_records=10).items():
        assert_type(partition, TopicPartition)
        for record in records:
            assert_type(record, ConsumerRecord[str | None, Order | None])
            assert_type(record.value, Order | None)
            if record.value is not None:
                assert_type(record.value.total, float)
    for message in consumer:
        assert_type(message.key, str | None)
        assert_type(message.headers, list[tuple[str, bytes | None]])
        assert_type(message.timestamp, int)
    assert_type(next(consumer).offset, int)

    assert_type(consumer.position(tp), int | None)
    assert_type(consumer.committed(tp), int | None)
    assert_type(consumer.committed(tp, metadata=True), OffsetAndMetadata | None)
    assert_type(consumer.committed([tp]), dict[TopicPartition, int | None])
    assert_type(
        consumer.committed({tp}, metadata=True), dict[TopicPartition, OffsetAndMetadata | None]
    )
    consumer.commit()
    consumer.commit({tp: OffsetAndMetadata(1, "", -1)})
    consumer.commit({tp: OffsetAndMetadata(1)}, timeout_ms=100)
    future = consumer.commit_async(callback=on_commit)
    assert_type(future.is_done, bool)
    assert_type(future.exception, BaseException | None)
    consumer.seek(tp, 5)
    consumer.seek(tp, OffsetAndMetadata(5))
    consumer.seek_to_beginning(tp)
    consumer.seek_to_end()
    consumer.pause(tp)
    assert_type(consumer.paused(), set[TopicPartition])
    consumer.resume(*consumer.paused())
    assert_type(consumer.highwater(tp), int | None)

    assert_type(consumer.topics(), set[str])
    assert_type(consumer.partitions_for_topic("orders"), set[int])
    assert_type(consumer.beginning_offsets([tp]), dict[TopicPartition, int])
    assert_type(consumer.end_offsets([tp]), dict[TopicPartition, int])
    found = consumer.offsets_for_times({tp: 0})
    assert_type(found, dict[TopicPartition, OffsetAndTimestamp | None])
    if (first := found[tp]) is not None:
        assert_type(first.offset, int)
        assert_type(first.timestamp, int)
    metadata = consumer.group_metadata()
    assert_type(metadata, ConsumerGroupMetadata)
    assert_type(metadata.member_id, str)
    assert_type(OffsetAndMetadata(1, "", -1).offset, int)

    assert_type(consumer.metrics(), dict[str, dict[str, float]] | None)
    assert_type(consumer.config["group_id"], str | None)
    assert_type(consumer.config["max_poll_records"], int)
    assert_type(consumer.bootstrap_connected(), bool)
    assert_type(consumer.status(), ConsumerStatus)
    assert_type(consumer.why(), str)
    assert_type(consumer.status().healthy, Health)
    assert_type(consumer.status().healthy.because, str)
    assert_type(consumer.status().brokers, Mapping[int, BrokerStatus])
    assert_type(consumer.status().waiting_for, WaitingFor | None)
    assert_type(consumer.status().partitions, Mapping[TopicPartition, PartitionStatus])

    assert_type(consumer.process(bill), Processed)
    consumer.process(bill_later, workers="coroutines", retries=Retries(3))
    consumer.process(count, on_error=put_aside)
    consumer.process(print, on_error="skip")

    with KafkaConsumer("orders", value_deserializer=order_of) as inner:
        assert_type(inner, KafkaConsumer[bytes | None, Order | None])
    try:
        consumer.wakeup()
        consumer.close(autocommit=False, timeout_ms=1000)
    except RecordDeserializationError as error:
        assert_type(error.value, bytes | None)
        assert_type(error.offset, int)
        consumer.seek(TopicPartition(error.topic, error.partition), error.offset + 1)
    except KafkaError as error:
        print(error, error.retriable)
