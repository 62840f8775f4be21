"""Stores of logs that a test leaves open, as a process does that is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

DESCRIPTORS = Path("/proc/self/fd")


def _open_below(folder: Path) -> list[int]:
    found = []
    for one in DESCRIPTORS.iterdir() if DESCRIPTORS.exists() else ():
        try:
            target = Path(os.readlink(one))
        except OSError:  # the descriptor of the listing itself
            continue
        if target.is_relative_to(folder):
            found.append(int(one.name))
    return found


@pytest.fixture(autouse=True)
def files_are_closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Many tests share this process. Spark's py4j calls `select`, which knows no descriptor above
    1,023: all tests of Spark would end in a time-out."""
    before = set(_open_below(tmp_path_factory.getbasetemp()))
    yield
    for descriptor in _open_below(tmp_path_factory.getbasetemp()):
        if descriptor not in before:  # a trace file of an earlier test, say, has an owner
            os.close(descriptor)
