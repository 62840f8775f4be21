"""All of the logs at once: lines to events to tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from aktor.spark.rebalances.analysis import analyse
from aktor.spark.rebalances.selection import select_events
from aktor.spark.rebalances.tables import COUNTS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Tables", "analyse_logs", "read_lines", "write_tables"]


class Tables(Mapping[str, "DataFrame"]):
    """Owns the analysis, computed once for all of its tables. `close` frees what it holds."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows.persist(StorageLevel.MEMORY_AND_DISK)

    def __getitem__(self, table: str) -> DataFrame:
        if table == COUNTS:
            counts = self._rows.where(F.col(COUNTS).isNotNull()).select(f"{COUNTS}.*")
            return counts.groupBy("what").agg(F.sum("lines").alias("lines"))
        if table not in TABLES:
            raise KeyError(table)
        return self._rows.where(F.col(table).isNotNull()).select(f"{table}.*")

    def __iter__(self) -> Iterator[str]:
        return iter((*TABLES, COUNTS))

    def __len__(self) -> int:
        return len(TABLES) + 1

    def close(self) -> None:
        """Free the rows."""
        self._rows.unpersist()


def read_lines(spark: SparkSession, logs: str) -> DataFrame:
    """The lines of all files that `logs` names (a file, a folder, a pattern), compressed or not."""
    return spark.read.text(logs).select("value", F.col("_metadata.file_path").alias("file"))


def analyse_logs(spark: SparkSession, logs: str) -> Tables:
    """The tables of these trace files."""
    return Tables(analyse(select_events(read_lines(spark, logs))))


def write_tables(tables: Mapping[str, DataFrame], folder: str) -> None:
    """Write each table as Parquet, in a folder of its name."""
    for table, frame in tables.items():
        frame.write.mode("overwrite").parquet(f"{folder}/{table}")
