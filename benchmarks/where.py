"""Where the time goes when records come out: a sampling profile (Linux' perf) of each way.

The samples are of the whole process, after its start. What is copied, decoded and handed out is
told apart by the function, or by the library, that the processor was in.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table
from benchmarks.throughput import READ, value

#: Name; what is read: size of a record, codec, partitions, records; the way, records at a time.
CASES: Final = (
    ("poll 500", 100, None, 4, 3_000_000, "poll", None),
    ("poll 10,000", 100, None, 4, 3_000_000, "poll", 10_000),
    ("iteration", 100, None, 4, 3_000_000, "iterate", None),
    ("columns", 100, None, 4, 3_000_000, "columns", 10_000),
    ("one partition", 100, None, 1, 3_000_000, "poll", None),
    ("1 kB, lz4", 1000, "lz4", 4, 1_000_000, "poll", None),
    ("1 kB, zstd", 1000, "zstd", 4, 1_000_000, "poll", None),
    ("process, 8 threads", 100, None, 4, 60_000, "process", None),
)

#: Parts of the application's threads, each with the symbols and libraries that belong to it: the
#: first that fits.
PARTS: Final = (
    ("decompression", r"decompressed|cramjam|_lz4"),
    ("checksum", r"_crc32c"),
    ("garbage collector", r"gc_collect|visit_(decref|reachable)|untrack_tuple|_traverse"),
    ("memory", r"[mM]alloc|_int_free|Object_Free|\bc?free\b|realloc|unlink_chunk|_GC_|dealloc"),
    ("copies", r"mem(move|cpy|set)"),
    ("records", r"records\.kernel|records/kernel|record_iterator|Columns"),
    ("system", r"kernel\.kallsyms|\[vdso\]"),
    ("interpreter", r"libpython|python3"),
)
COLUMNS: Final = (*(name for name, _ in PARTS), "other", "background: system", "background: rest")

HERTZ: Final = 1999


def tables(site: Site) -> list[Table]:
    """One table; none where there is no perf."""
    if shutil.which("perf") is None:
        return []
    topics: dict[tuple[Any, ...], str] = {}
    rows = []
    for name, size, codec, partitions, count, way, limit in CASES:
        count = site.scaled(count)
        load = (size, codec, partitions)
        if load not in topics:
            topics[load] = site.new_topic(partitions)
            values = (value(number, size) for number in range(count))
            site.fill(topics[load], values, compression=codec)
        shares = _profile(site, topics[load], count, way, limit)
        rows.append([name, *(f"{shares[column]:.0%}" for column in COLUMNS)])
    return [
        Table(
            title="where the processor's time goes",
            columns=["way", *COLUMNS],
            rows=rows,
            notes=[
                "All but the last two are of the application's threads. Memory: allocating and",
                "freeing. Records: headers, records and columns are made. System: page faults,",
                "waking and sleeping; in the background the copy out of the socket, too.",
            ],
        )
    ]


def _profile(site: Site, topic: str, count: int, way: str, limit: int | None) -> dict[str, float]:
    """The share of each column."""
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        background = child.run(
            read, bootstrap=site.bootstrap, topic=topic, count=count, way=way, limit=limit, to=data
        )
        script = ["perf", "script", "-i", data, "-F", "tid,ip,sym,dso"]
        lines = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    found = Counter(_column(line, background) for line in lines.splitlines() if line.strip())
    total = found.total()
    return {column: found[column] / total for column in COLUMNS}


def _column(line: str, background: str) -> str:
    thread, _, rest = line.strip().partition(" ")
    in_system = "kernel.kallsyms" in rest
    if thread == background:
        return "background: system" if in_system else "background: rest"
    for name, pattern in PARTS:
        if in_system == (name == "system") and re.search(pattern, rest):
            return name
    return "other"


def read(bootstrap: list[str], topic: str, count: int, way: str, limit: int | None, to: str) -> str:
    """Read all of the topic, profiled to a file; the number of the background's thread."""
    settings = {"enable_auto_commit": False, "consumer_timeout_ms": 500} if way == "process" else {}
    reader = open_client("aktor", bootstrap, topic, new_name("group"), **settings)
    first = reader.columns if way == "columns" else reader.poll
    while not first(1.0, 1):
        pass
    (background,) = [one for one in threading.enumerate() if one.name.startswith("aktor-")]
    command = ["perf", "record", "-q", "-F", str(HERTZ), "-o", to, "-p", str(os.getpid())]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as sampling:
        time.sleep(1.0)  # until it samples
        if way == "process":
            reader.consumer.process(lambda record: len(record.value))
        else:
            READ[way](reader, count - 1, limit)
        sampling.send_signal(signal.SIGINT)
    thread = str(background.native_id)
    reader.close()
    return thread
