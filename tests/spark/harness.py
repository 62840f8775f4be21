"""What Spark does with a Python data source, without its JVM.

Everything that Spark sends between processes is sent through the same serializers here: options
with lower-case names, the data source and its readers by cloudpickle, tasks by pickle, offsets by
JSON, batches through Spark's own check of their schema. (After `plan_data_source_read.py` and
`python_streaming_source_runner.py` of PySpark.)
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from aktor.spark.source import KafkaDataSource

#: spark.sql.execution.arrow.maxRecordsPerBatch
ROWS_PER_BATCH = 10_000


def sent(value: Any) -> Any:
    """A copy by cloudpickle, as Spark sends classes and readers."""
    return pickle.loads(cloudpickle.dumps(value))


def a_source(options: Mapping[str, str]) -> KafkaDataSource:
    """The data source as a process of Spark's makes it."""
    given = CaseInsensitiveDict({name.lower(): value for name, value in options.items()})
    found: KafkaDataSource = sent(KafkaDataSource)(given)
    return found


def made(source: Any, reader: str, schema: StructType) -> Any:
    """The `reader` or `streamReader`. What is wrong with its options is an error at the latest when
    Spark calls it for the first time."""
    found = getattr(source, reader)(schema=schema)
    if reader == "streamReader":
        found.getDefaultReadLimit()
    return found


def the_schema(options: Mapping[str, str], given: StructType | None = None) -> StructType:
    """The schema of a query, which the user may have given."""
    return given if given is not None else sent(a_source(options)).schema()


def run_task(reader: Any, partition: Any, schema: StructType) -> list[pa.RecordBatch]:
    """What a Python worker of Spark does in a task."""
    reader, partition = sent(reader), pickle.loads(pickle.dumps(partition))
    batches = reader.read(partition)
    return list(records_to_arrow_batches(batches, ROWS_PER_BATCH, schema, a_source({})))


def read_batch(
    options: Mapping[str, str], schema: StructType | None = None
) -> tuple[pa.Table, int]:
    """A batch query: its rows, and how many tasks it had."""
    columns = the_schema(options, schema)
    reader = sent(a_source(options)).reader(schema=columns)
    # Spark runs a task even if there is none.
    tasks = reader.partitions() or [InputPartition(None)]
    batches = [batch for task in tasks for batch in run_task(reader, task, columns)]
    return pa.Table.from_batches(batches, to_arrow_schema(columns, timezone="UTC")), len(tasks)


class Query:
    """A stream: the log of a checkpoint, and one run after another.

    `log` has the end of each batch as Spark writes it, `finished` how many batches were committed.
    Rows of all batches are in `rows`; those of a batch that is run again are there twice.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType | None = None) -> None:
        self.options = dict(options)
        self.schema = the_schema(options, schema)
        self.log: list[str] = []
        self.finished = 0
        self.rows: list[dict[str, Any]] = []
        self.reported: Any = None

    def run(self, *, available_now: bool = True, once: bool = False, batches: int = 1000) -> int:
        """A run of the query until it has nothing more to do; how many batches it made."""
        run = Run(self, available_now=available_now and not once, once=once)
        try:
            made = 0
            while made < batches and run.one_batch():
                made += 1
                if once:
                    break
            return made
        finally:
            run.stop()

    def offsets(self, number: int = -1) -> dict[str, Any]:
        """The end of a batch in the log."""
        found: dict[str, Any] = json.loads(self.log[number])
        return found


class Run:
    """One process that plans the batches of a query. `stop` is what a killed one does not do."""

    def __init__(self, query: Query, *, available_now: bool = True, once: bool = False) -> None:
        self._query = query
        reader: DataSourceStreamReader = sent(a_source(query.options)).streamReader(
            schema=query.schema
        )
        self.reader = reader
        _runs.append(self)
        self._limit: ReadLimit = ReadAllAvailable()
        if available_now:
            reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
        if not once:
            self._limit = reader.getDefaultReadLimit()
        self._initial = None if query.finished else json.dumps(reader.initialOffset())

    def _start(self, batch: int) -> str:
        if batch:
            return self._query.log[batch - 1]
        # Spark asks a second time.
        self._initial = json.dumps(self.reader.initialOffset())
        return self._initial

    def one_batch(self, *, fail: bool = False) -> bool:
        """Plan and run a batch; False if there was nothing new. `fail`: no commit is logged."""
        query = self._query
        number = query.finished
        if len(query.log) == number:
            start = self._start(number)
            end = self._latest(start)
            if end == start:
                return False
            query.log.append(end)
            if number:
                self.reader.commit(json.loads(start))
        self._execute(number)
        if not fail:
            query.finished += 1
        return True

    def _latest(self, start: str) -> str:
        end = json.dumps(self.reader.latestOffset(json.loads(start), self._limit))  # type: ignore[call-arg]
        self._query.reported = self.reader.reportLatestOffset()
        return end

    def _execute(self, number: int) -> None:
        query = self._query
        start, end = json.loads(self._start(number)), json.loads(query.log[number])
        for task in self.reader.partitions(start, end):
            for batch in run_task(self.reader, task, query.schema):
                query.rows += batch.to_pylist()

    def stop(self) -> None:
        """The query was stopped in good order."""
        self.reader.stop()


#: The runs of this test.
_runs: list[Run] = []


def stop_runs() -> None:
    """What the death of its process does to a run that was not stopped: its consumer ends."""
    while _runs:
        _runs.pop().stop()
