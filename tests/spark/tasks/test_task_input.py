"""A writer tells the end of its rows from rows that were cut off."""

from __future__ import annotations

import socket
from typing import Any

from aktor.spark.tasks.task_input import was_cut_off


def main(infile: Any) -> bool:
    """As `pyspark.worker.main`: what calls the writer, and what it reads from."""
    infile.read1()
    return was_cut_off()


def test_rows_that_ended_are_told_from_rows_that_were_cut_off() -> None:
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as infile:
        theirs.sendall(b"rows")
        assert not main(infile), "Spark waits for the result"

        theirs.sendall(b"rows")
        theirs.close()
        assert main(infile)


def test_where_no_worker_runs_nothing_was_cut_off() -> None:
    assert not was_cut_off()
