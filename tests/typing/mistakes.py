"""Mistakes that a type checker finds: each of them is refused on its line, by both checkers."""

# pyright: basic

from __future__ import annotations

from aktor import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
    aio,
)
from tests.typing.user import Order, order_of, text_of


def len_of_text(text: str) -> int:
    return len(text)


tp = TopicPartition("orders", 0)
consumer = KafkaConsumer("orders", key_deserializer=text_of, value_deserializer=order_of)

# Settings that do not exist, or have another type.
KafkaConsumer("orders", grop_id="billing")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
KafkaConsumer("orders", max_poll_records="ten")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
KafkaConsumer("orders", bootstrap_servers=9092)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
KafkaConsumer(["orders"])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]

# Fields of records and of their values.
for record in consumer:
    print(record.value.total)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    print(record.ofset)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    if record.value is not None:
        print(record.value.totl)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    if record.key is not None:
        print(record.key.decode())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

# Arguments.
consumer.commit({tp: 5})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
consumer.commit({("orders", 0): OffsetAndMetadata(5)})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
consumer.seek(tp, "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
consumer.seek("orders", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
consumer.assign(["orders"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
consumer.subscribe(["orders"], listener=print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
consumer.pause([tp])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
TopicPartition("orders", "0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# A deserializer that does not take bytes.
KafkaConsumer("orders", value_deserializer=len_of_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
KafkaConsumer("orders", value_deserializer=lambda data: data.encode())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

# A consumer, and a handler, of other records.
other: KafkaConsumer[str, Order] = consumer  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
unread: KafkaConsumer[str, int] = KafkaConsumer("orders")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

# What other clients' consumers take.
consumer.commit(asynchronous=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
consumer.commit(timeout=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
consumer.poll(timeout=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
consumer.subscribe(["orders"], on_assign=print)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
consumer.committed([tp], timeout=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def of_numbers(record: ConsumerRecord[str, int]) -> None: ...


consumer.process(of_numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None: ...  # type: ignore[override]


Listener()  # type: ignore[abstract]  # pyright: ignore[reportAbstractUsage]


# The consumer of asyncio.
aio.KafkaConsumer("orders", grop_id="billing")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
later = aio.KafkaConsumer("orders", key_deserializer=text_of, value_deserializer=order_of)


async def forget() -> None:
    records = later.getmany(timeout_ms=100)
    records.items()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for one in later:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        print(one)
    async for one in later:
        print(one.value.total)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    await later.commit({tp: "5"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    await later.seek(tp, 5)  # type: ignore[func-returns-value, misc]  # pyright: ignore[reportGeneralTypeIssues]
    await later.process(of_numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
