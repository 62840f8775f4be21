"""The daemon that Spark forks its Python workers from."""

import subprocess
import sys

LOOK = """
import os, sys, threading
import aktor.spark.daemon
threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc") else threading.active_count()
print("aktor.consumer.system" in sys.modules, "pyspark.worker" in sys.modules)
print([name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules])
print(threads)
"""


def test_it_has_aktor_imported_and_nothing_that_starts_threads() -> None:
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)

    assert found.stdout.splitlines() == ["True True", "[]", "1"]
