"""Both group protocols, ours and the peers': the first record, and how long a hand-over takes.

In the consumer protocol (KIP-848) a member hears with its next heartbeat what it has to give up,
and the new owner with one of its own that it may begin: much of a hand-over is the brokers'
heartbeat interval. So all is measured with two of them. With the classic protocol `handover` has
the hand-overs of clients in Python; here is that of the Java client.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

import aktor
from benchmarks import child
from benchmarks.clients import import_client, installed, open_client
from benchmarks.handover import (
    LEFT_S,
    PARTITIONS,
    PEERS_ROUNDS,
    POLL_S,
    ROUNDS,
    Gaps,
    member,
    one_round,
    produce,
)
from benchmarks.site import Site, new_name
from benchmarks.tables import Table, at_most, spread
from tests.kafka.real import KafkaCluster, topics

FIRST_ROUNDS: Final = 7
WARM_UP: Final = 2
FIRST_TARGET_MS: Final = 110.0
STAY_TARGET_MS: Final = 30.0
PATIENCE_S: Final = 30.0

#: Milliseconds between heartbeats of members of KIP-848 groups, and what the brokers are told.
INTERVALS: Final = (500, 5000)

#: For so many seconds more than a heartbeat interval the members are watched, but after the second
#: one has records only so long: nothing more happens then.
WATCH_S: Final = 1.0
JOINED_S: Final = 3.0

CLIENTS: Final = ("aktor", "confluent", "java")
PROTOCOLS: Final = ("classic, eager", "classic, cooperative", "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A client and the protocol it speaks."""

    client: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.client}, {self.protocol}"

    @property
    def python_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"group_protocol": self.protocol.split(",")[0]}
        if self.protocol.endswith("cooperative"):
            settings["cooperative"] = True
        return settings

    @property
    def java_settings(self) -> list[str]:
        if self.protocol == "consumer":
            return ["group.protocol=consumer"]
        kind = "CooperativeSticky" if self.protocol.endswith("cooperative") else "Range"
        assignor = f"org.apache.kafka.clients.consumer.{kind}Assignor"
        return ["group.protocol=classic", f"partition.assignment.strategy={assignor}"]


class Place:
    """One broker with one heartbeat interval."""

    def __init__(self, interval_ms: int) -> None:
        self.cluster = KafkaCluster(
            settings={
                "group.consumer.heartbeat.interval.ms": str(interval_ms),
                "group.consumer.session.timeout.ms": "45000",
                "group.consumer.max.session.timeout.ms": "60000",
            }
        )
        self.cluster.start()
        self.bootstrap = self.cluster.bootstrap_servers
        topics.coordinator_of(self.bootstrap, new_name("warm-up"))
        self.topic = topics.create_topic(self.bootstrap, new_name("bench"), PARTITIONS)

    def java(self, mode: str, case: Case, *more: str) -> child.Child:
        """The Java client as a child."""
        return child.Child.of_java(
            self.cluster.prepare().classpath,
            "JavaMember.java",
            mode,
            ",".join(self.bootstrap),
            self.topic,
            new_name("group"),
            *case.java_settings,
            *more,
        )

    def member(self, case: Case, group: str) -> child.Child:
        """A member of `group`."""
        if case.client == "java":
            return self.java("member", case, f"group.id={group}")
        return child.Child(
            member,
            client=case.client,
            bootstrap=self.bootstrap,
            topic=self.topic,
            group=group,
            **case.python_settings,
        )


def tables(site: Site) -> Iterator[Table]:
    """First record, and hand-over with each heartbeat interval."""
    names = [one for one in CLIENTS if one == "java" or one in installed()]
    cases = [Case(client=one, protocol=how) for one in names for how in PROTOCOLS]
    for interval in INTERVALS:
        place = Place(interval)
        try:
            if interval == INTERVALS[0]:
                yield _first_records(place, cases, site)
            yield _hand_overs(place, cases, interval, site)
            if interval == INTERVALS[0]:
                yield _ours(place, site)
        finally:
            place.cluster.stop()


