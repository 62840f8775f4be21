"""Small streams of Spark: what one costs to run, and what idle ones cost.

Our source beside Spark's own, in one session with the recommended settings: the processor time of
the JVM and of all Python processes, those that have ended included.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.site import Site
from benchmarks.spark import SOURCES, cpu_of, family, recommended_session
from benchmarks.spark import available_now as run_all
from benchmarks.tables import Table, at_most, spread
from benchmarks.throughput import value
from tests.spark.session import what_is_missing

#: Runs of the small stream, after the first one.
RUNS: Final = 7
#: How many streams are idle, and for how long each time, in seconds.
STREAMS: Final = 4
IDLE: Final = 20.0
SETTLED: Final = 10.0


def tables(site: Site) -> list[Table]:
    """A run of 1,000 records, and idle streams."""
    if missing := what_is_missing():
        title = f"spark_streams: not measured, since {missing}"
        return [Table(title=title, columns=["-"], rows=[])]
    load = os.getloadavg()[0]
    with recommended_session() as spark:
        return [_small(site, spark, load), _idle(site, spark, load)]


def _small(site: Site, spark: Any, load: float) -> Table:
    topic = _topic(site)
    jvm = spark.sparkContext._gateway.proc.pid
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(2 if site.quick else 1 + RUNS):
        for name, kind, more in SOURCES:
            options = _options(site, topic, "earliest") | more
            folder = Path(tempfile.mkdtemp())
            cpu, began = cpu_of(jvm), time.perf_counter()
            run_all(spark, kind, options, folder)
            took = time.perf_counter() - began
            time.sleep(1.5)  # until the planner that has ended is counted
            used = cpu_of(jvm) - cpu
            shutil.rmtree(folder, ignore_errors=True)
            if number:
                found.setdefault(name, []).append((took, used))
    rows = []
    for name, some in found.items():
        cpu = median(used for _, used in some)
        target = at_most(round(cpu, 2), 1.5, " CPU s") if name == "aktor" else ""
        rows.append([name, spread([took for took, _ in some], 2), f"{cpu:.2f}", target])
    return Table(
        title=f"spark_streams: availableNow of 1,000 records (load {load:.0f} at the start)",
        columns=["source", "s", "CPU s", "target"],
        rows=rows,
    )


def _idle(site: Site, spark: Any, load: float) -> Table:
    jvm = spark.sparkContext._gateway.proc.pid
    rows = []
    for name, kind, more in (SOURCES[0], SOURCES[2]):
        before = family(jvm)
        folders = [Path(tempfile.mkdtemp()) for _ in range(STREAMS)]
        queries = [
            spark.readStream.format(kind)
            .options(**_options(site, _topic(site), "latest") | more)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
            for folder in folders
        ]
        while any(query.status["message"].startswith("Initializing") for query in queries):
            time.sleep(0.1)
        time.sleep(1 if site.quick else SETTLED)
        seconds = 2 if site.quick else IDLE
        cpu = cpu_of(jvm)
        time.sleep(seconds)
        share = (cpu_of(jvm) - cpu) / seconds / STREAMS * 100
        own = sum(map(_private_mb, family(jvm) - before))
        for query in queries:
            query.stop()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        target = at_most(round(share, 1), 1.0, " %") if name == "aktor" else ""
        rows.append([name, f"{share:.1f}", f"{own:.0f}", target])
    return Table(
        title=f"spark_streams: {STREAMS} idle streams (load {load:.0f} at the start)",
        columns=["source", "% of a core, each", "MB of new processes, all", "target"],
        rows=rows,
    )


def _private_mb(pid: int) -> float:
    """Memory that no other process shares. 0 where it is not told, or the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _topic(site: Site) -> str:
    topic = site.new_topic(4)
    site.fill(topic, (value(number, 100) for number in range(1_000)))
    return topic


def _options(site: Site, topic: str, starting: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": ",".join(site.bootstrap),
        "subscribe": topic,
        "startingOffsets": starting,
    }
