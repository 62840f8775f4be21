"""Where the bytes of a log are: in memory, or in files that outlive the process."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from aktor.broker.codes import Code, Refused
from aktor.records.batch import Buffer

__all__ = ["FileStore", "MemoryStore", "Store"]


class Store(Protocol):
    """A row of bytes which grows at its end and is cut at both.

    Positions count from the first byte ever written, and begin anew with `replace`.
    """

    @property
    def start(self) -> int:
        """The position of the first byte that is still there."""

    @property
    def end(self) -> int:
        """The position after the last byte."""

    def append(self, data: bytes | bytearray) -> int:
        """Write at the end, all or nothing, and return the position.

        The store may keep `data` itself: the caller does not change it any more. Raises Refused
        with KAFKA_STORAGE_ERROR.
        """

    def read(self, position: int, length: int) -> bytes | memoryview:
        """What is there, `length` bytes at most; it stays the same whatever happens later."""

    def truncate(self, position: int) -> None:
        """Drop everything from `position` on."""

    def drop_before(self, position: int) -> None:
        """What is before `position` is not needed; it may go later."""

    def replace(self, parts: Iterable[Buffer]) -> None:
        """Have these bytes instead of all that is there, from position 0 on."""

    def close(self) -> None:
        """Free what the operating system gave."""

    def destroy(self) -> None:
        """Close it, and leave nothing."""


class MemoryStore:
    """Chunks of memory: big batches as they are, small ones packed."""

    #: From here on a batch is a chunk of its own.
    BIG: Final = 32 * 1024
    _SMALLEST_CHUNK: Final = 4 * 1024
    _LARGEST_CHUNK: Final = 1024 * 1024

    __slots__ = ("_chunks", "_open", "_starts", "end")

    def __init__(self) -> None:
        self.end = 0
        self._chunks: list[Buffer] = []
        self._starts: list[int] = []
        #: Whether the last chunk has room; bytes that were handed out are never written again.
        self._open = False

    @property
    def start(self) -> int:
        return self._starts[0] if self._starts else self.end

    def append(self, data: bytes | bytearray) -> int:
        position = self.end
        if len(data) >= self.BIG:
            self._seal()
            self._add(data)
        else:
            chunk, used = self._room_for(len(data))
            chunk[used : used + len(data)] = data
        self.end += len(data)
        return position

    def _room_for(self, size: int) -> tuple[memoryview, int]:
        """The chunk to write to, and where in it."""
        if self._open:
            used = self.end - self._starts[-1]
            if used + size <= len(self._chunks[-1]):
                return memoryview(self._chunks[-1]), used
            self._seal()
        grown = min((self.end - self.start) // 4, self._LARGEST_CHUNK)
        self._add(bytearray(max(grown, self._SMALLEST_CHUNK, size)))
        self._open = True
        return memoryview(self._chunks[-1]), 0

    def _add(self, chunk: Buffer) -> None:
        self._chunks.append(chunk)
        self._starts.append(self.end)

    def _seal(self) -> None:
        """No more is written to the last chunk; give back what was not used."""
        if self._open:
            used = self.end - self._starts[-1]
            if used < len(self._chunks[-1]) * 7 // 8:
                self._chunks[-1] = bytes(self._chunks[-1][:used])
            self._open = False

    def read(self, position: int, length: int) -> bytes | memoryview:
        last = min(position + length, self.end)
        index = bisect_right(self._starts, position) - 1
        if index < 0 or last <= position:
            return b""
        pieces = []
        while position < last:
            start = self._starts[index]
            index += 1
            after = self._starts[index] if index < len(self._starts) else self.end
            piece = memoryview(self._chunks[index - 1])[position - start : min(after, last) - start]
            position = after
            pieces.append(piece)
        return pieces[0].toreadonly() if len(pieces) == 1 else b"".join(pieces)

    def truncate(self, position: int) -> None:
        position = max(position, self.start)
        if position >= self.end:
            return
        self._seal()
        while self._starts and self._starts[-1] >= position:
            del self._starts[-1], self._chunks[-1]
        self.end = position
        if self._chunks:
            self._chunks[-1] = bytes(self._chunks[-1][: position - self._starts[-1]])

    def drop_before(self, position: int) -> None:
        if position >= self.end:
            count, self._open = len(self._starts), False
        else:
            count = max(bisect_right(self._starts, position) - 1, 0)
        del self._starts[:count], self._chunks[:count]

    def replace(self, parts: Iterable[Buffer]) -> None:
        fresh = MemoryStore()
        for part in parts:
            fresh.append(bytes(part))
        self.end = fresh.end
        self._chunks, self._starts, self._open = fresh._chunks, fresh._starts, fresh._open

    def close(self) -> None:
        pass

    def destroy(self) -> None:
        self._chunks, self._starts, self._open = [], [], False


class FileStore:
    """Files of one folder, each named after the position of its first byte.

    What was appended is with the operating system when the call returns, so it outlives the
    process, but not the machine: nothing is flushed to the disk.
    """

    _SEGMENT: Final = 64 * 1024 * 1024
    #: A replacement is written under the first name; under the second it is complete.
    _UNFINISHED: Final = "replacement.unfinished"
    _FINISHED: Final = "replacement.finished"

    __slots__ = ("_descriptors", "_folder", "_segment", "_starts", "end")

    def __init__(self, folder: Path | str, *, segment_bytes: int = _SEGMENT) -> None:
        self._folder = Path(folder)
        self._segment = segment_bytes
        self._descriptors: dict[int, int] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._starts: list[int] = []
        self.end = 0
        (self._folder / self._UNFINISHED).unlink(missing_ok=True)
        self._find()
        if (self._folder / self._FINISHED).exists():
            self._swap()

    def _find(self) -> None:
        """The files that follow each other; others are left over from a cut that was stopped."""
        self._starts, self.end = [], 0
        for start in sorted(int(path.stem) for path in self._folder.glob("*.log")):
            if self._starts and start != self.end:
                self._path(start).unlink()
                continue
            self._starts.append(start)
            self.end = start + self._path(start).stat().st_size

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020}.log"

    def _file(self, start: int) -> int:
        if start not in self._descriptors:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptors[start] = os.open(self._path(start), flags, 0o644)
        return self._descriptors[start]

    @property
    def start(self) -> int:
        return self._starts[0] if self._starts else self.end

    def append(self, data: bytes | bytearray) -> int:
        position = self.end
        roll = not self._starts or (
            position > self._starts[-1] and position + len(data) > self._starts[-1] + self._segment
        )
        start = position if roll else self._starts[-1]
        try:
            if roll and self._starts:
                # Files follow each other by their sizes: leave nothing of a write that failed.
                os.ftruncate(self._file(self._starts[-1]), position - self._starts[-1])
            self._write(start, position, data)
        except OSError as fault:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file(start), position - start)
            raise _storage_error("write", self._path(start), fault) from fault
        if roll:
            self._starts.append(start)
        self.end += len(data)
        return position

    def _write(self, start: int, position: int, data: bytes | bytearray) -> None:
        descriptor, rest = self._file(start), memoryview(data)
        while rest:
            written = os.pwrite(descriptor, rest, position - start)
            rest, position = rest[written:], position + written

    def read(self, position: int, length: int) -> bytes | memoryview:
        last = min(position + length, self.end)
        index = bisect_right(self._starts, position) - 1
        if index < 0 or last <= position:
            return b""
        pieces = []
        while position < last:
            start = self._starts[index]
            index += 1
            after = self._starts[index] if index < len(self._starts) else self.end
            try:
                piece = os.pread(self._file(start), min(after, last) - position, position - start)
            except OSError as fault:
                raise _storage_error("read", self._path(start), fault) from fault
            if len(piece) < min(after, last) - position:
                raise _storage_error("read", self._path(start), "it is shorter than it was")
            position = after
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def truncate(self, position: int) -> None:
        position = max(position, self.start)
        if position >= self.end:
            return
        while self._starts and self._starts[-1] >= position and len(self._starts) > 1:
            self._unlink(self._starts.pop())
        if self._starts:
            os.ftruncate(self._file(self._starts[-1]), position - self._starts[-1])
        self.end = position

    def drop_before(self, position: int) -> None:
        while len(self._starts) > 1 and self._starts[1] <= position:
            self._unlink(self._starts.pop(0))
        if self._starts and position >= self.end > self._starts[0]:
            # The name of an empty file keeps the position. Without one the old file stays.
            with contextlib.suppress(OSError):
                self._file(self.end)
                self._unlink(self._starts[0])
                self._starts = [self.end]

    def _unlink(self, start: int) -> None:
        descriptor = self._descriptors.pop(start, None)
        if descriptor is not None:
            os.close(descriptor)
        self._path(start).unlink(missing_ok=True)

    def replace(self, parts: Iterable[Buffer]) -> None:
        unfinished = self._folder / self._UNFINISHED
        try:
            with unfinished.open("wb") as file:
                for part in parts:
                    file.write(part)
        except OSError as fault:
            unfinished.unlink(missing_ok=True)
            raise _storage_error("write", unfinished, fault) from fault
        unfinished.rename(self._folder / self._FINISHED)
        self._swap()

    def _swap(self) -> None:
        """Put a complete replacement in the place of everything; done again after a crash."""
        for start in reversed(self._starts):
            self._unlink(start)
        (self._folder / self._FINISHED).rename(self._path(0))
        self._find()

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def destroy(self) -> None:
        self.close()
        for path in self._folder.glob("*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        self._starts = []


def _storage_error(what: str, path: Path, fault: OSError | str) -> Refused:
    reason = fault if isinstance(fault, str) else fault.strerror
    return Refused(Code.KAFKA_STORAGE_ERROR, f"cannot {what} {path}: {reason}")
