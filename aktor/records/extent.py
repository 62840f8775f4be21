"""What the headers of fetched batches say: where the next fetch goes on, and how new the first
batch is."""

from __future__ import annotations

import struct
from typing import Final

from aktor.records.batch import (
    HEADER_SIZE,
    LAST_OFFSET,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OFFSET_AND_LENGTH,
    SMALLEST_LENGTH,
    V2,
)

__all__ = ["extent", "extent_and_epoch", "newest_timestamp"]

#: what v2 has after these: the epoch of the leader that appended the batch
_LEADER_EPOCH = struct.Struct(">i")
#: what v2 has at `LAST_OFFSET_DELTA_AT`: the offset of the last record, from that of the first
_LAST_OFFSET_DELTA = struct.Struct(">i")
#: what v2 has at `MAX_TIMESTAMP_AT`: the newest timestamp of its records, in ms since the epoch
_MAX_TIMESTAMP = struct.Struct(">q")

#: Shorter is no batch of v2, whatever is in it.
_SMALLEST_V2: Final = HEADER_SIZE - LOG_OVERHEAD


def extent(data: memoryview, offset: int) -> tuple[int, int]:
    """The next offset to fetch after the complete batches in `data`, and how many bytes they have.

    `offset` is what was asked for. It is returned with 0 bytes if no batch is complete (a broker
    cuts a response at its size limit). If it is returned with more than 0 bytes, no batch moves the
    offset forward: a header is impossible (then all of `data` counts, so that the reader gets to
    the bad batch and says what is wrong with it), or the batches end before they reach `offset`.
    Never raises.
    """
    following, size, _ = extent_and_epoch(data, offset)
    return following, size


def extent_and_epoch(data: memoryview, offset: int) -> tuple[int, int, int]:
    """As `extent`; and the leader epoch of the last complete batch, -1 if it is not known. Messages
    of v0 and v1 have none."""
    following = offset
    at, last_at, end = 0, -1, len(data)
    while end - at >= LOG_OVERHEAD:
        first, length = OFFSET_AND_LENGTH.unpack_from(data, at)
        if length < SMALLEST_LENGTH:
            return offset, end, -1
        if length > end - at - LOG_OVERHEAD:
            break
        last = _last_offset(data, at, first, length)
        if not 0 <= last <= LAST_OFFSET:
            return offset, end, -1
        following = max(following, last + 1)
        last_at = at
        at += LOG_OVERHEAD + length
    if last_at < 0 or data[last_at + MAGIC_AT] != V2:
        return following, at, -1
    (epoch,) = _LEADER_EPOCH.unpack_from(data, last_at + LOG_OVERHEAD)
    return following, at, max(int(epoch), -1)


def newest_timestamp(data: memoryview) -> int:
    """The newest timestamp in the first of these batches, in ms since the epoch; -1: it is not
    known (no batch, or one of a format before v2). Never raises."""
    if len(data) < HEADER_SIZE or data[MAGIC_AT] != V2:
        return -1
    return int(_MAX_TIMESTAMP.unpack_from(data, MAX_TIMESTAMP_AT)[0])


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
