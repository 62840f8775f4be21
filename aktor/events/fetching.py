"""The fetch conversation: record batches on their way to the application."""

from __future__ import annotations

import math
from dataclasses import field

from kafka.structs import TopicPartition

from aktor.events.message import Message
from aktor.values import Value


class Chunk(Value):
    """What one Fetch brought for one partition: a view of its record batches, still encoded.

    Belongs to `epoch`, and has the records from `offset` on and before `end` (-1: it has none, or
    it is not known where they end). `error` is set instead of data when the broker
    refused this partition at this offset (out of range, unauthorised, ...): it takes its turn in
    the buffer, so the records before it are given out first. `aborted` is
    [(producer id, first offset)], for read_committed.

    `size` is its credit: what it takes of the `max_buffered_bytes` of this `incarnation` of the
    fetch manager. A `Poll` gives it back when the chunk is read to its end, or dropped.

    `came_at` is when the answer came, by the consumer's clock, `newest` the newest timestamp of the
    last batch (in ms since the epoch; -1: not known). Only `status()`, `why()` and the trace read
    them.
    """

    partition: TopicPartition
    epoch: int
    offset: int
    end: int = -1
    data: memoryview = field(default=memoryview(b""), repr=False)
    size: int = 0
    incarnation: int = 1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    error: Exception | None = None
    came_at: float = field(default=-math.inf, compare=False)
    newest: int = field(default=-1, compare=False)


class RecordsFetched(Message):
    """fetch ▶ application: append these to the fetch buffer; they count until `Poll` frees them.

    A chunk without data and error only brings news of the high watermark.
    """

    chunks: tuple[Chunk, ...]


class PausePartitions(Message):
    """application ▶ fetch: these are paused from now on, and `resumed` are not any more.

    Records that were fetched stay buffered. For other partitions nothing changes. A partition that
    is taken out of the assignment is not paused any more.
    """

    partitions: frozenset[TopicPartition] = frozenset()
    resumed: frozenset[TopicPartition] = frozenset()
