"""One Kafka broker as an operating-system process: start it, stop it, kill it, freeze it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.real import launch
from tests.kafka.real.install import Distribution

START = "kafka.Kafka"
FORMAT = "kafka.tools.StorageTool"
CLEAN_STOP_TIMEOUT_S = 30

#: Two cores are all we have: no garbage-collector threads, no second compiler.
_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # What Java itself has to say is not among what a tool prints.
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

#: Brokers are forked from this thread because Linux sends the death signal when the forking
#: *thread* ends, and a test may start a broker from a thread that doesn't live long.
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="real-kafka-launcher")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """How to run a class of Kafka's: with which Java, class path, heap and class-data archive."""

    kafka: Distribution
    heap_mb: int
    extra: tuple[str, ...] = ()

    def command(self, main_class: str, arguments: Sequence[str]) -> list[str]:
        """The command line that runs `main_class`."""
        return [
            self.kafka.java.program,
            f"-Xmx{self.heap_mb}m",
            *_FLAGS,
            *self.extra,
            "-cp",
            self.kafka.classpath,
            main_class,
            *arguments,
        ]


class Broker:
    """One node of a cluster. Owns its process; its folder holds settings, data and log."""

    def __init__(self, node_id: int, folder: Path, jvm: Jvm, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.paused = False
        self.log = folder / "broker.log"
        self._settings_file = folder / "server.properties"
        self._jvm = jvm
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        lines = {**settings, "log.dirs": str(folder / "data")}
        self._settings_file.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))

    def __repr__(self) -> str:
        state = "paused" if self.paused else "running" if self.running else "down"
        return f"<broker {self.node_id} {state}>"

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, while it is there."""
        return self._process.pid if self._process is not None and self.running else None

    def format(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Begin to prepare the data folder; the caller waits for the returned process."""
        return self._run(FORMAT, ["format", "-c", str(self._settings_file), *arguments])

    def start(self) -> None:
        """Start the process, and don't wait until it answers."""
        assert not self.running, f"broker {self.node_id} is running already"
        self.paused = False
        self._process = self._run(START, [str(self._settings_file)])

    def kill(self) -> None:
        """SIGKILL: no goodbye to the controller, nothing flushed. Waits until it is gone."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self.paused = False

    def terminate(self) -> None:
        """SIGTERM: an orderly shutdown that hands leadership over; after 30 s, SIGKILL."""
        if self._process is None:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(CLEAN_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nobody answers."""
        self.paused = self.running
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.paused = False
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 25) -> str:
        """The last lines this broker said."""
        said = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(said[-lines:]) or "(the broker said nothing)"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _run(self, main_class: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        wrapper = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        command = wrapper + self._jvm.command(main_class, arguments)
        return _launcher.submit(_popen, command, self.log).result()


def _popen(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A group of its own: Ctrl-C in the terminal is ours to handle, not the broker's.
            start_new_session=True,
        )
