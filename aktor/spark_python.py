"""The command `aktor-spark-python`, for PYSPARK_PYTHON: Spark's streams start without imports.

Spark starts each of its Python processes as `PYSPARK_PYTHON -m MODULE ...`. This command runs the
Python that it was installed for, with two differences:

- a process that plans a stream is forked from one that has imported PySpark and aktor already
  (`aktor.spark.planners`), if that one is there. A process of its own would import them anew for
  each stream, and Spark ends a stream whose process has not connected to it within 10 s;
- PySpark's daemon is replaced by `aktor.spark.daemon`, which is the same with aktor imported.

It is not in `aktor.spark`, whose import takes longer than all that this has to do.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

__all__ = ["BEGIN", "READY", "RUNNER", "WANTED", "main", "planners"]

#: The module whose process plans a stream.
RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"

#: A variable of the environment: planners will be asked for.
WANTED: Final = "AKTOR_SPARK_PLANNERS"

# The asker sends its environment, and its stdout and stderr; the new process says that it is ready;
# the asker tells it to begin. Until then each of them can give up, and the asker becomes that
# process itself: there are never two for one stream.
READY: Final = b"r"
BEGIN: Final = b"b"

#: How long the asker waits, in seconds. Spark gives it 10.
_PATIENCE: Final = 4.0


def main() -> int:
    """0 if another process plans the stream; else this one becomes Python."""
    arguments = sys.argv[1:]
    if arguments == ["-m", RUNNER] and _is_done_by_another():
        return 0
    if arguments[:2] == ["-m", "pyspark.daemon"]:
        arguments[1] = "aktor.spark.daemon"
    os.environ[WANTED] = "1"
    os.execv(sys.executable, [sys.executable, *arguments])


def planners() -> Path | None:
    """The socket on which planners are asked for: in the folder of this Spark application."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return Path(folder, ".aktor") if folder else None


def _is_done_by_another() -> bool:
    address = planners()
    if address is None or not address.exists():
        return False
    there = b"\0".join(name + b"=" + value for name, value in os.environb.items())
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_PATIENCE)
            asking.connect(str(address))
            socket.send_fds(asking, [struct.pack("!I", len(there))], [1, 2])
            asking.sendall(there)
            if asking.recv(1) != READY:
                return False
            asking.sendall(BEGIN)
            return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
