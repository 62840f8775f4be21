"""Programs of twelve shapes, as users write them: each takes a consumer's class, and returns what
it has done.

They know kafka-python only. `test_programs` runs each with its class and with ours.

A poll of kafka-python's that ends between the answers to JoinGroup and SyncGroup loses its member
the assignment: it has no partitions and sends no heartbeats from then on, and nothing but the end
of its session tells it so. (Its first join often gets no partitions, since it has no metadata yet,
and it joins again after 0.1 s: a poll of 0.1 s ends just then.) So these programs poll long:
records end a poll anyway.
"""

from __future__ import annotations

import os
import queue
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import KafkaError

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.support import SOON_S, wait_until

__all__ = ["PROGRAMS", "RECORDS", "Run"]

#: The number of a cluster's first broker.
FIRST: Final = 1
#: The time of a poll, in milliseconds: more than joining takes on a machine that is busy.
LONG: Final = 20_000
#: What stands in the topic: values "0" to "39", in turn to its four partitions.
RECORDS: Final = 40


@dataclass(frozen=True, slots=True)
class Run:
    """What a program is given: a consumer's class, a cluster, a topic and a group."""

    kind: Callable[..., Any]
    kafka: EmbeddedKafka
    topic: str
    group: str

    def consumer(self, *topics: str, **settings: Any) -> Any:
        """A consumer that begins with the first record."""
        own = {"bootstrap_servers": self.kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
        return self.kind(*topics, **{**own, **settings})


def numbers(records: Iterable[Any]) -> list[int]:
    """The values of records, in the order of numbers."""
    return sorted(int(record.value) for record in records)


def worker_thread(run: Run) -> Any:
    """A web service: a thread reads, and whoever ends the service closes the consumer."""
    seen: queue.Queue[Any] = queue.Queue()
    consumer = run.consumer(run.topic, group_id=run.group)

    def work() -> None:
        with suppress(KafkaError):  # kafka-python may say so that it was closed
            for record in consumer:
                seen.put(record)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    records = [seen.get(timeout=SOON_S) for _ in range(RECORDS)]
    consumer.close()
    worker.join(SOON_S)
    return numbers(records), worker.is_alive()


def command_with_sigterm(run: Run) -> Any:
    """A command that systemd ends: the handler sets a flag, which the loop looks at."""
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    before = signal.signal(signal.SIGTERM, stop)
    done = []
    consumer = run.consumer(run.topic, group_id=run.group)
    try:
        while running:
            for records in consumer.poll(timeout_ms=LONG).values():
                done += records
            if len(done) == RECORDS:
                os.kill(os.getpid(), signal.SIGTERM)
    finally:
        consumer.close()
        signal.signal(signal.SIGTERM, before)
    return numbers(done), running


def batches_with_commit(run: Run) -> Any:
    """Poll, work, commit. A second run goes on behind the first."""
    done: list[Any] = []
    sizes = []
    for wanted in (RECORDS // 2, RECORDS):
        consumer = run.consumer(run.topic, group_id=run.group, enable_auto_commit=False)
        while len(done) < wanted:
            for records in consumer.poll(timeout_ms=LONG, max_records=10).values():
                done += records
            consumer.commit()
        sizes.append(len(done))
        consumer.close()
    return numbers(done), sizes


def loop_with_timeout(run: Run) -> Any:
    """Read what is there, then go on."""
    consumer = run.consumer(run.topic, consumer_timeout_ms=2000)
    records = list(consumer)
    consumer.close()
    return numbers(records), [type(record.value) for record in records[:1]]


def seek_and_replay(run: Run) -> Any:
    """Read a partition, and its end once more."""
    place = TopicPartition(run.topic, 1)
    with closing(run.consumer(consumer_timeout_ms=LONG, group_id=None)) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        first = [(record.offset, record.value) for record in islice(consumer, end)]
        consumer.seek(place, consumer.position(place) - 3)
        again = [(record.offset, record.value) for record in islice(consumer, 3)]
        return first, again, consumer.position(place)


def pattern_with_listener(run: Run) -> Any:
    """Subscribe to what matches, and hear of what comes and goes."""
    told = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            told.append(("assigned", sorted(assigned)))

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            if revoked:
                told.append(("revoked", sorted(revoked)))

    consumer = run.consumer(group_id=run.group, consumer_timeout_ms=LONG)
    consumer.subscribe(pattern=f"^{run.topic}$", listener=Listener())
    records = list(islice(consumer, RECORDS))
    subscription = consumer.subscription()
    consumer.close()
    return numbers(records), subscription, told


def assigned_by_hand(run: Run) -> Any:
    """Two partitions from their beginnings, up to their ends as they are now."""
    places = [TopicPartition(run.topic, number) for number in (0, 2)]
    consumer = run.consumer()
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    done: list[Any] = []
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=LONG).values():
            done += records
    times = consumer.offsets_for_times(dict.fromkeys(places, 0))
    partitions = consumer.partitions_for_topic(run.topic)
    consumer.close()
    return numbers(done), ends, {place: at.offset for place, at in times.items()}, partitions


def back_pressure(run: Run) -> Any:
    """A slow sink: all partitions are paused while its queue is full."""
    waiting: list[Any] = []
    done: list[Any] = []
    while_paused = 0
    consumer = run.consumer(run.topic, group_id=run.group, max_poll_records=7)
    while len(done) < RECORDS:
        for records in consumer.poll(timeout_ms=LONG).values():
            waiting += records
        if len(waiting) >= 14:
            consumer.pause(*consumer.assignment())
            while_paused += sum(map(len, consumer.poll(timeout_ms=50).values()))
            done, waiting = done + waiting, []
            consumer.resume(*consumer.paused())
        elif len(done) + len(waiting) == RECORDS:
            done, waiting = done + waiting, []
    left = consumer.paused()
    consumer.close()
    return numbers(done), while_paused, left


def consumers_in_threads(run: Run) -> Any:
    """Two threads, each with a consumer of the same group; each closes its own."""
    seen: list[Any] = []
    end = threading.Event()
    # Polls end often here, for the threads to look at `end`. A member of kafka-python's that has
    # lost its assignment so is expelled soon, and the other one reads its partitions.
    session = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}

    def work() -> None:
        consumer = run.consumer(run.topic, group_id=run.group, **session)
        try:
            while not end.is_set():
                for records in consumer.poll(timeout_ms=1000).values():
                    seen.extend(records)
                    consumer.commit()
        finally:
            consumer.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: len({*numbers(seen)}) == RECORDS, "all records")
    finally:
        end.set()
        for worker in workers:
            worker.join(SOON_S)
    return sorted({*numbers(seen)}), any(worker.is_alive() for worker in workers)


