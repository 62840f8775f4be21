"""`aktor why`: what the trace files of a group's members say of its rebalances and silences."""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from aktor.cli.main import CommandLineError
from aktor.trace.plain import visible

if TYPE_CHECKING:
    from aktor.trace.rebalances import Tables
    from aktor.trace.rebalances.rows import Downtime, Rebalance, RefusedCommit, Row

__all__ = ["add_arguments", "check_pictures", "run", "write_pictures"]

#: `--around` shows what was under way so many seconds before or after.
AROUND: Final = 120.0

#: Rows of a table that are printed; `--json` has all.
MOST: Final = 10

#: Files that are no traces, of which the names are printed.
FEW: Final = 3

#: A downtime that is shorter, in ms, is not printed.
DOWNTIME_MIN: Final = 1000.0

#: An attempt so many seconds after the one before is another one of a row.
AGAIN: Final = 60.0

#: The partitions of a commit that was refused, in the reason.
_PARTITIONS: Final = re.compile(r"(?<=the offsets of ).*? (?=were )")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `aktor why` takes."""
    add = parser.add_argument
    add(
        "logs",
        nargs="+",
        metavar="LOG",
        help="a file that AKTOR_TRACE names (also as .gz), a folder of them, or - (standard input);"
        " with a file its older part LOG.1 is read, too",
    )
    add("--no-rotated", action="store_true", help="of a file named above do not read LOG.1, too")
    add("--group", metavar="NAME", help="only this group")
    add(
        "--around",
        metavar="TIME",
        help="only what was under way 2 minutes before or after: 14:03, 14:03:20 (UTC, of the last"
        " day in the logs), 2026-11-27T14:03:20, with an offset as +01:00, or seconds since 1970",
    )
    add("--json", action="store_true", help="all rows of all tables, as JSON lines")
    add("--html", metavar="FILE", help="write a page of pictures there, which loads nothing")
    add("--svg", metavar="FOLDER", help="write each picture there, as SVG")


def run(arguments: argparse.Namespace) -> int:
    """Print what the logs say; 0 if there was anything of a group in them, else 1. Raises
    CommandLineError for files that do not exist or cannot be written, or a time that is none."""
    from aktor.trace.rebalances.files import LINES, find, rows_of
    from aktor.trace.rebalances.tables import DRAWN, TABLES, Tables

    if arguments.around is not None:
        _moment(arguments.around, 0.0)
    if arguments.html is not None or arguments.svg is not None:
        check_pictures()  # what is not installed shows before the logs are read
    counts: Counter[str] = Counter()
    try:
        files = find(arguments.logs, rotated=not arguments.no_rotated)
    except FileNotFoundError as error:
        raise CommandLineError(f"there is no file {str(error)!r}") from None
    except OSError as error:
        raise CommandLineError(str(error)) from None
    if not files:
        raise CommandLineError("these folders have no file with .jsonl or .log in its name")
    if arguments.html is not None:
        check_page(arguments.html)
    try:
        tables = Tables(rows_of(files, counts), counts)
    except OSError as error:
        raise CommandLineError(
            f"cannot read {len(files)} files together: {error.strerror}; raise the limit"
            " (`ulimit -n`), or name fewer"
        ) from None
    if arguments.group is not None:
        tables = Tables((row for row in _all(tables) if row.group == arguments.group), counts)
    if arguments.around is not None:
        tables = _around(tables, arguments.around)
    written: list[str] = []
    if arguments.html is not None or arguments.svg is not None:
        # Before anything is printed: who reads that may close the pipe.
        written = write_pictures(tables, page=arguments.html, folder=arguments.svg)
    if arguments.json:
        _print_json(tables)
    else:
        _print(tables, around=arguments.around)
    _say_what_was_read(files, counts, lines=LINES)
    for file in written:
        print(f"{file} is written", file=sys.stderr)
    told = (name for name in TABLES if name not in DRAWN)
    return 0 if any(tables[name] for name in told) else 1


# -- pictures


def check_pictures() -> None:
    """Raises CommandLineError if what draws pictures is not installed."""
    from aktor.trace.pictures import MissingError, check

    try:
        check()
    except MissingError as error:
        raise CommandLineError(str(error)) from None


def check_page(page: str) -> None:
    """Raises CommandLineError if the page cannot be written: that shows before the logs are read,
    not after it. (What the file holds stays meanwhile.)"""
    try:
        with open(page, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise _not_written(page, error) from None


def write_pictures(
    tables: Tables, *, page: str | None = None, folder: str | None = None
) -> list[str]:
    """Write the page, and the pictures one by one; returns the names of the files. Raises
    CommandLineError if one cannot be written."""
    from aktor.trace.pictures import draw

    pictures = draw(tables)
    written: list[str] = []
    try:
        if page is not None:
            pictures.write_html(page)
            written.append(page)
        written += map(str, pictures.write_svg(folder) if folder is not None else ())
    except OSError as error:
        raise _not_written(page or folder, error) from None
    return written


def _not_written(name: str | None, error: OSError) -> CommandLineError:
    # (A full disk has no name.)
    return CommandLineError(f"cannot write {error.filename or name}: {error.strerror}")


def _all(tables: Tables) -> Iterator[Row]:
    from aktor.trace.rebalances.tables import TABLES

    for name in TABLES:
        yield from tables[name]


# -- which rows


def _around(tables: Tables, text: str) -> Tables:
    """The rows that have to do with that time, and none of those over all time."""
    from aktor.trace.rebalances.tables import Tables

    rows = [row for row in _all(tables) if _span(row) is not None]
    ends = [end for row in rows for end in _span(row) or () if end != math.inf]
    newest = max(ends, default=0.0)
    at = _moment(text, newest)
    kept = []
    for row in rows:
        began, ended = _span(row) or (0.0, 0.0)
        if began - AROUND <= at <= ended + AROUND:
            kept.append(row)
    return Tables(kept, tables.counts)


def _span(row: Any) -> tuple[float, float] | None:
    """When it began and ended; None: it is of all time."""
    from aktor.trace.rebalances.rows import OwnedPartition

    if isinstance(row, OwnedPartition):
        return row.assigned, math.inf if row.released is None else row.released
    for first, last in (("began", "ended"), ("last_delivered", "first_delivered"), ("at", "at")):
        if hasattr(row, first):
            began, ended = getattr(row, first), getattr(row, last)
            if began is None:
                began = ended if ended is not None else row.assigned
            return began, began if ended is None else ended
    return None


def _moment(text: str, newest: float) -> float:
    """Seconds since 1970; a time of day is of the day of `newest`."""
    try:
        if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
            return float(text)
        if re.fullmatch(r"\d\d?:\d\d(:\d\d(\.\d+)?)?", text):
            hours, minutes, *rest = text.split(":")
            seconds = float(rest[0]) if rest else 0.0
            if int(hours) > 23 or int(minutes) > 59 or seconds >= 60:
                raise ValueError
            day = datetime.fromtimestamp(newest, UTC).replace(hour=0, minute=0, second=0)
            of_day = timedelta(hours=int(hours), minutes=int(minutes), seconds=seconds)
            return (day.replace(microsecond=0) + of_day).timestamp()
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise CommandLineError(
            f"--around {text!r} is no time: write 14:03, 2026-11-27T14:03:20, or seconds since 1970"
        ) from None


# -- what is printed


def _print(tables: Tables, *, around: str | None) -> None:
    from aktor.trace.rebalances.holds import called, of_group, seconds
    from aktor.trace.rebalances.silences import in_sentences

    told = list(_told(tables.rebalances))
    told += in_sentences(tables.silences)
    told += [(row.began, row.sentence) for row in tables.refusals]
    if not told:
        near = "" if around is None else f" within 2 minutes of {around}"
        print(f"No rebalance and no silence is in these logs{near}.")
    for at, sentence in sorted(told):
        _print_line(f"{_clock(at)}  ", sentence)
    downtimes = [
        row
        for row in tables.downtimes
        if row.downtime_ms is not None and row.downtime_ms >= DOWNTIME_MIN
    ]
    downtimes.sort(key=lambda row: -(row.downtime_ms or 0.0))
    _print_head("Longest pauses of a partition between two owners", len(downtimes))
    for row in downtimes[:MOST]:
        before, after = (row.from_consumer, row.from_host), (row.to_consumer, row.to_host)
        _print_line(
            f"{_clock(row.last_delivered or row.assigned)}  ",
            f"{row.group}: {row.partition}, {seconds(row.downtime_ms or 0.0)}, from"
            f" {called(before)} to {called(after)}{_unseen(row)}",
        )
    refused = _refused(tables.refused_commits)
    _print_head("Commits that were refused", len(refused))
    for commits in refused[:MOST]:
        first, last = commits[0], commits[-1]
        name = called((first.consumer, first.host))
        until = f", {len(commits)} times until {_clock(last.at)}" if len(commits) > 1 else ""
        because = last.because or "its trace does not say why"
        _print_line(f"{_clock(first.at)}  ", f"{first.group}: {name}{until}: {because}")
    resets = [row for row in tables.resets if row.from_offset is not None]
    _print_head("Positions that were reset", len(resets))
    for reset in resets[:MOST]:
        _print_line(
            f"{_clock(reset.at)}  ",
            f"{of_group(reset.group)}: {reset.partition} of"
            f" {called((reset.consumer, reset.host))}, from {reset.from_offset} to"
            f" {reset.to_offset}: {reset.because}",
        )
    members = sorted(tables.members, key=lambda row: -row.rebalancing_ms)
    _print_head("Members, by the time that they spent in rebalances", len(members))
    for total in members[:MOST]:
        words = [
            f"{_count(total.rebalances, 'rebalance')} in {seconds(total.rebalancing_ms)}",
            f"began {total.initiated}",
            f"longest callback {seconds(total.longest_callback_ms)}",
        ]
        others = {
            "late poll": total.late_polls,
            "refused commit": total.refused_commits,
            "reset": total.resets,
        }
        words += [f"{total.lost} lost"] if total.lost else []
        words += [_count(count, what) for what, count in others.items() if count]
        name = called((total.consumer, total.host))
        _print_line("        ", f"{total.group}: {name}: {', '.join(words)}")


def _unseen(row: Downtime) -> str:
    """That it may have been none: the partition may have had another owner."""
    from aktor.trace.rebalances.sentence import UNSEEN

    if not row.unseen_owner:
        return ""
    passed_over = -(row.repeated or 0)
    told = f"; {_count(passed_over, 'offset')} were passed over" if passed_over > 0 else ""
    return f" ({UNSEEN}{told})"


def _refused(rows: Iterable[RefusedCommit]) -> list[list[RefusedCommit]]:
    """Those of a member that were refused for the same reason, whatever the partitions and the
    broker were: the most first."""
    from aktor.trace.alike import without_numbers

    alike: dict[tuple[str | None, ...], list[RefusedCommit]] = {}
    for row in rows:
        kind = without_numbers(_PARTITIONS.sub("", row.because or ""))
        alike.setdefault((row.group, row.consumer, row.host, kind), []).append(row)
    return sorted(alike.values(), key=lambda commits: -len(commits))


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _told(rebalances: Iterable[Rebalance]) -> Iterator[tuple[float, str]]:
    """When each began, and its sentence. Attempts of a member that came to nothing, and that it
    makes again and again for the same reason, are one."""
    attempts: dict[tuple[str | None, ...], list[Rebalance]] = {}
    for row in sorted(rebalances, key=lambda row: row.began):
        if row.generations or row.initiator is None:
            yield row.began, row.sentence
            continue
        kind = row.group, row.initiator, row.initiator_host, row.because
        before = attempts.setdefault(kind, [])
        if before and row.began > before[-1].ended + AGAIN:
            yield _as_one(before)
            before.clear()
        before.append(row)
    yield from map(_as_one, attempts.values())


def _as_one(attempts: list[Rebalance]) -> tuple[float, str]:
    first, again = attempts[0], len(attempts) - 1
    if not again:
        return first.began, first.sentence
    since = f"{again} time{'s' if again > 1 else ''} more since"
    last = _clock(attempts[-1].began)
    return first.began, f"{first.sentence.rstrip('.')}; the same {since}, the last at {last}."


def _print_head(text: str, rows: int) -> None:
    if rows:
        print(f"\n{text}{f' (the first {MOST} of {rows})' if rows > MOST else ''}:")


def _print_line(head: str, text: str) -> None:
    """A line of its own, broken at the width of the terminal if there is one: `grep` finds words of
    one line only."""
    text = visible(text)
    if sys.stdout is None or not sys.stdout.isatty():
        print(head + text)
        return
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    print(
        textwrap.fill(
            text,
            width,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _warn(text: str) -> None:
    print(visible(text), file=sys.stderr)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _print_json(tables: Tables) -> None:
    from aktor.trace.rebalances.tables import TABLES

    for name in TABLES:
        for row in tables[name]:
            values: dict[str, Any] = asdict(row)
            print(json.dumps({"table": name, **values}))


def _say_what_was_read(files: list[str], counts: Counter[str], *, lines: str) -> None:
    """On stderr: how many lines there were, and which were not understood; which files are no
    traces; and whose clocks were set, or are so far apart that causes and pauses between them are
    in doubt."""
    from aktor.trace.rebalances.files import CLOCK
    from aktor.trace.rebalances.lines import NOT_A_TRACE

    of_files = f"{len(files)} file{'s' if len(files) > 1 else ''}"
    clocks = sorted(what for what in counts if what.startswith(CLOCK))
    for what in clocks[:MOST]:
        _warn(what)
    others = sorted(what for what in counts if what.startswith(NOT_A_TRACE))
    if others:
        names = ", ".join(what.removeprefix(f"{NOT_A_TRACE}: ") for what in others[:FEW])
        more = f", and {len(others) - FEW} more" if len(others) > FEW else ""
        _warn(f"no trace is in {names}{more}")
    odd = [
        f"{what}: {count}"
        for what, count in sorted(counts.items())
        if count and what not in (lines, *clocks, *others)
    ]
    left_out = f"; not understood, or left out: {', '.join(odd)}" if odd else ""
    print(f"\n{counts[lines]:,} lines of {of_files}{left_out}", file=sys.stderr)
