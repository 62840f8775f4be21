"""Replicas measured, moved and elected: codes and texts are those that a real Kafka gave."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.topics import GROUP_OFFSETS
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    ask,
    fetch,
    fetched,
    partition_of,
    produce,
    produced,
    write,
)
from tests.unit.broker.harness import NOW, Journal

PREFERRED, UNCLEAN = 0, 1


def elect(cluster: Cluster, kind: int, places: dict[str, list[int]] | None) -> Any:
    asked = None
    if places is not None:
        asked = [{"topic": topic, "partitions": indexes} for topic, indexes in places.items()]
    message = request("ElectLeaders", election_type=kind, topic_partitions=asked, timeout_ms=1000)
    answer = ask(cluster, message, 2)
    found = {
        (topic.topic, one.partition_id): Code(one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    return Code(answer.error_code), found


def reassign(
    cluster: Cluster, replicas: list[int] | None, topic: str = ORDERS, index: int = 0, **fields: Any
) -> tuple[Code, str | None]:
    partitions = [{"partition_index": index, "replicas": replicas}]
    message = request(
        "AlterPartitionReassignments",
        timeout_ms=1000,
        topics=[{"name": topic, "partitions": partitions}],
        **fields,
    )
    answer = ask(cluster, message, 1)
    ((one,),) = [it.partitions for it in answer.responses]
    return Code(one.error_code), one.error_message


# Sizes.


def test_each_broker_tells_the_sizes_of_its_own_replicas() -> None:
    cluster = a_cluster(topics={})
    cluster.make_topic(ORDERS, [(1, 2), (3,)], {})
    write(cluster, b"value")
    size = partition_of(cluster).log.size_bytes

    def sizes(node: int, topics: Any = None) -> dict[tuple[str, int], int]:
        answer = ask(cluster, request("DescribeLogDirs", topics=topics), 4, node)
        (folder,) = answer.results
        return {
            (topic.name, one.partition_index): one.partition_size
            for topic in folder.topics
            for one in topic.partitions
        }

    assert size > 0
    assert [sizes(node) for node in (1, 2, 3)] == [
        {(ORDERS, 0): size},
        {(ORDERS, 0): size},
        {(ORDERS, 1): 0},
    ]
    asked = [{"topic": ORDERS, "partitions": [0, 7]}, {"topic": "nope", "partitions": [0]}]
    assert sizes(1, asked) == {(ORDERS, 0): size}
    assert sizes(1, []) == {}


# Elections.


def test_the_preferred_replica_is_elected_where_another_one_leads() -> None:
    cluster = a_cluster(topics={ORDERS: 2})
    cluster.move_leader(ORDERS, 0, 3, NOW)
    epoch = partition_of(cluster).leader_epoch

    code, found = elect(cluster, PREFERRED, {ORDERS: [0, 1, 9], "nope": [0]})

    assert code is Code.NONE
    assert found == {
        (ORDERS, 0): Code.NONE,
        (ORDERS, 1): Code.ELECTION_NOT_NEEDED,
        (ORDERS, 9): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert partition_of(cluster).leader == 1
    assert partition_of(cluster).leader_epoch == epoch + 1


def test_an_election_everywhere_tells_of_those_that_were_needed() -> None:
    cluster = a_cluster(topics={ORDERS: 3})
    cluster.move_leader(ORDERS, 1, 1, NOW)

    assert elect(cluster, PREFERRED, None) == (Code.NONE, {(ORDERS, 1): Code.NONE})
    assert elect(cluster, PREFERRED, None) == (Code.NONE, {})


def test_a_preferred_replica_that_is_down_is_not_elected() -> None:
    cluster = a_cluster()
    cluster.broker_down(1, NOW)

    _, found = elect(cluster, PREFERRED, {ORDERS: [0]})

    assert found == {(ORDERS, 0): Code.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_unclean_election_is_held_only_where_nobody_leads() -> None:
    cluster = a_cluster(2, min_insync_replicas=1)
    cluster.broker_down(2, NOW)
    assert elect(cluster, UNCLEAN, {ORDERS: [0]})[1] == {(ORDERS, 0): Code.ELECTION_NOT_NEEDED}
    cluster.broker_down(1, NOW)
    assert elect(cluster, UNCLEAN, {ORDERS: [0]})[1] == {
        (ORDERS, 0): Code.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }
    cluster.broker_up(2, NOW)

    assert elect(cluster, UNCLEAN, {ORDERS: [0]})[1] == {(ORDERS, 0): Code.NONE}

    assert partition_of(cluster).leader == 2


def test_an_unknown_kind_of_election_is_refused() -> None:
    cluster = a_cluster()

    assert elect(cluster, 7, {ORDERS: [0]}) == (
        Code.INVALID_REQUEST,
        {(ORDERS, 0): Code.INVALID_REQUEST},
    )
    assert elect(cluster, 7, None) == (Code.INVALID_REQUEST, {})


# Reassignments.


def test_a_partition_moves_at_once_with_its_records() -> None:
    cluster = a_cluster(topics={})
    cluster.make_topic(ORDERS, [(1,)], {})
    write(cluster, b"value")

    assert reassign(cluster, [3, 2]) == (Code.NONE, None)

    moved = partition_of(cluster)
    assert (moved.replicas, moved.isr, moved.leader) == ((3, 2), [3, 2], 3)
    assert fetched(fetch(cluster, node=3)).high_watermark == 1
    assert produced(produce(cluster, b"late", node=1)).error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert write(cluster, b"more") == 1
    listed = ask(cluster, request("ListPartitionReassignments", timeout_ms=1000, topics=None), 0)
    assert listed.topics == []


def test_a_leader_that_stays_a_replica_goes_on_leading() -> None:
    cluster = a_cluster()

    assert reassign(cluster, [2, 1]) == (Code.NONE, None)

    assert partition_of(cluster).leader == 1
    assert partition_of(cluster).isr == [2, 1]


def test_what_waited_for_the_replica_that_is_removed_is_answered() -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 3)
    waiting = produce(cluster, b"value")
    assert waiting.waits

    reassign(cluster, [1, 2])

    assert produced(waiting).error_code == Code.NONE


def test_a_reassignment_outlives_a_restart() -> None:
    journal = Journal()
    reassign(a_cluster(journal=journal), [2, 1])

    assert partition_of(a_cluster(kept=journal.values())).replicas == (2, 1)


def test_groups_move_with_the_partition_that_coordinates_them() -> None:
    cluster = a_cluster(offsets_topic_partitions=1)
    coordinator = cluster.coordinator(GROUP_OFFSETS, "g")
    assert coordinator is not None
    others = [node for node in (1, 2, 3) if node != coordinator.node_id]

    assert reassign(cluster, others, topic=GROUP_OFFSETS)[0] is Code.NONE

    assert cluster.coordinates(others[0], GROUP_OFFSETS, "g")


@pytest.mark.parametrize(
    ("replicas", "code", "text"),
    [
        ([4], Code.INVALID_REPLICA_ASSIGNMENT, "broker 4, but no such broker is registered"),
        ([], Code.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        ([1, 1], Code.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
    ],
)
def test_replicas_that_make_no_sense_are_refused(
    replicas: list[int], code: Code, text: str
) -> None:
    cluster = a_cluster()

    refused = reassign(cluster, replicas)

    assert refused[0] is code
    assert text in str(refused[1])
    assert partition_of(cluster).replicas == (1, 2, 3)


def test_what_cannot_be_reassigned_is_refused() -> None:
    cluster = a_cluster(topics={})
    cluster.make_topic(ORDERS, [(1,)], {})

    assert reassign(cluster, [1], topic="nope") == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "Unable to find a topic named nope.",
    )
    assert reassign(cluster, [1], index=9) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "Unable to find partition orders:9.",
    )
    assert reassign(cluster, None)[0] is Code.NO_REASSIGNMENT_IN_PROGRESS
    resized = reassign(cluster, [1, 2], allow_replication_factor_change=False)
    assert resized[0] is Code.INVALID_REPLICATION_FACTOR
    cluster.broker_down(2, NOW)
    assert reassign(cluster, [1, 2])[0] is Code.INVALID_REPLICA_ASSIGNMENT
    assert partition_of(cluster).replicas == (1,)


# Transactions ended by hand.


def test_an_admin_ends_a_transaction_in_one_partition() -> None:
    cluster = a_cluster()
    marker = {
        "producer_id": 77,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [
            {"name": ORDERS, "partition_indexes": [0, 9]},
            {"name": "nope", "partition_indexes": [0]},
        ],
    }

    def codes(node: int) -> list[Code]:
        answer = ask(cluster, request("WriteTxnMarkers", markers=[marker]), 1, node)
        (result,) = answer.markers
        assert result.producer_id == 77
        return [Code(one.error_code) for topic in result.topics for one in topic.partitions]

    missing = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(2) == [Code.NOT_LEADER_OR_FOLLOWER, missing, missing]
    assert partition_of(cluster).log.end_offset == 0
    assert codes(1) == [Code.NONE, missing, missing]
    assert partition_of(cluster).log.end_offset == 1
