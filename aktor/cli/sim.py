"""`aktor sim`: the standard storm from many seeds; one seed again; the least that still fails.

And a crash of each actor at each point.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aktor.cli.main import CommandLineError

if TYPE_CHECKING:
    from aktor.simulation.storm import Outcome

__all__ = ["add_arguments", "run"]

_PROGRESS_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `aktor sim` takes."""
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    many = commands.add_parser("run", help="many seeds; exit code 1 if one of them fails")
    many.add_argument("--seeds", type=int, default=100, metavar="N", help="how many (100)")
    many.add_argument("--first", type=int, default=0, metavar="SEED", help="the first (0)")
    many.add_argument("--until-failure", action="store_true", help="stop at the first that fails")
    one = commands.add_parser("replay", help="one seed, with its whole history")
    one.add_argument("seed", type=int, metavar="SEED")
    one.add_argument("--history", type=Path, metavar="FILE", help="write it there, as JSON lines")
    less = commands.add_parser("shrink", help="the fewest faults with which a seed still fails")
    less.add_argument("seed", type=int, metavar="SEED")
    crashes = commands.add_parser(
        "crashes", help="let each actor fall over each message; print what became of it"
    )
    crashes.add_argument("--seed", type=int, default=0, metavar="SEED", help="default: 0")
    crashes.add_argument("--actor", metavar="NAME", help="only this one, as in status()")
    crashes.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table between the markers in this file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand's subcommand."""
    try:
        from aktor.simulation import storm
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise CommandLineError("needs greenlet: pip install 'aktor[simulation]'") from None
    if arguments.command == "crashes":
        return _crash(arguments.seed, arguments.actor, arguments.write)
    if arguments.command == "run":
        return _run_many(storm, arguments.first, arguments.seeds, arguments.until_failure)
    outcome = storm.run_storm(arguments.seed)
    if arguments.command == "replay":
        return _replay(outcome, arguments.history)
    return _shrink(storm, outcome)


def _run_many(storm: Any, first: int, count: int, until_failure: bool) -> int:
    failed: list[Outcome] = []
    began, virtual, done, told_at = time.monotonic(), 0.0, 0, 0.0
    for seed in range(first, first + count):
        outcome = storm.run_storm(seed)
        virtual += outcome.virtual
        done += 1
        if outcome.error is not None:
            failed.append(outcome)
            print(f"seed {seed} fails: {_first_line(outcome)}", flush=True)
            if until_failure:
                break
        if sys.stderr.isatty() and time.monotonic() - told_at > _PROGRESS_S:
            told_at = time.monotonic()
            print(f"\r{done} of {count} seeds, {len(failed)} failed", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    took = time.monotonic() - began
    print(
        f"{done} seeds, {len(failed)} failed; {virtual / 3600:.1f} virtual hours in {took:.0f} s"
        f" ({virtual / took:.0f} virtual seconds a second, {done / took * 60:.0f} seeds a minute)"
    )
    return 1 if failed else 0


def _crash(seed: int, actor: str | None, path: Path | None) -> int:
    from aktor.simulation import crash_table
    from aktor.simulation.crashes import ACTORS, POINTS, Point

    if actor not in (None, *ACTORS):
        raise CommandLineError(f"there is no actor {actor!r}; there are {', '.join(ACTORS)}")
    if actor is not None and path is not None:
        raise CommandLineError("--write needs the whole table: leave out --actor")
    if path is not None:
        # Now, rather than after half a minute: can it be written, and are the markers there?
        _put(path, lambda document: crash_table.replaced(document, crash_table.shown(document)))
    points = [point for point in POINTS if actor in (None, point.actor)]
    cells: dict[Point, list[str]] = {}
    bad = 0
    for done, point in enumerate(points):
        if sys.stderr.isatty():
            print(f"\r\033[K{done} of {len(points)} points: {point}", end="", file=sys.stderr)
        cells[point] = []
        for column in crash_table.COLUMNS:
            text, good = column.cell(point, seed)
            cells[point].append(text)
            if not good:
                bad += 1
                print(f"{point}, {column.title}: {text}", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    table = crash_table.table(cells)
    if path is None:
        print(table)
    else:
        _put(path, lambda document: crash_table.replaced(document, table))
    return 1 if bad else 0


def _put(path: Path, change: Callable[[str], str]) -> None:
    """Change a document."""
    try:
        path.write_text(change(path.read_text()))
    except OSError as error:
        raise CommandLineError(f"cannot read or write {path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandLineError(f"{path}: {error}") from None


def _replay(outcome: Outcome, path: Path | None) -> int:
    if path is not None:
        path.write_text(outcome.history.text())
        print(f"{len(outcome.history.events)} events are in {path}")
    if outcome.error is None:
        print(f"seed {outcome.seed}: all promises were kept")
        return 0
    print(outcome.error)
    return 1


def _shrink(storm: Any, outcome: Outcome) -> int:
    if outcome.error is None:
        print(f"seed {outcome.seed} does not fail")
        return 0
    least = storm.shrink(outcome)
    print(f"{len(least.faults)} of {len(outcome.faults)} faults are enough:")
    for fault in least.faults:
        print(f"  at {fault.at:.3f} s {fault.kind} for {fault.seconds:g} s (number {fault.number})")
    print(least.error)
    return 1


def _first_line(outcome: Outcome) -> str:
    text = str(outcome.error).split("\n", 2)
    return f"{type(outcome.error).__name__}: {text[0]} {text[1] if len(text) > 1 else ''}"
