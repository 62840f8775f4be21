"""The folder on disk in which an embedded cluster lives on after its process has ended.

    format          which format this is, of which cluster, made by which aktor (JSON)
    lock            locked while a process uses the folder; holds the id of that process
    journal         what was put, a line each: CRC-32, then [kind, key, value] (JSON)
    logs/ID/N/      the records of partition N of the topic with this id

A put is one write to the operating system, without fsync: it outlives the death of the process,
not that of the machine. A process that dies while writing leaves half a line at the end, which
was never acknowledged and is cut off at the next opening.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from aktor.version import __version__

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FORMAT", "DataFolder", "DataFolderError"]

#: The format of what is written here; a folder of another one is not touched.
FORMAT: Final = 1

#: While running, the journal is rewritten when it is larger than both of these.
COMPACT_BEYOND: Final = 8 * 1024 * 1024
COMPACT_AT_TIMES_LIVE: Final = 4

#: What a folder may hold that was about to become a data folder when its process died.
_BEGINNINGS: Final = frozenset({"lock", "format.new"})

#: Where Windows locks the file: far behind the process id, which others want to read.
_LOCKED_BYTE: Final = 1 << 20

_BINARY: Final[int] = getattr(os, "O_BINARY", 0)

Key = tuple[str | int, ...]


class DataFolderError(Exception):
    """The folder can't be used: one line that names it, the reason, and what to do."""


@dataclass(slots=True)
class _Line:
    """Where the latest line of a key is in the journal."""

    offset: int
    length: int


