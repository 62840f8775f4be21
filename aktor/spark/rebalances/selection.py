"""From lines to events: finds the few lines that matter, on all cores and without a shuffle."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from aktor.trace.rebalances.deliveries import Deliveries
from aktor.trace.rebalances.lines import (
    ALIVE,
    NOT_A_TRACE,
    OURS,
    PATTERN,
    TORN,
    Glance,
    NotUnderstoodError,
    glance,
    parse,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["EVENTS", "EVENTS_DDL", "select_events"]

#: An event as it is sorted and kept; `body` is its line. Without `group` it is a count: `source`
#: says of what, `line` how many.
EVENTS: Final = pa.schema(
    {
        "group": pa.string(),
        "t": pa.float64(),
        "source": pa.string(),
        "line": pa.int64(),
        "body": pa.string(),
    }
)
EVENTS_DDL: Final = "group string, t double, source string, line bigint, body string"

#: Lines that go on at once.
_ROWS: Final = 5000

_OURS: Final = re.compile(OURS)

_Row = tuple[str | None, float | None, str, int, str | None]


def select_events(lines: DataFrame) -> DataFrame:
    """The events in `lines`, whose columns are `value` (a line) and `file` (where it is from)."""
    value = F.col("value")
    # A line without its end is looked at in Python, whatever it is: it is counted there.
    is_torn = ~value.endswith("}") & (F.length(F.trim(value)) > 0)
    wanted = lines.where(value.rlike(PATTERN) | value.rlike(ALIVE) | is_torn)
    return wanted.select("file", "value").mapInArrow(_select, EVENTS_DDL)


def _select(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in Spark's Python workers, over the lines of one part of a file, in their order."""
    selection = _Selection()
    for batch in batches:
        files, values = batch.columns
        for file, line in zip(_each(files), _texts(values), strict=True):
            selection.take(line, file)
        if selection.is_full:
            yield selection.batch()
    selection.end()
    yield selection.batch()


def _each(files: pa.Array) -> Iterable[str]:
    """The file of each line, which nearly always is the same."""
    if len(files) and pc.all(pc.equal(files, files[0])).as_py():
        return itertools.repeat(files[0].as_py(), len(files))
    return files.to_pylist()  # type: ignore[no-any-return]


def _texts(values: pa.Array) -> list[str]:
    """Spark takes any bytes for text: U+FFFD is for those that are no UTF-8."""
    try:
        texts: list[str] = values.to_pylist()
    except UnicodeDecodeError:
        texts = [value.decode(errors="replace") for value in values.cast(pa.binary()).to_pylist()]
    return texts


class _Selection:
    """Owns the events that were selected and have yet to go on."""

    def __init__(self) -> None:
        self._deliveries = Deliveries()
        self._rows: list[_Row] = []
        self._counts: Counter[str] = Counter()
        #: By file: the torn lines, and whether one of its lines is of a trace.
        self._torn: Counter[str] = Counter()
        self._traces: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether there is a batch to go on."""
        return len(self._rows) >= _ROWS

    def take(self, line: str, file: str) -> None:
        """The next line of a file."""
        self._counts["selected"] += 1
        seen = glance(line)
        if seen is None:
            self._parse(line, file)
        else:
            self._traces.add(file)
            self._keep(self._deliveries.take(line, seen))

    def end(self) -> None:
        """No line comes any more."""
        self._keep(self._deliveries.rest())
        for file, torn in self._torn.items():
            self._counts[TORN if file in self._traces else NOT_A_TRACE] += torn
        counts = sorted(self._counts.items())
        self._rows += [(None, None, reason, count, None) for reason, count in counts]

    def _keep(self, lines: Iterable[tuple[str, Glance]]) -> None:
        for line, seen in lines:
            self._rows.append((seen.group, seen.t, seen.source, seen.line, line))

    def _parse(self, line: str, file: str) -> None:
        try:
            event = parse(line, file)
        except NotUnderstoodError as error:
            if error.reason == TORN:
                self._torn[file] += 1
                if _OURS.search(line):
                    self._traces.add(file)
            else:
                self._counts[error.reason] += 1
            return
        self._traces.add(file)
        number = event.get("line")
        number = number if type(number) is int else 0
        self._rows.append((event["group"], event["t"], event["source"], number, line))

    def batch(self) -> pa.RecordBatch:
        """What was selected goes on."""
        rows, self._rows = self._rows, []
        columns: Any = zip(*rows, strict=True) if rows else [[] for _ in EVENTS]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
