"""Kafka's own command-line tools, run from its jars."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Final, Self

from tests.clients.support import SOON_S, Record
from tests.kafka.real import KafkaCluster, launch
from tests.kafka.real.archive import class_archive
from tests.kafka.real.broker import Jvm

TOOLS: Final = "org.apache.kafka.tools"
#: One JVM may be slow on a busy machine.
_TIMEOUT_S: Final = 60.0
_PRINTED: Final = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(.*)")

#: How tables of the tools begin.
_HEADS: Final = frozenset({"GROUP", "TransactionalId", "CoordinatorId", "ProducerId"})


class Console:
    """A console consumer that runs until the end of a `with` block, when it commits and leaves."""

    def __init__(self, command: list[str]) -> None:
        self.records: list[Record] = []
        self._command = command
        self._strange: list[str] = []
        self._said: list[str] = []
        self._told_to_end = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._told_to_end = True
        self._process.terminate()
        try:
            self._process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        for thread in self._threads:
            thread.join(SOON_S)

    def check(self) -> None:
        """Fails if it ended by itself, or said what is no record."""
        ended = self._process.poll() is not None and not self._told_to_end
        assert not ended, "\n".join(["the console consumer ended", *self._said])
        assert not self._strange, self._strange

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if printed := _PRINTED.fullmatch(line.rstrip("\n")):
                partition, offset, value = printed.groups()
                self.records.append(Record(int(partition), int(offset), value))
            else:
                self._strange.append(line)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.rstrip())


class JavaTools:
    """Runs them against one cluster, each in a JVM that shares the classes of all the others."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._where = bootstrap_servers
        kafka = KafkaCluster().prepare()
        # It is there: `prepare` has made it.
        archive = class_archive(kafka, lambda _flags: None)
        self._jvm = Jvm(kafka=kafka, heap_mb=256, extra=archive)

    def run(self, tool: str, *arguments: str, typed: str = "", status: int = 0) -> str:
        """What a tool of the cluster's says, which is given `typed`; fails if it does not exit
        with `status`."""
        where = ("--bootstrap-server", self._where)
        return self.java(tool, *where, *arguments, typed=typed, status=status)

    def java(self, tool: str, *arguments: str, typed: str = "", status: int = 0) -> str:
        """The same for a tool that is told otherwise where the cluster is."""
        done = subprocess.run(
            self._command(tool, *arguments),
            input=typed,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == status, f"{tool} {arguments}:\n{done.stdout}{done.stderr}"
        return done.stdout if status == 0 else done.stdout + done.stderr

    def consume(self, topic: str, group: str, **settings: Any) -> Console:
        """A console consumer from the beginning; `settings` have underscores for dots."""
        properties = {"heartbeat.interval.ms": 200} if "group_protocol" not in settings else {}
        properties |= {name.replace("_", "."): value for name, value in settings.items()}
        return Console(
            self._command(
                "consumer.ConsoleConsumer",
                "--bootstrap-server",
                self._where,
                *("--topic", topic, "--group", group, "--from-beginning"),
                *("--formatter-property", "print.partition=true"),
                *("--formatter-property", "print.offset=true"),
                *_flags("--command-property", properties),
            )
        )

    @property
    def bootstrap_servers(self) -> str:
        """Where the cluster is."""
        return self._where

    def _command(self, tool: str, *arguments: str) -> list[str]:
        # It dies with us, whatever we die of.
        wrapper = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        name = tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}"
        return wrapper + self._jvm.command(name, arguments)


def _flags(flag: str, properties: dict[str, Any]) -> list[str]:
    return [word for name, value in properties.items() for word in (flag, f"{name}={value}")]


def table(printed: str) -> list[dict[str, str]]:
    """The rows of a table that a tool printed, as {column: cell}; lines above it are left out."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(number for number, words in enumerate(lines) if words[0] in _HEADS)
    return [dict(zip(lines[start], words, strict=False)) for words in lines[start + 1 :]]
