"""A standalone Spark cluster on this machine: a master, and workers with different hosts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.kafka.real.ports import free_ports
from tests.kafka.support import ROOT, wait_until
from tests.spark.session import JAVA

_SPARK = Path(pyspark.__file__).parent


class SparkStandalone:
    """Owns the processes. Each worker has one core and an address of its own (127.0.0.1, 127.0.0.2,
    ...). Spark runs a speculative copy of a task only on another host, so that `local-cluster`,
    whose workers are all on one host, never runs any."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self._folder = folder
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        (self._port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "127.0.0.1", "--port", str(self._port))
            wait_until(self._master_listens, "Spark's master listens", 60)
            for number in range(1, self._count + 1):
                work = self._folder / f"worker-{number}"
                self._start(
                    *("worker.Worker", f"127.0.0.{number}", "--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(work), self.master),
                )
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self, name: str, host: str, *arguments: str) -> None:
        command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        with (self._folder / f"{name}-{host}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--host", host, "--webui-port", "0", *arguments],
                env={
                    **os.environ,
                    "SPARK_HOME": str(_SPARK),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": JAVA,
                    "SPARK_LAUNCHER_OPTS": JAVA,
                    # The Python workers of the executors must find this checkout.
                    "PYTHONPATH": str(ROOT),
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def _master_listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _stop(self) -> None:
        # With the executors, which are in the same process group. Python workers end by themselves
        # when their executor is gone.
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()
