"""Where code is, in the lines of the application: files, lines and functions, never values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import FrameType
from typing import Final

__all__ = ["line_of", "stack_of"]

#: The most frames of a stack, the innermost ones.
FRAMES_MAX: Final = 12

#: Frames of these files are not the application's.
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def stack_of(frames: Iterable[FrameType]) -> tuple[str, ...]:
    """These frames, the innermost of which is the first, as "folder/file.py:12 function"."""
    return tuple(_place(frame) for frame, _ in zip(frames, range(FRAMES_MAX), strict=False))


def line_of(frames: Iterable[FrameType], *, ours: bool = False) -> str:
    """The innermost line of these frames that is the application's, neither ours nor one of
    Python's own; `ours`, or if there is none: the innermost line at all. "" if there is no
    frame."""
    innermost = None
    for frame in frames:
        innermost = innermost or frame
        name = frame.f_code.co_filename
        if ours or not (name.startswith((_OURS, "<")) or _is_pythons(name)):
            return _place(frame)
    return "" if innermost is None else _place(innermost)


#: Where Python's own modules are.
_PYTHON: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def _is_pythons(name: str) -> bool:
    return name.startswith(_PYTHON) and "site-packages" not in name


def _place(frame: FrameType) -> str:
    code = frame.f_code
    folder, file = os.path.split(code.co_filename)
    where = os.path.join(os.path.basename(folder), file)
    return f"{where}:{frame.f_lineno} {code.co_name}"
