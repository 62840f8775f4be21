"""Kafka into Spark: our data source against Spark's own, with its defaults and at its best.

Two cores for everything: the broker, Spark's JVM and its Python workers. One session. Each kind of
query has its rounds, one source after the other in each. Those into Parquet come last: after them
other queries were slower in earlier runs, perhaps since the JVM's compiler had changed its mind.
CPU seconds are those of the JVM and of all Python workers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from aktor.spark.bytecode import add_bytecode, archives
from benchmarks.processors import Processors
from benchmarks.site import Site
from benchmarks.tables import Table, at_least, at_most, ratio, spread
from benchmarks.throughput import value
from tests.spark.session import a_session, command, what_is_missing

#: After a first round that is not counted, in which the JVM compiles and workers start.
ROUNDS: Final = 3

#: Size of a record, codec, and how many: a query takes a few seconds, of which one is its start.
LOADS: Final = ((100, None, 10_000_000), (1000, "lz4", 1_500_000))

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

#: With its defaults Spark's own source is read in one round.
ONCE: Final = "Spark's own"

#: Name, format, options.
SOURCES: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("aktor", "aktor", {}),
    ("Spark's own, tuned", "kafka", TUNED),
    (ONCE, "kafka", {}),
)

#: Records in all partitions together, where there are many small ones.
SMALL: Final = 200_000

#: The same, for many small partitions. Without the wait of 5 ms Spark's own source waits half a
#: second at the end of many of them: that is measured once.
SOURCES_OF_PARTITIONS: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("aktor, maxPartitions=2", "aktor", {"maxPartitions": "2"}),
    ("aktor", "aktor", {}),
    ("Spark's own, tuned, fetch.max.wait.ms=5", "kafka", TUNED | {"kafka.fetch.max.wait.ms": "5"}),
    (ONCE, "kafka", TUNED),
)

Query = Callable[[Any, str, dict[str, str], Path], None]


def tables(site: Site) -> Iterator[Table]:
    """Throughput for each load, few and many partitions, what a task costs, and small streams."""
    from benchmarks import spark_streams

    if missing := what_is_missing():
        yield Table(title=f"spark: not measured, since {missing}", columns=["-"], rows=[])
        return
    with recommended_session() as spark:
        yield spark_streams.small(site, spark)
        yield spark_streams.idle(site, spark)
        yield _tasks(site, spark)
        yield _partitions(site, spark)
        for load in LOADS:
            yield _throughput(site, spark, *load)


@contextmanager
def recommended_session() -> Iterator[Any]:
    """A session with the settings that docs/spark.md recommends."""
    with _written_bytecode(), _home_with_bytecode(), _folder() as folder:
        spark = a_session(python=command(folder), **RECOMMENDED | {"spark.driver.memory": "2g"})
        try:
            yield spark
        finally:
            spark.stop()
            _end_jvm()


def _end_jvm() -> None:
    """The JVM outlives a session, and has the folders of this one in its environment."""
    from pyspark import SparkContext

    context: Any = SparkContext
    context._gateway.shutdown()
    context._gateway.proc.stdin.close()
    context._gateway.proc.wait()
    context._gateway = context._jvm = None


@contextmanager
def _written_bytecode() -> Iterator[None]:
    """Python reads and writes bytecode beside the modules, as for an installed package. Else each
    process of Spark would compile this checkout again where PYTHONDONTWRITEBYTECODE is set, and all
    packages for 2 s of the processor where PYTHONPYCACHEPREFIX names an empty folder."""
    names = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
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
    for way, query in QUERIES.items():
        for number in range(1 if site.quick else 1 + ROUNDS):
            for name, kind, more in SOURCES:
                if name == ONCE and number > 1:
                    continue
                options = _options(site, topic) | more
                with _folder() as folder:
                    measured = timed(
                        spark, lambda q=query, k=kind, o=options, f=folder: q(spark, k, o, f)
                    )
                if number or site.quick:
                    results.setdefault((way, name), []).append(measured)
                    site.say(f"{way}, {name}: {measured[0]:.1f} s, {measured[1]:.1f} CPU s")
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
    "availableNow": available_now,
    "Parquet": _parquet,
}


# -- few and many partitions


def _partitions(site: Site, spark: Any) -> Table:
    """As many records in 4 and in 200 partitions, in a batch."""
    count = site.scaled(SMALL)
    rows = []
    for partitions in (4, 200):
        topic = site.new_topic(partitions)
        site.fill(topic, (value(number, 100) for number in range(count)))
        found: dict[str, list[tuple[float, float]]] = {}
        for number in range(1 if site.quick else 1 + ROUNDS):
            for name, kind, more in SOURCES_OF_PARTITIONS:
                if name == ONCE and number != 1:
                    continue
                options = _options(site, topic) | more
                with _folder() as folder:
                    measured = timed(
                        spark, lambda k=kind, o=options, f=folder: _batch(spark, k, o, f)
                    )
                if number or site.quick:
                    found.setdefault(name, []).append(measured)
                    site.say(f"{partitions} partitions, {name}: {measured[0]:.1f} s")
        best = [cpu for _, cpu in found[SOURCES_OF_PARTITIONS[2][0]]]
        for name, some in found.items():
            title = f"{partitions}, {name if name != ONCE else 'the same, without that'}"
            cpus = [cpu for _, cpu in some]
            rows.append(
                [
                    title,
                    spread([took for took, _ in some], 2),
                    f"{median(cpus):.2f}",
                    f"{ratio(best, cpus):.2f}",
                ]
            )
    return Table(
        title=f"spark: {count:,} records of 100 bytes, a batch",
        columns=["partitions, source", "s", "CPU s", "x less CPU"],
        rows=rows,
    )


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
    processors, start = Processors(jvm), time.perf_counter()
    query()
    return time.perf_counter() - start, processors.seconds()
