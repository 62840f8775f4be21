"""The part of a reader that Spark uses in the tasks: of a batch query and of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from aktor.spark.options.source import SourceOptions
from aktor.spark.tasks.columns import Layout, check_named_once, conditions_of
from aktor.spark.tasks.input_partition import RangesPartition

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["TaskReader"]


class TaskReader:
    """Owns the options, the columns and the conditions of a query. Spark makes it in the driver,
    and copies it to each task.

    Raises ConfigurationError if they do not fit together.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        check_named_once(options, schema)
        self._where = conditions_of(options, schema)
        self._layout()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options})"

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The records of a task, as Arrow batches."""
        # Not at the top: it imports the consumer, and most processes of a query need only the
        # schema.
        from aktor.spark.tasks import worker

        assert isinstance(partition, RangesPartition)
        return worker.read_task(partition.ranges, self._options, self._layout())

    def _layout(self) -> Layout:
        options = self._options
        return Layout(self._schema, decode=options.decode, values=options.values, where=self._where)
