"""What every `poll` says to the background: one message, carrying only what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.message import Message


class Poll(Message):
    """application ▶ commits, membership, fetch: the application polls at `now`.

    `positions` are the consumed positions that moved since the last Poll (the next offset to be
    given out; the application has finished with all records below), in the topics that have these
    `topic_ids`, as far as they are known. `freed_bytes` is the credit
    that was given back to this `incarnation` of the fetch manager, in all since it began. A
    repeated Poll (after an interrupt) frees no bytes again. The poll timer (`max_poll_interval_ms`)
    restarts at `now`.
    """

    now: float
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    freed_bytes: int
    incarnation: int = 1
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
