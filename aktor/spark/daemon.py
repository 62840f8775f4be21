"""PySpark's daemon with aktor already imported: `spark.python.daemon.module=aktor.spark.daemon`.

Spark forks a Python worker from this daemon for each task slot, and one to plan each batch query.
With PySpark's own daemon each of them imports aktor and kafka-python anew, which takes 0.2 s. (The
process that plans the batches of a stream is not forked from a daemon.)
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import pyspark.daemon
import pyspark.sql.datasource
import pyspark.worker
from pyspark.daemon import manager

# What a reader and a planner need, but pyarrow: its import starts threads. A fork copies
# only the thread that forks, so that a lock which another thread holds would never be free again.
import aktor.consumer.kind
import aktor.spark.driver.cluster
import aktor.spark.driver.stream_plan
import aktor.spark.tasks.input_partition  # noqa: F401
from aktor import spark_python
from aktor.spark import planners

__all__ = ["end_in_silence", "manager"]

#: The worker module of the daemon that is there before the first stream.
_FIRST: Final = "pyspark.sql.worker.create_data_source"

#: The errors of who writes to a connection that the other end has closed.
_CLOSED: Final = (BrokenPipeError, ConnectionResetError)


def end_in_silence() -> None:
    """Let workers end without a word when Spark has closed their connection: at the stop of a
    query, when a `limit` ends a task early, after a minute without work. PySpark's `worker` raises
    BrokenPipeError there, and `manager` prints its traceback into the stderr of the driver and of
    the executors. Nobody hears what this worker would still say, so that nothing is lost."""
    daemon: Any = pyspark.daemon
    worker = daemon.worker

    def quiet(connection: Any, authenticated: bool) -> int:
        try:
            code: int = worker(connection, authenticated)
        except _CLOSED as error:
            if error.__context__ is not None and not isinstance(error.__context__, _CLOSED):
                raise  # the worker has an error of its own
            os._exit(1)  # as `manager` does after its traceback
        return code

    daemon.worker = quiet


if __name__ == "__main__":
    end_in_silence()
    if spark_python.WANTED in os.environ and sys.argv[1:2] == [_FIRST]:
        os.setpgid(0, 0)  # as `manager` does: what is forked ends with it
        planners.start()
    manager()
