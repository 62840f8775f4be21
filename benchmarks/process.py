"""`process`: how near it comes to what its workers could do, and what it costs per record."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_least, spread
from benchmarks.throughput import peak_memory, value

ROUNDS: Final = 3

#: Workers, how many of them, order, seconds that a handler sleeps, records.
CASES: Final = (
    ("threads", 8, "key", 0.005, 8_000),
    ("threads", 8, "partition", 0.005, 4_000),
    ("coroutines", 100, "key", 0.005, 40_000),
    ("threads", 8, "key", 0.0, 100_000),
    ("a poll loop", 1, "partition", 0.005, 1_000),
    ("a poll loop", 1, "partition", 0.0, 1_000_000),
)


def tables(site: Site) -> list[Table]:
    """One table."""
    topic = site.new_topic(8)
    site.fill(topic, (value(number, 100) for number in range(site.scaled(1_000_000))))
    rows = []
    for workers, count, order, sleeps, records in CASES:
        results = [
            child.run(
                handle,
                bootstrap=site.bootstrap,
                topic=topic,
                workers=workers,
                concurrency=count,
                order=order,
                sleeps=sleeps,
                records=site.scaled(records),
            )
            for _ in range(1 if site.quick else ROUNDS)
        ]
        rates = [one[2] / one[0] for one in results]
        target = ""
        if sleeps:
            # No more than one record of each of the 8 partitions at a time, if these keep order.
            possible = min(count, 8) if order == "partition" and workers == "threads" else count
            target = at_least(round(median(rates) * sleeps / possible, 2), 0.8, " of the possible")
        rows.append(
            [
                f"{workers}, {count}, order by {order}, handler sleeps {sleeps * 1000:g} ms",
                spread(rates, 0),
                f"{median(one[1] / one[2] * 1e6 for one in results):.1f}",
                f"{median(one[3] for one in results):.0f}",
                target,
            ]
        )
    return [
        Table(
            title=f"process: 100-byte records, 8 partitions, {ROUNDS} rounds",
            columns=["workers", "records/s", "CPU s per M", "peak RSS, MB", "target"],
            rows=rows,
        )
    ]


def handle(
    bootstrap: list[str],
    topic: str,
    workers: str,
    concurrency: int,
    order: str,
    sleeps: float,
    records: int,
) -> tuple[float, float, int, float]:
    """Seconds, CPU seconds and records from the first handler to the last; peak MB."""
    from aktor import KafkaConsumer

    began: list[tuple[float, float]] = []
    handled = 0

    def count() -> None:
        nonlocal handled
        if not handled:
            began.append((time.perf_counter(), time.process_time()))
        handled += 1
        if handled == records:
            took.extend((time.perf_counter() - began[0][0], time.process_time() - began[0][1]))
            consumer.wakeup()

    took: list[float] = []

    def sleep(_record: Any) -> None:
        if sleeps:
            time.sleep(sleeps)
        count()

    async def rest(_record: Any) -> None:
        await asyncio.sleep(sleeps)
        count()

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=new_name("group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    if workers == "a poll loop":
        while handled < records:
            for some in consumer.poll(1000).values():
                for record in some[: records - handled]:
                    sleep(record)
    else:
        from aktor.errors import WakeupError

        handler = rest if workers == "coroutines" else sleep
        with suppress(WakeupError):
            consumer.process(handler, concurrency=concurrency, order=order)
    peak = peak_memory()
    consumer.close()
    return took[0], took[1], records, peak
