"""Trace files of many consumers and hosts, read together in the order of their times.

Each file is nearly in order: only a few of its lines are held at a time, and of many files (those
that were rotated, say) only those are open whose time has come. So the memory that is needed does
not grow with the number of lines.
"""

from __future__ import annotations

import errno
import gzip
import heapq
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from aktor.trace.rebalances.assembly import SKEW
from aktor.trace.rebalances.group import GroupTraces, order
from aktor.trace.rebalances.holds import called
from aktor.trace.rebalances.lines import (
    ALIVE,
    NOT_A_TRACE,
    OURS,
    PATTERN,
    TORN,
    Event,
    NotUnderstoodError,
    parse,
)
from aktor.trace.rebalances.rows import Row

if sys.platform != "win32":
    import resource  # (When too many files are open, nothing can be imported any more.)

__all__ = ["CLOCK", "LATE", "UNREADABLE", "find", "rows_of"]

#: How what is counted begins that says whose clocks are apart, or were set.
CLOCK: Final = "the clock"

#: A line that comes too late is left out, and counted: the lines of a file may be out of order by
#: so many, of many files together. (Of one file by at least the second number.)
WINDOW: Final = 20_000
WINDOW_MIN: Final = 500

#: A file is opened when the others have come so close, in seconds, to the time of its first line.
EARLY: Final = 60.0

#: A longer line is none of aktor's: it is read in pieces.
_LINE_MAX: Final = 4 << 20

#: What is counted besides the reasons of `NotUnderstoodError` and files without any event: all
#: lines; those that came too late; and files that could be read in part only.
LINES, LATE, UNREADABLE = "lines", "late", "unreadable files"

#: There are too many open files: of this process, or on this machine.
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})

_WANTED: Final = re.compile(PATTERN.encode())
_ALIVE: Final = re.compile(ALIVE.encode())
_OURS: Final = re.compile(OURS.encode())
_GZIP: Final = b"\x1f\x8b"


def find(paths: Iterable[str], *, rotated: bool = True) -> list[str]:
    """The files: "-" is the standard input; of a folder all files in it and in its folders whose
    names have "jsonl" or "log" in them. `rotated`: with a file also its older part, which a
    consumer has renamed to `<file>.1` (or that, packed), if it is there. Raises
    FileNotFoundError."""
    found: list[str] = []
    for path in paths:
        place = Path(path)
        if path != "-" and place.is_file() and rotated:
            found += [older for older in (f"{path}.1.gz", f"{path}.1") if Path(older).is_file()]
        if path == "-" or place.is_file() or place.is_fifo():
            found.append(path)
        elif place.is_dir():
            inside = (one for one in place.rglob("*") if one.is_file())
            found += sorted(
                str(one) for one in inside if {"jsonl", "log"} & set(one.name.split("."))
            )
        else:
            raise FileNotFoundError(path)
    return list(dict.fromkeys(found))


def rows_of(files: Sequence[str], counts: Counter[str]) -> Iterator[Row]:
    """The rows of all tables, each as soon as it is complete; what was read is counted in `counts`,
    and what was not understood by its reason. Rows of different groups come in no order. Raises
    OSError if more files have to be open at once than this process may open."""
    groups: dict[str, GroupTraces] = {}
    for event in _merged(files, counts):
        name = event["group"]
        traces = groups.get(name)
        if traces is None:
            traces = groups[name] = GroupTraces(name)
        traces.take(event)
        if traces.has_rows:
            yield from traces.rows()
    for _, traces in sorted(groups.items()):
        yield from traces.end()
        counts["repeated"] += traces.repeated
        for names, seconds in traces.clocks.apart(SKEW).items():
            one, other = map(called, names)
            what = f"{CLOCK}s of {one} and {other} are {seconds:.1f} s apart"
            counts[f"{what}: causes and pauses between them are in doubt"] += 1
        for names, seconds in {**traces.ahead, **traces.surely_ahead}.items():
            one, other = map(called, names)
            what = f"{CLOCK} of {one} is at least {seconds:.1f} s ahead of that of {other}"
            what += "" if names in traces.surely_ahead else ", or positions were set back"
            counts[f"{what}: causes and pauses between them are in doubt"] += 1
        for (at, name), seconds in traces.clocks.sets().items():
            when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            what = f"{CLOCK} of {called(name)} was set by {seconds:.1f} s, or its machine slept"
            counts[f"{what}: its times from {when} on are shifted"] += 1


