"""Who owned what, and who was given which record: what a group promises, checked as it happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.world import World


class History:
    """Owns the owners of all partitions, and what was read of them.

    `broken` are the promises that were not kept, as sentences.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.readers: list[Reader] = []
        self.owners: dict[TopicPartition, Reader] = {}
        self.read: dict[TopicPartition, list[int]] = defaultdict(list)
        self.broken: list[str] = []

    def reader(self, *topics: str, **configs: Any) -> Reader:
        """A new consumer that subscribes to these topics and writes its history here."""
        consumer = self.world.consumer(**{"auto_offset_reset": "earliest"} | configs)
        reader = Reader(self, consumer)
        self.readers.append(reader)
        consumer.subscribe(topics, listener=reader)
        return reader

    def drive(self, seconds: float, *readers: Reader, poll: float = 0.05) -> None:
        """Let these (default: all that live) poll in turn, in an order drawn from the seed."""
        until = self.world.now + seconds
        while self.world.now < until:
            turn = list(readers) or [one for one in self.readers if not one.gone]
            self.world.random.shuffle(turn)
            for reader in turn:
                reader.poll(poll)

    # -- what readers tell

    def assigned(self, reader: Reader, partition: TopicPartition) -> None:
        """The reader was told that it owns this."""
        before = self.owners.get(partition)
        if before is not None and not before.gone:
            self._break(f"{partition} was given to {reader} while {before} owned it")
        self.owners[partition] = reader
        reader.next.pop(partition, None)

    def given_up(self, reader: Reader, partition: TopicPartition) -> None:
        """The reader was told that it owns this no more."""
        if self.owners.get(partition) is reader:
            del self.owners[partition]

    def delivered(self, reader: Reader, partition: TopicPartition, offset: int) -> None:
        """The reader was given this record."""
        owner = self.owners.get(partition)
        if owner is not reader:
            self._break(f"{reader} was given {partition}:{offset}, which {owner} owns")
        seen = self.read[partition]
        expected = reader.next.get(partition)
        if expected is None and offset > max(seen, default=-1) + 1:
            self._break(f"{reader} begins {partition} at {offset}, after {max(seen, default=-1)}")
        if expected is not None and offset != expected:
            self._break(f"{reader} was given {partition}:{offset} instead of {expected}")
        reader.next[partition] = offset + 1
        seen.append(offset)

    def _break(self, what: str) -> None:
        self.broken.append(f"at {self.world.now - 1000:.3f}: {what}")

    # -- what tests ask

    @property
    def duplicates(self) -> int:
        """Records that were given out more than once."""
        return sum(len(offsets) - len(set(offsets)) for offsets in self.read.values())

    def lost(self, topic: str) -> dict[int, set[int]]:
        """Records of the topic that nobody was given, by partition."""
        missing = {
            partition: set(range(log.start, log.end))
            - set(self.read[TopicPartition(topic, partition)])
            for partition, log in self.world.cluster.topics[topic].items()
        }
        return {partition: offsets for partition, offsets in missing.items() if offsets}

    def assert_kept(self, topic: str, *, duplicates: bool = False) -> None:
        """All promises: one owner at a time, no gap, nothing lost, and nothing twice."""
        assert self.broken == []
        assert self.lost(topic) == {}
        if not duplicates:
            assert self.duplicates == 0


class Reader(ConsumerRebalanceListener):
    """One consumer of a history, and its listener."""

    def __init__(self, history: History, consumer: KafkaConsumer) -> None:
        self.history = history
        self.consumer = consumer
        self.next: dict[TopicPartition, int] = {}
        #: Killed, or so long asleep that the group has forgotten it.
        self.gone = False
        #: ("assigned" | "revoked" | "lost", partitions) in the order of the calls.
        self.calls: list[tuple[str, set[TopicPartition]]] = []

    def poll(self, seconds: float = 0.05, **options: Any) -> int:
        """Poll, write down what came, return how many records that were."""
        count = 0
        taken = self.consumer.poll(timeout_ms=seconds * 1000, **options)
        for partition, records in taken.items():
            for record in records:
                self.history.delivered(self, partition, record.offset)
                assert record.value == f"{record.partition}:{record.offset}".encode()
                count += 1
        return count

    def kill(self) -> None:
        """The process is gone."""
        self.gone = True
        self.history.world.kill(self.consumer)

    def close(self) -> None:
        """Leave in an orderly way."""
        self.consumer.close()
        self.gone = True

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.calls.append(("assigned", set(assigned)))
        for one in sorted(assigned):
            self.history.assigned(self, one)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.calls.append(("revoked", set(revoked)))
        for one in sorted(revoked):
            self.history.given_up(self, one)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.calls.append(("lost", set(lost)))
        for one in sorted(lost):
            self.history.given_up(self, one)

    def __repr__(self) -> str:
        return str(self.consumer.config["client_id"])
