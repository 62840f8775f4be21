"""What an application waits for before its first line runs: `from aktor import KafkaConsumer`.

The import alone, and the whole process that does nothing else.
"""

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

CLOCK: Final = (
    "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began, flush=True)"
)


def tables(site: Site) -> list[Table]:
    """Milliseconds of a fresh process that only imports, ours beside kafka-python's."""
    rounds = 3 if site.quick else ROUNDS
    with tempfile.TemporaryDirectory() as bytecode:
        alone, whole = _times(rounds, bytecode)
    least_kafka = min(alone[KAFKA])
    rows = []
    for program in PROGRAMS:
        ours = program == AKTOR
        rows.append(
            [
                f"`{program}`",
                spread(whole[program], 0),
                spread(alone[program], 0),
                f"{ratio(alone[program], alone[KAFKA]):.2f}",
                f"{min(alone[program]) - least_kafka:.0f}" if ours else "",
                at_most(round(median(alone[program])), TARGET_MS, " ms") if ours else "",
            ]
        )
    return [
        Table(
            title=f"imports: a fresh process, median (least-most) of {rounds} rounds",
            columns=[
                "program",
                "the process, start to end, ms",
                "the import alone, ms",
                "x kafka-python",
                "more than it, ms (of the least)",
                "target",
            ],
            rows=rows,
            notes=["Bytecode is there: each program ran once before."],
        )
    ]


def _times(rounds: int, bytecode: str) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds of each program's import, and of its process, round by round, after a first run
    that compiles."""
    # Without bytecode our modules would be compiled each time, and those that pip installed not.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    alone: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    whole: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    for _ in range(rounds + 1):
        for program in PROGRAMS:
            began = time.perf_counter()
            told = subprocess.run(
                [sys.executable, "-c", CLOCK.format(program)],
                cwd=ROOT,
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
            )
            whole[program].append((time.perf_counter() - began) * 1000)
            alone[program].append(float(told.stdout) * 1000)
    return _but_the_first(alone), _but_the_first(whole)


def _but_the_first(times: dict[str, list[float]]) -> dict[str, list[float]]:
    return {program: found[1:] for program, found in times.items()}
