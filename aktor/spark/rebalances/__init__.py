"""The rebalances of consumer groups, from the trace files of many members, by PySpark.

    tables = analyse_logs(spark, "logs/*.jsonl")
    tables["rebalances"].orderBy("duration_ms", ascending=False).show()

or `python -m aktor.spark.rebalances LOGS --out FOLDER [--stream]`. docs/spark_rebalances.md has the
tables; `aktor.trace.rebalances` makes the same of the files of one machine, without Spark.
"""

from __future__ import annotations

from aktor.spark.rebalances.job import Tables, analyse_logs, write_tables
from aktor.spark.rebalances.stream import follow_logs, read_stream

__all__ = ["Tables", "analyse_logs", "follow_logs", "read_stream", "write_tables"]
