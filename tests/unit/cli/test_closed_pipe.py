"""`aktor ... | head`: a reader that has seen enough closes the pipe, and that spoils nothing."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aktor.cli.main import main
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.told import BEGAN, Member

#: What shells show for a process that SIGPIPE ended.
NOBODY_READS = 141


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The trace of a member that joins."""
    events: list[dict[str, Any]] = []
    Member(events, "alice").rebalances(BEGAN, BEGAN + 1, 1, because="first join", members=1)
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return file


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def run(
    *arguments: str, stdout: int, stderr: int = subprocess.PIPE, at_once: bool = False
) -> tuple[int, str]:
    """Exit code, and what was said on stderr. `at_once`: each line of the output is written at
    once, as if there were many."""
    command = [sys.executable, "-m", "aktor.cli", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if at_once else ""}
    ended = subprocess.run(command, env=environment, stdout=stdout, stderr=stderr, timeout=120)
    return ended.returncode, (ended.stderr or b"").decode()


@pytest.mark.gate
def test_the_page_and_the_pictures_are_written_although_nobody_reads(
    log: Path, tmp_path: Path, unread: int
) -> None:
    page, folder = tmp_path / "why.html", tmp_path / "svg"

    code, said = run(
        "why", str(log), "--html", str(page), "--svg", str(folder), stdout=unread, at_once=True
    )

    assert (code, said) == (NOBODY_READS, "")
    assert page.read_text().endswith("</html>\n")
    assert list(folder.iterdir())


@pytest.mark.gate
def test_the_history_and_the_picture_of_a_seed_are_written_although_nobody_reads(
    tmp_path: Path, unread: int
) -> None:
    history, page = tmp_path / "history.jsonl", tmp_path / "seven.html"
    files = ("--history", str(history), "--picture", str(page))

    code, said = run("sim", "replay", "1", *files, stdout=unread, at_once=True)

    assert (code, said) == (NOBODY_READS, "")
    assert history.read_text().count("\n") > 1000
    assert page.read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("command", "stderr"),
    all_but_the_first(
        5,
        [
            ("why LOG", "read"),
            ("why LOG", "unread"),
            ("why LOG --json", "read"),
            ("--help", "unread"),
            ("broker --port 0", "read"),
            ("--version", "read"),
            ("why --help", "unread"),
            ("sim run --seeds 1", "unread"),
            ("demo --plain --seconds 1", "read"),
        ],
    ),
)
def test_a_command_whose_output_nobody_reads_ends_and_says_nothing_of_it(
    command: str, stderr: str, log: Path, unread: int
) -> None:
    arguments = [str(log) if word == "LOG" else word for word in command.split()]
    errors = subprocess.PIPE if stderr == "read" else unread

    code, said = run(*arguments, stdout=unread, stderr=errors)

    assert code == NOBODY_READS
    assert re.search("error|exception", said, re.IGNORECASE) is None, said


def test_a_command_without_an_output_does_its_work(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # `aktor why ... >&-`
    page = tmp_path / "why.html"

    assert main(["why", str(log), "--html", str(page)]) == 0

    assert page.read_text().endswith("</html>\n")


class FullDisk(io.RawIOBase):
    """A file on a disk that is full."""

    def __init__(self) -> None:
        self._file, self._name = tempfile.mkstemp()

    def fileno(self) -> int:
        return self._file

    def writable(self) -> bool:
        return True

    def write(self, _data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
            os.unlink(self._name)
        super().close()


def test_output_that_the_disk_has_no_room_for_is_told_in_one_line(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = FullDisk()
    output = io.TextIOWrapper(io.BufferedWriter(disk), write_through=False)
    monkeypatch.setattr(sys, "stdout", output)

    assert main(["why", str(log)]) == 2

    assert capsys.readouterr().err.splitlines()[-1] == "aktor why: No space left on device"
    with pytest.raises(OSError, match="No space"):
        output.close()
