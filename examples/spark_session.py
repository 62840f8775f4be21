"""A session of Spark for the examples: Ctrl-C ends the program as soon as the session is there, and
prints no traceback.

PySpark sets a handler for Ctrl-C that calls the JVM in the middle of another call, and py4j then
prints tracebacks. It does so in the main thread only, so the session is made in another one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

from aktor.spark import register


def new_session() -> Any:
    """A session that runs two tasks at a time, and knows the format `aktor`."""
    interrupted = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("interrupted: it ends when Spark has started (Ctrl-C again: now)", file=sys.stderr)
        interrupted.set()

    signal.signal(signal.SIGINT, hear)
    from pyspark.sql import SparkSession

    with ThreadPoolExecutor(1) as another:
        spark = another.submit(SparkSession.builder.master("local[2]").getOrCreate).result()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())

    def end() -> None:
        interrupted.wait()
        # The JVM ends with this process. It would tell of each Python process that ends before it.
        spark.sparkContext.setLogLevel("OFF")
        os._exit(130)

    threading.Thread(target=end, daemon=True).start()
    register(spark)
    return spark
