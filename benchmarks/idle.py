"""What a consumer costs while nothing arrives."""

from __future__ import annotations

import resource
import time
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 3
SECONDS: Final = 20.0
SECONDS_TO_SETTLE: Final = 5.0
TARGET_PERCENT: Final = 0.15
TARGET_WAKES: Final = 10.0


def tables(site: Site) -> list[Table]:
    """Processor time and wake-ups of idle consumers, each in a process, all at the same time."""
    topic = site.new_topic(4)
    names = installed()
    seconds = 2.0 if site.quick else SECONDS
    rounds = 1 if site.quick else ROUNDS
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        place: dict[str, Any] = {"bootstrap": site.bootstrap, "topic": topic, "seconds": seconds}
        running = {name: child.Child(idle, client=name, **place) for name in names}
        for name, one in running.items():
            found[name].append(one.result())
    peer = [one["percent"] for one in found["kafka-python"]]
    rows = []
    for name, figures in found.items():
        percent = [one["percent"] for one in figures]
        switches = [one["switches"] for one in figures]
        sleeps = [one["sleeps"] for one in figures]
        targets = [
            at_most(round(median(percent), 2), TARGET_PERCENT, " %"),
            at_most(round(median(switches), 1), TARGET_WAKES, "/s"),
        ]
        rows.append(
            [
                name,
                spread(percent, 2),
                f"{ratio(percent, peer):.2f}",
                spread(switches, 1),
                spread(sleeps, 1) if name == "aktor" else "",
                ", ".join(targets) if name == "aktor" else "",
            ]
        )
    return [
        Table(
            title=(
                f"idle: subscribed in a group, 4 partitions, nothing arrives, poll of 1 s in a "
                f"loop, {seconds:.0f} s, {rounds} rounds"
            ),
            columns=[
                "client",
                "% of a core",
                "x kafka-python",
                "voluntary switches/s",
                "dispatcher sleeps/s",
                "target",
            ],
            rows=rows,
            notes=["Each client in its own process, all at the same time."],
        )
    ]


def idle(client: str, bootstrap: list[str], topic: str, seconds: float) -> dict[str, float]:
    """Percent of a core, voluntary context switches and dispatcher sleeps, per second."""
    reader = open_client(client, bootstrap, topic, new_name("group"))
    _poll_for(reader, SECONDS_TO_SETTLE)
    sleeps = _count_sleeps(reader.consumer) if client == "aktor" else []
    before, cpu, start = _switches(), time.process_time(), time.monotonic()
    _poll_for(reader, seconds)
    elapsed = time.monotonic() - start
    figures = {
        "percent": (time.process_time() - cpu) / elapsed * 100,
        "switches": (_switches() - before) / elapsed,
        "sleeps": len(sleeps) / elapsed,
    }
    reader.close()
    return figures


def _poll_for(reader: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert not reader.poll(1.0), "something arrived"


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def _count_sleeps(consumer: Any) -> list[float]:
    """Gets an entry each time the dispatcher goes to sleep in the network."""
    sleeps: list[float] = []
    sleeper = consumer._system.dispatcher.sleeper
    wait = sleeper.wait

    def counted(timeout: float) -> None:
        if timeout > 0:
            sleeps.append(timeout)
        wait(timeout)

    sleeper.wait = counted
    return sleeps