def _first_records(place: Place, cases: list[Case], site: Site) -> Table:
    rounds = 1 if site.quick else FIRST_ROUNDS
    with topics.producer(place.bootstrap) as producer:
        for number in range(1000):
            producer.send(place.topic, b"%0100d" % number, partition=number % PARTITIONS)
    rows = []
    for case in cases:
        if case.protocol == "classic, cooperative":
            continue
        if case.client == "java":
            times = place.java("first", case, f"rounds={rounds + WARM_UP}").result()
        else:
            times = child.run(
                first_records,
                client=case.client,
                bootstrap=place.bootstrap,
                topic=place.topic,
                rounds=rounds + WARM_UP,
                settings=case.python_settings,
            )
        times = times[WARM_UP:]
        site.say(f"{case}: first record {spread(times, 0)} ms")
        ours = case.client == "aktor" and case.protocol == "consumer"
        met = at_most(round(median(times)), FIRST_TARGET_MS, " ms") if ours else ""
        rows.append([str(case), spread(times, 0), met])
    return Table(
        title=f"protocols: first record in a fresh group, median (least-most) of {rounds} rounds",
        columns=["client", "ms", "target"],
        rows=rows,
        notes=["The broker has `group.initial.rebalance.delay.ms=0`; the processes are warm."],
    )


def first_records(
    client: str, bootstrap: list[str], topic: str, rounds: int, settings: dict[str, Any]
) -> list[float]:
    """Milliseconds from nothing to the first record, round by round."""
    import_client(client)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        reader = open_client(client, bootstrap, topic, new_name("group"), **settings)
        while not reader.poll(0.5):
            assert time.perf_counter() - start < PATIENCE_S, f"{client} reads nothing"
        times.append((time.perf_counter() - start) * 1000)
        reader.close()
    return times


def _hand_overs(place: Place, cases: list[Case], interval: int, site: Site) -> Table:
    rounds = {case: _rounds(case, interval, site) for case in cases}
    found: dict[Case, list[Gaps]] = {case: [] for case, count in rounds.items() if count}
    watch = WATCH_S + interval / 1000
    failed = []
    producer = child.Child(produce, bootstrap=place.bootstrap, topic=place.topic)
    producer.wait_until_ready()
    for number in range(max(rounds.values())):
        for case in found:
            if number >= rounds[case]:
                continue
            group = new_name("group")
            left = watch + WATCH_S if case.protocol == "consumer" else LEFT_S
            try:
                made = partial(place.member, case, group)
                gaps = one_round(made, joined_s=min(watch, JOINED_S), left_s=left)
                found[case].append(gaps)
                site.say(f"{case}, heartbeats every {interval} ms: {gaps}")
            except (AssertionError, RuntimeError) as error:
                if case.client == "aktor":
                    raise
                failed.append(f"{case}: a round gave nothing ({error}).")
    producer.result()
    return Table(
        title=(
            f"protocols: longest gap in ms, heartbeats every {interval} ms in the consumer"
            f" protocol, median (least-most) of {max(rounds.values())} rounds, fewer of peers"
        ),
        columns=[
            "client",
            "nothing happens",
            "joins: stay",
            "joins: move",
            "leaves: stay",
            "leaves: move",
            "target (stay)",
        ],
        rows=[_row(case, gaps) for case, gaps in found.items() if gaps],
        notes=failed,
    )


def _rounds(case: Case, interval: int, site: Site) -> int:
    """How often it is measured."""
    if interval > 1000:
        # A session takes long. In the classic protocol the brokers' interval plays no part.
        return int(case.protocol == "consumer")
    if case.protocol != "consumer":
        return int(case.client == "java")
    return 1 if site.quick else ROUNDS if case.client == "aktor" else PEERS_ROUNDS


def _row(case: Case, gaps: list[Gaps]) -> list[str]:
    columns = [
        [getattr(one, which) for one in gaps]
        for which in ("before", "stay", "move", "left_stay", "left_move")
    ]
    met = ""
    if case.client == "aktor" and case.protocol == "consumer":
        longest = max(median(columns[1]), median(columns[3]))
        met = at_most(round(longest), STAY_TARGET_MS, " ms") if not math.isnan(longest) else ""
    return [str(case), *(spread(one, 0) for one in columns), met]


# -- how much of a gap is ours


class _Events(logging.Handler):
    """When our consumers did what."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[float, Mapping[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note it."""
        self.events.append((time.monotonic(), record.__dict__.get("aktor", {})))

    def first(self, since: float, consumer: str, name: str, **fields: Any) -> float:
        """When this consumer did so first, from then on."""
        return next(
            at
            for at, event in list(self.events)
            if at >= since
            and (event["event"], event.get("consumer")) == (name, consumer)
            and fields.items() <= event.items()
        )


def _ours(place: Place, site: Site) -> Table:
    """Two members in this process: from what the coordinator says to what follows from it."""
    events, logger = _Events(), logging.getLogger("aktor")
    level = logger.level
    logger.addHandler(events)
    logger.setLevel(logging.DEBUG)
    producer = child.Child(produce, bootstrap=place.bootstrap, topic=place.topic)
    producer.wait_until_ready()
    try:
        rounds = [_our_round(place, events) for _ in range(1 if site.quick else ROUNDS)]
    finally:
        logger.removeHandler(events)
        logger.setLevel(level)
        producer.result()
    parts = ["joins: let go", "joins: take on", "leaves: let go", "leaves: take on"]
    return Table(
        title="protocols: what of a gap is ours, ms, in the consumer protocol, median (least-most)",
        columns=parts,
        rows=[[spread(values, 1) for values in zip(*rounds, strict=True)]],
        notes=[
            "Let go: from the answer that takes partitions away, or from `close`, to the heartbeat",
            "that says they are free. Take on: from the answer that assigns them to their first",
            "record. The rest of a gap is the broker's, and waiting for the next heartbeat.",
        ],
    )


def _our_round(place: Place, events: _Events) -> list[float]:
    group, heartbeat = new_name("group"), {"api": "ConsumerGroupHeartbeat"}
    first, second = (_Member(place, group, name) for name in ("first", "second"))
    first.start()
    first.wait_until_it_has(PARTITIONS)
    joins = time.monotonic()
    second.start()
    second.wait_until_it_has(PARTITIONS // 2)
    told = events.first(joins, "first", "rebalance.target")
    done = events.first(told, "first", "rebalance.completed")
    freed = events.first(done, "first", "request.sent", **heartbeat)
    given = events.first(joins, "second", "rebalance.target", partition_count=PARTITIONS // 2)
    taken = second.reads_since(given)
    leaves = time.monotonic()
    moved = set(second.reads)
    second.stop()
    said = events.first(leaves, "second", "request.sent", **heartbeat)
    first.wait_until_it_has(PARTITIONS)
    given_back = events.first(leaves, "first", "rebalance.target", partition_count=PARTITIONS)
    taken_back = first.reads_since(given_back, moved)
    first.stop()
    times = (freed - told, taken - given, said - second.closes, taken_back - given_back)
    return [one * 1000 for one in times]


class _Member(threading.Thread):
    """One of our consumers, and when it had records of which partition."""

    def __init__(self, place: Place, group: str, name: str) -> None:
        super().__init__(daemon=True)
        self.reads: dict[int, list[float]] = {}
        self.closes = math.nan
        self._ending = threading.Event()
        self._consumer = aktor.KafkaConsumer(
            place.topic,
            bootstrap_servers=place.bootstrap,
            group_id=group,
            client_id=name,
            group_protocol="consumer",
        )

    def run(self) -> None:
        """Until it is stopped."""
        while not self._ending.is_set():
            batches = self._consumer.poll(int(POLL_S * 1000))
            now = time.monotonic()
            for partition in batches:
                self.reads.setdefault(partition.partition, []).append(now)
        self.closes = time.monotonic()
        self._consumer.close()

    def wait_until_it_has(self, count: int) -> None:
        """Until it had records of so many partitions since now."""
        since = time.monotonic()
        while sum(one[-1] > since for one in list(self.reads.values())) < count:
            assert time.monotonic() - since < PATIENCE_S, "no records"
            time.sleep(0.01)

    def reads_since(self, since: float, of: Collection[int] = range(PARTITIONS)) -> float:
        """When it had the first records of these, from then on."""
        return min(at for one in of for at in self.reads.get(one, ()) if at > since)

    def stop(self) -> None:
        """Close it."""
        self._ending.set()
        self.join(PATIENCE_S)
