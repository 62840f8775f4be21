"""The processes that plan streams, forked from one that has imported all that they need.

Spark starts a process for each stream. With imports it takes 0.7 s of processor time until it can
plan. With `PYSPARK_PYTHON=aktor-spark-python` it is asked for here (`aktor.spark_python`), with the
connection to Spark that is there already, and it shares its memory with the others.

`start` is called in the daemon from which Spark forks the processes that make data sources. It is
there before the first stream, and as long as the Spark application.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import struct
import sys
import threading
from typing import Any, Final, NoReturn

from aktor import spark_python

__all__ = ["start"]

#: How often it is looked whether the daemon is there, in seconds: as often as the daemon itself
#: wakes up.
_LOOK: Final = 1.0

#: How long an asker may take for its request, in seconds.
_PATIENCE: Final = 10.0

#: pyarrow would start a thread of its allocator, and numpy those of its matrices. A fork copies
#: only the thread that forks, so that a lock which another thread holds would never be free again.
_NO_THREADS: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
}


def start() -> None:
    """Fork the process from which planners are forked, unless there is no way to ask for one."""
    address = spark_python.planners()
    if address is None:
        return
    # The child must not ask for it: if this process has ended by then, it would be told another's.
    daemon = os.getpid()
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(address)
        os.chmod(address, 0o600)
        listening.listen(64)
        pid = os.fork()
    except OSError:  # such as a path that is too long, or one at which others listen already
        listening.close()
        return
    if pid:
        listening.close()
    else:
        _run(lambda: _serve(listening, daemon))


def _run(work: Any) -> NoReturn:
    """Nothing of the process that was forked goes on in this one."""
    code: Any = 0
    try:
        work()
    except SystemExit as error:
        code = error.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    os._exit(code & 0xFF)


def _serve(listening: socket.socket, daemon: int) -> None:
    """Fork a process for each asker, as long as the daemon is there."""
    _take_away_stdin()
    imported = False
    while os.getppid() == daemon:
        _reap()
        if not select.select([listening], [], [], _LOOK)[0]:
            continue
        asker, _ = listening.accept()
        if not imported:
            _import()
            imported = True
        with contextlib.suppress(OSError):  # then the asker is told nothing, and goes its own way
            if not os.fork():
                listening.close()
                _run(lambda asker=asker: _plan(asker))
        asker.close()


def _reap() -> None:
    """Take notice of the planners that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _take_away_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    # Spark reads from the stdout of its daemon where to connect to.
    os.dup2(nothing, 1)
    os.close(nothing)


def _import() -> None:
    """What a planner needs. It is imported when the first stream starts, since many applications
    have none."""
    kept = {name: os.environ.get(name) for name in _NO_THREADS}
    os.environ.update(_NO_THREADS)
    import pyspark.sql.streaming.python_streaming_source_runner  # noqa: F401

    import aktor.consumer.kind
    import aktor.spark.driver.cluster
    import aktor.spark.driver.stream
    import aktor.spark.source  # noqa: F401

    for name, value in kept.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value
    gc.collect()
    gc.freeze()


def _plan(asker: socket.socket) -> None:
    """Become the process for which the asker was started."""
    asker.settimeout(_PATIENCE)
    try:
        environment, given = _request(asker)
        if environment is None:
            return
        asker.sendall(spark_python.READY)
        if asker.recv(1) != spark_python.BEGIN:
            return
    except (OSError, struct.error):  # the asker has given up
        return
    asker.close()
    os.environb.clear()
    os.environb.update(environment)
    *streams, connection = given
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    _run_planner(socket.socket(fileno=connection))


def _request(asker: socket.socket) -> tuple[dict[bytes, bytes] | None, list[int]]:
    """The environment of the asker, its stdout, its stderr and its connection to Spark. No
    environment if this process would find other modules than the asker."""
    head, given, _, _ = socket.recv_fds(asker, 4, 3)
    (size,) = struct.unpack("!I", head)
    text = b""
    while len(text) < size:
        part = asker.recv(size - len(text))
        if not part:
            return None, given
        text += part
    environment = dict(entry.partition(b"=")[::2] for entry in text.split(b"\0"))
    if environment.get(b"PYTHONPATH") != os.environb.get(b"PYTHONPATH"):
        return None, given
    return environment, given


def _run_planner(connection: socket.socket) -> None:
    """What `python -m RUNNER` does, but that it ends in silence when Spark stops the stream.

    Spark would send SIGTERM to the process that it started itself. To this one it closes the
    connection, also while a request to a broker is waited for.
    """
    from pyspark.serializers import write_int
    from pyspark.sql.streaming import python_streaming_source_runner as runner

    connection.settimeout(None)
    file = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536)))
    write_int(os.getpid(), file)  # type: ignore[no-untyped-call]
    file.flush()
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    spark: Any = _Spark(file)
    runner.main(spark, spark)


def _end_with(connection: int) -> NoReturn:
    """End the process when Spark has closed the connection."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0))
    poll.poll()
    os._exit(0)


class _Spark:
    """The file to Spark. Its end is the end of this process, and no error of which PySpark would
    tell a Spark that does not listen any more."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.write, self.flush = file.write, file.flush

    def read(self, size: int = -1) -> bytes:
        """What Spark has sent."""
        found: bytes = self._file.read(size)
        if not found and size:
            os._exit(0)
        return found
