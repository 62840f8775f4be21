"""The rebalances in trace files: tables as Parquet, and a page of pictures.

    python -m aktor.spark.rebalances LOGS --out FOLDER [--stream] [--once]

LOGS is a file, a folder (with the folders in it) or a pattern of JSON lines (AKTOR_TRACE),
compressed or not; with --stream a folder, into which more files come. FOLDER, which must not be in
LOGS, gets a folder of Parquet files for each table, and rebalances.html, for which the extra
`pictures` is needed. Spark is what `spark-submit` gives, else all cores of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from aktor.spark.rebalances.job import Tables, analyse_logs, write_tables
from aktor.spark.rebalances.page import pictures_of
from aktor.spark.rebalances.stream import LATENESS, files_at, follow_logs, has_begun, read_stream
from aktor.trace.pictures import MissingError

__all__ = ["main"]

PAGE = "rebalances.html"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = _parser()
    chosen = _parse(parser, arguments)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("aktor rebalances")
    if not chosen.stream:
        # Unix sockets make tasks faster. Not in a stream, which waits for files most of the time:
        # Spark 4.3 ends a worker after a minute without work, and with these sockets it then prints
        # a traceback.
        builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.getOrCreate()
    for place in (chosen.logs, chosen.out):
        _check_file_system(parser, spark, place)
    with _refusing_missing_logs(parser, chosen.logs):
        if chosen.stream:
            _follow(spark, chosen)
            return 0
        tables = analyse_logs(spark, chosen.logs)
    _write(tables, chosen.out)
    tables.close()
    return 0


def _follow(spark: SparkSession, chosen: argparse.Namespace) -> None:
    folder = f"{chosen.out}/stream"

    def show() -> None:
        _write_page(read_stream(spark, folder), chosen.out)

    lateness, once = chosen.lateness, chosen.once
    interrupted = threading.Event()
    with _on_ctrl_c(interrupted.set):
        query = follow_logs(spark, chosen.logs, folder, lateness=lateness, once=once, then=show)
        while query.isActive and not interrupted.wait(0.2):
            pass
        # To stop a query while foreachBatch runs may block for ever.
        while query.isActive and query.status["isTriggerActive"]:
            time.sleep(0.2)
    if query.isActive:
        query.stop()
    query.awaitTermination()  # raises what has ended it
    if has_begun(spark, folder):
        _write(read_stream(spark, folder), chosen.out)
    else:
        print(f"no trace file has come into {chosen.logs}")


@contextlib.contextmanager
def _on_ctrl_c(act: Callable[[], None]) -> Iterator[None]:
    """Do this at the first Ctrl-C. KeyboardInterrupt, as at the second, may hit the connection to
    the JVM, and py4j then prints tracebacks."""

    def hear(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        act()

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(tables: Tables, folder: str) -> None:
    write_tables(tables, folder)
    _write_page(tables, folder)


def _write_page(tables: Tables, folder: str) -> None:
    """Write the page into the folder if that is a local one; else (HDFS, S3) into the working
    directory."""
    place = _local(folder) if os.path.isdir(_local(folder)) else "."
    page = os.path.join(place, PAGE)
    try:
        pictures_of(tables).write_html(page)
    except MissingError as error:
        print(f"{page} is not written: {error}")
    else:
        print(f"{page} is written")


def _check_file_system(parser: argparse.ArgumentParser, spark: SparkSession, place: str) -> None:
    """Refuse a place whose file system Spark does not have. Without this check the job would fail
    at its end, when it writes the report."""
    try:
        files_at(spark, place)
    except Py4JJavaError as error:
        reason = error.java_exception.toString().rpartition("Exception: ")[2]
        parser.error(f"{place} cannot be used: {reason}")


@contextlib.contextmanager
def _refusing_missing_logs(parser: argparse.ArgumentParser, logs: str) -> Iterator[None]:
    """Spark alone knows whether they exist: a path may be one of HDFS, without saying so."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        parser.error(f"{logs} does not exist")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aktor.spark.rebalances",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", metavar="LOGS")
    parser.add_argument("--out", metavar="FOLDER", required=True)
    parser.add_argument("--stream", action="store_true", help="go on with files that come")
    parser.add_argument("--once", action="store_true", help="with --stream: end with those there")
    parser.add_argument(
        "--lateness",
        metavar="SECONDS",
        type=_seconds,
        help=f"with --stream: how much later than others an event may come (default: {LATENESS})",
    )
    return parser


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    chosen = parser.parse_args(arguments)
    for name, is_given in (("--once", chosen.once), ("--lateness", chosen.lateness is not None)):
        if is_given and not chosen.stream:
            parser.error(f"{name} is for --stream")
    if chosen.lateness is None:
        chosen.lateness = LATENESS
    logs, out = _local(chosen.logs), _local(chosen.out)
    if os.path.isdir(logs) and _is_in(out, logs):
        parser.error(f"--out {chosen.out} is in {chosen.logs}: it would be read as logs")
    return chosen


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"it must be 0 or more seconds, not {text}")


def _local(place: str) -> str:
    """The path of a file's URI, as Hadoop reads it: nothing stands for other characters there."""
    return re.sub(r"^file:(//(?=/))?(?=/)", "", place)


def _is_in(place: str, folder: str) -> bool:
    inner, outer = os.path.realpath(place), os.path.realpath(folder)
    return os.path.commonpath([inner, outer]) == outer


if __name__ == "__main__":
    sys.exit(main())
