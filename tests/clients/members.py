"""Consumers of several clients, and members of groups that poll in threads of their own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import chain
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import Consumer, ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

import aktor
from tests.clients.support import (
    PARTITIONS,
    SOON_S,
    Reachable,
    Record,
    numbered,
    produce,
    wait_until,
)

#: Pause between two records of a `stream`; there are always some on their way.
_RECORD_PAUSE_S = 0.005

#: The value of a record that is there for nothing but to end a wait.
WAKE = "wake up"


class Reader(Protocol):
    """Whoever reads records."""

    records: list[Record]

    def check(self) -> None:
        """Raises what it met."""


class Member:
    """A consumer of a group that polls in a thread of its own, as members do who must not wait
    for each other; a `with` block.

    poll: waits for records, which are added to `records`.
    owned: the partitions it has; asked by other threads.
    close: commits what was read, and leaves.
    wake: makes `poll` return soon, if it waits for more than a moment; may write `WAKE` for that.
    """

    def __init__(
        self,
        poll: Callable[[], Iterable[Record]],
        *,
        owned: Callable[[], Collection[int]],
        close: Callable[[], Any],
        wake: Callable[[], Any] = lambda: None,
    ) -> None:
        self.records: list[Record] = []
        self._poll, self._owned, self._close, self._wake = poll, owned, close, wake
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._wake()
        self._thread.join(SOON_S)
        assert not self._thread.is_alive(), "a member does not end"
        self.check()

    @property
    def owned(self) -> frozenset[int]:
        """The partitions it has now."""
        return frozenset(self._owned())

    def check(self) -> None:
        """Raises what it met."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            try:
                while not self._stop.is_set():
                    self.records.extend(one for one in self._poll() if one.value != WAKE)
            finally:
                self._close()
        except BaseException as error:
            self._error = error


def share(members: Sequence[Member], partitions: Iterable[int] = PARTITIONS) -> None:
    """Wait until each partition has one owner, and no member two more than another."""
    wanted = sorted(partitions)

    def settled() -> bool:
        for member in members:
            member.check()
        owned = [member.owned for member in members]
        sizes = [len(one) for one in owned]
        return sorted(chain(*owned)) == wanted and max(sizes) - min(sizes) <= 1

    wait_until(settled, f"{wanted} shared by {len(members)} members")


def all_read(members: Sequence[Reader], values: Iterable[str]) -> None:
    """Wait until the members have read all these values; fails if one of them came twice."""
    wanted = set(values)

    def found() -> Counter[str]:
        for member in members:
            member.check()
        read = chain.from_iterable(list(member.records) for member in members)
        return Counter(one.value for one in read if one.value in wanted)

    wait_until(lambda: len(found()) == len(wanted), f"{len(wanted)} records")
    assert {value: times for value, times in found().items() if times > 1} == {}


def shared(kafka: Reachable, group: str, members: Sequence[Reader]) -> list[list[int]]:
    """Wait until the group is stable and each partition has one owner among so many members; the
    partitions of each."""
    admin: Any = AdminClient(confluent_settings(kafka))
    owned: list[list[int]] = []

    def settled() -> bool:
        for member in members:
            member.check()
        described = admin.describe_consumer_groups([group])[group].result(SOON_S)
        owned[:] = [
            sorted(place.partition for place in one.assignment.topic_partitions)
            for one in described.members
        ]
        return (
            described.state == ConsumerGroupState.STABLE
            and len(owned) == len(members)
            and all(owned)
            and sorted(chain(*owned)) == list(PARTITIONS)
        )

    wait_until(settled, f"{list(PARTITIONS)} shared by {len(members)} members: {owned}", 60)
    return owned


def read_by_their_owners(members: Sequence[Reader], owned: list[list[int]], kind: str) -> None:
    """The records of this kind were read by those who own their partitions."""
    read = [
        sorted({one.partition for one in member.records if one.value.startswith(kind)})
        for member in members
    ]
    assert sorted(read) == sorted(owned)


@contextmanager
def stream(kafka: Reachable, topic: str) -> Iterator[list[str]]:
    """Records are written until the end; their values."""
    producer: Any = Producer(confluent_settings(kafka, linger_ms=1))
    written: list[str] = []
    stopping = threading.Event()

    def write() -> None:
        while not stopping.is_set():
            value = f"record-{len(written)}"
            producer.produce(topic, value=value, partition=len(written) % len(PARTITIONS))
            written.append(value)
            producer.poll(0)
            time.sleep(_RECORD_PAUSE_S)

    thread = threading.Thread(target=write, name="producer", daemon=True)
    thread.start()
    try:
        yield written
    finally:
        stopping.set()
        thread.join(SOON_S)
        assert producer.flush(SOON_S) == 0


