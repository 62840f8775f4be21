"""Where in a store a batch is: one entry for every 4 KiB, and headers read from there."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from aktor.broker.log.batches import extent
from aktor.broker.log.store import Store
from aktor.records.batch import HEADER_SIZE, BatchHeader, Buffer

__all__ = ["BatchIndex", "batches", "headers"]

_HEADERS_BLOCK: Final = 64 * 1024
_BATCHES_BLOCK: Final = 1024 * 1024


def headers(store: Store, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches from `start` to `end`, of which the first is at `start`."""
    while end - start >= HEADER_SIZE:
        block = store.read(start, min(_HEADERS_BLOCK, end - start))
        at = 0
        while at + HEADER_SIZE <= len(block):
            header = BatchHeader.read(block, at)
            yield start + at, header
            at += header.size
        start += at


def batches(store: Store, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of the batches, up to the first one that is not whole."""
    wanted = _BATCHES_BLOCK
    while end - start >= HEADER_SIZE:
        block = memoryview(store.read(start, min(wanted, end - start)))
        at, wanted = 0, _BATCHES_BLOCK
        while at + HEADER_SIZE <= len(block):
            header = BatchHeader.read(block, at)
            if header.size < HEADER_SIZE or start + at + header.size > end:
                return
            if at + header.size > len(block):
                wanted = max(header.size, _BATCHES_BLOCK)
                break
            yield start + at, header, block[at : at + header.size]
            at += header.size
        start += at


class BatchIndex:
    """Owns the entries; `end` of every question is where the store ends.

    An entry has the offset and position of a batch, and the largest timestamp from there to the
    next entry.
    """

    #: Kafka's index.interval.bytes.
    INTERVAL: Final = 4096

    __slots__ = ("_offsets", "_positions", "_store", "_timestamps")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def note(self, position: int, header: BatchHeader) -> None:
        """A batch was written at the end."""
        if not self._positions or position - self._positions[-1] >= self.INTERVAL:
            self._offsets.append(header.base_offset)
            self._positions.append(position)
            self._timestamps.append(header.max_timestamp)
        elif header.max_timestamp > self._timestamps[-1]:
            self._timestamps[-1] = header.max_timestamp

    def locate(self, offset: int) -> int:
        """The position of the batch with `offset`, or with the next one that there is."""
        end = self._store.end
        if not self._positions:
            return end
        entry = max(bisect_right(self._offsets, offset) - 1, 0)
        position, after = self._positions[entry], self._after(entry)
        block = self._block(position, after)
        at = 0
        while position + at < after:
            last_offset, size = extent(block, at)
            if last_offset >= offset:
                return position + at
            at += size
        return after

    def end_of_batch(self, position: int) -> int:
        """Where the batch at `position` ends."""
        return position + BatchHeader.read(self._store.read(position, HEADER_SIZE)).size

    def reaching(self, timestamp: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches which have a record of `timestamp` or later."""
        for entry, newest in enumerate(self._timestamps):
            if newest >= timestamp:
                for position, header in self._headers(entry):
                    if header.max_timestamp >= timestamp:
                        yield position, header

    @property
    def max_timestamp(self) -> int:
        """The largest of all, -1 if there is none."""
        return max(self._timestamps, default=-1)

    def _after(self, entry: int) -> int:
        """Where the batches of an entry end."""
        following = entry + 1
        if following < len(self._positions):
            return self._positions[following]
        return self._store.end

    def _headers(self, entry: int) -> Iterator[tuple[int, BatchHeader]]:
        position, after = self._positions[entry], self._after(entry)
        block = self._block(position, after)
        at = 0
        while position + at < after:
            header = BatchHeader.read(block, at)
            yield position + at, header
            at += header.size

    def _block(self, position: int, after: int) -> Buffer:
        # All batches of an entry begin within the interval, and only the last may end beyond.
        return self._store.read(position, min(after - position, self.INTERVAL + HEADER_SIZE))

    def truncate(self, position: int) -> None:
        """The store ends at `position` now, where a batch began."""
        count = bisect_left(self._positions, position)
        del self._offsets[count:], self._positions[count:], self._timestamps[count:]
        if count:
            newest = max((header.max_timestamp for _, header in self._headers(count - 1)))
            self._timestamps[-1] = newest

    def drop_before(self, position: int) -> None:
        """What is before `position`, where a batch begins, is not there any more."""
        if position >= self._store.end:
            self.clear()
            return
        entry = bisect_right(self._positions, position) - 1
        if entry < 0:
            return
        left = [(at, header) for at, header in self._headers(entry) if at >= position]
        del self._offsets[:entry], self._positions[:entry], self._timestamps[:entry]
        self._offsets[0] = left[0][1].base_offset
        self._positions[0] = position
        self._timestamps[0] = max(header.max_timestamp for _, header in left)

    def clear(self) -> None:
        """Nothing is there."""
        del self._offsets[:], self._positions[:], self._timestamps[:]
