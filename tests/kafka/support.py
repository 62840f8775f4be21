"""What the tests against a real Kafka say again and again: consumers, deadlines, groups, children.

Consumers made here are impatient (short sessions, heartbeats and waits): a test needs no more.
"""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aktor import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics

ROOT = Path(__file__).parents[2]

#: How long anything that should happen at once may take on a busy machine; less than a request's
#: timeout (30 s), so that an answer that was lost or never asked for is not waited for.
SOON_S = 25.0

#: What is done at once takes less than this on a machine that others share, where a process or a
#: broker stands still for a second or two now and then; and less than a session, or any
#: timeout that a test does not shorten. tests/simulation/test_promptness.py is exact.
PROMPT_S = 4.0

#: The settings of a consumer that a test need not wait for. Its session is long: on a busy machine
#: a broker may stand still for some seconds, and then puts out whoever it did not hear. A test that
#: waits for the end of a session asks for a short one.
QUICK: Mapping[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 20_000,
    "heartbeat_interval_ms": 300,
    "fetch_max_wait_ms": 100,
    "metadata_max_age_ms": 1000,
    "allow_auto_create_topics": False,
}

#: What the brokers decide for members of the consumer protocol (KIP-848).
BROKERS_OWN = frozenset({"session_timeout_ms", "heartbeat_interval_ms"})

Event = dict[str, Any]


def quick(kafka: Cluster, *names: str, **settings: Any) -> KafkaConsumer:
    """A consumer of these topics on this cluster, with the settings in `QUICK` unless told."""
    own = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
    return KafkaConsumer(*names, **hurried(QUICK, own))


def ready(kafka: Cluster, topic: str, group: str) -> None:
    """Wait until the group's coordinator is at work: other clients may not be patient with it."""
    with quick(kafka, group_id=group) as consumer:
        assert consumer.committed(TopicPartition(topic, 0)) is None


def hurried(usual: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The usual settings and these; in the consumer protocol the session is the brokers' matter."""
    together = {**usual, **settings}
    if together.get("group_protocol") == "consumer":
        for name in BROKERS_OWN - settings.keys():
            together.pop(name, None)
    return together


def wait_until(happened: Callable[[], Any], what: str, within: float = SOON_S) -> None:
    """Look every 20 ms whether it `happened`; fails with `what` when it did not."""
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(0.02)


def poll_until(
    consumer: Any, happened: Callable[[], Any], what: str, within: float = SOON_S
) -> list[Any]:
    """Poll until it `happened`; the records that came meanwhile."""
    records: list[Any] = []
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        records.extend(poll(consumer, 50))
    return records


def read_through(
    consumer: Any, count: int, *errors: type[Exception], within: float = SOON_S
) -> tuple[list[Any], list[Exception]]:
    """Poll until there are `count` records although `errors` are raised; both lists."""
    records: list[Any] = []
    met: list[Exception] = []
    deadline = time.monotonic() + within
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count}; {consumer.status()}; {met}"
        try:
            records.extend(poll(consumer, 100))
        except errors as error:
            met.append(error)
            time.sleep(0.02)
    return records, met


def poll(consumer: Any, timeout_ms: int = 50, **settings: Any) -> list[Any]:
    """The records of one poll, partition by partition."""
    batches = consumer.poll(timeout_ms, **settings)
    return [record for records in batches.values() for record in records]


def read(consumer: Any, count: int, within: float = SOON_S, **settings: Any) -> list[Any]:
    """Poll until there are `count` records; fails if they don't come, or if more do."""
    records: list[Any] = []
    deadline = time.monotonic() + within
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} within {within:g} s"
        records.extend(poll(consumer, 200, **settings))
    assert len(records) == count, f"{len(records)} records instead of {count}"
    return records


def read_for(consumer: Any, seconds: float) -> list[Any]:
    """All records that come within this time."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        records.extend(poll(consumer, int(left * 1000) + 1))
    return records


def raised_within(seconds: float, call: Callable[[], Any]) -> Exception:
    """Call again and again until it raises; that exception."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            call()
        except Exception as error:
            return error
    raise AssertionError(f"nothing was raised within {seconds:g} s")


def values(records: Iterable[Any]) -> list[Any]:
    """Their values, in order."""
    return [record.value for record in records]


