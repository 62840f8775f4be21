"""PySpark's daemon with aktor already imported: `spark.python.daemon.module=aktor.spark.daemon`.

Spark forks a Python worker from this daemon for each task slot, and one to plan each batch query.
With PySpark's own daemon each of them imports aktor and kafka-python anew, which takes 0.2 s. (The
process that plans the batches of a stream is not forked from a daemon.)
"""

from __future__ import annotations

import os
import sys
from typing import Final

import pyspark.sql.datasource
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

# What a reader and a planner need, but pyarrow: its import starts threads. A fork copies
# only the thread that forks, so that a lock which another thread holds would never be free again.
import aktor.consumer.system
import aktor.spark.driver.cluster
import aktor.spark.driver.stream_plan
import aktor.spark.tasks.input_partition  # noqa: F401
from aktor import spark_python
from aktor.spark import planners

__all__ = ["manager"]

#: The worker module of the daemon that is there before the first stream.
_FIRST: Final = "pyspark.sql.worker.create_data_source"

if __name__ == "__main__":
    if spark_python.WANTED in os.environ and sys.argv[1:2] == [_FIRST]:
        os.setpgid(0, 0)  # as `manager` does: what is forked ends with it
        planners.start()
    manager()
