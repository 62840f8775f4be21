"""`aktor-spark-python`: a stream's process is forked from one that has everything imported."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aktor import spark_python
from aktor.spark import planners

COMMAND = [sys.executable, "-m", "aktor.spark_python", "-m"]
DAEMON = "from aktor.spark import planners; planners.start(); print('up', flush=True); input()"
#: The daemon has ended before the process that it forked does its first step.
ENDED = """
import os, time
fork = os.fork
def late():
    daemon, pid = os.getpid(), fork()
    while not pid and os.getppid() == daemon:
        time.sleep(0.01)
    return pid
os.fork = late
from aktor.spark import planners
planners.start()
"""
#: In place of PySpark: its import takes until stdin is closed, and its runner says which of its
#: connections it has.
SLOW = """
import os, socket, sys
sys.stdin.read()
"""
SLOW_UTIL = """
def local_connect_and_auth(where, secret):
    return "another", None
"""
SLOW_RUNNER = """
import os, sys
from pyspark.util import local_connect_and_auth
file, _ = local_connect_and_auth(None, None)
again, _ = local_connect_and_auth(None, None)
file.write(f"{__name__} {again} {sys.argv[1:]} {sys.path[0] == os.getcwd()}".encode())
file.close()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a Spark application. (A path of pytest's may be too long for a socket.)"""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon that Spark starts, with the process from which planners are forked."""
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON],
        env=of(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


def of(folder: Path, **more: str) -> dict[str, str]:
    return os.environ | {"SPARK_LOCAL_DIRS": f"{folder},/elsewhere"} | more


class Spark:
    """Owns the socket to which a process of a stream connects, and the process that it started."""

    def __init__(self, folder: Path, **more: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        path = str(folder / "spark")
        self._listening.bind(path)
        self._listening.listen()
        self.started = subprocess.Popen(
            [*COMMAND, spark_python.RUNNER],
            env=of(folder, PYTHON_WORKER_FACTORY_SOCK_PATH=path, **more),
            stderr=subprocess.PIPE,
        )
        connection, _ = self._listening.accept()
        self._file = connection.makefile("rwb")
        connection.close()
        (self.pid,) = struct.unpack("!i", self._file.read(4))

    def close(self) -> bytes:
        """Stop the stream; what was written to stderr. The pipe ends with the stream's process."""
        self._file.close()
        self._listening.close()
        return self.started.communicate()[1]


def test_the_process_of_a_stream_is_forked_and_ends_in_silence_when_spark_closes_the_connection(
    folder: Path, daemon: subprocess.Popen[bytes]
) -> None:
    spark = Spark(folder, AKTOR_TEST="of the stream")

    assert spark.started.wait() == 0
    assert spark.pid != spark.started.pid
    assert Path(f"/proc/{spark.pid}").exists() or not Path("/proc").exists()
    assert spark.close() == b""


def test_only_the_user_can_ask_for_planners_and_they_end_with_the_daemon(
    folder: Path, daemon: subprocess.Popen[bytes]
) -> None:
    address = folder / ".aktor"
    assert address.is_socket()
    assert address.stat().st_mode & 0o777 == 0o600

    daemon.kill()

    assert daemon.stderr is not None
    assert daemon.stderr.read() == b"", "the pipe ends with the last process that has it"


def test_planners_end_also_if_the_daemon_has_ended_before_their_first_step(folder: Path) -> None:
    found = subprocess.run([sys.executable, "-c", ENDED], env=of(folder), stderr=subprocess.PIPE)

    assert found.stderr == b"", "the pipe ends with the last process that has it"


def test_without_planners_or_with_other_modules_the_command_is_that_process_itself(
    folder: Path,
) -> None:
    spark = Spark(folder)

    assert spark.pid == spark.started.pid
    spark.started.kill()
    spark.close()


def test_an_asker_that_would_find_other_modules_is_told_nothing(
    folder: Path, daemon: subprocess.Popen[bytes]
) -> None:
    path = os.pathsep.join(["/another", *sys.path])
    spark = Spark(folder, PYTHONPATH=path)

    assert spark.pid == spark.started.pid
    spark.started.kill()
    spark.close()


@pytest.fixture
def slow_pyspark(folder: Path) -> str:
    """PYTHONPATH with a PySpark whose import takes until stdin is closed."""
    package = folder / "path" / "pyspark"
    runner = package / Path(*spark_python.RUNNER.split(".")[1:]).with_suffix(".py")
    runner.parent.mkdir(parents=True)
    for inner in (package, package / "sql", package / "sql" / "streaming"):
        (inner / "__init__.py").write_text(SLOW if inner == package else "")
    (package / "util.py").write_text(SLOW_UTIL)
    runner.write_text(SLOW_RUNNER)
    return os.pathsep.join([str(package.parent), str(Path(spark_python.__file__).parent.parent)])


@pytest.mark.parametrize("by", ["path", "port"])
def test_the_command_has_connected_before_it_imports_pyspark(
    by: str, folder: Path, slow_pyspark: str
) -> None:
    more = {"PYTHONPATH": slow_pyspark}
    if by == "path":
        listening = socket.socket(socket.AF_UNIX)
        more["PYTHON_WORKER_FACTORY_SOCK_PATH"] = str(folder / "spark")
        listening.bind(more["PYTHON_WORKER_FACTORY_SOCK_PATH"])
        listening.listen()
    else:
        listening = socket.create_server(("127.0.0.1", 0))
        more["PYTHON_WORKER_FACTORY_PORT"] = str(listening.getsockname()[1])
        more["PYTHON_WORKER_FACTORY_SECRET"] = "a secret"
    listening.settimeout(60)
    command = [*COMMAND, spark_python.RUNNER]
    with subprocess.Popen(command, env=of(folder, **more), stdin=subprocess.PIPE) as process:
        try:
            connection, _ = listening.accept()
            if by == "port":
                assert connection.recv(12, socket.MSG_WAITALL) == b"\0\0\0\x08a secret"
                connection.sendall(b"\0\0\0\2ok")
            assert process.stdin is not None
            process.stdin.close()
            with connection, connection.makefile("rb") as file:
                assert file.read() == b"__main__ another [] True"
        finally:
            process.kill()
            listening.close()


def test_who_is_not_let_in_leaves_it_to_pyspark_to_say_so(folder: Path, slow_pyspark: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        more = {
            "PYTHONPATH": slow_pyspark,
            "PYTHON_WORKER_FACTORY_PORT": str(listening.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "wrong",
        }
        command = [*COMMAND, spark_python.RUNNER]
        with subprocess.Popen(
            command, env=of(folder, **more), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            connection, _ = listening.accept()
            connection.close()
            _, said = process.communicate()

    assert b"has no attribute 'write'" in said, "PySpark has connected itself"


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        (["pyspark.daemon", "pyspark.worker"], ["aktor.spark.daemon", "pyspark.worker"]),
        (["another.daemon", "pyspark.worker"], ["another.daemon", "pyspark.worker"]),
    ],
)
def test_pysparks_daemon_is_replaced_by_ours(
    asked: list[str], run: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["aktor-spark-python", "-m", *asked])
    monkeypatch.setattr(os, "execv", lambda path, arguments: became.append(arguments))
    monkeypatch.setenv(spark_python.WANTED, "")

    spark_python.main()

    assert became == [[sys.executable, "-m", *run]]
    assert os.environ[spark_python.WANTED] == "1"


def test_a_folder_whose_path_is_too_long_for_a_socket_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder))

    planners.start()

    assert list(folder.iterdir()) == []


def test_what_is_imported_before_a_fork_starts_no_thread() -> None:
    look = (
        "import os; from aktor.spark import planners; planners._import(); import sys;"
        "print('pyarrow' in sys.modules, len(os.listdir('/proc/self/task')),"
        " 'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert found.stdout == "True 1 False\n"


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        ("sys.exit(-1)", 255, ""),  # PySpark's runner, after it has told Spark of an error
        ("sys.exit(None)", 0, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_forked_process_exits_as_a_program_does(work: str, code: int, said: str) -> None:
    program = f"import sys; from aktor.spark import planners; planners._run(lambda: {work})"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.returncode == code
    assert said in run.stderr
    assert bool(said) == bool(run.stderr)
