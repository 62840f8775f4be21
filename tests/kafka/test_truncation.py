"""An unclean election: the log of the new leader is shorter, and then longer, than what was read.

Of two replicas one is away while the other goes on, which then dies before the first is back
(`unclean.leader.election.enable`, KIP-320).
"""

from __future__ import annotations

import pytest

from aktor import KafkaConsumer, OffsetAndMetadata, TopicPartition
from aktor.errors import LogTruncationError
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import SOON_S, named, offsets, poll, quick, read, traced, wait_until

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


class Cut:
    """A topic with one partition and two replicas, of which one is behind the other."""

    def __init__(self, kafka: Cluster, topic: str) -> None:
        self.kafka = kafka
        servers = kafka.bootstrap_servers
        topics.create_topic(servers, topic, replication=2, configs=UNCLEAN)
        self.partition = TopicPartition(topic, 0)
        self.leader = topics.leader_of(servers, topic, 0)
        (described,) = topics.views(servers)[0].of_topic(topic)
        (self.follower,) = set(described.replicas) - {self.leader}
        self.write("both", 10)
        kafka.terminate(self.follower)
        self.write("lost", 10)

    def write(self, what: str, count: int) -> None:
        """So many records, acknowledged by all replicas that are in sync."""
        values = [f"{what} {number}" for number in range(count)]
        topics.produce(self.kafka.bootstrap_servers, self.partition.topic, values)

    def happen(self, count: int) -> None:
        """The leader dies, the other replica leads, and so many records are written to it."""
        kafka, topic = self.kafka, self.partition.topic
        servers = kafka.bootstrap_servers
        kafka.kill(self.leader)
        if isinstance(kafka, EmbeddedCluster):
            # Its followers catch up while a broker that was killed has its session, and it elects
            # uncleanly on command.
            wait_until(lambda: topics.leader_of(servers, topic, 0) < 0, "the session to be over")
            kafka.restart(self.follower)
            kafka.kafka.move_leader(topic, 0, self.follower, unclean=True)
        else:
            kafka.restart(self.follower)
        topics.wait_for_leader(servers, topic, 0, other_than=self.leader)
        self.write("new", count)


def reading(kafka: Cluster, cut: Cut, policy: str) -> KafkaConsumer:
    """A consumer that has read all of it."""
    consumer = quick(kafka, auto_offset_reset=policy)
    consumer.assign({cut.partition: 0})
    assert offsets(read(consumer, 20)) == list(range(20))
    return consumer


def the_truncation(consumer: KafkaConsumer) -> LogTruncationError:
    """The error that a poll raises soon."""
    found: list[LogTruncationError] = []

    def raised() -> bool:
        try:
            poll(consumer)
        except LogTruncationError as error:
            found.append(error)
        return bool(found)

    wait_until(raised, "the truncation to be raised")
    return found[0]


@pytest.mark.once("a broker is stopped, another one killed, and both are started again")
def test_what_the_new_leader_has_is_read_and_what_was_lost_is_told(
    kafka3: Cluster, topic: str
) -> None:
    cut = Cut(kafka3, topic)
    following, raising = reading(kafka3, cut, "earliest"), reading(kafka3, cut, "none")
    with traced() as events, following, raising:
        cut.happen(15)

        records = read(following, 15, within=2 * SOON_S)
        assert offsets(records) == list(range(10, 25))
        assert {record.value.split()[0] for record in records} == {b"new"}
        assert named(events, "position.reset")

        error = the_truncation(raising)
        assert TopicPartition(error.topic, error.partition) == cut.partition
        assert (error.position, error.diverging_offset) == (20, 10)
        raising.seek(cut.partition, error.divergent_offsets[cut.partition])
        assert offsets(read(raising, 15)) == list(range(10, 25))


@pytest.mark.embedded("it is the same client, and a real one has been through it above")
@pytest.mark.parametrize("count", [5, 15])
def test_a_group_goes_on_where_the_log_differs_from_what_it_has_committed(
    kafka3: Cluster, topic: str, group: str, count: int
) -> None:
    cut = Cut(kafka3, topic)
    with quick(kafka3, topic, group_id=group) as consumer:
        assert offsets(read(consumer, 20)) == list(range(20))
        consumer.commit()
        stored = consumer.committed(cut.partition, metadata=True)
    assert isinstance(stored, OffsetAndMetadata)
    assert (stored.offset, stored.leader_epoch >= 0) == (20, True)

    cut.happen(count)

    with quick(kafka3, topic, group_id=group) as consumer:
        assert offsets(read(consumer, count)) == list(range(10, 10 + count))
        consumer.commit()
        assert consumer.committed(cut.partition) == 10 + count
