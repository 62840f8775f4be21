"""The new leader, as the old one names it (KIP-951), and topics that are named by ids (KIP-516)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import pytest

from aktor import TopicPartition
from aktor.broker.wire import APIS
from aktor.protocol.fetch import MAX_BY_NAME, MAX_VERSION, MIN_VERSION
from tests.gate import all_but_the_first
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import Event, named, numbered, offsets, quick, read, traced

#: Of each API the last version that knows no topic ids.
BY_NAME: dict[str, int] = {"Fetch": MAX_BY_NAME, "Metadata": 9, "OffsetCommit": 9, "OffsetFetch": 9}


def spoken(events: Iterable[Event], api: str) -> set[int]:
    """In which versions this API was answered."""
    return {
        event["api_version"] for event in named(events, "request.answered") if event["api"] == api
    }


def test_the_leader_that_an_answer_names_is_asked_without_new_metadata(
    kafka3: Cluster, topic: str
) -> None:
    servers, partition = kafka3.bootstrap_servers, TopicPartition(topic, 0)
    topics.create_topic(servers, topic, replication=3)
    with traced() as events, quick(kafka3, metadata_max_age_ms=300_000) as consumer:
        consumer.assign({partition: 0})
        topics.produce(servers, topic, numbered(1))
        read(consumer, 1)
        first = topics.leader_of(servers, topic, 0)
        others = [node for node in (1, 2, 3) if node != first]
        begun = len(events)

        for node in (*others, first):
            kafka3.move_leader(topic, 0, node)
            topics.produce(servers, topic, numbered(1))
            assert len(read(consumer, 1)) == 1

    asked = named(events[begun:], "metadata.requested")
    assert spoken(events, "Fetch") == {MAX_VERSION}
    assert [each["leader"] for each in named(events, "leader.learned")] == [*others, first], asked
    assert asked == []


OLDER: list[Mapping[str, int]] = [
    {"Metadata": BY_NAME["Metadata"]},
    {"Fetch": MAX_BY_NAME},
    {"Fetch": MAX_BY_NAME + 1},
    BY_NAME,
    *({"Fetch": version} for version in range(MIN_VERSION, MAX_VERSION)),
    *({"Fetch": version, "Metadata": 9} for version in (4, 12, 13, 16)),
    *({"OffsetCommit": version} for version in (2, 7, 8, 9)),
    *({"OffsetFetch": version} for version in (1, 7, 8, 9)),
    *({"Metadata": version} for version in range(1, 13)),
]


@pytest.mark.parametrize("newest", all_but_the_first(4, OLDER), ids=str)
def test_brokers_that_know_older_versions_are_read_and_committed_to(
    monkeypatch: pytest.MonkeyPatch, newest: Mapping[str, int]
) -> None:
    for key, api in list(APIS.items()):
        if api.name in newest:
            older = dataclasses.replace(api, max_version=newest[api.name])
            monkeypatch.setitem(APIS, key, older)
    has_ids = newest.get("Metadata", 13) > BY_NAME["Metadata"]

    with EmbeddedCluster(nodes=3) as kafka, traced() as events:
        servers = kafka.bootstrap_servers
        topics.create_topic(servers, "orders", partitions=2, replication=3)
        topics.produce(servers, "orders", numbered(3), partition=0)
        with quick(kafka, "orders", group_id="g") as consumer:
            read(consumer, 3)
            consumer.commit()
        topics.produce(servers, "orders", numbered(3, start=3), partition=0)
        with quick(kafka, "orders", group_id="g") as consumer:
            later = read(consumer, 3)
            to = topics.leader_of(servers, "orders", 0) % 3 + 1
            kafka.move_leader("orders", 0, to)
            topics.produce(servers, "orders", numbered(2, start=6), partition=0)
            later += read(consumer, 2)

    assert offsets(later) == [3, 4, 5, 6, 7]
    for api, by_name in BY_NAME.items():
        if api == "Metadata":
            continue
        best = newest.get(api, next(one.max_version for one in APIS.values() if one.name == api))
        expected = best if has_ids else min(best, by_name)
        # A first commit or look-up may come before the metadata tells the ids.
        assert spoken(events, api) <= {expected, min(best, by_name)}, api
        assert expected in spoken(events, api), api


def test_no_offset_of_a_deleted_topic_is_used_in_the_one_that_has_its_name(
    kafka: Cluster, topic: str, group: str
) -> None:
    """The metadata is old all the while: the leader and the coordinator refuse the old id."""
    servers, partition = kafka.bootstrap_servers, TopicPartition(topic, 0)
    topics.create_topic(servers, topic)
    topics.produce(servers, topic, numbered(5))
    settings = {"group_id": group, "metadata_max_age_ms": 300_000}
    with traced() as events, quick(kafka, **settings) as consumer:
        consumer.assign([partition])
        read(consumer, 5)
        topics.delete_topic(servers, topic)
        topics.create_topic(servers, topic)
        topics.produce(servers, topic, numbered(20))

        found = read(consumer, 20)

    assert offsets(found) == list(range(20))
    # It may have been looked up between its end and its new beginning.
    assert named(events, "topic.recreated") or named(events, "topic.deleted")