def _merged(files: Sequence[str], counts: Counter[str]) -> Iterator[Event]:
    """The events of all files, in the order of their times."""
    window = max(WINDOW_MIN, WINDOW // max(1, len(files)))
    waiting: list[tuple[float, int, Iterator[Event]]] = []
    for number, file in enumerate(files):
        events = _in_order(_events(file, counts), window, counts)
        twice = len(files) > 1 and Path(file).is_file()  # what comes from a pipe comes once
        began = _first_time(file) if twice else -float("inf")
        waiting.append((began, number, events))
    waiting.sort(reverse=True, key=lambda item: item[:2])
    active: list[tuple[tuple[float, str, int], int, Event, Iterator[Event]]] = []
    while waiting or active:
        while waiting and (not active or waiting[-1][0] - EARLY <= active[0][0][0]):
            _, number, events = waiting.pop()
            first = next(events, None)
            if first is not None:
                heapq.heappush(active, (order(first), number, first, events))
        if not active:
            continue
        _, number, event, events = active[0]
        yield event
        following = next(events, None)
        if following is None:
            heapq.heappop(active)
        else:
            heapq.heapreplace(active, (order(following), number, following, events))


def _first_time(file: str) -> float:
    """The time of the file's first event; at once if it has none."""
    first = next(_events(file, Counter()), None)
    return -float("inf") if first is None else float(first["t"])


def _in_order(events: Iterator[Event], window: int, counts: Counter[str]) -> Iterator[Event]:
    """The events in the order of their times, if each is at most `window` events too late."""
    held: list[tuple[tuple[float, str, int], int, Event]] = []
    last = (-float("inf"), "", 0)
    for number, event in enumerate(events):
        at = order(event)
        if at < last:
            counts[LATE] += 1
        elif len(held) < window:
            heapq.heappush(held, (at, number, event))
        else:
            last, _, first = heapq.heappushpop(held, (at, number, event))
            yield first
    while held:
        yield heapq.heappop(held)[2]


def _events(file: str, counts: Counter[str]) -> Iterator[Event]:
    """The events of a file, in the order of its lines. (The first may come late: lines of other
    programs may be between them.)"""
    is_trace, others, torn = False, 0, 0
    for line in _lines(file, counts):
        is_trace = is_trace or _OURS.search(line) is not None
        if _WANTED.search(line) is None and _ALIVE.search(line) is None:
            # A line without its end may have been any event.
            text = line.rstrip()
            others += bool(text)
            torn += bool(text) and not text.endswith(b"}")
            continue
        try:
            yield parse(line.decode(errors="replace"), file)
        except NotUnderstoodError as error:
            counts[error.reason] += 1
    if is_trace:
        counts[TORN] += torn
    elif others:
        counts[f"{NOT_A_TRACE}: {file}"] += 1


def _lines(file: str, counts: Counter[str]) -> Iterator[bytes]:
    """The lines of a file, also of one that gzip has made. Where it cannot be read any more, it
    ends: that is counted. Raises OSError if the file is not to blame: too many are open."""
    try:
        if file == "-":
            yield from _of(sys.stdin.buffer, counts)
        else:
            with _open(file) as stream:
                yield from _of(stream, counts)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno in _TOO_MANY:
            raise
        counts[f"{UNREADABLE}: {file} ({error or type(error).__name__})"] += 1


def _open(file: str) -> BinaryIO:
    """If too many files are open, this process may open more from now on, if it may allow itself
    that: traces of the same time are read at once."""
    while True:
        try:
            return open(file, "rb")
        except OSError as error:
            if error.errno != errno.EMFILE or not _allow_more_files():
                raise


def _allow_more_files() -> bool:
    """Double the number of files that this process may open; False: it is as great as it may be."""
    if sys.platform == "win32":
        return False
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = 2 * soft if hard == resource.RLIM_INFINITY else min(2 * soft, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    except (OSError, ValueError):  # the system has a limit of its own
        return False
    return more > soft


def _of(stream: Any, counts: Counter[str]) -> Iterator[bytes]:
    if stream.peek(2)[:2] == _GZIP:
        stream = gzip.GzipFile(fileobj=stream)
    for line in iter(lambda: stream.readline(_LINE_MAX), b""):
        counts[LINES] += 1
        yield line
