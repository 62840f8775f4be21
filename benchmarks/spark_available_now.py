"""`availableNow` of many records, and whose processor time it is: in sessions of fresh JVMs.

One session has only our source, one only Spark's own, tuned, and two have both by turns, one of
them in the other order. So it is seen apart what a JVM compiles at first, what it does later, and
what one source does to the other: a JVM compiles Spark's loops for what it has seen.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.processors import cpu_of_each
from benchmarks.site import Site
from benchmarks.spark import SOURCES, available_now, recommended_session, timed
from benchmarks.tables import Table, spread
from benchmarks.throughput import value
from tests.spark.session import what_is_missing

RECORDS: Final = 5_000_000
ROUNDS: Final = 6
#: Rounds of a session that are shown apart: the JVM compiles.
FIRST: Final = 2

_OURS, _OWN = SOURCES[:2]
SESSIONS: Final = (
    ("aktor only", (_OURS,)),
    ("Spark's own only", (_OWN,)),
    ("by turns, aktor first", (_OURS, _OWN)),
    ("by turns, Spark's own first", (_OWN, _OURS)),
)

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Seconds of the clock, and of processors: all, the JVM's, and its compilers'."""

    took: float
    cpu: float
    jvm: float
    compilers: float


_Found: TypeAlias = dict[tuple[str, str], list[Used]]


def tables(site: Site) -> Iterator[Table]:
    """Each query of each session, and the processor time of the later ones beside each other."""
    if missing := what_is_missing():
        yield Table(
            title=f"spark_available_now: not measured, since {missing}", columns=["-"], rows=[]
        )
        return
    count = site.scaled(RECORDS)
    topic = site.new_topic(4)
    site.fill(topic, (value(number, 100) for number in range(count)))
    options = {"kafka.bootstrap.servers": ",".join(site.bootstrap), "subscribe": topic}
    options["startingOffsets"] = "earliest"
    found: _Found = {}
    for session, sources in SESSIONS:
        with recommended_session() as spark:
            for number in range(2 if site.quick else ROUNDS):
                for name, kind, more in sources:
                    used = _run(spark, kind, options | more)
                    found.setdefault((session, name), []).append(used)
                    site.say(f"{session}, {number}, {name}: {used}")
    yield _table(found, count, 1 if site.quick else FIRST)


def _run(spark: Any, kind: str, options: dict[str, str]) -> Used:
    jvm = spark.sparkContext._gateway.proc.pid
    before, compilers = cpu_of_each(jvm)[jvm], _compilers(jvm)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        took, cpu = timed(spark, lambda: available_now(spark, kind, options, Path(folder)))
    return Used(took, cpu, cpu_of_each(jvm)[jvm] - before, _compilers(jvm) - compilers)


def _compilers(jvm: int) -> float:
    """Processor seconds of the threads that compile. (They stay as long as the JVM.)"""
    ticks = 0
    for thread in Path(f"/proc/{jvm}/task").iterdir():
        try:
            name, _, fields = (thread / "stat").read_text().rpartition(")")
        except OSError:
            continue
        if "Compiler" in name:
            ticks += sum(map(int, fields.split()[11:13]))
    return ticks / _TICKS


def _table(found: _Found, count: int, first: int) -> Table:
    rows = []
    for (session, name), some in found.items():
        later = some[first:]
        parts = [
            [used.cpu for used in later],
            [used.cpu - used.compilers for used in later],
            [used.cpu - used.jvm for used in later],
        ]
        rows.append(
            [
                f"{session}: {name}",
                spread([count / used.took / 1e6 for used in later], 2),
                "; ".join(f"{used.cpu / count * 1e6:.2f}" for used in some[:first]),
                *(spread([cpu / count * 1e6 for cpu in part], 2) for part in parts),
            ]
        )
    for title, pair in (
        ("alone", (SESSIONS[0][0], SESSIONS[1][0])),
        *((session, (session, session)) for session, _ in SESSIONS[2:]),
    ):
        ours, own = (
            median(used.cpu for used in found[session, source[0]][first:])
            for session, source in zip(pair, (_OURS, _OWN), strict=True)
        )
        rows.append([f"x less CPU, {title}", "", "", f"{own / ours:.2f}", "", ""])
    return Table(
        title=f"spark_available_now: {count:,} records of 100 bytes, 4 partitions",
        columns=[
            "session: source",
            "M rows/s",
            f"CPU s per M of the first {first}",
            "of later ones",
            "without the JVM's compilers",
            "of Python",
        ],
        rows=rows,
    )