class DataFolder:
    """Owns the folder of one cluster, and keeps all others out of it until it is closed.

    It is a `Journal`: what was put under (kind, key) before the process died is among `values()`
    when the folder is opened again. Not thread-safe: one thread puts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        cluster_id: str | None = None,
        compact_beyond: int = COMPACT_BEYOND,
    ) -> None:
        """Open the folder, or make it if it is missing or empty.

        cluster_id: what a new folder's cluster is called; drawn at random if None. A folder that
            exists keeps its own.
        compact_beyond: bytes; a smaller journal is not rewritten while running.

        Raises DataFolderError if the folder is in use, of another format, something else's, or
        can't be written.
        """
        self.path: Final = Path(path).absolute()
        self._compact_beyond = self._compact_next = compact_beyond
        self._lines: dict[tuple[str, Key], _Line] = {}
        self._live = 0
        self._size = 0
        self._torn = False
        self._journal = -1
        _make_folder(self.path)
        _check_format(self.path)
        self._lock = _lock(self.path)
        try:
            self.cluster_id: Final = _read_or_write_format(self.path, cluster_id)
            self._open()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._journal < 0 else f"{len(self._lines)} values"
        return f"<DataFolder {str(self.path)!r} {state}>"

    # -- the journal

    def put(self, kind: str, key: Key, value: Any | None) -> None:
        """Keep a value (of JSON types) under (kind, key); None forgets it.

        Raises DataFolderError if it could not be written, and then nothing has changed.
        """
        if self._journal < 0:
            raise DataFolderError(f"data folder {self.path} is closed; open it again to write")
        if value is None and (kind, key) not in self._lines:
            return
        line = _line(kind, key, value)
        self._append(line)
        self._note(kind, key, value is None, _Line(self._size - len(line), len(line)))
        if self._size > max(self._compact_next, COMPACT_AT_TIMES_LIVE * self._live):
            self._compact()

    def values(self) -> dict[tuple[str, Key], Any]:
        """All that is kept, by (kind, key); what was put last comes last."""
        lines = sorted(self._lines.values(), key=lambda line: line.offset)
        with open(self.path / "journal", "rb") as file:
            entries = [_entry(_read_line(file, line)) for line in lines]
        return {(kind, key): value for kind, key, value in entries}

    def close(self) -> None:
        """Let others use the folder. Closing twice does nothing."""
        for descriptor in (self._journal, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._journal = self._lock = -1

    def _open(self) -> None:
        """Read the journal, cut off half a line at its end; rewrite it if most of it is dead."""
        path = self.path / "journal"
        try:
            (self.path / "journal.new").unlink(missing_ok=True)
            self._journal = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o644)
            dead = self._read(path) - len(self._lines)
            os.ftruncate(self._journal, self._size)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        if dead > len(self._lines):
            self._compact()

    def _read(self, path: Path) -> int:
        """Note where each key's latest line is; the answer is how many lines there are."""
        lines = 0
        with open(path, "rb") as file:
            for line in file:
                try:
                    kind, key, value = _entry(line)
                except ValueError:
                    self._check_torn(file)
                    break
                self._note(kind, key, value is None, _Line(self._size, len(line)))
                self._size += len(line)
                lines += 1
        return lines

    def _check_torn(self, rest: Iterator[bytes]) -> None:
        """A bad line is half a put if nothing good follows; else something else wrote here."""
        for line in rest:
            with suppress(ValueError):
                _entry(line)
                raise DataFolderError(
                    f"data folder {self.path} is damaged: its journal has a bad line at byte "
                    f"{self._size} and good ones behind it; bring the folder back from a copy, or "
                    "delete it to start with an empty cluster"
                )

    def _note(self, kind: str, key: Key, gone: bool, line: _Line) -> None:
        before = self._lines.pop((kind, key), None)
        self._live -= before.length if before else 0
        if not gone:
            self._lines[kind, key] = line
            self._live += line.length

    def _append(self, line: bytes) -> None:
        """All of the line, or nothing."""
        try:
            if self._torn:
                self._cut()
            written = os.write(self._journal, line)
            while written < len(line):  # a disk that is almost full takes a part
                written += os.write(self._journal, line[written:])
        except OSError as error:
            self._torn = True
            with suppress(OSError):
                self._cut()
            raise _unwritable(self.path, error) from None
        self._size += len(line)

    def _cut(self) -> None:
        os.ftruncate(self._journal, self._size)
        self._torn = False

    def _compact(self) -> None:
        """Rewrite the journal with its live lines only. If that fails, the old one goes on."""
        old, new = self.path / "journal", self.path / "journal.new"
        lines = sorted(self._lines.items(), key=lambda item: item[1].offset)
        try:
            with open(old, "rb") as source, open(new, "wb") as target:
                for _, line in lines:
                    target.write(_read_line(source, line))
                target.flush()
                os.fsync(target.fileno())
            os.close(self._journal)  # first: Windows replaces no open file
            self._journal = -1
            os.replace(new, old)
        except OSError:
            # No room for both: all is still in the old one. Ask again when it has doubled.
            with suppress(OSError):
                new.unlink(missing_ok=True)
            self._compact_next = 2 * max(self._size, self._compact_beyond)
            self._reopen(old)
            return
        self._reopen(old)
        offset = 0
        for _, line in lines:
            line.offset = offset
            offset += line.length
        self._size = self._live = offset
        self._compact_next = self._compact_beyond

    def _reopen(self, path: Path) -> None:
        if self._journal >= 0:
            return
        _folder_to_disk(self.path)
        try:
            self._journal = os.open(path, os.O_RDWR | os.O_APPEND | _BINARY)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    # -- the records

    def log_path(self, topic_id: UUID, partition: int) -> Path:
        """The folder for the records of one partition, made if it is not there.

        Raises DataFolderError if it can't be made.
        """
        path = self._logs(topic_id) / str(partition)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        return path

    def topic_ids(self) -> tuple[UUID, ...]:
        """The topics that have folders for records, sorted.

        One that the journal does not know was deleted by a process that died before it had
        deleted the records: `forget_topic` does the rest.
        """
        found = []
        with suppress(FileNotFoundError):
            for entry in sorted(os.listdir(self.path / "logs")):
                with suppress(ValueError):
                    found.append(UUID(entry))
        return tuple(found)

    def forget_topic(self, topic_id: UUID) -> None:
        """Delete the records of all its partitions, if there are any.

        Raises DataFolderError if they can't be deleted.
        """
        try:
            shutil.rmtree(self._logs(topic_id))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def _logs(self, topic_id: UUID) -> Path:
        return self.path / "logs" / str(topic_id)


