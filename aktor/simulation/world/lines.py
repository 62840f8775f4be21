"""Counts the lines that a member runs, so that something can happen at any of them."""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import kafka
import pykka

import aktor

__all__ = ["Lines"]

#: Code that is not the user's: Python's, the client's, and that of its libraries.
_PYTHON: Final = sysconfig.get_path("stdlib")
_CLIENT: Final = tuple(
    f"{Path(module.__file__ or '').parent}{os.sep}" for module in (aktor, kafka, pykka)
)


@cache
def _is_own(code: CodeType) -> bool:
    file = code.co_filename
    # "<string>" is what dataclasses and named tuples are made of.
    if file.startswith(("<frozen", "<string>", *_CLIENT)):
        return False
    return not file.startswith(_PYTHON) or "site-packages" in file


class Lines:
    """Calls `then` before one of the next lines of a task's own code, or of that which `counts`.

    If `then` raises, that is in place of the line. Only the task itself can have its lines counted:
    it says when it goes on and when it waits. What traces lines as well (a debugger, coverage) is
    set aside while they are counted.

    Meanwhile no garbage is collected by itself. A collection runs code amid any line of the task
    (a `__del__`, or what is in `gc.callbacks`, as Hypothesis has it), at a moment that depends on
    what the whole process has allocated before: the same seed would count other lines.
    """

    def __init__(
        self,
        count: int,
        then: Callable[[], None],
        *,
        counts: Callable[[CodeType], bool] = _is_own,
    ) -> None:
        self._counts = counts
        self._left = count
        self._then = then
        self._counting = False
        self._before: Any = None
        self._collects = False

    def wait_for(self, count: int) -> None:
        """Called by `then`, if it is to be called once more: so many lines later."""
        self._left = count

    def go_on(self) -> None:
        """The task's code runs."""
        if self._counting or self._left < 0:
            return
        self._counting = True
        self._collects = gc.isenabled()
        gc.disable()
        self._before = sys.gettrace()
        sys.settrace(self._called)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._counts(frame.f_code):
                frame.f_trace = self._line
            frame = frame.f_back

    def rest(self) -> None:
        """It waits, or is over."""
        if self._counting:
            self._counting = False
            sys.settrace(self._before)
            if self._collects:
                gc.enable()

    def _called(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if self._counts(frame.f_code) else None

    def _line(self, _frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                self._then()  # when this raises, Python traces no more: `rest` will mend that
        return self._line
