"""The daemon that Spark forks its Python workers from."""

import subprocess
import sys

LOOK = """
import sys, threading
import aktor.spark.daemon
print("aktor.consumer.system" in sys.modules, "pyspark.worker" in sys.modules)
print([name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules])
print(threading.active_count())
"""


def test_it_has_aktor_imported_and_nothing_that_starts_threads() -> None:
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)

    assert found.stdout.splitlines() == ["True True", "[]", "1"]
