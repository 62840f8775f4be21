"""Reports: how a process of the demo tells the process that started it what it did.

A report is one line of JSON on standard output: `said` names it, `at` is when (monotonic seconds,
the same clock for all processes of a machine), the rest are its values:

    wrote     runs [[partition, first offset, [order, ...]], ...]     acknowledged to the producer
    read      runs [[partition, first offset, waited, [order, ...]], ...], each without a hole;
              `waited` is how long its first order had been waiting, in seconds
    committed offsets {partition: offset}
    refused   because            a commit failed
    assigned  partitions
    released  partitions, how    "revoked" or "lost"
    status    state, generation
    trace     event              what aktor logged
    closed
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

__all__ = ["Report", "Reporter", "parse"]

Report = dict[str, Any]


class Reporter:
    """The child's side. May be used by several threads; raises BrokenPipeError if nobody reads."""

    def __init__(self) -> None:
        self._file = sys.stdout.fileno()
        self._lock = threading.Lock()

    def say(self, said: str, **values: Any) -> None:
        """Write one report, past all buffers: what was said must survive our SIGKILL."""
        line = json.dumps({"said": said, "at": time.monotonic(), **values})
        data = f"{line}\n".encode()
        with self._lock:
            while data:
                data = data[os.write(self._file, data) :]


def parse(line: str) -> Report:
    """The report in `line`; a line that is none (a traceback, say) as `words`."""
    try:
        report = json.loads(line)
    except ValueError:
        report = None
    if not isinstance(report, dict) or "said" not in report:
        return {"said": "words", "at": time.monotonic(), "text": line.rstrip()}
    return report