def together_then_alone(
    kafka: Reachable, topic: str, group: str, stays: Any, *others: Any, busy: bool = False
) -> None:
    """All of them share the group and read what is theirs; when the others have left, the one that
    stays has it all. Each record comes once: nobody reads what somebody else has. `busy`: records
    are written all the time, also while members come and go. Members are context managers."""
    with ExitStack() as stack:
        stack.enter_context(stays)
        with stream(kafka, topic) if busy else nullcontext(list[str]()) as written:
            with ExitStack() as for_a_time:
                everybody = [stays, *(for_a_time.enter_context(one) for one in others)]
                owned = shared(kafka, group, everybody)
                told = produce(kafka, topic, numbered("together", 60))
                all_read(everybody, told)
                read_by_their_owners(everybody, owned, "together")

            shared(kafka, group, [stays])
            told += produce(kafka, topic, numbered("alone", 20))
        all_read(everybody, [*written, *told])


# -- kafka-python


def kafka_python_consumer(kafka: Reachable, *topics: str, **settings: Any) -> KafkaConsumer:
    """kafka-python's consumer, impatient, which commits when it is told."""
    return KafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": kafka.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 20_000,
            "fetch_max_wait_ms": 50,
            **settings,
        },
    )


def kafka_python_member(
    kafka: Reachable, topic: str, group: str, listener: Any = None, **settings: Any
) -> Member:
    """kafka-python's consumer as a member."""
    one = kafka_python_consumer(kafka, group_id=group, enable_auto_commit=True, **settings)
    one.subscribe([topic], listener=listener)

    def poll() -> list[Record]:
        # A poll that ends while it joins the group leaves kafka-python 3.0.12 without partitions
        # for ever; so it waits as long as any test takes (Java may come late), and is woken.
        polled = one.poll(timeout_ms=600_000)
        return [
            Record(it.partition, it.offset, it.value.decode())
            for records in polled.values()
            for it in records
        ]

    return Member(
        poll,
        owned=lambda: [place.partition for place in one.assignment()],
        close=one.close,
        wake=lambda: produce(kafka, topic, [WAKE for _ in PARTITIONS]),
    )


# -- aktor


def aktor_consumer(kafka: Reachable, *topics: str, **settings: Any) -> aktor.KafkaConsumer:
    """Ours, impatient, which commits when it is told."""
    # A member of a KIP-848 group is told by the broker.
    told = settings.get("group_protocol") == "consumer"
    timeouts = {} if told else {"heartbeat_interval_ms": 200, "session_timeout_ms": 20_000}
    return aktor.KafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": kafka.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 50,
            **timeouts,
            **settings,
        },
    )


def aktor_member(kafka: Reachable, topic: str, group: str, **settings: Any) -> Member:
    """Ours as a member, which commits as it reads."""
    one = aktor_consumer(kafka, topic, group_id=group, enable_auto_commit=True, **settings)
    owned: list[int] = []

    def poll() -> list[Record]:
        polled = one.poll(50)
        owned[:] = [place.partition for place in one.assignment()]
        return [
            Record(it.partition, it.offset, it.value.decode())
            for records in polled.values()
            for it in records
        ]

    return Member(poll, owned=lambda: tuple(owned), close=one.close)


# -- confluent-kafka

#: A member of a KIP-848 group is told its session timeout by the broker.
_TIMEOUTS = {"heartbeat.interval.ms": 200, "session.timeout.ms": 20_000}


def confluent_settings(kafka: Reachable, **more: Any) -> dict[str, Any]:
    """What all clients of confluent-kafka are told; `more` has underscores for dots."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        # Its threads end when they feel like it, and would say so on the console.
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def confluent_consumer(kafka: Reachable, group: str, **more: Any) -> Any:
    """confluent-kafka's consumer, impatient."""
    classic = {} if more.get("group_protocol") == "consumer" else _TIMEOUTS
    return Consumer(
        {
            **confluent_settings(kafka, group_id=group, auto_offset_reset="earliest", **more),
            **classic,
            "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )


def confluent_poll(one: Any) -> list[Record]:
    """What came within a moment. Raises AssertionError for what is no record."""
    found = []
    for message in one.consume(100, timeout=0.05):
        assert message.error() is None, message.error()
        found.append(Record(message.partition(), message.offset(), message.value().decode()))
    return found


def confluent_member(
    kafka: Reachable,
    topics: Sequence[str],
    group: str,
    *,
    listeners: Mapping[str, Any] | None = None,
    **more: Any,
) -> Member:
    """confluent-kafka's consumer as a member; `listeners` are arguments of its `subscribe`."""
    one = confluent_consumer(kafka, group, **more)
    one.subscribe(list(topics), **(listeners or {}))
    owned: list[int] = []

    def poll() -> list[Record]:
        # To be asked for its assignment by another thread is more than librdkafka bears.
        found = confluent_poll(one)
        owned[:] = [place.partition for place in one.assignment()]
        return found

    return Member(poll, owned=lambda: tuple(owned), close=one.close)
