"""Groups: who owns what when members join, leave and die; every record is delivered once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import kafka as kafka_python
import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from aktor import TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import (
    PROMPT_S,
    SOON_S,
    Child,
    Group,
    Notes,
    numbered,
    poll_until,
    produced_everywhere,
    quick,
    read,
    wait_until,
)

EAGER = [RangePartitionAssignor, RoundRobinPartitionAssignor]
COOPERATIVE = [CooperativeStickyAssignor]
ASSIGNORS = pytest.mark.parametrize(
    "assignors",
    [EAGER, [RoundRobinPartitionAssignor], [StickyPartitionAssignor], COOPERATIVE],
    ids=["range", "roundrobin", "sticky", "cooperative"],
)
BOTH_MANNERS = pytest.mark.parametrize(
    "assignors", [EAGER, COOPERATIVE], ids=["eager", "cooperative"]
)


#: Of a member that is killed: longer than the machine may stand still.
SESSION_S = 4.0


class Theirs(kafka_python.KafkaConsumer):
    """kafka-python's consumer. 3.0.12 never takes up an assignment that comes between two polls, if
    it had asked for it on account of new metadata: so no poll is short, least of all the first."""

    def poll(self, timeout_ms: float = 0, **settings: Any) -> Any:
        return super().poll(max(timeout_ms, 1000 if self.assignment() else 10_000), **settings)


@pytest.fixture
def six(kafka: Cluster, topic: str) -> str:
    """A topic of six partitions."""
    return topics.create_topic(kafka.bootstrap_servers, topic, partitions=6)


def test_a_group_of_one_is_given_every_record_once_and_each_partition_in_order(
    kafka: Cluster, six: str, group: str
) -> None:
    wanted = produced_everywhere(kafka, six, 3000)

    with quick(kafka, six, group_id=group) as consumer:
        records = read(consumer, 3000)

        assert sorted(record.value for record in records) == sorted(wanted)
        for partition in range(6):
            offsets = [r.offset for r in records if r.partition == partition]
            assert offsets == list(range(500))
        assert consumer.assignment() == {TopicPartition(six, number) for number in range(6)}
        assert consumer.status().lag == 0


@ASSIGNORS
def test_a_group_of_three_shares_all_partitions_and_each_record_comes_once(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    with Group(kafka, six, group, partition_assignment_strategy=assignors) as members:
        for name in ("a", "b", "c"):
            members.join(name)
        shares = members.settled(partitions=6, members=3)
        wanted = produced_everywhere(kafka, six, 600)
        members.wait_for(wanted)

        assert {len(share) for share in shares.values()} == {2}
        assert set(members.times_delivered().values()) == {1}


@BOTH_MANNERS
def test_a_member_that_joins_takes_its_share_and_nothing_is_lost_or_repeated(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    with Group(
        kafka, six, group, partition_assignment_strategy=assignors, enable_auto_commit=True
    ) as members:
        members.join("a")
        members.settled(partitions=6, members=1)
        wanted = produced_everywhere(kafka, six, 300)
        members.wait_for(wanted[:1])

        members.join("b")
        wanted += produced_everywhere(kafka, six, 300, start=300)
        shares = members.settled(partitions=6, members=2)
        members.wait_for(wanted)

        assert sorted(map(len, shares.values())) == [3, 3]
        assert set(members.times_delivered().values()) == {1}


@BOTH_MANNERS
def test_the_partitions_of_a_member_that_closes_are_taken_over_at_once(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    with Group(
        kafka, six, group, partition_assignment_strategy=assignors, enable_auto_commit=True
    ) as members:
        for name in ("a", "b", "c"):
            members.join(name)
        members.settled(partitions=6, members=3)
        wanted = produced_everywhere(kafka, six, 300)
        members.wait_for(wanted)

        left_at = time.monotonic()
        members.members["b"].leave()
        members.settled(partitions=6, members=2)
        # A heartbeat tells the others, long before the session of the one that left would end.
        assert time.monotonic() - left_at < PROMPT_S
        wanted += produced_everywhere(kafka, six, 300, start=300)
        members.wait_for(wanted)

        assert set(members.times_delivered().values()) == {1}


@BOTH_MANNERS
def test_the_partitions_of_a_killed_member_are_taken_over_when_its_session_ends(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    name = assignors[0].__name__
    program = (
        f"from tests.kafka.test_group import {name}\n"
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group,\n"
        "    partition_assignment_strategy=[" + name + "],\n"
        f"    **{{**QUICK, 'session_timeout_ms': {SESSION_S * 1000:.0f}}})\n"
        "owned = None\n"
        "while True:\n"
        "    poll(consumer, 50)\n"
        "    now = sorted(one.partition for one in consumer.assignment())\n"
        "    if now != owned:\n"
        "        owned = now\n"
        "        say(owned)\n"
    )
    with (
        Group(
            kafka,
            six,
            group,
            partition_assignment_strategy=[assignors[0]],
            enable_auto_commit=True,
        ) as members,
        Child(kafka, six, group, program) as child,
    ):
        survivor = members.join("survivor")
        while len(child.hear()) != 3:
            pass
        wait_until(lambda: len(survivor.owned) == 3, "the survivor owns its half")

        child.process.kill()
        killed_at = time.monotonic()
        wanted = produced_everywhere(kafka, six, 60)
        members.settled(partitions=6, members=1)
        taken_over = time.monotonic() - killed_at
        members.wait_for(wanted)

        # The last heartbeat was up to an interval before, or somewhat more.
        assert SESSION_S - 2 < taken_over < SESSION_S + PROMPT_S
        assert set(members.times_delivered().values()) == {1}


def test_cooperative_members_are_given_what_stays_theirs_throughout_a_rebalance(
    kafka: Cluster, six: str, group: str
) -> None:
    with Group(kafka, six, group, partition_assignment_strategy=COOPERATIVE) as members:
        first = members.join("first")
        members.settled(partitions=6, members=1)
        members.join("second")
        shares = members.settled(partitions=6, members=2)

        told = [note for note in first.notes.told if note[0] == "revoked"]
        assert [len(partitions) for _, partitions in told] == [3]
        assert told[0][1].isdisjoint(shares["first"])
        assert not [note for note in first.notes.told if note[0] == "lost"]


def test_partitions_that_stay_are_delivered_while_others_wait_for_a_slow_member(
    kafka: Cluster, six: str, group: str
) -> None:
    with Group(kafka, six, group, partition_assignment_strategy=COOPERATIVE) as members:
        fast = members.join("fast")
        members.settled(partitions=6, members=1)
        members.join("second")
        members.settled(partitions=6, members=2)
        kept = set(fast.owned)

        # Another one, which has to give something to the third, does not come to an end with it.
        revoking, go_on = threading.Event(), threading.Event()
        slow = members.members["second"].notes
        slow.when_revoked = _held(slow.when_revoked, revoking, go_on)
        members.join("third")
        try:
            assert revoking.wait(SOON_S), "the second member had nothing to give up"
            wait_until(lambda: len(fast.owned) == 2, "the fast one has given up its part")
            kept &= fast.owned
            for tick in ("tick", "tock"):
                written = [f"{tick}-{number}".encode() for number in kept]
                with topics.producer(kafka.bootstrap_servers) as producer:
                    for value, number in zip(written, kept, strict=True):
                        producer.send(six, value=value, partition=number)
                members.wait_for(written)
        finally:
            go_on.set()
        members.settled(partitions=6, members=3)

        assert kept, "the test needs a partition that stayed"
        offsets: dict[int, list[int]] = {}
        for one in members.seen:
            if one.member == "fast" and one.partition in kept:
                offsets.setdefault(one.partition, []).append(one.offset)
        for found in offsets.values():
            assert found == list(range(len(found)))


def _held(
    callback: Callable[[Any], Any] | None, begun: threading.Event, go_on: threading.Event
) -> Callable[[Any], Any]:
    """The callback, which says that it has begun, and waits until it may go on."""

    def held(partitions: Any) -> None:
        if partitions:
            begun.set()
            assert go_on.wait(2 * SOON_S)
        if callback is not None:
            callback(partitions)

    return held


@BOTH_MANNERS
def test_members_of_both_libraries_share_one_group(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    with Group(
        kafka, six, group, partition_assignment_strategy=assignors, enable_auto_commit=True
    ) as members:
        members.join("ours")
        members.settled(partitions=6, members=1)
        members.join("theirs", Theirs)
        shares = members.settled(partitions=6, members=2)
        wanted = produced_everywhere(kafka, six, 300)
        members.wait_for(wanted)
        assert sorted(map(len, shares.values())) == [3, 3]
        assert set(members.times_delivered().values()) == {1}

        members.members["theirs"].leave()
        members.settled(partitions=6, members=1)
        more = produced_everywhere(kafka, six, 60, start=300)
        members.wait_for(more)
        assert set(members.times_delivered().values()) == {1}


@BOTH_MANNERS
def test_we_join_a_group_that_the_other_library_leads(
    kafka: Cluster, six: str, group: str, assignors: list[Any]
) -> None:
    with Group(
        kafka, six, group, partition_assignment_strategy=assignors, enable_auto_commit=True
    ) as members:
        members.join("theirs", Theirs)
        members.settled(partitions=6, members=1)
        wanted = produced_everywhere(kafka, six, 120)
        members.wait_for(wanted)

        members.join("ours")
        members.settled(partitions=6, members=2)
        wanted += produced_everywhere(kafka, six, 120, start=120)
        members.wait_for(wanted)
        members.members["theirs"].leave()
        members.settled(partitions=6, members=1)

        assert set(members.times_delivered().values()) == {1}


def test_a_member_without_a_share_is_told_so_and_steps_in_when_one_is_free(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    waiting = Notes()

    with quick(kafka, topic, group_id=group) as owner, quick(kafka, group_id=group) as spare:
        poll_until(owner, owner.assignment, "the first member owns the partition")
        spare.subscribe([topic], listener=waiting)
        deadline = time.monotonic() + SOON_S
        while ("assigned", frozenset()) not in waiting.told and not spare.assignment():
            assert time.monotonic() < deadline, waiting.told
            owner.poll(20)
            spare.poll(20)
        idle, busy = (owner, spare) if spare.assignment() else (spare, owner)
        busy.close()

        poll_until(idle, idle.assignment, "the spare one steps in")


def test_members_of_one_group_may_subscribe_to_different_topics(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    left, right = unique("left"), unique("right")
    for name in (left, right):
        topics.create_topic(kafka.bootstrap_servers, name, partitions=2)

    with quick(kafka, left, group_id=group) as one, quick(kafka, right, group_id=group) as other:
        deadline = time.monotonic() + SOON_S
        while len(one.assignment()) < 2 or len(other.assignment()) < 2:
            assert time.monotonic() < deadline
            one.poll(20)
            other.poll(20)

        assert {partition.topic for partition in one.assignment()} == {left}
        assert {partition.topic for partition in other.assignment()} == {right}


def test_a_new_subscription_gives_up_the_old_topics_and_takes_on_the_new_ones(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    old, new = unique("old"), unique("new")
    for name in (old, new):
        topics.create_topic(kafka.bootstrap_servers, name)
        topics.produce(kafka.bootstrap_servers, name, [name])
    notes = Notes()

    with quick(kafka, group_id=group) as consumer:
        consumer.subscribe([old], listener=notes)
        read(consumer, 1)
        consumer.subscribe([new], listener=notes)
        records = read(consumer, 1)

        assert [record.topic for record in records] == [new]
        assert consumer.assignment() == {TopicPartition(new, 0)}
        assert [what for what, _ in notes.told] == ["assigned", "revoked", "assigned"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_after_another_subscribe_nothing_of_the_old_topic_is_given_out(
    kafka: Cluster, unique: Callable[[str], str], group: str, protocol: str
) -> None:
    """Java clears its buffer, too; KIP-848 members would give it out until the next heartbeat."""
    old, new = unique("old"), unique("new")
    for name in (old, new):
        topics.create_topic(kafka.bootstrap_servers, name)
        topics.produce(kafka.bootstrap_servers, name, numbered(2000))

    settings = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": True}
    with quick(kafka, max_poll_records=10, **settings) as consumer:
        consumer.subscribe([old])
        read(consumer, 10)
        read(consumer, 10)
        consumer.subscribe([new])
        records = read(consumer, 2000)

        assert {record.topic for record in records} == {new}
        assert consumer.committed(TopicPartition(old, 0)) == 20


def test_unsubscribing_leaves_the_group_and_subscribing_again_goes_on(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(2))
    notes = Notes()

    with quick(kafka, group_id=group) as consumer:
        consumer.subscribe([topic], listener=notes)
        read(consumer, 2)
        consumer.commit()
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert consumer.subscription() is None
        assert consumer.poll(50) == {}
        consumer.subscribe([topic], listener=notes)
        topics.produce(kafka.bootstrap_servers, topic, ["third"])

        assert [record.value for record in read(consumer, 1)] == [b"third"]
        assert [what for what, _ in notes.told] == ["assigned", "revoked", "assigned"]


def test_two_hundred_partitions_are_consumed_by_one_member(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=200)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for partition in range(200):
            producer.send(topic, value=str(partition).encode(), partition=partition)

    with quick(kafka, topic, group_id=group) as consumer:
        records = read(consumer, 200)
        consumer.commit()

        assert {record.partition for record in records} == set(range(200))
        assert len(consumer.assignment()) == 200
        assert consumer.committed(TopicPartition(topic, 199)) == 1
        assert consumer.status().lag == 0

    # An embedded cluster, which all tests of a process share, has a file open for each partition.
    topics.delete_topic(kafka.bootstrap_servers, topic)