# -- lines


def _line(kind: str, key: Key, value: Any) -> bytes:
    for part in key:
        if type(part) not in (str, int):
            raise TypeError(f"a key is made of str and int, not of {part!r}")
    entry = json.dumps([kind, key, value], separators=(",", ":")).encode("ascii")
    return b"%08x %b\n" % (zlib.crc32(entry), entry)


def _entry(line: bytes) -> tuple[str, Key, Any]:
    """Kind, key and value of a line; raises ValueError if it is not whole."""
    if line[-1:] != b"\n" or line[8:9] != b" " or int(line[:8], 16) != zlib.crc32(line[9:-1]):
        raise ValueError("not a whole line")
    kind, key, value = json.loads(line[9:-1])
    return kind, tuple(key), value


def _read_line(file: Any, line: _Line) -> bytes:
    if file.tell() != line.offset:
        file.seek(line.offset)
    data: bytes = file.read(line.length)
    return data


# -- the folder


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise DataFolderError(f"data folder {path} is a file; name a folder") from None
    except OSError as error:
        raise _unwritable(path, error) from None


def _check_format(path: Path) -> dict[str, Any] | None:
    """What `format` says, None for a folder that is still empty."""
    try:
        text = (path / "format").read_bytes()
    except FileNotFoundError:
        _check_empty(path)
        return None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        found = json.loads(text)
        number, maker = found["format"], found["aktor"]
        str(found["cluster_id"])
    except (ValueError, KeyError, TypeError):
        raise DataFolderError(
            f"data folder {path} is damaged: its file `format` can't be understood; bring the "
            "folder back from a copy, or delete it to start with an empty cluster"
        ) from None
    if number != FORMAT:
        raise DataFolderError(
            f"data folder {path} has format {number}, made by aktor {maker}, and aktor "
            f"{__version__} reads format {FORMAT}: use the aktor that made it, or another folder"
        )
    return dict(found)


def _check_empty(path: Path) -> None:
    try:
        others = sorted(set(os.listdir(path)) - _BEGINNINGS)
    except OSError as error:
        raise _unwritable(path, error) from None
    if others:
        raise DataFolderError(
            f"folder {path} is no data folder of aktor and not empty (it holds {others[0]!r}): "
            "name an empty folder or a new one"
        )


def _read_or_write_format(path: Path, cluster_id: str | None) -> str:
    """The id of the cluster. Looks again: whatever had the lock before may have made the folder."""
    found = _check_format(path)
    if found is None:
        if cluster_id is None:  # as Kafka makes them: 16 random bytes
            cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=")
        found = {"format": FORMAT, "cluster_id": cluster_id, "aktor": __version__}
        try:
            with open(path / "format.new", "w", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(path / "format.new", path / "format")
            _folder_to_disk(path)
        except OSError as error:
            raise _unwritable(path, error) from None
    return str(found["cluster_id"])


def _lock(path: Path) -> int:
    """The lock, held for as long as its descriptor is open; the system frees it when we die."""
    try:
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | _BINARY, 0o644)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _take(descriptor)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
    except OSError as error:
        pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise DataFolderError(
                f"data folder {path} is in use by process {pid or '(unknown)'}: stop it, or name "
                "another folder"
            ) from None
        raise _unwritable(path, error) from None
    return descriptor


if sys.platform == "win32":

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _folder_to_disk(path: Path) -> None:
    """Make a rename last, where the system knows how: Windows opens no folders."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> DataFolderError:
    what = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DataFolderError(
            f"data folder {path}: the disk is full ({what}), the last change was not kept; "
            "make room and try again"
        )
    return DataFolderError(
        f"data folder {path} can't be written ({what}): make it writable for this user, or name "
        "another folder"
    )
