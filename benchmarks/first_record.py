"""From nothing to the first record: construct, subscribe, poll, in a group nobody knows yet."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import import_client, installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 15
FRESH: Final = 7
WARM_UP: Final = 2
TARGET_MS: Final = 80.0
PATIENCE_S: Final = 30.0


def tables(site: Site) -> list[Table]:
    """Milliseconds to the first record, of a process's first consumer and of later ones."""
    topic = site.new_topic(4)
    site.fill(topic, (b"%0100d" % number for number in range(1000)))
    rounds, fresh = (1, 1) if site.quick else (ROUNDS, FRESH)
    names = installed()
    place: dict[str, Any] = {"bootstrap": site.bootstrap, "topic": topic}
    found = child.run(start_in_turn, clients=names, rounds=rounds + WARM_UP, **place)
    later = {name: times[WARM_UP:] for name, times in found.items()}
    first: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(fresh):
        for name in names:
            first[name] += child.run(start_in_turn, clients=[name], rounds=1, **place)[name]
    rows = []
    for name in names:
        target = at_most(round(median(later[name])), TARGET_MS, " ms") if name == "aktor" else ""
        rows.append(
            [
                name,
                spread(later[name], 0),
                f"{ratio(later[name], later['kafka-python']):.2f}",
                spread(first[name], 0),
                f"{ratio(first[name], first['kafka-python']):.2f}",
                target,
            ]
        )
    return [
        Table(
            title=(
                "first record: construct + subscribe + poll in a fresh group, "
                f"median (least-most) of {rounds} rounds, of {fresh} in a new process"
            ),
            columns=[
                "client",
                "ms",
                "x kafka-python",
                "in a new process, ms",
                "x kafka-python",
                "target",
            ],
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
            took = _first_record(name, bootstrap, topic)
            if took is None and name != "aktor":
                # A peer whose group now and then has nothing assigned (kafka-python, see handover).
                took = _first_record(name, bootstrap, topic)
            assert took is not None, f"{name} reads nothing"
            times[name].append(took)
    return times


def _first_record(name: str, bootstrap: list[str], topic: str) -> float | None:
    """Milliseconds, in a new group; None: nothing came in time."""
    start = time.perf_counter()
    reader = open_client(name, bootstrap, topic, new_name("group"))
    try:
        while not reader.poll(0.5):
            if time.perf_counter() - start > PATIENCE_S:
                return None
        return (time.perf_counter() - start) * 1000
    finally:
        reader.close()
