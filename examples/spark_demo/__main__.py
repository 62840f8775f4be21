"""`make demo-spark`: orders in Kafka, a streaming aggregation on Spark, a restart, and the sums.

Everything runs on this machine: aktor's embedded cluster, a producer, and Spark with two cores. The
query is stopped in the middle and goes on from its checkpoint. The exit status is 0 only if the
sums in the Parquet files are those of the orders that were written.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from aktor.broker import EmbeddedKafka
from examples.spark_demo import picture, pipeline
from examples.spark_demo.orders import Orders
from examples.spark_demo.screen import Screen

#: How often a query is started at most.
STARTS = 3

#: How much of the log is shown when none of them came to anything.
LINES = 30

ALL_WELL, SOMETHING_WRONG, NO_SPARK, INTERRUPTED = 0, 1, 2, 130

#: Ctrl-C was pressed.
_ctrl_c = threading.Event()


def _hear_ctrl_c(_number: int, _frame: FrameType | None) -> None:
    """Note the first Ctrl-C: an exception in the middle of a call of PySpark would make py4j print
    tracebacks. The second one ends the program."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _ctrl_c.set()


def _pause(seconds: float = 0.0) -> None:
    """Wait between two calls of PySpark. Raises KeyboardInterrupt."""
    if _ctrl_c.wait(seconds):
        raise KeyboardInterrupt


def main() -> int:
    """Run the demo. 0: the sums are right; 1: they are not; 2: no Spark; 130: interrupted."""
    arguments = _arguments()
    if shutil.which("java") is None:
        print("Spark needs Java 17: apt-get install openjdk-17-jre-headless", file=sys.stderr)
        return NO_SPARK
    try:
        with tempfile.TemporaryDirectory() as temporary, EmbeddedKafka() as kafka:
            folder = Path(arguments.out or temporary)
            folder.mkdir(parents=True, exist_ok=True)
            kafka.create_topic("orders", 4)
            orders = Orders(kafka.bootstrap_servers, "orders", per_second=arguments.rate)
            with contextlib.closing(orders):
                return _run(arguments, kafka.bootstrap_servers, orders, folder)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: argparse.Namespace, bootstrap: str, orders: Orders, folder: Path) -> int:
    screen = Screen()
    screen.say("Spark starts (5 to 20 s, on a busy machine a minute)")
    with screen.waiting(pipeline.what_starts):
        spark = pipeline.a_session(folder)
    signal.signal(signal.SIGINT, _hear_ctrl_c)
    try:
        orders.start()
        where = spark, bootstrap, "orders", folder
        screen.say(f"{arguments.rate:,} orders a second are written; the query begins")
        _run_for(arguments.seconds / 2, where, screen)
        screen.say("the query was stopped; it goes on from its checkpoint")
        _run_for(arguments.seconds / 2, where, screen)
        orders.finish()
        screen.say("all orders are written; the query reads what is left, and ends")
        _finish(where, screen)
        with screen.waiting(lambda: "the Parquet files are read"):
            found = pipeline.revenue(spark, folder)
    finally:
        spark.stop()
    screen.chart(found)
    kept = Path(arguments.out or tempfile.gettempdir()).resolve() / "demo-spark.html"
    kept.write_text(picture.page(found), encoding="utf-8")
    screen.say(f"the windows as a picture: {kept.as_uri()}")
    if arguments.open:
        open_in_browser(kept, screen)
    return _verdict(screen, orders, found)


def _run_for(seconds: float, where: Any, screen: Screen) -> None:
    """Run the query for a while after its first batch, then stop it, in the middle of a batch
    perhaps."""

    def once() -> None:
        query = _started(where, screen, all_of_it=False)
        deadline = None
        while query.isActive and (deadline is None or time.monotonic() < deadline):
            screen.progress(query)
            if deadline is None and query.lastProgress:
                deadline = time.monotonic() + seconds
            _pause(0.2)
        if query.exception() is not None:
            raise query.exception()
        query.stop()
        screen.progress(query)

    patiently(once, screen, where[-1] / pipeline.LOG)


def _finish(where: Any, screen: Screen) -> None:
    def once() -> None:
        query = _started(where, screen, all_of_it=True)
        while not query.awaitTermination(0.5):
            screen.progress(query)
            _pause()
        screen.progress(query)

    patiently(once, screen, where[-1] / pipeline.LOG)


def _started(where: Any, screen: Screen, *, all_of_it: bool) -> Any:
    with screen.waiting(lambda: "Spark asks a Python process for the columns, and plans the query"):
        query = pipeline.start_query(*where, all_of_it=all_of_it)
    _pause()
    return query


def patiently(run: Callable[[], None], screen: Screen, log: Path) -> None:
    """Spark ends a query whose Python process has not connected within 10 s: on a busy machine, or
    since that process has ended with an error. It has read nothing, so it is started again; in the
    end what the processes of Spark have printed is shown."""
    for start in range(1, STARTS + 1):
        try:
            return run()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
            if start == STARTS:
                screen.say(f"{STARTS} times no Python process came to Spark; the end of {log}:")
                print(*log.read_text(errors="replace").splitlines()[-LINES:], sep="\n")
                raise
        screen.say("Spark gave up a Python process that had not connected within 10 s: once more")


def open_in_browser(page: Path, screen: Screen) -> None:
    """Without a display, Python looks for a browser in the terminal, and only says that there is
    none."""
    if not webbrowser.open(page.as_uri()):
        screen.say("no browser was found here: set BROWSER to its command, or open it yourself")


def _verdict(screen: Screen, orders: Orders, found: dict[tuple[int, str], int]) -> int:
    if found == orders.sums:
        screen.say(
            f"{orders.count:,} orders in {len(found)} windows: every sum is right, over one restart"
        )
        return ALL_WELL
    wrong = {
        place
        for place in found.keys() | orders.sums.keys()
        if found.get(place, 0) != orders.sums[place]
    }
    screen.say(f"{len(wrong)} of {len(orders.sums)} sums are WRONG: {sorted(wrong)[:3]} ...")
    return SOMETHING_WRONG


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo-spark", description=__doc__)
    parser.add_argument("--seconds", type=float, default=16, help="how long the query runs (16)")
    parser.add_argument("--rate", type=int, default=1_000, help="orders a second (1000)")
    parser.add_argument("--out", help="keep the Parquet files and the checkpoint in this folder")
    parser.add_argument("--open", action="store_true", help="open the picture in the browser")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
