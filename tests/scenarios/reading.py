"""What every scenario does: make a member, and read until enough has come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.world import World

T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def a_member(world: World, **configs: Any) -> KafkaConsumer:
    """A consumer of "orders" in the group "g" that begins at the beginning."""
    return world.consumer("orders", **{"group_id": "g", "auto_offset_reset": "earliest"} | configs)


def read(
    world: World, consumer: KafkaConsumer, count: int, *, within: float = 5.0, **options: Any
) -> list[Any]:
    """Poll until there are so many records, or the time is over; all of them."""
    until = world.now + within
    records: list[Any] = []
    while len(records) < count and world.now < until:
        for some in consumer.poll(timeout_ms=100, **options).values():
            records.extend(some)
    return records


def a_full_reader(world: World) -> KafkaConsumer:
    """Its buffer is full of records of T0 when T1, of which all was read, gets a new one."""
    consumer = world.consumer(auto_offset_reset="earliest", max_buffered_bytes=3000)
    consumer.assign([T0, T1])
    read(world, consumer, 80)
    world.cluster.produce("orders", 0, *[b"x" * 1000] * 20)
    for _ in range(5):
        consumer.poll(timeout_ms=100, max_records=1)
        world.sleep(0.3)
    world.cluster.produce("orders", 1, b"a")
    return consumer


def offsets(records: list[Any], partition: int) -> list[int]:
    """The offsets of those that are of this partition."""
    return [one.offset for one in records if one.partition == partition]


def in_another_thread(act: Callable[[], Any]) -> Any:
    """What `act` returned or raised there."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(act())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="exporter")
    thread.start()
    thread.join()
    return outcome[0]
