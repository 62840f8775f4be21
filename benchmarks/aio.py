"""The asyncio consumer beside its peers and our own that blocks: records, wake-ups, and many."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import installed
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_least, at_most, spread

COUNT: Final = 2_000_000
#: The part of the records that a slower client reads.
PARTS: Final = {
    ("aiokafka", "batches"): 8,
    ("aiokafka", "one by one"): 8,
    ("confluent", "batches"): 8,
    ("confluent", "one by one"): 100,
}
PEERS: Final = ("aiokafka", "confluent")
ROUNDS: Final = 3
WAKE_UPS: Final = 50
MANY: Final = (1, 10, 100)
PATIENCE_S: Final = 60.0

#: How often a task of the same loop asks for its turn while records are read, in seconds.
BEAT: Final = 0.001


def tables(site: Site) -> list[Table]:
    """Throughput, wake-ups, and many consumers of one loop."""
    return [_throughput(site), _wake_ups(site), _many(site)]


def _throughput(site: Site) -> Table:
    count = site.scaled(COUNT)
    topic = site.new_topic(4)
    site.fill(topic, (b"%0100d" % number for number in range(count)))
    peers = [name for name in PEERS if name in installed()]
    clients = ["aktor.aio", "aktor", *peers]
    ways = [(client, way) for way in ("batches", "one by one") for client in clients]
    found: dict[tuple[str, str], list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(1 if site.quick else ROUNDS):
        for way in ways:
            one = child.run(
                read,
                client=way[0],
                way=way[1],
                bootstrap=site.bootstrap,
                topic=topic,
                count=count // PARTS.get(way, 1),
            )
            found[way].append(one)
    rates = {way: [one["rate"] / 1000 for one in some] for way, some in found.items()}
    rows = []
    for client, way in ways:
        mine = median(rates[client, way])
        target = ""
        if client == "aktor.aio" and "aiokafka" in peers:
            times = 4 if way == "batches" else 5
            target = at_least(mine / median(rates["aiokafka", way]), times, " x aiokafka")
            if way == "batches":
                target += "; " + at_least(mine / median(rates["aktor", way]), 0.9, " x aktor")
        rows.append(
            [
                f"{client}, {way}",
                spread(rates[client, way], 0),
                f"{median(one['cpu'] for one in found[client, way]):.2f}",
                f"{median(one['late'] for one in found[client, way]):.1f}",
                target,
            ]
        )
    return Table(
        title=f"asyncio: {count:,} 100-byte records, 4 partitions",
        columns=["client", "k records/s", "CPU s per M", "another task's delay, p99 ms", "target"],
        rows=rows,
        notes=["aktor is `aktor.KafkaConsumer` (no event loop), confluent its `AIOConsumer`."],
    )


def read(client: str, way: str, bootstrap: list[str], topic: str, count: int) -> dict[str, float]:
    """Records a second, CPU seconds a million records, and how late another task's turn comes."""
    if client == "aktor":
        return _read_on_a_thread(way, bootstrap, topic, count)
    return asyncio.run(_read_in_a_loop(client, way, bootstrap, topic, count))


def _read_on_a_thread(way: str, bootstrap: list[str], topic: str, count: int) -> dict[str, float]:
    from aktor import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    began, cpu, done = time.perf_counter(), time.process_time(), 0
    if way == "batches":
        while done < count:
            done += sum(map(len, consumer.poll(1000).values()))
    else:
        for _ in consumer:
            done += 1
            if done == count:
                break
    result = _figures(began, cpu, done, [0.0, 0.0])
    consumer.close()
    return result


async def _read_in_a_loop(
    client: str, way: str, bootstrap: list[str], topic: str, count: int
) -> dict[str, float]:
    consumer = await _started(client, bootstrap, topic)
    late: list[float] = []
    beating = asyncio.create_task(_beat(late))
    began, cpu, done = time.perf_counter(), time.process_time(), 0
    if way == "batches":
        while done < count:
            found = await consumer.getmany(timeout_ms=1000, max_records=500)
            done += sum(map(len, found.values()))
    else:
        async for _ in consumer:
            done += 1
            if done >= count:
                break
    result = _figures(began, cpu, done, late)
    beating.cancel()
    await consumer.stop()
    return result


def _figures(began: float, cpu: float, done: int, late: list[float]) -> dict[str, float]:
    took = time.perf_counter() - began
    return {
        "rate": done / took,
        "cpu": (time.process_time() - cpu) / done * 1e6,
        "late": quantiles(late, n=100)[98] * 1000 if len(late) > 1 else 0.0,
    }


async def _started(client: str, bootstrap: list[str], topic: str) -> Any:
    if client == "aktor.aio":
        from aktor.aio import KafkaConsumer

        consumer: Any = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
    elif client == "confluent":
        consumer = _Confluent(topic, bootstrap)
    else:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
    await consumer.start()
    return consumer


