"""The command `aktor-spark-python`, for PYSPARK_PYTHON: Spark's streams start without imports.

Spark starts each of its Python processes as `PYSPARK_PYTHON -m MODULE ...`. This command runs the
Python that it was installed for, with three differences:

- a process that has to connect to Spark does so before it imports anything. Spark gives it 10 s
  ("Python worker failed to connect back"), and PySpark's imports alone take longer on a machine
  that is busy. A process that is connected may take its time;
- a process that plans a stream is forked from one that has imported PySpark and aktor already
  (`aktor.spark.planners`), if that one is there;
- PySpark's daemon is replaced by `aktor.spark.daemon`, which is the same with aktor imported.

It is not in `aktor.spark`, whose import takes longer than all that this has to do.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Any, Final

__all__ = ["BEGIN", "READY", "RUNNER", "WANTED", "main", "planners"]

#: The module whose process plans a stream.
RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"

#: A variable of the environment: planners will be asked for.
WANTED: Final = "AKTOR_SPARK_PLANNERS"

# The asker sends its environment, its stdout, its stderr and its connection to Spark; the new
# process says that it is ready; the asker tells it to begin. Until then each of them can give up,
# and the asker becomes that process itself: there are never two for one stream.
READY: Final = b"r"
BEGIN: Final = b"b"

#: How long the asker waits, in seconds. The first one waits for the imports of that process, and
#: its own would take as long.
_PATIENCE: Final = 60.0

#: How long Spark may take to say that the secret is right, in seconds, unless this variable says
#: it: as in PySpark's `local_connect_and_auth`.
_AUTH_TIMEOUT: Final = "SPARK_AUTH_SOCKET_TIMEOUT", 15


def main() -> int:
    """0 if another process plans the stream; else this one becomes Python, or that process."""
    arguments = sys.argv[1:]
    connection = _connection() if _has_to_connect(arguments) else None
    if connection is not None:
        module = arguments[1]
        if module != RUNNER or not _is_done_by_another(connection):
            _run(module, connection)
        return 0
    if arguments[:2] == ["-m", "pyspark.daemon"]:
        arguments[1] = "aktor.spark.daemon"
    os.environ[WANTED] = "1"
    os.execv(sys.executable, [sys.executable, *arguments])


def planners() -> str | None:
    """The socket on which planners are asked for: in the folder of this Spark application."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return os.path.join(folder, ".aktor") if folder else None


def _has_to_connect(arguments: list[str]) -> bool:
    """Spark's daemon has an argument more, and Spark connects to it."""
    return len(arguments) == 2 and arguments[0] == "-m" and arguments[1].startswith("pyspark.")


def _connection() -> socket.socket | None:
    """A connection to Spark, as PySpark's `local_connect_and_auth` makes it. None if there is none:
    then PySpark says why."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    timeout = int(os.environ.get(_AUTH_TIMEOUT[0], _AUTH_TIMEOUT[1]))
    try:
        if path is not None:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(timeout)
            connection.connect(path)
            return connection
        port = int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
        prefers_6 = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
        connection = socket.create_connection(("::1" if prefers_6 else "127.0.0.1", port), timeout)
        if secret is None or not _is_let_in(connection, secret.encode()):
            connection.close()
            return None
    except (OSError, KeyError, ValueError):
        return None
    return connection


def _is_let_in(connection: socket.socket, secret: bytes) -> bool:
    connection.sendall(struct.pack("!i", len(secret)) + secret)
    answer = b""
    while len(answer) < 6:
        part = connection.recv(6 - len(answer))
        if not part:
            return False
        answer += part
    return answer == b"\0\0\0\2ok"


def _is_done_by_another(connection: socket.socket) -> bool:
    address = planners()
    if address is None or not os.path.exists(address):
        return False
    there = b"\0".join(name + b"=" + value for name, value in os.environb.items())
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_PATIENCE)
            asking.connect(address)
            size = struct.pack("!I", len(there))
            socket.send_fds(asking, [size], [1, 2, connection.fileno()])
            asking.sendall(there)
            if asking.recv(1) != READY:
                return False
            asking.sendall(BEGIN)
            return True
    except OSError:
        return False


def _run(module: str, connection: socket.socket) -> None:
    """What `python -m MODULE` does, but that its first connection to Spark is there already."""
    import runpy

    sys.argv = [module]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    import pyspark.util

    util: Any = pyspark.util
    connect = util.local_connect_and_auth
    there = [connection]

    def connected(*given: Any) -> Any:
        if not there:
            return connect(*given)
        found = there.pop()
        return found.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536))), found

    util.local_connect_and_auth = connected
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.exit(main())
