"""What a look at a consumer costs: `status` and `why`, a listener of its events, its metrics."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from operator import truediv
from statistics import median, quantiles
from typing import Any, Final

from benchmarks import child
from benchmarks.embedded import serving
from benchmarks.site import Site
from benchmarks.tables import Table, at_most, spread

PARTITIONS: Final = (200, 5_000)
TARGET_MS: Final = 1.0
LOOKS: Final = 20

RECORDS: Final = 100_000
RECORD_BYTES: Final = 110
#: In one process the objects of one consumer may lie better in memory than those of another: some
#: per cent.
PROCESSES: Final = 9
ROUNDS: Final = 3
#: Records a poll, and polls of each consumer in a round.
POLLS: Final = {10: 2_000, 500: 100}
LEVELS: Final = {"`on_event`, info": "info", "`on_event`, debug": "debug"}
SECONDS_TO_FILL: Final = 1.0
TARGET_LISTENER: Final = 1.03
TARGET_METRICS: Final = 1.01


def tables(site: Site) -> list[Table]:
    """Milliseconds of a look; polls that are listened to, against those that are not."""
    return [_looks(site), _listeners(site)]


def _looks(site: Site) -> Table:
    rows = []
    for partitions in PARTITIONS:
        with serving(partitions) as (bootstrap, server):
            found = child.run(look, bootstrap=bootstrap, partitions=partitions)
            server.result()
        for name, times in found.items():
            few = partitions == PARTITIONS[0] and not name.startswith("str")
            target = at_most(round(median(times), 2), TARGET_MS, " ms") if few else ""
            each = f"{median(times) / partitions * 1000:.1f}"
            rows.append([name, f"{partitions:,}", spread(times, 2), each, target])
    return Table(
        title=f"looking: a look at a consumer that has read all, median (least-most) of {LOOKS}",
        columns=["", "partitions", "ms", "µs a partition", "target"],
        rows=rows,
        notes=["Processor time of the thread that looks."],
    )


def _listeners(site: Site) -> Table:
    topic = site.new_topic(1)
    site.fill(topic, (b"%0100d" % number for number in range(RECORDS)))
    rows = []
    for size in POLLS:
        found: dict[str, list[float]] = {}
        for number in range(1 if site.quick else PROCESSES):
            each = child.run(
                listen, bootstrap=site.bootstrap, topic=topic, size=size, number=number
            )
            for name, took in each.items():
                found.setdefault(name, []).append(took)
        for name, base, limit in (
            ("`on_event`, info", "nobody listens", TARGET_LISTENER),
            ("`on_event`, debug", "nobody listens", TARGET_LISTENER),
            ("`AKTOR_TRACE`, a file", "nobody listens", TARGET_LISTENER),
            ("nobody listens", "`metrics_enabled=False`", TARGET_METRICS),
        ):
            share = round(median(map(truediv, found[name], found[base])), 3)
            rows.append(
                [
                    f"{name} / {base}",
                    f"{size}",
                    spread(found[name], 1),
                    f"{share:.3f}",
                    at_most(share, limit),
                ]
            )
    return Table(
        title=(
            f"looking: polls of buffered 100-byte records, {POLLS[10]:,} of 10 and {POLLS[500]} of"
            f" 500 a round, one poll each by turns, median (least-most) of {PROCESSES} processes"
        ),
        columns=["", "records a poll", "µs a poll", "ratio", "target"],
        rows=rows,
        notes=["The lower quartile of a process's polls: what else the machine does is not in it."],
    )


def look(bootstrap: str, partitions: int) -> dict[str, list[float]]:
    """Milliseconds of `status`, `why` and of the text of a status, with nothing to read."""
    import aktor

    consumer = aktor.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    every = [aktor.TopicPartition("orders", number) for number in range(partitions)]
    consumer.assign(every)
    until = time.monotonic() + 60
    while any(one.lag != 0 for one in consumer.status().partitions.values()):
        consumer.poll(200)
        assert time.monotonic() < until, consumer.why()
    took: dict[str, list[float]] = {}
    for name, act in {
        "status()": consumer.status,
        "status().healthy": lambda: consumer.status().healthy,
        "why()": consumer.why,
        "str(status())": lambda: str(consumer.status()),
    }.items():
        took[name] = [_seconds(act) * 1e3 for _ in range(LOOKS)]
    consumer.close()
    return took


def listen(bootstrap: list[str], topic: str, size: int, number: int) -> dict[str, float]:
    """Microseconds of a poll while nobody listens, while somebody does, and without metrics. The
    consumers are made in another order in each of the processes that are numbered."""
    import aktor

    partition = aktor.TopicPartition(topic, 0)

    def a_consumer(*, metrics: bool = True) -> Any:
        consumer = aktor.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            auto_offset_reset="earliest",
            metrics_enabled=metrics,
            max_poll_records=size,
            max_partition_fetch_bytes=2 * POLLS[size] * size * RECORD_BYTES,
        )
        consumer.assign([partition])
        return consumer

    def a_hooked(level: str) -> Any:
        consumer = a_consumer()
        consumer.on_event(_nothing, level=level)
        return consumer

    def a_traced() -> Any:
        os.environ["AKTOR_TRACE"] = os.path.join(folder, "trace.jsonl")
        try:
            return a_consumer()
        finally:
            del os.environ["AKTOR_TRACE"]

    makers: dict[str, Callable[[], Any]] = {
        "nobody listens": a_consumer,
        "`on_event`, info": lambda: a_hooked("info"),
        "`on_event`, debug": lambda: a_hooked("debug"),
        "`AKTOR_TRACE`, a file": a_traced,
        "`metrics_enabled=False`": lambda: a_consumer(metrics=False),
    }
    names = list(makers)
    names = [*names[number % len(names) :], *names[: number % len(names)]]
    with tempfile.TemporaryDirectory() as folder:
        ways = {name: makers[name]() for name in names}
        took: list[list[float]] = [[] for _ in ways]
        for _ in range(ROUNDS):
            for consumer in ways.values():
                consumer.seek(partition, 0)
                while not consumer.poll(100):
                    pass
            time.sleep(SECONDS_TO_FILL)
            _by_turns([consumer.poll for consumer in ways.values()], POLLS[size], took)
        for consumer in ways.values():
            consumer.close()
    return {name: quantiles(times, n=4)[0] for name, times in zip(ways, took, strict=True)}


def _by_turns(polls: list[Callable[[int], Any]], rounds: int, took: list[list[float]]) -> None:
    """Add the microseconds of each poll. Who polls last in one turn polls first in the next one."""
    order = list(zip(polls, took, strict=True))
    for _ in range(rounds):
        order.reverse()
        for poll, times in order:
            began = time.perf_counter_ns()
            records = poll(0)
            times.append((time.perf_counter_ns() - began) / 1e3)
            assert records, "a poll of buffered records found none"


def _nothing(_event: dict[str, Any]) -> None:
    """Listen, and do nothing."""


def _seconds(act: Callable[[], Any]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
