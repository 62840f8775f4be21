"""The trace file: one writer for each file and process, however many consumers there are.

A thread of its own makes lines of events and writes them: an actor has heartbeats to send, and must
not wait for a disk or a pipe; and to make a line costs more than all else of an event. An event
waits `PAUSE` seconds for others, and at most `WAITING_MAX` of them wait.

Only this thread touches the file, since any call on a file may hang (a network file system whose
server is gone). Who wants lines to be written now (`flush`) asks the thread, and waits for it only
so long.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import errno
import functools
import json
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final

from aktor.trace.plain import text_of

__all__ = ["AT_CLOSE", "AT_EXIT", "MAX_BYTES", "PAUSE", "TraceFile", "trace_file"]

#: How long a line waits for others, in seconds. A process that is killed loses them: what it gave
#: out last, too, from which a downtime is counted. (It may be `HOLD` seconds older, see `runs`.)
PAUSE: Final = 0.02

#: So many events wait to be written. Beyond them events are lost: the disk, or who reads a pipe,
#: does not keep up.
WAITING_MAX: Final = 50_000

#: So many seconds a consumer that is closed waits for its last lines to be written, and a program
#: that exits. Longer takes what hangs, or a disk that is far too slow.
AT_CLOSE: Final = 1.0
AT_EXIT: Final = 5.0

#: So many lines are made, and written by one call.
AT_ONCE: Final = 1000

#: The variable that says how long a file may become, in bytes (0: it has no bound); and what it is
#: without it.
MAX_BYTES: Final = "AKTOR_TRACE_MAX_BYTES"
DEFAULT_MAX_BYTES: Final = 1_000_000_000

#: Windows does not have it, and no named pipes either.
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)


#: An event as a line. (To look its encoder up for each line takes as long as a tenth of it.)
_encoded: Final = json.JSONEncoder(default=text_of, allow_nan=False).encode


def _line_of(event: Mapping[str, Any]) -> str:
    try:
        return _encoded(event)
    except ValueError:  # JSON has neither an infinity nor NaN: null
        written = json.dumps(event, default=text_of)
        return _encoded(json.loads(written, parse_constant=lambda _: None))


class TraceFile:
    """Owns a file, and the events that wait to be written at its end.

    A file that has become too long is renamed to `<path>.1`, in place of an older one of that name,
    and a new one is begun: at most twice `max_bytes` are kept (0: all, and nothing is renamed).
    Other processes may write to the same file.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._events: deque[Mapping[str, Any]] = deque()
        #: The first of them, as lines.
        self._lines: deque[bytes] = deque()
        self._file: int | None = None
        #: What was opened.
        self._opened: os.stat_result | None = None
        self._is_pipe = False
        #: The program exits: what is told from now on is written at once.
        self._at_once = False
        self.is_given_up = False
        #: How many events were lost since too many waited, and whether it was said at the end.
        self._lost = 0
        self._is_told = False
        self._begin_afresh()

    def _begin_afresh(self) -> None:
        """No thread writes, and no lock is held: at the start, and in the child of a fork, where
        the thread that held it does not exist."""
        #: Held by who adds events that are numbered. (A signal handler may come in between.)
        self.adding = threading.RLock()
        self._has_thread = False
        #: What wakes the thread: None if there are events, or who waits until they are written.
        #: (A signal handler may put something in while it is being put in.)
        self._bells: SimpleQueue[_thread.LockType | None] = SimpleQueue()
        self._has_rung = False
        #: Held while lines are written.
        self._writes = threading.Lock()
        #: Whoever waited last for the thread waited in vain, and it has written nothing since.
        self._hangs = False

    # -- any thread

    def add(self, event: Mapping[str, Any]) -> bool:
        """Write this event, which nobody changes any more, soon and without waiting; False if the
        file was given up."""
        if self.is_given_up:
            return False
        if len(self._events) + len(self._lines) >= WAITING_MAX:
            self._lost += 1
            _say_once(self._path, "is written too slowly: lines of it are lost")
            return True
        self._events.append(event)
        if not self._has_thread:
            self._begin()
        if self._at_once or not self._has_thread:
            self.flush(AT_EXIT)
            self._say_what_is_lost()
        elif not self._has_rung:
            self._has_rung = True
            self._bells.put(None)
        return True

    def _begin(self) -> None:
        try:
            # (Not by a `Thread`: a simulation refuses these to the code of its members.)
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads are to be had, or the interpreter ends
            return
        self._has_thread = True

    def flush(self, at_most: float = AT_CLOSE) -> None:
        """Have written what waits, as far as a pipe takes it, and wait for it at most so many
        seconds; not at all while the one who waited before has waited in vain."""
        if self.is_given_up:
            return
        if not self._has_thread or sys.is_finalizing():
            self._write_here()
            return
        written = _thread.allocate_lock()
        written.acquire()
        self._bells.put(written)
        if not written.acquire(timeout=0.0 if self._hangs else at_most):
            self._hangs = True

    def _write_here(self) -> None:
        """There is no thread to do it. If another one, or this one, writes in this very moment,
        what waits is left to it: it may hang."""
        if self._writes.acquire(blocking=False):
            try:
                self._write()
            finally:
                self._writes.release()

    def end(self) -> None:
        """The program exits: write what waits, and from now on each line at once."""
        self._at_once, self._hangs = True, False
        self.flush(AT_EXIT)
        self._say_what_is_lost()

    def _say_what_is_lost(self) -> None:
        """The program ends: nobody writes what the disk, or the reader of a pipe, did not take."""
        if self._is_told or not self._at_once:
            return
        if lost := self._lost + len(self._events) + len(self._lines):
            self._is_told = True
            lines = f"{lost} line{'' if lost == 1 else 's'} of it {'is' if lost == 1 else 'are'}"
            done = "read" if self._is_pipe else "written"
            _say_once(self._path, f"is {done} too slowly: {lines} lost")

    # -- its thread

    def _run(self) -> None:
        bells = self._bells
        while True:
            waiting = bells.get()
            if waiting is None:
                with contextlib.suppress(Empty):
                    waiting = bells.get(timeout=PAUSE)
            self._has_rung = False
            with self._writes:
                self._write()
            self._hangs = False
            if waiting is not None:
                waiting.release()
            if self._lines and not self._has_rung:  # a pipe was full
                self._has_rung = True
                bells.put(None)

    # -- writing

    def _write(self) -> None:
        try:
            while self._has_some() and self._write_some():
                pass
        except Exception as error:
            # A full disk, a missing folder, a pipe without a reader, or the interpreter ends.
            self.is_given_up = True
            self._forget()
            self._close()
            said = _words(self._path, error)
            _say_once(self._path, f"cannot be written and is given up: {said}")

    def _has_some(self) -> bool:
        """Make lines of some events; False if there are none."""
        events, lines = self._events, self._lines
        while events and len(lines) < AT_ONCE:
            lines.append(_line_of(events.popleft()).encode() + b"\n")
        return bool(lines)

    def _forget(self) -> None:
        self._events.clear()
        self._lines.clear()

    def _write_some(self) -> bool:
        """Write as much as goes at once; False if a pipe is full."""
        file = self._open()
        # To a pipe line by line: its reader may be slow, and lines of processes must not be mixed.
        lines = [self._lines[0]] if self._is_pipe else list(self._lines)
        try:
            left = os.write(file, b"".join(lines))
        except BlockingIOError:
            return False
        for line in lines:
            if left < len(line):
                self._lines[0] = line[left:]
                return not self._is_pipe
            self._lines.popleft()
            left -= len(line)
        return True

    def _open(self) -> int:
        """The file, opened anew if it was renamed or has become too long."""
        if self._file is not None and not self._has_it_open(self._file):
            self._file = None
        if self._file is not None and not self._is_pipe:
            self._rotate(self._file)
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NONBLOCK
            self._file = os.open(self._path, flags, 0o666)
            self._opened = os.fstat(self._file)
            self._is_pipe = stat.S_ISFIFO(self._opened.st_mode)
        return self._file

    def _has_it_open(self, file: int) -> bool:
        """Whether this is the descriptor of our file yet. A program that becomes a daemon closes
        all that are open; the number may be that of another file by now."""
        try:
            return self._opened is not None and os.path.samestat(os.fstat(file), self._opened)
        except OSError:
            return False

    def _rotate(self, file: int) -> None:
        """Close the file if it was renamed, or has become too long and is renamed now."""
        ours = os.fstat(file)
        if not stat.S_ISREG(ours.st_mode):
            return
        if self._is_ours(ours):
            if self._max_bytes == 0 or ours.st_size < self._max_bytes:
                return
            # By one process, or another one renames what this one has just begun. If it is locked
            # it is not waited for, since who has locked it may keep it: it goes on in this file.
            with _locked(file) as is_locked:
                if not is_locked:
                    return
                if self._is_ours(ours):
                    os.replace(self._path, f"{self._path}.1")
        self._close()

    def _is_ours(self, ours: os.stat_result) -> bool:
        """Whether this open file has its name yet."""
        try:
            return os.path.samestat(ours, os.stat(self._path))
        except FileNotFoundError:
            return False

    def _close(self) -> None:
        # (In this order: the child of a fork in between must not close another file.)
        file, self._file = self._file, None
        if file is not None and self._has_it_open(file):
            with contextlib.suppress(OSError):
                os.close(file)

    # -- fork

    def after_fork_in_child(self) -> None:
        """The lines that wait are the parent's, and so is the thread. The file is opened anew: what
        both have open they would not lock against each other."""
        self._forget()
        self._lost = 0
        self._close()
        self._begin_afresh()


