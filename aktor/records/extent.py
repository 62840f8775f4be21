"""What the headers of fetched batches say: where the next fetch goes on, and how old the next
record is."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from aktor.records.batch import (
    DELETE_HORIZON,
    HEADER_SIZE,
    LAST_OFFSET,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OFFSET_AND_LENGTH,
    SMALLEST_LENGTH,
    V2,
    BatchHeader,
)

__all__ = ["Extent", "extent", "timestamp_from"]

#: what v2 has after these: the epoch of the leader that appended the batch
_LEADER_EPOCH = struct.Struct(">i")
#: what v2 has at `LAST_OFFSET_DELTA_AT`: the offset of the last record, from that of the first
_LAST_OFFSET_DELTA = struct.Struct(">i")
#: what v2 has at `MAX_TIMESTAMP_AT`: the newest timestamp of its records, in ms since the epoch
_MAX_TIMESTAMP = struct.Struct(">q")

#: The base timestamp of such a batch is not that of its first record.
_BASE_IS_ANOTHER: Final = LOG_APPEND_TIME | DELETE_HORIZON

#: Shorter is no batch of v2, whatever is in it.
_SMALLEST_V2: Final = HEADER_SIZE - LOG_OVERHEAD


class Extent(NamedTuple):
    """What the headers of some batches say: the next offset to fetch after those that are complete,
    how many bytes these have, and of the last of them its leader epoch and its newest timestamp, in
    ms since the epoch (-1: not known, as of messages of v0 and v1)."""

    following: int
    size: int
    leader_epoch: int = -1
    newest: int = -1


def extent(data: memoryview, offset: int) -> Extent:
    """How far the complete batches in `data` go.

    `offset` is what was asked for. It is returned with 0 bytes if no batch is complete (a broker
    cuts a response at its size limit). If it is returned with more than 0 bytes, no batch moves the
    offset forward: a header is impossible (then all of `data` counts, so that the reader gets to
    the bad batch and says what is wrong with it), or the batches end before they reach `offset`.
    Never raises.
    """
    following = offset
    at, last_at, end = 0, -1, len(data)
    while end - at >= LOG_OVERHEAD:
        first, length = OFFSET_AND_LENGTH.unpack_from(data, at)
        if length < SMALLEST_LENGTH:
            return Extent(offset, end)
        if length > end - at - LOG_OVERHEAD:
            break
        last = _last_offset(data, at, first, length)
        if not 0 <= last <= LAST_OFFSET:
            return Extent(offset, end)
        following = max(following, last + 1)
        last_at = at
        at += LOG_OVERHEAD + length
    if last_at < 0 or data[last_at + MAGIC_AT] != V2:
        return Extent(following, at)
    (epoch,) = _LEADER_EPOCH.unpack_from(data, last_at + LOG_OVERHEAD)
    (newest,) = _MAX_TIMESTAMP.unpack_from(data, last_at + MAX_TIMESTAMP_AT)
    return Extent(following, at, max(epoch, -1), newest)


def timestamp_from(data: memoryview, at: int, offset: int) -> int:
    """The timestamp of the first record at or after `offset` in the batches from `at` on, in ms
    since the epoch; -1: it is not known (no batch, or one of a format before v2). Never raises.

    If that record is not the first of its batch, the newest timestamp of the batch stands for it:
    the record may be compressed.
    """
    while len(data) - at >= HEADER_SIZE and data[at + MAGIC_AT] == V2:
        header = BatchHeader.read(data, at)
        if header.last_offset >= offset:
            is_first = offset <= header.base_offset and not header.attributes & _BASE_IS_ANOTHER
            return header.base_timestamp if is_first else header.max_timestamp
        if header.length < SMALLEST_LENGTH:
            break
        at += header.size
    return -1


def _last_offset(data: memoryview, at: int, first: int, length: int) -> int:
    """The offset of the last record of the batch at `at`, -1 if its header is impossible."""
    magic = data[at + MAGIC_AT]
    if magic < V2:
        # The offset of a compressed wrapper is that of the last message in it.
        return int(first) if first >= 0 else -1
    if magic > V2 or length < _SMALLEST_V2 or first < 0:
        return -1
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, at + LAST_OFFSET_DELTA_AT)
    return int(first + delta) if delta >= 0 else -1
