"""`df.write.format("aktor")` and `df.writeStream.format("aktor")`: the rows of a query as records.

Spark makes a writer in the driver, and copies it to each task. A task is finished when the brokers
have acknowledged all of its records; a task that failed is run again from its first row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from aktor.errors import ConfigurationError
from aktor.spark.options import producer_settings
from aktor.spark.options.sink import SinkOptions
from aktor.spark.sink import producers
from aktor.spark.sink.rows import RowLayout
from aktor.spark.tasks import task_input

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StreamWriter", "Written"]


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The number of rows that a task has written."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """For `df.write`. Owns nothing but its options, and a name for this one job."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError(
                'a topic cannot be overwritten: use mode("append"), or delete the topic first'
            )
        producer_settings.warn_of_ignored(options.client)
        self._options = options
        self._layout = RowLayout(schema, options.topic)
        # A name for this one write. With the id of the application as transactional.id, two writes
        # of an application at the same time would fence each other.
        self._job = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"BatchWriter({self._options})"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """Write the rows of a task."""
        return _write(iterator, self._options, self._layout, self._job)


class StreamWriter(DataSourceStreamArrowWriter):
    """For `df.writeStream`. Owns nothing but its options.

    As with Spark's own sink, the output mode `complete` appends the whole result of each batch.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        producer_settings.warn_of_ignored(options.client)
        self._options = options
        self._layout = RowLayout(schema, options.topic)

    def __repr__(self) -> str:
        return f"StreamWriter({self._options})"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """Write the rows of a task of a batch."""
        query = _task().getLocalProperty("sql.streaming.queryId")
        assert query is not None, "Spark runs the tasks of a stream with the id of the query"
        return _write(iterator, self._options, self._layout, query)


def _write(
    batches: Iterator[pyarrow.RecordBatch], options: SinkOptions, layout: RowLayout, query: str
) -> Written:
    transactional_id = None
    if options.transactional_prefix is not None:
        # Attempts of a task have the same one, so that a new attempt fences the one before it.
        transactional_id = f"{options.transactional_prefix}-{query}-{_task().partitionId()}"
    written = 0
    with producers.task_producer(options, transactional_id) as producer:
        for batch in batches:
            for rows in layout.rows(batch, written):
                producer.send(rows)
            written += batch.num_rows
        if task_input.was_cut_off():
            raise EOFError(
                f"the rows of the task were cut off after {written}: an earlier step of the task"
                " failed, or the task was cancelled"
            )
    return Written(written)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "a writer writes in a task"
    return task
