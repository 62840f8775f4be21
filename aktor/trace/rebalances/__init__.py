"""The rebalances of consumer groups, read from the trace files of their members.

On one machine:

    rows, counts = read(lines)

`aktor.spark.rebalances` does the same with as many files as there are. Both take events in the same
order and let `GroupTraces` say what they mean; docs/spark_rebalances.md has the tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from aktor.trace.rebalances.group import GroupTraces, order
from aktor.trace.rebalances.lines import Event, NotUnderstoodError, parse
from aktor.trace.rebalances.rows import Row

__all__ = ["GroupTraces", "read", "tell"]


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
