"""Small streams of Spark: what one costs to run, and what idle ones cost. A part of `spark`.

Our source beside Spark's own, tuned, in one session with the recommended settings: the processor
time of the JVM and of all Python processes, those that have ended included.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.processors import Processors, cpu_of_each, family
from benchmarks.site import Site
from benchmarks.spark import SOURCES
from benchmarks.spark import available_now as run_all
from benchmarks.tables import Table, at_most, spread
from benchmarks.throughput import value

__all__ = ["idle", "small"]

#: Runs of the small stream, after the first ones, in which the JVM compiles.
RUNS: Final = 6
UNCOUNTED: Final = 2
#: How many streams are idle, how often they are looked at, and for how many seconds each time.
#: (In a single look of 20 s the JVM may happen to compile for half a second.)
STREAMS: Final = (1, 4)
LOOKS: Final = 5
IDLE: Final = 10.0
#: Until a stream asks once a second, and the JVM has compiled what it does.
SETTLED: Final = 15.0


def small(site: Site, spark: Any) -> Table:
    """A run of 1,000 records, from `start` to its end, in a warm session."""
    topic = _topic(site)
    jvm = spark.sparkContext._gateway.proc.pid
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(2 if site.quick else UNCOUNTED + RUNS):
        for name, kind, more in SOURCES[:2]:
            options = _options(site, topic, "earliest") | more
            folder = Path(tempfile.mkdtemp())
            processors, began = Processors(jvm), time.perf_counter()
            run_all(spark, kind, options, folder)
            took = time.perf_counter() - began
            time.sleep(1.5)  # until the planner that has ended is counted
            used = processors.seconds()
            shutil.rmtree(folder, ignore_errors=True)
            if site.quick or number >= UNCOUNTED:
                found.setdefault(name, []).append((took, used))
                site.say(f"1,000 records, {name}: {took:.2f} s, {used:.2f} CPU s")
    own = median(took for took, _ in found[SOURCES[1][0]])
    rows = []
    for name, some in found.items():
        times, cpu = [took for took, _ in some], median(used for _, used in some)
        targets = ["", ""]
        if name == "aktor":
            most = min(1.5, own)
            targets = [at_most(round(median(times), 2), round(most, 2), " s")]
            targets += [at_most(round(cpu, 2), 1.5, " CPU s")]
        rows.append([name, spread(times, 2), f"{cpu:.2f}", *targets])
    return Table(
        title="spark: availableNow of 1,000 records, from start to end",
        columns=["source", "s", "CPU s", "target: s", "target: CPU s"],
        rows=rows,
    )


def idle(site: Site, spark: Any) -> Table:
    """One stream without records, and several. A session without a stream takes some of the
    processor, too: that is measured first, and is not a part of what each stream takes."""
    jvm = spark.sparkContext._gateway.proc.pid
    seconds = 0.4 if site.quick else IDLE
    time.sleep(1 if site.quick else SETTLED)
    looks = _shares(jvm, seconds)
    bare = median(looks)
    rows = [["none", "", spread(looks, 2), "", "", ""]]
    site.say(", ".join(rows[-1]))
    for name, kind, more in SOURCES[:2]:
        before = family(jvm)
        folders: list[Path] = []
        queries: list[Any] = []
        for count in STREAMS:
            began = time.perf_counter()
            while len(queries) < count:
                options = _options(site, _topic(site), "latest") | more
                folders.append(Path(tempfile.mkdtemp()))
                began = time.perf_counter()
                queries.append(_started(spark, kind, options, folders[-1]))
            while any(query.status["message"].startswith("Initializing") for query in queries):
                time.sleep(0.02)
            waits = time.perf_counter() - began
            time.sleep(1 if site.quick else SETTLED)
            looks = _shares(jvm, seconds)
            each = (median(looks) - bare) / count
            own = sum(map(_private_mb, family(jvm) - before))
            target = at_most(round(each, 2), 1.0, " %") if name == "aktor" else ""
            shares = [spread(looks, 2), f"{each:.2f}"]
            row = [f"{count}, {name}", f"{waits:.1f}", *shares, f"{own:.0f}"]
            rows.append([*row, target])
            site.say(", ".join(rows[-1]))
        for query in queries:
            query.stop()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return Table(
        title="spark: idle streams",
        columns=[
            "streams, source",
            "s until the last one waits",
            "% of a core, with the session",
            "each, without it",
            "MB of new processes, all",
            "target",
        ],
        rows=rows,
    )


def _shares(jvm: int, seconds: float) -> list[float]:
    """Percent of a core that the session takes, in windows of so many seconds. Spark ends Python
    workers that were idle for a minute: these are left out."""
    shares = []
    for _ in range(LOOKS):
        used = cpu_of_each(jvm)
        time.sleep(seconds)
        later = cpu_of_each(jvm)
        taken = sum(later[pid] - used[pid] for pid in used.keys() & later.keys())
        shares.append(taken / seconds * 100)
    return shares


def _started(spark: Any, kind: str, options: dict[str, str], folder: Path) -> Any:
    frame = spark.readStream.format(kind).options(**options).load()
    writer = frame.writeStream.format("noop")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


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
