"""What an admin client may do to topics."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.groups.settings import GroupSettings
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    ask,
    fetch,
    fetched,
    latest,
    list_offset,
    partition_of,
    write,
)
from tests.unit.broker.harness import NOW

EARLIEST = -2


def create(
    cluster: Cluster, *topics: dict[str, Any], validate_only: bool = False, version: int = 7
) -> Any:
    message = request(
        "CreateTopics",
        timeout_ms=1000,
        validate_only=validate_only,
        topics=[{"num_partitions": -1, "replication_factor": -1, **topic} for topic in topics],
    )
    return ask(cluster, message, version).topics


def code_of(results: Any) -> Code:
    (result,) = results
    return Code(result.error_code)


def by_hand(*replicas: list[int]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": nodes} for index, nodes in enumerate(replicas)]


# CreateTopics.


def test_a_topic_is_made_as_asked() -> None:
    cluster = a_cluster(topics={})
    configs = [{"name": "retention.ms", "value": "1000"}]

    (made,) = create(
        cluster, {"name": "t", "num_partitions": 4, "replication_factor": 2, "configs": configs}
    )

    topic = cluster.topics.get("t")
    assert topic is not None
    assert made.error_code == Code.NONE
    assert (made.num_partitions, made.replication_factor) == (4, 2)
    assert made.topic_id == topic.topic_id
    assert [one.replicas for one in topic.partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert topic.configs == {"retention.ms": "1000"}
    assert {one.name: one.value for one in made.configs}["retention.ms"] == "1000"


def test_what_is_not_said_is_taken_from_the_settings() -> None:
    cluster = a_cluster(topics={}, partitions=5, replication_factor=1)

    (made,) = create(cluster, {"name": "t"})

    assert (made.num_partitions, made.replication_factor) == (5, 1)


def test_validation_makes_nothing() -> None:
    cluster = a_cluster(topics={})

    assert code_of(create(cluster, {"name": "t"}, validate_only=True)) is Code.NONE

    assert cluster.topics.names() == ()


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": ""}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "no good"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ORDERS}, Code.TOPIC_ALREADY_EXISTS),
        ({"name": "t", "num_partitions": 0}, Code.INVALID_PARTITIONS),
        ({"name": "t", "num_partitions": -2}, Code.INVALID_PARTITIONS),
        ({"name": "t", "replication_factor": 0}, Code.INVALID_REPLICATION_FACTOR),
        ({"name": "t", "replication_factor": -2}, Code.INVALID_REPLICATION_FACTOR),
        ({"name": "t", "replication_factor": 4}, Code.INVALID_REPLICATION_FACTOR),
        ({"name": "t", "configs": [{"name": "nonsense", "value": "1"}]}, Code.INVALID_CONFIG),
        ({"name": "t", "configs": [{"name": "retention.ms", "value": "x"}]}, Code.INVALID_CONFIG),
        ({"name": "t", "assignments": by_hand([])}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1, 1])}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1, 9])}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1], [1, 2])}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1], [1])[1:]}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1], [1])[:1] * 2}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "t", "assignments": by_hand([1]), "num_partitions": 1}, Code.INVALID_REQUEST),
        ({"name": "t", "assignments": by_hand([1]), "replication_factor": 1}, Code.INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_not_made(topic: Any, code: Code) -> None:
    cluster = a_cluster()

    (result,) = create(cluster, topic)

    assert Code(result.error_code) is code
    assert result.error_message
    assert cluster.topics.names() == (ORDERS,)


def test_replicas_may_be_said_one_by_one() -> None:
    cluster = a_cluster(topics={})

    (made,) = create(cluster, {"name": "t", "assignments": by_hand([3, 1], [2, 3])})

    topic = cluster.topics.get("t")
    assert topic is not None
    assert made.error_code == Code.NONE
    assert [one.replicas for one in topic.partitions] == [(3, 1), (2, 3)]
    assert [one.leader for one in topic.partitions] == [3, 2]


def test_names_that_differ_in_dots_and_underscores_only_collide() -> None:
    cluster = a_cluster(topics={"a.b": 1})

    assert code_of(create(cluster, {"name": "a_b"})) is Code.INVALID_TOPIC_EXCEPTION


def test_a_name_that_is_there_twice_is_refused_once() -> None:
    cluster = a_cluster(topics={})

    results = create(cluster, {"name": "t"}, {"name": "u"}, {"name": "t"})

    assert [(one.name, Code(one.error_code)) for one in results] == [
        ("t", Code.INVALID_REQUEST),
        ("u", Code.NONE),
    ]
    assert cluster.topics.names() == ("u",)


def test_more_partitions_than_a_request_may_ask_for_are_refused_at_once() -> None:
    cluster = a_cluster(topics={})
    half = {"num_partitions": 5001, "replication_factor": 1}

    results = create(cluster, {"name": "t", **half}, {"name": "u", **half})
    huge = create(cluster, {"name": "t", "num_partitions": 2**31 - 1, "replication_factor": 1})

    assert [Code(one.error_code) for one in results] == [Code.POLICY_VIOLATION] * 2
    assert code_of(huge) is Code.POLICY_VIOLATION
    assert cluster.topics.names() == ()


def test_a_new_topic_is_led_by_brokers_that_are_up() -> None:
    cluster = a_cluster(topics={})
    cluster.broker_down(1, NOW)

    create(cluster, {"name": "t", "num_partitions": 3})

    topic = cluster.topics.get("t")
    assert topic is not None
    assert {one.leader for one in topic.partitions} == {2, 3}
    assert all(1 not in one.isr for one in topic.partitions)
    cluster.broker_up(1, NOW)
    assert all(1 in one.isr for one in topic.partitions)


# DeleteTopics.


def delete(cluster: Cluster, *topics: dict[str, Any]) -> Any:
    return ask(cluster, request("DeleteTopics", topics=list(topics)), 6).responses


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(version: int) -> None:
    cluster = a_cluster(topics={"a": 1, "b": 1})

    results = ask(cluster, request("DeleteTopics", topic_names=["b", "c"]), version).responses

    assert [(one.name, Code(one.error_code)) for one in results] == [
        ("b", Code.NONE),
        ("c", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert cluster.topics.names() == ("a",)


def test_topics_are_deleted_by_id() -> None:
    cluster = a_cluster()
    topic_id = cluster.topics.topic_id(ORDERS)

    results = delete(
        cluster, {"name": None, "topic_id": topic_id}, {"name": None, "topic_id": UUID(int=9)}
    )

    assert [(one.name, Code(one.error_code)) for one in results] == [
        (ORDERS, Code.NONE),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert cluster.topics.names() == ()


def test_a_topic_that_is_named_twice_stays() -> None:
    cluster = a_cluster()
    topic_id = cluster.topics.topic_id(ORDERS)

    results = delete(cluster, {"name": ORDERS}, {"name": None, "topic_id": topic_id})
    both = delete(cluster, {"name": ORDERS, "topic_id": topic_id})
    neither = delete(cluster, {"name": None})

    assert {Code(one.error_code) for one in (*results, *both, *neither)} == {Code.INVALID_REQUEST}
    assert cluster.topics.names() == (ORDERS,)


def test_with_a_topic_its_committed_offsets_go() -> None:
    cluster = a_cluster()
    cluster.coordinator("__consumer_offsets", "g")
    node = cluster.coordinator("__consumer_offsets", "g")
    assert node is not None
    commit = request(
        "OffsetCommit",
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            {"name": ORDERS, "partitions": [{"partition_index": 0, "committed_offset": 5}]},
        ],
    )
    ask(cluster, commit, 8, node.node_id)

    delete(cluster, {"name": ORDERS})

    fetch_offsets = request("OffsetFetch", group_id="g", topics=None)
    assert ask(cluster, fetch_offsets, 7, node.node_id).topics == []


# CreatePartitions.


def grow(
    cluster: Cluster,
    count: int,
    *,
    topic: str = ORDERS,
    validate_only: bool = False,
    by: Any = None,
) -> Any:
    message = request(
        "CreatePartitions",
        timeout_ms=1000,
        validate_only=validate_only,
        topics=[{"name": topic, "count": count, "assignments": by}],
    )
    return ask(cluster, message, 3).results


def test_a_topic_grows() -> None:
    cluster = a_cluster()

    assert code_of(grow(cluster, 3)) is Code.NONE

    topic = cluster.topics.get(ORDERS)
    assert topic is not None
    assert [one.index for one in topic.partitions] == [0, 1, 2]
    assert {len(one.replicas) for one in topic.partitions} == {3}


def test_a_topic_grows_while_a_broker_is_down() -> None:
    cluster = a_cluster()
    cluster.broker_down(2, NOW)

    assert code_of(grow(cluster, 4)) is Code.NONE

    topic = cluster.topics.get(ORDERS)
    assert topic is not None
    assert all(one.leader != 2 and 2 not in one.isr for one in topic.partitions)
    cluster.broker_up(2, NOW)
    assert all(2 in one.isr for one in topic.partitions)


@pytest.mark.parametrize(
    ("count", "by", "code"),
    [
        (1, None, Code.INVALID_PARTITIONS),
        (0, None, Code.INVALID_PARTITIONS),
        (-5, None, Code.INVALID_PARTITIONS),
        (2**31 - 1, None, Code.POLICY_VIOLATION),
        (3, [{"broker_ids": [1, 2, 3]}], Code.INVALID_REPLICA_ASSIGNMENT),
        (2, [{"broker_ids": [1, 2]}], Code.INVALID_REPLICA_ASSIGNMENT),
        (2, [{"broker_ids": [1, 2, 9]}], Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_does_not_grow_like_that(count: int, by: Any, code: Code) -> None:
    cluster = a_cluster()

    (result,) = grow(cluster, count, by=by)

    assert Code(result.error_code) is code
    assert cluster.topics.partitions(ORDERS) == 1


def test_what_is_not_there_does_not_grow_and_validation_grows_nothing() -> None:
    cluster = a_cluster()

    assert code_of(grow(cluster, 3, topic="bills")) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(grow(cluster, 3, validate_only=True)) is Code.NONE

    assert cluster.topics.partitions(ORDERS) == 1


# DeleteRecords.


def empty(cluster: Cluster, offset: int, *, topic: str = ORDERS, node: int = 1) -> Any:
    message = request(
        "DeleteRecords",
        timeout_ms=1000,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}],
    )
    return ask(cluster, message, 2, node).topics[0].partitions[0]


def test_the_log_starts_where_the_records_are_left() -> None:
    cluster = a_cluster()
    for value in (b"a", b"b", b"c"):
        write(cluster, value)

    answer = empty(cluster, 2)

    assert (answer.error_code, answer.low_watermark) == (Code.NONE, 2)
    assert list_offset(cluster, EARLIEST).offset == 2
    assert fetched(fetch(cluster, 1)).error_code == Code.OFFSET_OUT_OF_RANGE


def test_minus_1_stands_for_all_that_is_replicated() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"b", acks=1)

    assert empty(cluster, -1).low_watermark == 1


@pytest.mark.parametrize("offset", [-2, 2])
def test_nothing_is_deleted_beyond_the_high_watermark(offset: int) -> None:
    cluster = a_cluster()
    write(cluster, b"a")

    answer = empty(cluster, offset)

    assert answer.error_code == Code.OFFSET_OUT_OF_RANGE
    assert partition_of(cluster).log.start_offset == 0


def test_records_are_deleted_by_the_leader_of_a_topic_that_may_be_deleted_from() -> None:
    cluster = a_cluster(topics={ORDERS: 1, "__consumer_offsets": 1})
    cluster.create_topic("compacted", 1, None, {"cleanup.policy": "compact"})
    internal = partition_of(cluster, "__consumer_offsets").leader
    compacted = partition_of(cluster, "compacted").leader

    codes = [
        empty(cluster, 0, node=2).error_code,
        empty(cluster, 0, topic="bills").error_code,
        empty(cluster, 0, topic="__consumer_offsets", node=internal).error_code,
        empty(cluster, 0, topic="compacted", node=compacted).error_code,
    ]

    assert [Code(one) for one in codes] == [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.POLICY_VIOLATION,
    ]


# DescribeConfigs.


def configs(cluster: Cluster, kind: int, name: str, *, keys: Any = None, node: int = 1) -> Any:
    message = request(
        "DescribeConfigs",
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
    )
    (result,) = ask(cluster, message, latest("DescribeConfigs"), node).results
    return result


TOPIC, BROKER = 2, 4


def test_a_topics_configs_are_described() -> None:
    cluster = a_cluster(topics={}, topic_configs={"retention.ms": "7"})
    cluster.create_topic(ORDERS, 1, None, {"max.message.bytes": "100"})

    result = configs(cluster, TOPIC, ORDERS, keys=["retention.ms", "max.message.bytes"])

    assert result.error_code == Code.NONE
    assert {one.name: one.value for one in result.configs} == {
        "retention.ms": "7",
        "max.message.bytes": "100",
    }


def test_a_brokers_configs_are_described_by_itself() -> None:
    cluster = a_cluster(partitions=5)

    result = configs(cluster, BROKER, "2", keys=["num.partitions"], node=2)

    assert [(one.name, one.value) for one in result.configs] == [("num.partitions", "5")]


def test_a_broker_says_who_and_where_it_is_as_set_in_its_file() -> None:
    cluster = a_cluster(racks=["a", "b", "c"])
    keys = ["advertised.listeners", "broker.id", "broker.rack", "listeners", "node.id"]

    result = configs(cluster, BROKER, "2", keys=keys, node=2)

    static = 4
    assert {one.name: (one.value, one.config_source) for one in result.configs} == {
        "advertised.listeners": ("PLAINTEXT://host-2:9002", static),
        "broker.id": ("2", static),
        "broker.rack": ("b", static),
        "listeners": ("PLAINTEXT://host-2:9002", static),
        "node.id": ("2", static),
    }


def test_a_broker_describes_the_settings_it_runs_with_and_not_kafkas() -> None:
    cluster = a_cluster(groups=GroupSettings(consumer_session_timeout=6.0, max_size=9))
    used = {
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "6000",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.session.timeout.ms": "1800000",
        "group.max.size": "9",
        "group.min.session.timeout.ms": "500",
    }

    result = configs(cluster, BROKER, "1", keys=list(used))

    assert {one.name: one.value for one in result.configs} == used
    kafkas_default = {one.name for one in result.configs if one.config_source == 5}
    assert kafkas_default == {"group.max.session.timeout.ms"}


@pytest.mark.parametrize("name", ["1", "x", "--1", "²", "1_0", "99999999999999999999", " 2"])
def test_no_broker_describes_another(name: str) -> None:
    result = configs(a_cluster(), BROKER, name, node=2)

    assert (result.error_code, result.configs) == (Code.INVALID_REQUEST, [])
    assert result.error_message


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "bills", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no good", Code.INVALID_TOPIC_EXCEPTION),
        (99, "x", Code.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_has_no_configs(kind: int, name: str, code: Code) -> None:
    assert configs(a_cluster(), kind, name).error_code == code
