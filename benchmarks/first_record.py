"""From nothing to the first record: construct, subscribe, poll, in a group nobody knows yet."""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from benchmarks import child
from benchmarks.clients import import_client, installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 15
WARM_UP: Final = 2
TARGET_MS: Final = 80.0
PATIENCE_S: Final = 30.0


def tables(site: Site) -> list[Table]:
    """Milliseconds to the first record."""
    topic = site.new_topic(4)
    site.fill(topic, (b"%0100d" % number for number in range(1000)))
    rounds = 1 if site.quick else ROUNDS
    found = child.run(
        start_in_turn,
        clients=installed(),
        bootstrap=site.bootstrap,
        topic=topic,
        rounds=rounds + WARM_UP,
    )
    times = {name: all_[WARM_UP:] for name, all_ in found.items()}
    peer = times["kafka-python"]
    rows = [
        [
            name,
            spread(taken, 0),
            f"{ratio(taken, peer):.2f}",
            at_most(round(median(taken)), TARGET_MS, " ms") if name == "aktor" else "",
        ]
        for name, taken in times.items()
    ]
    return [
        Table(
            title=(
                "first record: construct + subscribe + poll in a fresh group, "
                f"median (least-most) of {rounds} rounds"
            ),
            columns=["client", "ms", "x kafka-python", "target"],
            rows=rows,
            notes=["The broker has `group.initial.rebalance.delay.ms=0`; imports are not counted."],
        )
    ]


def start_in_turn(
    clients: list[str], bootstrap: list[str], topic: str, rounds: int
) -> dict[str, list[float]]:
    """Milliseconds of each client, round by round."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for name in clients:
        import_client(name)
    for _ in range(rounds):
        for name in clients:
            group = new_name("group")
            start = time.perf_counter()
            reader = open_client(name, bootstrap, topic, group)
            while not reader.poll(0.5):
                assert time.perf_counter() - start < PATIENCE_S, f"{name} reads nothing"
            times[name].append((time.perf_counter() - start) * 1000)
            reader.close()
    return times
