"""Where a thread is, in the lines of the application: files, lines and functions, never values."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final

__all__ = ["line_of", "stack_of"]

#: The most frames of a stack, the innermost ones.
FRAMES_MAX: Final = 12

#: Frames of these files are not the application's.
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def stack_of(thread: int | None) -> tuple[str, ...]:
    """The stack of this thread as "folder/file.py:12 function", the innermost frame first; empty if
    the thread has ended."""
    frames = _frames(_innermost(thread))
    return tuple(_place(frame) for frame, _ in zip(frames, range(FRAMES_MAX), strict=False))


def line_of(thread: int | None, *, ours: bool = False) -> str:
    """The innermost line of this thread that is the application's, neither ours nor one of Python's
    own; `ours`: the innermost line at all. "" if there is none, or no thread."""
    innermost = _innermost(thread)
    if ours:
        return "" if innermost is None else _place(innermost)
    for frame in _frames(innermost):
        name = frame.f_code.co_filename
        if not name.startswith((_OURS, "<")) and not _is_pythons(name):
            return _place(frame)
    return "" if innermost is None else _place(innermost)


def _innermost(thread: int | None) -> FrameType | None:
    return None if thread is None else sys._current_frames().get(thread)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


#: Where Python's own modules are.
_PYTHON: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def _is_pythons(name: str) -> bool:
    return name.startswith(_PYTHON) and "site-packages" not in name


def _place(frame: FrameType) -> str:
    code = frame.f_code
    folder, file = os.path.split(code.co_filename)
    where = os.path.join(os.path.basename(folder), file)
    return f"{where}:{frame.f_lineno} {code.co_name}"
