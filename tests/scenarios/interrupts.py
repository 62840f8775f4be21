"""Interrupts at a chosen line of the application's half, wherever a signal might come.

    with Injection(world, at=1234, act=interrupt):
        consumer.poll(1000)               # the 1234th line of ours that is run raises

CPython runs signal handlers between bytecodes, at calls and at jumps back. A tracer is harder: it
acts at the beginning of every line. There is one place where it is not fair: a line that calls the
user's code counts as that code's, since nothing can say there that it has not begun.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import aktor
from tests.scenarios.world import World

__all__ = ["Injection", "Line", "choose", "without_injections"]

#: File and line.
Line = tuple[str, int]

_ROOT = Path(aktor.__file__).parent
_APPLICATION = tuple(str(_ROOT / one) for one in ("consumer", "records"))


class Injection:
    """Counts the lines that are run of the application's half, and acts at one of them.

    What the background does is not counted: in this world it takes turns on the same thread, while
    somebody waits.
    """

    def __init__(
        self,
        world: World,
        *,
        at: Collection[int] = (),
        act: Callable[[], object] = lambda: None,
        lines: list[Line] | None = None,
    ) -> None:
        self.count = 0
        self.hits = 0
        self.where: list[str] = []
        #: It was at the line that calls the listener, which counts as called then.
        self.hit_a_listener = False
        self._world = world
        self._at = set(at)
        self._act = act
        self._lines = lines

    def __enter__(self) -> Injection:
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_APPLICATION) or self._world.is_turning:
            return None
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line" or self._world.is_turning:
            return self._on_line
        if self._lines is not None:
            self._lines.append((frame.f_code.co_filename, frame.f_lineno))
        self.count += 1
        if self.count in self._at:
            self._at.discard(self.count)
            self.hits += 1
            file, line = frame.f_code.co_filename, frame.f_lineno
            self.where.append(f"{os.path.basename(file)}:{line}")
            self.hit_a_listener |= "callback(partitions)" in linecache.getline(file, line)
            try:
                self._act()
            except BaseException:
                self._go_on(frame)
                raise
        return self._on_line

    def _go_on(self, frame: FrameType) -> None:
        """A tracer that raises is switched off: go on with another one, if there is more to do."""
        if not self._at:
            return
        sys.settrace(self._on_call)
        outer = frame.f_back
        while outer is not None:
            if outer.f_code.co_filename.startswith(_APPLICATION):
                outer.f_trace = self._on_line
            outer = outer.f_back


@contextlib.contextmanager
def without_injections() -> Iterator[None]:
    """Lines of ours that do not count: another process's."""
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(before)


def choose(lines: list[Line], count: int, draw: Callable[[int], int]) -> list[int]:
    """So many of the lines that were run (1 is the first): of each different one, as far as it
    goes, one time that it was run."""
    times: dict[Line, list[int]] = {}
    for number, line in enumerate(lines, 1):
        times.setdefault(line, []).append(number)
    found = [numbers[draw(len(numbers))] for numbers in times.values()]
    while len(found) > count:
        del found[draw(len(found))]
    return sorted(found)
