"""How fast records come out: rows by poll and by iteration, and columns, against the peers.

Each is read in a process of its own, one after the other in each round. The least that is possible
is a bare socket that throws Fetch answers away.

Most of the time goes into processes that start, and into peers: who is far behind, and named by no
target, is read in one round.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.bare_socket import fetch_all
from benchmarks.clients import installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_least, at_most, ratio, spread

ROUNDS: Final = 3

#: What is read: size of a record, codec, partitions, and how many.
LOADS: Final = (
    (100, None, 4, 3_000_000),
    (100, None, 1, 2_000_000),
    (1000, None, 4, 600_000),
    (1000, "lz4", 4, 600_000),
    (1000, "zstd", 4, 600_000),
)

#: Client, way, and records asked for at a time (None: the client's default). The slow ones read a
#: part of it: they would take most of the time.
WAYS: Final = (
    ("aktor", "poll", None),
    ("aktor", "poll", 10_000),
    ("aktor", "iterate", None),
    ("aktor", "columns", 10_000),
    ("confluent-tuned", "poll", 10_000),
    ("confluent-tuned", "columns", 10_000),
    ("confluent", "poll", None),
    ("java", "poll", None),
    ("aiokafka", "poll", None),
    ("kafka-python", "poll", None),
    ("bare socket", "fetch", None),
)
PARTS: Final = {
    "confluent-tuned": 2,
    "confluent": 6,
    "java": 2,
    "aiokafka": 6,
    "kafka-python": 25,
}

#: Peers that are read in one round, unless a target names them.
ONCE: Final = ("java", "aiokafka", "kafka-python")

#: What makes librdkafka fast: by default it waits for a second whenever its queue has been full.
TUNED: Final = {"fetch.queue.backoff.ms": 5}

#: What a way of ours is to reach at 100 bytes and 4 partitions: CPU s per million, peak MB.
CPU: Final = {"poll": 0.4, "iterate": 0.45, "columns": 0.15}
PEAK: Final = {"poll": 120, "columns": 150}

Way = tuple[str, str, int | None]


def tables(site: Site) -> Iterator[Table]:
    """One table for each kind of load."""
    for load in LOADS:
        yield _measure(site, *load)


def _measure(site: Site, size: int, codec: str | None, partitions: int, count: int) -> Table:
    count = site.scaled(count)
    topic = site.new_topic(partitions)
    site.fill(topic, (value(number, size) for number in range(count)), compression=codec)
    ways = [way for way in WAYS if _is_here(site, way[0])]
    results: dict[Way, list[list[float]]] = {way: [] for way in ways}
    rounds = 1 if site.quick else ROUNDS
    aims = [other for way in ways for other, _ in _aims(way, size, codec, partitions)]
    what = f"{size}-byte records, {codec or 'uncompressed'}, {partitions} partitions"
    for number in range(rounds):
        for way in ways:
            if number and way[0] in ONCE and way not in aims:
                continue
            one = _run(site, way, topic, partitions, count)
            results[way].append(one)
            site.say(f"{what}, {_name(way)}: {one[2] / one[0] / 1000:,.0f} k records/s")
    rates = {way: [one[2] / one[0] / 1000 for one in some] for way, some in results.items()}
    rows = []
    for way in ways:
        cpu = median(one[1] / one[2] * 1e6 for one in results[way])
        peak = median(one[3] for one in results[way])
        figures = [spread(rates[way], 0), f"{cpu:.2f}", f"{peak:.0f}"]
        target = _target(way, size, codec, partitions, rates, cpu, peak)
        rows.append([_name(way), *figures, target])
    return Table(
        title=f"throughput: {count:,} {what}, {rounds} rounds",
        columns=["client", "k records/s", "CPU s per M", "peak RSS, MB", "target"],
        rows=rows,
    )


def _name(way: Way) -> str:
    client, how, limit = way
    return f"{client}, {how}{f' {limit:,}' if limit else ''}"


def _is_here(site: Site, client: str) -> bool:
    if client == "java":
        return shutil.which("java") is not None and site.classpath is not None
    return client == "bare socket" or client.removesuffix("-tuned") in installed()


def _run(site: Site, way: Way, topic: str, partitions: int, count: int) -> list[float]:
    """Seconds, CPU seconds, records, and the peak of resident memory in MB."""
    client, how, limit = way
    count //= PARTS.get(client, 1)
    if client == "java":
        asked = (",".join(site.bootstrap), topic, new_name("group"), str(count))
        reader = child.Child.of_java(site.classpath or "", "JavaReader.java", *asked)
        result: list[float] = reader.result()
    elif client == "bare socket":
        address = site.bootstrap[0]
        result = child.run(read_bytes, address=address, topic=topic, partitions=partitions)
    else:
        result = child.run(
            read_topic,
            client=client,
            way=how,
            bootstrap=site.bootstrap,
            topic=topic,
            count=count,
            limit=limit,
        )
    return result


def _target(
    way: Way,
    size: int,
    codec: str | None,
    partitions: int,
    rates: dict[Way, list[float]],
    cpu: float,
    peak: float,
) -> str:
    client, how, limit = way
    if client != "aktor":
        return ""
    aims = [
        _against(way, rates, other, times) for other, times in _aims(way, size, codec, partitions)
    ]
    if size == 100 and partitions == 4 and limit != 500:
        aims.append(at_most(round(cpu, 2), CPU[how], " CPU s"))
        if how in PEAK:
            aims.append(at_most(round(peak), PEAK[how], " MB"))
    return "; ".join(one for one in aims if one)


def _aims(way: Way, size: int, codec: str | None, partitions: int) -> list[tuple[Way, float]]:
    """Whom it has to beat, and how many times."""
    tuned: Way = ("confluent-tuned", "poll", 10_000)
    client, how, limit = way
    if client != "aktor":
        return []
    if how == "poll" and limit is None:
        if size == 100 and partitions == 4:
            return [(("java", "poll", None), 1.15), (tuned, 2.0)]
        if size == 100:
            return [(tuned, 1.2)]
        return [(tuned, 1.15)] if codec == "lz4" else []
    if how == "iterate" and size == 100:
        return [(("aktor", "poll", None), 0.75)]
    if how == "columns" and size == 100 and partitions == 4:
        socket: Way = ("bare socket", "fetch", None)
        return [(socket, 0.5), (("confluent-tuned", "columns", 10_000), 5.0)]
    return []


def _against(way: Way, rates: dict[Way, list[float]], other: Way, times: float) -> str:
    if other not in rates:
        return ""
    name = other[1] if other[0] == "aktor" else other[0]
    return at_least(round(ratio(rates[way], rates[other]), 2), times, f" x {name}")


#: Hexadecimal digits at random: they compress to half their size, and JSON around them a bit more.
_NOISE: Final = random.Random(7).randbytes(500_000).hex().encode()


def value(number: int, size: int) -> bytes:
    """Something like JSON, different in every record."""
    start = b'{"id": %d, "user": "u%d", "note": "' % (number, number * 7919 % 10007)
    at = number * 2654435761 % (len(_NOISE) - size)
    return (start + _NOISE[at : at + size])[: size - 2] + b'"}'


def read_topic(
    client: str, way: str, bootstrap: list[str], topic: str, count: int, limit: int | None
) -> tuple[float, float, int, float]:
    """Seconds, CPU seconds, records after the first ones until all have been read; peak MB."""
    kind, _, tuned = client.partition("-") if client.startswith("confluent") else (client, "", "")
    reader = open_client(kind, bootstrap, topic, new_name("group"), **(TUNED if tuned else {}))
    first = reader.columns if way == "columns" else reader.poll  # columns import pyarrow
    while not first(1.0, 1):
        pass
    cpu, start = time.process_time(), time.perf_counter()
    READ[way](reader, count - 1, limit)
    took, used = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_memory()
    reader.close()
    return took, used, count - 1, peak


def read_bytes(address: str, topic: str, partitions: int) -> tuple[float, float, int, float]:
    """The same of a bare socket."""
    cpu, start = time.process_time(), time.perf_counter()
    read = fetch_all(address, topic, partitions)
    return time.perf_counter() - start, time.process_time() - cpu, read, peak_memory()


def peak_memory() -> float:
    """The greatest resident size of this process, in MB. (That of getrusage is its parent's.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [one for one in lines if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def _poll(reader: Any, left: int, limit: int | None) -> None:
    while left > 0:
        for records in reader.poll(1.0, limit):
            reader.weigh(records)
            left -= len(records)


def _iterate(reader: Any, left: int, _limit: int | None) -> None:
    total = 0
    for record in reader.consumer:
        total += len(record.value)
        left -= 1
        if not left:
            return


def _columns(reader: Any, left: int, limit: int | None) -> None:
    """As pyarrow's columns: key, value, partition, offset, timestamp."""
    while left > 0:
        left -= reader.columns(1.0, limit)


#: Reads so many records more, by this way.
READ: Final[Mapping[str, Callable[[Any, int, int | None], None]]] = {
    "poll": _poll,
    "iterate": _iterate,
    "columns": _columns,
}
