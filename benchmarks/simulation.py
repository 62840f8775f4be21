"""How much virtual time a simulation of one group takes in a second of one core, and where it goes.

Three brokers, four members, eight partitions. No peer has such a thing; the figure is that of
`time.process_time`, so that what else the machine does hardly counts.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from aktor import KafkaConsumer
from aktor.simulation import Simulation
from benchmarks.site import Site
from benchmarks.tables import Table, at_least

WARM_UP: Final = 5.0
ROUNDS: Final = 3
MEMBERS: Final = 4

#: Where a function's own time belongs, by the first of these that its file's name contains.
PARTS: Final[Mapping[str, str]] = {
    "aktor/broker": "the brokers' model",
    "aktor/simulation": "scheduler, network, history",
    "aktor/trace": "trace",
    "structlog": "trace",
    "aktor/": "the consumers: actors, managers, application",
    "kafka/protocol": "kafka-python's codecs",
    "codegen": "kafka-python's codecs",
    "kafka/": "kafka-python's codecs",
}


def tables(site: Site) -> list[Table]:
    """Speed under load and idle, and a profile of the first."""
    seconds = 20.0 if site.quick else 120.0
    cases: list[tuple[str, Callable[[Simulation], None], float | None]] = [
        ("20 records a second", lambda sim: _readers(sim, rate=20.0, seconds=2 * seconds), 200.0),
        ("idle, polls of 200 ms", lambda sim: _readers(sim, rate=0.0, seconds=0.0), 2000.0),
        ("idle, long polls", _patient, None),
    ]
    rows = []
    for name, prepare, target in cases:
        best = max(_speed(prepare, seconds) for _ in range(1 if site.quick else ROUNDS))
        met = "" if target is None else at_least(round(best), target, "")
        rows.append([name, f"{best:,.0f}", met])
    return [
        Table(
            title="simulation: virtual seconds in a second of one core, 3 brokers, 4 members",
            columns=["load", "virtual s / core s", "target"],
            rows=rows,
            notes=[
                f"The best of {ROUNDS} runs of {seconds:.0f} virtual seconds. Long polls: "
                "`fetch_max_wait_ms` 25,000, `poll` of 10 s, heartbeats every 10 s.",
            ],
        ),
        _profile(cases[0][1], seconds / 2),
    ]


def _readers(sim: Simulation, *, rate: float, seconds: float) -> None:
    orders = sim.topic("orders", partitions=8, records=100)
    sim.consumers(group="g", topics=[orders], count=MEMBERS, heartbeat_interval_ms=3000)
    if rate:
        sim.trickle(orders, per_second=rate, seconds=seconds)


def _patient(sim: Simulation) -> None:
    orders = sim.topic("orders", partitions=8)

    def read() -> None:
        consumer = KafkaConsumer(
            orders,
            group_id="g",
            bootstrap_servers=sim.bootstrap_servers,
            fetch_max_wait_ms=25_000,
            heartbeat_interval_ms=10_000,
        )
        while True:
            consumer.poll(timeout_ms=10_000)

    for _ in range(MEMBERS):
        sim.member(read)


def _speed(prepare: Callable[[Simulation], None], seconds: float) -> float:
    with Simulation(seed=1, brokers=3) as sim:
        prepare(sim)
        sim.run(for_=WARM_UP)
        began = time.process_time()
        sim.run(for_=seconds)
        return seconds / (time.process_time() - began)


def _profile(prepare: Callable[[Simulation], None], seconds: float) -> Table:
    profile = cProfile.Profile()
    with Simulation(seed=1, brokers=3) as sim:
        prepare(sim)
        sim.run(for_=WARM_UP)
        profile.enable()
        sim.run(for_=seconds)
        profile.disable()
    stats: Any = pstats.Stats(profile)
    own: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own_time, _, _) in stats.stats.items():
        own[next((part for name, part in PARTS.items() if name in file), "the rest")] += own_time
    total = sum(own.values())
    return Table(
        title="simulation: where the time goes at 20 records a second (cProfile, own time)",
        columns=["part", "share"],
        rows=[
            [part, f"{spent / total:.0%}"]
            for part, spent in sorted(own.items(), key=lambda item: -item[1])
        ],
        notes=['"The rest" is mostly builtins: dicts, lists, `min`, `isinstance`.'],
    )
