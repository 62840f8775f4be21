"""Groups that change their protocol member by member, under load and watched (KIP-848).

Members are of three clients: aktor and librdkafka speak both protocols, kafka-python the classic
one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import ConsumerRebalanceListener
from kafka.errors import CommitFailedError, RebalanceInProgressError

from tests.clients.members import (
    aktor_consumer,
    confluent_consumer,
    confluent_settings,
    kafka_python_consumer,
    stream,
)
from tests.clients.support import PARTITIONS, SOON_S, Reachable, wait_until


class Owners:
    """Owns what all members have told: who has which partition, and what they processed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: dict[int, str] = {}
        self.processed: Counter[str] = Counter()
        self.faults: list[str] = []

    def take(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                other = self._owner.get(partition, name)
                if other != name:
                    self.faults.append(f"{name} got {partition}, which {other} still had")
                self._owner[partition] = name

    def release(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                if self._owner.get(partition) == name:
                    del self._owner[partition]

    def process(self, name: str, partition: int, value: bytes) -> None:
        with self._lock:
            if self._owner.get(partition) != name:
                self.faults.append(f"{name} got a record of {partition}, which it has not")
            self.processed[value.decode()] += 1

    def shared_by(self, names: Iterable[str]) -> bool:
        """Whether each partition is one of theirs, and each of them has one."""
        with self._lock:
            return set(self._owner) == set(PARTITIONS) and set(self._owner.values()) == set(names)


class Member:
    """A consumer in a thread of its own; `stop` lets it leave the group."""

    def __init__(self, name: str, owners: Owners) -> None:
        self.name = name
        self.owners = owners
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SOON_S)
        assert not self._thread.is_alive(), f"{self.name} does not stop"

    def _run(self) -> None:
        try:
            self._open()
            while not self._stopping.is_set():
                self._poll()
            self._close()
        except Exception as error:
            self.owners.faults.append(f"{self.name}: {error!r}")

    def _open(self) -> None:
        raise NotImplementedError

    def _poll(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class Librdkafka(Member):
    """confluent-kafka, whichever protocol its settings say."""

    def __init__(self, name: str, owners: Owners, topic: str, consumer: Any) -> None:
        super().__init__(name, owners)
        self._topic = topic
        self._consumer = consumer

    def _open(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._got, on_revoke=self._lost, on_lost=self._lost
        )

    def _got(self, _: Any, places: list[Any]) -> None:
        self.owners.take(self.name, [place.partition for place in places])

    def _lost(self, _: Any, places: list[Any]) -> None:
        self.owners.release(self.name, [place.partition for place in places])

    def _poll(self) -> None:
        record = self._consumer.poll(0.05)
        if record is None or record.error() is not None:
            return
        self.owners.process(self.name, record.partition(), record.value())
        try:
            self._consumer.commit(message=record, asynchronous=False)
        except KafkaException as error:
            # Whoever has the partition now processes it once more.
            if error.args[0].code() not in _COMES_TOO_LATE:
                raise

    def _close(self) -> None:
        self._consumer.close()


#: What a commit may be told in a rebalance.
_COMES_TOO_LATE = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)


class KafkaPython(Member):
    """kafka-python, which has the classic protocol only."""

    def __init__(self, name: str, owners: Owners, topic: str, consumer: Any) -> None:
        super().__init__(name, owners)
        self._topic = topic
        self._consumer = consumer

    def _open(self) -> None:
        self._consumer.subscribe([self._topic], listener=_Listener(self))

    def _poll(self) -> None:
        # A poll that ends while it joins leaves kafka-python 3.0.12 without partitions for ever.
        for place, records in self._consumer.poll(timeout_ms=10_000).items():
            for record in records:
                self.owners.process(self.name, place.partition, record.value)
        # If it comes too late, whoever has the partition now processes it once more.
        with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
            self._consumer.commit(timeout_ms=int(SOON_S * 1000))

    def _close(self) -> None:
        self._consumer.close(autocommit=False)


class Aktor(Member):
    """Ours, whichever protocol its settings say."""

    def __init__(self, name: str, owners: Owners, topic: str, consumer: Any) -> None:
        super().__init__(name, owners)
        self._topic = topic
        self._consumer = consumer
        # With the consumer protocol a commit never comes too late: the epoch is no concern of the
        # application, and what it owns it keeps until it polls.
        classic = consumer.config["group_protocol"] == "classic"
        self._too_late = (CommitFailedError, RebalanceInProgressError) if classic else ()

    def _open(self) -> None:
        self._consumer.subscribe([self._topic], listener=_Listener(self))

    def _poll(self) -> None:
        for place, records in self._consumer.poll(50).items():
            for record in records:
                self.owners.process(self.name, place.partition, record.value)
        with contextlib.suppress(*self._too_late):
            self._consumer.commit()

    def _close(self) -> None:
        self._consumer.close()


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._member.owners.take(self._member.name, [place.partition for place in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._member.owners.release(self._member.name, [place.partition for place in revoked])


class Group:
    """Owns the members of one group, and looks after its offsets while they work."""

    def __init__(self, kafka: Reachable, topic: str, group: str, stack: ExitStack) -> None:
        self.kafka = kafka
        self.topic = topic
        self.owners = Owners()
        self.members: list[Member] = []
        self._entered = 0
        self._group = group
        self._stack = stack
        self._committed = dict.fromkeys(PARTITIONS, 0)
        self._reader = confluent_consumer(kafka, group)
        self._admin: Any = AdminClient(confluent_settings(kafka))
        stack.callback(self._reader.close)

    def enter(self, client: str, **settings: Any) -> None:
        """One more member, and wait until it has its share."""
        self._entered += 1
        name = f"{client} {self._entered}"
        member: Member
        settings |= {"enable_auto_commit": False}
        if client == "aktor":
            ours = aktor_consumer(self.kafka, group_id=self._group, **settings)
            member = Aktor(name, self.owners, self.topic, ours)
        elif client == "kafka-python":
            python = kafka_python_consumer(self.kafka, group_id=self._group, **settings)
            member = KafkaPython(name, self.owners, self.topic, python)
        else:
            c = confluent_consumer(self.kafka, self._group, **settings)
            member = Librdkafka(name, self.owners, self.topic, c)
        self.members.append(member)
        member.start()
        self._stack.callback(member.stop)
        self.settle()

    def exchange(self, client: str, count: int, **settings: Any) -> None:
        """So many new ones take the places of the eldest, one by one."""
        for _ in range(count):
            self.enter(client, **settings)
            self.leave()

    def leave(self) -> None:
        """The eldest member leaves, and the others have its share."""
        self.members.pop(0).stop()
        self.settle()

    def stop(self) -> None:
        """All leave."""
        for member in self.members:
            member.stop()

    def settle(self) -> None:
        """Wait until each partition has an owner, and each member a partition."""
        names = [member.name for member in self.members]
        self._wait(lambda: self.owners.shared_by(names), f"shares for {names}")

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        """Wait, and see meanwhile that all is as it should be."""

        def looked() -> bool:
            self._look()
            return happened()

        wait_until(looked, what)

    def _look(self) -> None:
        """Offsets only grow, and nobody met anything wrong."""
        places = [TopicPartition(self.topic, partition) for partition in PARTITIONS]
        for place in self._reader.committed(places, timeout=SOON_S):
            offset = max(place.offset, 0)
            before = self._committed[place.partition]
            assert offset >= before, f"{place.partition} went back from {before} to {offset}"
            self._committed[place.partition] = offset
        assert self.owners.faults == []

    def type(self) -> str:
        """What the brokers say of the group: "classic" or "consumer"."""
        described = self._admin.describe_consumer_groups([self._group])[self._group].result(SOON_S)
        return str(described.type.name).lower()

    def finish(self, written: Iterable[str]) -> None:
        """Wait until all that was written is processed, and committed."""
        expected = set(written)
        self._wait(lambda: set(self.owners.processed) >= expected, f"{len(expected)} records")
        self._wait(
            lambda: sum(self._committed.values()) == len(expected), f"{len(expected)} offsets"
        )


def change_and_change_back(
    kafka: Reachable,
    topic: str,
    group: str,
    *,
    classic: str,
    settings: dict[str, Any],
    consumer: str,
    count: int,
) -> None:
    """A group of `classic` clients with these settings is replaced by as many `consumer` clients
    that speak the consumer protocol, and these by classic ones again; fails if anything is lost."""
    types = []
    with ExitStack() as stack:
        members = Group(kafka, topic, group, stack)
        with stream(kafka, topic) as written:
            for _ in range(count):
                members.enter(classic, **settings)
            types.append(members.type())
            members.exchange(consumer, count, group_protocol="consumer")
            types.append(members.type())
            members.exchange(classic, count, **settings)
            types.append(members.type())
        members.finish(written)
        with stream(kafka, topic):  # They wake up those who wait for some.
            members.stop()

    assert members.owners.faults == []
    assert types == ["classic", "consumer", "classic"]
