"""A task in a process of its own, so that nobody else's memory, threads or GIL are measured.

The task is a function at the top of a module. It may call `ready()` and wait for `asked_to_go()`
or `asked_to_stop()`; what it returns must be JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

__all__ = ["Child", "asked_to_go", "asked_to_stop", "ready", "run"]

ROOT: Final = Path(__file__).parents[1]
READY: Final = "ready"


class Child:
    """One task under way, seen from its parent."""

    def __init__(self, task: Callable[..., Any], **arguments: Any) -> None:
        name = f"{task.__module__}:{task.__name__}"
        self._start(name, [sys.executable, "-m", "benchmarks.child", name, json.dumps(arguments)])

    @classmethod
    def of_java(cls, classpath: str, program: str, *arguments: str) -> Child:
        """A program here in Java that speaks as these tasks do."""
        java = shutil.which("java") or "java"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        child = cls.__new__(cls)
        child._start(program, [java, quiet, "-cp", classpath, f"benchmarks/{program}", *arguments])
        return child

    def _start(self, name: str, command: list[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def wait_until_ready(self) -> None:
        """Until the task calls `ready`."""
        line = self._from.readline().strip()
        assert line == READY, f"the child said {line!r} instead of being ready"

    def go(self) -> None:
        """Let `asked_to_go` return."""
        self._to.write("go\n")
        self._to.flush()

    def end(self) -> None:
        """Kill it: nobody wants its result any more."""
        self._process.kill()
        self._to.close()
        self._from.close()
        self._process.wait()

    def result(self) -> Any:
        """Ask it to stop, and wait for what it returns."""
        self._to.close()
        said = self._from.read()
        self._from.close()
        if self._process.wait() != 0:
            raise RuntimeError(f"{self._name} ended with {self._process.returncode}")
        return json.loads(said.splitlines()[-1])


def run(task: Callable[..., Any], **arguments: Any) -> Any:
    """Call the task in a fresh process and return what it returns."""
    return Child(task, **arguments).result()


# -- the child's side


def ready() -> None:
    """Tell the parent."""
    print(READY, flush=True)


def asked_to_go() -> None:
    """Wait for the parent's `go`."""
    sys.stdin.readline()


def asked_to_stop() -> threading.Event:
    """An event that is set when the parent wants the result."""
    event = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        event.set()

    threading.Thread(target=listen, daemon=True).start()
    return event


def main() -> None:
    """Run the task named by the first argument with the arguments in the second."""
    logging.disable(logging.CRITICAL)
    module, _, name = sys.argv[1].partition(":")
    task = getattr(importlib.import_module(module), name)
    print(json.dumps(task(**json.loads(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
