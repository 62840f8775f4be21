"""Processor time of a process and all its descendants, from /proc."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Processors", "cpu_of_each", "family"]

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Processors:
    """Counts the processor time of a process and its descendants from now on.

    The time of a child that has ended is in the account of its parent, if the parent waits for it.
    PySpark's daemon does not (it ignores SIGCHLD): of its workers that have ended, what they used
    since the start of this count is not known. Spark ends those that were idle for a minute.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._before = _used(root)

    def seconds(self) -> float:
        """Processor seconds since this object was made."""
        now = _used(self._root)
        known = (
            one.ticks
            for pid, one in self._before.items()
            if pid in now or not _is_lost(one, self._before)
        )
        return (sum(one.ticks for one in now.values()) - sum(known)) / _TICKS


class _Used(NamedTuple):
    #: Its own, and those of its children that have ended and that it has waited for.
    ticks: int
    parent: int
    #: Whether nobody is told what its children have used when they end.
    ignores_children: bool


def cpu_of_each(root: int) -> dict[int, float]:
    """Processor seconds of a process and of each of its descendants that are there, by their id;
    without those that have ended. Of two measurements, only who is in both can be compared."""
    of_family = family(root)
    return {
        pid: sum(map(int, fields[11:13])) / _TICKS
        for pid, fields in _processes().items()
        if pid in of_family
    }


def family(root: int) -> set[int]:
    """A process and all its descendants."""
    return _family(root, _processes())


def _family(root: int, processes: dict[int, list[str]]) -> set[int]:
    parents = {pid: int(fields[1]) for pid, fields in processes.items()}
    found = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def _used(root: int) -> dict[int, _Used]:
    processes = _processes()
    there = _family(root, processes) & processes.keys()
    return {
        pid: _Used(
            sum(map(int, processes[pid][11:15])), int(processes[pid][1]), _ignores_children(pid)
        )
        for pid in there
    }


def _is_lost(one: _Used, processes: dict[int, _Used]) -> bool:
    return one.parent in processes and processes[one.parent].ignores_children


def _ignores_children(pid: int) -> bool:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
    return False


def _processes() -> dict[int, list[str]]:
    """The fields of /proc/PID/stat from the third one on, of all processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = fields
    return found
