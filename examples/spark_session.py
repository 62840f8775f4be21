"""A session of Spark for the examples: Ctrl-C ends the program as soon as the session is there, and
prints no traceback.

With the context PySpark sets a handler for Ctrl-C that calls the JVM in the middle of another call,
and py4j then prints tracebacks. It does so in the main thread only, so the context is made in
another one. The session is not: Spark looks for formats in the session that the thread has made.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

from aktor.spark import register


def session_of(settings: Mapping[str, str]) -> Any:
    """A session on two cores, and no handler for Ctrl-C."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster("local[2]").setAll(list(settings.items()))
    with ThreadPoolExecutor(1) as another:
        another.submit(SparkContext.getOrCreate, conf).result()
    return SparkSession.builder.getOrCreate()


def new_session() -> Any:
    """A session that runs two tasks at a time, and knows the format `aktor`."""
    interrupted = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("interrupted: it ends when Spark has started (Ctrl-C again: now)", file=sys.stderr)
        interrupted.set()

    signal.signal(signal.SIGINT, hear)
    spark = session_of({})
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())

    def end() -> None:
        interrupted.wait()
        # The JVM ends with this process. It would tell of each Python process that ends before it.
        spark.sparkContext.setLogLevel("OFF")
        os._exit(130)

    threading.Thread(target=end, daemon=True).start()
    register(spark)
    return spark
