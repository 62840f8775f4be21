"""The segments of a log: it is retained or deleted by whole ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from aktor.broker.log.config import LogConfig
from aktor.records.batch import BatchHeader

__all__ = ["Segment", "Segments"]


class Segment:
    """A stretch of a log: where it begins, and what times its batches are of, in ms."""

    __slots__ = ("base_offset", "first_timestamp", "max_timestamp", "modified", "position")

    def __init__(self, base_offset: int, position: int) -> None:
        self.base_offset = base_offset
        self.position = position
        self.first_timestamp = -1
        self.max_timestamp = -1
        #: When it was last written to; -1 after a restart.
        self.modified = -1

    def newest(self, now_ms: int) -> int:
        """When its youngest record is of; records without a time are as old as their file."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        if self.modified < 0:
            self.modified = now_ms
        return self.modified


class Segments:
    """Owns where segments begin. The last one is written to; there is always one.

    They are only marks here, the bytes are in one store. The rules are Kafka's (UnifiedLog), so
    that retention does to a topic what it does there.
    """

    __slots__ = ("_all",)

    def __init__(self, base_offset: int, position: int) -> None:
        self._all = [Segment(base_offset, position)]

    @property
    def active(self) -> Segment:
        """The one that is written to."""
        return self._all[-1]

    def end_of(self, position: int, end: int) -> int:
        """Where the segment with this position ends, in a log whose bytes end at `end`."""
        following = bisect_right(self._all, position, key=lambda segment: segment.position)
        return self._all[following].position if following < len(self._all) else end

    def note(self, position: int, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
        """A batch was written at `position`; a new segment begins if the last one is full."""
        active = self._all[-1]
        if position > active.position and (
            position + header.size - active.position > config.segment_bytes
            or header.max_timestamp - active.first_timestamp > config.segment_ms
        ):
            active = Segment(header.base_offset, position)
            self._all.append(active)
        if position == active.position:
            active.first_timestamp = header.max_timestamp
        active.max_timestamp = max(active.max_timestamp, header.max_timestamp)
        active.modified = now_ms

    def expired(
        self, config: LogConfig, *, now_ms: int, high_watermark: int, end_offset: int, end: int
    ) -> int | None:
        """The offset up to which segments may be deleted by size or time; None if none may.

        The log ends at `end_offset`, and its bytes at position `end`.
        """
        size = end - self._all[0].position
        excess = size - config.retention_bytes if config.retention_bytes >= 0 else -1
        upto = None
        for index, segment in enumerate(self._all):
            last = index + 1 == len(self._all)
            after = end_offset if last else self._all[index + 1].base_offset
            bytes_in = (end if last else self._all[index + 1].position) - segment.position
            too_old = 0 <= config.retention_ms < now_ms - segment.newest(now_ms)
            if after > high_watermark or (last and not bytes_in):
                break
            if not (bytes_in <= excess or too_old):
                break
            if bytes_in <= excess:
                excess -= bytes_in
            upto = after
        return upto

    def before(self, offset: int, *, newest: int, now_ms: int) -> int:
        """The offset up to which the cleaner may go: `offset`, or a segment that is too young.

        Segments with records after `newest` ms are.
        """
        for segment in self._all:
            if segment.newest(now_ms) > newest:
                return min(offset, segment.base_offset)
        return offset

    def moved(self, position_of: Callable[[int], int]) -> None:
        """Offsets are at other positions now."""
        for segment in self._all:
            segment.position = position_of(segment.base_offset)

    def drop_before(self, start_offset: int, position: int, end: int) -> None:
        """The log begins here now; its bytes end at position `end`."""
        if position >= end:
            self._all = [Segment(start_offset, position)]
            return
        while len(self._all) > 1 and self._all[1].base_offset <= start_offset:
            del self._all[0]
        first = self._all[0]
        first.position = max(first.position, position)

    def truncate(self, end_offset: int, position: int) -> None:
        """The log ends here now."""
        while len(self._all) > 1 and self._all[-1].base_offset >= end_offset:
            del self._all[-1]
        first = self._all[0]
        if first.base_offset >= end_offset:
            self._all[0] = Segment(end_offset, position)
