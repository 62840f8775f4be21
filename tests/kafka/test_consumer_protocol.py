"""Groups of the consumer protocol (KIP-848): the brokers say who owns what, and each owner goes on.

What members do when brokers and members die is in `test_faults` and `test_faults_members`, which
run with this protocol, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka.errors import (
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)

from aktor import KafkaConsumer, SubscriptionPattern, TopicPartition
from aktor.broker.codes import Code
from aktor.broker.faults import FailWith, Fault
from aktor.errors import InvalidRegularExpressionError
from tests.clients.java import JavaTools
from tests.clients.members import aktor_member, confluent_member, together_then_alone
from tests.clients.support import PARTITIONS, At
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import KafkaCluster, topics
from tests.kafka.support import (
    SOON_S,
    Group,
    Notes,
    named,
    numbered,
    poll,
    poll_until,
    produced_everywhere,
    quick,
    raised_within,
    read,
    read_for,
    ready,
    traced,
    values,
    wait_until,
)

NEW: Mapping[str, Any] = {"group_protocol": "consumer"}
ASSIGNORS = pytest.mark.parametrize("assignor", ["uniform", "range"])

#: The broker notices a member that is gone after 15 s without a heartbeat, of which there are two a
#: second. To hand over takes up to a second until there is a new target, and two heartbeats.
BEFORE_A_SESSION_S = 12.0

#: Kafka looks every 10 s for new topics that match a pattern.
REGEX_REFRESH_S = 10.0


@pytest.fixture
def six(kafka: Cluster, topic: str) -> str:
    """A topic of six partitions."""
    return topics.create_topic(kafka.bootstrap_servers, topic, partitions=6)


@pytest.fixture(scope="module")
def without_it() -> Iterator[KafkaCluster]:
    """A real Kafka whose brokers offer the classic protocol only."""
    settings = {"group.coordinator.rebalance.protocols": "classic"}
    with KafkaCluster(settings=settings) as cluster:
        yield cluster


def described(kafka: Cluster, group: str) -> Any:
    """What the coordinator tells an administrator of a group."""
    servers = ",".join(kafka.bootstrap_servers)
    client: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return client.describe_consumer_groups([group])[group].result(SOON_S)


def numbers(consumer: KafkaConsumer) -> set[int]:
    """The ids of the partitions that it owns."""
    return {one.partition for one in consumer.assignment()}


def shared_evenly(members: Group, count: int) -> dict[str, set[int]]:
    """Wait until so many members have even shares of the six partitions; who owns which."""
    shares: dict[str, set[int]] = {}

    def even() -> bool:
        shares.clear()
        for partition, member in members.owners.items():
            shares.setdefault(member, set()).add(partition)
        return [len(share) for share in shares.values()] == [6 // count] * count

    wait_until(even, f"{count} members share 6 partitions evenly")
    return shares


# -- joining and leaving


@ASSIGNORS
def test_a_group_grows_member_by_member_while_records_flow_and_each_record_comes_once(
    kafka: Cluster, six: str, group: str, assignor: str
) -> None:
    settings = {**NEW, "group_remote_assignor": assignor, "enable_auto_commit": True}
    with Group(kafka, six, group, **settings) as members:
        wanted = produced_everywhere(kafka, six, 60)
        for count, name in enumerate(("a", "b", "c"), start=1):
            members.join(name)
            wanted += produced_everywhere(kafka, six, 60, start=60 * count)
            shared_evenly(members, count)
        members.wait_for(wanted)

        assert set(members.times_delivered().values()) == {1}
        told = described(kafka, group)
        assert (told.type.name, told.partition_assignor) == ("CONSUMER", assignor)


def test_only_what_moves_is_revoked_and_the_rest_is_never_interrupted(
    kafka: Cluster, six: str, group: str
) -> None:
    with Group(kafka, six, group, **NEW) as members:
        first = members.join("first")
        members.settled(partitions=6, members=1)
        second = members.join("second")
        wait_until(lambda: len(second.owned) == 3, "the second member has its share")

        told = [(what, share) for what, share in first.notes.told if share]
        assert told == [("assigned", frozenset(range(6))), ("revoked", second.owned)]


def test_the_partitions_of_a_member_that_closes_go_to_the_others_soon(
    kafka: Cluster, six: str, group: str
) -> None:
    with Group(kafka, six, group, enable_auto_commit=True, **NEW) as members:
        for name in ("a", "b", "c"):
            members.join(name)
        shared_evenly(members, 3)
        wanted = produced_everywhere(kafka, six, 60)
        members.wait_for(wanted)

        left_at = time.monotonic()
        members.members["b"].leave()
        members.settled(partitions=6, members=2)
        # The others hear of it with their next heartbeats.
        assert time.monotonic() - left_at < BEFORE_A_SESSION_S
        wanted += produced_everywhere(kafka, six, 60, start=60)
        members.wait_for(wanted)

        assert set(members.times_delivered().values()) == {1}


def test_a_commit_during_the_rebalances_of_others_succeeds_whatever_its_epoch(
    kafka: Cluster, six: str, group: str
) -> None:
    produced_everywhere(kafka, six, 600)
    settings = {**NEW, "group_id": group, "max_poll_records": 1}

    with Group(kafka, six, group, **NEW) as others, quick(kafka, six, **settings) as consumer:

        def committing_until(happened: Callable[[], bool]) -> None:
            deadline = time.monotonic() + SOON_S
            while not happened():
                assert time.monotonic() < deadline, f"{numbers(consumer)} after {SOON_S} s"
                poll(consumer, 20)
                consumer.commit()

        committing_until(lambda: len(numbers(consumer)) == 6)
        epoch = consumer.group_metadata().generation_id
        for name in ("b", "c"):
            other = others.join(name)
            committing_until(lambda other=other: len(other.owned) == 3)
            other.ask_to_leave()
            committing_until(lambda: len(numbers(consumer)) == 6)

        assert consumer.group_metadata().generation_id >= epoch + 4
        for one in consumer.assignment():
            assert consumer.committed(one) == consumer.position(one)


@pytest.mark.embedded("Kafka 4.3 calls few commits stale, and a real one can't be told to")
def test_a_commit_or_look_up_of_a_stale_epoch_is_tried_again_and_the_application_sees_nothing(
    kafka: EmbeddedCluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(5))
    stale = FailWith(Code.STALE_MEMBER_EPOCH)
    outcomes: list[Exception | None] = []

    with quick(kafka, topic, group_id=group, **NEW) as consumer:
        read(consumer, 5)
        for api in ("OffsetCommit", "OffsetFetch"):
            kafka.kafka.inject(Fault(action=stale, api=api, group=group, times=2))
        consumer.commit_async(callback=lambda _, error: outcomes.append(error))
        consumer.commit()

        assert consumer.committed(TopicPartition(topic, 0)) == 5
        assert outcomes == [None]
        assert kafka.kafka.faults() == {}


# -- static members


def test_a_static_member_that_restarts_gets_its_own_partitions_and_nobody_else_notices(
    kafka: Cluster, six: str, group: str
) -> None:
    with Group(kafka, six, group, enable_auto_commit=True, **NEW) as members:
        for name in ("a", "b", "c"):
            members.join(name, group_instance_id=name)
        shares = shared_evenly(members, 3)
        wanted = produced_everywhere(kafka, six, 60)
        members.wait_for(wanted)
        told = {name: list(members.members[name].notes.told) for name in ("a", "c")}

        members.members["b"].leave()
        members.join("b", group_instance_id="b")
        assert shared_evenly(members, 3) == shares
        wanted += produced_everywhere(kafka, six, 60, start=60)
        members.wait_for(wanted)

        assert {name: members.members[name].notes.told for name in told} == told
        assert set(members.times_delivered().values()) == {1}


def test_a_second_member_with_the_same_instance_id_is_refused_and_the_first_goes_on(
    kafka: Cluster, six: str, group: str
) -> None:
    settings = {**NEW, "group_id": group, "group_instance_id": "till-7"}

    with quick(kafka, six, **settings) as first, quick(kafka, six, **settings) as second:
        poll_until(first, lambda: len(numbers(first)) == 6, "the first one owns everything")
        error = raised_within(SOON_S, lambda: second.poll(100))
        wanted = produced_everywhere(kafka, six, 12)
        records = read(first, 12)

        assert isinstance(error, UnreleasedInstanceIdError)
        assert "till-7" in str(error)
        assert sorted(values(records)) == sorted(wanted)
        assert second.assignment() == set()


def test_a_static_member_that_leaves_for_good_makes_room_at_once(
    kafka: Cluster, six: str, group: str
) -> None:
    with quick(kafka, six, group_id=group, **NEW) as stays:
        goes = quick(kafka, six, group_id=group, group_instance_id="till-7", **NEW)
        both_poll_until(stays, goes, lambda: len(numbers(stays)) == len(numbers(goes)) == 3)

        goes.close(group_membership_operation="leave_group")

        poll_until(stays, lambda: len(numbers(stays)) == 6, "its share is free", BEFORE_A_SESSION_S)


def test_a_member_that_is_to_remain_keeps_its_place_when_it_closes(
    kafka: Cluster, six: str, group: str
) -> None:
    with quick(kafka, six, group_id=group, **NEW) as stays:
        goes = quick(kafka, six, group_id=group, **NEW)
        both_poll_until(stays, goes, lambda: len(numbers(stays)) == len(numbers(goes)) == 3)
        member_id = goes.group_metadata().member_id

        goes.close(group_membership_operation="remain_in_group")
        read_for(stays, 1.5)

        assert len(numbers(stays)) == 3
        assert member_id in {one.member_id for one in described(kafka, group).members}


def both_poll_until(one: Any, other: Any, happened: Callable[[], Any]) -> None:
    """Let two members of this thread take turns."""
    deadline = time.monotonic() + SOON_S
    while not happened():
        assert time.monotonic() < deadline, "the group does not get there"
        one.poll(20)
        other.poll(20)


# -- what it subscribes to


def test_an_assignor_that_the_brokers_do_not_have_is_refused_by_name(
    kafka: Cluster, six: str, group: str
) -> None:
    with quick(kafka, six, group_id=group, group_remote_assignor="lottery", **NEW) as consumer:
        error = raised_within(SOON_S, lambda: consumer.poll(100))

        assert isinstance(error, UnsupportedAssignorError)
        assert "group_remote_assignor" in str(error)


def test_a_pattern_that_the_brokers_evaluate_takes_on_topics_that_match_later(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    family = unique("family")
    for name in ("one", "two"):
        topics.create_topic(kafka.bootstrap_servers, f"{family}-{name}")
        topics.produce(kafka.bootstrap_servers, f"{family}-{name}", [name])

    with quick(kafka, group_id=group, **NEW) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(f"{family}-(one|three)"))
        assert values(read(consumer, 1)) == [b"one"]
        topics.create_topic(kafka.bootstrap_servers, f"{family}-three")
        topics.produce(kafka.bootstrap_servers, f"{family}-three", ["three"])

        assert values(read(consumer, 1, within=REGEX_REFRESH_S + SOON_S)) == [b"three"]
        assert consumer.subscription() == {f"{family}-one", f"{family}-three"}


def test_a_subscription_goes_from_each_kind_of_pattern_and_of_topics_to_each_other(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    family = unique("family")
    kinds: dict[str, Callable[[str], dict[str, Any]]] = {
        "topics": lambda name: {"topics": [name]},
        "ours": lambda name: {"pattern": f"{name}$"},
        "theirs": lambda name: {"pattern": SubscriptionPattern(name)},
    }
    way = ["topics", "ours", "theirs", "ours", "topics", "theirs", "topics"]
    names = [f"{family}-{number}-{kind}" for number, kind in enumerate(way)]
    for name in names:
        topics.create_topic(kafka.bootstrap_servers, name)
        topics.produce(kafka.bootstrap_servers, name, [name])

    with quick(kafka, group_id=group, **NEW) as consumer:
        for kind, name in zip(way, names, strict=True):
            consumer.subscribe(**kinds[kind](name))
            # Brokers do not look at patterns more often than that.
            assert values(read(consumer, 1, within=REGEX_REFRESH_S + SOON_S)) == [name.encode()]
            assert consumer.subscription() == {name}


def test_the_pattern_of_a_static_members_earlier_process_is_not_that_of_the_next(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    """The group keeps what is not taken back: the next one would be given topics of the pattern."""
    old, new = (topics.create_topic(kafka.bootstrap_servers, unique(one)) for one in ("old", "new"))
    for name in (old, new):
        topics.produce(kafka.bootstrap_servers, name, [name])
    settings = {**NEW, "group_id": group, "group_instance_id": "till-7"}
    with quick(kafka, **settings) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(old))
        assert values(read(consumer, 1)) == [old.encode()]

    with traced() as events, quick(kafka, new, **settings) as consumer:
        assert values(read(consumer, 1)) == [new.encode()]
        wait_until(lambda: consumer.status().member_state == "stable", "the member is stable")

        assert {one.topic for one in consumer.assignment()} == {new}
        assert max(event["topic_count"] for event in named(events, "rebalance.target")) == 1


def test_a_pattern_that_the_brokers_cannot_read_is_an_error_of_its_own(
    kafka: Cluster, group: str
) -> None:
    with quick(kafka, group_id=group, **NEW) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern("orders-("))
        error = raised_within(SOON_S, lambda: consumer.poll(100))

        assert isinstance(error, InvalidRegularExpressionError)
        assert "RE2" in str(error)


def test_a_pattern_of_python_takes_on_topics_that_match_later(
    kafka: Cluster, unique: Callable[[str], str], group: str
) -> None:
    family = unique("family")
    topics.create_topic(kafka.bootstrap_servers, f"{family}-one")
    topics.produce(kafka.bootstrap_servers, f"{family}-one", ["one"])

    with quick(kafka, group_id=group, **NEW) as consumer:
        consumer.subscribe(pattern=f"{family}-(?!two)")  # what RE2 has not
        assert values(read(consumer, 1)) == [b"one"]
        for name in ("two", "three"):
            topics.create_topic(kafka.bootstrap_servers, f"{family}-{name}")
            topics.produce(kafka.bootstrap_servers, f"{family}-{name}", [name])

        assert values(read(consumer, 1)) == [b"three"]


def test_a_topic_that_is_deleted_and_made_again_is_another_one_and_read_from_its_beginning(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(5))
    notes = Notes()

    with quick(kafka, group_id=group, **NEW) as consumer:
        consumer.subscribe([topic], listener=notes)
        read(consumer, 5)
        consumer.commit()
        topics.delete_topic(kafka.bootstrap_servers, topic)
        poll_until(consumer, lambda: not consumer.assignment(), "the old topic is revoked")
        topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
        topics.produce(kafka.bootstrap_servers, topic, numbered(3, start=5))

        assert sorted(values(read(consumer, 3))) == numbered(3, start=5)
        told = [(what, share) for what, share in notes.told if share]
        assert told[-2:] == [("revoked", frozenset({0})), ("assigned", frozenset({0, 1}))]


# -- other clients


@pytest.mark.real("on the embedded one it is in tests/clients/test_mixed_groups.py")
def test_members_of_java_and_c_and_ours_share_a_group_and_read_each_record_once(
    kafka: Cluster, topic: str, group: str
) -> None:
    where = At(bootstrap_servers=",".join(kafka.bootstrap_servers))
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=len(PARTITIONS))
    ready(kafka, topic, group)

    together_then_alone(
        where,
        topic,
        group,
        aktor_member(where, topic, group, **NEW),
        confluent_member(where, [topic], group, **NEW),
        JavaTools(where.bootstrap_servers).consume(topic, group, **NEW),
        busy=True,
    )


# -- thrown out


@pytest.mark.embedded("a real one can't be told whom to fence; see the frozen member")
def test_a_fenced_member_loses_everything_and_goes_on_from_what_was_committed(
    kafka: EmbeddedCluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(6))
    notes = Notes()

    with traced() as events, quick(kafka, group_id=group, max_poll_records=2, **NEW) as consumer:
        consumer.subscribe([topic], listener=notes)
        read(consumer, 2)
        consumer.commit()
        read(consumer, 2)
        kafka.kafka.fence_member(group, consumer.group_metadata().member_id)
        wait_until(lambda: named(events, "member.lost"), "it hears of it in the background")
        consumer.metrics()  # its answer comes behind what the background tells the application
        # In this poll it loses everything, and may be back already if the thread was quick.
        records = poll(consumer, 0)
        records += read(consumer, 4 - len(records))

        assert values(records) == numbered(4, start=2), "not what was buffered before"
        assert [what for what, _ in notes.told] == ["assigned", "lost", "assigned"]


# -- which protocol


def test_auto_speaks_the_consumer_protocol_where_it_is_spoken(
    kafka: Cluster, six: str, group: str
) -> None:
    wanted = produced_everywhere(kafka, six, 12)

    with quick(kafka, six, group_id=group, group_protocol="auto") as consumer:
        before = consumer.status().group_protocol
        records = read(consumer, 12)

        assert (before, consumer.status().group_protocol) == ("auto", "consumer")
        assert sorted(values(records)) == sorted(wanted)
        assert described(kafka, group).type.name == "CONSUMER"


@pytest.mark.real("an embedded one always offers it; see tests/scenarios/test_protocols.py")
def test_where_it_is_not_offered_the_error_says_what_to_set_and_auto_has_set_it(
    without_it: KafkaCluster, which_kafka: str, topic: str, group: str
) -> None:
    topics.create_topic(without_it.bootstrap_servers, topic)
    topics.produce(without_it.bootstrap_servers, topic, numbered(2))

    with quick(without_it, topic, group_id=group, **NEW) as consumer:
        error = raised_within(SOON_S, lambda: consumer.poll(100))
    with quick(without_it, topic, group_id=group, group_protocol="auto") as consumer:
        records = read(consumer, 2)
        chosen = consumer.status().group_protocol

    assert isinstance(error, UnsupportedVersionError)
    assert "set group_protocol to 'classic' or 'auto'" in str(error)
    assert (values(records), chosen) == (numbered(2), "classic")
