"""What a view of the demo must be able to do; `live` and `plain` are the two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from aktor.demo.board import Board
from aktor.demo.summary import Line

__all__ = ["View"]


class View(Protocol):
    """Shows the board while it is entered, and the summary after that."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def refresh(self, board: Board) -> None:
        """Show the board as it is now; called about eight times a second."""

    def summary(self, lines: Iterable[Line]) -> None:
        """Show how it ended."""
