"""`aktor sim`: run storms of many seeds, repeat one seed, or shrink a seed that fails.

`aktor sim crashes` crashes each actor at each of its messages. `aktor sim recovery` measures how
long a group needs after each kind of fault.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aktor.cli.main import CommandLineError
from aktor.cli.why import check_pictures

if TYPE_CHECKING:
    from aktor.simulation.selftest.storm import Outcome
    from aktor.simulation.world.crashes import Point

__all__ = ["add_arguments", "run"]

_PROGRESS_S: Final = 1.0

#: Without an end: until it is interrupted.
_UNTIL_STOPPED: Final = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `aktor sim` takes."""
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    many = commands.add_parser("run", help="many seeds; exit code 1 if one of them fails")
    many.add_argument(
        "--seeds",
        type=_number_from(0),
        default=100,
        metavar="N",
        help="how many seeds (100); 0: until stopped",
    )
    many.add_argument(
        "--first",
        type=int,
        metavar="SEED",
        help="the first seed (0; with --seeds 0: made from the time)",
    )
    many.add_argument(
        "--jobs", type=_number_from(1), default=1, metavar="N", help="how many at the same time (1)"
    )
    many.add_argument(
        "--until-failure", action="store_true", help="stop at the first seed that fails"
    )
    replay = commands.add_parser("replay", help="one seed, with its whole history")
    replay.add_argument("seed", type=int, metavar="SEED")
    replay.add_argument(
        "--history", type=Path, metavar="FILE", help="write it there, as JSON lines"
    )
    replay.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="write a page of pictures there: what the members did, and why they rebalanced",
    )
    less = commands.add_parser(
        "shrink", help="find fewer faults, members and records with which a seed still fails"
    )
    less.add_argument("seed", type=int, metavar="SEED")
    for its in (many, replay, less):
        its.add_argument(
            "--protocol",
            choices=["classic", "consumer", "auto", "migration", "mix"],
            default="mix",
            help="the group protocol; mix (the default): the seed decides",
        )
    crashes = commands.add_parser(
        "crashes", help="crash each actor at each of its messages; print the result"
    )
    crashes.add_argument("--seed", type=int, default=0, metavar="SEED", help="default: 0")
    crashes.add_argument("--actor", metavar="NAME", help="only this one, as in status()")
    crashes.add_argument(
        "--protocol", choices=["classic", "consumer"], help="only this one (default: both)"
    )
    crashes.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="put the tables between the markers in this file",
    )
    recovery = commands.add_parser(
        "recovery", help="how long a group needs after a single fault, by kind; a table"
    )
    recovery.add_argument("--kind", metavar="NAME", help="only this one (default: all)")
    recovery.add_argument(
        "--seeds", type=_number_from(1), default=5, metavar="N", help="how many of each (5)"
    )
    recovery.add_argument(
        "--protocol", choices=["classic", "consumer"], help="only this one (default: both)"
    )


