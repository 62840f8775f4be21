"""The embedded cluster: how fast it starts, what it serves and takes, what it costs while idle."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.child import ROOT
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_least, at_most, spread

STARTS: Final = 15
ROUNDS: Final = 3
PARTITIONS: Final = 4
RECORDS: Final = 2_000_000
SIZE: Final = 100
IDLE_S: Final = 20.0
PATIENCE_S: Final = 60.0


def tables(site: Site) -> list[Table]:
    """Start-up; throughput by confluent-kafka; idle brokers; memory."""
    return [_start_up(site), _throughput(site), _idle(site)]


def _start_up(site: Site) -> Table:
    rounds = 3 if site.quick else STARTS
    rows = []
    for brokers in (1, 3):
        inside = child.run(start_and_stop, brokers=brokers, rounds=rounds)
        target = at_most(round(median(inside)), 100, " ms") if brokers == 1 else ""
        rows.append([f"`EmbeddedKafka(brokers={brokers}).start()`", spread(inside, 1), target])
    commands = [_command_until_ready() for _ in range(max(3, rounds // 3))]
    rows.append(["`aktor broker`, from the shell until it is ready", spread(commands, 0), ""])
    return Table(
        title=f"embedded: start-up in ms, median (least-most) of {rounds}",
        columns=["what", "ms", "target"],
        rows=rows,
        notes=["The command's time is Python's own start and imports, all but a few ms."],
    )


def start_and_stop(brokers: int, rounds: int) -> list[float]:
    """Milliseconds of each start."""
    from aktor.broker.embedded import EmbeddedKafka

    times = []
    for _ in range(rounds + 1):
        kafka = EmbeddedKafka(brokers=brokers, topics={"orders": 4})
        began = time.perf_counter()
        kafka.start()
        times.append((time.perf_counter() - began) * 1000)
        kafka.stop()
    return times[1:]


def _command_until_ready() -> float:
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "aktor.cli.main", "broker", "--port", str(_free_port())],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    took = (time.perf_counter() - began) * 1000
    process.terminate()
    process.wait()
    return took


def _throughput(site: Site) -> Table:
    count = site.scaled(RECORDS)
    rounds = 1 if site.quick else ROUNDS
    produced, served, costs, memory = [], [], [], []
    for _ in range(rounds):
        with serving(PARTITIONS) as (bootstrap, server):
            place: dict[str, Any] = {"bootstrap": bootstrap, "count": count}
            produced.append(child.run(produce, **place))
            served.append(child.run(consume, **place))
            figures = server.result()
        costs.append(figures["cpu"] / (2 * count) * 1e6)
        memory.append(figures["megabytes"] / count * 1e6)
    rate = median(served)
    return Table(
        title=(
            f"embedded: {count:,} records of {SIZE} bytes, {PARTITIONS} partitions, "
            f"by confluent-kafka, {rounds} rounds"
        ),
        columns=["what", "figure", "target"],
        rows=[
            ["k records/s served", spread(served, 0), at_least(round(rate), 1000, " k")],
            ["k records/s taken", spread(produced, 0), ""],
            ["CPU s per M records, taken or served", spread(costs, 2), ""],
            ["MB of memory per M records", spread(memory, 0), ""],
        ],
        notes=["The cluster is a process of its own, and so is the client; both share two cores."],
    )


def produce(bootstrap: str, count: int) -> float:
    """Thousands of records a second until all are acknowledged."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = b"x" * SIZE
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("orders", value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(PATIENCE_S) == 0, "not all were acknowledged"
    return count / (time.perf_counter() - began) / 1000


def consume(bootstrap: str, count: int) -> float:
    """Thousands of records a second, from the first request on."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": new_name("group"),
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4_000_000,
        }
    )
    consumer.assign([TopicPartition("orders", one, 0) for one in range(PARTITIONS)])
    began, read = time.perf_counter(), 0
    while read < count:
        read += len(consumer.consume(20_000, 1.0))
        assert time.perf_counter() - began < PATIENCE_S, f"{read} of {count} came"
    took = time.perf_counter() - began
    consumer.close()
    return count / took / 1000


def _idle(site: Site) -> Table:
    seconds = 2.0 if site.quick else IDLE_S
    percent = child.run(idle, brokers=3, seconds=seconds)
    return Table(
        title=f"embedded: three idle brokers with 12 topics, {seconds:.0f} s",
        columns=["what", "figure", "target"],
        rows=[["% of a core", f"{percent:.3f}", at_most(round(percent, 2), 1.0, " %")]],
        notes=[],
    )


def idle(brokers: int, seconds: float) -> float:
    """Percent of a core that brokers take while nobody asks them anything."""
    from aktor.broker.embedded import EmbeddedKafka

    with EmbeddedKafka(brokers=brokers, topics={f"topic-{n}": 4 for n in range(12)}):
        time.sleep(0.2)
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(seconds)
        return (time.process_time() - cpu) / (time.monotonic() - began) * 100


# -- a cluster in a process of its own


@contextmanager
def serving(partitions: int) -> Iterator[tuple[str, child.Child]]:
    """The address of a broker with so many partitions of "orders", and its process."""
    port = _free_port()
    server = child.Child(serve, port=port, partitions=partitions)
    server.wait_until_ready()
    yield f"127.0.0.1:{port}", server


def serve(port: int, partitions: int) -> dict[str, float]:
    """Run a broker until asked to stop; its CPU seconds, and by how many MB it grew."""
    from aktor.broker.embedded import EmbeddedKafka

    stop = child.asked_to_stop()
    with EmbeddedKafka(port=port, topics={"orders": partitions}):
        before = _resident()
        child.ready()
        stop.wait()
        return {"cpu": time.process_time(), "megabytes": _resident() - before}


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
