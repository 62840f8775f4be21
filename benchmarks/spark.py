"""Kafka into Spark: our data source against Spark's own, with its defaults and at its best.

Two cores for everything: the broker, Spark's JVM and its Python workers. One session, one query
after the other in each round. CPU seconds are those of the JVM and of all Python workers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

from aktor.spark.bytecode import add_bytecode, archives
from benchmarks.site import Site
from benchmarks.tables import Table, at_least, at_most, ratio, spread
from benchmarks.throughput import value
from tests.spark.session import a_session, command, what_is_missing

#: After a first round that is not counted, in which the JVM compiles and workers start.
ROUNDS: Final = 3

#: Size of a record, codec, and how many: a query takes a few seconds, of which one is its start.
LOADS: Final = ((100, None, 20_000_000), (1000, "lz4", 3_000_000))

#: What docs/spark.md recommends. They make no difference to Spark's own source.
RECOMMENDED: Final = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true"
    " -Darrow.enable_null_check_for_get=false",
}

#: The settings with which Spark's own source is fastest: its polls return 500 records by default.
TUNED: Final = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": "10485760",
    "kafka.fetch.max.bytes": "104857600",
}

#: Name, format, options.
SOURCES: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("aktor", "aktor", {}),
    ("Spark's own, tuned", "kafka", TUNED),
    ("Spark's own", "kafka", {}),
)

Query = Callable[[Any, str, dict[str, str], Path], None]


def tables(site: Site) -> list[Table]:
    """Throughput for each load, what a task costs, and how long a stream takes to begin."""
    if missing := what_is_missing():
        return [Table(title=f"spark: not measured, since {missing}", columns=["-"], rows=[])]
    with recommended_session() as spark:
        found = [_throughput(site, spark, *load) for load in LOADS]
        return [*found, _tasks(site, spark), _starts(site, spark)]


@contextmanager
def recommended_session() -> Iterator[Any]:
    """A session with the settings that docs/spark.md recommends."""
    with _written_bytecode(), _home_with_bytecode(), _folder() as folder:
        spark = a_session(python=command(folder), **RECOMMENDED | {"spark.driver.memory": "2g"})
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _written_bytecode() -> Iterator[None]:
    """Python writes bytecode, as it does for an installed package. Else each process of Spark would
    compile this checkout again where PYTHONDONTWRITEBYTECODE is set."""
    names = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        try:
            yield
        finally:
            del os.environ["PYTHONPYCACHEPREFIX"]
            os.environ.update(kept)


@contextmanager
def _home_with_bytecode() -> Iterator[None]:
    """PySpark's home as it is after `python -m aktor.spark.bytecode`; the installed one stays."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    kept = os.environ.get("SPARK_HOME")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        lib = home / "python" / "lib"
        lib.mkdir(parents=True)
        for one in installed.iterdir():
            if one.name != "python":
                (home / one.name).symlink_to(one)
        for archive in archives(installed):
            shutil.copy(archive, lib)
            add_bytecode(lib / archive.name)
        os.environ["SPARK_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("SPARK_HOME")
            if kept is not None:
                os.environ["SPARK_HOME"] = kept


# -- throughput


def _throughput(site: Site, spark: Any, size: int, codec: str | None, count: int) -> Table:
    count = site.scaled(count)
    topic = site.new_topic(4)
    site.fill(topic, (value(number, size) for number in range(count)), compression=codec)
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(1 if site.quick else 1 + ROUNDS):
        for way, query in QUERIES.items():
            for name, kind, more in SOURCES:
                options = _options(site, topic) | more
                with _folder() as folder:
                    measured = timed(
                        spark, lambda q=query, k=kind, o=options, f=folder: q(spark, k, o, f)
                    )
                if number or site.quick:
                    results.setdefault((way, name), []).append(measured)
    rates = {key: [count / took / 1e6 for took, _ in some] for key, some in results.items()}
    rows = []
    for (way, name), some in results.items():
        cpu = median(used / count * 1e6 for _, used in some)
        best = rates[way, "Spark's own, tuned"]
        own = ratio(rates[way, name], best)
        target = at_least(round(own, 2), 2.0, " x tuned") if name == "aktor" else ""
        rows.append(
            [f"{way}, {name}", spread(rates[way, name], 2), f"{own:.2f}", f"{cpu:.2f}", target]
        )
    return Table(
        title=f"spark: {count:,} records of {size} bytes, {codec or 'uncompressed'}, 4 partitions",
        columns=["query, source", "M rows/s", "x tuned", "CPU s per M", "target"],
        rows=rows,
    )


def _batch(spark: Any, kind: str, options: dict[str, str], _folder: Path) -> None:
    frame = spark.read.format(kind).options(**options).load()
    frame.write.format("noop").mode("overwrite").save()


def _parquet(spark: Any, kind: str, options: dict[str, str], folder: Path) -> None:
    frame = spark.read.format(kind).options(**options).load()
    frame.write.parquet(str(folder / "data"))


def available_now(spark: Any, kind: str, options: dict[str, str], folder: Path) -> None:
    frame = spark.readStream.format(kind).options(**options).load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


QUERIES: Final[dict[str, Query]] = {
    "batch": _batch,
    "Parquet": _parquet,
    "availableNow": available_now,
}


# -- what a task costs


def _tasks(site: Site, spark: Any) -> Table:
    """Many tasks of few records: seconds beyond those of one task, for each."""
    topic = site.new_topic(1)
    site.fill(topic, (value(number, 100) for number in range(1_000)))
    rows = []
    for name, kind, _ in SOURCES[:1]:
        took: dict[int, list[float]] = {2: [], 200: []}
        for _ in range(2 if site.quick else 5):
            for tasks, some in took.items():
                options = _options(site, topic) | {"minPartitions": str(tasks)}
                with _folder() as folder:
                    some.append(
                        timed(spark, lambda k=kind, o=options, f=folder: _batch(spark, k, o, f))[0]
                    )
        each = (median(took[200]) - median(took[2])) / 198 * 2 * 1000
        target = at_most(round(each, 1), 20.0, " ms")
        rows.append([name, f"{each:.1f}", target])
    return Table(
        title="spark: a task of five records, two at a time",
        columns=["source", "ms of a slot", "target"],
        rows=rows,
    )


# -- how long a stream takes to begin


def _starts(site: Site, spark: Any) -> Table:
    """From `start` to the end of an availableNow query of 1,000 records, in a warm session."""
    topic = site.new_topic(4)
    site.fill(topic, (value(number, 100) for number in range(1_000)))
    took: dict[str, list[float]] = {}
    for _ in range(2 if site.quick else 7):
        for name, kind, more in SOURCES:
            options = _options(site, topic) | more
            with _folder() as folder:
                one = timed(
                    spark, lambda k=kind, o=options, f=folder: available_now(spark, k, o, f)
                )
            took.setdefault(name, []).append(one[0])
    own = ratio(took["aktor"], took["Spark's own"])
    rows = [[name, spread(some, 2), ""] for name, some in took.items()]
    rows[0][2] = at_most(round(own, 2), 1.0, " x Spark's own")
    return Table(
        title="spark: a stream of 1,000 records from start to end",
        columns=["source", "s", "target"],
        rows=rows,
    )


# -- how it is measured


def _options(site: Site, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": ",".join(site.bootstrap),
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def timed(spark: Any, query: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the clock, and of the processors in the JVM and its descendants."""
    jvm = spark.sparkContext._gateway.proc.pid
    cpu, start = cpu_of(jvm), time.perf_counter()
    query()
    return time.perf_counter() - start, cpu_of(jvm) - cpu


def cpu_of(root: int) -> float:
    """Processor seconds of a process and all its descendants, those that have ended included."""
    used = {pid: sum(map(int, fields[11:15])) for pid, fields in _processes().items()}
    return sum(used.get(pid, 0) for pid in family(root)) / os.sysconf("SC_CLK_TCK")


def family(root: int) -> set[int]:
    """A process and all its descendants."""
    parents = {pid: int(fields[1]) for pid, fields in _processes().items()}
    found = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def _processes() -> dict[int, list[str]]:
    """The fields of /proc/PID/stat from the third one on, of all processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = fields
    return found
