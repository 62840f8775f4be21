"""How fast records come out: 100 bytes plain, 1 kB compressed, against the peers."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_least, ratio, spread

ROUNDS: Final = 3
PARTITIONS: Final = 4
TARGET: Final = 2.5
TARGET_SIZE: Final = 100

#: What is read: size of a record, codec, and how many.
LOADS: Final = (
    (100, None, 1_000_000),
    (1000, "lz4", 150_000),
    (1000, "zstd", 150_000),
)

#: How each client is read; only two can be iterated over for what it is worth.
WAYS: Final = (
    ("aktor", "poll"),
    ("kafka-python", "poll"),
    ("aktor", "iterate"),
    ("kafka-python", "iterate"),
    ("confluent", "poll"),
    ("aiokafka", "poll"),
)


def tables(site: Site) -> list[Table]:
    """One table for each kind of load."""
    return [_measure(site, *load) for load in LOADS]


def _measure(site: Site, size: int, codec: str | None, count: int) -> Table:
    count = site.scaled(count)
    topic = site.new_topic(PARTITIONS)
    site.fill(topic, (_value(number, size) for number in range(count)), compression=codec)
    there = installed()
    ways = [(client, way) for client, way in WAYS if client in there]
    rates: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    cpus: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    rounds = 1 if site.quick else ROUNDS
    for _ in range(rounds):
        for client, way in ways:
            seconds, cpu, read = child.run(
                read_topic,
                client=client,
                way=way,
                bootstrap=site.bootstrap,
                topic=topic,
                count=count,
            )
            rates[client, way].append(read / seconds / 1000)
            cpus[client, way].append(cpu / read * 1e6)
    rows = []
    for client, way in ways:
        times = ratio(rates[client, way], rates["kafka-python", way])
        aimed_at = client == "aktor" and size == TARGET_SIZE
        target = at_least(round(times, 2), TARGET, " x") if aimed_at else ""
        name = f"{client}, {way}"
        cpu = f"{median(cpus[client, way]):.1f}"
        rows.append([name, spread(rates[client, way], 0), f"{times:.2f}", cpu, target])
    what = f"{size}-byte records, {codec or 'uncompressed'}"
    return Table(
        title=f"throughput: {count:,} {what}, {PARTITIONS} partitions, {rounds} rounds",
        columns=["client", "k records/s", "x kafka-python", "CPU s per M", "target"],
        rows=rows,
    )


#: Hexadecimal digits at random: they compress to half their size, and JSON around them a bit more.
_NOISE: Final = random.Random(7).randbytes(500_000).hex().encode()


def _value(number: int, size: int) -> bytes:
    """Something like JSON, different in every record."""
    start = b'{"id": %d, "user": "u%d", "note": "' % (number, number * 7919 % 10007)
    at = number * 2654435761 % (len(_NOISE) - size)
    return (start + _NOISE[at : at + size])[: size - 2] + b'"}'


def read_topic(
    client: str, way: str, bootstrap: list[str], topic: str, count: int
) -> tuple[float, float, int]:
    """Seconds, CPU seconds and records, after the first one until all have been read."""
    reader = open_client(client, bootstrap, topic, new_name("group"))
    result = _iterate(reader, count) if way == "iterate" else _poll(reader, count)
    reader.close()
    return result


def _poll(reader: Any, count: int) -> tuple[float, float, int]:
    while not reader.poll(1.0, 1):
        pass
    left = count - 1
    cpu, start = time.process_time(), time.perf_counter()
    while left > 0:
        for records in reader.poll(1.0):
            reader.weigh(records)
            left -= len(records)
    return time.perf_counter() - start, time.process_time() - cpu, count - 1


def _iterate(reader: Any, count: int) -> tuple[float, float, int]:
    records = iter(reader.consumer)
    next(records)
    cpu, start = time.process_time(), time.perf_counter()
    total = 0
    for _ in range(count - 1):
        total += len(next(records).value)
    return time.perf_counter() - start, time.process_time() - cpu, count - 1
