"""Records to try a consumer with: orders of some customers, in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from kafka.record.memory_records import MemoryRecordsBuilder

from aktor.broker.embedded import EmbeddedKafka

__all__ = ["write"]

_CUSTOMERS: Final = 20
_COUNTRIES: Final = ("DE", "FR", "JP")
_BATCH_BYTES: Final = 1 << 20
_MAGIC: Final = 2


def write(kafka: EmbeddedKafka, topic: str, count: int) -> None:
    """Write `count` orders to a topic. Those of a customer are in one partition.

    Raises ValueError if the topic does not exist.
    """
    cluster = kafka.server.cluster
    found = cluster.topics.get(topic)
    if found is None:
        raise ValueError(f"there is no topic {topic!r}")
    partitions = len(found.partitions)
    numbers: list[list[int]] = [[] for _ in range(partitions)]
    for number in range(count):
        numbers[number % _CUSTOMERS % partitions].append(number)

    def act() -> None:
        for partition, those in enumerate(numbers):
            for batch in _batches(those, int(cluster.now * 1000)):
                cluster.append(topic, partition, batch, cluster.now)

    kafka.server.ask(act)


def _batches(numbers: Iterable[int], timestamp: int) -> Iterable[bytes]:
    """The orders of these numbers as record batches."""
    builder: Any = None
    for number in numbers:
        who = number % _CUSTOMERS
        customer, country = f"customer-{who}", _COUNTRIES[who % len(_COUNTRIES)]
        order = {"order": number, "customer": customer, "country": country}
        order["amount"] = number % 100 + 0.99
        builder = builder or MemoryRecordsBuilder(_MAGIC, 0, _BATCH_BYTES)
        key, value = customer.encode(), json.dumps(order).encode()
        if builder.append(timestamp, key, value) is None:
            yield _built(builder)
            builder = MemoryRecordsBuilder(_MAGIC, 0, _BATCH_BYTES)
            builder.append(timestamp, key, value)
    if builder is not None:
        yield _built(builder)


def _built(builder: Any) -> bytes:
    builder.close()
    return bytes(builder.buffer())
