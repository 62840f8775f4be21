"""The rebalances of consumer groups, read from the trace files of their members.

On one machine:

    tables = read_files(["alice.jsonl", "bob.jsonl.gz"])
    for row in tables.rebalances: print(row.sentence)
    to_pandas(tables.downtimes)

The command `aktor why` prints the same. `read(lines)` takes lines in any order, in memory.

`aktor.spark.rebalances` does the same with as many files as there are. Both take events in the same
order and let `GroupTraces` say what they mean; docs/spark_rebalances.md has the tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from aktor.trace.rebalances import files
from aktor.trace.rebalances.group import GroupTraces, order
from aktor.trace.rebalances.lines import Event, NotUnderstoodError, parse
from aktor.trace.rebalances.rows import (
    Downtime,
    MemberPart,
    MemberTotal,
    OwnedPartition,
    Rebalance,
    RefusedCommit,
    Reset,
    Row,
    Silence,
    Span,
    Storm,
)
from aktor.trace.rebalances.tables import Tables, to_pandas, to_polars

__all__ = ["GroupTraces", "Tables", "read", "read_files", "tell", "to_pandas", "to_polars"]
__all__ += ["Downtime", "MemberPart", "MemberTotal", "Rebalance", "RefusedCommit", "Reset"]
__all__ += ["OwnedPartition", "Row", "Silence", "Span", "Storm"]


def read_files(paths: Iterable[str], *, rotated: bool = True) -> Tables:
    """The tables of these trace files, which are read together, line by line.

    A path may be a file (also one that gzip has made), a folder, or "-" for the standard input.
    With a file its older part `<file>.1` is read, too, unless `rotated` is false. The
    memory that is needed grows with the rows, not with the lines. Raises FileNotFoundError, and
    OSError if more files have to be open at once (traces of the same time) than this process may
    open; what cannot be read or understood otherwise is counted in `counts` of the tables.
    """
    counts: Counter[str] = Counter()
    rows = list(files.rows_of(files.find(paths, rotated=rotated), counts))
    return Tables(rows, counts)


def read(lines: Iterable[str], file: str = "") -> tuple[list[Row], Counter[str]]:
    """The rows of all tables, and how many lines there were that were not understood, and why."""
    events: list[Event] = []
    counts: Counter[str] = Counter()
    for line in lines:
        try:
            events.append(parse(line, file))
        except NotUnderstoodError as error:
            counts[error.reason] += 1
    rows, repeated = tell(events)
    counts["repeated"] += repeated
    return rows, counts


def tell(events: Iterable[Event]) -> tuple[list[Row], int]:
    """The rows of all tables, and how many events came a second time."""
    groups: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        groups[event["group"]].append(event)
    rows: list[Row] = []
    repeated = 0
    for group, told in sorted(groups.items()):
        traces = GroupTraces(group)
        for event in sorted(told, key=order):
            traces.take(event)
        rows += traces.end()
        repeated += traces.repeated
    return rows, repeated
