"""The data source that Spark knows as `aktor`, and its reader for batch queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from aktor.errors import ConfigurationError
from aktor.spark.filters.pruning import pruned
from aktor.spark.filters.pushed_filters import read_filters
from aktor.spark.log import tell
from aktor.spark.offsets import data_loss, ranges
from aktor.spark.offsets.ranges import OffsetRange, name_of
from aktor.spark.options.sink import read_sink_options
from aktor.spark.options.source import OF_BATCHES, read_options
from aktor.spark.tasks import columns
from aktor.spark.tasks.input_partition import RangesPartition
from aktor.spark.tasks.task_reader import TaskReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from aktor.spark.driver.cluster import DriverCluster
    from aktor.spark.driver.stream import RefusedStream, StreamReader
    from aktor.spark.sink.writer import BatchWriter, StreamWriter

__all__ = ["KafkaDataSource"]


class KafkaDataSource(DataSource):
    """`spark.read.format("aktor")` and `spark.readStream.format("aktor")`; see docs/spark.md.

    Spark makes it in several processes, and hands over the names of options in lower case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)

    def __repr__(self) -> str:
        return f"KafkaDataSource({', '.join(sorted(self._given))})"

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "aktor"

    def schema(self) -> StructType:
        """The columns, unless the user names them by `.schema(...)`."""
        return columns.full_schema(read_options(self._given, stream=self._is_stream()))

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        return BatchReader(read_options(self._given, stream=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader | RefusedStream:
        """For `spark.readStream`. What is wrong with the options is an error of the reader's first
        call: see `RefusedStream`."""
        from aktor.spark.driver.stream import RefusedStream, StreamReader

        try:
            return StreamReader(read_options(self._given, stream=True), schema)
        except Exception as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        from aktor.spark.sink.writer import BatchWriter

        return BatchWriter(read_sink_options(self._given), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        from aktor.spark.sink.writer import StreamWriter

        return StreamWriter(read_sink_options(self._given), schema)

    def _is_stream(self) -> bool:
        """Spark asks for the schema without saying which kind of query this is. An option that only
        one kind may have is refused when the reader of the other kind is made."""
        of_batches = {name.lower() for name in OF_BATCHES}
        return not of_batches & {name.lower() for name in self._given}


class _PushFilters:
    """The method `pushFilters` of a reader, which PySpark takes for the one that it inherits.

    PySpark refuses each batch query of a source that defines this method, as long as
    spark.sql.python.filterPushdown.enabled is false (its default). It looks at `__func__`.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[Sequence[Filter]], Sequence[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        return self._push(filters)


class BatchReader(TaskReader, DataSourceReader):
    """Plans a batch query, and reads it."""

    @property
    def pushFilters(self) -> Callable[[Sequence[Filter]], Sequence[Filter]]:
        """Take the filters of a query, and say which of them Spark has to apply all the same.

        With the option `pushFilters=true` PySpark may refuse the query where the setting is off,
        and names it: only PySpark knows the setting in this process.
        """
        return self._push if self._options.push_filters else _PushFilters(self._push)

    def _push(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        """Filters are taken only if the user says that the DataFrame is for one query.

        Spark 4.3 has one plan of a Python source for all queries of a DataFrame, that of the filter
        which came last (`PythonDataSourceV2.setReadInfo`). A query without a filter, or another
        branch of the same query, would get the rows of that filter.
        """
        if not filters:
            return filters
        if not self._options.push_filters:
            tell(
                "filters of the query are left to Spark (pushFilters=true: for a DataFrame that is"
                " used once): %s",
                filters,
            )
            return filters
        kinds = columns.condition_kinds(self._schema, self._options)
        found, left = read_filters(filters, kinds)
        self._where = (*self._where, *found)
        tell("filters of the query: %s; Spark applies these itself: %s", filters, left)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. Offsets are looked up here only, so that a task that is tried again reads the
        same records."""
        # Not at the top: it imports the consumer, and most processes of a query need only the
        # schema.
        from aktor.spark.driver.cluster import DriverCluster

        cluster = DriverCluster(self._options)
        try:
            whole = self.ranges(cluster)
            found = pruned(whole, self._where, cluster)
        finally:
            cluster.close()
        if self._where:
            left, there = (sum(span.size for span in some) for some in (found, whole))
            tell("conditions leave %d of %d offsets to read", left, there)
        # Spark runs one task even if there is none, and would give it no partition of ours.
        tasks = ranges.tasks(found, self._options.range_limits) or [()]
        return [RangesPartition(task) for task in tasks]

    def ranges(self, cluster: DriverCluster) -> list[OffsetRange]:
        """The range of each partition, empty ones included.

        The first offsets are looked up before the start, and the last ones after the end. In
        another order, a record that retention deletes in between would end a query that begins at
        "earliest" with DataLossError.
        """
        options = self._options
        there, ids = cluster.partitions()
        now = int(time.time() * 1000)
        first = cluster.beginning_offsets(there)
        start = options.starting.resolve(there, cluster, now)
        end = options.ending.resolve(there, cluster, now)
        last = cluster.end_offsets(there)
        for partition in there:
            if start[partition] > end[partition]:
                raise ConfigurationError(
                    f"{name_of(partition)} would begin with offset"
                    f" {start[partition]} ({options.starting.option}) and end with {end[partition]}"
                    f" ({options.ending.option})"
                )
        found = []
        for partition in there:
            begin, stop = (
                max(start[partition], first[partition]),
                min(end[partition], last[partition]),
            )
            if start[partition] < end[partition] and (begin, stop) != (
                start[partition],
                end[partition],
            ):
                data_loss.report(
                    f"{name_of(partition)} was to be read from offset"
                    f" {start[partition]} to {end[partition]}, and has those from"
                    f" {first[partition]} to {last[partition]}",
                    fail=options.fail_on_data_loss,
                )
            found.append(
                OffsetRange(
                    partition.topic, partition.partition, begin, stop, ids.get(partition.topic)
                )
            )
        return found
