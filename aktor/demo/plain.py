"""The plain view: one line for each thing that happens, for logs, pipes and dumb terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Self

from aktor.demo.board import BAD, Board
from aktor.demo.summary import Line

__all__ = ["PlainView"]

STATUS_EVERY_S = 2.0


class PlainView:
    """Prints each thing that happens once, and every two seconds how far everybody is."""

    def __init__(self) -> None:
        self._printed = 0
        self._status_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def refresh(self, board: Board) -> None:
        """Print what is new."""
        for happening in board.happenings[self._printed :]:
            mark = "! " if happening.kind == BAD else ""
            self._say(happening.at, f"{happening.who}: {mark}{_printable(happening.what)}")
        self._printed = len(board.happenings)
        now = time.monotonic()
        if now >= self._status_at:
            self._status_at = now + STATUS_EVERY_S
            members = ", ".join(
                f"{name} {row.state} {row.rate(now):.0f}/s" for name, row in board.rows.items()
            )
            unread = board.referee.outstanding
            self._say(board.elapsed, f"written {board.written}, not yet read {unread}; {members}")

    def summary(self, lines: Iterable[Line]) -> None:
        """Print the end of the story."""
        print()
        for line in lines:
            print(f"{line.name:<34}{line.value}")
        sys.stdout.flush()

    def _say(self, at: float, text: str) -> None:
        print(f"{at:6.1f} s  {text}", flush=True)


def _printable(text: str) -> str:
    """Without control characters: what a process says must not drive the terminal."""
    return "".join(one if one.isprintable() else " " for one in text)