def offsets(records: Iterable[Any]) -> list[int]:
    """Their offsets, in order."""
    return [record.offset for record in records]


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Values that say which one they are."""
    return [f"v{number}".encode() for number in range(start, start + count)]


def aktor_threads() -> set[threading.Thread]:
    """The background threads that are alive in this process.

    Those of earlier tests may end at any time (a look-up of a name that does not exist takes as
    long as it takes), so a test asks whether there is one that was not there before.
    """
    return {thread for thread in threading.enumerate() if thread.name.startswith("aktor-")}


@contextmanager
def traced() -> Iterator[list[Event]]:
    """The events that all consumers of this process emit meanwhile, in order."""
    events: list[Event] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (event := getattr(record, "aktor", None)) is not None:
                events.append(event)

    logger, collector = logging.getLogger("aktor"), Collector()
    level = logger.level
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    try:
        yield events
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)


def named(events: Iterable[Event], name: str) -> list[Event]:
    """The events of this name."""
    return [event for event in list(events) if event["event"] == name]


class Notes(ConsumerRebalanceListener):
    """A listener that writes down what it is told, and then does what the test wants."""

    def __init__(
        self,
        *,
        revoked: Callable[[set[TopicPartition]], Any] | None = None,
        assigned: Callable[[set[TopicPartition]], Any] | None = None,
        lost: Callable[[set[TopicPartition]], Any] | None = None,
    ) -> None:
        self.told: list[tuple[str, frozenset[int]]] = []
        self.when_lost = lost
        self.when_revoked = revoked
        self.when_assigned = assigned

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._note("revoked", revoked)
        if self.when_revoked is not None:
            self.when_revoked(revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._note("assigned", assigned)
        if self.when_assigned is not None:
            self.when_assigned(assigned)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._note("lost", lost)
        if self.when_lost is not None:
            self.when_lost(lost)

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        self.told.append((what, frozenset(one.partition for one in partitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One record that one member was given."""

    at: float
    member: str
    partition: int
    offset: int
    value: bytes


class Member(threading.Thread):
    """A group member on a thread of its own, which polls until it is told to close."""

    def __init__(self, group: Group, name: str, make: Callable[..., Any], settings: Any) -> None:
        super().__init__(name=f"member-{name}", daemon=True)
        self.member = name
        self.error: BaseException | None = None
        self.seen: list[Seen] = []
        self.notes = Notes(revoked=self._lose, lost=self._lose, assigned=self._gain)
        self.owned: frozenset[int] = frozenset()
        self._group, self._make, self._settings = group, make, settings
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            consumer = self._make(**self._settings)
            try:
                consumer.subscribe([self._group.topic], listener=self.notes)
                while not self._stopping.is_set():
                    for record in poll(consumer, 50):
                        self._see(record)
            finally:
                consumer.close()
        except BaseException as error:
            self.error = error

    def leave(self) -> None:
        """Close the consumer, and wait until it is closed; raises what went wrong on the way."""
        self._stopping.set()
        self.join(30)
        assert not self.is_alive(), f"member {self.member} did not close within 30 s"
        if self.error is not None:
            raise self.error

    def ask_to_leave(self) -> None:
        """Begin to close, without waiting."""
        self._stopping.set()

    def _see(self, record: Any) -> None:
        one = Seen(
            at=time.monotonic(),
            member=self.member,
            partition=record.partition,
            offset=record.offset,
            value=record.value,
        )
        self.seen.append(one)
        self._group.seen.append(one)

    def _gain(self, partitions: set[TopicPartition]) -> None:
        gained = {one.partition for one in partitions}
        self.owned |= gained
        self._group.owned_by(self.member, gained)

    def _lose(self, partitions: set[TopicPartition]) -> None:
        lost = {one.partition for one in partitions}
        self.owned -= lost
        self._group.given_up_by(self.member, lost)