def exactly_once_with_sqlite(run: Run) -> Any:
    """Results and offsets are stored in one transaction. The program falls, and is started anew."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("create table results (value integer)")
    database.execute("create table offsets (place integer primary key, next integer)")
    places = [TopicPartition(run.topic, number) for number in range(4)]

    def main(fall_after: int) -> None:
        stored = dict(database.execute("select place, next from offsets"))
        consumer = run.consumer(consumer_timeout_ms=2000, enable_auto_commit=False)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, stored.get(place.partition, 0))
        with closing(consumer):
            for count, record in enumerate(consumer):
                database.execute("begin")
                database.execute("insert into results values (?)", [int(record.value)])
                if count == fall_after:
                    database.execute("rollback")
                    return
                database.execute(
                    "replace into offsets values (?, ?)", [record.partition, record.offset + 1]
                )
                database.execute("commit")

    main(fall_after=11)
    main(fall_after=RECORDS)
    return [value for (value,) in database.execute("select value from results order by value")]


def metrics_poller(run: Run) -> Any:
    """An exporter's thread looks at the consumer while it reads."""
    wanted = ("records-consumed-rate", "bytes-consumed-rate", "records-lag-max", "fetch-rate")
    looked = []
    consumer = run.consumer(run.topic, group_id=run.group, consumer_timeout_ms=LONG)
    exporter = threading.Thread(target=lambda: looked.append(consumer.metrics()))
    records = list(islice(consumer, RECORDS))
    exporter.start()
    exporter.join(SOON_S)
    found = looked[0]["consumer-fetch-manager-metrics"]
    consumer.close()
    return numbers(records), {name: float(found[name]) > 0 for name in wanted}


def wait_for_kafka(run: Run) -> Any:
    """A container that is started before its Kafka: the constructor is tried until it works."""
    failed, patience = 0, 300
    with EmbeddedKafka(topics={"orders": 1}) as later:
        address = later.bootstrap_servers
        later.stop_broker(FIRST)
        while True:
            try:
                consumer = run.kind(bootstrap_servers=address, bootstrap_timeout_ms=patience)
                break
            except KafkaError:
                failed, patience = failed + 1, LONG
                later.start_broker(FIRST)
        with closing(consumer):
            return failed, consumer.topics()


#: By the name of the test.
PROGRAMS: Final = {
    program.__name__: program
    for program in (
        worker_thread,
        command_with_sigterm,
        batches_with_commit,
        loop_with_timeout,
        seek_and_replay,
        pattern_with_listener,
        assigned_by_hand,
        back_pressure,
        consumers_in_threads,
        exactly_once_with_sqlite,
        metrics_poller,
        wait_for_kafka,
    )
}
