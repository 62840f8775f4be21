"""Fetched chunks for the tests of the application's half, and how records are read out of them."""

from __future__ import annotations

import math
from typing import Any

from kafka.structs import TopicPartition

from aktor.events.fetching import Chunk
from aktor.records import RecordReader
from aktor.records.extent import extent
from tests.unit.records.building import a_batch, values

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)
C = TopicPartition("orders", 2)
#: What a chunk counts against the buffer beside its bytes.
OVERHEAD = 100


def read(chunk: Chunk) -> RecordReader:
    """The reader that the consumer makes of a chunk; the value b"bad" is refused.

    Ctrl-C comes while the value b"interrupt" is deserialized.
    """
    return RecordReader(
        chunk.data,
        topic=chunk.partition.topic,
        partition=chunk.partition.partition,
        fetch_offset=chunk.offset,
        deserialize_value=_deserialize,
    )


def _deserialize(_topic: str, _headers: object, raw: bytes | None) -> bytes | None:
    if raw == b"bad":
        raise ValueError("cannot read this")
    if raw == b"interrupt":
        raise KeyboardInterrupt
    return raw


def a_chunk(
    partition: TopicPartition = A,
    offset: int = 0,
    *contents: bytes,
    count: int = 3,
    epoch: int = 1,
    leader_epoch: int = 5,
    high_watermark: int = -1,
    came_at: float = -math.inf,
) -> Chunk:
    """`count` records (or these contents) at consecutive offsets from `offset` on."""
    contents = contents or tuple(b"%d" % (offset + one) for one in range(count))
    data = a_batch(values(*contents), base_offset=offset, leader_epoch=leader_epoch)
    return a_chunk_of(
        data,
        partition=partition,
        offset=offset,
        end=offset + len(contents),
        epoch=epoch,
        high_watermark=high_watermark,
        came_at=came_at,
    )


def a_chunk_of(
    data: bytes,
    *,
    partition: TopicPartition = A,
    offset: int = 0,
    end: int = -1,
    epoch: int = 1,
    high_watermark: int = -1,
    came_at: float = -math.inf,
) -> Chunk:
    return Chunk(
        partition=partition,
        epoch=epoch,
        offset=offset,
        end=end,
        data=memoryview(data),
        size=len(data) + OVERHEAD,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        came_at=came_at,
        newest=extent(memoryview(data), offset).newest,
    )


def a_refusal(
    error: Exception, *, partition: TopicPartition = A, offset: int = 0, epoch: int = 1
) -> Chunk:
    """A chunk that brings an error of the broker instead of records."""
    return Chunk(partition=partition, epoch=epoch, offset=offset, error=error)


def offsets(taken: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[int]]:
    return {one: [record.offset for record in records] for one, records in taken.items()}