class Group:
    """Members of one consumer group in this process, and what they were given.

    Fails at the end if two members owned one partition at the same time.
    """

    def __init__(self, kafka: Cluster, topic: str, group_id: str, **settings: Any) -> None:
        self.kafka, self.topic, self.group_id = kafka, topic, group_id
        self.members: dict[str, Member] = {}
        self.seen: list[Seen] = []
        self.overlaps: list[str] = []
        self._settings = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
        self._owners: dict[int, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            member.ask_to_leave()
        for member in self.members.values():
            member.join(30)
        if kind is None:
            for member in self.members.values():
                member.leave()
            assert not self.overlaps, self.overlaps

    def join(self, name: str, make: Callable[..., Any] = KafkaConsumer, **settings: Any) -> Member:
        """Start a member; it takes part when its rebalance is over (see `settled`)."""
        own = {**self._settings, "group_id": self.group_id, **settings}
        member = Member(self, name, make, hurried(QUICK, own))
        self.members[name] = member
        member.start()
        return member

    def settled(self, partitions: int, members: int, within: float = SOON_S) -> dict[str, set[int]]:
        """Wait until so many members share so many partitions evenly; who owns what.

        Not sooner: while a third member comes, there may be a moment in which all partitions are
        owned and all members own some, but one has yet to give some up.
        """
        shares: dict[str, set[int]] = {}

        def done() -> bool:
            for member in self.members.values():
                if member.error is not None:
                    raise member.error
            shares.clear()
            for partition, owner in self.owners.items():
                shares.setdefault(owner, set()).add(partition)
            sizes = [len(share) for share in shares.values()]
            shared = sum(sizes) == partitions and len(sizes) == members
            return shared and max(sizes) - min(sizes) <= 1

        wait_until(done, f"{members} members share {partitions} partitions evenly", within)
        return shares

    @property
    def owners(self) -> dict[int, str]:
        """Which member owns each partition now."""
        with self._lock:
            return dict(self._owners)

    def owned_by(self, member: str, partitions: set[int]) -> None:
        """A member was told that it owns these."""
        with self._lock:
            for one in partitions:
                if (other := self._owners.get(one, member)) != member:
                    self.overlaps.append(f"{member} got partition {one}, which {other} owns")
                self._owners[one] = member

    def given_up_by(self, member: str, partitions: set[int]) -> None:
        """A member was told that it owns these no more."""
        with self._lock:
            for one in partitions:
                if self._owners.get(one) == member:
                    del self._owners[one]

    def times_delivered(self) -> Counter[bytes]:
        """How often each value was given to anybody."""
        return Counter(one.value for one in list(self.seen))

    def wait_for(self, expected: Iterable[bytes], within: float = SOON_S) -> None:
        """Wait until each of these was given to somebody."""
        wanted = set(expected)
        wait_until(
            lambda: wanted <= self.times_delivered().keys(), f"{len(wanted)} records come", within
        )


class Child:
    """A Python program in a process of its own. It prints JSON lines, which `hear` returns.

    The program finds `servers`, `topic` and `group` set, `KafkaConsumer`, `QUICK` and
    `TopicPartition` imported, and a function `say(anything)`.
    """

    def __init__(self, kafka: Cluster, topic: str, group: str, program: str) -> None:
        opening = (
            "import json, os, signal, sys, time\n"
            # Who is started in the background of a shell is born deaf to it.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from aktor import KafkaConsumer, TopicPartition, ConsumerRebalanceListener\n"
            "from tests.kafka.support import QUICK, poll\n"
            f"servers, topic, group = {kafka.bootstrap_servers!r}, {topic!r}, {group!r}\n"
            "def say(what):\n"
            "    print(json.dumps(what), flush=True)\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", opening + program],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self._lines.put(line)
        self._lines.put("")

    def hear(self, within: float = 2 * SOON_S) -> Any:
        """The next thing it says; fails if it says nothing, with its error output if it ended."""
        try:
            line = self._lines.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"the child said nothing for {within:g} s") from None
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(f"the child ended: {self.process.stderr.read()[-3000:]}")
        return json.loads(line)

    def end(self, within: float = SOON_S) -> tuple[int, str]:
        """Wait for its end; the exit code, and what it wrote as errors."""
        assert self.process.stderr is not None
        self.process.wait(within)
        return self.process.returncode, self.process.stderr.read()


def flip_a_byte(kafka: Cluster, topic: str, value: bytes) -> None:
    """Damage the stored record with this (unique, uncompressed) value behind the broker's back.

    The broker sends its log files as they are, so that its clients see the damage at once.
    """
    segment = kafka.log_file(topic, 0)
    content = segment.read_bytes()
    assert content.count(value) == 1, f"{value!r} is {content.count(value)} times in {segment}"
    with segment.open("r+b") as file:
        file.seek(content.index(value))
        file.write(bytes([value[0] ^ 1]))


def batches(kafka: Cluster, topic: str, *contents: Iterable[bytes], **settings: Any) -> None:
    """Write each of `contents` as one record batch of partition 0, if it fits into one."""
    for content in contents:
        # Lingers until it is flushed: no pause of ours cuts a batch in two.
        with topics.producer(kafka.bootstrap_servers, linger_ms=60_000, **settings) as producer:
            for value in content:
                producer.send(topic, value=value, partition=0)
            producer.flush()


def produced_everywhere(kafka: Cluster, topic: str, count: int, start: int = 0) -> list[bytes]:
    """Write so many values, spread over all six partitions, and return them."""
    wanted = numbered(count, start)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for index, value in enumerate(wanted):
            producer.send(topic, value=value, partition=index % 6)
        producer.flush()
    return wanted