@functools.cache
def trace_file(path: str) -> TraceFile:
    """The writer of this file."""
    given = os.environ.get(MAX_BYTES, "").strip()
    if given and not given.isdecimal():
        _say_once(path, f"may have {DEFAULT_MAX_BYTES} bytes: {MAX_BYTES} is {given!r}")
    file = TraceFile(path, int(given) if given.isdecimal() else DEFAULT_MAX_BYTES)
    atexit.register(file.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=file.after_fork_in_child)
    return file


@contextlib.contextmanager
def _locked(file: int) -> Iterator[bool]:
    """Whether it is locked for the block: not, if somebody else has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield True
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


#: What was said of which file in this process.
_SAID: Final[set[tuple[str, str]]] = set()


def _words(path: str, error: Exception) -> str:
    """What hinders. (Of a socket, and of a pipe without a reader, the system says "No such device
    or address".)"""
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        with contextlib.suppress(OSError):
            mode = os.stat(path).st_mode
            if stat.S_ISFIFO(mode):
                return "it is a named pipe, and no program reads it"
            if stat.S_ISSOCK(mode):
                return "it is a socket, which is no file"
    return text_of(error)


def _say_once(path: str, what: str) -> None:
    """Say it once in this process, on stderr."""
    if (path, what) not in _SAID:
        _SAID.add((path, what))
        with contextlib.suppress(Exception):  # stderr may be closed, or there may be none
            sys.stderr.write(f"aktor: the trace file {path!r} (AKTOR_TRACE) {what}\n")
