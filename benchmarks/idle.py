"""What a consumer costs while nothing arrives."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.child import ROOT
from benchmarks.clients import installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 3
SECONDS: Final = 15.0
#: Of a consumer with many connections.
SECONDS_CONNECTED: Final = 10.0
SECONDS_TO_SETTLE: Final = 3.0
TARGET_PERCENT: Final = 0.15
TARGET_WAKES: Final = 10.0
BROKERS: Final = (1, 3, 10, 30)
#: A pair by which the application wakes the background.
WAKING_SOCKETS: Final = 2


def tables(site: Site) -> Iterator[Table]:
    """An idle consumer beside its peers; what its connections cost."""
    yield _beside_peers(site)
    yield _connections(site)


def _beside_peers(site: Site) -> Table:
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
    return Table(
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


def _connections(site: Site) -> Table:
    """A consumer whose partitions are led by so many brokers, of an embedded cluster."""
    seconds = 2.0 if site.quick else SECONDS_CONNECTED
    rows = []
    for brokers in BROKERS:
        with serving(brokers) as bootstrap:
            found = child.run(connected, bootstrap=bootstrap, seconds=seconds)
        rows.append(
            [
                str(brokers),
                f"{found['connections']:.0f}",
                f"{found['percent']:.2f}",
                f"{found['megabytes']:.1f}",
            ]
        )
    return Table(
        title=f"idle connections: in a group, two partitions for each broker, {seconds:.0f} s",
        columns=["brokers", "connections", "% of a core", "resident MB"],
        rows=rows,
        notes=["Every two seconds a Fetch to each broker is answered and sent again."],
    )


@contextmanager
def serving(brokers: int) -> Iterator[list[str]]:
    """The addresses of an embedded cluster, in a process of its own."""
    topic = f"orders:{2 * brokers}"
    command = ["broker", "--brokers", str(brokers), "--port", "0", "--topic", topic]
    server = subprocess.Popen(
        [sys.executable, "-m", "aktor.cli", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    addresses: list[str] = []
    while not addresses:
        addresses = re.findall(r"127\.0\.0\.1:\d+", server.stdout.readline())
    yield addresses
    server.terminate()
    server.wait()


def connected(bootstrap: list[str], seconds: float) -> dict[str, float]:
    """Sockets to brokers, percent of a core, and resident memory of an idle consumer."""
    none = _sockets()
    reader = open_client("aktor", bootstrap, "orders", new_name("group"))
    _poll_for(reader, SECONDS_TO_SETTLE)
    cpu, start = time.process_time(), time.monotonic()
    _poll_for(reader, seconds)
    figures = {
        "connections": float(_sockets() - none - WAKING_SOCKETS),
        "percent": (time.process_time() - cpu) / (time.monotonic() - start) * 100,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    reader.close()
    return figures


def _sockets() -> int:
    folder = "/proc/self/fd"
    return sum(_is_socket(f"{folder}/{name}") for name in os.listdir(folder))


def _is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except OSError:  # that of the folder itself
        return False


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
