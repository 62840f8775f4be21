"""How much memory a consumer takes whose application has stopped polling, and what a bomb costs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from aktor.records import MAX_BATCH_BYTES
from benchmarks import child
from benchmarks.clients import import_client, installed, open_client
from benchmarks.site import Site
from benchmarks.tables import Table, at_most, spread
from tests.unit.records.bombs import BOMBS, a_bomb

ROUNDS: Final = 3
PARTITIONS: Final = 8
RECORD_BYTES: Final = 100_000
WAITING_MB: Final = 250
STALL_S: Final = 10.0
LOOK_EVERY_S: Final = 0.02
MB: Final = 1_000_000
ALLOWANCE_MB: Final = 64.0

#: Who is measured, its settings, and the bound in MB that they set.
CASES: Final[tuple[tuple[str, dict[str, int], float | None], ...]] = (
    ("aktor", {}, 33.6),
    ("aktor", {"max_buffered_bytes": 8 * MB}, 8.0),
    ("kafka-python", {}, None),
    ("confluent", {}, None),
    ("aiokafka", {}, None),
)


#: What a bomb would become.
BOMB_BYTES: Final = 1 << 30


def tables(site: Site) -> list[Table]:
    """A stalled application; batches that would become a gigabyte."""
    return [_stalled(site), _bombs(site)]


def _stalled(site: Site) -> Table:
    """Growth of the resident memory while data waits and nobody polls."""
    topic = site.new_topic(PARTITIONS)
    site.fill(topic, _values(site.scaled(WAITING_MB * MB // RECORD_BYTES)))
    rounds = 1 if site.quick else ROUNDS
    cases = [case for case in CASES if case[0] in installed()]
    grown: list[list[float]] = [[] for _ in cases]
    for _ in range(rounds):
        for (client, settings, _), growth in zip(cases, grown, strict=True):
            growth.append(
                child.run(
                    stall,
                    client=client,
                    settings=settings,
                    bootstrap=site.bootstrap,
                    topic=topic,
                    seconds=1.0 if site.quick else STALL_S,
                )
            )
    rows = []
    for (client, settings, bound), growth in zip(cases, grown, strict=True):
        given = ", ".join(f"{key}={value}" for key, value in settings.items()) or "defaults"
        target = "" if bound is None else at_most(max(growth), bound + ALLOWANCE_MB, " MB")
        rows.append(
            [f"{client}, {given}", spread(growth, 0), f"{bound:.0f}" if bound else "", target]
        )
    return Table(
        title=(
            f"memory: {WAITING_MB} MB wait in {PARTITIONS} partitions, records of 100 kB; the "
            f"application polls one record and then not for {STALL_S:.0f} s; {rounds} rounds"
        ),
        columns=["client", "RSS grows by, MB", "bound of the buffer, MB", "target"],
        rows=rows,
        notes=["The peak over the size before the constructor; imports do not count."],
    )


def _bombs(site: Site) -> Table:
    """The highest resident memory while a small batch is refused that would become large."""
    size = BOMB_BYTES // 2 if site.quick else BOMB_BYTES
    rows = []
    for kind in BOMBS:
        with tempfile.NamedTemporaryFile() as file:
            file.write(a_bomb(kind, size))
            file.flush()
            kilobytes = file.tell() / 1000
            grown = {
                limit: child.run(defuse, path=file.name, limit=limit)
                for limit in (MAX_BATCH_BYTES, 256 << 20)
            }
        rows.append(
            [
                kind,
                f"{kilobytes:,.0f}",
                *(f"{one:.0f}" for one in grown.values()),
                at_most(round(grown[MAX_BATCH_BYTES], 1), ALLOWANCE_MB, " MB"),
            ]
        )
    return Table(
        title=f"memory: one batch that would become {size >> 20:,} MiB is refused",
        columns=[
            "codec",
            "batch, kB",
            "RSS grows by, MB",
            "with max_decompressed_batch_bytes=268435456",
            "target",
        ],
        rows=rows,
        notes=["On top of what is buffered (at most max_buffered_bytes)."],
    )


def defuse(path: str, limit: int) -> float:
    """By how many MB the process grows at most while it reads this batch."""
    import cramjam  # noqa: F401 - it is imported when it is first needed

    from aktor.errors import BatchTooLargeError
    from aktor.records import RecordReader

    with open(path, "rb") as file:
        data = memoryview(file.read())
    before = _highest_mb()
    reader = RecordReader(data, topic="t", partition=0, fetch_offset=0, max_batch_bytes=limit)
    try:
        reader.take(500)
    except BatchTooLargeError:
        return _highest_mb() - before
    raise AssertionError("it is not refused")


def _values(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield os.urandom(RECORD_BYTES)


def stall(
    client: str, settings: dict[str, Any], bootstrap: list[str], topic: str, seconds: float
) -> float:
    """By how many MB the process grows at most."""
    import_client(client)
    before = peak = _resident_mb()
    reader = open_client(client, bootstrap, topic, **settings)
    while not reader.poll(1.0, 1):
        peak = max(peak, _resident_mb())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        reader.rest(LOOK_EVERY_S)
        peak = max(peak, _resident_mb())
    reader.close()
    return peak - before


def _highest_mb() -> float:
    with open("/proc/self/status") as lines:
        (line,) = (line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / MB


def _resident_mb() -> float:
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB
