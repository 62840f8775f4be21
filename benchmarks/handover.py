"""How long records stand still while a group hands partitions over: a second member joins, leaves.

Two members and a producer, each in a process; 1,000 records a second over 4 partitions. For every
partition the longest time between two deliveries, whoever delivers, on one clock for all processes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks import child
from benchmarks.clients import import_client, installed, open_client
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, spread

ROUNDS: Final = 3
PEERS_ROUNDS: Final = 2
PARTITIONS: Final = 4
RECORDS_A_SECOND: Final = 1000
TICK_S: Final = 0.004
POLL_S: Final = 0.1
PATIENCE_S: Final = 30.0

#: How long the first member settles, is watched alone, is watched beside the other, and after it.
SETTLE_S: Final = 0.5
QUIET_S: Final = 1.0
JOINED_S: Final = 1.5
#: Somewhat longer than the distance of heartbeats, by the next of which a member hears of it.
LEFT_S: Final = 3.5

#: What begins so soon before an event belongs to it.
APART_S: Final = 0.1

#: Who is measured, and the targets in ms for those that move when a member joins.
CASES: Final = (
    ("aktor", "eager", 30.0),
    ("kafka-python", "eager", math.nan),
    ("confluent", "eager", math.nan),
    ("aiokafka", "eager", math.nan),
    ("aktor", "cooperative", 200.0),
    ("kafka-python", "cooperative", math.nan),
    ("confluent", "cooperative", math.nan),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Longest gaps in ms: before anything happened, and of partitions that stayed or moved."""

    before: float
    stay: float
    move: float
    left_stay: float
    left_move: float

    def __str__(self) -> str:
        joins, leaves = (self.stay, self.move), (self.left_stay, self.left_move)
        pairs = zip(("joins", "leaves"), (joins, leaves), strict=True)
        return ", ".join(
            f"{what}: stay {stay:,.0f}, move {move:,.0f}" for what, (stay, move) in pairs
        )


def tables(site: Site) -> list[Table]:
    """Longest gaps when a second member joins, and when it leaves."""
    rounds = 1 if site.quick else ROUNDS
    there = installed()
    cases = [case for case in CASES if case[0] in there]
    found: dict[tuple[str, str], list[Gaps]] = {(name, how): [] for name, how, _ in cases}
    failed: list[str] = []
    topic = site.new_topic(PARTITIONS)
    producer = child.Child(produce, bootstrap=site.bootstrap, topic=topic)
    producer.wait_until_ready()
    for number in range(rounds):
        for name, how, _ in cases:
            if name != "aktor" and number >= PEERS_ROUNDS:
                continue
            try:
                gaps = _one_round(site, topic, name, how)
                found[name, how].append(gaps)
                site.say(f"{name}, {how}: {gaps}")
            except (AssertionError, RuntimeError) as error:
                if name == "aktor":
                    raise
                # A peer that gets no records in one round is no reason to measure nobody else.
                # kafka-python 3.0.12 does so in one start of about 40: a poll's time ends while
                # SyncGroup is under way, and the next poll takes the group for joined.
                failed.append(f"{name}, {how}: a round gave nothing ({error}).")
    producer.result()
    rows = []
    for name, how, target in cases:
        gaps = found[name, how]
        if not gaps:
            continue
        moved = [one.move for one in gaps]
        met = at_most(round(median(moved)), target, " ms") if not math.isnan(target) else ""
        rows.append(
            [
                f"{name}, {how}",
                *(
                    spread([getattr(one, which) for one in gaps], 0)
                    for which in ("before", "stay", "move", "left_stay", "left_move")
                ),
                met,
            ]
        )
    return [
        Table(
            title=(
                f"handover: longest gap in ms, {RECORDS_A_SECOND:,} records/s, "
                f"{PARTITIONS} partitions, median (least-most) of {rounds} rounds,"
                f" of peers {min(rounds, PEERS_ROUNDS)}"
            ),
            columns=[
                "client",
                "nothing happens",
                "joins: stay",
                "joins: move",
                "leaves: stay",
                "leaves: move",
                "target (joins: move)",
            ],
            rows=rows,
            notes=[
                f"A partition gets a record every {1000 * PARTITIONS / RECORDS_A_SECOND:.0f} ms; "
                "what the machine adds is in the first column.",
                *failed,
            ],
        )
    ]


def _one_round(site: Site, topic: str, client: str, how: str) -> Gaps:
    place: dict[str, Any] = {
        "client": client,
        "bootstrap": site.bootstrap,
        "topic": topic,
        "group": new_name("group"),
        "cooperative": how == "cooperative",
    }
    return one_round(lambda: child.Child(member, **place))


def one_round(
    start: Callable[[], child.Child], *, joined_s: float = JOINED_S, left_s: float = LEFT_S
) -> Gaps:
    """Two members that `start` makes: the second joins the first, and leaves it."""
    first, second = start(), start()
    try:
        return _measured(first, second, joined_s, left_s)
    except (AssertionError, RuntimeError):
        # The other one would go on as a member beside the next round.
        first.end()
        second.end()
        raise


def _measured(first: child.Child, second: child.Child, joined_s: float, left_s: float) -> Gaps:
    first.wait_until_ready()
    second.wait_until_ready()
    first.go()
    first.wait_until_ready()
    time.sleep(SETTLE_S + QUIET_S)
    joins = time.monotonic()
    second.go()
    second.wait_until_ready()
    time.sleep(joined_s)
    leaves = time.monotonic()
    of_second = second.result()
    time.sleep(left_s)
    return _gaps(first.result(), of_second, joins, leaves)


def _gaps(first: Any, second: Any, joins: float, leaves: float) -> Gaps:
    everything = [*first, *second]
    ended = max(at for at, _ in everything)
    # A partition that stands still in the end has a gap that lasts until then.
    deliveries = {
        partition: [*sorted(at for at, of in everything if of == partition), ended]
        for partition in range(PARTITIONS)
    }
    moved = {partition for _, partition in second}
    stayed = set(deliveries) - moved

    def longest(partitions: set[int], since: float, until: float) -> float:
        gaps = [_longest_gap(deliveries[one], since, until) for one in partitions]
        return max(gaps, default=math.nan)

    return Gaps(
        before=longest(set(deliveries), joins - QUIET_S, joins - APART_S),
        stay=longest(stayed, joins, leaves - APART_S),
        move=longest(moved, joins, leaves - APART_S),
        left_stay=longest(stayed, leaves, ended),
        left_move=longest(moved, leaves, ended),
    )


def _longest_gap(times: Sequence[float], since: float, until: float) -> float:
    """In ms, of the gaps that end after `since` and begin before `until`."""
    pairs = itertools.pairwise(times)
    return max((b - a for a, b in pairs if b > since and a < until), default=math.nan) * 1000


def member(
    client: str,
    bootstrap: list[str],
    topic: str,
    group: str,
    cooperative: bool = False,
    **settings: Any,
) -> list[tuple[float, int]]:
    """(when, partition) of all that was delivered, poll by poll. Ready when started, and then
    when it has its first records."""
    import_client(client)
    child.ready()
    child.asked_to_go()
    stop = child.asked_to_stop()
    began = time.monotonic()
    if cooperative:
        settings["cooperative"] = True
    reader = open_client(client, bootstrap, topic, group, start="latest", **settings)
    deliveries: list[tuple[float, int]] = []
    while not stop.is_set():
        batches = reader.poll(POLL_S)
        now = time.monotonic()
        if batches and not deliveries:
            child.ready()
        deliveries += [(now, partition) for partition in reader.count(batches)]
        assert deliveries or now - began < PATIENCE_S, f"{client} gets no records"
    reader.close()
    return deliveries


def produce(bootstrap: list[str], topic: str) -> int:
    """Write at a steady rate until told to stop; returns how many."""
    stop = child.asked_to_stop()
    send, close = _sender(bootstrap, topic)
    child.ready()
    began, sent = time.monotonic(), 0
    while not stop.wait(TICK_S):
        due = int((time.monotonic() - began) * RECORDS_A_SECOND)
        for number in range(sent, due):
            send(b"%0100d" % number, number % PARTITIONS)
        sent = max(sent, due)
    close()
    return sent


def _sender(
    bootstrap: list[str], topic: str
) -> tuple[Callable[[bytes, int], Any], Callable[[], Any]]:
    """How to send a value to a partition, and how to end; with librdkafka if it is there."""
    try:
        from confluent_kafka import Producer
    except ImportError:
        from kafka import KafkaProducer

        plain = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
        return lambda value, to: plain.send(topic, value, partition=to), plain.close
    quick = Producer({"bootstrap.servers": ",".join(bootstrap), "linger.ms": 0})

    def send(value: bytes, to: int) -> None:
        quick.produce(topic, value, partition=to)
        quick.poll(0)

    return send, quick.flush
