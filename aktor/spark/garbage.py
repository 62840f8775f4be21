"""The garbage collection of Spark's Python workers."""

from __future__ import annotations

import gc

from pyspark import TaskContext

__all__ = ["leave_out_what_is_there"]


def leave_out_what_is_there() -> None:
    """Spark's daemon collects garbage after each task. With pyarrow loaded that takes 16-30 ms,
    unless the objects that stay anyway are left out. Not where this is no worker of Spark's, as in
    tests: what is left out is never collected."""
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
