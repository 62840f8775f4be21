"""From events to rows: each group's events, sorted by Spark, go through its `GroupTraces`.

Spark sorts on disk if it has to, and Python holds one batch of events and what is under way in one
group: so a group may have any number of events.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from aktor.spark.rebalances.tables import COUNTS, NAMES, TABLES, ddl, record, struct
from aktor.trace.rebalances.group import GroupTraces
from aktor.trace.rebalances.lines import Event, NotUnderstoodError, parse
from aktor.trace.rebalances.rows import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STATE_DDL", "analyse"]

#: What a stream keeps of a group between two batches: its pickled `GroupTraces`.
STATE_DDL: Final = "group string, state binary"

_COUNT: Final = pa.struct([("what", pa.string()), ("lines", pa.int64())])
_ROWS: Final = pa.schema(
    [
        ("open", pa.bool_()),
        ("group", pa.string()),
        ("state", pa.binary()),
        *((table, struct(table)) for table in TABLES),
        (COUNTS, _COUNT),
    ]
)
_ROWS_DDL: Final = ", ".join(
    [
        "open boolean, group string, state binary",
        *(f"{table} {ddl(table)}" for table in TABLES),
        f"{COUNTS} struct<what: string, lines: bigint>",
    ]
)

#: Rows that go on at once.
_MANY: Final = 1000


def analyse(
    events: DataFrame, *, watermark: float | None = None, states: DataFrame | None = None
) -> DataFrame:
    """One column for each table, of which one is set in each row.

    With a watermark, rows that are not complete by then have `open`, and there is a row with the
    new `state` of each group. `states` are those of the batch before.
    """
    sorted_events = events.selectExpr("*", "binary(null) AS state")
    if states is not None:
        first = "group, -double('inf') AS t, '' AS source, 0L AS line, string(null) AS body, state"
        sorted_events = sorted_events.unionByName(states.selectExpr(*_columns(first)))
    # Rows are kept by Spark, which does not join small parts of what it keeps: no more than needed.
    parts = 2 * events.sparkSession.sparkContext.defaultParallelism
    return (
        sorted_events.repartition(parts, "group")
        .sortWithinPartitions("group", "t", "source", "line", "body")
        .select("group", "source", "line", "body", "state")
        .mapInArrow(partial(_analyse, watermark=watermark), _ROWS_DDL)
    )


def _columns(text: str) -> list[str]:
    return text.split(", ")


def _analyse(
    batches: Iterable[pa.RecordBatch], watermark: float | None
) -> Iterator[pa.RecordBatch]:
    """Runs in Spark's Python workers, over the sorted events of some groups."""
    out = _Out()
    group: _Group | None = None
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for name, source, line, body, state in zip(*columns, strict=True):
            if name is None:
                out.count(source, line)
                continue
            if group is None or group.name != name:
                if group is not None:
                    group.end()
                group = _Group(name, watermark, state, out)
            if body is not None:
                group.take(body, source)
        yield from out.batches(_MANY)
    if group is not None:
        group.end()
    yield from out.batches(1)


class _Group:
    """Owns the traces of the group whose events are read, and knows when they become open."""

    def __init__(self, name: str, watermark: float | None, state: bytes | None, out: _Out) -> None:
        self.name = name
        self._traces: GroupTraces = GroupTraces(name) if state is None else pickle.loads(state)
        self._traces.repeated = 0
        self._watermark = watermark
        self._out = out
        self._is_open = False

    def take(self, body: str, source: str) -> None:
        try:
            event: Event = parse(body)
        except NotUnderstoodError as error:  # it had only been glanced at before
            self._out.count(error.reason, 1)
            return
        event["source"] = source
        if self._watermark is not None and event["t"] > self._watermark:
            self._complete()
        self._traces.take(event)
        self._out.add(self._traces.rows(), is_open=self._is_open)

    def end(self) -> None:
        if self._watermark is not None:
            self._complete()
        self._out.add(self._traces.end(), is_open=self._is_open)
        self._count_repeated()

    def _count_repeated(self) -> None:
        if self._traces.repeated:
            self._out.count("repeated", self._traces.repeated, is_open=self._is_open)
        self._traces.repeated = 0

    def _complete(self) -> None:
        """The watermark is reached: give out the rows that are complete, and keep the state for the
        next batch. Rows of later events may still change (`open`)."""
        if self._is_open or self._watermark is None:
            return
        self._traces.wait(self._watermark)
        self._out.add(self._traces.rows(), is_open=False)
        self._count_repeated()
        self._out.keep(self.name, pickle.dumps(self._traces))
        self._is_open = True


class _Out:
    """Owns the rows that have yet to go on."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []

    def add(self, rows: Iterable[Row], *, is_open: bool) -> None:
        for row in rows:
            self._records.append({"open": is_open, NAMES[type(row)]: record(row)})

    def count(self, what: str, lines: int, *, is_open: bool = False) -> None:
        self._records.append({"open": is_open, COUNTS: {"what": what, "lines": lines}})

    def keep(self, group: str, state: bytes) -> None:
        self._records.append({"open": False, "group": group, "state": state})

    def batches(self, least: int) -> Iterator[pa.RecordBatch]:
        if len(self._records) >= least:
            records, self._records = self._records, []
            yield pa.RecordBatch.from_pylist(records, schema=_ROWS)