class _Confluent:
    """confluent's `AIOConsumer`, called as aiokafka's consumer is."""

    def __init__(self, topic: str, bootstrap: list[str]) -> None:
        self._topic = topic
        self._bootstrap = bootstrap

    async def start(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition
        from confluent_kafka.aio import AIOConsumer

        servers = ",".join(self._bootstrap)
        self._consumer = AIOConsumer({"bootstrap.servers": servers, "group.id": "none"})
        described = await self._consumer.list_topics(self._topic, timeout=PATIENCE_S)
        partitions = described.topics[self._topic].partitions
        await self._consumer.assign(
            [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in partitions]
        )

    async def getmany(self, timeout_ms: float, max_records: int) -> dict[str, list[Any]]:
        found = await self._consumer.consume(max_records, timeout=timeout_ms / 1000)
        return {self._topic: found} if found else {}

    def __aiter__(self) -> _Confluent:
        return self

    async def __anext__(self) -> Any:
        while (record := await self._consumer.poll(timeout=1.0)) is None:
            pass
        return record

    async def stop(self) -> None:
        await self._consumer.close()


async def _beat(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + BEAT
        await asyncio.sleep(BEAT)
        late.append(time.perf_counter() - due)


def _wake_ups(site: Site) -> Table:
    topic = site.new_topic(1)
    names = ["aktor.aio", *(name for name in PEERS if name in installed())]
    count = 5 if site.quick else WAKE_UPS
    rows = []
    for name in names:
        found = child.run(wake, client=name, bootstrap=site.bootstrap, topic=topic, count=count)
        target = at_most(round(median(found), 2), 1.0, " ms") if name == "aktor.aio" else ""
        rows.append([name, spread(found, 2), target])
    return Table(
        title=f"asyncio: from a broker's acknowledgement to the end of getmany, of {count}",
        columns=["client", "ms", "target"],
        rows=rows,
        notes=["Less than 0: the record was here before its producer heard of it."],
    )


def wake(client: str, bootstrap: list[str], topic: str, count: int) -> list[float]:
    """Milliseconds from the acknowledgement of a record to its arrival in a waiting task."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)

    async def main() -> list[float]:
        consumer = await _started(client, bootstrap, topic)
        times = []
        for _ in range(count):
            waiting = asyncio.create_task(_arrival(consumer))
            await asyncio.sleep(0.02)
            sent = await asyncio.to_thread(_send, producer, topic)
            times.append((await waiting - sent) * 1000)
        await consumer.stop()
        return times

    return asyncio.run(main())


async def _arrival(consumer: Any) -> float:
    while not await consumer.getmany(timeout_ms=5000, max_records=1):
        pass
    return time.perf_counter()


def _send(producer: Any, topic: str) -> float:
    producer.send(topic, b"x").get(10)
    return time.perf_counter()


def _many(site: Site) -> Table:
    topic = site.new_topic(1)
    site.fill(topic, (b"%0100d" % number for number in range(100)))
    rows = []
    for count in MANY[:1] if site.quick else MANY:
        found = child.run(start_many, bootstrap=site.bootstrap, topic=topic, count=count)
        target = at_most(round(found["first"]), 40, " ms") if count == 1 else ""
        rows.append(
            [
                f"{count}",
                f"{found['first']:.0f}",
                f"{found['threads']:.0f}",
                f"{found['memory']:.2f}",
                f"{found['idle']:.2f}",
                target,
            ]
        )
    return Table(
        title="asyncio: consumers of one event loop, each in a group of its own",
        columns=[
            "consumers",
            "until all have a record, ms",
            "threads",
            "MB each",
            "idle, % of a core each",
            "target",
        ],
        rows=rows,
    )


def start_many(bootstrap: list[str], topic: str, count: int) -> dict[str, float]:
    """What so many consumers take."""
    from aktor.aio import KafkaConsumer

    async def first(group: str) -> Any:
        consumer: Any = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        await consumer.start()
        await consumer.getone()
        return consumer

    async def main() -> dict[str, float]:
        before, began = _memory(), time.perf_counter()
        consumers = await asyncio.gather(*(first(new_name("group")) for _ in range(count)))
        took = time.perf_counter() - began
        cpu = time.process_time()
        waiting = [asyncio.create_task(one.getmany(timeout_ms=5000)) for one in consumers]
        for one in consumers:
            await one.seek_to_end()
        await asyncio.sleep(1.0)
        cpu = time.process_time()
        await asyncio.sleep(3.0)
        result = {
            "first": took * 1000,
            "threads": float(threading.active_count()),
            "memory": (_memory() - before) / count,
            "idle": (time.process_time() - cpu) / 3.0 / count * 100,
        }
        for task in waiting:
            task.cancel()
        await asyncio.gather(*(one.stop() for one in consumers))
        return result

    return _run(main)


def _run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await main()

    return asyncio.run(limited())


def _memory() -> float:
    """MB that are resident now. (The peak counts that of the parent process, too.)"""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024 / 1024
