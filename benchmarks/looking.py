"""What a look at a consumer costs: `status` and `why`, a listener of its events, its metrics."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.embedded import serving
from benchmarks.site import Site
from benchmarks.tables import Table, at_most, spread

PARTITIONS: Final = (200, 5_000)
TARGET_MS: Final = 1.0
LOOKS: Final = 20

RECORDS: Final = 100_000
ROUNDS: Final = 9
#: Records a poll, and polls in a row. Polls of a partition are traced together every 40 ms:
#: a row of 2 ms would pay for a whole event.
POLLS: Final = {10: 2_000, 500: 100}
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
        found = child.run(
            listen,
            bootstrap=site.bootstrap,
            topic=topic,
            size=size,
            rounds=1 if site.quick else ROUNDS,
        )
        for name, base, limit in (
            ("`on_event`, info", "nobody listens", TARGET_LISTENER),
            ("`on_event`, debug", "nobody listens", TARGET_LISTENER),
            ("`AKTOR_TRACE`, a file", "nobody listens", TARGET_LISTENER),
            ("nobody listens", "`metrics_enabled=False`", TARGET_METRICS),
        ):
            share = round(min(found[name]) / min(found[base]), 3)
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
            f" 500 in a row, by turns, median (least-most) of {ROUNDS} rounds"
        ),
        columns=["", "records a poll", "µs a poll", "ratio of the least", "target"],
        rows=rows,
        notes=["Processor time of the thread that polls."],
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


def listen(bootstrap: list[str], topic: str, size: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of a poll, round by round: nobody listens, somebody does, without metrics."""
    import aktor

    partition = aktor.TopicPartition(topic, 0)

    def a_consumer(*, metrics: bool = True) -> Any:
        consumer = aktor.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            auto_offset_reset="earliest",
            metrics_enabled=metrics,
            max_poll_records=size,
        )
        consumer.assign([partition])
        return consumer

    plain, unmeasured = a_consumer(), a_consumer(metrics=False)
    folder = tempfile.TemporaryDirectory()
    os.environ["AKTOR_TRACE"] = os.path.join(folder.name, "trace.jsonl")
    traced = a_consumer()

    def a_row(consumer: Any, level: str | None) -> float:
        consumer.seek(partition, 0)
        while not consumer.poll(100):
            pass
        time.sleep(SECONDS_TO_FILL)
        stop = consumer.on_event(_nothing, level=level) if level else None
        polls = POLLS[size]
        took = _seconds(lambda: [consumer.poll(0) for _ in range(polls)])
        if stop is not None:
            stop()
        return took / polls * 1e6

    ways: dict[str, tuple[Any, str | None]] = {
        "nobody listens": (plain, None),
        "`on_event`, info": (plain, "info"),
        "`on_event`, debug": (plain, "debug"),
        "`AKTOR_TRACE`, a file": (traced, None),
        "`metrics_enabled=False`": (unmeasured, None),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (consumer, level) in ways.items():
            took[name].append(a_row(consumer, level))
    for consumer in (plain, traced, unmeasured):
        consumer.close()
    folder.cleanup()
    return took


def _nothing(_event: dict[str, Any]) -> None:
    """Listen, and do nothing."""


def _seconds(act: Callable[[], Any]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
