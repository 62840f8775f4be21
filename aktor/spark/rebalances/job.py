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

__all__ = ["Tables", "analyse_logs", "keep", "name_files", "read_lines", "write_tables"]


class Tables(Mapping[str, "DataFrame"]):
    """The tables that an analysis is made of. `close` frees what it holds."""

    def __init__(self, rows: DataFrame) -> None:
        self.rows = rows

    def __getitem__(self, table: str) -> DataFrame:
        if table not in (*TABLES, COUNTS):
            raise KeyError(table)
        found = self.rows.where(F.col(table).isNotNull()).select(f"{table}.*")
        if table == COUNTS:
            return found.groupBy("what").agg(F.sum("lines").alias("lines"))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter((*TABLES, COUNTS))

    def __len__(self) -> int:
        return len(TABLES) + 1

    def close(self) -> None:
        """Free the rows."""
        self.rows.unpersist()


def keep(rows: DataFrame) -> DataFrame:
    """Compute this only once."""
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def read_lines(spark: SparkSession, logs: str) -> DataFrame:
    """The lines of all files that `logs` names (a file, a folder with those in it, a pattern),
    compressed or not."""
    return name_files(spark.read.text(logs, recursiveFileLookup=True))


def name_files(lines: DataFrame) -> DataFrame:
    """Each line with the file that it is from."""
    return lines.select("value", F.col("_metadata.file_path").alias("file"))


def analyse_logs(spark: SparkSession, logs: str) -> Tables:
    """The tables of these trace files."""
    return Tables(keep(analyse(select_events(read_lines(spark, logs)))))


def write_tables(tables: Mapping[str, DataFrame], folder: str) -> None:
    """Write each table as Parquet, in a folder of its name."""
    for table, frame in tables.items():
        frame.write.mode("overwrite").parquet(f"{folder}/{table}")
