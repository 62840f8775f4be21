"""What an application waits for before its first line runs: `from aktor import KafkaConsumer`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Final

from benchmarks.child import ROOT
from benchmarks.site import Site
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 25
TARGET_MS: Final = 150.0

NOTHING: Final = "pass"
KAFKA: Final = "import kafka"
AKTOR: Final = "from aktor import KafkaConsumer"
PROGRAMS: Final = (NOTHING, KAFKA, AKTOR)


def tables(site: Site) -> list[Table]:
    """Milliseconds of a fresh process that only imports, ours beside kafka-python's."""
    rounds = 3 if site.quick else ROUNDS
    with tempfile.TemporaryDirectory() as bytecode:
        times = _times(rounds, bytecode)
    least_kafka = min(times[KAFKA])
    rows = []
    for program in PROGRAMS:
        ours = program == AKTOR
        rows.append(
            [
                f"`{program}`",
                spread(times[program], 0),
                f"{ratio(times[program], times[KAFKA]):.2f}",
                f"{min(times[program]) - least_kafka:.0f}" if ours else "",
                at_most(round(median(times[program])), TARGET_MS, " ms") if ours else "",
            ]
        )
    return [
        Table(
            title=f"imports: a fresh process, start to end, median (least-most) of {rounds} rounds",
            columns=[
                "program",
                "ms",
                "x kafka-python",
                "more than it, ms (of the least)",
                "target",
            ],
            rows=rows,
            notes=["Bytecode is there: each program ran once before."],
        )
    ]


def _times(rounds: int, bytecode: str) -> dict[str, list[float]]:
    """Milliseconds of each program, round by round, after a first run that compiles."""
    # Without bytecode our modules would be compiled each time, and those that pip installed not.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    for _ in range(rounds + 1):
        for program in PROGRAMS:
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)
            times[program].append((time.perf_counter() - began) * 1000)
    return {program: found[1:] for program, found in times.items()}
