"""The same as a stream: over the files that come into a folder.

The watermark is `lateness` seconds before the newest event. Events up to the watermark are
complete: no earlier one is expected, and one that comes all the same is counted as late and left
out. Events after the watermark are pending. A batch gives the complete events to the `GroupTraces`
of their group, and keeps that state. It gives the pending events to a copy only, for the rows that
may still change (`open`): so the tables always show all that is known.

The folder has the complete rows of all batches, and the open rows of the last one. For the last two
batches it also has the states of the groups, the pending events and the watermark. A batch that is
run again after a crash begins with those of the batch before, and writes its own anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from aktor.spark.rebalances.analysis import STATE_DDL, analyse
from aktor.spark.rebalances.job import Tables, keep, name_files
from aktor.spark.rebalances.selection import EVENTS_DDL, select_events
from aktor.spark.rebalances.tables import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["LATENESS", "OPEN", "files_at", "follow_logs", "has_begun", "read_stream"]

#: Seconds by which an event may be later than others.
LATENESS: Final = 300.0

#: The folder of the rows that may still change.
OPEN: Final = "open"


def follow_logs(
    spark: SparkSession,
    logs: str,
    folder: str,
    *,
    lateness: float = LATENESS,
    once: bool = False,
    files_per_batch: int = 1000,
    then: Callable[[], None] | None = None,
) -> StreamingQuery:
    """Keep the tables of the trace files in the folder `logs`, and of those that come, in `folder`
    (see `read_stream`).

    Each file is read once: one must be complete when it comes into the folder. With `once` the
    query ends when it has read those that are there. `then` is called after each batch.
    """
    reader = spark.readStream.option("maxFilesPerTrigger", files_per_batch)
    lines = reader.text(logs, recursiveFileLookup=True)
    batches = _Batches(spark, folder, lateness)

    def take(batch: DataFrame, number: int) -> None:
        batches.take(batch, number)
        if then is not None:
            then()

    writer = name_files(lines).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    trigger = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="10 seconds")
    )
    return trigger.start()


def read_stream(spark: SparkSession, folder: str) -> Tables:
    """The tables that a stream has made: what is complete, and what is open."""
    complete = spark.read.parquet(f"{folder}/complete").drop("batch")
    return Tables(complete.unionByName(spark.read.parquet(f"{folder}/{OPEN}")))


@dataclass(frozen=True, slots=True)
class _Batches:
    """Takes the batches of one stream."""

    spark: SparkSession
    folder: str
    lateness: float

    def take(self, lines: DataFrame, number: int) -> None:
        """One batch of lines."""
        selected = keep(select_events(lines))
        before, watermark = self._watermarks(selected, number)
        is_late = F.col("group").isNotNull() & (F.col("t") <= F.lit(before))
        events = selected.where(~F.coalesce(is_late, F.lit(False)))
        events = events.unionByName(self._read("pending", number - 1, EVENTS_DDL))
        states = self._read("states", number - 1, STATE_DDL)
        rows = keep(analyse(events, watermark=watermark, states=states))
        late = selected.where(is_late).groupBy().agg(F.count("*").alias("lines"))
        late = late.where("lines > 0").selectExpr(
            "false AS open", f"struct('late' AS what, lines) AS {COUNTS}"
        )
        made = rows.where("state IS NULL").drop("group", "state")
        complete = made.where("NOT open").unionByName(late, allowMissingColumns=True)
        _write(complete, f"{self.folder}/complete/batch={number}")
        _write(made.where("open"), f"{self.folder}/{OPEN}")
        is_pending = F.col("group").isNotNull() & (F.col("t") > F.lit(watermark))
        _write(events.where(is_pending), self._place("pending", number))
        states = rows.where("state IS NOT NULL").select("group", "state")
        _write(states, self._place("states", number))
        mark = self.spark.range(1).select(F.lit(watermark).cast("double").alias("watermark"))
        _write(mark, self._place("watermark", number))
        for frame in (rows, selected):
            frame.unpersist()
        self._forget(number - 2)

    def _watermarks(self, selected: DataFrame, number: int) -> tuple[float, float]:
        """Until when the batch before was complete, and until when this one is."""
        before = self._read("watermark", number - 1, "watermark double").first()
        reached = float("-inf") if before is None else float(before[0])
        latest = selected.agg(F.max("t")).first()
        if latest is None or latest[0] is None:
            return reached, reached
        return reached, max(reached, float(latest[0]) - self.lateness)

    def _place(self, what: str, number: int) -> str:
        return f"{self.folder}/{what}/{number}"

    def _read(self, what: str, number: int, schema: str) -> DataFrame:
        if number < 0:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(self._place(what, number))

    def _forget(self, number: int) -> None:
        """Nothing goes on from this batch any more."""
        for what in ("pending", "states", "watermark"):
            files, path = files_at(self.spark, self._place(what, number))
            files.delete(path, True)


def has_begun(spark: SparkSession, folder: str) -> bool:
    """Whether a stream has made tables in this folder, that `read_stream` can read."""
    files, path = files_at(spark, f"{folder}/complete")
    return bool(files.exists(path))


def files_at(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """The file system that has this place, and its path there (Hadoop's objects). Raises
    Py4JJavaError if Spark does not have such a file system."""
    path = spark._jvm.org.apache.hadoop.fs.Path(place)  # type: ignore[union-attr]
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path


def _write(frame: DataFrame, place: str) -> None:
    frame.write.mode("overwrite").parquet(place)
