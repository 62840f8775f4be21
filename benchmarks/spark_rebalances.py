"""How many trace lines a second `aktor.spark.rebalances` takes, on two cores.

python -m benchmarks.spark_rebalances --lines 1000000 --lines 10000000 --rounds 3

The lines are those of simulated groups, with other names in each copy. "storm": everything goes
wrong all the time, which is the most that there can be to do for a line. "steady": groups that
read, to which a member comes now and then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aktor.simulation import Simulation
from aktor.simulation.history import History
from aktor.simulation.selftest.storm import run_storm
from aktor.trace.rebalances.lines import glance
from benchmarks.tables import Table, at_least

#: Storms: seeds and protocols.
STORMS: Final = tuple((seed, ("classic", "consumer")[seed % 2]) for seed in range(1, 9))

#: In each copy of the simulated lines this is the number of the copy. (As long as half a `trace`.)
_COPY: Final = "@@@@"

#: Bytes of a file.
_FILE: Final = 256 << 20


def storm() -> Iterator[History]:
    """Groups with which everything goes wrong."""
    for seed, protocol in STORMS:
        yield run_storm(seed, protocol=protocol).history


def steady() -> Iterator[History]:
    """Groups that read for three minutes, while a member joins each minute."""
    for seed in range(1, 3):
        with Simulation(seed) as sim:
            orders = sim.topic("orders", partitions=8, records=0)
            sim.trickle(orders, per_second=20, seconds=180)
            for _ in range(3):
                sim.consumers(group="g", topics=[orders], count=1)
                sim.run(for_=60)
            yield sim.history


MIXES: Final = {"storm": storm, "steady": steady}


def template(mix: str) -> tuple[str, int, float]:
    """The lines of one copy, how many they are, and the share of them that is selected."""
    lines = []
    selected = 0
    for number, history in enumerate(MIXES[mix]()):
        for event in history.traces(1.8e9):
            group = event.get("group")
            event["group"] = None if group is None else f"{group}-{number}-{_COPY}"
            event["host"] = f"web-{_COPY}-{event['host']}"
            event["trace"] = f"{_COPY}{number:x}{event['trace'][5:]}"
            lines.append(json.dumps(event))
            selected += glance(lines[-1]) is not None
    return "\n".join(lines) + "\n", len(lines), selected / len(lines)


def write_logs(folder: Path, text: str, copies: int) -> None:
    """The lines, so many times, with other groups, hosts and traces each time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    per_file = max(1, _FILE // len(text))
    for first in range(0, copies, per_file):
        with open(folder / f"{first:06}.jsonl", "w", encoding="utf-8") as file:
            for copy in range(first, min(copies, first + per_file)):
                file.write(text.replace(_COPY, f"{copy:04x}"))


def measure(spark: Any, logs: Path) -> tuple[float, float, int]:
    """Seconds, CPU seconds (all processes), and how many rebalances were found."""
    from aktor.spark.rebalances import analyse_logs

    began, cpu = time.monotonic(), _cpu()
    tables = analyse_logs(spark, str(logs))
    found = tables["rebalances"].count()
    took = time.monotonic() - began, _cpu() - cpu, found
    tables.close()
    return took


def _cpu() -> float:
    """CPU seconds of this process and of all that come from it."""
    of: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        of[int(process.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(int(process.name))
    total, left = 0.0, [os.getpid()]
    while left:
        process_id = left.pop()
        total += of.get(process_id, 0.0)
        left += children.get(process_id, [])
    return total


def table(spark: Any, mix: str, sizes: list[int], rounds: int, folder: Path) -> Table:
    """One row for each size."""
    text, count, selected = template(mix)
    rows = []
    for size in sizes:
        copies = max(1, size // count)
        write_logs(folder, text, copies)
        lines = copies * count
        load = os.getloadavg()[0]
        results = [measure(spark, folder) for _ in range(rounds)]
        best = min(one[0] for one in results)
        cpu = min(one[1] for one in results)
        rows.append(
            [
                *(f"{lines / 1e6:.1f} M", f"{lines * len(text) / count / 1e9:.1f} GB"),
                *(f"{results[0][2]:,}", f"{best:.1f}", f"{lines / best / 1e6:.2f}"),
                *(f"{cpu / lines * 1e6:.2f}", f"{load:.1f}"),
                at_least(round(lines / best / 1e6, 2), 1.0, " M/s"),
            ]
        )
    shutil.rmtree(folder)
    return Table(
        title=f"Trace lines by PySpark at local[2]: {mix}, {selected:.0%} of the lines selected",
        columns=["lines", "size", "rebalances", "s", "M lines/s", "CPU µs/line", "load", "target"],
        rows=rows,
        notes=[f"The best of {rounds}. Load: of the machine before it."],
    )


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--lines", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "logs"
        for mix in chosen.mix or MIXES:
            made = table(spark, mix, chosen.lines or [1_000_000], chosen.rounds, place)
            print(made.markdown() if chosen.markdown else made.text(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
