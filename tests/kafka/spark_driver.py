"""A driver of Spark in a process of its own. Its queries write Parquet or to a topic, and it can be
killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka.embedded import Cluster
from tests.kafka.spark_support import OURS, reader
from tests.kafka.support import Child, wait_until

#: One query after another. Of each it says every 0.1 s which batch is finished, how many tasks run
#: and have failed; then its error, if any.
_PROGRAM = """
from pathlib import Path
from types import SimpleNamespace
from tests.kafka.spark_driver import parquet_query, topic_query
from tests.spark.session import a_session, command

given = json.loads({given!r})
# By default Spark updates its counts at most every 100 ms, and by events only: it may count a task
# as running only when that has ended.
at_once = {{"spark.ui.liveUpdate.period": "0"}}
folder = Path(given["folder"])
python = command(folder)
spark = a_session(given["master"], python=python, **at_once, **given["settings"])
kafka = SimpleNamespace(bootstrap_servers=servers)
tracker = spark.sparkContext.statusTracker()
for to in given["to"]:
    if to:
        query = topic_query(spark, kafka, folder, given["pause_ms"], to, **given["options"])
    else:
        query = parquet_query(spark, kafka, folder, given["pause_ms"], **given["options"])
    failed = {{}}
    while query.isActive:
        running = 0
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                failed[stage] = info.numFailedTasks
                running += info.numActiveTasks
        progress = query.lastProgress
        batch = -1 if progress is None else progress["batchId"]
        now = {{"batch": batch, "failed": sum(failed.values()), "running": running}}
        say(now)
        time.sleep(0.1)
    error = query.exception()
    error = None if error is None else str(error)
    say({{"ended": True, "error": error, "failed": sum(failed.values())}})
spark.stop()
"""


def parquet_query(spark: Any, kafka: Any, folder: Path, pause_ms: int, **options: Any) -> Any:
    """A query that reads all there is and writes it as Parquet, each row `pause_ms` long."""
    options = {"startingOffsets": "earliest", **options}
    rows = reader(spark.readStream, OURS, kafka, options).load()
    if pause_ms:
        # In the JVM, so that the Python worker of the source waits in the midst of its range.
        rows = rows.selectExpr("partition", "offset", "value", f"{_slept(pause_ms)} slept")
    rows = rows.select("partition", "offset", "value", *(["slept"] if pause_ms else []))
    return (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def topic_query(
    spark: Any, kafka: Any, folder: Path, pause_ms: int, to: str, **options: Any
) -> Any:
    """A query that reads all there is and writes "partition-offset-..." to the topic `to`, each row
    `pause_ms` long."""
    options = {"startingOffsets": "earliest", **options}
    rows = reader(spark.readStream, OURS, kafka, options).load()
    value = f"concat_ws('-', partition, offset, {_slept(pause_ms)}) value"
    sink = reader(rows.selectExpr(value).writeStream, OURS, kafka, {"topic": to})
    return (
        sink.option("checkpointLocation", str(folder / "checkpoint-of-the-topic"))
        .trigger(availableNow=True)
        .start()
    )


def _slept(ms: int) -> str:
    return f"java_method('java.lang.Thread', 'sleep', {ms}L)"


def times_written(spark: Any, folder: Path) -> Counter[tuple[int, int]]:
    """How often each partition and offset is among the rows that were written."""
    found = spark.read.parquet(str(folder / "rows")).select("partition", "offset").collect()
    return Counter(map(tuple, found))


class Driver:
    """Owns the process: a driver with its JVM, its Python workers and its executors.

    `to` says where its queries write to, one after another: a topic, or "" for Parquet.
    """

    def __init__(
        self,
        kafka: Cluster,
        topic: str,
        folder: Path,
        *,
        master: str = "local[2,4]",
        pause_ms: int = 4,
        to: Sequence[str] = ("",),
        settings: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        given = {
            "master": master,
            "settings": settings or {},
            "folder": str(folder),
            "pause_ms": pause_ms,
            "to": [*to],
            "options": {"subscribe": topic, **options},
        }
        program = _PROGRAM.format(given=json.dumps(given))
        self.child = Child(kafka, topic, "", program)
        self.failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def wait_in_mid_batch(self, number: int) -> int:
        """Wait until tasks of this batch, or of a later one, have run for half a second: their
        Python workers are at work. Returns the number of the batch."""
        ran = 0

        def at_work(heard: Any) -> bool:
            nonlocal ran
            ran = ran + 1 if heard["batch"] >= number - 1 and heard["running"] else 0
            return ran == 5

        running: int = self._wait_for(at_work)["batch"] + 1
        return running

    def fail_a_task(self) -> None:
        """Kill the Python workers in mid-batch; again in the next batch if they had already sent
        all rows of their tasks, so that no task failed."""
        self.failed = number = 0
        while not self.failed:
            number = self._kill_in_mid_batch(number + 1)

    def _kill_in_mid_batch(self, number: int) -> int:
        """Kill in this batch, or in a later one, and wait until a task has failed or the batch has
        ended. Returns its number."""
        running = self.wait_in_mid_batch(number)
        assert self.kill_python_workers()
        self._wait_for(lambda heard: heard["failed"] or heard["batch"] >= running)
        return running

    def _wait_for(self, happened: Callable[[Any], Any]) -> Any:
        """Wait until it says something with which this has happened; returns what it said."""
        while True:
            heard = self.child.hear(120)
            assert "ended" not in heard, heard
            self.failed = heard["failed"]
            if happened(heard):
                return heard

    def wait_for_end(self) -> str | None:
        """Wait until the query has ended, and the next one begins; its error."""
        while "ended" not in (heard := self.child.hear(120)):
            self.failed = max(self.failed, heard["failed"])
        self.failed = max(self.failed, heard["failed"])
        error: str | None = heard["error"]
        return error

    def kill(self) -> None:
        """SIGKILL everything at once: the driver, its JVM, Python workers, executors."""
        _kill([self.child.process.pid, *self._below()])
        self.child.process.wait()

    def interrupt(self) -> set[int]:
        """SIGINT to the driver, as by Ctrl-C, and wait for its end; the processes below it."""
        below = {*self._below()}
        self.child.process.send_signal(signal.SIGINT)
        self.child.process.wait(120)
        return below

    def kill_python_workers(self) -> int:
        """SIGKILL all Python workers that run tasks; how many there were."""
        wait_until(self._workers, "there are Python workers", 60)
        found = self._workers()
        _kill(found)
        return len(found)

    def _workers(self) -> list[int]:
        below = self._below()
        daemons = {pid for pid, words in below.items() if "daemon pyspark.worker" in words}
        parents = {pid: parent for pid, (parent, _) in _processes().items()}
        return [pid for pid in below if parents.get(pid) in daemons]

    def _below(self) -> dict[int, str]:
        return _descendants(self.child.process.pid)


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of each process of this machine."""
    said = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    )
    lines = (line.split(None, 2) for line in said.stdout.splitlines()[1:])
    return {int(pid): (int(parent), words) for pid, parent, words in lines}


def _descendants(pid: int) -> dict[int, str]:
    """The command line of each process that this one has started, and those below them."""
    every = _processes()
    found: dict[int, str] = {}
    parents = {pid}
    while parents:
        new = {one: words for one, (parent, words) in every.items() if parent in parents}
        found |= new
        parents = set(new)
    return found


def running(pids: set[int]) -> set[int]:
    """Those of these processes that have not ended."""
    every = _processes()
    return {pid for pid in pids & every.keys() if "<defunct>" not in every[pid][1]}


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(pid in _processes() for pid in pids[1:]):
        time.sleep(0.05)
