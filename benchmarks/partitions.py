"""What a member of a group with very many partitions pays for calls on one of them, and on all."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.embedded import serving
from benchmarks.site import Site, new_name
from benchmarks.tables import Table

PARTITIONS: Final = 10_000
POLLS: Final = 100
ROUNDS: Final = 3
RECORDS_A_PARTITION: Final = 5
#: Of so many partitions the end is looked up, one after the other.
ENDS: Final = 1_000

#: kafka-python looks each position up by itself, over and over: it is asked for so few.
SHARE_OF_KAFKA_PYTHON: Final = 10


def tables(site: Site) -> list[Table]:
    """Seconds of each step, at this many partitions and at half as many: twice is linear."""
    many = site.scaled(PARTITIONS)
    runs: list[tuple[str, str, int]] = [
        ("aktor", "aktor", many // 2),
        ("aktor", "aktor", many),
        ("kafka-python", "kafka", many // SHARE_OF_KAFKA_PYTHON),
    ]
    rounds = 1 if site.quick else ROUNDS
    found: list[dict[str, float]] = []
    for _, module, partitions in runs:
        took = []
        for _ in range(rounds):
            with serving(partitions) as (bootstrap, server):
                Site(bootstrap).fill(
                    "orders", (b"%0100d" % one for one in range(partitions * RECORDS_A_PARTITION))
                )
                took.append(child.run(steps, module=module, bootstrap=bootstrap, want=partitions))
                server.result()
        found.append({name: median(one[name] for one in took) for name in took[0]})
    return [
        Table(
            title=(
                "partitions: seconds of each step, by the number of partitions of a member that is"
                f" alone in its group, median of {rounds} rounds"
            ),
            columns=["step", *(f"{name}, {partitions:,}" for name, _, partitions in runs)],
            rows=[[name, *(f"{one[name]:.3f}" for one in found)] for name in found[0]],
            notes=["On the embedded cluster in a process of its own; one run after the other."],
        )
    ]


def steps(bootstrap: str, want: int, module: str) -> dict[str, float]:
    """The seconds that each step took."""
    import importlib

    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = importlib.import_module(module).KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id=new_name("group"),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_interval_ms=3_600_000,
    )
    every = [TopicPartition("orders", number) for number in range(want)]
    offsets = {one: OffsetAndMetadata(0, "", -1) for one in every}

    def join() -> None:
        while len(consumer.assignment()) < want:
            consumer.poll(100, max_records=1)

    def each(method: Callable[..., Any], *more: Any) -> Callable[[], Any]:
        return lambda: [method(one, *more) for one in every]

    def read_all() -> None:
        left = want * RECORDS_A_PARTITION
        while left:
            left -= sum(map(len, consumer.poll(5000).values()))

    def go_to_the_ends() -> None:
        for one in every[:ENDS]:
            consumer.seek_to_end(one)
            consumer.position(one)

    acts: dict[str, Callable[[], Any]] = {
        "join the group, and be assigned": join,
        "position of each, looked up": each(consumer.position),
        "seek each": each(consumer.seek, 0),
        "position of each, sought": each(consumer.position),
        f"read {RECORDS_A_PARTITION} records of each": read_all,
        "pause each": each(consumer.pause),
        f"{POLLS} polls of what is paused": lambda: [consumer.poll(0) for _ in range(POLLS)],
        "resume each": each(consumer.resume),
        "pause and resume all at once": lambda: (consumer.pause(*every), consumer.resume(*every)),
        "commit all": lambda: consumer.commit(offsets),
        f"seek to the end and ask the position, of {ENDS:,} at most": go_to_the_ends,
        "seek all to the end": lambda: (consumer.seek_to_end(), consumer.position(every[-1])),
        f"{POLLS} idle polls that do not wait": lambda: [consumer.poll(0) for _ in range(POLLS)],
        "metrics": consumer.metrics,
    }
    took = {}
    for name, act in acts.items():
        began = time.perf_counter()
        act()
        took[name] = time.perf_counter() - began
    consumer.close()
    return took
