"""Records to be processed."""

from __future__ import annotations

from typing import Any

from kafka.structs import TopicPartition

from aktor.structs import ConsumerRecord

P = TopicPartition("orders", 0)


def a_record(offset: int, key: Any = None, *, partition: TopicPartition = P) -> ConsumerRecord:
    return ConsumerRecord(
        partition.topic, partition.partition, 3, offset, 0, 0, key, b"", [], None, -1, 0, -1
    )
