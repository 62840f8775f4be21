"""The daemon that Spark forks its Python workers from."""

import subprocess
import sys
from pathlib import Path

import pytest

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


#: PySpark's daemon runs the `main` of the module that its argument names. This one has something to
#: say when Spark, at the other end, has gone.
WORKER = """
import os, socket, sys
import aktor.spark.daemon, pyspark.daemon

def main(infile, outfile):
    spark.close()
    outfile.write(b"rows")
    {then}

if __name__ == "__main__":
    sys.argv[1:] = ["pyspark_of_a_test"]
    sys.modules["pyspark_of_a_test"] = sys.modules["__main__"]
    spark, connection = socket.socketpair()
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"
    aktor.spark.daemon.end_in_silence()
    pyspark.daemon.worker(connection, True)
"""


@pytest.mark.parametrize(
    ("then", "said"), [("", ""), ("raise OSError('of its own')", "OSError: of its own")]
)
def test_a_worker_whose_connection_spark_has_closed_ends_in_silence(
    tmp_path: Path, then: str, said: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WORKER.format(then=then))

    found = subprocess.run([sys.executable, program], capture_output=True, text=True)

    assert found.returncode == 1
    assert said in found.stderr
    assert bool(found.stderr) == bool(said)
