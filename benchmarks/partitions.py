"""What a consumer of very many partitions pays for calls on one of them, and on all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks import child
from benchmarks.embedded import serving
from benchmarks.site import Site, new_name
from benchmarks.tables import Table

PARTITIONS: Final = 10_000
POLLS: Final = 100

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
    found: list[dict[str, float]] = []
    with serving(many) as (bootstrap, server):
        for _, module, partitions in runs:
            place: dict[str, Any] = {"bootstrap": bootstrap, "partitions": partitions}
            found.append(child.run(steps, module=module, **place))
        server.result()
    return [
        Table(
            title="partitions: seconds of each step, by the number of partitions assigned",
            columns=["step", *(f"{name}, {partitions:,}" for name, _, partitions in runs)],
            rows=[[name, *(f"{one[name]:.3f}" for one in found)] for name in found[0]],
            notes=["On the embedded cluster in a process of its own; one run after the other."],
        )
    ]


def steps(bootstrap: str, partitions: int, module: str) -> dict[str, float]:
    """The seconds that each step took."""
    import importlib

    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = importlib.import_module(module).KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=new_name("group"),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    every = [TopicPartition("orders", number) for number in range(partitions)]
    offsets = {one: OffsetAndMetadata(0, "", -1) for one in every}

    def each(method: Callable[..., Any], *more: Any) -> Callable[[], Any]:
        return lambda: [method(one, *more) for one in every]

    acts: dict[str, Callable[[], Any]] = {
        "assign": lambda: consumer.assign(every),
        "position of each, looked up": each(consumer.position),
        "seek each": each(consumer.seek, 0),
        "position of each, sought": each(consumer.position),
        "pause each": each(consumer.pause),
        "resume each": each(consumer.resume),
        "pause and resume all at once": lambda: (consumer.pause(*every), consumer.resume(*every)),
        "commit all": lambda: consumer.commit(offsets),
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
