"""What the benchmarks of Spark count: the processor time of a process and its descendants."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.processors import Processors

#: Starts a process that works for 0.3 CPU seconds; after a line ends it; after another one ends.
PARENT = """
import signal, subprocess, sys
if sys.argv[1] == "ignores":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
work = "import time\\nwhile time.process_time() < 0.3: pass\\nprint(flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", work], stdin=-1, stdout=-1)
child.stdout.readline()
print("worked", flush=True)
input()
child.communicate(b"\\n")
print("ended", flush=True)
input()
"""


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield process


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def told(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")


@pytest.mark.parametrize("parent", ["waits", "ignores"], indirect=True)
def test_what_a_child_used_before_is_not_counted_when_it_ends(
    parent: subprocess.Popen[str],
) -> None:
    assert heard(parent) == "worked"
    processors = Processors(parent.pid)
    told(parent)
    assert heard(parent) == "ended"

    used = processors.seconds()

    told(parent)
    assert 0 <= used < 0.25


@pytest.mark.parametrize("parent", ["waits"], indirect=True)
def test_what_a_child_used_is_counted_after_its_end(parent: subprocess.Popen[str]) -> None:
    processors = Processors(parent.pid)
    assert heard(parent) == "worked"
    told(parent)
    assert heard(parent) == "ended"

    used = processors.seconds()

    told(parent)
    assert used >= 0.3
