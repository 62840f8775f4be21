"""The live view: members, partitions and what has just happened, on one screen of 100 by 30."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Self

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aktor.demo.board import BAD, GOOD, Board, Happening, Row
from aktor.demo.summary import Line

__all__ = ["LiveView", "picture"]

#: One colour for each member, in the order of their names; more than these start over.
COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")
STATES: Final = {"stable": "green", "rebalancing": "yellow", "killed": "bold red"}
KINDS: Final = {BAD: "red", GOOD: "green"}

BORDER: Final = "bright_black"
PARTITIONS_WIDTH: Final = 40
BAR_WIDTH: Final = 14
#: Lags from here on fill the bar, so that it can be compared from one moment to the next.
FULL_LAG: Final = 200


class LiveView:
    """Repaints the terminal in place; what was last shown stays when it ends."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def refresh(self, board: Board) -> None:
        """Show the board as it is now."""
        self._live.update(picture(board), refresh=True)

    def summary(self, lines: Iterable[Line]) -> None:
        """Print the end of the story below the last picture."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 1))
        for line in lines:
            style = {True: "bold green", False: "bold red", None: "bright_black"}[line.good]
            table.add_row(Text(line.name, style), Text(line.value))
        self._console.print()
        self._console.print(table)


def picture(board: Board) -> RenderableType:
    """The whole screen."""
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(sorted(board.rows))}
    lower = Table.grid(expand=True)
    lower.add_column(width=PARTITIONS_WIDTH)
    lower.add_column(ratio=1)
    lower.add_row(_partitions(board, colours), _happenings(board, colours))
    return Group(_headline(board), _members(board, colours), lower)


def _headline(board: Board) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 1))
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right")
    line.add_row(Text(board.phase, "bold yellow"), Text(f"{board.elapsed:.0f} s", "bright_black"))
    unread = board.referee.outstanding
    progress = Table.grid(expand=True, padding=(0, 1))
    progress.add_column()
    progress.add_column(ratio=1)
    progress.add_column(justify="right")
    progress.add_row(
        Text(f"{board.written - unread:,} of {board.written:,} records read"),
        ProgressBar(total=max(1, board.written), completed=board.written - unread),
        Text(f"lag {unread:,}", "red" if unread > FULL_LAG else "green"),
    )
    title = f"[bold]aktor[/bold]: group {board.group}, {board.protocol} rebalancing"
    return Panel(Group(line, progress), title=title, title_align="left", border_style=BORDER)


def _members(board: Board, colours: dict[str, str]) -> RenderableType:
    table = Table(expand=True, box=None, header_style="bright_black", padding=(0, 1))
    table.add_column("member", no_wrap=True)
    table.add_column("pid", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=11)
    table.add_column("generation", justify="right", no_wrap=True)
    table.add_column("partitions", no_wrap=True, ratio=1)
    table.add_column("records/s", justify="right", no_wrap=True)
    table.add_column("total", justify="right", no_wrap=True, min_width=8)
    owners = board.referee.owners()
    now = time.monotonic()
    for name, row in sorted(board.rows.items()):
        owned = " ".join(str(one) for one, owner in sorted(owners.items()) if owner == row.key)
        table.add_row(
            Text(name, colours[name]),
            str(row.process.pid),
            Text(row.state, STATES.get(row.state, "")),
            "" if row.generation < 0 else str(row.generation),
            Text(owned, _owner_style(row, colours[name])),
            f"{row.rate(now):,.0f}",
            f"{row.total:,}",
        )
    return Panel(table, border_style=BORDER)


def _partitions(board: Board, colours: dict[str, str]) -> RenderableType:
    table = Table(expand=True, box=None, header_style="bright_black", padding=(0, 1, 0, 0))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("owner", no_wrap=True, min_width=9)
    table.add_column("lag", justify="right", no_wrap=True, min_width=6)
    table.add_column("", width=BAR_WIDTH)
    names = board.names_by_key()
    owners = board.referee.owners()
    for one in range(board.referee.partitions):
        name = names.get(owners.get(one, ""), "")
        style = _owner_style(board.rows[name], colours[name]) if name else "bright_black"
        lag = board.referee.lag_of(one)
        table.add_row(
            str(one),
            Text(name or "nobody", style),
            f"{lag:,}",
            Bar(FULL_LAG, 0, min(lag, FULL_LAG), width=BAR_WIDTH, color=_lag_colour(lag)),
        )
    return Panel(table, title="partitions", title_align="left", border_style=BORDER)


def _happenings(board: Board, colours: dict[str, str]) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    room = board.referee.partitions + 1  # as long as the partitions beside it, with their heading
    for happening in board.happenings[-room:]:
        table.add_row(
            Text(f"{happening.at:.1f}", "bright_black"),
            Text(happening.who, colours.get(happening.who, "bold")),
            _what(happening),
        )
    for _ in range(room - len(board.happenings)):
        table.add_row("", "", "")
    return Panel(table, title="what happens", title_align="left", border_style=BORDER)


def _what(happening: Happening) -> Text:
    style = KINDS.get(happening.kind, "bold yellow" if happening.who == "demo" else "")
    return Text(" ".join(happening.what.split()), style)


def _owner_style(row: Row, colour: str) -> str:
    return f"{colour} dim strike" if row.process.killed else colour


def _lag_colour(lag: int) -> str:
    return "red" if lag >= FULL_LAG else "yellow" if lag > FULL_LAG // 4 else "green"
