"""The reader of a stream: it hands Spark's calls to the plan and to the group's mirror."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from aktor.spark.driver.group_mirror import GroupMirror
from aktor.spark.driver.stream_plan import StreamPlan
from aktor.spark.offsets.checkpoint import from_json
from aktor.spark.options.source import SourceOptions
from aktor.spark.tasks.input_partition import RangesPartition
from aktor.spark.tasks.task_reader import TaskReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from aktor.spark.driver.cluster import DriverCluster

__all__ = ["RefusedStream", "StreamReader"]


class StreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Owns the plan of a running query, in the process that Spark runs for the query's driver side.

    Spark also copies the reader to each task, which calls `read` only. So the plan and its consumer
    are made by the first call that needs them, and are not pickled.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._cluster: DriverCluster | None = None
        self._plan: StreamPlan | None = None
        self._mirror: GroupMirror | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None, "_plan": None, "_mirror": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self._planned().initial()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends where the partitions end now."""
        self._planned().pin()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Any limit: Spark hands it back unless it wants everything. The options have the limits,
        several of them at once, which Spark's classes cannot say."""
        return ReadMaxRows(2**63 - 1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. `start` is the end of the last finished batch."""
        end = self._planned().latest(start, everything=isinstance(limit, ReadAllAvailable))
        if self._mirror is not None:
            self._mirror.show(from_json(start))
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the partitions end, for the progress of the query."""
        return self._planned().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return [RangesPartition(task) for task in self._planned().tasks(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """The batch with this end is finished."""
        self._planned()
        if self._mirror is not None:
            self._mirror.show(from_json(end))

    def stop(self) -> None:
        """The query has ended."""
        cluster, self._cluster, self._plan, self._mirror = self._cluster, None, None, None
        if cluster is not None:
            cluster.close()

    def _planned(self) -> StreamPlan:
        if self._plan is None:
            # Not at the top: it imports the consumer. The process that copies the reader for the
            # tasks does not need it.
            from aktor.spark.driver.cluster import DriverCluster

            self._cluster = cluster = DriverCluster(self._options)
            jvm = os.getppid()
            self._plan = StreamPlan(
                self._options,
                cluster,
                clock=time.monotonic,
                wall_clock=time.time,
                sleep=time.sleep,
                # A killed JVM ends this process only when the process reads from it again.
                wanted=lambda: os.getppid() == jvm,
            )
            if self._options.commit_offsets:
                group = self._options.client["group.id"]
                self._mirror = GroupMirror(cluster.commit, group)
        return self._plan


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream that cannot be: the first call of Spark raises the error with which it
    could not be made.

    PySpark 4.3 stops the reader of a stream also if there is none, so that an error in
    `DataSource.streamReader` has an UnboundLocalError of PySpark's below it, the last line that a
    user reads. Spark calls a reader as soon as it has one, before it plans a batch.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._refuse()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()