def _number_from(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return number


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand's subcommand."""
    try:
        from aktor.simulation.selftest import storm
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise CommandLineError("needs greenlet: pip install greenlet") from None
    if arguments.command == "crashes":
        return _crash(arguments.seed, arguments.actor, arguments.protocol, arguments.write)
    if arguments.command == "recovery":
        return _recover(arguments.kind, arguments.protocol, arguments.seeds)
    if arguments.command == "run":
        return _run_many(arguments)
    if arguments.command == "replay" and arguments.history is not None:
        _write(arguments.history, "")  # what cannot be written shows before the run, not after it
    if arguments.command == "replay" and arguments.picture is not None:
        check_pictures()
        _write(arguments.picture, "")
    outcome = storm.run_storm(arguments.seed, protocol=arguments.protocol)
    if arguments.command == "replay":
        return _replay(outcome, arguments.history, arguments.picture)
    return _shrink(storm, outcome)


# -- many seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The result of one seed, also from another process."""

    seed: int
    protocol: str
    virtual: float
    failure: str | None


def _run_one(seed: int, protocol: str) -> _Result:
    from aktor.simulation.selftest.storm import run_storm

    outcome = run_storm(seed, protocol=protocol)
    failure = None if outcome.error is None else _first_lines(outcome)
    return _Result(seed=seed, protocol=outcome.protocol, virtual=outcome.virtual, failure=failure)


def _run_many(arguments: argparse.Namespace) -> int:
    endless = arguments.seeds == _UNTIL_STOPPED
    first = arguments.first
    if first is None:
        first = int(time.time()) * 1000 if endless else 0
    seeds: Iterable[int] = itertools.count(first)
    if not endless:
        seeds = range(first, first + arguments.seeds)
    summary = _Summary(None if endless else arguments.seeds)
    came = _results(seeds, arguments.protocol, arguments.jobs)
    with _interrupted() as stopped, contextlib.closing(came) as results:
        if endless:
            print(f"from seed {first} on, until stopped by Ctrl-C", flush=True)
        for result in results:
            summary.add(result)
            if stopped() or (arguments.until_failure and result.failure is not None):
                break
    summary.end()
    return 1 if summary.failed else 0


def _results(seeds: Iterable[int], protocol: str, jobs: int) -> Generator[_Result, None, None]:
    """The result of each seed, in order; closing the iterator ends the running ones."""
    if jobs == 1:
        for seed in seeds:
            yield _run_one(seed, protocol)
        return
    # Processes of their own, and not forks: a simulation may have left a thread behind.
    pool = multiprocessing.get_context("spawn").Pool(jobs, _leave_interrupts_to_the_parent)
    try:
        under_way = [
            pool.apply_async(_run_one, (seed, protocol)) for seed in _some(seeds, 2 * jobs)
        ]
        rest = iter(seeds) if not isinstance(seeds, range) else iter(seeds[2 * jobs :])
        while under_way:
            yield under_way.pop(0).get()
            for seed in _some(rest, 1):
                under_way.append(pool.apply_async(_run_one, (seed, protocol)))
    finally:
        pool.terminate()
        pool.join()


def _some(seeds: Iterable[int], count: int) -> list[int]:
    return list(itertools.islice(seeds, count))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C was pressed. After the first Ctrl-C the run
    ends with the next result; a second one raises KeyboardInterrupt."""
    pressed: list[int] = []

    def remember(number: int, _frame: Any) -> None:
        pressed.append(number)
        signal.signal(number, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


class _Summary:
    """The results so far; on a terminal they are shown while the run goes on."""

    def __init__(self, wanted: int | None) -> None:
        self.failed: list[_Result] = []
        self._of = "" if wanted is None else f" of {wanted}"
        self._began = time.monotonic()
        self._told_at = 0.0
        self._done = 0
        self._virtual = 0.0

    def add(self, result: _Result) -> None:
        """One more."""
        self._done += 1
        self._virtual += result.virtual
        if result.failure is not None:
            self.failed.append(result)
            self._clear()
            print(f"seed {result.seed} fails: {result.failure}", flush=True)
            print(f"  again: aktor sim replay {_again(result)}", flush=True)
        if sys.stderr.isatty() and time.monotonic() - self._told_at > _PROGRESS_S:
            self._told_at = time.monotonic()
            told = f"\r{self._done}{self._of} seeds, {len(self.failed)} failed, {self._speed()}"
            print(told, end="\033[K", file=sys.stderr, flush=True)

    def end(self) -> None:
        """All of it in a line, and which failed."""
        self._clear()
        took = time.monotonic() - self._began
        print(
            f"{self._done} seeds, {len(self.failed)} failed;"
            f" {self._virtual / 3600:.1f} virtual hours in {took:.0f} s ({self._speed()})"
        )
        if self.failed:
            seeds = ", ".join(_again(result) for result in self.failed)
            print(f"failed: {seeds} (aktor sim replay ..., aktor sim shrink ...)")

    def _speed(self) -> str:
        took = max(time.monotonic() - self._began, 1e-3)
        return (
            f"{self._virtual / took:.0f} virtual seconds a second,"
            f" {self._done / took * 60:.0f} seeds a minute"
        )

    def _clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _again(result: _Result) -> str:
    """The arguments that make this storm again."""
    return f"{result.seed} --protocol {result.protocol}"


# -- one seed


def _crash(seed: int, actor: str | None, protocol: str | None, path: Path | None) -> int:
    from aktor.simulation.selftest import crash_table
    from aktor.simulation.world.crashes import ACTORS

    if actor not in (None, *ACTORS):
        raise CommandLineError(f"there is no actor {actor!r}; there are {', '.join(ACTORS)}")
    if actor is not None and path is not None:
        raise CommandLineError("--write needs the whole table: leave out --actor")
    protocols = list(crash_table.PROTOCOLS) if protocol is None else [protocol]
    if path is not None:
        # Now, rather than after a minute: can it be written, and are the markers there?
        for spoken in protocols:
            _put(path, spoken)
    bad = 0
    for spoken in protocols:
        table, failed = _drills(spoken, actor, seed)
        bad += failed
        if path is None:
            print(f"{spoken}:\n\n{table}\n")
        else:
            _put(path, spoken, table)
    return 1 if bad else 0


def _drills(protocol: str, actor: str | None, seed: int) -> tuple[str, int]:
    """The table of this protocol (and actor), and how many drills went wrong."""
    from aktor.simulation.selftest import crash_table

    points = [point for point in crash_table.PROTOCOLS[protocol][0] if actor in (None, point.actor)]
    cells: dict[Point, list[str]] = {}
    bad = 0
    for done, point in enumerate(points):
        if sys.stderr.isatty():
            told = f"{protocol}, {done} of {len(points)} points: {point}"
            print(f"\r\033[K{told}", end="", file=sys.stderr)
        cells[point] = []
        for column in crash_table.COLUMNS:
            text, good = column.cell(point, protocol, seed)
            cells[point].append(text)
            if not good:
                bad += 1
                print(f"{protocol}, {point}, {column.title}: {text}", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return crash_table.table(cells), bad


def _recover(kind: str | None, protocol: str | None, seeds: int) -> int:
    from aktor.simulation.errors import SimulationError
    from aktor.simulation.selftest import recovery

    if kind not in (None, *recovery.ALONE):
        raise CommandLineError(
            f"no fault {kind!r} is judged alone; there are {', '.join(recovery.ALONE)}"
        )
    protocols = recovery.PROTOCOLS if protocol is None else (protocol,)
    print(recovery.head(protocols), flush=True)
    bad = 0
    for fault in recovery.ALONE if kind is None else (kind,):
        try:
            its = [recovery.Distribution.of(fault, spoken, range(seeds)) for spoken in protocols]
        except SimulationError as error:
            bad += 1
            print(f"{fault}: {type(error).__name__}: {error}".partition("\n")[0], file=sys.stderr)
        else:
            print(recovery.row(fault, its), flush=True)
    return 1 if bad else 0


def _put(path: Path, protocol: str, table: str | None = None) -> None:
    """Put the table of this protocol into a document; None: the one that it has."""
    from aktor.simulation.selftest.crash_table import replaced, shown

    try:
        document = path.read_text()
        new = shown(document, protocol) if table is None else table
        path.write_text(replaced(document, protocol, new))
    except OSError as error:
        raise CommandLineError(f"cannot read or write {path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandLineError(f"{path}: {error}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandLineError(f"cannot write {path}: {error.strerror}") from None


def _replay(outcome: Outcome, path: Path | None, picture: Path | None) -> int:
    # Both files before anything is printed: who reads that may close the pipe.
    if path is not None:
        _write(path, outcome.history.text())
    if picture is not None:
        _draw(outcome, picture)
        print(f"{picture} is written")
    if path is not None:
        print(f"{len(outcome.history.events)} events are in {path}")
    if outcome.error is None:
        print(f"seed {outcome.seed}: all promises were kept")
        return 0
    _explain(outcome)
    return 1


def _draw(outcome: Outcome, path: Path) -> None:
    """The pictures of what the members' traces hold, as of 2027-01-15."""
    from aktor.trace.pictures import draw
    from aktor.trace.rebalances import Tables, tell
    from aktor.trace.rebalances.lines import EVENTS

    traces = outcome.history.traces(1.8e9)
    events = [{**event, "source": event["trace"]} for event in traces if event["event"] in EVENTS]
    rows, _ = tell(event for event in events if isinstance(event["group"], str))
    _write(path, draw(Tables(rows), f"Seed {outcome.seed}, {outcome.protocol}").html())


def _explain(outcome: Outcome) -> None:
    """The failed check and the history; for other errors the traceback."""
    from aktor.simulation.errors import SimulationError

    print(outcome.error)
    if not isinstance(outcome.error, SimulationError):
        traceback.print_exception(outcome.error, file=sys.stdout)


def _shrink(storm: Any, outcome: Outcome) -> int:
    if outcome.error is None:
        print(f"seed {outcome.seed} does not fail")
        return 0
    print(f"seed {outcome.seed} fails with {_extent(outcome)}: {_first_lines(outcome)}", flush=True)

    def tell(best: Outcome, tries: int) -> None:
        if sys.stderr.isatty():
            told = f"\r{tries} tried, it still fails with {_extent(best)}"
            print(told, end="\033[K", file=sys.stderr, flush=True)

    least = storm.shrink(outcome, tell)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(f"it still fails with {_extent(least)}:")
    for fault in least.faults:
        print(f"  at {fault.at:.3f} s {fault.kind} for {fault.seconds:g} s (number {fault.number})")
    arguments = f"{outcome.seed}, protocol={outcome.protocol!r}, size={least.size!r}"
    print(f"again: aktor.simulation.selftest.storm.run_storm({arguments})")
    _explain(least)
    return 1


def _extent(outcome: Outcome) -> str:
    return (
        f"{len(outcome.faults)} faults, {outcome.members} members, {outcome.records} records"
        f" in {outcome.virtual:.0f} s"
    )


def _first_lines(outcome: Outcome) -> str:
    """What went wrong, without the history."""
    text = str(outcome.error).split("\n", 2)
    return f"{type(outcome.error).__name__}: {' '.join(text[:2])}"
