"""`python -m tests.kafka.told.pauses`: how long each partition was silent, as the application saw
it and as the traces tell it.

A producer writes to each partition every 5 ms, with timestamps. Each member notes when it was
given which offsets. The application's silence is the longest time between two polls that gave out
something new of the partition (no member had been given it before); `waited` is how long the first
record after it had waited since it was written. What the traces tell is `downtime_ms`.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from aktor.trace.rebalances import Tables, read_files
from tests.kafka.real import KafkaCluster, topics
from tests.kafka.told.faults import SETTINGS
from tests.kafka.told.group import Group

#: Two times that differ by more than this, in seconds, are BAD.
MAY_DIFFER: Final = 0.05


class Silence(NamedTuple):
    """Nothing new was given out of a partition between these times; the first record afterwards
    had waited for so many seconds."""

    partition: str
    began: float
    ended: float
    waited: float


def kill(group: Group) -> None:
    """bob is killed; its session is six seconds."""
    group["bob"].signal(signal.SIGKILL)
    time.sleep(7.0)


def leave(group: Group) -> None:
    """bob closes its consumer."""
    group["bob"].leave()
    time.sleep(3.0)


def join(group: Group) -> None:
    """dave joins."""
    group.join("dave")
    time.sleep(5.0)


def coordinator(group: Group) -> None:
    """The coordinator's broker is killed; it leads partitions, too."""
    group.kafka.kill(topics.coordinator_of(group.servers, group.name))
    time.sleep(15.0)


WHAT: Final[Mapping[str, Callable[[Group], Any]]] = {
    "kill": kill,
    "leave": leave,
    "join": join,
    "coordinator": coordinator,
}


def main() -> int:
    """Print a line for each partition that was silent; 1 if a downtime differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.told.pauses", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"of: {', '.join(WHAT)}")
    parser.add_argument("--traces", type=Path, help="a new folder in which the traces are kept")
    arguments = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(3, settings=SETTINGS) as kafka:
        for what in arguments.what or WHAT:
            for protocol in ("classic", "consumer"):
                bad += _compare(kafka, what, protocol, arguments.traces or Path(folder))
                kafka.heal()
    return 1 if bad else 0


def _compare(kafka: KafkaCluster, what: str, protocol: str, folder: Path) -> int:
    group = Group(kafka, f"{what}-{protocol}", protocol, folder, every=0.005)
    try:
        group.load.start()
        group.join("alice", "bob", "carol")
        group.settled()
        _caught_up(group)
        since = time.time()
        WHAT[what](group)
        group.settled()
        time.sleep(2.0)
        _caught_up(group)
        until = time.time()
    finally:
        group.end()
    tables = read_files(sorted(map(str, group.folder.glob("*.jsonl*"))))
    print(f"\n{what}, {protocol}")
    seen = silences(group, since, until)
    return sum(_tell(one, some, tables, since, until) for one, some in seen.items())


def _caught_up(group: Group) -> None:
    """The members have nearly all that was written: what they are given was written just now."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        time.sleep(0.5)
        looks = [one.look() for one in group.members.values() if not one.gone]
        if all((look["lag"] or 0) < 200 for look in looks):
            return


def silences(group: Group, since: float, until: float) -> dict[str, list[Silence]]:
    """Of each partition the times between two polls that gave out something new of it."""
    given: dict[str, list[tuple[float, int, int, float, float]]] = {}
    for member in group.members.values():
        for line in member.given.read_text().splitlines():
            at, partition, first, last, stamp, newest = line.split()
            told = float(at), int(first), int(last), float(stamp), float(newest)
            given.setdefault(partition, []).append(told)
    found: dict[str, list[Silence]] = {}
    for partition, rows in sorted(given.items()):
        before, end = math.inf, -1
        for at, first, last, stamp, newest in sorted(rows):
            if last <= end:
                continue
            if at >= since and before <= until:
                # (If some of it came a second time, the first new record is younger than this.)
                waited = at - (stamp if first > end else newest)
                found.setdefault(partition, []).append(Silence(partition, before, at, waited))
            before, end = at, last
    return found


def _tell(partition: str, seen: list[Silence], tables: Tables, since: float, until: float) -> bool:
    """Print what is told of the longest silence; whether it differs."""
    told = [
        row
        for row in tables.downtimes
        if row.partition == partition
        and row.downtime_ms is not None
        and since <= (row.first_delivered or 0.0)
        and (row.last_delivered or 0.0) <= until
    ]
    if not told:
        longest = max(seen, key=lambda one: one.ended - one.began)
        lasted = longest.ended - longest.began
        stalls = [
            row
            for row in tables.silences
            if row.partition == partition and row.began < longest.ended and row.ended is not None
        ]
        words = "no stall"
        if stalls and stalls[-1].ended is not None:
            began, ended = stalls[-1].began - longest.began, stalls[-1].ended - longest.ended
            words = f"stall ({stalls[-1].reason}), begins {began:+.1f} s, ends {ended:+.1f} s"
        print(f"    {partition}: seen {lasted * 1000:6.0f} ms, kept its owner; {words}")
        return False
    row = max(told, key=lambda row: row.downtime_ms or 0.0)
    began, ended = row.last_delivered or 0.0, row.first_delivered or 0.0
    same = max(seen, key=lambda one: min(one.ended, ended) - max(one.began, began))
    lasted = same.ended - same.began
    differs = (ended - began) - lasted
    good = abs(differs) <= MAY_DIFFER
    print(
        f"    {partition}: seen {lasted * 1000:6.0f} ms (waited {same.waited * 1000:6.0f}), told"
        f" {(ended - began) * 1000:6.0f} ms, {differs * 1000:+5.0f} (begins"
        f" {(began - same.began) * 1000:+.0f}, ends {(ended - same.ended) * 1000:+.0f}), repeated"
        f" {row.repeated} {'OK' if good else 'BAD'}"
    )
    return not good


if __name__ == "__main__":
    sys.exit(main())
