"""What members of a group were given and told, judged by the checks of the simulation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.simulation import history as told
from aktor.simulation.checks import causes, listener, ownership, records
from tests.scenarios.world import World

#: What holds for all that a world tells. Others need to know what became of members' sessions, and
#: when the users came back for more.
CHECKS = (
    records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
    records.the_trace_tells_what_is_given,
    *ownership.CHECKS,
    *causes.CHECKS,
    listener.the_listener_hears_of_each_partition,
)


class History:
    """Owns the readers, and what was read of all partitions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.readers: list[Reader] = []
        self.read: dict[TopicPartition, list[int]] = defaultdict(list)

    def reader(self, *topics: str, **configs: Any) -> Reader:
        """A new consumer that subscribes to these topics and writes its history here."""
        consumer = self.world.consumer(**{"auto_offset_reset": "earliest"} | configs)
        reader = Reader(self, consumer)
        self.readers.append(reader)
        reader.tell("user.subscribed", listener=True)
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

    # -- what tests ask

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept, as sentences."""
        history = self._as_told()
        return [f"{one.__name__}: {said}" for one in CHECKS for said in one(history)]

    def _as_told(self) -> told.History:
        events: list[told.Event] = []
        for topic, logs in self.world.cluster.topics.items():
            for partition, log in logs.items():
                where = {"partition": f"{topic}-{partition}"}
                # When it was written nobody knows: before everything, say.
                written = {"first": log.start, "last": log.end - 1, "at": 0.0, "member": ""}
                events.append({"event": "records.written", **where, **written})
        for event in self.world.told:
            events.append(told.told_by(event["whose"], event["at"] - 1000.0, event))
        return told.History.of(events)

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
        self.tell = history.world.host(consumer).tell
        #: Killed, or so long asleep that the group has forgotten it.
        self.gone = False
        #: ("assigned" | "revoked" | "lost", partitions) in the order of the calls.
        self.calls: list[tuple[str, set[TopicPartition]]] = []

    def poll(self, seconds: float = 0.05, **options: Any) -> int:
        """Poll, write down what came, return how many records that were."""
        count = 0
        taken = self.consumer.poll(timeout_ms=seconds * 1000, **options)
        for partition, found in taken.items():
            offsets = [record.offset for record in found]
            for record in found:
                assert record.value == f"{record.partition}:{record.offset}".encode()
            self.tell("user.given", partition=_name(partition), offsets=offsets)
            self.history.read[partition] += offsets
            count += len(offsets)
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
        self._hear("assigned", set(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._hear("revoked", set(revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._hear("lost", set(lost))

    def _hear(self, what: str, partitions: set[TopicPartition]) -> None:
        self.calls.append((what, partitions))
        self.tell("listener.told", told=what, partitions=sorted(map(_name, partitions)))

    def __repr__(self) -> str:
        return str(self.consumer.config["client_id"])


def _name(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"
