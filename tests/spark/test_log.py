"""What the logger `aktor.spark` says where nobody has configured logging."""

from __future__ import annotations

import subprocess
import sys

import pytest

TELL = "from aktor.spark.log import tell; tell('%d of %d offsets', 1, 2)"


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        ("", "aktor.spark: 1 of 2 offsets\n"),
        ("import logging; logging.basicConfig(); ", ""),
        (
            "import logging; logging.basicConfig(level=logging.INFO); ",
            "INFO:aktor.spark:1 of 2 offsets\n",
        ),
    ],
    ids=["not configured", "warnings only", "configured"],
)
def test_what_a_query_tells_is_seen_in_processes_of_spark(before: str, printed: str) -> None:
    """Nobody can set a level there: the session's level is that of its JVM."""
    ran = subprocess.run(
        [sys.executable, "-c", before + TELL], capture_output=True, text=True, timeout=120
    )

    assert (ran.returncode, ran.stderr) == (0, printed)
